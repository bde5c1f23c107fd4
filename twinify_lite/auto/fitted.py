"""What the automatic model leaves behind: the chain, its levels, and rows drawn from it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from twinify_lite.auto.chain import Link
from twinify_lite.auto.fine import bins_of, codes, with_heaps
from twinify_lite.auto.levels import Levels
from twinify_lite.cells import MISSING, Cells
from twinify_lite.encode import Cuts, decode, layout
from twinify_lite.encode.layout import from_codes, to_codes
from twinify_lite.errors import ArtifactError
from twinify_lite.schema import Schema
from twinify_lite.schema.scale import pack

if TYPE_CHECKING:
    from twinify_lite.schema.enforcing import Enforcer

Drawer = Callable[[np.ndarray, np.random.Generator], np.ndarray]

# Up to so many rows, or from so many levels of all columns on, no program is compiled to draw them: that takes longer.
_FEW, _WIDE = 2**19, 512
# Data sets whose samplers are kept: whoever draws all of a thousand needs each of them once.
_SAMPLERS = 4


@dataclass(frozen=True, eq=False, repr=False)
class Chained:
    """A fitted chain over the modelled columns of `schema`. All of it is below the privacy boundary."""

    kind: ClassVar[str] = "auto"
    datasets: ClassVar[int] = 1000
    #: Data set 0 is the best estimate; those from here on are draws.
    first_draw: ClassVar[int] = 1
    is_postprocessed: ClassVar[bool] = False

    schema: Schema
    levels: tuple[Levels, ...]
    links: tuple[Link, ...]
    settings: Mapping[str, Any]
    #: Of the fit that made it: which part of a column's cells is none of what the schema declares, if it is clear.
    outside: Mapping[str, float] = field(default_factory=dict)
    #: And of columns most of whose cells are so, or are missing or `other` where that may be a wrong declaration.
    misfits: Mapping[str, float] = field(default_factory=dict)
    #: And of each column the standard deviations of its levels' shares by their noise; none in a twin that was saved.
    spreads: tuple[np.ndarray, ...] = ()
    _samplers: dict[tuple[str, int], Any] = field(default_factory=dict)

    @property
    def cuts(self) -> Cuts:
        """Of a long range. Twins that do not say how often it is halved beside zero have equal bins."""
        return Cuts(self.settings["bins"], self.settings.get("halvings", 0))

    def generate(
        self,
        rows: int,
        *,
        dataset: int,
        rng: np.random.Generator,
        first: int = 0,
        total: int = 0,
        enforcer: Enforcer | None = None,
        dictionaries: bool = False,
    ) -> pa.Table:
        """`rows` rows of one data set, of `total` that are wanted: number 0 of the posterior's mode, every other of a
        draw from it."""
        working, bins, _ = self._working
        return decode(
            working,
            self.codes(rows, dataset=dataset, rng=rng, total=total),
            view="discrete",
            bins=bins,
            rng=rng,
            rows=rows,
            first=first,
            enforcer=enforcer or self._enforcer(),
            dictionaries=dictionaries,
        )

    def _enforcer(self) -> Enforcer | None:
        from twinify_lite.schema.enforcing import Enforcer

        return Enforcer(self.schema, self.pooled) if self.schema.constraints else None

    def codes(self, rows: int, *, dataset: int, rng: np.random.Generator, total: int = 0) -> dict[str, np.ndarray]:
        """The codes of as many rows by column, in the working schema's discrete view: no constraint is enforced."""
        drawn = self._levels(rows, dataset, rng, total)
        drawers = self._working[2]
        return {c.name: draw(found, rng) for c, draw, found in zip(self.schema.modelled, drawers, drawn, strict=True)}

    def cells(self, codes: Mapping[str, np.ndarray], rng: np.random.Generator) -> dict[str, Cells]:
        """Cells with these codes."""
        working, bins, _ = self._working
        return {c.name: from_codes(c, layout(c, bins[c.name]), codes[c.name], rng) for c in working.modelled}

    def levels_of(self, name: str, cells: Cells) -> np.ndarray:
        """The level of each cell of one column."""
        working, bins, _ = self._working
        number = [column.name for column in working.modelled].index(name)
        return self.levels[number].of_code[to_codes(working[name], layout(working[name], bins[name]), cells)]

    @functools.cached_property
    def pooled(self) -> dict[str, np.ndarray]:
        """By column, the values without order that noise has pooled, as constraints compare them."""
        codes = {c.name: np.flatnonzero(one.pooled) for c, one in zip(self.schema.modelled, self.levels, strict=True)}
        found = self.cells(codes, np.random.default_rng(0))
        return {name: pack(cells)[cells.state != MISSING] for name, cells in found.items()}

    @functools.cached_property
    def _working(self) -> tuple[Schema, dict[str, int], list[Drawer]]:
        """The schema with its heaps, the bins of its columns, and what draws their codes: once for all batches."""
        from twinify_lite.auto.drawing import code_drawer

        working = with_heaps(self.schema)
        bins = {column.name: bins_of(column, self.cuts) for column in working.modelled}
        return working, bins, [code_drawer(levels.of_code, levels.weights) for levels in self.levels]

    def _levels(self, rows: int, dataset: int, rng: np.random.Generator, total: int) -> list[np.ndarray]:
        if total <= _FEW or sum(levels.size for levels in self.levels) > _WIDE:
            return self._sampler("walker", dataset)(rng, rows)
        import jax

        parts, made = [], 0
        while made < rows:
            key = jax.random.key(int(rng.integers(2**63)))
            parts.append(self._sampler("sampler", dataset)(key, rows - made))
            made += len(parts[-1][0])
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def _sampler(self, how: str, dataset: int) -> Any:
        """What draws the levels of one data set's rows, made once for all its batches, and kept for a few sets."""
        from twinify_lite.auto import drawing, walking

        if (how, dataset) not in self._samplers:
            while len(self._samplers) >= _SAMPLERS:
                self._samplers.pop(next(iter(self._samplers)), None)
            lines = [levels.line for levels in self.levels]
            links = self.links if dataset == 0 else drawing.posterior_draw(self.links, lines, dataset)
            make = {"walker": walking.walker, "sampler": drawing.sampler}[how]
            self._samplers[how, dataset] = make(links)
        return self._samplers[how, dataset]

    def describe(self) -> dict[str, Any]:
        """Public facts for people."""
        return {
            "model": "auto: each column given those before it, fitted to noisy tables",
            "order": [self.schema.modelled[link.column].name for link in self.links],
            "pairs": sum(len(link.parents) for link in self.links),
            "levels": {c.name: levels.size for c, levels in zip(self.schema.modelled, self.levels, strict=True)},
            "settings": dict(self.settings),
        }

    def notes(self) -> tuple[str, ...]:
        """What the user should know of this fit, in sentences."""
        from twinify_lite.auto.notes import notes

        return notes(self)

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, str]]:
        """JSON, arrays and texts for the artifact."""
        meta = {
            "settings": dict(self.settings),
            "links": [{"column": link.column, "parents": list(link.parents)} for link in self.links],
        }
        arrays = {}
        for number, levels in enumerate(self.levels):
            arrays[f"level.{number}"] = levels.of_code.astype(np.int32)
            arrays[f"weight.{number}"] = levels.weights
            arrays[f"line.{number}"] = levels.line.astype(np.int32)
        for link in self.links:
            arrays[f"bias.{link.column}"] = link.bias.astype(np.float32)
            arrays[f"shares.{link.column}"] = link.shares.astype(np.float32)
            for parent, effects, spread in zip(link.parents, link.effects, link.spread, strict=True):
                arrays[f"effects.{link.column}.{parent}"] = effects.astype(np.float32)
                arrays[f"spread.{link.column}.{parent}"] = spread.astype(np.float32)
        return meta, arrays, {}

    @classmethod
    def from_parts(
        cls,
        meta: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        texts: Mapping[str, str],
        schema: Schema,
        *,
        model_file: str | None = None,
        trust_model: bool = False,
    ) -> Chained:
        """The inverse of `parts`; what does not fit together is refused."""
        try:
            levels = tuple(_levels_from(arrays, number) for number in range(len(schema.modelled)))
            links = tuple(_link_from(entry, arrays) for entry in meta["links"])
            settings = dict(meta["settings"])
        except (KeyError, TypeError, ValueError, IndexError):
            raise ArtifactError("The twin's model is not whole. Fit the twin again.") from None
        made = cls(schema, levels, links, settings)
        _require_whole(made)
        return made


def _levels_from(arrays: Mapping[str, np.ndarray], number: int) -> Levels:
    of_code, line = arrays[f"level.{number}"], arrays[f"line.{number}"]
    if of_code.dtype.kind != "i" or line.dtype.kind != "i":
        raise ValueError
    return Levels(of_code.astype(np.int64), _floats(arrays[f"weight.{number}"]), line.astype(np.int64))


def _link_from(entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Link:
    column, parents = int(entry["column"]), tuple(map(int, entry["parents"]))
    return Link(
        column,
        parents,
        _floats(arrays[f"bias.{column}"]),
        tuple(_floats(arrays[f"effects.{column}.{parent}"]) for parent in parents),
        tuple(_floats(arrays[f"spread.{column}.{parent}"]) for parent in parents),
        _floats(arrays[f"shares.{column}"]),
    )


def _floats(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "f":
        raise ValueError
    return array.astype(np.float64)


def _require_whole(made: Chained) -> None:
    """Shapes and numbers that drawing rests on: a file may come from anywhere."""
    schema, levels, links = made.schema, made.levels, made.links
    sizes = [one.size for one in levels]
    working = with_heaps(schema)
    bins, halvings = (made.settings.get(name, least) for name, least in (("bins", None), ("halvings", 0)))
    if not (type(bins) is type(halvings) is int and 1 <= bins <= 2**16 and 0 <= halvings <= 64):
        raise ArtifactError("The twin's model has no number of bins. Fit the twin again.")
    sound = sorted(link.column for link in links) == list(range(len(levels))) and all(
        one.of_code.shape == one.weights.shape == (codes(column, made.cuts).size,)
        and one.line.ndim == 1
        and set(one.of_code.tolist()) == set(range(one.size))
        and (one.weights >= 0).all()
        and np.isfinite(one.weights).all()
        for column, one in zip(working.modelled, levels, strict=True)
    )
    before: set[int] = set()
    for link in links:
        sound = (
            sound
            and set(link.parents) <= before
            and link.bias.shape == link.shares.shape == (sizes[link.column],)
            and all(e.shape == (sizes[p], sizes[link.column]) for p, e in zip(link.parents, link.effects, strict=True))
            and all(s.shape == (sizes[p], sizes[link.column]) for p, s in zip(link.parents, link.spread, strict=True))
            and (link.shares > 0).all()
            and all(np.isfinite(x).all() for x in (link.bias, link.shares, *link.effects, *link.spread))
        )
        before.add(link.column)
    if not sound:
        raise ArtifactError("The twin's model does not fit its schema. Fit the twin again.")

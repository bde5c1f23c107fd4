"""The automatic model: noisy counts of single columns and of pairs, and a chain of regressions fitted to them.

    codes -> noisy counts -> levels -> (coarse noisy pairs -> the strongest) -> noisy pairs -> chain

Rows are seen three times at most, through `tables.release`; all that follows is post-processing.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twinify_lite.accountant import Gaussian
from twinify_lite.auto import outside, rules, tables
from twinify_lite.auto.choice import groups, strongest
from twinify_lite.auto.fine import Codes, bins_of, codes, with_heaps
from twinify_lite.auto.fitted import Chained
from twinify_lite.auto.levels import Levels, merge
from twinify_lite.auto.margins import Margins, Pair, combine
from twinify_lite.auto.rules import Settings
from twinify_lite.auto.tables import Noisy
from twinify_lite.checkpoint import Checkpoint
from twinify_lite.encode import encode
from twinify_lite.ledger import Ledger
from twinify_lite.receipt import Receipt
from twinify_lite.schema import Schema
from twinify_lite.table import PrivateTable

__all__ = ["Auto", "Chained"]

# The power of a table's cells by which it weighs among the pairs.
_SMALL = -0.1
# A declared range of so few steps is a scale, the ends of which are there: nobody declares grades 1 to 16 for 2 to 16.
_SCALE = 32
# Columns of at most so many levels come last in the chain.
_PREDICTED = 3

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be released and with how much noise, fixed before anything is seen."""

    settings: Settings
    noise: Mapping[str, float]
    #: Columns whose range is declared, and not found; and those whose levels are.
    ranges: frozenset[str] = frozenset()
    levels: frozenset[str] = frozenset()

    def pay(self, ledger: Ledger) -> dict[str, Receipt]:
        """Spend for all releases in the ledger's current stage."""
        return {what: ledger.spend(Gaussian(noise_multiplier=noise), what) for what, noise in self.noise.items()}

    def settings_with(self, _receipts: Mapping[str, Receipt]) -> dict[str, Any]:
        """For `--dry-run`: what a fit would do, with any noise."""
        return self.settings.to_json()


@dataclass(frozen=True)
class Auto:
    """The family of automatic models. `target` is a column that others will want to predict; the schema that was given
    names those that are `declared`."""

    target: str | None = None
    declared: frozenset[str] = frozenset()
    name: str = "auto"
    notes: tuple[str, ...] = ()
    #: It is made of whatever columns and kinds are found.
    names_columns: ClassVar[bool] = False

    def prepare(self, table: PrivateTable) -> PrivateTable:
        """The table as it is: only declared models have something to do before."""
        return table

    def made_columns(self, _schema: Schema) -> list[str]:
        """None but those of the schema."""
        return []

    def plan(self, schema: Schema, rows: int, noise_multiplier: float, options: Mapping[str, Any]) -> Plan:
        """Divide a budget that would pay for one Gaussian release of `noise_multiplier`.

        Several Gaussian releases are as private as one whose noise^-2 is the sum of theirs.
        """
        settings = rules.settle(schema, rows, noise_multiplier, target=self.target, options=options)
        parts = {"single columns": settings.single, "choice of pairs": settings.choice, "pairs": settings.pairs}
        noise = {what: noise_multiplier / math.sqrt(part) for what, part in parts.items() if part > 0}
        ranges = (column.name for column in schema.modelled if column.is_ranged and not {"min", "max"} & {*column.open})
        levels = (column.name for column in schema.modelled if column.is_levelled and "levels" not in column.open)
        return Plan(settings=settings, noise=noise, ranges=frozenset(ranges), levels=frozenset(levels))

    def check(self, schema: Schema, plan: Plan) -> None:
        """Nothing: only declared models have code that could be wrong."""

    def done(self, plan: Plan, kept: Mapping[str, np.ndarray]) -> tuple[set[str], dict[str, int]]:
        """Which releases a checkpoint holds; none of them runs again. The second is for models that take steps."""
        return {what for what in plan.noise if f"{what}.0.counts" in kept}, {}

    def fit(
        self,
        plan: Plan,
        schema: Schema,
        table: PrivateTable,
        receipts: Mapping[str, Receipt],
        *,
        progress: Progress,
        checkpoint: Checkpoint,
    ) -> Chained:
        """Count, choose, count again, and fit the chain. `schema` is complete."""
        settings, working = plan.settings, with_heaps(schema)
        kept = Kept(checkpoint)
        progress("reading", 0, 1)
        bins = {column.name: bins_of(column, settings.cuts) for column in working.modelled}
        encoded = encode(outside.hearing_all(working), table, view="discrete", bins=bins)
        given = [schema[column.name].heaps or () for column in working.modelled]
        fine = [codes(column, settings.cuts, heaps) for column, heaps in zip(working.modelled, given, strict=True)]
        columns = [encoded.pop(column.name) for column in working.modelled]
        counts = kept.or_made("single columns", lambda: _single(receipts["single columns"], columns, fine))
        rows = outside.rows_of(counts, outside.rows_counted(receipts, settings.rows))
        known = {"declared": self.declared, "levels": plan.levels}
        misfits = outside.misfits(working.modelled, settings.cuts, counts, rows, **known)
        inside = outside.parts_inside(counts, rows)
        counts = [outside.made_whole(*one) for one in zip(counts, inside, strict=True)]
        short = [c.name in plan.ranges and len(f.line) <= _SCALE for c, f in zip(working.modelled, fine, strict=True)]
        levels = _levels(fine, counts, short)
        ends = [_ends(*of) for of in zip(levels, fine, short, strict=True)]
        for number, one in enumerate(levels):
            columns[number] = _and_none(one.of_code, one.size).astype(np.min_scalar_type(one.size))[columns[number]]
        single = [_by_level(one, count) for one, count in zip(levels, counts, strict=True)]
        pairs = self._pairs(
            settings,
            schema,
            receipts,
            columns,
            levels,
            combine(single, {}, [one.alone for one in levels], ends),
            inside,
            progress,
            kept,
        )
        del columns, encoded
        found = _fitted(settings, schema, levels, ends, single, pairs, progress)
        lacking = {c.name: 1 - part for c, part in zip(schema.modelled, inside.tolist(), strict=True) if part < 1}
        return dataclasses.replace(found, outside=lacking, misfits=misfits)

    def _pairs(
        self,
        settings: Settings,
        schema: Schema,
        receipts: Mapping[str, Receipt],
        columns: list[np.ndarray],
        levels: list[Levels],
        margins: Margins,
        inside: np.ndarray,
        progress: Progress,
        kept: Kept,
    ) -> dict[Pair, Noisy]:
        if not settings.measured_pairs:
            return {}
        names = [column.name for column in schema.modelled]
        target = names.index(self.target) if self.target in names else None
        chosen = list(itertools.combinations(range(len(columns)), 2))
        if "choice of pairs" in receipts:
            coarse = [groups(one, shares) for one, shares in zip(levels, margins.shares, strict=True)]
            sizes = [int(group.max()) + 1 for group in coarse]
            seen = [_and_none(*of)[column] for *of, column in zip(coarse, sizes, columns, strict=True)]
            looked = kept.or_made(
                "choice of pairs",
                lambda: _release(receipts["choice of pairs"], chosen, seen, sizes, None, settings, progress),
            )
            tables_of = _whole_pairs(chosen, looked, inside)
            chosen = strongest(tables_of, coarse, margins, settings.measured_pairs, target)
        wide = [one.size for one in levels]
        measured = kept.or_made(
            "pairs", lambda: _release(receipts["pairs"], chosen, columns, wide, target, settings, progress)
        )
        return _whole_pairs(chosen, measured, inside)


def _and_none(of: np.ndarray, size: int) -> np.ndarray:
    """What each code becomes, and that a code after all of them, which stands for none, becomes `size`, which counts
    nowhere."""
    return np.append(of, size)


def _whole_pairs(pairs: list[Pair], measured: list[Noisy], inside: np.ndarray) -> dict[Pair, Noisy]:
    """The tables by their pairs, as they would be if every row had cells that count in both columns."""
    return {
        (i, j): outside.made_whole(table, inside[i] * inside[j]) for (i, j), table in zip(pairs, measured, strict=True)
    }


class Kept:
    """Releases that are saved as soon as they are made, and not made again."""

    def __init__(self, checkpoint: Checkpoint):
        self._checkpoint = checkpoint
        self._arrays = checkpoint.load() or {}

    def or_made(self, what: str, make: Callable[[], list[Noisy]]) -> list[Noisy]:
        """The release `what`: from the checkpoint, or made now and saved."""
        if f"{what}.0.counts" not in self._arrays:
            for number, noisy in enumerate(make()):
                self._arrays |= noisy.to_parts(f"{what}.{number}")
            self._checkpoint.save(self._arrays)
        numbers = itertools.takewhile(lambda n: f"{what}.{n}.counts" in self._arrays, itertools.count())
        return [Noisy.from_parts(self._arrays, f"{what}.{number}") for number in numbers]


def _single(receipt: Receipt, columns: list[np.ndarray], fine: list[Codes]) -> list[Noisy]:
    counted = (tables.one_way(column, one.size) for column, one in zip(columns, fine, strict=True))
    return tables.release(receipt, counted, [1.0] * len(columns))


def _levels(fine: list[Codes], counts: list[Noisy], short: list[bool]) -> list[Levels]:
    rows = max(1.0, float(np.median([count.counts.sum() for count in counts])))
    return [
        merge(one, count.counts, count.noise, rows, has_ends=has_ends)
        for one, count, has_ends in zip(fine, counts, short, strict=True)
    ]


def _ends(levels: Levels, fine: Codes, has_ends: bool) -> np.ndarray:
    """Which levels have an end of the line in them that is known to be there."""
    return np.isin(np.arange(levels.size), levels.of_code[fine.line[[0, -1]]] if has_ends else ())


def _by_level(levels: Levels, noisy: Noisy) -> tuple[np.ndarray, np.ndarray]:
    """Counts of levels, and their variances."""
    counts = np.bincount(levels.of_code, weights=noisy.counts, minlength=levels.size)
    return counts, noisy.noise**2 * np.bincount(levels.of_code, minlength=levels.size)


def _release(
    receipt: Receipt,
    pairs: list[Pair],
    columns: list[np.ndarray],
    sizes: list[int],
    target: int | None,
    settings: Settings,
    progress: Progress,
) -> list[Noisy]:
    def counted() -> Iterator[np.ndarray]:
        for number, (i, j) in enumerate(pairs):
            progress("counting", number, len(pairs))
            yield tables.two_way(columns[i], columns[j], (sizes[i], sizes[j]))

    weights = [_weight(pair, sizes, target, settings) for pair in pairs]
    return tables.release(receipt, counted(), weights)


def _weight(pair: Pair, sizes: list[int], target: int | None, settings: Settings) -> float:
    """Of a table beside others: small ones, which say most about columns of few levels, a little more; the target's."""
    wanted = settings.target_weight if target in pair else 1.0
    return wanted * (sizes[pair[0]] * sizes[pair[1]]) ** _SMALL


def _fitted(
    settings: Settings,
    schema: Schema,
    levels: list[Levels],
    ends: list[np.ndarray],
    single: list[tuple[np.ndarray, np.ndarray]],
    pairs: dict[Pair, Noisy],
    progress: Progress,
) -> Chained:
    from twinify_lite.auto.chain import fit_chain
    from twinify_lite.auto.functions import find_functions, pool

    alone = [one.alone for one in levels]
    functions = find_functions(pairs, combine(single, pairs, alone, ends))
    single, pairs = pool(functions, single, pairs)
    margins = combine(single, pairs, alone, ends)
    links = fit_chain(
        margins,
        pairs,
        [one.line for one in levels],
        _order(schema, levels, settings.target),
        functions,
        particles=settings.particles,
        progress=lambda done, total: progress("fitting", done, total),
    )
    return Chained(schema, tuple(levels), links, settings.to_json(), spreads=margins.spreads)


def _order(schema: Schema, levels: list[Levels], target: str | None) -> list[int]:
    """Columns with few levels first: their tables are the clearest, and what comes later leans on what came before.

    The target is last, and before it columns of two or three levels: those are best predicted from all others, where
    from their first place they would be told by as many noisy effects as there are columns.
    """
    names, sizes = [column.name for column in schema.modelled], [one.size for one in levels]
    return sorted(range(len(levels)), key=lambda i: (names[i] == target, sizes[i] <= _PREDICTED, sizes[i]))

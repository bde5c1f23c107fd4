"""`check_model`: the mistakes of a model, found on made-up rows and told in the user's words, not in JAX's."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp

from twinify_lite.errors import ModelError
from twinify_lite.models.likelihoods import Blend
from twinify_lite.models.processing import made_up_frame, postprocess_problems, preprocess_problems
from twinify_lite.models.products import Settled
from twinify_lite.models.program import Look
from twinify_lite.models.resolving import find_source, resolve
from twinify_lite.models.trial import column_sites, try_model
from twinify_lite.models.units import state_site
from twinify_lite.schema import Schema
from twinify_lite.schema.draft import draft, fill
from twinify_lite.table import PrivateTable

# So many columns, and so many problems, are shown: a screen.
_COLUMNS, _PROBLEMS = 15, 5
# Made-up rows that `preprocess` is given.
_ROWS = 64


class Site(NamedTuple):
    """What a column is in a model: its distribution, and what the site sees of a cell."""

    distribution: str
    value: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What was found. `problems` is empty if the model can be fitted; each is a sentence with the fix."""

    model: str
    problems: tuple[str, ...] = ()
    latents: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    columns: Mapping[str, Site] = dataclasses.field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def require(self) -> Report:
        """Itself, or one `ModelError` for its problems."""
        if self.problems:
            raise ModelError(str(self))
        return self

    def __str__(self) -> str:
        """A screen at most."""
        if self.problems:
            more = len(self.problems) - _PROBLEMS
            return "\n".join([*self.problems[:_PROBLEMS], *[f"... and {more} more problems."] * (more > 0)])
        if not self.columns:
            return f"{self.model} fits any table."
        return "\n".join([f"{self.model} fits the table: {self._counts()}.", *self._table()])

    def _counts(self) -> str:
        columns, latents = len(self.columns), len(self.latents)
        numbers = sum(math.prod(shape) for shape in self.latents.values())
        return (
            f"{columns} column{'s' * (columns != 1)}, {latents} latent{'s' * (latents != 1)} or "
            f"parameter{'s' * (latents != 1)} with {numbers} number{'s' * (numbers != 1)}"
        )

    def _table(self) -> Iterator[str]:
        shown = [(name, *site) for name, site in list(self.columns.items())[:_COLUMNS]]
        lines = [("column", "distribution", "value at its site"), *shown]
        widths = [max(len(line[place]) for line in lines) for place in range(2)]
        for name, distribution, value in lines:
            yield f"{name:<{widths[0]}}  {distribution:<{widths[1]}}  {value}"
        if len(self.columns) > _COLUMNS:
            yield f"... and {len(self.columns) - _COLUMNS} columns more, which --json lists."


def check_on(
    model: Any, table: PrivateTable, declared: Schema | None = None, *, options: Mapping[str, Any] | None = None
) -> Report:
    """`check_model` with the columns that a fit of `table` would have: those that `preprocess` makes of it, if any.

    Of the table only names and kinds are used: `preprocess` is run on made-up rows. `declared` speaks of the columns
    that the model sees, as in a fit.
    """
    raw = draft(table)
    found = resolve(model, declared or raw)
    source = getattr(found, "source", None)
    if source is None or source.preprocess is None:
        return check_model(model, fill(declared, table), options=options)
    prepared = found.prepare(PrivateTable(made_up_frame(raw, _ROWS)))
    return check_model(model, fill(declared, prepared), options=options, raw=raw)


def check_model(
    model: Any, schema: Schema, *, options: Mapping[str, Any] | None = None, raw: Schema | None = None
) -> Report:
    """Try `model` on made-up rows of `schema` and report every mistake that shows. No data is read, nothing is spent.

    `model` is all that `resolve` takes. What the schema leaves open is made up too. `raw` are the columns before
    `preprocess`, where those are others.
    """
    name = str(getattr(model, "__name__", model))
    if name == "auto":  # made by the package for any table
        return Report(model=name)
    try:
        source = find_source(model, schema)
    except ModelError as error:
        return Report(model=name, problems=tuple(str(error).split("\n")))
    trial = try_model(source, schema, options or {})
    processing = [*preprocess_problems(source, schema if raw is None else raw), *postprocess_problems(source, schema)]
    problems = tuple(dict.fromkeys([*processing, *trial.problems]))
    if problems:
        return Report(model=source.name, problems=problems)
    return Report(model=source.name, latents=_latents(trial.seen, column_sites(schema)), columns=_columns(trial.seen))


def _latents(seen: Look, columns: frozenset[str]) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(jnp.shape(site["value"]))
        for name, site in seen.sites.items()
        if site["type"] == "param" or (site["type"] == "sample" and name not in columns)
    }


_VALUES = {
    "place": "place in [-1, 1]",
    "share": "share of max",
    "interval": "place in the interval",
    "count": "whole number",
    "code": "code of its level",
}


def _columns(seen: Look) -> dict[str, Site]:
    return {
        name: Site(
            _distribution(seen.sites[name]["fn"]),
            _VALUES[unit.name] + (f", and {state_site(name)}" if unit.states > 1 else ""),
        )
        for name, unit in seen.program.units.items()
    }


def _distribution(fn: Any) -> str:
    """What users call a distribution, without what NumPyro or this package wrapped around it."""
    if isinstance(fn, Blend | Settled):
        return f"mixture of {_distribution(fn.component)}"
    name = type(fn).__name__
    if name in ("MaskedDistribution", "ExpandedDistribution", "Independent"):
        return _distribution(fn.base_dist)
    if "Truncated" in name:
        return f"truncated {_distribution(fn.base_dist)}"
    for ending in ("Distribution", "Logits", "Probs"):
        name = name.removesuffix(ending)
    return name

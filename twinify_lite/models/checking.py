"""`check_model`: the mistakes of a model, found on made-up rows and told in the user's words, not in JAX's."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array
from numpyro import handlers

from twinify_lite.dpsvi import rows as row_checks
from twinify_lite.errors import ModelError
from twinify_lite.models.guessing import made_up_schema
from twinify_lite.models.likelihoods import Blend
from twinify_lite.models.processing import processing_problems
from twinify_lite.models.products import Settled
from twinify_lite.models.program import Look, Program, Sites, look, made_up_arrays
from twinify_lite.models.resolving import find_source
from twinify_lite.models.rows import PLATE
from twinify_lite.models.source import Source
from twinify_lite.models.units import state_site
from twinify_lite.schema import Schema

_ROWS = 64
# So many columns, and so many problems, are shown: a screen.
_COLUMNS, _PROBLEMS = 15, 5


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


def check_model(model: Any, schema: Schema, *, options: Mapping[str, Any] | None = None) -> Report:
    """Try `model` on made-up rows of `schema` and report every mistake that shows. No data is read, nothing is spent.

    `model` is all that `resolve` takes. What the schema leaves open is made up too.
    """
    name = str(getattr(model, "__name__", model))
    if name == "auto":  # made by the package for any table
        return Report(model=name)
    try:
        source = find_source(model, schema)
    except ModelError as error:
        return Report(model=name, problems=tuple(str(error).split("\n")))
    problems = list(processing_problems(source, schema))
    seen = look(source, made_up_schema(schema), options or {})
    columns = _column_sites(schema)
    problems += [*seen.problems, *latent_problems(source, seen.sites, columns)]
    if seen.program is None or problems:
        return Report(model=source.name, problems=tuple(dict.fromkeys(problems)))
    problems += fit_problems(seen.program)
    return Report(
        model=source.name,
        problems=tuple(dict.fromkeys(problems)),
        latents=_latents(seen, columns),
        columns=_columns(seen),
    )


def latent_problems(source: Source, sites: Sites, columns: frozenset[str]) -> Iterator[str]:
    """Latents that DPSVI has no gradient or no guide for."""
    for name, site in sites.items():
        if site["type"] != "sample" or site["is_observed"] or name in columns:
            continue
        if site["fn"].support.is_discrete:
            yield (
                f"Site {name!r} is a discrete latent variable, which has no gradient. Sum it out: "
                "twinify_lite.models.Mixture does so for columns that depend on a kind of row."
            )
        elif _in_plate(site) and isinstance(source.guide, str):
            yield (
                f"Site {name!r} belongs to one row each, and {source.guide} would hold a value for every row. "
                "Write `def guide(rows):` that predicts it from the row, or move the site out of `with rows:`. If it "
                "is a column, name it as the column is named."
            )


def fit_problems(program: Program) -> list[str]:
    """What shows only when rows are given: rows that mix, and densities or gradients that are not finite."""
    table = {name: jnp.asarray(array) for name, array in program.encode(made_up_arrays(program.schema, _ROWS)).items()}
    try:
        guide = program.guide()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row_checks.find_structure(program.model, guide, (table,), {"N": _ROWS}, PLATE)
    except Exception as error:  # whatever the user's code raises, on rows that are made up
        return [program.source.locate(error)]
    return list(_not_finite(program, table))


def _not_finite(program: Program, table: Mapping[str, Array]) -> Iterator[str]:
    """Sites and latents with a density or a gradient that is not a number, at the initial values."""
    start = program.start

    def densities(latents: Mapping[str, Array]) -> dict[str, Array]:
        fixed = handlers.substitute(handlers.seed(program.model, jax.random.key(0)), data=dict(latents))
        sites = handlers.trace(fixed).get_trace(table, _ROWS)
        return {n: jnp.sum(s["fn"].log_prob(s["value"])) for n, s in sites.items() if s["type"] == "sample"}

    def total(latents: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        each = densities(latents)
        return sum(each.values()), each

    slopes, found = jax.jit(jax.grad(total, has_aux=True))(start)
    broken = [name for name, value in found.items() if not jnp.isfinite(value)]
    for name in broken:
        yield (
            f"Site {name!r} has a density that is not finite on made-up rows. Look for a scale that can be 0 or "
            "negative, a logarithm of 0, or an exponential that overflows."
        )
    if broken:
        return
    for name, slope in slopes.items():
        if not jnp.all(jnp.isfinite(slope)):
            yield (
                f"The gradient with respect to {name!r} is not finite on made-up rows, though the density is. Look for "
                "sqrt or abs at 0, a division by 0 behind `jnp.where`, or a clamped logarithm."
            )


def _column_sites(schema: Schema) -> frozenset[str]:
    return frozenset(site for column in schema.modelled for site in (column.name, state_site(column.name)))


def _in_plate(site: dict[str, Any]) -> bool:
    return PLATE in {frame.name for frame in site["cond_indep_stack"]}


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

"""A model without Python: the `distribution` lines of schema.toml, fitted as a mixture of products.

    [columns.age]
    kind = "integer"
    distribution = "Poisson"

Each column has its distribution within each of several components; the component is summed out. A column without a
line gets one by its kind. The option `components` says how many there are (default: 8).

Latents of one role are one array over all columns that have it, so that a wide table does not make a long program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array
from numpyro.distributions import Distribution

from twinify_lite.models.families import COUNTS, FAMILIES, Categorical
from twinify_lite.models.likelihoods import hurdle, zero_inflated
from twinify_lite.models.products import Part, sample_products
from twinify_lite.models.rows import Rows
from twinify_lite.models.source import Source, digest
from twinify_lite.models.units import state_site
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.distributions import spelled

COMPONENTS = 8
_BY_KIND = {"boolean": "Categorical", "category": "Categorical", "ordinal": "Categorical"}
_FORMS = {"ZeroInflated": zero_inflated, "Hurdle": hurdle}
_LOC, _SCALE, _ZERO, _WEIGHTS = "components:loc", "components:scale", "components:zero", "components:weights"


def source_from_lines(schema: Schema) -> Source:
    """The model that the lines of `schema` say. Its code is the package's own, so it has no text."""
    lines = "\n".join(f"{column.name!r}: {line_of(column)}" for column in schema.modelled)
    return Source(name="lines", origin="lines", model=model, start=start, sha256=digest(lines))


def line_of(column: Column) -> str:
    """The column's distribution, or that of its kind."""
    return column.distribution or _BY_KIND.get(column.kind, "Normal")


def model(rows: Rows) -> None:
    """Weights of the components, then every column within them."""
    components = rows.option("components", COMPONENTS)
    weights = numpyro.sample(_WEIGHTS, dist.Dirichlet(jnp.full(components, 2.0), validate_args=False))
    parts = [*_states(rows, components), *_columns(rows, components)]
    with rows:
        sample_products(rows, jnp.log(weights), parts)


def start(rows: Rows) -> dict[str, Any]:
    """Components start apart from each other: from one place they would all follow the same gradient."""
    components = rows.option("components", COMPONENTS)
    generator = np.random.Generator(np.random.PCG64(0))
    placed = _placed(_groups(rows))
    values: dict[str, Any] = {_WEIGHTS: jnp.full(components, 1 / components)}
    if placed:
        middles = np.array([[_middle(rows.columns[name])] for name in placed])
        values[_LOC] = middles + generator.uniform(-0.7, 0.7, (len(placed), components))
    return values


def _middle(column: Column) -> float:
    """Of the prior of the column's `loc`. That of a count is the logarithm of a tenth of its `max`."""
    family = spelled(line_of(column))[1]
    return float(np.log(max(1.0, column.max / 10))) if family in COUNTS else FAMILIES[family].loc[0]


def _highest(column: Column) -> float:
    """What `loc` counts as at most: a rate of ten times `max`."""
    return float(np.log(10 * max(1, column.max))) if spelled(line_of(column))[1] in COUNTS else np.inf


# -- latents ----------------------------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Columns with the same line, and as many levels where the line has levels (0 elsewhere)."""

    form: str | None
    family: str
    levels: int
    names: tuple[str, ...]


def _groups(rows: Rows) -> list[Group]:
    found: dict[tuple[str | None, str, int], list[str]] = {}
    for name, column in rows.columns.items():
        form, family = spelled(line_of(column))
        found.setdefault((form, family, _levels(rows, name, family)), []).append(name)
    return [Group(*key, tuple(names)) for key, names in found.items()]


def _levels(rows: Rows, name: str, family: str) -> int:
    """Missing levels are a level of a Categorical; of the others `name:state` tells."""
    column = rows.columns[name]
    if family == "Ordinal":
        return len(column.levels) + (column.other is not None)
    return rows.levels(name) if family == "Categorical" else 0


def _placed(groups: Iterable[Group]) -> list[str]:
    """The columns that have a `loc`, in the order of its rows."""
    return [name for group in groups if FAMILIES[group.family].loc for name in group.names]


def _states(rows: Rows, components: int) -> list[Part]:
    """Whether a number is missing or special, in each component."""
    found: dict[int, list[str]] = {}
    for name, column in rows.columns.items():
        states = rows.states(name)
        if column.is_levelled and column.nullable and spelled(line_of(column))[1] != "Categorical":
            states = 2
        if states > 1:
            found.setdefault(states, []).append(name)
    return [
        Part(tuple(map(state_site, names)), Categorical, (_logits("states", len(names), components, states),))
        for states, names in found.items()
    ]


class Latent(NamedTuple):
    """A latent of several columns: one row of `array` for each name."""

    names: list[str]
    array: Array

    def of(self, group: Group) -> list[Array]:
        """The rows of a group, which stand together; nothing if it has none."""
        if group.names[0] not in self.names:
            return []
        first = self.names.index(group.names[0])
        return [self.array[first : first + len(group.names)]]


def _columns(rows: Rows, components: int) -> list[Part]:
    """The columns' own sites, with latents outside the plate."""
    groups = _groups(rows)
    latents = [_locs(rows, groups, components), _scales(groups, components), _zeros(groups, components)]
    parts = []
    for group in groups:
        loc, scale, zero = (latent.of(group) for latent in latents)
        own = _OWN.get(group.family, lambda *_: [])(len(group.names), components, group.levels)
        parts.append(Part(group.names, _maker(group), (*loc, *scale, *own, *zero)))
    return parts


def _maker(group: Group) -> Callable[..., Distribution]:
    make = FAMILIES[group.family].make
    if group.form is None:
        return make
    return lambda *parameters: _FORMS[group.form](make(*parameters[:-1]), parameters[-1])


def _locs(rows: Rows, groups: list[Group], components: int) -> Latent:
    names = _placed(groups)
    if not names:
        return Latent([], jnp.zeros((0, components)))
    means = np.array([[_middle(rows.columns[name])] for name in names])
    sds = np.array([[FAMILIES[spelled(line_of(rows.columns[name]))[1]].loc[1]] for name in names])
    tops = np.array([[_highest(rows.columns[name])] for name in names])
    locs = _sample(_LOC, dist.Normal(means, sds, validate_args=False), len(names), components)
    return Latent(names, jnp.clip(locs, np.where(np.isfinite(tops), -10.0, -np.inf), tops))


def _scales(groups: list[Group], components: int) -> Latent:
    middles = {name: FAMILIES[group.family].scale for group in groups for name in group.names}
    names = [name for name, middle in middles.items() if middle is not None]
    if not names:
        return Latent([], jnp.zeros((0, components)))
    medians = np.array([[np.log(middles[name])] for name in names])
    return Latent(names, _sample(_SCALE, dist.LogNormal(medians, 0.7, validate_args=False), len(names), components))


def _zeros(groups: list[Group], components: int) -> Latent:
    names = [name for group in groups if group.form is not None for name in group.names]
    if not names:
        return Latent([], jnp.zeros((0, components)))
    return Latent(names, _sample(_ZERO, dist.Uniform(0.0, 1.0, validate_args=False), len(names), components))


def _logits(what: str, columns: int, components: int, levels: int) -> Array:
    return _sample(
        f"components:{what}_{levels}", dist.Normal(0.0, 2.0, validate_args=False), columns, components, levels
    )


def _cutpoints(columns: int, components: int, levels: int) -> Array:
    """Thresholds between levels, the same in all components: the first is free, each gap is positive."""
    if levels < 2:
        return jnp.zeros((columns, components, 0))
    first = _sample(f"components:first_cutpoint_{levels}", dist.Normal(-1.0, 1.5, validate_args=False), columns, 1)
    found = [first]
    if levels > 2:
        gaps = _sample(f"components:gaps_{levels}", dist.LogNormal(-0.5, 1.0, validate_args=False), columns, levels - 2)
        found.append(first + jnp.cumsum(gaps, axis=-1))
    cutpoints = jnp.concatenate(found, axis=-1)
    return jnp.broadcast_to(cutpoints[:, None], (columns, components, levels - 1))


#: Latents that only columns of one family have, from the numbers of columns, components and levels.
_OWN: dict[str, Callable[[int, int, int], list[Array]]] = {
    "Categorical": lambda *sizes: [_logits("levels", *sizes)],
    "Ordinal": lambda *sizes: [_cutpoints(*sizes)],
}


def _sample(name: str, prior: Distribution, *shape: int) -> Array:
    """One latent for all columns, each of which has a unit of its own (see `scaling`)."""
    return numpyro.sample(name, prior.expand(shape).to_event(len(shape)), infer={"units": 1})

"""A model without Python: the `distribution` lines of schema.toml, fitted as a mixture of products.

    [columns.age]
    kind = "integer"
    distribution = "Poisson"

Each column has its distribution within each of several components; the component is summed out. A column without a
line gets one by its kind. The option `components` says how many there are (default: 8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array

from twinify_lite.models.likelihoods import Mixture, bounded, cutpoints, hurdle, ordinal, zero_inflated
from twinify_lite.models.rows import Rows
from twinify_lite.models.source import Source, digest
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.distributions import spelled

COMPONENTS = 8
_BY_KIND = {"boolean": "Categorical", "category": "Categorical", "ordinal": "Categorical"}


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
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(components, 2.0)))
    states = {name: _states(rows, name, components) for name in rows.columns}
    columns = {name: _distribution(rows, name, components) for name in rows.columns}
    mixture = Mixture(jnp.log(weights))
    with rows:
        for name, distribution in columns.items():
            if states[name] is not None:
                mixture.sample(rows, f"{name}:state", states[name])
            mixture.sample(rows, name, distribution)


def start(rows: Rows) -> dict[str, Any]:
    """Components start apart from each other: from one place they would all follow the same gradient."""
    components = rows.option("components", COMPONENTS)
    generator = np.random.Generator(np.random.PCG64(0))
    values: dict[str, Any] = {"weights": jnp.full(components, 1 / components)}
    for name in rows.columns:
        values[f"{name}_loc"] = _middle(rows.columns[name]) + generator.uniform(-0.7, 0.7, components)
    return values


def _middle(column: Column) -> float:
    family = spelled(line_of(column))[1]
    if family in ("Poisson", "NegativeBinomial"):
        return float(np.log(max(1.0, column.max / 10)))
    return -1.5 if family in ("LogNormal", "Gamma", "Exponential") else 0.0


def _states(rows: Rows, name: str, components: int) -> dist.Distribution | None:
    """Whether a number is missing or special, in each component; missing levels are levels where they can be."""
    column = rows.columns[name]
    states = rows.states(name)
    if column.is_levelled and column.nullable and spelled(line_of(column))[1] != "Categorical":
        states = 2
    if states < 2:
        return None
    return dist.Categorical(logits=numpyro.sample(f"{name}_state_logits", _normal(0.0, 2.0, components, states)))


def _distribution(rows: Rows, name: str, components: int) -> dist.Distribution:
    form, family = spelled(line_of(rows.columns[name]))
    base = FAMILIES[family](rows, name, components)
    if form is None:
        return base
    zero = numpyro.sample(f"{name}_zero", dist.Beta(1.0, 1.0).expand([components]).to_event(1))
    return {"ZeroInflated": zero_inflated, "Hurdle": hurdle}[form](base, zero)


def _normal(mean: float, sd: float, *shape: int) -> dist.Distribution:
    return dist.Normal(mean, sd).expand(shape).to_event(len(shape))


def _loc(name: str, components: int, mean: float = 0.0, sd: float = 1.0) -> Array:
    return numpyro.sample(f"{name}_loc", _normal(mean, sd, components))


def _scale(name: str, components: int, middle: float = 0.3) -> Array:
    prior = dist.LogNormal(jnp.log(middle), 0.7).expand([components]).to_event(1)
    return numpyro.sample(f"{name}_scale", prior)


def _real(make: Callable[[Array, Array], dist.Distribution]) -> Callable:
    return lambda rows, name, components: make(_loc(name, components), _scale(name, components))


def _student(loc: Array, scale: Array) -> dist.Distribution:
    return dist.StudentT(4.0, loc, scale)


def _log_normal(_rows: Rows, name: str, components: int) -> dist.Distribution:
    return dist.LogNormal(_loc(name, components, -1.5, 1.5), _scale(name, components, 0.7))


def _gamma(_rows: Rows, name: str, components: int) -> dist.Distribution:
    """By its mean and its shape, which say more apart than shape and rate do."""
    mean = jnp.exp(jnp.clip(_loc(name, components, -1.5, 1.5), -20.0, 5.0))
    shape = _scale(name, components, 2.0)
    return dist.Gamma(shape, shape / mean)


def _exponential(_rows: Rows, name: str, components: int) -> dist.Distribution:
    return dist.Exponential(jnp.exp(-jnp.clip(_loc(name, components, -1.5, 1.5), -20.0, 5.0)))


def _beta(_rows: Rows, name: str, components: int) -> dist.Distribution:
    """By its mean and how closely it holds to it."""
    mean = jnp.clip(1 / (1 + jnp.exp(-_loc(name, components, 0.0, 1.5))), 1e-4, 1 - 1e-4)
    weight = _scale(name, components, 5.0)
    return dist.Beta(mean * weight, (1 - mean) * weight)


def _rate(rows: Rows, name: str, components: int) -> Array:
    top = float(max(1, rows.columns[name].max))
    log_rate = _loc(name, components, _middle(rows.columns[name]), 1.5)
    return jnp.exp(jnp.clip(log_rate, -10.0, float(np.log(10 * top))))


def _poisson(rows: Rows, name: str, components: int) -> dist.Distribution:
    return dist.Poisson(_rate(rows, name, components))


def _negative_binomial(rows: Rows, name: str, components: int) -> dist.Distribution:
    return dist.NegativeBinomial2(_rate(rows, name, components), _scale(name, components, 2.0))


def _bernoulli(_rows: Rows, name: str, components: int) -> dist.Distribution:
    return dist.Bernoulli(logits=_loc(name, components, 0.0, 2.0))


def _categorical(rows: Rows, name: str, components: int) -> dist.Distribution:
    logits = numpyro.sample(f"{name}_logits", _normal(0.0, 2.0, components, rows.levels(name)))
    return dist.Categorical(logits=logits)


def _ordinal(rows: Rows, name: str, components: int) -> dist.Distribution:
    return ordinal(_loc(name, components, 0.0, 1.5), cutpoints(rows, name))


FAMILIES: dict[str, Callable[[Rows, str, int], dist.Distribution]] = {
    "Normal": _real(dist.Normal),
    "TruncatedNormal": _real(bounded),
    "StudentT": _real(_student),
    "Laplace": _real(dist.Laplace),
    "Beta": _beta,
    "LogNormal": _log_normal,
    "Gamma": _gamma,
    "Exponential": _exponential,
    "Poisson": _poisson,
    "NegativeBinomial": _negative_binomial,
    "Bernoulli": _bernoulli,
    "Categorical": _categorical,
    "Ordinal": _ordinal,
}

"""Mixtures of products whose columns are worked out together: all those of one family in one array operation.

`likelihoods.Mixture` samples column after column, which suits a model that is written by hand. Here all columns are
known beforehand, so the program that is compiled grows with the number of families and not with that of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float
from numpyro.distributions import Distribution, constraints

from twinify_lite.models.rows import Rows
from twinify_lite.models.units import state_site


class Part(NamedTuple):
    """Sites of one family: `make(*parameters)`, whose parameters are columns x components (x anything)."""

    sites: tuple[str, ...]
    make: Callable[..., Distribution]
    parameters: tuple[Array, ...]


def sample_products(rows: Rows, log_weights: Float[Array, " component"], parts: Sequence[Part]) -> None:
    """Sample all sites of `parts`, inside the row plate: independent within a component, the component summed out.

    Parts with the states of columns come first. In a fit the density of a whole row stands at the first site, which
    is one that no state masks; the other sites add nothing to it.
    """
    settled = _draw(rows, log_weights, parts) if rows._observed is None else _weigh(rows, log_weights, parts)
    for name, distribution in settled.items():
        numpyro.sample(name, distribution)


class Settled(Distribution):
    """A site of which the value, or the density of the value that it will be given, is worked out already."""

    pytree_data_fields = ("component", "value", "density")

    def __init__(self, component: Distribution, *, value: Array | None = None, density: Array | None = None):
        self.component, self.value, self.density = component, value, density
        super().__init__(batch_shape=jnp.shape(density if value is None else value), validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        """That of the components."""
        return self.component.support

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """The value."""
        return jnp.broadcast_to(self.value, sample_shape + self.batch_shape)

    def log_prob(self, value: Array) -> Array:
        """The density."""
        return self.density


def _weigh(rows: Rows, log_weights: Array, parts: Sequence[Part]) -> dict[str, Settled]:
    """Sites with the density of the rows that are given."""
    components = [part.make(*part.parameters) for part in parts]
    known = jax.nn.log_softmax(log_weights)
    for part, component in zip(parts, components, strict=True):
        known = known + _known(rows, part, component)
    total = logsumexp(known, axis=-1)
    densities = [total, *[jnp.zeros_like(total)] * (sum(len(part.sites) for part in parts) - 1)]
    named = [(name, component) for part, component in zip(parts, components, strict=True) for name in part.sites]
    return {
        name: Settled(component, density=density) for (name, component), density in zip(named, densities, strict=True)
    }


def _known(rows: Rows, part: Part, component: Distribution) -> Float[Array, "row component"]:
    """What the columns of a part tell of each row's component. A cell that is no value tells nothing here."""
    given = rows._observed
    values = jnp.stack([given[name] for name in part.sites], axis=-1)
    each = component.log_prob(values[..., None])
    states = [given.get(state_site(name)) for name in part.sites]
    if any(state is not None for state in states):
        here = [jnp.ones(rows.batch, bool) if state is None else state == 0 for state in states]
        each = jnp.where(jnp.stack(here, axis=-1)[..., None], each, 0.0)
    return jnp.sum(each, axis=-2)


def _draw(rows: Rows, log_weights: Array, parts: Sequence[Part]) -> dict[str, Settled]:
    """Sites with values: a component for each row, and then all columns of that component."""
    kind = jax.random.categorical(numpyro.prng_key(), log_weights, shape=(rows.batch,))
    settled = {}
    for part in parts:
        component = part.make(*(jnp.swapaxes(array[:, kind], 0, 1) for array in part.parameters))
        values = component.sample(numpyro.prng_key())
        settled |= {name: Settled(component, value=values[:, i]) for i, name in enumerate(part.sites)}
    return settled

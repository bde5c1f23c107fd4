"""Global latents in units of what one row tells of them, so that equal noise hurts all of them equally.

DPSVI clips a row's gradient as one vector and adds the same noise to each of its coordinates. A latent that a row tells
much of (a mean in a narrow column) makes the vector long, and one that it tells little of (a weight in a regression)
drowns in noise that is sized for the other. With theta = c z and c = 1/sqrt(Fisher information of a row), all z are
alike. The information is that of rows which the model draws itself at its initial values: nothing private enters.

A latent has one unit, or one for each place of its first axes: as many of them as the site says by
`infer={"units": 1}`, which an array over columns does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.primitives import Messenger

from twinify_lite.dpsvi.starting import jit_once

Scale = float | np.ndarray
_LEAST, _MOST = 0.02, 50.0


class Scaled(Messenger):
    """Sample sites named in `scales` in units of their scale; the model is given the value that it asked for."""

    def __init__(self, scales: Mapping[str, Scale]):
        super().__init__()
        self.scales = scales

    def process_message(self, msg: dict[str, Any]) -> None:
        """The distribution of value / scale."""
        if msg["type"] == "sample" and msg["name"] in self.scales:
            event = msg["fn"].event_dim
            shrink = dist.transforms.AffineTransform(0.0, 1 / self.scales[msg["name"]])
            domain = dist.transforms.IndependentTransform(shrink, event) if event else shrink
            msg["fn"] = dist.TransformedDistribution(msg["fn"], domain)
            msg["intermediates"] = []

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """The value in the model's own unit. Outer handlers have noted the scaled one by now."""
        if msg["type"] == "sample" and msg["name"] in self.scales:
            msg["value"] = self.scales[msg["name"]] * msg["value"]


def is_scalable(site: dict[str, Any]) -> bool:
    """A global latent on the real line, whose unconstrained space is the one that it stands in."""
    if site["type"] != "sample" or site["is_observed"] or site["cond_indep_stack"]:
        return False
    support = site["fn"].support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return isinstance(support, type(constraints.real))


def units_of(site: dict[str, Any]) -> int:
    """How many of its first axes have a unit for each place."""
    return int(site["infer"].get("units", 0))


def find_scales(
    model: Callable, latents: Mapping[str, Array], units: Mapping[str, int], table: Mapping[str, Array]
) -> dict[str, Scale]:
    """For each latent of `units`, 1/sqrt of the mean information that a row of `table` has on its numbers.

    The mean is over all axes of a latent but the first ones, as many as `units` says. `table` are rows that the model
    drew, and `latents` the values that it drew them with.
    """
    if not units:
        return {}

    @jit_once
    def information(chosen: dict[str, Array], table: Mapping[str, Array]) -> dict[str, Array]:
        def density(chosen: dict[str, Array], row: Mapping[str, Array]) -> Array:
            alone = jax.tree.map(lambda cell: cell[None], row)
            fixed = handlers.substitute(handlers.seed(model, jax.random.key(0)), data={**latents, **chosen})
            sites = handlers.trace(fixed).get_trace(alone, 1)
            observed = [s for s in sites.values() if s["type"] == "sample" and s["is_observed"]]
            return sum(jnp.sum(site["fn"].log_prob(site["value"])) for site in observed)

        squares = jax.vmap(lambda row: jax.tree.map(jnp.square, jax.grad(density)(chosen, row)))(table)
        return {name: _mean(square, units[name]) for name, square in squares.items()}

    found = information({name: latents[name] for name in units}, table)
    return {name: _scale(np.asarray(value)) for name, value in found.items()}


def _mean(squares: Array, units: int) -> Array:
    """Over rows, which come first, and over all places of one unit."""
    finite = jnp.where(jnp.isfinite(squares), squares, 0.0)
    over = (0, *range(1 + units, squares.ndim))
    return jnp.mean(finite, axis=over, keepdims=True)[0] if units else jnp.mean(finite)


def _scale(information: np.ndarray) -> Scale:
    if information.ndim:
        return np.array([_scale(part) for part in information])
    if not information > 0:
        return 1.0
    # To two digits: a scale is a rough thing, and should not differ between two machines.
    return float(f"{np.clip(1 / np.sqrt(information), _LEAST, _MOST):.2g}")

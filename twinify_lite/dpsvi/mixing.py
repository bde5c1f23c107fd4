"""Models and guides whose rows look at each other are refused: each is tried among others and alone, on made-up rows.

DPSVI itself shows a model one row at a time, so a model that mixes rows breaks no guarantee: it is another model than
the one that would be fitted, and its author should know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from numpyro.distributions import biject_to, constraints

from twinify_lite.dpsvi.sites import Trace, log_prob, plate_scale, plates_of, run, samples, sketch
from twinify_lite.dpsvi.starting import jit_once
from twinify_lite.errors import ModelError

_ROWS = 3
# How far parameters are moved from where they start, in unconstrained space: at 0, a weight of other rows is not seen.
_MOVE = 0.3


def refuse_mixing(
    fn: Callable, which: str, many: PyTree, kwargs: Mapping[str, Any], plate: str, local: frozenset[str] = frozenset()
) -> None:
    """Refuse `fn` if a row's density is another one alone than among the three of `many`.

    `which` is what `fn` is called; `local` are latents of one row each, also where a guide has no plate for them.
    """
    axes = _row_axes(fn, many, kwargs, plate, local)
    if not axes:
        return

    @jit_once
    def among(rows: PyTree) -> tuple[dict[str, Array], dict[str, PyTree], dict[str, Array]]:
        at_start = run(fn, jax.random.key(0), {plate: jnp.arange(_ROWS)}, rows, kwargs)
        moved = _moved_parameters(at_start)
        trace = run(fn, jax.random.key(0), {**moved, plate: jnp.arange(_ROWS)}, rows, kwargs)
        drawn = {name: site["value"] for name, site in samples(trace).items() if not site["is_observed"]}
        fixed = moved | {name: value for name, value in drawn.items() if name not in axes}
        own = {name: jnp.moveaxis(value, axes[name], 0) for name, value in drawn.items() if name in axes}
        return _densities(trace, axes, plate), fixed, own

    @jit_once
    def alone(row: PyTree, fixed: dict[str, PyTree], own: dict[str, Array]) -> dict[str, Array]:
        values = {name: jnp.moveaxis(value, 0, axes[name]) for name, value in own.items()}
        trace = run(fn, jax.random.key(0), {**fixed, **values, plate: jnp.arange(1)}, row, kwargs)
        return _densities(trace, axes, plate)

    together, fixed, own = among(many)
    rows = [jax.tree.map(lambda x, row=row: x[row : row + 1], (many, own)) for row in range(_ROWS)]
    each = [alone(row, fixed, mine) for row, mine in rows]
    for name, density in together.items():
        if not _is_same(density, [one[name] for one in each]):
            raise ModelError(
                f"Site '{name}'{' of the guide' if which == 'guide' else ''} mixes rows: a row's density changes with "
                "the rows beside it (a mean over the batch, batch normalisation, an index into the whole table?). "
                "Each row may use only its own columns."
            )


def _row_axes(
    fn: Callable, many: PyTree, kwargs: Mapping[str, Any], plate: str, local: frozenset[str]
) -> dict[str, int]:
    """Where the rows lie in the value of each site that has them."""
    sites = samples(sketch(fn, {plate: jnp.arange(_ROWS)}, many, kwargs))
    axes = {name: _plate_axis(site, plate) for name, site in sites.items() if plate in plates_of(site)}
    bare = [name for name in sites if name in local and name not in axes]
    if bare:
        one = jax.tree.map(lambda x: x[:1], many)
        single = samples(sketch(fn, {plate: jnp.arange(1)}, one, kwargs))
        for name in bare:
            shapes = zip(jnp.shape(sites[name]["value"]), jnp.shape(single[name]["value"]), strict=False)
            axis = next((axis for axis, (several, alone) in enumerate(shapes) if several != alone), None)
            axes |= {} if axis is None else {name: axis}
    return axes


def _plate_axis(site: dict[str, Any], plate: str) -> int:
    return _frame(site, plate).dim - site["fn"].event_dim


def _frame(site: dict[str, Any], plate: str) -> Any:
    return next(frame for frame in site["cond_indep_stack"] if frame.name == plate)


def _moved_parameters(trace: Trace) -> dict[str, PyTree]:
    """The parameters of a trace, a little away from where they start."""
    return {name: _moved(site) for name, site in trace.items() if site["type"] == "param"}


def _moved(site: dict[str, Any]) -> PyTree:
    generator = np.random.Generator(np.random.PCG64([*site["name"].encode()]))
    to_support = biject_to(site["kwargs"].get("constraint", constraints.real))

    def move(value: Array) -> Array:
        if not jnp.issubdtype(jnp.result_type(value), jnp.floating):
            return value
        free = to_support.inv(value)
        return to_support(free + _MOVE * generator.normal(size=jnp.shape(free)).astype(np.float32))

    return jax.tree.map(move, site["value"])


def _densities(trace: Trace, axes: Mapping[str, int], plate: str) -> dict[str, Array]:
    """Each row's log density at the sites of `axes`, with the plate's own scaling undone; a sum outside the plate."""
    return {name: _density(site, trace, plate) for name, site in samples(trace).items() if name in axes}


def _density(site: dict[str, Any], trace: Trace, plate: str) -> Array:
    if plate not in plates_of(site):
        return jnp.sum(log_prob(site))
    moved = jnp.moveaxis(log_prob(site), _frame(site, plate).dim, 0)
    return jnp.sum(moved.reshape(moved.shape[0], -1), axis=1) / plate_scale(trace, plate)


def _is_same(together: Array, alone: list[Array]) -> bool:
    if together.ndim == 0:
        together, alone = together[None], [sum(alone)[None]]
    if any(density.shape != (1,) for density in alone):
        return False
    return bool(jnp.allclose(together, jnp.concatenate(alone), rtol=1e-3, atol=1e-4, equal_nan=True))

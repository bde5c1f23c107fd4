"""Clip each row's gradient and add them up: the only place where rows and parameters meet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from twinify_lite.dpsvi import ghost
from twinify_lite.errors import ModelError

# A float32 norm of many terms can come out low by a few units in the last place per doubling of their number. Rows are
# clipped to slightly less than they are charged for, so that rounding never carries one over its norm.
ROUNDING_ROOM = 1e-4


class ClippedSum(NamedTuple):
    """Both fields are private until noise has been added."""

    gradient: PyTree
    unclipped: Float[Array, ""]


def clip_factor(norm: Float[Array, "*row"], clip_norm: Float[Array, ""] | float) -> Float[Array, "*row"]:
    """What to multiply a gradient of this norm by.

    Formal guarantee: norm * clip_factor(norm, c) <= c for every norm; a non-finite norm gives 0.
    """
    factor = jnp.minimum(1.0, clip_norm * (1 - ROUNDING_ROOM) / jnp.maximum(norm, 1e-30))
    return jnp.where(jnp.isfinite(norm), factor, 0.0)


def clip(gradient: PyTree, clip_norm: Float[Array, ""] | float) -> PyTree:
    """Scale `gradient` so that its global L2 norm is at most `clip_norm`.

    Formal guarantee: ||clip(g, c)|| <= c for every g; a non-finite g gives 0.
    """
    parts = [ghost.norm(leaf) for leaf in jax.tree.leaves(gradient)]
    factor = clip_factor(ghost.norm(jnp.stack(parts)), clip_norm)
    return jax.tree.map(lambda leaf: jnp.where(factor > 0, factor * leaf, 0.0), gradient)


def clipped_sum(
    row_value: Callable[..., Float[Array, ""]],
    shared: PyTree,
    rows: PyTree,
    *,
    mask: Bool[Array, " row"],
    clip_norm: Float[Array, ""] | float,
) -> ClippedSum:
    """Sum over the rows in `mask` of the clipped gradient of `row_value(shared, row)` with respect to `shared`.

    Formal guarantee: adding or removing one row moves the sum by at most `clip_norm` in L2 (exact arithmetic), whatever
    the row holds: `row_value` sees one row at a time, so no row can reach the others' terms. It equals
    `sum(clip(jax.grad(row_value)(shared, row)))` without holding those gradients (see `ghost`).
    """
    leaves, tree = jax.tree.flatten(shared)
    if any(leaf.dtype not in (jnp.float32, jnp.float64) for leaf in leaves):
        raise ModelError(
            "Latents and parameters must be float32 or float64: clipping in half precision cannot be vouched for. Cast "
            "inside the model instead."
        )
    # Accelerators multiply float32 in fewer bits unless told otherwise, and a clipped row must stay below its norm.
    with jax.default_matmul_precision("highest"):
        program, passes, norms = _backward(row_value, shared, rows)
        factors = jnp.where(mask, clip_factor(norms, clip_norm), 0.0)
        unclipped = jnp.sum(jnp.where(mask & (norms <= clip_norm), 1.0, 0.0))
        return ClippedSum(tree.unflatten(ghost.weighted_sum(program, leaves, passes, factors)), unclipped)


def row_norms(row_value: Callable[..., Float[Array, ""]], shared: PyTree, rows: PyTree) -> Float[Array, " row"]:
    """The norm of each row's gradient: private wherever the rows are."""
    return _backward(row_value, shared, rows)[2]


def numbers_per_row(row_value: Callable[..., Float[Array, ""]], shared: PyTree, row: PyTree) -> int:
    """How many gradient numbers a row of `row_value` holds in memory at once: what sizes a microbatch."""
    program = _trace(row_value, shared, row)
    direct = sum(jax.tree.leaves(shared)[i].size for i in program.direct)
    outputs = sum(program.closed.jaxpr.eqns[tap.equation].outvars[0].aval.size for tap in program.taps)
    return direct + outputs


def _trace(row_value: Callable[..., Float[Array, ""]], shared: PyTree, row: PyTree) -> ghost.Program:
    leaves, tree = jax.tree.flatten(shared)
    return ghost.trace(lambda leaves, row: row_value(tree.unflatten(leaves), row), leaves, row)


def _backward(
    row_value: Callable[..., Float[Array, ""]], shared: PyTree, rows: PyTree
) -> tuple[ghost.Program, ghost.Backward, Float[Array, " row"]]:
    leaves = jax.tree.leaves(shared)
    program = _trace(row_value, shared, jax.tree.map(lambda x: x[0], rows))
    passes = jax.vmap(partial(ghost.backward, program, leaves))(rows)
    norms = jax.vmap(partial(ghost.row_norm, program, leaves))(passes)
    return program, passes, norms

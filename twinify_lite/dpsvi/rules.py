"""Which operations need no per-row gradient: the norm of the gradient in closed form, and what its rounding may cost.

Rules are rows of `RULES`, known by the primitive itself and not by its name; a new operation is one more function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.extend.core import primitives
from jaxtyping import Array, Float

from twinify_lite.dpsvi import lookup

# Entries that are added up in one go; more of them are added up in levels of so many, so that few roundings follow
# each other.
_FAN_IN, _LEVEL = 1024, 512
# A rule whose norm may come out lower than this has no room left for the rest of a row: its array is materialised.
_MOST_ROUNDINGS = 1500


class Rule(NamedTuple):
    """How a tapped equation is treated, for exactly the shapes and types that the rule was derived for.

    `norm` maps (tapped operand, what else enters the equation, dl/dy) to the norm of the gradient with respect to the
    operand. It may come out above the true norm, never below it by more than `norm_roundings` units of rounding: no
    difference of large numbers, no square that underflows. The sum of m rows' gradients is off, entry by entry, by at
    most m + `sum_roundings` such units of the sum of their sizes. It is made by `pull_back` from the operand and from
    the inputs and cotangents of all rows, or where that is None, by the equation's own backward pass.
    """

    norm: Callable[[Array, list[Any], Array], Float[Array, ""]]
    norm_roundings: int
    sum_roundings: int
    pull_back: Callable[[Array, list[Any], Array], Array] | None = None


def norm(x: Array) -> Float[Array, ""]:
    """L2 norm of all entries, in single precision or better.

    Formal guarantee: never below the true norm by more than `norm_roundings(x.size)` units of rounding, in whatever
    order a device adds. A square below 2^-126 may be flushed to zero, so each entry is charged that much on top;
    squares that overflow make the norm infinite, and the row counts as zero.
    """
    squares = jnp.square(x.astype(jnp.promote_types(x.dtype, jnp.float32))).ravel()
    while squares.size > _FAN_IN:
        padded = jnp.pad(squares, (0, -squares.size % _LEVEL))
        # The barrier keeps the compiler from merging the levels into one long sum.
        squares = jax.lax.optimization_barrier(jnp.sum(padded.reshape(-1, _LEVEL), axis=1))
    return jnp.sqrt(jnp.sum(squares) + x.size * 2.0**-126)


def norm_roundings(size: int) -> int:
    """By how many units of rounding `norm` of `size` entries may come out too low.

    A sum of m non-negative numbers, each a rounded square, is low by at most m units; a root halves that and rounds.
    """
    roundings = 4
    while size > _FAN_IN:
        size = -(-size // _LEVEL)
        roundings += _LEVEL
    return (roundings + size + 1) // 2 + 1


def _dot_general(eqn: core.JaxprEqn, position: int) -> Rule | None:
    """y = x W, x with one place for each batch index: the gradient is x (outer) dy, its norm |x| |dy|.

    With several places the gradient is a sum of outer products, whose norm by pairs of places would be a difference of
    large numbers: such a W is materialised. So is one that is multiplied in fewer bits than it has.
    """
    (contract, batch) = eqn.params["dimension_numbers"]
    other = 1 - position
    shape = eqn.invars[other].aval.shape
    free = [d for d in range(len(shape)) if d not in contract[other] and d not in batch[other]]
    if math.prod(shape[d] for d in free) != 1 or not _is_precise(eqn):
        return None
    batches = math.prod(shape[d] for d in batch[other])
    out = eqn.outvars[0].aval.size // max(1, batches)

    def product(operand: Array, inputs: list[Any], cotangent: Array) -> Array:
        x = jnp.transpose(inputs[0], (*batch[other], *free, *contract[other])).reshape(batches, -1)
        # dot_general lays its output out with the batch dimensions first.
        return norm(jax.vmap(norm)(x) * jax.vmap(norm)(cotangent.reshape(batches, -1)))

    inside = norm_roundings(math.prod(shape) // max(1, batches)) + norm_roundings(out)
    roundings = inside + norm_roundings(batches) + 1
    return None if roundings > _MOST_ROUNDINGS else Rule(product, roundings, sum_roundings=2)


def _is_precise(eqn: core.JaxprEqn) -> bool:
    """Whether both operands and the result are of one type and multiplied in all of its bits."""
    types = {atom.aval.dtype for atom in (*eqn.invars, *eqn.outvars)}
    highest = (jax.lax.Precision.HIGHEST, jax.lax.Precision.HIGHEST)
    preferred = eqn.params["preferred_element_type"]
    return len(types) == 1 and preferred in (None, *types) and eqn.params["precision"] == highest


def _gather(eqn: core.JaxprEqn, position: int) -> Rule | None:
    """y = one slice of W: the gradient is dy in that slice and zero elsewhere, or zero altogether out of bounds."""
    places = math.prod(eqn.invars[1].aval.shape[:-1])
    return None if position != 0 or places != 1 else _one_slice(eqn)


def _dynamic_slice(eqn: core.JaxprEqn, position: int) -> Rule | None:
    """y = one block of W."""
    return _one_slice(eqn) if position == 0 else None


def _one_slice(eqn: core.JaxprEqn) -> Rule:
    size = eqn.outvars[0].aval.size
    return Rule(lambda operand, inputs, cotangent: norm(cotangent), norm_roundings(size), sum_roundings=1)


def _lookup(eqn: core.JaxprEqn, position: int) -> Rule | None:
    """log_softmax(W)[:, level]: the gradient of component k is dy_k (onehot(level) - softmax(W_k))."""
    components, levels = eqn.invars[0].aval.shape
    # The shares are computed here and in `pull_back`, each with an exponential and a sum over the levels.
    roundings = norm_roundings(components) + 4 * levels + 32
    if position != 0 or roundings > _MOST_ROUNDINGS:
        return None

    def closed_form(operand: Array, inputs: list[Any], cotangent: Array) -> Array:
        return norm(cotangent * lookup.gap(operand)[:, inputs[0]])

    def together(operand: Array, inputs: list[Any], cotangents: Array) -> Array:
        return lookup.pull_back(operand, inputs[0], cotangents)

    return Rule(closed_form, roundings, sum_roundings=levels + 5, pull_back=together)


RULES: dict[core.Primitive, Callable[[core.JaxprEqn, int], Rule | None]] = {
    primitives.dot_general_p: _dot_general,
    primitives.dynamic_slice_p: _dynamic_slice,
    primitives.gather_p: _gather,
    lookup.lookup_p: _lookup,
}

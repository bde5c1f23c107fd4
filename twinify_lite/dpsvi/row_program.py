"""One row's backward pass, traced once and checked; what was checked is what runs.

    model, guide -> one row's value -> its backward pass (a jaxpr) -> refuse strangers -> vmap that jaxpr

The user's functions are called while it is traced and never again, so nothing that Python remembers from call to call,
and no rule of differentiation that they bring, can make another program of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array, Bool, Float, PyTree, UInt32

from twinify_lite.dpsvi import ghost
from twinify_lite.dpsvi.allowed import looks_around, refuse_strangers
from twinify_lite.dpsvi.lattice import CHUNK, Summed
from twinify_lite.errors import ModelError

# A float32 norm comes out low by half a unit of rounding a term. Rows are clipped to slightly less than they are
# charged for, so that rounding never carries one over its norm; a program that rounds more often is refused.
ROUNDING_ROOM = 1e-4
# Roundings between a row's norm and its scaled gradient: of the clip factor, its products, and the lattice's scale.
_SCALING = 12


class RowProgram(NamedTuple):
    """What one row adds to the gradient, as a program of (shared, public, row) that has been checked.

    `forward` is the flat row function with its taps, `backward` gives the leaves of the row's `ghost.Backward`, and
    `norm` makes the norm of the gradient from the shared arrays and those leaves.
    `one_by_one` has rows pass one after the other, each through the very same instructions.
    """

    forward: ghost.Program
    backward: core.ClosedJaxpr
    norm: core.ClosedJaxpr
    result: jax.tree_util.PyTreeDef
    one_by_one: bool = False

    @property
    def numbers_per_row(self) -> int:
        """How many gradient numbers a row holds in memory at once: what sizes a microbatch."""
        invars, eqns = self.forward.closed.jaxpr.invars, self.forward.closed.jaxpr.eqns
        direct = sum(invars[i].aval.size for i in self.forward.direct)
        return direct + sum(eqns[tap.equation].outvars[0].aval.size for tap in self.forward.taps)

    @property
    def summed(self) -> Summed:
        """How a sum over rows of this program is made."""
        invars = self.forward.closed.jaxpr.invars[: self.forward.shared]
        tapped = sum(invars[tap.leaf].aval.size for tap in self.forward.taps)
        coordinates = sum(var.aval.size for var in invars)
        return Summed(coordinates, tapped, CHUNK + self.forward.sum_roundings)


def trace_row(
    value: Callable[..., Float[Array, ""]],
    shared: PyTree,
    public: PyTree,
    row: PyTree,
    *,
    which: str = "model or guide",
) -> RowProgram:
    """The program of `value(shared, public, row)`, of which arrays or their shapes are given.

    Formal guarantee: what `passes` runs is this program and no other: it sees one row, and does nothing with it but
    JAX's own operations.
    """
    leaves, tree = jax.tree.flatten(shared)
    if any(leaf.dtype not in (jnp.float32, jnp.float64) for leaf in leaves):
        raise ModelError(
            "Latents and parameters must be float32 or float64: clipping in half precision cannot be vouched for. Cast "
            "inside the model instead."
        )
    # Accelerators multiply float32 in fewer bits unless told otherwise, and a clipped row must stay below its norm.
    with jax.default_matmul_precision("highest"):
        flat = lambda leaves, public, row: value(tree.unflatten(leaves), public, row)  # noqa: E731
        forward = ghost.trace(flat, leaves, public, row)
        if (forward.norm_roundings + _SCALING) * 2.0**-24 > ROUNDING_ROOM:
            raise ModelError(f"The {which} has too many parameter arrays of their own. Join some of them into one.")
        pass_of = partial(ghost.backward, forward)
        backward, passed = jax.make_jaxpr(pass_of, return_shape=True)(leaves, public, row)
        norm = jax.make_jaxpr(partial(ghost.row_norm, forward))(leaves, passed)
    refuse_strangers(backward.jaxpr, which)
    return RowProgram(forward, backward, norm, jax.tree.structure(passed), looks_around(backward.jaxpr))


def passes(
    program: RowProgram, shared: PyTree, public: PyTree, rows: PyTree
) -> tuple[ghost.Backward, Float[Array, " row"]]:
    """Every row's backward pass and the norm of its gradient.

    Formal guarantee: the norms are made of the very bits that are returned.
    """
    each_row = jax.lax.map if program.one_by_one else lambda one, rows: jax.vmap(one)(rows)

    def backward(fixed: list[Array], rows: list[Array]) -> list[Array]:
        return each_row(lambda row: core.jaxpr_as_fun(program.backward)(*fixed, *row), rows)

    def norm(leaves: list[Array], passed: list[Array]) -> list[Array]:
        # With the places, as a row may leave nothing behind.
        return each_row(lambda row: core.jaxpr_as_fun(program.norm)(*leaves, *row[0]), (passed, jnp.arange(number)))

    number = jax.tree.leaves(rows)[0].shape[0]
    passed = sealed(backward, jax.tree.leaves((shared, public)), jax.tree.leaves(rows))
    (norms,) = sealed(norm, jax.tree.leaves(shared), passed)
    return jax.tree.unflatten(program.result, passed), norms


def sealed(function: Callable, *values: PyTree) -> PyTree:
    """`function(*values)`, compiled as it is wherever it stands: nothing fuses into it or out of it.

    What several fused loops use, XLA computes in each of them, and not always with the same roundings: a product has
    other bits where it is fused with a sum (FMA). A row whose gradient is a small difference of large numbers then adds
    another gradient than the one of which the norm was taken (measured: 24,366 clip norms). Barriers do not help, as
    they are dropped on a CPU before loops are fused. A branch of a conditional is a program of its own, and what it
    returns lies in memory.
    """

    def zeros(*values: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, *values))

    return jax.lax.cond(_never(values), zeros, function, *values)


def _never(values: PyTree) -> Bool[Array, ""]:
    """False, as no compiler finds out: a square is never 2 more than a multiple of 4."""
    leaves = jax.tree.leaves(values)
    number = sum((_first_bit(leaf) for leaf in (*leaves[:1], *leaves[-1:])), jnp.uint32(0))
    return number * number % 4 == 2


def _first_bit(leaf: Array) -> UInt32[Array, ""]:
    words = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return jnp.any(jnp.ravel(words)[:1] != 0).astype(jnp.uint32)


def places_agree(program: RowProgram, shared: PyTree, public: PyTree, rows: PyTree, spread: Callable) -> bool:
    """Whether rows at other places of a batch pass with the same bits: tried on made-up `rows`, in several orders.

    A vectorised pass may add up in another order where a batch's width is no multiple of the machine's: a row nearly
    orthogonal to the weights then has its clipped gradient turned round between two places (measured at width 157).
    """
    number = jax.tree.leaves(rows)[0].shape[0]

    @jax.jit
    def run(shared: PyTree, public: PyTree, rows: PyTree, order: Array) -> list[Array]:
        moved = spread(jax.tree.map(lambda leaf: leaf[order], rows))
        return jax.tree.leaves(passes(program, shared, public, moved))

    def bits(order: np.ndarray, *, back: np.ndarray) -> list[bytes]:
        return [np.asarray(leaf)[back].tobytes() for leaf in jax.device_get(run(shared, public, rows, order))]

    usual = np.arange(number)
    orders = [np.roll(usual, shift) for shift in (1, 5, number // 2 + 3)] + [usual[::-1].copy()]
    expected = bits(usual, back=usual)
    return all(bits(order, back=np.argsort(order)) == expected for order in orders)

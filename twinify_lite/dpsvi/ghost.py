"""Norms of per-row gradients without the per-row gradients.

Where a shared array W meets one row's activations through a product y = x W, the row's gradient with respect to W is
the outer product of x and dl/dy, so its norm is |x| |dl/dy| (Goodfellow 2015, "Efficient per-example gradient
computations") and the clipped sum over rows is one ordinary matrix product, with each row's dl/dy scaled by its clip
factor (Bu, Wang, Zha, Karypis 2022, "Differentially private optimization on large model at small cost", call it
book-keeping). One forward and one backward pass thus serve both the norms and the sum, and nothing of the size rows
x W ever exists.

The row function is traced to a flat list of equations. An equation where a shared array enters through a known rule is
a *tap*: the run records what else enters it and, by a zero added to its output, dl/dy. A shared array that is used in
any other way, or more than once, is *direct*: its per-row gradients are materialised, which is right for biases, scales
and other small things. `rules` says which operations have one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array, Float

from twinify_lite.dpsvi import jaxprs
from twinify_lite.dpsvi.lookup import log_softmax_lookup
from twinify_lite.dpsvi.rules import RULES, Rule, norm, norm_roundings

__all__ = ["Backward", "Program", "backward", "log_softmax_lookup", "norm", "row_norm", "trace", "weighted_sum"]

# One-to-one rearrangements of a shared array: they leave the norm of its gradient as it is.
_LAYOUT = {
    "reshape",
    "transpose",
    "squeeze",
    "expand_dims",
    "copy",
    "broadcast_in_dim",
    "convert_element_type",
}


class Tap(NamedTuple):
    """One equation where shared array number `leaf` enters as operand number `position`."""

    equation: int
    leaf: int
    position: int
    rule: Rule


class Program(NamedTuple):
    """A flat row function with its taps."""

    closed: core.ClosedJaxpr
    shared: int
    taps: tuple[Tap, ...]
    aliases: frozenset[int]

    @property
    def direct(self) -> tuple[int, ...]:
        """Numbers of the shared arrays that are materialised."""
        tapped = {tap.leaf for tap in self.taps}
        return tuple(i for i in range(self.shared) if i not in tapped)

    @property
    def norm_roundings(self) -> int:
        """By how many units of rounding `row_norm` may come out too low."""
        leaves = [self.closed.jaxpr.invars[i].aval.size for i in self.direct]
        parts = [*map(norm_roundings, leaves), *(tap.rule.norm_roundings for tap in self.taps)]
        return max(parts, default=0) + norm_roundings(len(parts))

    @property
    def sum_roundings(self) -> int:
        """How many roundings, beyond one a row, an entry of a sum over rows goes through where it is tapped."""
        return max((tap.rule.sum_roundings for tap in self.taps), default=0)


def trace(fn: Callable, shared: list[Any], *args: Any) -> Program:
    """Find the taps of `fn(shared, *args) -> scalar`, a function of one row."""
    closed = jaxprs.flatten(fn, shared, *args)
    number = len(shared)
    source: dict[core.Var, int] = {var: i for i, var in enumerate(closed.jaxpr.invars[:number])}
    uses: dict[int, list[Tap | None]] = {i: [] for i in range(number)}
    aliases: dict[int, list[int]] = {i: [] for i in range(number)}
    for index, eqn in enumerate(closed.jaxpr.eqns):
        for position, atom in enumerate(eqn.invars):
            leaf = None if isinstance(atom, core.Literal) else source.get(atom)
            if leaf is None:
                continue
            if _is_layout(eqn):
                source[eqn.outvars[0]] = leaf
                aliases[leaf].append(index)
            else:
                rule = _rule(eqn, position)
                uses[leaf].append(None if rule is None else Tap(index, leaf, position, rule))
    returned = {source[v] for v in closed.jaxpr.outvars if not isinstance(v, core.Literal) and v in source}
    taps = [u[0] for leaf, u in uses.items() if len(u) == 1 and u[0] is not None and leaf not in returned]
    # Two shared arrays that meet in one equation would each need the other's value at every row.
    equations = [tap.equation for tap in taps]
    taps = tuple(tap for tap in taps if equations.count(tap.equation) == 1)
    kept = frozenset(index for tap in taps for index in aliases[tap.leaf])
    return Program(closed, number, taps, kept)


class Backward(NamedTuple):
    """What one row's backward pass leaves behind: direct gradients, and for each tap its inputs and dl/dy."""

    direct: list[Array]
    inputs: list[list[Any]]
    cotangents: list[Array]


def backward(program: Program, shared: list[Array], *args: Any) -> Backward:
    """Differentiate one row's value with respect to the direct arrays and the outputs of the taps."""
    probes = [jnp.zeros(v.aval.shape, v.aval.dtype) for v in _tap_outputs(program)]
    direct = [shared[i] for i in program.direct]

    def value(direct: list[Array], probes: list[Array]) -> tuple[Array, list[list[Any]]]:
        full = list(shared)
        for i, leaf in zip(program.direct, direct, strict=True):
            full[i] = leaf
        return _run(program, full, probes, args)

    (by_direct, cotangents), inputs = jax.grad(value, argnums=(0, 1), has_aux=True)(direct, probes)
    return Backward(by_direct, inputs, cotangents)


def row_norm(program: Program, shared: list[Array], row: Backward) -> Float[Array, ""]:
    """L2 norm of one row's whole gradient.

    Formal guarantee: at least the norm of `jax.grad` of the row function, up to rounding, and equal to it where no
    rule rounds up.
    """
    parts = [norm(leaf) for leaf in row.direct]
    for tap, inputs, cotangent in zip(program.taps, row.inputs, row.cotangents, strict=True):
        parts.append(tap.rule.norm(_alias(program, tap, shared[tap.leaf]), inputs, cotangent))
    return norm(jnp.stack(parts)) if parts else jnp.zeros(())


def weighted_sum(program: Program, shared: list[Array], rows: Backward, weights: Float[Array, " row"]) -> list[Array]:
    """Sum of the rows' gradients, each times its weight; a row of weight zero cannot contribute even a NaN."""
    result: list[Array | None] = [None] * program.shared
    for i, leaf in zip(program.direct, rows.direct, strict=True):
        result[i] = jnp.sum(weighed(weights, leaf), axis=0)
    for tap, total in zip(program.taps, tapped_sums(program, shared, rows, weights), strict=True):
        result[tap.leaf] = total
    return result


def tapped_sums(program: Program, shared: list[Array], rows: Backward, weights: Float[Array, " row"]) -> list[Array]:
    """The same for the tapped arrays alone, in the order of the taps.

    Formal guarantee: an entry of a sum over m rows goes through at most m + `program.sum_roundings` roundings.
    """
    sums = []
    for tap, inputs, cotangent in zip(program.taps, rows.inputs, rows.cotangents, strict=True):
        safe = [_blank(weights, x) for x in inputs]
        sums.append(_pull_back(program, tap, shared[tap.leaf], safe, weighed(weights, cotangent)))
    return sums


def weighed(weights: Float[Array, " row"], x: Float[Array, "row *n"]) -> Float[Array, "row *n"]:
    """Each row times its weight: exactly zero where that is zero."""
    w = weights.reshape(weights.shape + (1,) * (x.ndim - 1))
    return jnp.where(w > 0, w * x, 0)


def _blank(weights: Float[Array, " row"], x: Array) -> Array:
    keep = (weights > 0).reshape(weights.shape + (1,) * (x.ndim - 1))
    return jnp.where(keep, x, jnp.zeros((), x.dtype))


def _pull_back(program: Program, tap: Tap, leaf: Array, inputs: list[Array], cotangents: Array) -> Array:
    """Gradient of the tapped equation for all rows together: the rule's, or the ordinary batched backward pass."""
    eqn = program.closed.jaxpr.eqns[tap.equation]
    if tap.rule.pull_back is not None:
        operand, rearrange = jax.vjp(lambda leaf: _alias(program, tap, leaf), leaf)
        return rearrange(tap.rule.pull_back(operand, inputs, cotangents))[0]

    def outputs(leaf: Array) -> Array:
        operand = _alias(program, tap, leaf)

        def one(*others: Any) -> Array:
            values = [*others[: tap.position], operand, *others[tap.position :]]
            return jaxprs.bind(eqn, values)[0]

        return jax.vmap(one)(*inputs) if inputs else jnp.broadcast_to(one(), cotangents.shape)

    return jax.vjp(outputs, leaf)[1](cotangents)[0]


def _alias(program: Program, tap: Tap, leaf: Array) -> Array:
    """The rearranged form in which `leaf` enters the tapped equation."""
    eqns = program.closed.jaxpr.eqns
    env = {program.closed.jaxpr.invars[tap.leaf]: leaf}
    for index in sorted(program.aliases):
        if eqns[index].invars[0] in env:
            env[eqns[index].outvars[0]] = jaxprs.bind(eqns[index], [env[eqns[index].invars[0]]])[0]
    return env[eqns[tap.equation].invars[tap.position]]


def _run(program: Program, shared: list[Array], probes: list[Array], args: Any) -> tuple[Array, list[list[Any]]]:
    """Evaluate the row function with a probe added to the output of each tap, and record what enters the taps."""
    jaxpr = program.closed.jaxpr
    env: dict[core.Var, Any] = dict(zip(jaxpr.constvars, program.closed.consts, strict=True))
    env.update(zip(jaxpr.invars, [*shared, *jax.tree.leaves(args)], strict=True))
    at = {tap.equation: number for number, tap in enumerate(program.taps)}
    recorded: list[list[Any]] = [[] for _ in program.taps]
    for index, eqn in enumerate(jaxpr.eqns):
        values = [jaxprs.read(env, atom) for atom in eqn.invars]
        number = at.get(index)
        if number is None:
            outputs = jaxprs.bind(eqn, values)
        else:
            tap = program.taps[number]
            recorded[number] = [v for i, v in enumerate(values) if i != tap.position]
            outputs = [jaxprs.bind(eqn, values)[0] + probes[number]]
        env.update(zip(eqn.outvars, outputs, strict=True))
    (result,) = (jaxprs.read(env, atom) for atom in jaxpr.outvars)
    return result, [[jnp.asarray(v) for v in values] for values in recorded]


def _tap_outputs(program: Program) -> list[core.Var]:
    return [program.closed.jaxpr.eqns[tap.equation].outvars[0] for tap in program.taps]


def _is_layout(eqn: core.JaxprEqn) -> bool:
    if eqn.primitive.name not in _LAYOUT or len(eqn.invars) != 1:
        return False
    before, after = eqn.invars[0].aval, eqn.outvars[0].aval
    return math.prod(before.shape) == math.prod(after.shape) and before.dtype == after.dtype


def _rule(eqn: core.JaxprEqn, position: int) -> Rule | None:
    rule = RULES.get(eqn.primitive)
    return None if rule is None else rule(eqn, position)

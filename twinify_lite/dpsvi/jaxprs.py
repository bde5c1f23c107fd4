"""Reading traced programs: which outputs depend on which inputs, and one flat list of equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array

# Calls whose body is ordinary equations: inlined, so that what happens inside is seen.
_TRANSPARENT = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}


def body(eqn: core.JaxprEqn) -> core.ClosedJaxpr | None:
    """The program that `eqn` merely calls, or None where it does work of its own."""
    if eqn.primitive.name not in _TRANSPARENT:
        return None
    return eqn.params[_TRANSPARENT[eqn.primitive.name]]


def read(env: dict[core.Var, Any], atom: core.Var | core.Literal) -> Any:
    """The value of a variable or literal."""
    return atom.val if isinstance(atom, core.Literal) else env[atom]


def bind(eqn: core.JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Run one equation on the values of its operands."""
    given = {a: v for a, v in zip(eqn.invars, values, strict=True) if not isinstance(a, core.Literal)}
    # A program of this one equation, because how a primitive takes its parameters differs between JAX versions.
    info = core.DebugInfo("equation", eqn.primitive.name, None, None)
    program = core.Jaxpr((), list(given), eqn.outvars, [eqn], eqn.effects, debug_info=info)
    return core.jaxpr_as_fun(core.ClosedJaxpr(program, ()))(*given.values())


def _evaluate_inlined(closed: core.ClosedJaxpr, values: Sequence[Any]) -> list[Any]:
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, values, strict=True))
    for eqn in closed.jaxpr.eqns:
        inputs = [read(env, atom) for atom in eqn.invars]
        inner = body(eqn)
        outputs = bind(eqn, inputs) if inner is None else _evaluate_inlined(inner, inputs)
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [read(env, atom) for atom in closed.jaxpr.outvars]


def flatten(fn: Callable, *args: Any) -> core.ClosedJaxpr:
    """Trace `fn` into one list of equations: calls inlined, dead equations dropped."""
    closed = jax.make_jaxpr(fn)(*args)
    flat = jax.make_jaxpr(lambda *values: _evaluate_inlined(closed, values))(*jax.tree.leaves(args))
    return core.ClosedJaxpr(flat.jaxpr.replace(eqns=_alive(flat.jaxpr)), flat.consts)


def _alive(jaxpr: core.Jaxpr) -> list[core.JaxprEqn]:
    """The equations on which an output depends."""
    needed = {atom for atom in jaxpr.outvars if not isinstance(atom, core.Literal)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if any(var in needed for var in eqn.outvars):
            kept.append(eqn)
            needed.update(atom for atom in eqn.invars if not isinstance(atom, core.Literal))
    return kept[::-1]


def dependence(closed: core.ClosedJaxpr, marked: Sequence[bool]) -> list[bool]:
    """Which outputs depend on the marked inputs. Loops and branches count as depending on all they are given."""
    tainted = {var for var, mark in zip(closed.jaxpr.invars, marked, strict=True) if mark}

    def is_tainted(atom: core.Var | core.Literal) -> bool:
        return not isinstance(atom, core.Literal) and atom in tainted

    for eqn in closed.jaxpr.eqns:
        inputs = [is_tainted(atom) for atom in eqn.invars]
        if not any(inputs):
            continue
        inner = body(eqn)
        outputs = [True] * len(eqn.outvars) if inner is None else dependence(inner, inputs)
        tainted.update(var for var, mark in zip(eqn.outvars, outputs, strict=True) if mark)
    return [is_tainted(atom) for atom in closed.jaxpr.outvars]


def gradients(fn: Callable, *args: Any) -> list[list[bool]]:
    """For each array that `fn` returns, the arrays among `args` that its gradient reaches."""
    leaves, tree = jax.tree.flatten(args)

    def outputs(*leaves: Array) -> list[Array]:
        return jax.tree.leaves(fn(*tree.unflatten(leaves)))

    def pull_back(leaves: list[Array], cotangents: list[Array]) -> tuple[Array, ...]:
        return jax.vjp(outputs, *leaves)[1](cotangents)

    cotangents = jax.eval_shape(outputs, *leaves)
    closed = jax.make_jaxpr(pull_back)(leaves, cotangents)
    places = range(len(leaves), len(closed.jaxpr.invars))
    return [dependence(closed, [i == place for i in range(len(closed.jaxpr.invars))]) for place in places]


def false_from(leaf: Array) -> Array:
    """False, made of `leaf`: as the operand of an ordered callback it has `vmap` over `leaf` refused."""
    words = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return jnp.any(jnp.ravel(words)[:1] != 0) & False

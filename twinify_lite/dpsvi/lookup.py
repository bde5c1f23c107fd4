"""The building block of mixtures of products: a level's log-probability under each component.

It is a primitive of its own, so that a traced program shows it for what it is: a function of the user's that only has
its name is another one. Where the primitive is batched (particles, several answers a person), it turns into ordinary
operations, so the rule below only ever meets the shapes that it was derived for.

With s = softmax(logits) and the level l of a row, the gradient for component k is dy_k (onehot(l) - s_k). Entry l of
the bracket is computed as the sum of the other levels' shares, never as 1 - s_kl, which would lose all of its digits
where the component is almost sure of l.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float, Int

# Squares that are too small for a float, or flushed to zero, are nothing next to the square of this.
_LEAST = 2.0**-40


def log_softmax_lookup(logits: Float[Array, "component level"], level: Int[Array, ""]) -> Float[Array, " component"]:
    """The log-probability of `level` under each component's `softmax(logits)`.

    Its per-row gradient has a norm in closed form, so no array of rows x components x levels is made.
    """
    logits, level = jnp.asarray(logits), jnp.asarray(level)
    if logits.ndim == 2 and level.ndim == 0 and jnp.issubdtype(level.dtype, jnp.integer):
        return lookup_p.bind(logits, level)
    return _plain(logits, level)


def _plain(logits: Array, level: Array) -> Array:
    return jax.nn.log_softmax(logits, axis=-1)[:, level]


lookup_p = core.Primitive("log_softmax_lookup")
lookup_p.def_impl(jax.jit(_plain))
lookup_p.def_abstract_eval(lambda logits, level: logits.update(shape=logits.shape[:1]))
mlir.register_lowering(lookup_p, mlir.lower_fun(_plain, multiple_results=False))
batching.primitive_batchers[lookup_p] = lambda args, axes: (jax.vmap(_plain, in_axes=axes)(*args), 0)


def _jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    logits, level = primals
    return jax.jvp(lambda logits: _plain(logits, level), (logits,), (tangents[0],))


ad.primitive_jvps[lookup_p] = _jvp


def gap(logits: Float[Array, "component level"]) -> Float[Array, "component level"]:
    """A bound on |onehot(l) - s_k| for each component k and level l, all of its terms positive.

    Formal guarantee: at least that but for rounding, and at least 2^-40, where the true one may be so small that its
    squares are none. So a cotangent times this is finite only if the cotangent, clipped by it and scaled to steps of
    a lattice, is far from overflowing, and so is the sum of a chunk of them.
    """
    shares = jax.nn.softmax(logits, axis=-1)
    squares = jnp.square(_sum_of_others(shares)) + _sum_of_others(jnp.square(shares))
    return jnp.sqrt(squares + _LEAST**2)


def pull_back(
    logits: Float[Array, "component level"], levels: Int[Array, " row"], cotangents: Float[Array, "row component"]
) -> Float[Array, "component level"]:
    """The sum over rows of dy_k (onehot(level) - s_k).

    Formal guarantee: entry by entry, it is off by at most (rows + levels + 4) units of rounding times the sum over the
    rows of the size of that entry: nothing is subtracted that was added before.
    """
    shares = jax.nn.softmax(logits, axis=-1)
    by_level = jnp.zeros_like(logits).at[:, levels].add(cotangents.T)
    return by_level * _sum_of_others(shares) - shares * _sum_of_others(by_level)


def _sum_of_others(x: Float[Array, "component level"]) -> Float[Array, "component level"]:
    """For each level, the sum over all other levels, without subtracting."""
    empty = jnp.zeros_like(x[:, :1])
    before = jnp.cumsum(jnp.concatenate([empty, x[:, :-1]], axis=1), axis=1)
    after = jnp.cumsum(jnp.concatenate([empty, x[:, :0:-1]], axis=1), axis=1)[:, ::-1]
    return before + after

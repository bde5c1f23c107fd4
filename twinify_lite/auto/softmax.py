"""One softmax regression with a wanted gradient: the convex problem at the heart of the chain."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

_ITERATIONS = 40
# Rounds that move the biases alone, so that the column's shares come out even where the effects are not quite settled.
_ROUNDS = 20


def fit_softmax(
    design: Float[np.ndarray, "row feature"],
    own: Float[np.ndarray, "level level"],
    wanted: Float[np.ndarray, "feature level"],
    penalty: Float[np.ndarray, " feature"],
    shares: Float[np.ndarray, " level"],
    known: Float[np.ndarray, "row level"] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Effects A, a shift c of the bias, and each row's distribution softmax(log shares + c + known + design A own').

    They minimise mean(log normaliser) - c . shares - <A, wanted> + sum(penalty A^2) / 2: at the optimum the column's
    expected shares are `shares`, and the expected design' p own / rows is `wanted` up to penalty * A.
    """
    features, levels = wanted.shape
    known = np.zeros((len(design), levels)) if known is None else known
    # Padded to a few shapes, so that few programs are compiled.
    add, more = -features % 64, max(4, 1 << (levels - 1).bit_length()) - levels
    problem = (
        jnp.asarray(np.pad(design, ((0, 0), (0, add))), jnp.float32),
        jnp.asarray(np.pad(own, ((0, more), (0, more))), jnp.float32),
        jnp.asarray(np.pad(wanted, ((0, add), (0, more))), jnp.float32),
        jnp.asarray(np.pad(penalty, (0, add), constant_values=1.0)[:, None], jnp.float32),
        jnp.asarray(np.pad(shares, (0, more)), jnp.float32),
        jnp.asarray(np.pad(known, ((0, 0), (0, more))), jnp.float32),
    )
    scales = _scales(*problem)
    shape = problem[2].shape

    def value(point: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = _value_and_slope(jnp.asarray(point, jnp.float32), scales, problem)
        return float(loss), np.asarray(slope, np.float64)

    start = np.zeros(shape[0] * shape[1] + shape[1])
    options = {"maxiter": _ITERATIONS, "maxcor": 10, "ftol": 1e-10, "gtol": 1e-6}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options).x
    effects, shift = _unpack(jnp.asarray(found, jnp.float32), scales, shape)
    shift, given = _settled(effects, shift, problem)
    return tuple(np.asarray(x, np.float64) for x in (effects[:features, :levels], shift[:levels], given[:, :levels]))


@jax.jit
def _settled(effects: Array, shift: Array, problem: tuple[Array, ...]) -> tuple[Array, Array]:
    """The shift with which the rows' mean distribution is the column's, and each row's distribution."""
    shares = problem[4]
    logits = _logits(effects, shift, *problem)

    def round_of(_: int, more: Array) -> Array:
        given = jax.nn.softmax(logits + more, axis=1).mean(axis=0)
        return more + jnp.where(shares > 0, jnp.log(shares / jnp.maximum(given, 1e-12)), 0.0)

    more = jax.lax.fori_loop(0, _ROUNDS, round_of, jnp.zeros_like(shift))
    return shift + more, jax.nn.softmax(logits + more, axis=1)


def _scales(design: Array, own: Array, _w: Array, penalty: Array, shares: Array, _k: Array) -> tuple[Array, Array]:
    """Units in which the curvature of every coordinate is about one."""
    curvature = jnp.mean(design**2, axis=0)[:, None] * ((own**2).T @ shares)[None, :]
    return 1 / jnp.sqrt(curvature + penalty), 1 / jnp.sqrt(shares + 1e-5)


def _unpack(point: Array, scales: tuple[Array, Array], shape: tuple[int, int]) -> tuple[Array, Array]:
    cut = shape[0] * shape[1]
    return scales[0] * point[:cut].reshape(shape), scales[1] * point[cut:]


def _logits(
    effects: Array, shift: Array, design: Array, own: Array, _w: Array, _p: Array, shares: Array, known: Array
) -> Array:
    bias = jnp.where(shares > 0, jnp.log(jnp.where(shares > 0, shares, 1.0)) + shift, -1e9)
    return bias + known + design @ (effects @ own.T)


@jax.jit
@partial(jax.value_and_grad, argnums=0)
def _value_and_slope(point: Array, scales: tuple[Array, Array], problem: tuple[Array, ...]) -> Float[Array, ""]:
    _, _, wanted, penalty, shares, _ = problem
    effects, shift = _unpack(point, scales, wanted.shape)
    normaliser = jnp.mean(jax.nn.logsumexp(_logits(effects, shift, *problem), axis=1))
    return normaliser - shift @ shares - jnp.sum(effects * wanted) + jnp.sum(penalty * effects**2) / 2

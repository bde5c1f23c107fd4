"""Gaussian noise with its whole tail, added where floating point has nothing to leak.

`jax.random.normal` inverts a 23-bit uniform in float32, so it never leaves +-5.42 standard deviations, which a
Gaussian does with probability 6e-8. Over a million coordinates and a thousand steps that happens about sixty times:
far more than any delta an accountant promises. Here the radius of a Box-Muller pair comes from 64 bits.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Float32, Key, UInt32

# Polynomials in x^2, fitted at Chebyshev nodes: relative errors 2^-26.9, 2^-27.2 and 2^-28. Written out because
# the arguments come as integers: reduced exactly, they need neither a logarithm nor a general sine.
_ATANH = (1.0, 0.33333158, 0.20012426, 0.13980709, 0.14087328)  # atanh(x) / x on 0 <= x <= 1/3
_SIN = (1.0, -0.16666651, 0.0083320364, -0.00019503963)  # sin(x) / x on |x| <= pi / 4
_COS = (1.0, -0.5, 0.041666616, -0.0013886619, 2.437988e-05)  # cos(x) on |x| <= pi / 4


def _polynomial(coefficients: tuple[float, ...], x: Float32[Array, "*n"]) -> Float32[Array, "*n"]:
    value = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = value * x + np.float32(c)
    return value


def _exponential(high: UInt32[Array, "*n"], low: UInt32[Array, "*n"]) -> Float32[Array, "*n"]:
    """Turn 64 random bits into -log(u) of a uniform u = 2^-k (1 - g/2): `high` gives k, `low` gives g.

    Both ends keep their relative precision: a small u has a large k, and a u near 1 has k = 0 and a small g.
    Bits of `high` below its leading one extend g; where `high` is 0 (once in 2^32), `low` takes both roles.
    """
    spent = high == 0
    leading = jnp.where(spent, low, high)
    zeros = lax.clz(leading)
    # The bits after the leading one as a fraction of 2^32, in the middle of the interval they leave open.
    rest = ((leading << zeros) << 1 | jnp.uint32(1) << zeros).astype(jnp.float32) * np.float32(2**-32)
    g = jnp.where(spent, rest, (low.astype(jnp.float32) + rest) * np.float32(2**-32))
    k = (zeros + jnp.where(spent, np.uint32(32), np.uint32(0))).astype(jnp.int32).astype(jnp.float32)
    # -log(1 - g/2) = 2 atanh(s)
    s = g / (4 - g)
    return k * np.float32(math.log(2)) + 2 * s * _polynomial(_ATANH, s * s)


def _cosine(angle: UInt32[Array, "*n"]) -> Float32[Array, "*n"]:
    """Return the cosine of 2 pi (angle + 1/2) / 2^32, with the nearest quarter turn split off in exact integers."""
    quarter = (angle + np.uint32(2**29)) >> 30
    rest = lax.bitcast_convert_type(angle - (quarter << 30), jnp.int32).astype(jnp.float32)
    x = (rest + np.float32(0.5)) * np.float32(math.pi / 2**31)
    size = jnp.where(quarter % 2 == 0, _polynomial(_COS, x * x), x * _polynomial(_SIN, x * x))
    return jnp.where((quarter == 1) | (quarter == 2), -size, size)


def from_bits(
    high: UInt32[Array, "*n"], low: UInt32[Array, "*n"], angle: UInt32[Array, "*n"]
) -> Float32[Array, "*n 2"]:
    """Turn 96 random bits into two independent standard normal numbers (Box and Muller 1958).

    Formal guarantee: both lie within 2^-21 r of what Box and Muller give in the centre of the cell of the unit square
    that the bits name, r <= 9.419 being the radius there.
    """
    radius = jnp.sqrt(2 * _exponential(high, low))
    # The sine is the cosine a quarter turn earlier: one formula for both instead of a copy that joins them.
    earlier = jnp.asarray([0, 2**30], jnp.uint32)
    return radius[..., None] * _cosine(angle[..., None] - earlier)


@partial(jax.jit, static_argnums=1)
def gaussian(key: Key[Array, ""], shape: tuple[int, ...]) -> Float32[Array, "*shape"]:
    """Draw independent standard normal numbers from the stream of `key`.

    Formal guarantee, for uniformly random bits: true Gaussian pairs (X, Y) can be coupled with those drawn here such
    that each number is off by at most 2^-21 sqrt(X^2 + Y^2), except with probability 2^-41 a pair (a radius below 2^-21
    or beyond 8.1). No radius exceeds 9.419, which that of a Gaussian pair does with probability 2^-64: so much does the
    missing tail cost in total variation distance.
    """
    size = math.prod(shape)
    bits = jax.random.bits(key, (3, (size + 1) // 2), jnp.uint32)
    return from_bits(*bits).ravel()[:size].reshape(shape)


def error_bound(size: int) -> float:
    """Total variation distance that the missing tail beyond 9.4 costs `size` numbers."""
    return (size + 1) // 2 * 2.0**-64


def lattice_bits(size: int, noise_multiplier: float) -> int:
    """The lattice step is 2^-bits of the noise's sd: fine enough to cost at most 0.1 % of noise, at most 2^-12."""
    return min(max(12, math.ceil(math.log2(1000 * noise_multiplier * math.sqrt(max(size, 1))))), 22)


def add_on_lattice(
    values: Float[Array, "*n"], normals: Float32[Array, "*n"], noise_multiplier: float, size: int
) -> Float32[Array, "*n"]:
    """Add standard normal noise to `values`, given in units of the noise's sd, all on one lattice of integers.

    `values` may be a part of a release of `size` numbers.

    Formal guarantee: a Gaussian mechanism of `noise_multiplier` whenever one row moves `values` by at most
    1/noise_multiplier in L2 and `normals` are Gaussian. Each value is rounded to an integer number of steps, which can
    add step * sqrt(size) to the distance of neighbours; the noise is larger by that share. For an integer m and a
    Gaussian X, m + round(X) = round(m + X): post-processing. So the low bits of the result are those of a lattice,
    the same for every table, and neither the sum's nor the noise's own floating-point grid can be read off (Mironov
    2012, "On significance of the least significant bits for differential privacy").
    """
    step = 2.0 ** -lattice_bits(size, noise_multiplier)
    larger = 1 + noise_multiplier * math.sqrt(size) * step
    whole = jnp.round(jnp.clip(values.astype(jnp.float32) / step, -(2.0**30), 2.0**30)).astype(jnp.int32)
    noise = jnp.round(normals * np.float32(larger / step)).astype(jnp.int32)
    return (whole + noise).astype(jnp.float32) * np.float32(step)

"""Gaussian noise with its whole tail, added where floating point has nothing to leak.

`jax.random.normal` inverts a 23-bit uniform in float32, so it never leaves +-5.42 standard deviations, which a
Gaussian does with probability 6e-8. Over a million coordinates and a thousand steps that happens about sixty times:
far more than any delta an accountant promises. Here the radius of a Box-Muller pair comes from up to 72 bits.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Float32, Key, UInt32

# Up to so many numbers are drawn with all bits that any of them could need: a half more words and no branch.
FEW = 2**16

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
    """Return -log(u) of u = 2^-k (1 - g/2): the 64 bits begin with k zeros and a one, and then g as a fraction.

    Both ends keep their precision: a small u has a large k, and a u near 1 has k = 0 and a small g. `low` is not 0.
    """
    spent = high == 0
    leading = jnp.where(spent, low, high)
    rest = jnp.where(spent, np.uint32(0), low)
    zeros = lax.clz(leading)
    scale = (np.uint32(1) << zeros).astype(jnp.float32) * np.float32(2**-31)
    g = (((leading << zeros) << 1).astype(jnp.float32) + rest.astype(jnp.float32) * scale) * np.float32(2**-32)
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


def needs_extra(first: UInt32[Array, "*n"]) -> Bool[Array, "*n"]:
    """Whether the radius starts with 24 zero bits: so far out (5.8), 16 bits are left to tell radii apart."""
    return first < np.uint32(2**8)


def from_bits(
    first: UInt32[Array, "*n"], second: UInt32[Array, "*n"], extra: UInt32[Array, "*n"]
) -> Float32[Array, "2 *n"]:
    """Turn 64 random bits into two independent standard normal numbers (Box and Muller 1958), or 96 where needed.

    The radius comes from the bits of `first`, the 8 high bits of `second` and, only where `needs_extra(first)`, those
    of `extra`; the angle comes from the 24 low bits of `second`.

    Formal guarantee: both lie within 2^-21 r of what Box and Muller give in the centre of the cell of the unit square
    that the bits name, r <= 9.991 being the radius there.
    """
    far = needs_extra(first)
    byte = second >> 24
    # A one below the last bit is the centre of the interval that the bits leave open.
    high = jnp.where(far, (first << 24) | (byte << 16) | (extra >> 16), first)
    low = jnp.where(far, (extra << 16) | np.uint32(2**15), (byte << 24) | np.uint32(2**23))
    radius = jnp.sqrt(2 * (_exponential(high, low) + jnp.where(far, np.float32(24 * math.log(2)), np.float32(0))))
    # The sine is the cosine a quarter turn earlier: one formula for both instead of a copy that joins them.
    earlier = jnp.asarray([0, 2**30], jnp.uint32).reshape(2, *[1] * first.ndim)
    return radius * _cosine(((second << 8) | np.uint32(2**7)) - earlier)


@partial(jax.jit, static_argnums=1)
def gaussian(key: Key[Array, ""], shape: tuple[int, ...]) -> Float32[Array, "*shape"]:
    """Draw independent standard normal numbers from the stream of `key`.

    Formal guarantee, for uniformly random bits: true Gaussian pairs (X, Y) can be coupled with those drawn here such
    that each number is off by at most 2^-19 max(1, sqrt(X^2 + Y^2)), except with probability 2^-56 a pair (a radius
    beyond 8.8). No radius exceeds 9.991, which that of a Gaussian pair does with probability 2^-72: so much does the
    missing tail cost in total variation distance.
    """
    size = math.prod(shape)
    pairs = (size + 1) // 2
    if size <= FEW:
        return from_bits(*jax.random.bits(key, (3, pairs), jnp.uint32)).ravel()[:size].reshape(shape)
    key, key_extra = jax.random.split(key)
    first, second = jax.random.bits(key, (2, pairs), jnp.uint32)
    numbers = lax.cond(
        jnp.any(needs_extra(first)),
        lambda: from_bits(first, second, jax.random.bits(key_extra, (pairs,), jnp.uint32)),
        lambda: from_bits(first, second, jnp.zeros_like(first)),
    )
    return numbers.ravel()[:size].reshape(shape)


def error_bound(size: int) -> float:
    """Total variation distance that the missing tail beyond 9.9 costs `size` numbers."""
    return (size + 1) // 2 * 2.0**-72


def lattice_bits(size: int, noise_multiplier: float) -> int:
    """The lattice step is 2^-bits of the noise's sd: at most 2^-12, and finer if that costs over 0.1 % of noise.

    At most 20 bits: single precision tells steps of 2^-20 apart up to 16, beyond the end of the noise's tail.
    """
    return min(max(12, math.ceil(math.log2(1000 * noise_multiplier * math.sqrt(max(size, 1))))), 20)


def add_on_lattice(
    values: Float[Array, "*n"], normals: Float32[Array, "*n"], noise_multiplier: float, size: int
) -> Float32[Array, "*n"]:
    """Add standard normal noise to `values`, given in units of the noise's sd, all on one lattice of integers.

    `values` may be a part of a release of `size` numbers.

    Formal guarantee: a Gaussian mechanism of `noise_multiplier` whenever one row moves `values` by at most
    1/noise_multiplier in L2 and `normals` are Gaussian. Each value is rounded to an integer number of steps, which can
    add step * sqrt(size) to the distance of neighbours; the noise is larger by that share. For an integer m and a
    Gaussian X, m + floor(X) = floor(m + X): post-processing. So the low bits of the result are those of a lattice,
    the same for every table, and neither the sum's nor the noise's own floating-point grid can be read off (Mironov
    2012, "On significance of the least significant bits for differential privacy").
    """
    step = 2.0 ** -lattice_bits(size, noise_multiplier)
    larger = 1 + noise_multiplier * math.sqrt(size) * step
    # Up for the values and down for the noise: half a step each way, which cancel. Rounding the noise to the nearest
    # would send the halves of its floating-point grid to even integers, and show the parity of the value beneath.
    whole = jnp.ceil(jnp.clip(values.astype(jnp.float32) / step, -(2.0**30), 2.0**30)).astype(jnp.int32)
    noise = jnp.floor(normals * np.float32(larger / step)).astype(jnp.int32)
    return (whole + noise).astype(jnp.float32) * np.float32(step)

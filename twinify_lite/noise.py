"""Gaussian noise with its whole tail, added where floating point has nothing to leak.

`jax.random.normal` inverts a 23-bit uniform in float32, so it never leaves +-5.42 standard deviations, which a
Gaussian does with probability 6e-8. Over a million coordinates and a thousand steps that happens about sixty times:
far more than any delta an accountant promises. Here the radius of a Box-Muller pair comes from up to 87 bits.

Sum and noise meet as integers (`Lattice`), so neither's low bits can be read off (Mironov 2012, "On significance of the
least significant bits for differential privacy"). But Box and Muller in float32 have a grid of their own, 2^24 rays and
radii a float apart, and whoever knows it could tell one table from another by a million coordinates on a fine lattice.
So every number also gets an independent uniform integer, a sixteenth of the noise wide, in which that grid drowns.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Float32, Int32, Key, UInt32

from twinify_lite.errors import PrivacyParameterError

# Up to so many numbers are drawn with all bits that any of them could need: more words, but no branch.
FEW = 2**13

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
    first: UInt32[Array, "*n"], second: UInt32[Array, "*n"], extra: UInt32[Array, "2 *n"]
) -> Float32[Array, "2 *n"]:
    """Turn 64 random bits into two independent standard normal numbers (Box and Muller 1958), or 128 where needed.

    The radius comes from the bits of `first`, the 8 high bits of `second` and, only where `needs_extra(first)`, 47 bits
    of `extra`; the angle comes from the 24 low bits of `second`.

    Formal guarantee: both lie within 2^-21 r of what Box and Muller give in the centre of the cell of the unit square
    that the bits name, r <= 10.982 being the radius there.
    """
    far = needs_extra(first)
    byte = second >> 24
    # A one below the last bit is the centre of the interval that the bits leave open.
    high = jnp.where(far, (first << 24) | (byte << 16) | (extra[0] >> 16), first)
    low = jnp.where(far, (extra[0] << 16) | (extra[1] >> 16) | np.uint32(1), (byte << 24) | np.uint32(2**23))
    radius = jnp.sqrt(2 * (_exponential(high, low) + jnp.where(far, np.float32(24 * math.log(2)), np.float32(0))))
    # The sine is the cosine a quarter turn earlier: one formula for both instead of a copy that joins them.
    earlier = _column([0, 2**30], first.ndim)
    return radius * _cosine(((second << 8) | np.uint32(2**7)) - earlier)


def _column(words: list[int], ndim: int) -> UInt32[Array, "2 *one"]:
    return jnp.asarray(words, jnp.uint32).reshape(2, *[1] * ndim)


class Lattice(NamedTuple):
    """Where a Gaussian release lives: on the integers, times `unit` of the noise that was asked for.

    The noise's standard deviation is 2^bits integers.
    """

    bits: int
    unit: float


def lattice(size: int, noise_multiplier: float) -> Lattice:
    """The lattice for a Gaussian release of `size` numbers.

    Rounding them to integers can add sqrt(size) to the distance of neighbours, so the unit is larger by that share. It
    is at most 0.1 % as long as 20 bits allow it: single precision tells steps of 2^-20 apart up to 16, beyond the end
    of the noise's tail.
    """
    distance = noise_multiplier * math.sqrt(max(size, 1))
    bits = min(max(12, math.ceil(math.log2(1000 * distance))), 20)
    share = distance * 2.0**-bits
    if share > 0.5:
        raise PrivacyParameterError(
            f"A noise multiplier of {noise_multiplier:g} on {size} numbers is beyond what can be drawn safely: it "
            "times the root of their number must stay below 500,000. Use fewer parameters or less noise."
        )
    return Lattice(bits, 2.0**-bits / (1 - share))


@partial(jax.jit, static_argnums=(1, 2))
def draw(key: Key[Array, ""], size: int, bits: int) -> Int32[Array, "size"]:
    """Draw independent Gaussian integers of standard deviation 2^bits, each with an independent uniform integer added.

    Formal guarantee, for uniformly random bits: each is floor(2^bits X~) + D - 2^(bits - 5), with D uniform on 2^(bits
    - 4) values and independent of everything. True Gaussian pairs (X, Y) can be coupled with the (X~, Y~) of Box and
    Muller such that each number is off by at most 2^-19 max(1, sqrt(X^2 + Y^2)), except with probability 2^-71 a pair
    (a radius beyond 9.9). No radius exceeds 10.982, which that of a Gaussian pair does with probability 2^-87: so much
    does the missing tail cost in total variation distance.
    """
    pairs = (size + 1) // 2
    if size <= FEW:
        first, second, uniform, *extra = jax.random.bits(key, (5, pairs), jnp.uint32)
        return _integers(first, second, uniform, jnp.stack(extra), bits).ravel()[:size]
    key, key_extra = jax.random.split(key)
    words = jax.random.bits(key, (3, pairs), jnp.uint32)
    drawn = lax.cond(
        jnp.any(needs_extra(words[0])),
        lambda: _integers(*words, jax.random.bits(key_extra, (2, pairs), jnp.uint32), bits),
        lambda: _integers(*words, jnp.zeros((2, pairs), jnp.uint32), bits),
    )
    return drawn.ravel()[:size]


def _integers(
    first: UInt32[Array, " n"],
    second: UInt32[Array, " n"],
    uniform: UInt32[Array, " n"],
    extra: UInt32[Array, "2 n"],
    bits: int,
) -> Int32[Array, "2 n"]:
    # Down, never to the nearest: that sends ties to even integers and shows the parity of what is added.
    rounded = jnp.floor(from_bits(first, second, extra) * np.float32(2**bits)).astype(jnp.int32)
    dither = ((uniform >> _column([0, 16], 1)) & np.uint32(2**16 - 1)) >> (20 - bits)
    return rounded + (dither.astype(jnp.int32) - np.int32(2 ** (bits - 5)))


def error_bound(size: int) -> float:
    """Total variation distance that the missing tail beyond 10.9 costs `size` numbers."""
    return (size + 1) // 2 * 2.0**-87


def add(values: Float[Array, "*n"], drawn: Int32[Array, "*n"], on: Lattice) -> Float[Array, "*n"]:
    """Add `draw`n noise to `values`, given in units of the noise that was asked for.

    Formal guarantee: for values that one row moves by at most 1/noise_multiplier in L2, and as far as the X~ of `draw`
    are Gaussian, a Gaussian mechanism of the noise multiplier that `on` was made for; `values` may be a part of the
    release. Each value is rounded to an integer m. For a Gaussian X, m + floor(X) = floor(m + X) is post-processing,
    and so is adding an independent integer to it.
    """
    whole = jnp.ceil(jnp.clip(values.astype(jnp.float32) / on.unit, -(2.0**30), 2.0**30)).astype(jnp.int32)
    return ((whole + drawn).astype(jnp.float32) * np.float32(on.unit)).astype(values.dtype)

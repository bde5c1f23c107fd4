"""Where rows become whole numbers: the lattice of a step's release, and sums on it that no order can change.

Sums of floats have no bound: with a million rows in float32, one more row moves a clipped sum by 1.07 clip norms. So a
row's clipped gradient is scaled to lattice steps, `limit` of them to a clip norm, and what is added up are integers.

Gradients that are in hand row by row are truncated, which lengthens none, and their sum is exact. Where only weighted
sums are in hand, products of activations and cotangents, a sum over a chunk of places is computed in floating point and
rounded, and the chunks are added up as integers. For that the theorem is this.

Let every row's clipped gradient be a vector of at most `limit` steps that its place in the batch does not change, and
let a chunk of m places be summed in any order, with or without fused operations, so that an entry goes through at most
r roundings. Then an entry is off by at most gamma_r times the sum of the sizes of what was added (gamma_r = r u / (1 -
r u), u = 2^-24), so the chunk's sum by at most gamma_r m limit in L2, and rounding its d entries moves it by sqrt(d)/2
more. Places are uniformly random, so a row that joins can be thought of as taking the place of a random row, which
moves to the end: two chunks are touched, both before and after. The whole thus moves by at most

    limit + 4 (gamma_r m limit + sqrt(d) / 2)

steps. Where a row is replaced, one chunk is touched, and 2 limit + 2 (gamma_r m limit + sqrt(d) / 2) is less than twice
that. `lattice_for` finds the largest `limit` with which it is at most what the noise pays for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from twinify_lite import noise
from twinify_lite.errors import PrivacyParameterError

#: Microbatches are multiples of so many places, on every device.
WIDTH = 32
#: The most places whose weighted sum is computed in floating point: more would cost more of the signal than 0.2 %,
#: fewer would have more sums to round and add.
CHUNK = 80
_UNIT = 2.0**-24  # the relative error of one rounding in single precision
# Whole numbers up to this are exact in single precision, and 4,096 of them add up in two words of 16 and 32 bits.
_MOST = 2**22
_BITS = 16
# The sum of as many rows stays below 2^31, with room for what rounding adds to one.
_TOGETHER = 2**8


class Lattice(NamedTuple):
    """A step's release in whole numbers.

    A row's gradient has a norm of at most `limit`, and it adds `count` or -`count` to the clip count; `law` is the law
    of the noise of every number.
    """

    limit: float
    count: int
    law: noise.Law


class Summed(NamedTuple):
    """How a step's sum is made: all of its coordinates, those of them that are summed in floating point, and the
    roundings that an entry of a chunk's sum goes through."""

    coordinates: int
    tapped: int
    roundings: int


def rounding(summed: Summed, limit: float) -> float:
    """By how many steps one row's joining can move the sum beyond `limit`: the theorem above."""
    if not summed.tapped:
        return 0.0
    gamma = summed.roundings * _UNIT / (1 - summed.roundings * _UNIT)
    return 4 * (gamma * CHUNK * limit + math.sqrt(summed.tapped) / 2)


def lattice_for(summed: Summed, noise_multiplier: float, share: float) -> Lattice:
    """The lattice of a release of `noise_multiplier`, of which `share` of the squared signal is the clip count's.

    Formal guarantee: (limit + rounding(limit))^2 + count^2 <= (law.deviation / noise_multiplier)^2, so one row moves
    the released vector of integers by at most 1/noise_multiplier of its noise.
    """
    # Fine enough for rounding and truncation to cost about a thousandth of the signal, if any law is.
    law = noise.law_for(1000 * noise_multiplier * (1 + 2 * math.sqrt(summed.coordinates)))
    whole = law.deviation / noise_multiplier * (1 - 2.0**-40)
    count = min(math.floor(math.sqrt(share) * whole), _MOST)
    room = math.sqrt(whole**2 - count**2) * (1 - 2.0**-40)
    # The bound is limit times a factor, and a constant.
    fixed = rounding(summed, 0.0)
    factor = 1 + rounding(summed, 1.0) - fixed
    limit = min((room - fixed) / factor * (1 - 2.0**-40), float(_MOST))
    if limit < room / 2 and limit < _MOST:
        raise PrivacyParameterError(
            f"A noise multiplier of {noise_multiplier:g} on {summed.coordinates} numbers is beyond what can be drawn "
            "safely: the steps in which sums are counted would be too coarse. Use fewer parameters or less noise."
        )
    return Lattice(limit, count, law)


class Words(NamedTuple):
    """Integers too large for 32 bits: high * 2^16 + low, modulo 2^48.

    Should a sum ever be larger, noise is added modulo 2^48 as well, and what leaves is still a function of the sum with
    its noise: that would cost accuracy, not privacy.
    """

    high: Int[Array, "*n"]
    low: Int[Array, "*n"]


def sum_rows(values: Int[Array, "row *n"]) -> Words:
    """The exact sum over at most 2^15 rows."""
    return _carried(
        jnp.sum(values >> _BITS, axis=0, dtype=jnp.int32), jnp.sum(values & (2**_BITS - 1), axis=0, dtype=jnp.int32)
    )


def sum_clipped(values: Int[Array, "row *n"]) -> Words:
    """The exact sum over at most 2^15 rows of at most 2^22 steps each: some of them fit into one word together."""
    together = max(size for size in range(1, _TOGETHER + 1) if values.shape[0] % size == 0)
    return sum_rows(jnp.sum(values.reshape(-1, together, *values.shape[1:]), axis=1, dtype=jnp.int32))


def add(a: Words, b: Words) -> Words:
    """The exact sum of two."""
    return _carried(a.high + b.high, a.low + b.low)


def add_noise(total: Words, drawn: Int[Array, "*n"]) -> Float[Array, "*n"]:
    """The total with its noise, in steps. Only from here on may numbers be rounded."""
    noisy = _carried(total.high + (drawn >> _BITS), total.low + (drawn & (2**_BITS - 1)))
    return as_float(noisy)


def as_float(total: Words) -> Float[Array, "*n"]:
    """The integer to the nearest float or the one after it."""
    return total.high.astype(jnp.float32) * 2.0**_BITS + total.low.astype(jnp.float32)


def zeros(shape: tuple[int, ...]) -> Words:
    """Sums of no rows."""
    return Words(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.int32))


def truncated(values: Float[Array, "*n"]) -> Int[Array, "*n"]:
    """Towards zero: no entry grows, so no vector does."""
    return values.astype(jnp.int32)


def rounded(values: Float[Array, "*n"]) -> Int[Array, "*n"]:
    """To the nearest: by at most half a step an entry."""
    return jnp.rint(values).astype(jnp.int32)


def _carried(high: Int[Array, "*n"], low: Int[Array, "*n"]) -> Words:
    return Words(high + (low >> _BITS), low & (2**_BITS - 1))


def chunk_of(width: int) -> int:
    """The largest chunk that divides a microbatch of `width` places."""
    return max(size for size in range(1, CHUNK + 1) if width % size == 0)

"""Rounded Gaussian noise for millions of numbers, with a proven distance from its law that delta pays for.

    floor(stride T + scale X) = stride T + floor(scale X)

T is a discrete Gaussian and X a continuous one, and each side of the sum is one look into an exact table (`alias.py`):
one random word, one gather. Two tables of 2^15 columns do what one of 2^30 would. `Law` proves it.

`jax.random.normal` inverts a 23-bit uniform in float32, so it never leaves +-5.42 standard deviations, which a Gaussian
does with probability 6e-8. Over a million coordinates and a thousand steps that happens about sixty times: far more
than any delta an accountant promises. These tables reach beyond 10.8, and what they miss there is charged.

Sum and noise meet as integers, so neither's low bits can be read off (Mironov 2012, "On significance of the least
significant bits for differential privacy").
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, Key, UInt32

from twinify_lite import alias

# This many numbers are drawn at once: their words and what is looked up stay in a core's cache.
BLOCK = 2**13


class Law(NamedTuple):
    """A continuous Gaussian of standard deviation `deviation`, rounded down, from two tables of 2^bits columns.

    Formal guarantee: where T and X are drawn from their true laws, the total variation distance between stride T +
    floor(scale X) and floor(G), with G a continuous Gaussian of standard deviation D = scale sqrt(stride^2 + 1), is at
    most `theta_bound`. `deviation` is the largest multiple of 2^-32 that is not above D.

    The density of S = stride T + scale X at x is a sum over the integers k of exp(-k^2 / (2 scale^2)) exp(-(x - stride
    k)^2 / (2 scale^2)), up to a factor. Completing the square gives exp(-x^2 / (2 D^2)) times the sum of exp(-(k -
    c x)^2 / (2 tau^2)), with tau = scale / sqrt(stride^2 + 1) and a constant c. By Poisson's summation formula that sum
    is tau sqrt(2 pi) r(x), with r(x) = 1 + 2 (q cos(2 pi c x) + q^4 cos(4 pi c x) + q^9 ...) and q = exp(-2 pi^2
    tau^2). So r lies within 1 +- e, with e = 2 q / (1 - q), and so does its mean under the Gaussian, by which the
    density is divided. The distance is half the mean of |r / mean - 1| <= 2 e / (1 - e), so at most e / (1 - e). As
    stride T is whole, rounding S down is stride T + floor(scale X), and rounding brings no two laws further apart.
    """

    bits: int

    @property
    def scale(self) -> int:
        """The scale of T, and the factor of X, which is a standard Gaussian."""
        return alias.scale(self.bits)

    @property
    def stride(self) -> int:
        """Steps between two values of T: the largest number with tau >= 2."""
        return math.isqrt(self.scale**2 // 4 - 1)

    @property
    def deviation(self) -> float:
        """The Gaussian's standard deviation in whole steps, rounded down."""
        return math.isqrt((self.scale**2 * (self.stride**2 + 1)) << 64) / 2**32

    @property
    def theta_bound(self) -> float:
        """The distance that the discrete T leaves between the sum and a Gaussian."""
        tau_squared = self.scale**2 / (self.stride**2 + 1)
        # A part in a million is more than all roundings here.
        q = math.exp(-2 * math.pi**2 * tau_squared) * (1 + 1e-6)
        return 2 * q / (1 - 3 * q)

    @property
    def tables(self) -> tuple[alias.Table, alias.Table]:
        """The tables of T and of floor(scale X)."""
        return alias.discrete(self.bits), alias.rounded(self.bits)


#: The smaller one's tables are made in 0.02 s and the larger one's in 0.1 s; neither's numbers take longer to draw.
LAWS = (Law(12), Law(15))


def law_for(least: float) -> Law:
    """The first law whose deviation is at least `least`; the last one if there is none."""
    return next((law for law in LAWS if law.deviation >= least), LAWS[-1])


@cache
def _number_error(law: Law) -> float:
    return math.nextafter(sum(table.distance for table in law.tables) + law.theta_bound, math.inf)


def error_bound(size: int, law: Law) -> float:
    """How far `size` drawn numbers are, in total variation distance, from independent rounded Gaussians of `law`.

    What the two tables and the theta bound cost one number, times their number.
    """
    return math.nextafter(size * math.nextafter(_number_error(law), math.inf), math.inf)


@partial(jax.jit, static_argnums=(1, 2))
def draw(key: Key[Array, ""], size: int, law: Law) -> Int32[Array, "size"]:
    """Draw independent continuous Gaussians of standard deviation `law.deviation`, rounded down.

    Formal guarantee: for uniformly random bits, the total variation distance of all numbers from that law is at most
    `error_bound(size, law)`. Each number uses bits of its own, and all devices draw the same integers from a key.
    """
    if size <= BLOCK:
        return _block(key, max(size, 1), law)[:size]
    keys = jax.random.split(key, -(-size // BLOCK))
    one = partial(_block, size=BLOCK, law=law)
    # One block after the other suits a CPU's cache; a GPU wants all at once.
    blocks = lax.platform_dependent(keys, cpu=partial(lax.map, one), default=jax.vmap(one))
    return blocks.ravel()[:size]


def _block(key: Key[Array, ""], size: int, law: Law) -> Int32[Array, "size"]:
    return settled(key, jax.random.bits(key, (2, size), jnp.uint32), law)


def settled(key: Key[Array, ""], words: UInt32[Array, "2 size"], law: Law) -> Int32[Array, "size"]:
    """Look two words a number up, and draw 128 bits more where a comparison is a tie (2^-17 of all, at most).

    The loop goes over ties only: hardly ever once. Extra bits follow from the key and the number's place, by the key's
    stream for `fold_in`, which is another than that of the words.
    """
    columns = jnp.uint32(2**law.bits - 1)
    looked_up = [_gather(table.packed, word & columns) for table, word in zip(law.tables, words, strict=True)]
    # Where the high bits differ, the smaller of two words is the one whose low bits are the answer.
    coarse, fine = (jnp.minimum(word, entry) & columns for word, entry in zip(words, looked_up, strict=True))
    ties = [is_tie(word, entry, law.bits) for word, entry in zip(words, looked_up, strict=True)]

    def settle(state: tuple[Array, Array]) -> tuple[Array, Array]:
        numbers, open_ones = state
        i = jnp.argmax(open_ones)
        extra = jax.random.bits(jax.random.fold_in(key, i), (2, 2), jnp.uint32)
        return numbers.at[i].set(exact(words[:, i], extra, law)), open_ones.at[i].set(False)

    start = _joined(coarse, fine, law), ties[0] | ties[1]
    return lax.while_loop(lambda state: jnp.any(state[1]), settle, start)[0]


def is_tie(word: UInt32[Array, "*n"], entry: UInt32[Array, "*n"], bits: int) -> Bool[Array, "*n"]:
    """Whether a word and what it looks up agree in all bits of the comparison."""
    return (word ^ entry) < jnp.uint32(2**bits)


def exact(words: UInt32[Array, "2 *n"], extra: UInt32[Array, "2 2 *n"], law: Law) -> Int32[Array, "*n"]:
    """The numbers of these words, with 64 more bits for either table, as two words, high bits first."""
    coarse, fine = (_column(*each, law.bits) for each in zip(law.tables, words, extra, strict=True))
    return _joined(coarse, fine, law)


def _column(
    table: alias.Table, word: UInt32[Array, "*n"], extra: UInt32[Array, "2 *n"], bits: int
) -> UInt32[Array, "*n"]:
    """The column that 96 bits choose: the one that they name below its threshold, and else its alias."""
    columns = jnp.uint32(2**bits - 1)
    own = word & columns
    entry, high, low = (_gather(part, own) for part in (table.packed, *table.rest))
    below_in_rest = (extra[0] < high) | ((extra[0] == high) & (extra[1] < low))
    below = (word >> bits < entry >> bits) | ((word >> bits == entry >> bits) & below_in_rest)
    return jnp.where(below, own, entry & columns)


def _gather(part: UInt32[np.ndarray, " column"], at: UInt32[Array, "*n"]) -> UInt32[Array, "*n"]:
    return jnp.asarray(part).at[at].get(mode="promise_in_bounds")


def _joined(coarse: UInt32[Array, "*n"], fine: UInt32[Array, "*n"], law: Law) -> Int32[Array, "*n"]:
    # Integers modulo 2^32, so columns need not be moved to their signed places first.
    middle = np.uint32((law.stride + 1) * 2 ** (law.bits - 1))
    return lax.bitcast_convert_type(coarse * np.uint32(law.stride) + fine - middle, jnp.int32)

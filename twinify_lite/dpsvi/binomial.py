"""How many rows a Poisson-sampled step takes: a binomial draw whose error is known and negligible.

`jax.random.binomial` works in float32 and states no error; the sampling rate enters the privacy accounting exactly,
so the number of rows must follow it exactly too. The table is made once on the host in integer arithmetic.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, UInt32

from twinify_lite.errors import PrivacyParameterError

_MAX_ROWS = 2**31 - 1
# The mode weighs 2^192; values lighter than 2^52 are dropped. At most 2^31 are, so at most 2^(52 + 31 - 192) of the
# mass; and each kept weight is low by less than its distance from the mode, so all together by at most 2^(62 - 192).
_MODE = 2**192
_LIGHTEST = 2**52


class BinomialTable(NamedTuple):
    """For each value from `first` on, 2^128 P(K <= value) rounded down, as four words; without the last one's 2^128."""

    first: Int32[Array, ""]
    words: UInt32[Array, "4 size"]


def _weights(n: int, rate: Fraction, start: int, step: int) -> list[int]:
    """Weigh start + step, start + 2 step, ... against `start`, by the ratio of neighbouring binomial probabilities."""
    up, down = rate.numerator, rate.denominator - rate.numerator
    weights, weight, k = [], _MODE, start
    while True:
        num, den = ((n - k) * up, (k + 1) * down) if step > 0 else (k * down, (n - k + 1) * up)
        weight = weight * num // den if num else 0
        if weight < _LIGHTEST:
            return weights
        weights.append(weight)
        k += step


def binomial_table(n: int, rate: float) -> BinomialTable:
    """Tabulate Binomial(n, rate), with `rate` the exact binary fraction that the float holds."""
    if not 0 <= n <= _MAX_ROWS or not 0 < rate <= 1:
        raise PrivacyParameterError(
            "A step takes Binomial(n, sampling_rate) rows, with 0 <= n < 2^31 and 0 < sampling_rate <= 1. "
            f"The sampling_rate given is {rate}; check it and the number of rows."
        )
    exact = Fraction(rate)
    mode = min(n, (n + 1) * exact.numerator // exact.denominator)
    below, above = _weights(n, exact, mode, -1), _weights(n, exact, mode, +1)
    cumulative = list(accumulate([*reversed(below), _MODE, *above]))
    total = cumulative.pop()
    thresholds = [(weight << 128) // total for weight in cumulative]
    words = [[threshold >> shift & 0xFFFFFFFF for threshold in thresholds] for shift in (96, 64, 32, 0)]
    return BinomialTable(jnp.int32(mode - len(below)), jnp.asarray(np.array(words, np.uint32)))


def error_bound(rate: float) -> float:
    """Bound the total variation distance between one draw and Binomial(n, rate), for every n that a table can have.

    A kept weight is at least 2^-140 of the mode's. With v = (n + 1) rate (1 - rate), the weight j + 1 places from the
    mode is at most exp(-0.69 j / v) of the one before it while j <= (n + 1) rate (or 1 - rate, on the other side), and
    at most half of it from there on. So at most 17 sqrt(v) + 142 values on either side are kept, each with a threshold
    that is low by less than 2^-128. The rest is what was dropped.
    """
    values = 2 * (17 * math.sqrt((_MAX_ROWS + 1) * rate * (1 - rate)) + 142)
    return (values + 1) * 2.0**-128 + 2.0**-100


def invert(table: BinomialTable, number: UInt32[Array, "4"]) -> Int32[Array, ""]:
    """Return the value to which a 128-bit number belongs: `first` plus the thresholds at or below it."""
    size = table.words.shape[1]
    passed = jnp.int32(0)
    for stride in reversed([2**i for i in range(size.bit_length())]):
        last = jnp.minimum(passed + stride, size) - 1
        reached = _at_most(table.words[:, last], number)
        passed = jnp.where((passed + stride <= size) & reached, passed + stride, passed)
    return table.first + passed


def _at_most(a: UInt32[Array, "4"], b: UInt32[Array, "4"]) -> Bool[Array, ""]:
    """Whether a <= b, the first word counting most."""
    result = a[-1] <= b[-1]
    for x, y in zip(reversed(a[:-1]), reversed(b[:-1]), strict=True):
        result = (x < y) | ((x == y) & result)
    return result


def draw(table: BinomialTable, key: Key[Array, ""]) -> Int32[Array, ""]:
    """Draw from the table by inverting a uniform 128-bit number.

    Formal guarantee: the total variation distance to Binomial(n, rate) is at most `error_bound(rate)`, for
    uniformly random bits.
    """
    return invert(table, jax.random.bits(key, (4,), jnp.uint32))

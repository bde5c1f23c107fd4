"""Tables from which one random word draws a Gaussian integer, made in whole numbers with a computed distance.

    heights of the bell curve -> whole weights that sum to 2^96 -> Walker's alias table -> packed words

A table has 2^bits columns, one for each integer from -2^(bits - 1) on. Each column has the same share of the random
words. It returns its own integer below a threshold and another one, its alias, from there on (Walker 1974). The
weights come out exactly, so a table is as far from its law as its weights are, and that is computed here.

Fixed point has 192 binary digits. A "unit" is the last of them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt32

_ONE = 2**192
_TOTAL = 2**96
# Where the columns end, in standard deviations: a Gaussian is further out with probability 2^-91.
_REACH = 11
# Terms of the series for the integral over a step.
_TERMS = 6


class Table(NamedTuple):
    """An alias table. Column i keeps i where (word >> bits, 64 more bits) is below its threshold.

    An entry of `packed` is the threshold's first 32 - bits binary digits, then the alias; `rest` holds the other 64
    digits in two words. `distance` bounds the total variation distance from the table's law.
    """

    packed: UInt32[np.ndarray, " column"]
    rest: UInt32[np.ndarray, "2 column"]
    distance: float


def scale(bits: int) -> int:
    """The standard deviation of the Gaussian in a table of 2^bits columns."""
    assert 12 <= bits <= 16  # below, the errors are not proven; above, an alias and a threshold crowd one word
    return 2 ** (bits - 1) // _REACH


@cache
def discrete(bits: int) -> Table:
    """The table of the discrete Gaussian: P(k) in proportion to exp(-k^2 / (2 scale^2)).

    Formal guarantee: the total variation distance is at most `distance`, for uniformly random bits.
    """
    half = 2 ** (bits - 1)
    right = _heights(scale(bits), 0, half + 1)
    return _table(bits, right[:0:-1] + right[:-1], _slip(half))


@cache
def rounded(bits: int) -> Table:
    """The table of the continuous Gaussian, rounded down: P(k) = Phi((k + 1) / scale) - Phi(k / scale).

    Formal guarantee: the total variation distance is at most `distance`, for uniformly random bits.
    """
    s, half = scale(bits), 2 ** (bits - 1)
    means = _means_over_a_step(s, half)
    right = [height * mean // _ONE for height, mean in zip(_heights(s, 1, half), means, strict=True)]
    # A mean is off by 4 units and by what its series leaves out, and is below 2.
    slip = 2 * _slip(half) + 5 + _ONE // (4 * s * s) ** _TERMS + 1
    return _table(bits, right[::-1] + right, slip)


def _exponential(numerator: int, denominator: int) -> int:
    """Return exp(-numerator / denominator), which is off by at most 16 units if the fraction is below 2^-14.

    Each of at most 14 terms of the series is off by less than 1 + 2^-13 units, and all that is left out is below 1.01.
    """
    total, term, power = 0, _ONE, 0
    while term:
        total += -term if power % 2 else term
        power += 1
        term = term * numerator // (denominator * power)
    return total


def _heights(s: int, halves: int, count: int) -> list[int]:
    """Return exp(-x^2 / (2 s^2)) at the first `count` of x = halves/2, halves/2 + 1, ...

    Each is the one before it times a ratio, and that ratio shrinks by exp(-1/s^2) a step.

    Formal guarantee: none is off by more than `_slip(count)` units. A product of two numbers of at most 1 is off by
    their two errors and by the unit that is cut off. So ratio j is off by 16 + 17 j, and height k by 16 and the sum of
    17 + 17 j over j < k, which is less than 9 (k + 2)^2.
    """
    eighths = 8 * s * s
    height = _exponential(halves * halves, eighths)
    ratio = _exponential(4 * halves + 4, eighths)
    shrinks = _exponential(8, eighths)
    heights = []
    for _ in range(count):
        heights.append(height)
        height = height * ratio // _ONE
        ratio = ratio * shrinks // _ONE
    return heights


def _slip(count: int) -> int:
    return 9 * (count + 2) ** 2


def _means_over_a_step(s: int, count: int) -> list[int]:
    """Return the means of exp(-x^2 / (2 s^2)) over [k, k + 1], divided by its value in the middle, for k from 0 on.

    Formal guarantee: a mean is off by at most 4 units and by what its series leaves out, and that times the value in
    the middle is at most h^TERMS, with h = 1 / (4 s^2).

    The Taylor series around the middle m = k + 1/2, integrated, is the sum over j of He_2j(m / s) h^j / (2j + 1)!,
    with Hermite polynomials He. As |He_n(x)| <= 1.09 sqrt(n!) exp(x^2 / 4) (Cramer's inequality), what it leaves out
    from j = TERMS on is, times the value in the middle, at most the sum of 1.09 h^j / ((2j + 1) sqrt((2j)!)).
    Sorted by powers of z = h (m / s)^2 < 1/8, its coefficients are the sums below, which are less than 1.1. In Horner's
    scheme an error shrinks by z a step; an error of z and what is cut off add less than 3.2 units.
    """
    h = Fraction(1, 4 * s * s)
    coefficients = [
        math.floor(
            _ONE
            * sum(
                (-h / 2) ** (j - i) / ((2 * j + 1) * math.factorial(j - i) * math.factorial(2 * i))
                for j in range(i, _TERMS)
            )
        )
        for i in range(_TERMS)
    ]
    means = []
    for odd in range(1, 2 * count, 2):
        z = odd * odd * _ONE // (16 * s**4)
        mean = 0
        for coefficient in reversed(coefficients):
            mean = mean * z // _ONE + coefficient
        means.append(mean)
    return means


def _table(bits: int, heights: list[int], slip: int) -> Table:
    """Pack the table of a law whose probabilities are in proportion to `heights`, each off by at most `slip` units.

    `distance` adds up three steps. From the weights to the heights as they are computed: half the sum of all
    differences, exactly. From those to the true heights: `slip` a column, as a share of the whole; what is wrong with
    one height counts half, and half in the whole by which all are divided. And to the law without ends: the share of
    what lies beyond the columns, on either side at most exp(-half^2 / (2 s^2)) (1 + s^2 / half), as the sum from there
    on is at most its first term and the integral, and by Mills' ratio the integral is at most s^2 / half times that.
    """
    total, half, s = sum(heights), 2 ** (bits - 1), scale(bits)
    weights = [(2 * _TOTAL * height + total) // (2 * total) for height in heights]
    weights[half] += _TOTAL - sum(weights)
    apart = sum(abs(weight * total - _TOTAL * height) for weight, height in zip(weights, heights, strict=True))
    slips = len(heights) * slip
    # The last height is the curve's at the beginning of the last step or its mean there: no lower than at the end.
    beyond = 2 * (heights[-1] + slip) * (1 + Fraction(s * s, half))
    distance = Fraction(apart, 2 * _TOTAL * total) + (slips + beyond) / (total - slips)
    return Table(*_packed(bits, *walker(weights)), math.nextafter(float(distance), math.inf))


def walker(weights: list[int]) -> tuple[list[int], list[int]]:
    """Return a threshold and an alias for each column.

    Formal guarantee: with c = sum(weights) / len(weights), an integer, the thresholds of column i and c - threshold of
    all columns whose alias is i add up to weights[i] exactly, if a column that is its own alias is counted as full.

    Every column lighter than c is filled up from one heavier than that, which may become light by it (Vose 1991).
    """
    capacity, remainder = divmod(sum(weights), len(weights))
    assert remainder == 0
    left, aliases = list(weights), list(range(len(weights)))
    light = [i for i, weight in enumerate(weights) if weight < capacity]
    heavy = [i for i, weight in enumerate(weights) if weight > capacity]
    while light:
        i, j = light.pop(), heavy[-1]
        aliases[i] = j
        left[j] -= capacity - left[i]
        if left[j] <= capacity:
            heavy.pop()
            if left[j] < capacity:
                light.append(j)
    return left, aliases


def _packed(bits: int, thresholds: list[int], aliases: list[int]) -> tuple[UInt32[np.ndarray, "..."], ...]:
    # A full column is its own alias, so any threshold does; its own would not fit.
    largest = 2 ** (96 - bits) - 1
    words = b"".join(min(threshold, largest).to_bytes(12, "little") for threshold in thresholds)
    low, high, first = np.frombuffer(words, "<u4").astype(np.uint32).reshape(-1, 3).T
    return (first << np.uint32(bits)) | np.array(aliases, np.uint32), np.stack([high, low])

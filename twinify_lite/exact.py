"""Integer noise with exactly the law that the accountant assumes, for the few counts that are released one by one.

Everything here is integer arithmetic on random bits: no logarithm, no rounding, no cut tail, so no distance from the
true law to pay for. It costs some ten microseconds a number; `noise.py` is for the millions.

Each sampler is rejection sampling, so the time it takes depends on what it draws. Whoever must not know the noise must
not time it either (Jin, McMurtry, Rubinstein, Ohrimenko 2022, "Are we there yet? Timing and floating-point attacks on
differential privacy systems").

>>> from twinify_lite import rng
>>> bits = Bits(rng.insecure_key(0))
>>> 1000 + rounded_gaussian(bits, 20)
1002
>>> 1000 + discrete_laplace(bits, 12.5)
1003
"""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int64, Key

from twinify_lite.errors import PrivacyParameterError

# Words that one call of ChaCha20 gives: 64 KiB, enough for four thousand Gaussian numbers.
BLOCK_WORDS = 2**14

# Bytes that move from the block to the pool at once: a pool of two hundred bits shifts as fast as one of thirty.
_POOL_BYTES = 32

# Bits that a uniform deviate grows by. The law is the same for every choice; with so many, one digit mostly decides.
DIGIT = 32

# A uniform real number on [0, 1]: those of its digits in base 2^DIGIT that were drawn so far, the first one first. The
# others are independent of all that happened. Two names of one list are one number, and both see its digits grow.
Deviate = list[int]

# Up to this scale, an int64 holds 64 standard deviations. No Gaussian number gets there: the chance is 2^-2961.
_MAX_SCALE_IN_ARRAYS = 2**57


class Bits:
    """Random bits from a ChaCha20 key, each served once.

    Formal guarantee: what `take` and `below` return are disjoint pieces, in order, of one stream: block 0 of the key,
    block 1, and so on, block b being `jax.random.bits(jax.random.fold_in(key, b), (BLOCK_WORDS,))`, words in order and
    lowest bit first. So make one `Bits` of a key, use the key for nothing else, and do not share it between threads.
    """

    __slots__ = ("_block", "_key", "_left", "_next_block", "_pool", "_position")

    def __init__(self, key: Key[Array, ""]):
        self._key = key
        self._next_block = 0
        self._block = b""
        self._position = 0
        self._pool = 0
        self._left = 0

    def take(self, count: int) -> int:
        """Return `count` fresh bits as an integer, uniform on 0 <= . < 2^count."""
        while self._left < count:
            self._refill()
        taken = self._pool & ((1 << count) - 1)
        self._pool >>= count
        self._left -= count
        return taken

    def below(self, bound: int) -> int:
        """Return an integer uniform on 0 <= . < `bound`: bits are thrown away until they name one."""
        count = (bound - 1).bit_length()
        while (drawn := self.take(count)) >= bound:
            pass
        return drawn

    def _refill(self) -> None:
        if self._position == len(self._block):
            self._block = self._fetch()
            self._position = 0
        piece = self._block[self._position : self._position + _POOL_BYTES]
        self._position += len(piece)
        self._pool |= int.from_bytes(piece, "little") << self._left
        self._left += 8 * len(piece)

    def _fetch(self) -> bytes:
        words = jax.random.bits(jax.random.fold_in(self._key, self._next_block), (BLOCK_WORDS,), jnp.uint32)
        self._next_block += 1
        return np.asarray(words).astype("<u4").tobytes()

    def __repr__(self) -> str:
        return "Bits(<hidden>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # Also what `copy` calls: a copy would serve the same bits again.
        raise TypeError("Random bits are secret and serve once: they can be neither pickled nor copied.")


def bernoulli_exp(bits: Bits, numerator: int, denominator: int) -> bool:
    """Return True with probability exp(-numerator / denominator), for integers >= 0 and > 0.

    Formal guarantee: exact for uniform bits. Algorithm 1 of Canonne, Kamath, Steinke 2020, "The discrete Gaussian for
    differential privacy": for g <= 1, trials with probabilities g/1, g/2, g/3, ... succeed n times in a row with
    probability g^n / n!, so the run has even length with probability 1 - g + g^2/2! - ... = exp(-g).
    """
    while numerator > denominator:
        if not bernoulli_exp(bits, 1, 1):
            return False
        numerator -= denominator
    trial = 1
    while bits.below(denominator * trial) < numerator:
        trial += 1
    return trial % 2 == 1


def _geometric(bits: Bits, denominator: int) -> int:
    """Return k >= 0 with probability proportional to exp(-k / denominator), one trial a step: for few steps only."""
    steps = 0
    while bernoulli_exp(bits, 1, denominator):
        steps += 1
    return steps


def discrete_laplace(bits: Bits, scale: Fraction | float) -> int:
    """Draw an integer k with probability proportional to exp(-|k| / scale).

    Formal guarantee: exact for uniform bits and every rational scale; a float counts as the rational number that it is.
    Algorithm 2 of Canonne, Kamath, Steinke 2020. Twenty uniform choices are expected at most, for every scale.
    """
    numerator, denominator = _positive_ratio(scale)
    while True:
        # u + numerator * v is geometric with the log ratio -1/numerator: v by steps, u within one by rejection.
        remainder = bits.below(numerator)
        if not bernoulli_exp(bits, remainder, numerator):
            continue
        size = (remainder + numerator * _geometric(bits, 1)) // denominator
        if bits.take(1):
            return size
        if size:  # zero has one sign only, or it would come twice
            return -size


def rounded_gaussian(bits: Bits, scale: int) -> int:
    """Draw a Gaussian real number X of standard deviation 1 and return floor(scale * X + 1/2).

    Formal guarantee: exact for uniform bits, as X is never cut: of its binary digits, as many are drawn as decide the
    result. An integer m plus this is floor(m + scale * X + 1/2), a function of what the continuous Gaussian mechanism
    releases, so that mechanism's accounting holds as it is. Algorithm N of Karney 2016, "Sampling exactly from the
    normal distribution", ACM TOMS 42(1).
    """
    return _rounded_gaussian(bits, _positive_integer(scale))


def rounded_gaussians(bits: Bits, scale: int, count: int) -> Int64[np.ndarray, "count"]:
    """Draw `count` independent numbers by `rounded_gaussian`, for a scale of at most 2^57."""
    scale = _positive_integer(scale)
    if scale > _MAX_SCALE_IN_ARRAYS:
        raise PrivacyParameterError(
            "A scale above 2^57 could overflow 64-bit integers. Use a smaller scale, or `rounded_gaussian`, which "
            "returns Python integers."
        )
    return np.fromiter((_rounded_gaussian(bits, scale) for _ in range(count)), np.int64, count)


def _rounded_gaussian(bits: Bits, scale: int) -> int:
    while (drawn := _propose(bits)) is None:
        pass
    size = _round(bits, scale, *drawn)
    # Rounding commutes with the sign except at ties, and those have probability 0.
    return size if bits.take(1) else -size


def _propose(bits: Bits) -> tuple[int, Deviate] | None:
    """Steps N1 to N4: k and x such that k + x has the law of |X|; or None, which says to try again.

    exp(-k/2) exp(-k(k-1)/2) exp(-x(2k+x)/2) = exp(-(k+x)^2/2).
    """
    k = _geometric(bits, 2)
    if not bernoulli_exp(bits, k * (k - 1), 2):
        return None
    x = _propose_fraction(bits, k)
    return None if x is None else (k, x)


def _propose_fraction(bits: Bits, k: int) -> Deviate | None:
    """A uniform x, kept with probability exp(-x (2k + x) / 2)."""
    x: Deviate = []
    for _ in range(k + 1):
        if not _bernoulli_part(bits, k, x):
            return None
    return x


def _bernoulli_part(bits: Bits, k: int, x: Deviate) -> bool:
    """Algorithm B: True with probability exp(-x (2k + x) / (2k + 2)); k + 1 of them make exp(-x (2k + x) / 2).

    Uniform deviates fall below x, and each below the one before, n times with probability x^n / n!; every fall must
    also win a coin of probability (2k + x) / (2k + 2). So the number of falls is even with that exponential (von
    Neumann 1951).
    """
    previous = x
    even = True
    while True:
        # The coin: of 2k + 2 sides, 2k win, one wins with probability x, and one loses.
        side = bits.below(2 * k + 2)
        if side > 2 * k:
            return even
        deviate: Deviate = []
        if not _less(bits, deviate, previous):
            return even
        if side == 2 * k and not _less(bits, [], x):
            return even
        previous = deviate
        even = not even


def _less(bits: Bits, left: Deviate, right: Deviate) -> bool:
    """Whether left < right, drawing digits of both until they differ."""
    place = 0
    while True:
        if place == len(left):
            left.append(bits.take(DIGIT))
        if place == len(right):
            right.append(bits.take(DIGIT))
        if left[place] != right[place]:
            return left[place] < right[place]
        place += 1


def _round(bits: Bits, scale: int, k: int, x: Deviate) -> int:
    """Return floor(scale * (k + x) + 1/2), drawing digits of x until all numbers that begin with them agree."""
    fraction = 0
    for digit in x:
        fraction = fraction << DIGIT | digit
    places = DIGIT * len(x)
    while True:
        # fraction <= 2^places x < fraction + 1, so 2^(places + 1) (scale (k + x) + 1/2) is at least `lowest` and less
        # than lowest + 2 scale; its integer part is at most one less.
        lowest = 2 * scale * ((k << places) + fraction) + (1 << places)
        rounded = lowest >> (places + 1)
        if (lowest + 2 * scale - 1) >> (places + 1) == rounded:
            return rounded
        fraction = fraction << DIGIT | bits.take(DIGIT)
        places += DIGIT


def _positive_integer(scale: int) -> int:
    scale = operator.index(scale)  # a NumPy integer would overflow without a word
    if scale < 1:
        raise PrivacyParameterError("The scale of rounded Gaussian noise must be a whole number of at least 1.")
    return scale


def _positive_ratio(scale: Fraction | float) -> tuple[int, int]:
    try:
        numerator, denominator = Fraction(scale).as_integer_ratio()
    except (ValueError, OverflowError):
        numerator, denominator = 0, 1
    if numerator <= 0:
        raise PrivacyParameterError("The scale of discrete Laplace noise must be a positive, finite number.")
    return numerator, denominator

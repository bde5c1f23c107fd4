"""The only Gaussian release of whole-number sums: how far one row moves them, how much noise that takes, and the noise.

    noises = opened(receipt, parts)     the receipt is used up, and no sum has been computed yet
    noise.add(sums)                     all that leaves of a part: its sums with the noise that was paid for

Tables of counts, votes and private scores all leave through here. A caller proves one thing of each part, from public
numbers: `Part.bound`. All else is settled here, once: the sensitivity of all parts together, their weights, the
relation, and rounding. It is done in whole numbers and fractions, so that no margins for floating point are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from twinify_lite.accountant import Gaussian, Mechanism, NotPrivate, Relation
from twinify_lite.errors import PrivacyParameterError
from twinify_lite.exact import Bits, rounded_gaussians
from twinify_lite.receipt import Receipt

# The noise is at least this many steps of its lattice, so that rounding it up to a whole step costs less than 1/1000;
# but one row is at most this many steps, so that int64 and float64 hold the sums of 2^32 rows exactly.
_FINE, _ROW = 1024, 2**20
# `rounded_gaussians` draws no noise of more steps.
_MOST = 2**57


@dataclass(frozen=True, kw_only=True)
class Part:
    """What is public of one part of a release: how far one row moves its sums, and its weight among the parts.

    `bound`: a row that is added or removed moves the sums of the part by at most this in Euclidean norm.
    `replaced`: the square of what a replaced row moves them by is at most this many squares of `bound`:

        2   where every row adds whole numbers of its own, none of them negative. One row's numbers u go and another's v
            come, and |u - v|^2 = |u|^2 + |v|^2 - 2 u.v <= 2 bound^2.
        1   where the caller has shown that a replaced row moves the sums no further than an added one.
        4   for all other sums: one row goes and another comes, and each moves them by at most `bound`.
    """

    bound: int = 1
    weight: float = 1.0
    replaced: int = 2

    def __post_init__(self) -> None:
        if not (self.bound >= 1 and 0 < self.weight < math.inf and self.replaced in (1, 2, 4)):
            raise PrivacyParameterError("A part has a bound of 1 or more, a positive weight and replaced = 1, 2 or 4.")

    def moved(self, relation: Relation) -> int:
        """The square of how far one row moves the sums of the part, at most, between neighbours under `relation`."""
        return self.bound**2 * (1 if relation is Relation.ADD_REMOVE else self.replaced)


class Scale(NamedTuple):
    """The noise of one part: a whole number of `steps`, each of which is 1 / `fine` of what the sums are counted in."""

    steps: int
    fine: int = 1

    @property
    def deviation(self) -> float:
        """The standard deviation, in what the sums are counted in."""
        return self.steps / self.fine

    @classmethod
    def of(cls, noise_multiplier: float, relation: Relation, part: Part, share: Fraction | int = 1) -> Scale:
        """The noise of a part that takes `share` of the squared sensitivity of a release, by its squared weight.

        Formal guarantee: moved / deviation <= sqrt(share) / noise_multiplier, exactly; and deviation is less than
        1/1000 more than the least for which that holds, as long as that is 1/512 of `part.bound` or more.

        Proof: `steps` is the least whole number whose square is at least `wanted` = noise_multiplier^2 moved^2 fine^2 /
        share. That is rational, and roots of it are compared by their squares, in whole numbers. `fine` is doubled
        until steps >= 1024; rounded up by less than one, that is less than 1 + 1/1023 times the root of `wanted`.
        """
        wanted = Fraction(noise_multiplier) ** 2 * part.moved(relation) / share
        fine = 1
        while (steps := _root_above(wanted * fine**2)) < _FINE and 2 * fine * part.bound <= _ROW:
            fine *= 2
        return cls(steps, fine)


def _root_above(square: Fraction) -> int:
    """The least whole number above 0 whose square is at least `square`."""
    below = math.isqrt(math.floor(square))
    return max(1, below if below**2 >= square else below + 1)


def scales(noise_multiplier: float, relation: Relation, parts: Sequence[Part]) -> list[Scale]:
    """The noise of every part of one release.

    Formal guarantee: between neighbouring tables under `relation`, the vector of all sums, each divided by the
    deviation of its part, moves by at most 1 / noise_multiplier in Euclidean norm.

    Proof: part k takes the share w_k^2 / sum(w^2). By `Scale.of`, it moves by at most sqrt(share) / noise_multiplier in
    units of its noise. The squares of that add up to 1 / noise_multiplier^2, as the shares add up to 1. Weights are
    taken for the rational numbers that floats are, and their sum is exact.
    """
    squares = [Fraction(part.weight) ** 2 for part in parts]
    whole = sum(squares)
    return [
        Scale.of(noise_multiplier, relation, part, square / whole) for part, square in zip(parts, squares, strict=True)
    ]


@dataclass(frozen=True, eq=False, repr=False)
class Noise:
    """What one receipt pays for of one part. Each of the part's sums may be added once, all at once or in pieces."""

    what: str
    part: Part
    scale: Scale
    _bits: Bits | None = field(repr=False)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise; 0 where nothing is private."""
        return self.scale.deviation

    def add(self, sums: np.ndarray | int) -> np.ndarray:
        """`sums` with noise: multiples of 1 / scale.fine, which float64 holds exactly below 2^53 steps."""
        whole, (steps, fine) = np.asarray(sums), self.scale
        if whole.dtype.kind not in "iu":
            raise TypeError("Only whole numbers are released.")
        return _noised(self.what, whole.astype(np.int64) * fine, self.part.bound * fine, steps, self._bits) / fine


def opened(
    receipt: Receipt, parts: Sequence[Part], kinds: type[Mechanism] | tuple[type[Mechanism], ...] = Gaussian
) -> list[Noise]:
    """Redeem `receipt`, and get the noise for each of `parts`. Do this before a sum is computed: then that is paid for.
    Noise that cannot be drawn is refused before the receipt is used up.

    Formal guarantee: if `Part.bound` holds for every part, and each of its sums is added once, then all that `add`
    returns is post-processing of the Gaussian mechanism of the receipt's noise multiplier. (Of a receipt for
    `NotPrivate`, which a caller has to allow by `kinds`, the sums return as they are.)

    Proof: let s be the vector of all sums, each in steps of its lattice, and D the diagonal of `steps`. By `scales`,
    D^-1 s moves by at most 1 / noise_multiplier. So D^-1 s + X with X standard normal is the Gaussian mechanism, and so
    is s + D X, a function of it. What leaves is floor(s + D X + 1/2), another function; as s is whole, that is
    s + floor(D X + 1/2), and `rounded_gaussians` draws the second term exactly, from a key of this receipt alone. To
    multiply whole sums by `fine` first, and to divide what leaves by it, changes only what they are counted in.
    """
    mechanism, found = receipt.mechanism, [Scale(steps=0)] * len(parts)
    if isinstance(mechanism, Gaussian):
        found = scales(mechanism.noise_multiplier, receipt.relation, parts)
    if any(scale.steps > _MOST for scale in found):
        raise PrivacyParameterError("This epsilon and delta need more noise than can be drawn. Raise one of them.")
    keys = receipt.redeem(kinds)
    bits = None if isinstance(mechanism, NotPrivate) else Bits(keys.noise)
    return [Noise(receipt.what, part, scale, bits) for part, scale in zip(parts, found, strict=True)]


def _noised(what: str, sums: np.ndarray, bound: int, deviation: int, bits: Bits | None) -> np.ndarray:
    """The one place where sums get their noise, all in steps. Whoever replaces it in a test sees all that is released:
    of which receipt, the exact sums, how far one added row moves all sums of their part, and the deviation."""
    if bits is None:
        return sums
    return sums + rounded_gaussians(bits, deviation, sums.size).reshape(sums.shape)

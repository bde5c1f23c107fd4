"""Noisy votes: each row votes for one item in each of several columns, and only noisy tallies leave.

This is all of the data that discovery ever sees. A row's votes are integers whose squares sum to at most `WEIGHT`^2,
however many columns it votes in, so one row moves the tallies by at most `WEIGHT` in Euclidean norm, and the Gaussian
mechanism covers all columns at once. A row that has little left to vote for gives its few votes more weight: that is
how later rounds find rarer values at no more cost (Swanberg, Desfontaines, Haney 2023, "DP-SIPS").

How long a tally takes depends on how many values are frequent. Do not let an adversary time it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from twinify_lite import release
from twinify_lite.accountant import ApproximateDP, Gaussian, NotPrivate, Relation
from twinify_lite.errors import ReceiptError
from twinify_lite.receipt import Receipt

#: Some of a ballot's items.
Items = slice | np.ndarray

#: The Euclidean norm of one row's votes: integers fine enough that rounding them down costs a millionth.
WEIGHT = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class Ballot:
    """One column's votes: row i votes for item `item[codes[i]]`, or for none where that is negative.

    `items` is the number of items, a public number or one that nobody sees. `square` says how much of a row's weight
    the column gets beside the others: it is the square of its relative weight.
    """

    codes: np.ndarray
    item: np.ndarray
    items: int
    square: int = 1


def tally(ballots: Sequence[Ballot]) -> list[np.ndarray]:
    """Sum the rows' votes, item by item, one array a ballot.

    Formal guarantee: one row adds, over all ballots, a vector of integers with Euclidean norm at most `WEIGHT`, which
    depends on that row alone.
    """
    if not ballots:
        return []
    spread = np.zeros(len(ballots[0].codes), np.int32)
    for ballot in ballots:
        spread += ((ballot.item >= 0) * np.int32(ballot.square))[ballot.codes]
    most = int(spread.max(initial=0))
    return [_tally_one(ballot, spread, _weights(ballot.square, most)) for ballot in ballots]


def _weights(square: int, most: int) -> np.ndarray:
    """The weight of a vote by how much its row spreads: floor(WEIGHT * sqrt(square / spread)), in whole numbers."""
    return np.array([0, *(math.isqrt(WEIGHT**2 * square // spread) for spread in range(1, most + 1))], np.float64)


def _tally_one(ballot: Ballot, spread: np.ndarray, weights: np.ndarray) -> np.ndarray:
    item = ballot.item[ballot.codes]
    voting = item >= 0
    # Sums of integers below 2^53 are exact in float64, whatever their order.
    sums = np.bincount(item[voting], weights[spread[voting]], minlength=ballot.items)
    return sums.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise that one receipt pays for, of tallies of ballots, all of them once."""

    _of_votes: release.Noise

    @classmethod
    def of(cls, receipt: Receipt) -> Noise:
        """Redeem `receipt`.

        Formal guarantee: by `tally`, a row adds whole numbers of its own to the tallies, of norm at most `WEIGHT`
        together; none of them is negative. That is what `release.opened` asks of one part.
        """
        return cls(*release.opened(receipt, [release.Part(bound=WEIGHT)], (Gaussian, NotPrivate)))

    @property
    def scale(self) -> float:
        """The standard deviation, in units of `WEIGHT` = one whole row; 0 where nothing is private."""
        return self._of_votes.deviation / WEIGHT

    def add(self, sums: np.ndarray) -> np.ndarray:
        """Add noise to whole numbers; in units of whole rows."""
        return self._of_votes.add(sums) / WEIGHT

    def select(self, sums: np.ndarray, *, delta: float) -> np.ndarray:
        """The noisy tallies of items that nobody knows beforehand: those above a threshold, the others as -inf.

        Formal guarantee: an item that one row brings in passes with probability at most `delta`, next to the Gaussian
        mechanism. Items of one row, or of less than a quarter of the noise, are not looked at, so that a million rare
        values cost nothing; the one row that lifts an item over this floor finds it less than a row above it, and the
        threshold is far enough above that (Gopi et al. 2020, "Differentially private set union"; the floor moves
        the threshold by itself).

        Proof: without the row, the item's tally is at most floor - 1, and with it at most floor - 1 + WEIGHT. It passes
        only if its noise exceeds z deviations by more than 2, z = isf(delta). The noise is a Gaussian number X of that
        deviation, rounded to a lattice no coarser than whole numbers, so that it is at most X + 1/2. What is left of
        the 2 is more than the rounding of the threshold, a float, if that is below 2^50. So X exceeds z deviations,
        which has probability `delta`.
        """
        deviation = self._of_votes.deviation
        if not deviation:
            return np.where(sums > 0, sums / WEIGHT, -math.inf)
        floor = max(1, min(WEIGHT + 1, int(deviation) // 4))
        threshold = (floor + WEIGHT + 1 + deviation * float(norm.isf(delta))) / WEIGHT
        noisy = np.full(len(sums), -math.inf)
        seen = np.flatnonzero(sums >= floor)
        noisy[seen] = self.add(sums[seen])
        noisy[noisy <= threshold] = -math.inf
        return noisy


class Tally:
    """The sums of all ballots of one receipt, of which nothing leaves without its noise.

    Formal guarantee: the receipt pays for one joint tally, and each of its items is released at most once.
    """

    def __init__(self, receipt: Receipt, ballots: Sequence[Ballot]):
        self._noise = Noise.of(receipt)
        self._sums = tally(ballots)
        self._kept = [np.ones(len(sums), bool) for sums in self._sums]

    @property
    def scale(self) -> float:
        """The standard deviation of the noise, in votes of a whole row."""
        return self._noise.scale

    def counts(self, ballot: int, items: Items = slice(None)) -> np.ndarray:
        """Noisy sums of items that everybody knows, empty ones too."""
        return self._noise.add(self._take(ballot, items))

    def select(self, ballot: int, items: Items = slice(None), *, delta: float) -> np.ndarray:
        """Noisy sums of items that nobody knows, as `Noise.select` shows them."""
        return self._noise.select(self._take(ballot, items), delta=delta)

    def _take(self, ballot: int, items: Items) -> np.ndarray:
        if not self._kept[ballot][items].all():
            raise ReceiptError("These votes have been released. Another release of them needs a receipt of its own.")
        self._kept[ballot][items] = False
        return self._sums[ballot][items]


def selection_chance(receipt: Receipt) -> float:
    """What a receipt for `selection_cost` pays for: the chance that one row shows an item. It is used up by this."""
    receipt.redeem((ApproximateDP, NotPrivate))
    if isinstance(receipt.mechanism, NotPrivate):
        return 1.0
    return receipt.mechanism.delta / (1 if receipt.relation is Relation.ADD_REMOVE else 2)


def selection_cost(relation: Relation, delta: float) -> ApproximateDP:
    """What all selections together cost beside their noise, if `delta` bounds the chance that one row shows a new item.

    Replacing a row may make one row's items vanish and another's appear: twice.
    """
    return ApproximateDP(epsilon=0.0, delta=delta if relation is Relation.ADD_REMOVE else 2 * delta)

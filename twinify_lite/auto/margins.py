"""The best estimate of each column's distribution from all the noisy tables that contain it.

Everything here is post-processing of noisy counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinify_lite.auto.levels import ENDS
from twinify_lite.auto.tables import Noisy, shown

Pair = tuple[int, int]

# A level is empty if its count is below so many standard deviations, fewer if it is a single value that somebody may
# have; and all such levels hold few of the rows.
_FAINT, _FAINT_ALONE, _FEW = 2.0, 1.0, 0.02
#: The share of an empty level, about: not zero, so that its logarithm is a number.
NEVER = 1e-7


@dataclass(frozen=True, eq=False)
class Margins:
    """The number of rows, and the share of every level of every column.

    `seen` are those shares as the noisy counts have them, which may be negative, and `spreads` their noise.
    """

    rows: float
    shares: tuple[np.ndarray, ...]
    seen: tuple[np.ndarray, ...] = ()
    spreads: tuple[np.ndarray, ...] = ()


def combine(
    single: Sequence[tuple[np.ndarray, np.ndarray]],
    pairs: Mapping[Pair, Noisy],
    alone: Sequence[np.ndarray] | None = None,
    ends: Sequence[np.ndarray] | None = None,
) -> Margins:
    """Weigh each column's own counts (with their variances) and the margins of its pairs by how sure they are.

    `alone` says of every column's levels whether they are single values, and `ends` whether they are ends of a range
    that are known to be there; by default none is.
    """
    estimates = [_estimate(column, *single[column], pairs) for column in range(len(single))]
    totals = np.array([counts.sum() for counts, _ in estimates])
    precision = np.array([1 / variance.sum() for _, variance in estimates])
    rows = max(1.0, float((totals * precision).sum() / precision.sum()))
    alone = alone or [np.zeros(len(counts), bool) for counts, _ in single]
    enough = [np.where(one, _FAINT_ALONE, _FAINT) for one in alone]
    ends = ends or [np.zeros(len(counts), bool) for counts, _ in single]
    sure = [shown(counts, np.sqrt(variance)) for counts, variance in single]
    shares = (_shares(*estimate, *of, rows) for estimate, *of in zip(estimates, enough, ends, sure, strict=True))
    seen, spreads = zip(*((counts / rows, np.sqrt(variance) / rows) for counts, variance in estimates), strict=True)
    return Margins(rows, tuple(shares), seen, spreads)


def _estimate(
    column: int, counts: np.ndarray, variance: np.ndarray, pairs: Mapping[Pair, Noisy]
) -> tuple[np.ndarray, np.ndarray]:
    weighted, weight = counts / variance, 1 / variance
    for pair, table in pairs.items():
        if column in pair:
            axis = 1 - pair.index(column)
            spread = table.noise**2 * table.counts.shape[axis]
            weighted, weight = weighted + table.counts.sum(axis) / spread, weight + 1 / spread
    return weighted / weight, 1 / weight


def _shares(
    counts: np.ndarray, variance: np.ndarray, faint: np.ndarray, ends: np.ndarray, sure: np.ndarray, rows: float
) -> np.ndarray:
    """The nearest distribution, by variance-weighted least squares, of the levels that are not empty.

    What single counts show beyond doubt, `sure`, is there, whatever the pairs say.
    """
    kept = ~_empty(counts, variance, faint, rows)
    shares = np.zeros(len(counts))
    shares[kept] = _onto_simplex(counts[kept], variance[kept], rows)
    least = np.where(ends, np.minimum(ENDS * np.sqrt(variance), rows / len(counts)), 0.0)
    shares = np.maximum(shares, np.maximum(least, sure))
    shares = np.maximum(shares / shares.sum(), NEVER)
    return shares / shares.sum()


def _empty(counts: np.ndarray, variance: np.ndarray, faint: np.ndarray, rows: float) -> np.ndarray:
    """Levels whose counts are no more than noise, the faintest first, as long as they are few rows together.

    Noise that is cut off at zero would put rows where nobody is: at the far end of a range, in a level never used.
    """
    faintness = counts / np.sqrt(variance)
    order = np.argsort(faintness)
    together = np.cumsum(np.maximum(counts[order], 0))
    empty = np.zeros(len(counts), bool)
    empty[order] = (faintness < faint)[order] & (together <= _FEW * rows)
    empty[order[-1]] = False
    return empty


def _onto_simplex(counts: np.ndarray, variance: np.ndarray, total: float) -> np.ndarray:
    """Minimise sum((x - counts)^2 / variance) over x >= 0 that sum to `total`: x = max(0, counts + s * variance)."""
    order = np.argsort(-counts / variance)
    counts_sorted, variance_sorted = counts[order], variance[order]
    shifts = (total - np.cumsum(counts_sorted)) / np.cumsum(variance_sorted)
    # The largest set of levels that all stay positive at its own shift.
    inside = np.flatnonzero(counts_sorted + shifts * variance_sorted > 0)
    return np.maximum(0.0, counts + shifts[inside[-1]] * variance)

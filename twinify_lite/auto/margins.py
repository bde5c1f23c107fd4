"""The best estimate of each column's distribution from all the noisy tables that contain it.

Everything here is post-processing of noisy counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinify_lite.auto.tables import Noisy

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Margins:
    """The number of rows, and the share of every level of every column."""

    rows: float
    shares: tuple[np.ndarray, ...]


def combine(single: Sequence[tuple[np.ndarray, np.ndarray]], pairs: Mapping[Pair, Noisy]) -> Margins:
    """Weigh each column's own counts (with their variances) and the margins of its pairs by how sure they are."""
    estimates = [_estimate(column, *single[column], pairs) for column in range(len(single))]
    totals = np.array([counts.sum() for counts, _ in estimates])
    precision = np.array([1 / variance.sum() for _, variance in estimates])
    rows = max(1.0, float((totals * precision).sum() / precision.sum()))
    return Margins(rows, tuple(_shares(counts, variance, rows) for counts, variance in estimates))


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


def _shares(counts: np.ndarray, variance: np.ndarray, rows: float) -> np.ndarray:
    """The nearest distribution, by variance-weighted least squares; no level is impossible."""
    kept = _onto_simplex(counts, variance, rows)
    floored = np.maximum(kept, np.minimum(0.02 * np.sqrt(variance), 0.1 * rows / len(counts)))
    return floored / floored.sum()


def _onto_simplex(counts: np.ndarray, variance: np.ndarray, total: float) -> np.ndarray:
    """Minimise sum((x - counts)^2 / variance) over x >= 0 that sum to `total`: x = max(0, counts + s * variance)."""
    order = np.argsort(-counts / variance)
    counts_sorted, variance_sorted = counts[order], variance[order]
    shifts = (total - np.cumsum(counts_sorted)) / np.cumsum(variance_sorted)
    # The largest set of levels that all stay positive at its own shift.
    inside = np.flatnonzero(counts_sorted + shifts * variance_sorted > 0)
    return np.maximum(0.0, counts + shifts[inside[-1]] * variance)

"""Which pairs of columns to measure, chosen from coarse noisy tables of all of them.

The choice is post-processing of one release; it reads no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twinify_lite.auto.levels import Levels
from twinify_lite.auto.margins import Margins, Pair
from twinify_lite.auto.tables import Noisy

# Groups of a column in a coarse table: few, so that noise adds up over few cells.
_GROUPS = 3


def groups(levels: Levels, shares: np.ndarray) -> np.ndarray:
    """A coarse group for each level: thirds of the line; elsewhere the most frequent levels, and the rest together."""
    on_line = levels.line >= 0
    found = np.zeros(levels.size, np.int64)
    line = shares[on_line]
    if line.sum() > 0:
        middle = np.cumsum(line) - line / 2
        found[on_line] = np.minimum(_GROUPS * middle / line.sum(), _GROUPS - 1).astype(np.int64)
    frequent = np.argsort(-shares[~on_line], kind="stable")
    rank = np.empty(len(frequent), np.int64)
    rank[frequent] = np.arange(len(frequent))
    found[~on_line] = _GROUPS * on_line.any() + np.minimum(rank, _GROUPS - 1)
    return np.unique(found, return_inverse=True)[1]


def strongest(
    tables: Mapping[Pair, Noisy], coarse: Sequence[np.ndarray], margins: Margins, count: int, target: int | None
) -> list[Pair]:
    """The `count` pairs whose coarse tables differ most from independence, and all pairs with the target."""
    shares = [np.bincount(group, weights=share) for group, share in zip(coarse, margins.shares, strict=True)]
    signal = {pair: _signal(table, shares[pair[0]], shares[pair[1]], margins.rows) for pair, table in tables.items()}
    wanted = [pair for pair in tables if target in pair]
    others = sorted((pair for pair in tables if target not in pair), key=lambda pair: -signal[pair])
    return sorted([*wanted, *others][:count])


def _signal(table: Noisy, rows: np.ndarray, columns: np.ndarray, total: float) -> float:
    """How far the table is from independence, squared, less what its noise adds."""
    difference = table.counts - total * np.outer(rows, columns)
    freedom = (len(rows) - 1) * (len(columns) - 1)
    return float((difference**2).sum() - table.noise**2 * freedom)

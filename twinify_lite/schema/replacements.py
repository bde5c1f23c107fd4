"""What replaces the values of rows, as integers: the most frequent companion, or the nearest allowed combination."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


def most_frequent(of: np.ndarray, what: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of `of`, sorted, and the most frequent `what` of each, the smallest of ties."""
    keys, place = np.unique(of, return_inverse=True)
    targets, target = np.unique(what, return_inverse=True)
    pairs, counts = np.unique(place * len(targets) + target, return_counts=True)
    owner, target = np.divmod(pairs, max(len(targets), 1))
    best = np.lexsort((target, -counts, owner))
    first = best[np.unique(owner[best], return_index=True)[1]]
    return keys, targets[target[first]]


def replacements(
    table: np.ndarray, codes: list[np.ndarray], present: np.ndarray, first_row: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of `codes` that are present and not in the sorted `table`, and which row of `table` each becomes."""
    levels = [np.unique(column) for column in table.T]
    ranks = np.stack([np.searchsorted(*pair) for pair in zip(levels, table.T, strict=True)], axis=1)
    agreed = _descend(ranks, [_find(*pair) for pair in zip(levels, codes, strict=True)])
    rows = np.flatnonzero(present & (agreed.depth < len(codes)))
    # Only what follows the first disagreement can still be kept or lost.
    wishes = [np.where(agreed.depth < column, rank, -1)[rows] for column, rank in enumerate(agreed.ranks)]
    wishes = np.stack([agreed.start[rows], agreed.stop[rows], *wishes], axis=1)
    return rows, _choose(ranks, wishes, rows + first_row)


class _Descent(NamedTuple):
    """Of each row: on how many columns it agrees with the rows [start, stop) of a table, and its ranks in each."""

    depth: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    ranks: list[np.ndarray]


def _descend(ranks: np.ndarray, rows: list[np.ndarray]) -> _Descent:
    """Follow each row down the sorted table `ranks`, column by column, as far as they agree."""
    depth, start, stop = (np.full(len(rows[0]), fill) for fill in (0, 0, len(ranks)))
    group = np.zeros(len(ranks), np.int64)
    for column, rank in enumerate(rows):
        size = ranks[:, column].max() + 1
        keys = group * size + ranks[:, column]
        group, end = np.searchsorted(keys, keys), np.searchsorted(keys, keys, "right")
        found = _find(keys, np.where((depth == column) & (rank >= 0), start * size + rank, -1))
        start, stop = np.where(found < 0, start, found), np.where(found < 0, stop, end[found])
        depth += found >= 0
    return _Descent(depth, start, stop, rows)


def _find(ordered: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each of `wanted` first stands in `ordered`; -1 where it does not."""
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[place] == wanted, place, -1)


def _choose(ranks: np.ndarray, wishes: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """For each wish (start, stop, ranks) a row of [start, stop) that fulfils most of its ranks; all such take turns."""
    keys = np.zeros(len(wishes), np.int64)
    for column in wishes.T:
        keys = _dense(keys * (len(ranks) + 2) + column + 1)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    best = [np.zeros(0, np.int64)]
    for start, stop, *wanted in wishes[first]:
        kept = (ranks[start:stop] == wanted).sum(axis=1)
        best.append(start + np.flatnonzero(kept == kept.max()))
    counts = np.array([len(rows) for rows in best[1:]], np.int64)
    return np.concatenate(best)[(np.cumsum(counts) - counts)[group] + turns % counts[group]]


def _dense(keys: np.ndarray) -> np.ndarray:
    """Numbers that are equal where `keys` are, below the number of keys unless the keys are small anyway."""
    if not keys.size or keys.max() < 2**31:
        return keys
    return np.unique(keys, return_inverse=True)[1]

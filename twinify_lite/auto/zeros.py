"""What never goes together: blocks of a noisy table of a pair that are empty where independence would fill them.

No man gives birth; who was not asked has no answer. The penalty on effects draws such cells towards independence, each
a little, all of them by a lot. One cell's noise may hide whether anybody is there; the sum over a run of neighbours
tells.

Everything here is post-processing of noisy counts.
"""

from __future__ import annotations

import numpy as np

# A block is empty if independence would put so many standard deviations of its noise there, and it shows this few.
_FILLED, _SHOWN = 20.0, 1.0
# Runs of a line of more levels begin and end at so many places only.
_PLACES = 40


def empty_cells(
    table: np.ndarray, noise: float, independent: np.ndarray, lines: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Which cells of a pair's `table` lie in an empty block, a run of levels by a run of levels, on either `lines`.

    A row or a column that would lose all its cells keeps them.
    """
    rows, columns = (runs(line) for line in lines)
    shown, filled = (rows @ cells @ columns.T for cells in (table, independent))
    spread = noise * np.sqrt(np.outer(rows.sum(1), columns.sum(1)))
    empty = (filled > _FILLED * spread) & (shown < _SHOWN * spread)
    cells = rows.T @ empty @ columns > 0
    cells &= ~cells.all(axis=1, keepdims=True)
    return cells & ~cells.all(axis=0, keepdims=True)


def runs(line: np.ndarray) -> np.ndarray:
    """Of each run of neighbours on a line, and of each level elsewhere alone, which levels it has: one row a run."""
    on_line = np.flatnonzero(line >= 0)
    on_line = on_line[np.argsort(line[on_line])]
    ends = np.unique(np.linspace(0, len(on_line), min(len(on_line), _PLACES) + 1).astype(int))
    first, last = (ends[index] for index in np.triu_indices(len(ends), 1))
    place = np.arange(len(on_line))
    found = np.zeros((len(first), len(line)))
    found[:, on_line] = (first[:, None] <= place) & (place < last[:, None])
    return np.concatenate([found, np.eye(len(line))[line < 0]])

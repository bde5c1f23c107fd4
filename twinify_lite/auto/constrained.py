"""What constraints do to the shares of columns: told where it is more than noise.

Noisy counts say how frequent values are. A constraint that is true changes little of that; one that is wrong, or that
noise keeps the chain from following, may make values vanish. Only rows of the chain are looked at, none of the table.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from twinify_lite.auto.tables import surely
from twinify_lite.schema.constraints import Constraint
from twinify_lite.schema.enforcing import Enforcer

if TYPE_CHECKING:
    from twinify_lite.auto.fitted import Chained

# Rows that are drawn to see what changes.
_ROWS = 2**14


def constraints_that_move(fitted: Chained) -> list[tuple[Constraint, str, float]]:
    """Constraints, each with a column whose shares it changes by more than noise does, and by how much in all."""
    if not fitted.schema.constraints or not fitted.spreads:
        return []
    rng = np.random.default_rng(0)  # what is simulated here says nothing about anyone
    cells = fitted.cells(fitted.codes(_ROWS, dataset=0, rng=rng), rng)
    spreads = dict(zip([column.name for column in fitted.schema.modelled], fitted.spreads, strict=True))
    found = []
    for constraint in fitted.schema.constraints:
        alone = dataclasses.replace(fitted.schema, constraints=(constraint,))
        after = Enforcer(alone, fitted.pooled).apply(cells)
        for name in constraint.names:
            before, now = fitted.levels_of(name, cells[name]), fitted.levels_of(name, after[name])
            moved = moved_beyond(before, now, spreads[name])
            if moved is not None:
                found.append((constraint, name, moved))
    return found


def moved_beyond(before: np.ndarray, after: np.ndarray, spread: np.ndarray) -> float | None:
    """The part of the rows that must change their level for one distribution to become the other.

    None if no level's share is changed by more than noise of standard deviation `spread`, and the chance in which rows
    were drawn, explain.
    """
    rows, size = len(before), len(spread)
    change = (np.bincount(after, minlength=size) - np.bincount(before, minlength=size)) / rows
    differ = before != after
    touched = np.bincount(before[differ], minlength=size) + np.bincount(after[differ], minlength=size)
    doubt = np.sqrt(spread**2 + touched / rows**2)
    is_more = (np.abs(change) > surely(2 * size) * doubt).any()  # either way
    return float(np.abs(change).sum() / 2) if is_more else None

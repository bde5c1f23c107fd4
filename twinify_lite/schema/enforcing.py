"""Constraints made to hold in what is sampled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinify_lite.cells import Cells
from twinify_lite.schema import Schema
from twinify_lite.schema.constraints import Condition, Determines, Memory
from twinify_lite.schema.scale import Scale

#: Rounds of small changes, and then of firm ones, after which constraints are taken to contradict each other, unless
#: there are more constraints than that: a chain of n orders sorts in n rounds.
ROUNDS = 10


class Enforcer:
    """Makes the constraints of `schema` hold in a stream of chunks; what determines what stays as first decided.

    `pooled` has, by column, the values that whoever made the rows could not tell apart; they determine nothing.
    """

    def __init__(self, schema: Schema, pooled: Mapping[str, np.ndarray] | None = None) -> None:
        schema.require_constraints()
        self._schema = schema
        self._memory = Memory(0, {}, pooled=pooled or {})

    def apply(self, cells: Mapping[str, Cells]) -> dict[str, Cells]:
        """`enforce` for the next chunk."""
        settled, memory = _settle(self._schema, cells, self._memory), self._memory
        known = {c: c.learn(settled, memory) for c in self._schema.constraints if isinstance(c, Determines)}
        rows = memory.rows + max((len(c.state) for c in settled.values()), default=0)
        self._memory = memory._replace(rows=rows, known=known)
        return settled


def enforce(schema: Schema, cells: Mapping[str, Cells]) -> dict[str, Cells]:
    """Copy `cells` such that the constraints of `schema` hold in every row.

    Formal guarantee: deterministic; no cell changes where all constraints hold already; the arguments stay as they are.
    A number in a changed cell that equals a special value is that special value. Constraints are applied in turn until
    nothing changes. If they contradict each other, that never happens: after twice `ROUNDS` rounds the conditions are
    applied last, and of two that disagree the later one holds.
    """
    return _settle(schema, cells, Memory(0, {}))


def _settle(schema: Schema, cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
    cells, constraints = dict(cells), schema.constraints
    scales = {name: Scale(schema[name]) for constraint in constraints for name in constraint.named}
    stale = set(constraints)
    rounds = max(ROUNDS, len(constraints))
    for turn in range(2 * rounds):
        memory = memory._replace(gently=turn < rounds)
        for constraint in filter(stale.__contains__, constraints):
            changes = constraint.changes(scales, cells, memory)
            cells |= changes
            stale.update(other for other in constraints if not changes.keys().isdisjoint(other.named))
            stale.discard(constraint)
        if not stale:
            return cells
    for constraint in sorted(constraints, key=lambda constraint: isinstance(constraint, Condition)):
        cells |= constraint.changes(scales, cells, memory)
    return cells

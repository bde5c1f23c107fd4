"""How the values of a column compare, and cells as one integer each."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from twinify_lite.cells import VALUE, Cells, decimals_of, rounded
from twinify_lite.cells.moments import TICK, counts_wall_time, moment, ticks
from twinify_lite.schema import Cell, Column, Moment
from twinify_lite.schema.sentences import cell_text, literal

_TOP = np.iinfo(np.int64).max


class Scale:
    """How the values of one column compare: numbers as written, times in microseconds, levels by their codes."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.clock, self.step, self.origin = None, 1, 0
        if column.kind == "datetime":
            self.clock = "wall time" if counts_wall_time(column) else "instants"
            self.step, self.origin = TICK[column.resolution], self._microseconds(moment(column, 0))
        spelled = (*(column.levels or ()), *([] if column.other is None else [column.other]))
        self._codes = {text: code for code, text in reversed(list(enumerate(spelled)))}
        bounds = (column.min, column.max) if column.is_ranged else (None, None)
        self.low, self.high = (None if bound is None else self._bound(bound) for bound in bounds)

    def measure(self, cell: Cell) -> Any:
        """A value that is not special, on this scale; None for what is not a level."""
        if self.column.is_levelled:
            yes_or_no = self.column.kind == "boolean" and isinstance(cell, bool)
            return int(cell) if yes_or_no else self._codes.get(cell_text(cell))
        return self._microseconds(cell) if isinstance(cell, datetime.datetime) else self._bound(cell)

    def _bound(self, cell: Cell) -> Any:
        dated = isinstance(cell, datetime.date)
        return ticks(self.column, cell) * self.step + self.origin if dated else cell

    def _microseconds(self, cell: Moment) -> int:
        zone = None if self.clock == "wall time" else self.column.zone or "UTC"
        return ticks(Column(name="_", kind="datetime", zone=zone, resolution="microsecond"), cell)

    def locate(self, cell: Cell) -> tuple[int, Any]:
        """The state and the value of a cell that has no misfits."""
        place = self._special(cell)
        return (place, None) if place else (VALUE, self.measure(cell))

    def code(self, cell: Cell) -> int:
        """What `pack` makes of `cell`."""
        state, value = self.locate(cell)
        return _TOP - 1 - state if state else value

    def values(self, cells: Cells) -> np.ndarray:
        """What is compared; it means something where `state` is `VALUE`."""
        if self.column.kind == "number":
            return rounded(self.column, cells.value)
        return cells.value if self.step == 1 else cells.value * self.step + self.origin

    def equals(self, cells: Cells, state: int, value: Any) -> np.ndarray:
        """Where `cells` are what `locate` found."""
        same = cells.state == state
        return same & (self.values(cells) == value) if state == VALUE else same

    def has_order(self, cells: Cells) -> np.ndarray:
        """Where there is a value that can lie below or above others, which `other` cannot."""
        ordered = cells.state == VALUE
        return ordered & (cells.value < len(self.column.levels)) if self.column.is_levelled else ordered

    def put(self, cells: Cells, rows: np.ndarray, values: Any, state: int = VALUE) -> Cells:
        """A copy with other `values`, if any, and another state in `rows`."""
        value, states = cells.value.copy(), cells.state.copy()
        states[rows] = state
        if values is not None:
            value[rows] = values if self.step == 1 else (values - self.origin) // self.step
        return cells._replace(value=value, state=states)

    def clamp(self, values: np.ndarray) -> np.ndarray:
        """Move into the declared range."""
        values = values if self.low is None else np.maximum(values, self.low)
        return values if self.high is None else np.minimum(values, self.high)

    def down(self, values: np.ndarray) -> np.ndarray:
        """The nearest that the column can hold at or below `values`."""
        return self._floor(values - self.origin) + self.origin

    def up(self, values: np.ndarray) -> np.ndarray:
        """The nearest that the column can hold at or above `values`."""
        return self.origin - self._floor(self.origin - values)

    def _floor(self, values: np.ndarray) -> np.ndarray:
        if self.column.kind == "datetime":
            return values // self.step * self.step
        if self.column.kind == "integer":
            return values if values.dtype == np.int64 else np.floor(values).clip(-(2**62), 2**62).astype(np.int64)
        decimals = decimals_of(self.column)
        if decimals is None:
            return values
        near = rounded(self.column, values)  # not floor(0.29 * 100) / 100, which is 0.28
        return np.where(near > values, rounded(self.column, near - 10.0**-decimals), near)

    def misfits(self, cell: Cell, *, ordered: bool = False) -> Iterator[str]:
        """Why the column cannot hold `cell` or, if `ordered`, not compare with it."""
        problem = (self._level_misfit if self.column.is_levelled else self._range_misfit)(cell, ordered)
        if problem:
            yield f"{literal(cell)} {problem} column {self.column.name!r}, which is of kind {self.column.kind}."

    def _special(self, cell: Cell) -> int:
        same = (s == cell and isinstance(s, bool) == isinstance(cell, bool) for s in self.column.special or ())
        return next((place for place, found in enumerate(same, start=1) if found), 0)

    def _level_misfit(self, cell: Cell, ordered: bool) -> str | None:
        if ordered and self.column.kind != "ordinal":
            return "is neither below nor above a value of"
        levels = self.column.levels
        known = len(levels or ()) if ordered else len(self._codes)
        code = self.measure(cell)
        return None if levels is None or (code is not None and code < known) else "is not a level of"

    def _range_misfit(self, cell: Cell, ordered: bool) -> str | None:
        if not ordered and self._special(cell):
            return None
        wanted = datetime.date if self.column.kind == "datetime" else int | float
        if not isinstance(cell, wanted) or isinstance(cell, bool):
            return None if self.column.special is None and not ordered else "is neither a value nor special in"
        value = self.measure(cell)
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            return "is outside the range of"
        return None if ordered or self.down(np.asarray(value)) == value else "is too fine for"


def pack(cells: Cells) -> np.ndarray:
    """One integer a cell: its value or, above all values so that ties prefer those, one for missing and specials."""
    return np.where(cells.state == VALUE, cells.value, _TOP - 1 - cells.state.astype(np.int64))


def repacked(cells: Mapping[str, Cells], codes: Mapping[str, np.ndarray]) -> dict[str, Cells]:
    """The columns of which `codes` are not those of `cells`, with these codes."""
    changed = {}
    for name, code in codes.items():
        old = cells[name]
        if (code != pack(old)).any():
            state = np.maximum(code, _TOP - 2**15) - _TOP
            state = np.where(code > _TOP - 2**15, -state - 1, VALUE).astype(old.state.dtype)
            changed[name] = old._replace(value=np.where(state == VALUE, code, old.value), state=state)
    return changed

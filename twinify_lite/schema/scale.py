"""How the values of a column compare, and cells as one integer each."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from twinify_lite.cells import VALUE, Cells, decimals_of, number_of, rounded
from twinify_lite.cells.moments import TICK, counts_wall_time, moment, ticks
from twinify_lite.schema import Cell, Column, Moment
from twinify_lite.schema.sentences import cell_text, literal

_TOP = np.iinfo(np.int64).max


class Scale:
    """How the values of one column compare: numbers as written, times in microseconds, levels by their codes.

    A special value that is a number or a time compares as such; a special word compares with nothing. `low` and `high`
    are the ends of the declared range, `least` and `most` those of all that the column can hold; None if open.
    """

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
        numbers = [self._number(special) for special in column.special or ()]
        self._numbers = {place: number for place, number in enumerate(numbers, start=1) if number is not None}
        self.least = None if self.low is None else min([self.low, *self._numbers.values()])
        self.most = None if self.high is None else max([self.high, *self._numbers.values()])
        # By state: of values, of special values, and of -1, which is missing.
        self._compares = np.array([True, *(number is not None for number in numbers), False])
        kind = np.float64 if column.kind == "number" else np.int64
        self._special_values = np.array([0, *(number or 0 for number in numbers), 0], kind)

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

    def _number(self, special: Cell) -> Any:
        """A special value on this scale; None for a word, and for what a whole number cannot equal."""
        number = number_of(self.column, special)
        if number is None or self.column.kind == "number":
            return number
        whole = int(number)
        return whole * self.step + self.origin if whole == number and abs(whole) < _TOP else None

    def locate(self, cell: Cell) -> tuple[int, Any]:
        """The state and the value of a cell that has no misfits."""
        place = self._special(cell)
        return (place, None) if place else (VALUE, self.measure(cell))

    def code(self, cell: Cell) -> int:
        """What `pack` makes of `cell`."""
        state, value = self.locate(cell)
        return _TOP - 1 - state if state else value

    def values(self, cells: Cells) -> np.ndarray:
        """What is compared; it means something where there is a value, or a special one that is a number."""
        values = cells.value if self.step == 1 else cells.value * self.step + self.origin
        if self.column.kind == "number":
            values = rounded(self.column, values)
        return np.where(cells.state > VALUE, self._special_values[cells.state], values) if self._numbers else values

    def equals(self, cells: Cells, state: int, value: Any) -> np.ndarray:
        """Where `cells` are what `locate` found: the same number, the same word, or missing."""
        if not self._compares[state]:
            return cells.state == state
        number = value if state == VALUE else self._numbers[state]
        return self._compares[cells.state] & (self.values(cells) == number)

    def is_other(self, cells: Cells) -> np.ndarray:
        """Where there is a text that is none of the levels."""
        if not self.column.is_levelled:
            return np.zeros(len(cells.state), bool)
        return (cells.state == VALUE) & (cells.value == len(self.column.levels))

    def has_order(self, cells: Cells) -> np.ndarray:
        """Where there is a value or a number that can lie below or above others, which `other` and words cannot."""
        ordered = self._compares[cells.state]
        return ordered & (cells.value < len(self.column.levels)) if self.column.is_levelled else ordered

    def states(self, values: np.ndarray) -> np.ndarray:
        """The state in which the column holds each number: that of the special value that it is, else `VALUE`."""
        states = np.full(len(values), VALUE, np.int16)
        for place, number in reversed(self._numbers.items()):
            states[values == number] = place
        return states

    def holds(self, values: np.ndarray) -> np.ndarray:
        """Which numbers are special or lie in the declared range."""
        return (self.states(values) != VALUE) | (self.clamp(values) == values)

    def put(self, cells: Cells, rows: np.ndarray, values: Any, state: int | np.ndarray = VALUE) -> Cells:
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
        """The nearest at or below `values` with the column's decimals or ticks; a special number stays as it is."""
        return self._unless_special(values, self._floor(values - self.origin) + self.origin)

    def up(self, values: np.ndarray) -> np.ndarray:
        """The nearest at or above `values` with the column's decimals or ticks; a special number stays as it is."""
        return self._unless_special(values, self.origin - self._floor(self.origin - values))

    def _unless_special(self, values: np.ndarray, moved: np.ndarray) -> np.ndarray:
        # Only numbers may have special values with more decimals than the others.
        if self.column.kind != "number" or not self._numbers:
            return moved
        return np.where(self.states(np.atleast_1d(values)).reshape(np.shape(values)) != VALUE, values, moved)

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
        """The state of the special value that is `cell`, or is its number; 0 if there is none."""
        if isinstance(cell, str):
            return next((place for place, word in enumerate(self.column.special or (), start=1) if word == cell), 0)
        number = self.measure(cell) if self._is_number(cell) else None
        return next((place for place, other in self._numbers.items() if other == number), 0)

    def _is_number(self, cell: Cell) -> bool:
        wanted = datetime.date if self.column.kind == "datetime" else int | float
        return self.column.is_ranged and isinstance(cell, wanted) and not isinstance(cell, bool)

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
        if not self._is_number(cell):
            return None if self.column.special is None and not ordered else "is neither a value nor special in"
        value = self.measure(cell)
        low, high = (self.least, self.most) if ordered else (self.low, self.high)
        if (low is not None and value < low) or (high is not None and value > high):
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

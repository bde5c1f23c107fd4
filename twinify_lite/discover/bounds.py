"""The range of a column from what was found of it, and the frequent numbers that stand apart from it."""

from __future__ import annotations

import datetime
import operator
from typing import NamedTuple

from twinify_lite import cells
from twinify_lite.discover import ranges
from twinify_lite.discover.findings import Look
from twinify_lite.schema import Column

# So many frequent numbers on one side of zero are no codes.
_MANY = 4
# So many of the most frequent numbers are tried as the start of a range.
_STARTS = 16
# A guess reaches so many magnitudes, or decades, beyond the end that is declared; on a log scale so many in all.
_ROOM, _LOG = 1, 3


class Bounds(NamedTuple):
    """A range, and the frequent numbers beside it; `is_narrow` if one number is all that was found."""

    low: float
    high: float
    apart: list[float]
    is_narrow: bool = False


def bounds(look: Look) -> Bounds:
    """The declared bounds, and for open ones the range that was found or guessed with the frequent numbers near it."""
    column = look.column
    low, high = (None if bound is None else cells.number_of(column, bound) for bound in (column.min, column.max))
    frequent = look.frequent_numbers
    if low is not None and high is not None:
        return Bounds(low, high, [])
    start = look.range or _heaviest(look)
    apart = [] if column.special is not None else _apart(column, start, frequent)
    near = list(set(frequent).difference(apart))
    near += [cells.number_of(column, heap) for heap in column.heaps or ()]
    found = (min([start[0], *near]), max([start[1], *near]))
    if column.kind == "integer" and found[0] == 2 < found[1]:  # nobody counts from 2: it was hidden who has 1
        found = (1, found[1])
    if look.is_guessed:
        found = _guessed(column, found, low, high)
    if column.scale == "log":
        found = (max(found[0], ranges.SMALLEST[column.kind]), found[1])
    return _between(column, found, low, high)._replace(apart=apart)


def _between(column: Column, found: tuple[float, float], low: float | None, high: float | None) -> Bounds:
    bottom, top = (found[0] if low is None else low), (found[1] if high is None else high)
    if bottom < top:
        return Bounds(bottom, top, [])
    # One frequent number and nothing else that can be found, or a declared bound beyond all the rest.
    room = 1 if column.kind != "number" else abs(bottom) / 2 or 1.0
    if high is not None:
        return Bounds(top - room, top, [], is_narrow=True)
    if low is not None or bottom == 0:
        return Bounds(bottom, bottom + room, [], is_narrow=True)
    return Bounds(bottom - room, bottom + room, [], is_narrow=True)


def _guessed(column: Column, found: tuple[float, float], low: float | None, high: float | None) -> tuple[float, float]:
    """A guess that leaves room beside the end that is declared, and on a log scale begins a few magnitudes below."""
    bottom, top = found
    if column.kind == "datetime":
        first, last = (cells.ticks(column, datetime.date(year, 1, 1)) for year in (2, 9999))
        decade = (last - first) / 999.7
        bottom = bottom if high is None else max(first, min(bottom, high - _ROOM * decade))
        return bottom, top if low is None else min(last, max(top, low + _ROOM * decade))
    if low is not None and low >= top:
        top = 10.0**_ROOM * low or -found[0]
    if high is not None and high <= bottom:
        bottom = 10.0**_ROOM * high or -found[1]
    return (max(bottom, top / 10.0**_LOG) if column.scale == "log" else bottom), top


def _heaviest(look: Look) -> tuple[float, float]:
    """Where the range begins if all that was found are single numbers: among those that have most votes together."""
    frequent = look.frequent_numbers

    def lost(number: float) -> float:
        return sum(look.frequent[apart] for apart in _apart(look.column, (number, number), frequent))

    # Codes are few: among the most frequent numbers there is one that is none.
    heaviest = min([number for number in frequent if number != 0][:_STARTS] or [0.0], key=lost)
    return heaviest, heaviest


def _apart(column: Column, start: tuple[float, float], frequent: list[float]) -> list[float]:
    """Frequent numbers that are codes beside the range: of another sign, a 0 that it has not, or far away.

    The range grows by its neighbours first: what is near to one of them is not far.
    """
    low, high = start
    apart = list(frequent)
    codes = _codes_by_sign(frequent)
    while near := {number for number in apart if _is_near(column, number, low, high, codes)}:
        low, high = min(low, *near), max(high, *near)
        apart = [number for number in apart if number not in near]
    return apart


def _codes_by_sign(frequent: list[float]) -> set[float]:
    """Numbers that are few on their side of zero: a -1 beside numbers that are counted is a code, -1 to -9 are not."""
    sides = [number for number in frequent if number < 0], [number for number in frequent if number > 0]
    return {number for side in sides if len(side) < _MANY for number in side}


def _is_near(column: Column, number: float, low: float, high: float, codes: set[float]) -> bool:
    if column.kind != "datetime" and not low <= number <= high:
        next_to_zero = 2 if column.kind == "integer" else 0
        if number in codes and ((low >= 0 > number) or (high <= 0 < number)):
            return False
        if number == 0 and min(abs(low), abs(high)) > next_to_zero:
            return False
    return max(low - number, number - high) <= _reach(column, low, high)


def _reach(column: Column, low: float, high: float) -> float:
    """How far a number may lie from a range and still belong to it: as far as the range is wide, or half its size.

    Times have no size; they reach ten years.
    """
    if column.kind == "datetime":
        decade = (cells.ticks(column, datetime.date(year, 1, 1)) for year in (1970, 1980))
        return max(high - low, abs(operator.sub(*decade)))
    return max(high - low, max(abs(low), abs(high)) / 2, 1.0 if column.kind == "integer" else 0.0)

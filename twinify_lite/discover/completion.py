"""From what was found to a complete schema, and to what the user should know. All of it is public."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from twinify_lite import cells
from twinify_lite.discover import ranges
from twinify_lite.discover.findings import Look
from twinify_lite.schema import Cell, Column, Schema
from twinify_lite.schema.constraints import Condition, Constraint

#: The level of all values that are too rare to be found.
OTHER = "other"


def complete(schema: Schema, looks: Sequence[Look]) -> tuple[Schema, tuple[str, ...]]:
    """The schema with all that was found, and what the user should know."""
    columns = [_said(_COMPLETE[look.column.is_ranged](look), look.column, schema.constraints) for look in looks]
    whole = dataclasses.replace(schema, constraints=()).replace_columns(columns)
    kept = tuple(constraint for constraint in schema.constraints if not constraint.problems(whole))
    notes = [
        *_left_out_notes(column.name for column in columns if not column.is_modelled),
        *_other_note(sum(new.other == OTHER != look.column.other for new, look in zip(columns, looks, strict=True))),
        *_constraint_note(len(schema.constraints) - len(kept)),
    ]
    return dataclasses.replace(whole, constraints=kept), tuple(notes)


def _left_out_notes(names: Iterable[str]) -> list[str]:
    return [
        f"Column {name!r}: no value or range is frequent enough to be found, as in free text or where every row has a "
        'value of its own. It is left out. Declare `levels`, or `min` and `max`; or `kind = "identifier"` with '
        '`sample = "surrogate"` to have values made up.'
        for name in names
    ]


def _other_note(columns: int) -> list[str]:
    note = f"Columns with a level {OTHER!r} for values too rare to be found: {columns}. Declare `levels` to keep them."
    return [note] if columns else []


def _constraint_note(dropped: int) -> list[str]:
    note = (
        f"Constraints that do not fit what was found, and are ignored: {dropped}. Declare the columns they are about."
    )
    return [note] if dropped else []


def _left_out(column: Column) -> Column:
    return Column(name=column.name, kind="identifier", dtype=column.dtype)


def _nullable(look: Look) -> bool:
    return look.missing if look.column.nullable is None else look.column.nullable


def _complete_levelled(look: Look) -> Column:
    column = look.column
    if "levels" not in column.open:
        return column.replace(nullable=_nullable(look))
    if not look.frequent:
        return _left_out(column)
    levels = tuple(sorted(set(look.frequent) - {column.other}))
    if not levels:
        return _left_out(column)
    other = column.other or (None if OTHER in levels else OTHER)
    return column.replace(levels=levels, other=other, nullable=_nullable(look))


def _complete_ranged(look: Look) -> Column:
    column = look.column
    texts = sorted(value for value in look.frequent if isinstance(value, str))
    numbers = sorted(
        (value for value in look.frequent if not isinstance(value, str)), key=look.frequent.get, reverse=True
    )
    bounds = _bounds(column, look.range, numbers)
    if bounds is None:
        return _left_out(column)
    low, high, apart = bounds
    changes = {"nullable": _nullable(look), "min": _cell(column, low), "max": _cell(column, high)}
    if column.special is None:
        changes["special"] = (*texts, *(_cell(column, number) for number in apart))
    if column.heaps is None:
        changes["heaps"] = tuple(
            _cell(column, number) for number in numbers if number not in apart and low <= number <= high
        )
    return column.replace(**changes)


def _bounds(
    column: Column, found: tuple[float, float] | None, frequent: list[float]
) -> tuple[float, float, list[float]] | None:
    """The range with the frequent numbers near it, and those that stand apart from it."""
    low, high = (None if bound is None else cells.number_of(column, bound) for bound in (column.min, column.max))
    if found is None and not frequent and (low is None or high is None):
        return None
    near = [found] if found else [(min(frequent), max(frequent))] if frequent else []
    base = near[0] if near else (low, high)
    apart = [number for number in frequent if column.special is None and found and _stands_apart(number, *base)]
    inside = [number for number in frequent if number not in apart]
    bottom = min([base[0], *inside]) if low is None else low
    top = max([base[1], *inside]) if high is None else high
    if low is None and high is None and top > bottom:
        bottom, top = ranges.rounded(column, bottom, top)
    if column.scale == "log":
        bottom = max(bottom, base[0], ranges.SMALLEST[column.kind])
    if top <= bottom:  # one frequent value and nothing else that can be found, or a declared bound beyond the rest
        bottom, top = (bottom, bottom + 1) if high is None else (top - 1, top)
    return bottom, top, apart


def _stands_apart(number: float, low: float, high: float) -> bool:
    """Whether a frequent number is a code beside the range: a 0 or a sign that the range has not, or far away."""
    other_sign = (low >= 0 > number) or (high <= 0 < number) or (number == 0 and not low <= 0 <= high)
    return other_sign or not low - (high - low) <= number <= high + (high - low)


def _cell(column: Column, number: float) -> Any:
    """A number on the scale of `Cells.value` as schema.toml writes it."""
    if column.kind == "datetime":
        return cells.moment(column, int(number))
    return int(number) if column.kind == "integer" else float(number)


def _said(column: Column, before: Column, constraints: Iterable[Constraint]) -> Column:
    """The column with what its constraints speak of: they are public, so their values need not be found."""
    for constraint in constraints:
        for cell in constraint.named.get(column.name, ()):
            column = _with_level(column, before, cell) if column.is_levelled else _with_number(column, before, cell)
        if isinstance(constraint, Condition) and constraint.then == column.name and constraint.outcome is None:
            column = column.replace(nullable=True) if before.nullable is None and column.is_modelled else column
    return column


def _with_level(column: Column, before: Column, cell: Cell) -> Column:
    if before.levels is not None or not isinstance(cell, str) or cell in (*column.levels, column.other):
        return column
    return column.replace(levels=tuple(sorted((*column.levels, cell))))


def _with_number(column: Column, before: Column, cell: Cell) -> Column:
    if not column.is_ranged:
        return column
    number = cells.number_of(column, cell)
    if number is None and before.special is None and cell not in column.special:
        return column.replace(special=(*column.special, cell))
    if number is None or cell in column.special:
        return column
    low, high = (cells.number_of(column, bound) for bound in (column.min, column.max))
    changes = {}
    if before.min is None and number < low and (column.scale == "linear" or number > 0):
        changes["min"] = _cell(column, number)
    if before.max is None and number > high:
        changes["max"] = _cell(column, number)
    return column.replace(**changes)


_COMPLETE = {True: _complete_ranged, False: _complete_levelled}

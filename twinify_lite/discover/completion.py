"""From what was found to a complete schema, and to what the user should know. All of it is public."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from twinify_lite import cells
from twinify_lite.discover.bounds import Bounds, bounds
from twinify_lite.discover.findings import Look
from twinify_lite.discover.notes import OTHER, notes
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Cell, Column, Schema
from twinify_lite.schema.constraints import Condition, Constraint

# Of the rows: where so many are missing and nothing else was found, all are.
_ALL = 0.95


def complete(
    schema: Schema,
    looks: Sequence[Look],
    rows: int,
    *,
    guess: bool,
    made_up: Schema | None = None,
    keep: bool = False,
) -> tuple[Schema, tuple[str, ...]]:
    """The schema with all that was found in about so many rows, and what the user should know.

    Columns in which nothing was found are left out. If `guess` they are kept, with a guessed range or with no level but
    "other"; where all cells are missing, as a constant.

    Formal guarantee: with `made_up`, some column is modelled; and with `keep`, all of `looks` are.
    """
    found = [_found(look, rows, guess=guess) for look in looks]
    is_empty = len(looks) == len(schema.modelled) and not any(column.is_modelled for column in found)
    if made_up is not None and (keep or is_empty):
        found = [_kept(look, made_up[look.column.name]) for look in looks]
    columns = [_said(column, look.column, schema.constraints) for column, look in zip(found, looks, strict=True)]
    whole = dataclasses.replace(schema, constraints=()).replace_columns(columns)
    kept = tuple(constraint for constraint in schema.constraints if not constraint.problems(whole))
    dropped = [constraint for constraint in schema.constraints if constraint not in kept]
    return dataclasses.replace(whole, constraints=kept), tuple(notes(looks, columns, dropped))


def _found(look: Look, rows: int, *, guess: bool) -> Column:
    """The column with what was found in it; left out, or a constant, if that is nothing."""
    is_hidden = look.is_guessed and not guess
    column = _left_out(look.column) if is_hidden else _COMPLETE[look.column.is_ranged](look)
    column = _or_missing(column, look, rows)
    return _or_other(column, look) if guess else column


def _kept(look: Look, made_up: Column) -> Column:
    """The column with what was found in it, guessed if that is nothing; as `made_up` if no such column is sound."""
    column = _or_other(_COMPLETE[look.column.is_ranged](look), look)
    if column.is_modelled:
        return column
    look.is_guessed = True
    return made_up


def _left_out(column: Column) -> Column:
    return Column(name=column.name, kind="identifier", dtype=column.dtype)


def _or_missing(column: Column, look: Look, rows: int) -> Column:
    """The column; or if nothing was found in it but missing cells, in about every row, one of those."""
    is_found = column.is_modelled and not look.is_guessed
    if is_found or look.missing_rows < _ALL * rows:
        return column
    return Column(name=column.name, kind="constant", nullable=True, dtype=look.column.dtype)


def _or_other(column: Column, look: Look) -> Column:
    """The column; or if none of its levels was found, one in which all that is there is "other"."""
    if column.kind != "identifier" or not look.column.is_levelled:
        return column
    return look.column.replace(levels=(), other=look.column.other or OTHER, nullable=_nullable(look))


def _nullable(look: Look) -> bool:
    return look.missing if look.column.nullable is None else look.column.nullable


def _complete_levelled(look: Look) -> Column:
    column = look.column
    if "levels" not in column.open:
        return column.replace(nullable=_nullable(look))
    other = column.other or OTHER
    levels = tuple(sorted(set(look.frequent) - {other}))
    if not levels:
        return _left_out(column)
    return column.replace(levels=levels, other=other, nullable=_nullable(look))


def _complete_ranged(look: Look) -> Column:
    found = bounds(look)
    column = _if_sound(look.column, _changes(look, found))
    if column.is_modelled or not _is_around_zero(look.column, found):
        return column
    # A distribution of positive numbers was declared: what lies below 0 has no place in it.
    return _if_sound(look.column, _changes(look, found._replace(low=0.0)))


def _is_around_zero(column: Column, found: Bounds) -> bool:
    return column.kind != "datetime" and found.low < 0 < found.high


def _changes(look: Look, found: Bounds) -> dict[str, Any]:
    column = look.column
    changes = {"nullable": _nullable(look), "min": _cell(column, found.low), "max": _cell(column, found.high)}
    if column.special is None:
        changes["special"] = (*look.frequent_texts, *(_cell(column, number) for number in found.apart))
    if column.heaps is None:
        apart = set(found.apart)
        inside = sorted(number for number in look.frequent_numbers if found.low <= number <= found.high)
        changes["heaps"] = tuple(_cell(column, number) for number in inside if number not in apart)
    if look.is_skewed and 0 < 100 * found.low <= found.high:
        changes["scale"] = "log"
    return changes


def _if_sound(column: Column, changes: dict[str, Any]) -> Column:
    """The column with `changes`; left out where what was found and what is declared make no sound column."""
    try:
        return column.replace(**changes)
    except SchemaError:
        return _left_out(column)


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

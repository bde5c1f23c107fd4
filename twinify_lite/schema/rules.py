"""What may be said of a column and of a schema: each key by itself (`checks`), keys together, and columns together.

A checker yields what is wrong, each with its fix, and never raises: all problems of a schema are told at once.
"""

from __future__ import annotations

import collections
import datetime
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from twinify_lite.schema import KEYS, Column
from twinify_lite.schema.checks import CHECKS, INT64, check_text, identity
from twinify_lite.schema.settle import DEFAULTS, keys_of, zone_info
from twinify_lite.schema.words import misplaced, unknown_kind

if TYPE_CHECKING:
    from twinify_lite.schema import Schema


def column_problems(column: Column) -> list[str]:
    """Everything that is wrong with a settled column, a sentence each, with the fix; empty if it is sound."""
    return [f"Column {column.name!r}: {problem}" for problem in dict.fromkeys(_problems(column))]


def _problems(column: Column) -> Iterator[str]:
    if not isinstance(column.name, str) or not column.name.strip():
        yield "its name must be text that is not blank. Give it another."
    else:
        yield from check_text(column.name, "its name")
    if not keys_of(column.kind):
        yield unknown_kind(column.kind)
        return
    for key, default in DEFAULTS.items():
        value = getattr(column, key)
        if key not in KEYS[column.kind] and (type(value) is not type(default) or value != default):
            yield misplaced(column.kind, key)
    found = {key: list(_check(key, column)) for key in KEYS[column.kind] if key in CHECKS}
    for problems in found.values():
        yield from problems
    # How keys lie to each other can be said of those only that are sound by themselves.
    for keys, check in TOGETHER.items():
        if column.is_ranged and not any(found.get(key) for key in keys):
            yield from check(column)


def _check(key: str, column: Column) -> Iterator[str]:
    """A key that is left open needs no check; but an ordinal's `levels` may not be left open, nor a constant's `value`,
    unless it is nullable: then all of it is missing."""
    value = getattr(column, key)
    if value is not None:
        yield from CHECKS[key](value, column)
    elif key == "value" and not column.nullable:
        yield "a constant needs its value. Add value = ..., or nullable = true if every cell is missing."
    elif key == "levels" and column.kind == "ordinal":
        yield (
            "an ordinal must declare its levels, because their order cannot be discovered. Add levels = [...] from the "
            "least to the most, or set kind to 'category'."
        )


def _check_range(column: Column) -> Iterator[str]:
    if column.min is None or column.max is None:
        return
    least, most = _place(column.min, column), _place(column.max, column)
    if least > most:
        yield "min is greater than max. Exchange them."
    elif least == most:
        yield "min equals max, so every row has the same value. Set kind to 'constant' and give its value."
    elif column.kind == "number" and not math.isfinite(float(most) - float(least)):
        yield "the range from min to max is wider than any number. Narrow it."


def _check_inside(column: Column) -> Iterator[str]:
    least, most = (None if bound is None else _place(bound, column) for bound in (column.min, column.max))
    places = [_place(heap, column) for heap in column.heaps or ()]
    if any((least is not None and place < least) or (most is not None and place > most) for place in places):
        yield "heaps has a value outside min and max. Widen the range, or move the value to special."


def _check_apart(column: Column) -> Iterator[str]:
    if set(map(identity, column.heaps or ())) & set(map(identity, column.special or ())):
        yield "a value is both in heaps and in special. Keep it in one of them."


def _place(value: Any, column: Column) -> Any:
    """The value on a line: numbers as they are, moments as the time since an epoch, in UTC where there is a zone."""
    if not isinstance(value, datetime.date):
        return value
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time.min)
    if value.tzinfo is None and column.zone is not None:
        value = value.replace(tzinfo=zone_info(column.zone))
    # Not `astimezone`, which overflows in the years 1 and 9999.
    return value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1) - (value.utcoffset() or datetime.timedelta())


#: What is wrong between keys of a ranged column that are sound by themselves.
TOGETHER: dict[tuple[str, ...], Callable[[Column], Iterator[str]]] = {
    ("min", "max", "resolution", "zone"): _check_range,
    ("min", "max", "heaps", "resolution", "zone"): _check_inside,
    ("heaps", "special"): _check_apart,
}


def schema_problems(schema: Schema) -> list[str]:
    """Everything that is wrong between the columns, a sentence each, with the fix; empty if it is sound."""
    strangers = [column for column in schema.columns if not isinstance(column, Column)]
    if strangers:
        return ["A schema is made of columns. Give it Column(name=..., kind=...) objects."]
    return [problem for check in SCHEMA_CHECKS for problem in check(schema)]


def _check_columns(schema: Schema) -> Iterator[str]:
    # What is said of the table as a whole needs no columns: those that are not declared are guessed.
    if not (schema.columns or schema.constraints or schema.rows or schema.style):
        yield "There are no columns. Add one: [columns.NAME] with kind = ... below it."
    for name, times in collections.Counter(column.name for column in schema.columns).items():
        if times > 1:
            yield f"Column {name!r}: there are {times} columns of this name. Give each its own."


def _check_rows(schema: Schema) -> Iterator[str]:
    rows = schema.rows
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1 or rows not in INT64):
        yield "rows must be a whole number above 0; leave it out unless it is public."


def _check_guessed(schema: Schema) -> Iterator[str]:
    if not isinstance(schema.guessed, bool):
        yield "guessed must be true or false."


def _check_accepted(schema: Schema) -> Iterator[str]:
    names = schema.accepted
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        yield "accepted must be a list of names of columns, each once."
    else:
        strangers = (name for name in names if name not in schema)
        yield from (f"accepted names {name!r}, which is no column. Take it out." for name in strangers)


def _check_style(schema: Schema) -> Iterator[str]:
    if schema.style is None:
        return
    from twinify_lite.table.csv_style import CsvStyle

    if not isinstance(schema.style, CsvStyle):
        yield "style must be a CsvStyle, such as CsvStyle(separator=';'), or None."


def _check_constraints(schema: Schema) -> Iterator[str]:
    for constraint in schema.constraints:
        if not hasattr(constraint, "problems"):
            yield "constraints must be Constraint objects. Make one with Constraint.parse(...)."
        elif all(name in schema for name in constraint.names):  # the others wait for the table to fill the schema
            yield from constraint.problems(schema)


SCHEMA_CHECKS = (_check_columns, _check_rows, _check_guessed, _check_accepted, _check_style, _check_constraints)

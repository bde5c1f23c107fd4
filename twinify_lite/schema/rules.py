"""What may be said of a column and of a schema: a table from keys to checkers.

A checker yields what is wrong, each with its fix, and never raises: all problems of a schema are told at once.
"""

from __future__ import annotations

import collections
import datetime
import difflib
import math
import re
import string
import zoneinfo
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from twinify_lite.schema import KEYS, KINDS, Column
from twinify_lite.schema.settle import DEFAULTS, LAST, keys_of, zone_info

if TYPE_CHECKING:
    from twinify_lite.schema import Schema

#: What other tools call our kinds.
SYNONYMS = {
    **dict.fromkeys(("float", "real", "double", "numeric", "continuous", "decimal"), "number"),
    **dict.fromkeys(("int", "whole", "count"), "integer"),
    **dict.fromkeys(("str", "string", "text", "enum", "factor", "nominal", "object"), "category"),
    **dict.fromkeys(("date", "time", "timestamp"), "datetime"),
    **dict.fromkeys(("bool", "binary", "logical", "flag"), "boolean"),
    **dict.fromkeys(("id", "key", "name", "uuid"), "identifier"),
}
DIRECTIVES = ("%Y", "%m", "%d", "%H", "%M", "%S", "%f", "%y", "%b", "%B", "%j", "%z", "%Z", "%p", "%I")
_DTYPE = re.compile(
    r"bool|u?int(8|16|32|64)|halffloat|float|double|(large_)?string|categorical|date(32|64)"
    r"|timestamp\[(s|ms|us|ns)\]|decimal\([1-9]\d*, ?-?\d+\)",
    re.ASCII,
)
# Widths of two digits at most: a pattern must not be able to ask for gigabytes of padding.
_PATTERN_SPEC = re.compile(r"0?[1-9]?\d?[dxXob]?", re.ASCII)
_NO, _YES = {"false", "f", "no", "n", "0"}, {"true", "t", "yes", "y", "1"}
_INT64 = range(-(2**63), 2**63)


def suggestion(word: object, words: Iterable[str]) -> str:
    """The end of a sentence about a misspelt word, with the one that was probably meant; empty if none is near."""
    close = difflib.get_close_matches(str(word).lower(), list(words), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def nearest_kind(word: object) -> str | None:
    """The kind that was probably meant by `word`."""
    word = str(word).lower()
    close = difflib.get_close_matches(word, KINDS, n=1)
    return SYNONYMS.get(word) or (close[0] if close else None)


def column_problems(column: Column) -> list[str]:
    """Everything that is wrong with a settled column, a sentence each, with the fix; empty if it is sound."""
    return [f"Column {column.name!r}: {problem}" for problem in dict.fromkeys(_problems(column))]


def _problems(column: Column) -> Iterator[str]:
    if not isinstance(column.name, str) or not column.name.strip():
        yield "its name must be text that is not blank. Give it another."
    else:
        yield from _check_text(column.name, "its name")
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


def unknown_kind(kind: object) -> str:
    """The sentence about a kind that there is not."""
    near = nearest_kind(kind)
    return f"there is no kind {kind!r}" + (
        f"; did you mean {near!r}?" if near else f". The kinds are {', '.join(KINDS)}."
    )


def misplaced(kind: str, key: str) -> str:
    """The sentence about a key of another kind."""
    kinds = [other for other, keys in KEYS.items() if key in keys]
    article = "an" if kind[0] in "aeiou" else "a"
    return f"{key!r} does not belong to {article} {kind}; delete it, or set kind to {_or(kinds)}."


def _or(words: Iterable[str]) -> str:
    *most, last = map(repr, words)
    return f"{', '.join(most)} or {last}" if most else last


def _check(key: str, column: Column) -> Iterator[str]:
    """A key that is left open needs no check; but `value` and an ordinal's `levels` may not be left open."""
    value = getattr(column, key)
    if value is not None:
        yield from CHECKS[key](value, column)
    elif key == "value":
        yield "a constant needs its value. Add value = ..."
    elif key == "levels" and column.kind == "ordinal":
        yield (
            "an ordinal must declare its levels, because their order cannot be discovered. Add levels = [...] from the "
            "least to the most, or set kind to 'category'."
        )


def _check_text(value: Any, key: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{key} must be text, in quotes."
        return
    try:
        value.encode()
    except UnicodeEncodeError:
        yield f"{key} contains half a character (a lone surrogate), which no file can hold. Take it out."


def _check_nullable(value: Any, _column: Column) -> Iterator[str]:
    if not isinstance(value, bool):
        yield "nullable must be true or false."


def _check_dtype(value: Any, _column: Column) -> Iterator[str]:
    if not isinstance(value, str) or not _DTYPE.fullmatch(value):
        yield (
            "dtype must be bool, int8 to int64, uint8 to uint64, halffloat, float, double, string, large_string, "
            "categorical, date32, date64, timestamp[s], [ms], [us] or [ns], or decimal(precision,scale). Leave it out "
            "for text."
        )


def _check_peeked(value: Any, column: Column) -> Iterator[str]:
    if not isinstance(value, tuple) or not all(isinstance(key, str) for key in value):
        yield "peeked must be a list of keys."
        return
    if len(set(value)) < len(value):
        yield "peeked names a key twice. Keep one."
    for key in dict.fromkeys(value):
        if key not in KEYS[column.kind] or key == "peeked":
            yield f"peeked names {key!r}, which is not a key of this column{suggestion(key, KEYS[column.kind]) or '.'}"
        elif getattr(column, key) is None:
            yield f"peeked names {key!r}, which is not set. Take it out of peeked."


def _check_bound(key: str) -> Callable[[Any, Column], Iterator[str]]:
    return lambda value, column: _check_point(value, column, key)


def _check_points(key: str) -> Callable[[Any, Column], Iterator[str]]:
    def check(value: Any, column: Column) -> Iterator[str]:
        if not isinstance(value, tuple):
            yield f"{key} must be a list."
            return
        for item in value:
            text = key == "special" and isinstance(item, str)
            each = f"every value of {key}"
            yield from _check_text(item, each) if text else _check_point(item, column, each)
        if len({_identity(item) for item in value}) < len(value):
            yield f"{key} has a value twice. Keep one."

    return check


def _identity(value: Any) -> str:
    """What a value looks like in a cell, so that 1, 1.0 and "1" are one."""
    if isinstance(value, str):
        return value
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _check_point(value: Any, column: Column, key: str) -> Iterator[str]:
    """One value on the column's axis: a moment of a datetime, a number of the others."""
    return (_check_moment if column.kind == "datetime" else _check_number)(value, column, key)


def _check_number(value: Any, column: Column, key: str) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield f"{key} must be a number{', or text in quotes' if 'special' in key else ''}."
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{key} must be finite. Leave it out to have it estimated, or give a bound from a code book."
    elif isinstance(value, int) and value not in _INT64:
        yield f"{key} does not fit into 64 bits. " + (
            "Give it a decimal point or an exponent (1e30)." if column.kind == "number" else "Use kind 'number'."
        )
    elif isinstance(value, float) and column.kind == "integer":
        yield f"{key} must be a whole number, as the kind is integer. Round it, or set kind to 'number'."


def _check_moment(value: Any, column: Column, key: str) -> Iterator[str]:
    if type(value) not in (datetime.date, datetime.datetime):
        yield f"{key} must be a date or a time, such as 2024-12-31 or 2024-12-31T23:59:00."
    elif type(value) is datetime.datetime:
        if value.tzinfo is not None and column.zone is None:
            yield f'{key} has a zone and the column has none. Take the offset away, or add zone = "UTC" to the column.'
        elif column.resolution == "day":
            yield f'{key} must be a date such as 2024-12-31, as the resolution is a day; or set resolution = "second".'
        yield from _check_offset(value, key)


def _check_offset(value: datetime.datetime, key: str) -> Iterator[str]:
    if (value.utcoffset() or datetime.timedelta()) % datetime.timedelta(minutes=1):
        yield f"{key} has an offset that is not of whole minutes. Give it in UTC."


def _check_levels(value: Any, column: Column) -> Iterator[str]:
    if not isinstance(value, tuple):
        yield "levels must be a list of texts."
        return
    for level in value:
        yield from _check_text(level, "every one of levels")
    twice = [level for level, times in collections.Counter(map(str, value)).items() if times > 1]
    if twice:
        yield f"levels has {', '.join(map(repr, twice))} more than once. Keep one of each."
    if column.kind == "boolean":
        words = tuple(str(level).lower() for level in value)
        if len(value) != 2 or (words[0] in _YES and words[1] in _NO):
            yield 'levels of a boolean are two: first what false is called, then what true is, as in ["no", "yes"].'
    elif not value:
        yield "levels is empty. List at least one, or use kind 'category' without levels to have them estimated."


def _check_other(value: Any, column: Column) -> Iterator[str]:
    yield from _check_text(value, "other")
    if isinstance(column.levels, tuple) and value in column.levels:
        yield f"other is {value!r}, which is one of levels too. Take it out of levels, or give other a name of its own."


def _check_choice(key: str, choices: tuple[str, ...]) -> Callable[[Any, Column], Iterator[str]]:
    def check(value: Any, _column: Column) -> Iterator[str]:
        if not isinstance(value, str) or value not in choices:
            yield f"{key} must be {_or(choices)}{suggestion(value, choices) or '.'}"

    return check


def _check_scale(value: Any, column: Column) -> Iterator[str]:
    yield from _check_choice("scale", ("linear", "log"))(value, column)
    for key in ("min", "max"):
        bound = getattr(column, key)
        if value == "log" and isinstance(bound, int | float) and bound <= 0:
            yield f'a log scale needs {key} > 0. Raise {key}, or set scale = "linear".'


def _check_decimals(value: Any, _column: Column) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 15:
        yield "decimals must be a whole number from 0 to 15."


def _check_format(value: Any, _column: Column) -> Iterator[str]:
    problem = next(_check_text(value, "format"), None)
    if problem:
        yield problem
        return
    directives = [found for found in re.findall("%.?", value, re.DOTALL) if found != "%%"]
    unknown = [found for found in dict.fromkeys(directives) if found not in DIRECTIVES]
    if unknown:
        yield f"format has {', '.join(map(repr, unknown))}, which is none of {' '.join(DIRECTIVES)} %F %T."
    if not directives:
        yield 'format has no directive. Write it like "%Y-%m-%d %H:%M:%S".'
    if len(set(directives)) < len(directives):
        yield "format has a directive twice, counting those that %F and %T stand for. Keep one."
    if "\0" in value:
        yield "format contains the character NUL. Take it out."


def _check_zone(value: Any, _column: Column) -> Iterator[str]:
    if zone_info(value) is not None:
        return
    names = {name.lower(): name for name in zoneinfo.available_timezones()}
    close = difflib.get_close_matches(str(value).lower(), names, n=1)
    example = names[close[0]] if close else "Europe/Helsinki"
    yield f"there is no zone {value!r}. Use an IANA name such as {example!r}, or an offset such as '+02:00'."


def _check_pattern(value: Any, _column: Column) -> Iterator[str]:
    problem = next(_check_text(value, "pattern"), None)
    if problem:
        yield problem
        return
    try:
        fields = [(name, spec, conversion) for _, name, spec, conversion in string.Formatter().parse(value)]
    except ValueError:
        fields = []
    fields = [field for field in fields if field[0] is not None]
    one = len(fields) == 1 and fields[0][0] in ("", "0") and fields[0][2] is None
    if not one or not _PATTERN_SPEC.fullmatch(fields[0][1]):
        yield 'pattern must contain one {} for a running number, as in "P{}" or "P{:06d}".'


def _check_value(value: Any, _column: Column) -> Iterator[str]:
    if isinstance(value, str):
        yield from _check_text(value, "value")
    elif type(value) is datetime.datetime:
        yield from _check_offset(value, "value")
    elif isinstance(value, float) and not math.isfinite(value):
        yield "value must be finite. Give a number, or text in quotes."
    elif isinstance(value, int) and value not in _INT64:
        yield "value does not fit into 64 bits. Give it as text, in quotes."
    elif type(value) not in (bool, int, float, datetime.date):
        yield "value must be text, a number, true, false, a date or a time."


#: What is wrong with the value of a key, in a settled column of a kind that has this key.
CHECKS: dict[str, Callable[[Any, Column], Iterator[str]]] = {
    "nullable": _check_nullable,
    "dtype": _check_dtype,
    "peeked": _check_peeked,
    "min": _check_bound("min"),
    "max": _check_bound("max"),
    "special": _check_points("special"),
    "heaps": _check_points("heaps"),
    "scale": _check_scale,
    "decimals": _check_decimals,
    "levels": _check_levels,
    "other": _check_other,
    "resolution": _check_choice("resolution", ("day", *LAST)),
    "format": _check_format,
    "zone": _check_zone,
    "sample": _check_choice("sample", ("omit", "surrogate")),
    "pattern": _check_pattern,
    "value": _check_value,
}


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
    if set(map(_identity, column.heaps or ())) & set(map(_identity, column.special or ())):
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
    if not schema.columns:
        yield "There are no columns. Add one: [columns.NAME] with kind = ... below it."
    for name, times in collections.Counter(column.name for column in schema.columns).items():
        if times > 1:
            yield f"Column {name!r}: there are {times} columns of this name. Give each its own."


def _check_rows(schema: Schema) -> Iterator[str]:
    rows = schema.rows
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1 or rows not in _INT64):
        yield "rows must be a whole number above 0; leave it out unless it is public."


def _check_guessed(schema: Schema) -> Iterator[str]:
    if not isinstance(schema.guessed, bool):
        yield "guessed must be true or false."


def _check_constraints(schema: Schema) -> Iterator[str]:
    for constraint in schema.constraints:
        if not hasattr(constraint, "problems"):
            yield "constraints must be Constraint objects. Make one with Constraint.parse(...)."
        elif all(name in schema for name in constraint.names):  # the others wait for the table to fill the schema
            yield from constraint.problems(schema)


SCHEMA_CHECKS = (_check_columns, _check_rows, _check_guessed, _check_constraints)

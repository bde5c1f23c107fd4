"""What may be said of a column under each key: a table from keys to checkers.

A checker yields what is wrong, each with its fix, and never raises.
"""

from __future__ import annotations

import collections
import datetime
import difflib
import math
import re
import string
import zoneinfo
from collections.abc import Callable, Iterator
from typing import Any

from twinify_lite.schema import KEYS, Column
from twinify_lite.schema.distributions import check_distribution
from twinify_lite.schema.settle import LAST, zone_info
from twinify_lite.schema.words import either, suggestion

DIRECTIVES = ("%Y", "%m", "%d", "%H", "%M", "%S", "%f", "%y", "%b", "%B", "%j", "%z", "%Z", "%p", "%I")
_PARTS = {"year": ("%Y", "%y"), "month": ("%m", "%b", "%B"), "day": ("%d",), "day of the year": ("%j",)}
INT64 = range(-(2**63), 2**63)
_DTYPE = re.compile(
    r"bool|u?int(8|16|32|64)|halffloat|float|double|(large_)?string|categorical|date(32|64)"
    r"|timestamp\[(s|ms|us|ns)\]|decimal\([1-9]\d*, ?-?\d+\)",
    re.ASCII,
)
# Widths of two digits at most: a pattern must not be able to ask for gigabytes of padding.
_PATTERN_SPEC = re.compile(r"0?[1-9]?\d?[dxXob]?", re.ASCII)
_MOST_POINTS = 10_000  # of special values and heaps
_NO, _YES = {"false", "f", "no", "n", "0"}, {"true", "t", "yes", "y", "1"}


def check_text(value: Any, key: str) -> Iterator[str]:
    """What is wrong with text that a file must be able to hold; problems call it `key`."""
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
        if len(value) > _MOST_POINTS:
            yield f"{key} has more than {_MOST_POINTS:,} values. Declare the column as a category."
            return
        for item in value:
            text = key == "special" and isinstance(item, str)
            each = f"every value of {key}"
            yield from check_text(item, each) if text else _check_point(item, column, each)
        if len({identity(item) for item in value}) < len(value):
            yield f"{key} has a value twice. Keep one."

    return check


def identity(value: Any) -> str:
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
    elif isinstance(value, int) and value not in INT64:
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
        yield from check_text(level, "every one of levels")
    twice = [level for level, times in collections.Counter(map(str, value)).items() if times > 1]
    if twice:
        yield f"levels has {', '.join(map(repr, twice))} more than once. Keep one of each."
    if column.kind == "boolean":
        words = tuple(str(level).lower() for level in value)
        if len(value) != 2 or (words[0] in _YES and words[1] in _NO):
            yield 'levels of a boolean are two: first what false is called, then what true is, as in ["no", "yes"].'
    elif not value and column.other is None:
        yield "levels is empty. List at least one, or use kind 'category' without levels to have them estimated."


def _check_other(value: Any, column: Column) -> Iterator[str]:
    yield from check_text(value, "other")
    if isinstance(column.levels, tuple) and value in column.levels:
        yield f"other is {value!r}, which is one of levels too. Take it out of levels, or give other a name of its own."


def _check_choice(key: str, choices: tuple[str, ...]) -> Callable[[Any, Column], Iterator[str]]:
    def check(value: Any, _column: Column) -> Iterator[str]:
        if not isinstance(value, str) or value not in choices:
            yield f"{key} must be {either(choices)}{suggestion(value, choices) or '.'}"

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
    problem = next(check_text(value, "format"), None)
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
    yield from _parts_without_a_whole(directives)
    if "\0" in value:
        yield "format contains the character NUL. Take it out."


def _parts_without_a_whole(directives: list[str]) -> Iterator[str]:
    """A day without its month and a month without its year name no date; a time of the day needs none of them."""
    has = {part: bool(set(spelled) & set(directives)) for part, spelled in _PARTS.items()}
    if has["day"] and not has["month"]:
        yield "format has %d, a day, and no month. Add %m, %b or %B."
    if (has["month"] or has["day of the year"]) and not has["year"]:
        yield "format has a month or a day of the year, and no year. Add %Y or %y."


def _check_zone(value: Any, _column: Column) -> Iterator[str]:
    if zone_info(value) is not None:
        return
    names = {name.lower(): name for name in zoneinfo.available_timezones()}
    close = difflib.get_close_matches(str(value).lower(), names, n=1)
    example = names[close[0]] if close else "Europe/Helsinki"
    yield f"there is no zone {value!r}. Use an IANA name such as {example!r}, or an offset such as '+02:00'."


def _check_pattern(value: Any, _column: Column) -> Iterator[str]:
    problem = next(check_text(value, "pattern"), None)
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
        yield from check_text(value, "value")
    elif type(value) is datetime.datetime:
        yield from _check_offset(value, "value")
    elif isinstance(value, float) and not math.isfinite(value):
        yield "value must be finite. Give a number, or text in quotes."
    elif isinstance(value, int) and value not in INT64:
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
    "distribution": check_distribution,
}

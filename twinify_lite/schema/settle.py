"""A column's values in the one shape in which the rest of the package meets them, however they were given."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable
from typing import Any

from twinify_lite.schema import KEYS, LEVELLED, RANGED, Column

DEFAULTS: dict[str, Any] = {
    key: field.default for key, field in Column.__dataclass_fields__.items() if key not in ("name", "kind")
}
#: The last moment of a day at each resolution finer than a day.
LAST = {
    "hour": datetime.time(23),
    "minute": datetime.time(23, 59),
    "second": datetime.time(23, 59, 59),
    "millisecond": datetime.time(23, 59, 59, 999_000),
    "microsecond": datetime.time.max,
}
#: Directives that C knows and Python's strptime does not, spelled out.
SHORTHANDS = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S"}
_OFFSET = re.compile(r"([+-])([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


def settle(column: Column) -> dict[str, Any]:
    """What the fields of `column` become: plain Python values, in tuples, of the type of their kind.

    Promises to raise nothing: what cannot be settled stays as it is, for `column_problems` to name. Settling a settled
    column changes nothing.
    """
    settled = {key: plain(getattr(column, key)) for key in DEFAULTS}
    for key in keys_of(column.kind):
        if (column.kind, key) in _SETTLERS:
            settled[key] = _each(_SETTLERS[column.kind, key], settled[key], column)
    for key, value in settled.items():
        # A column that changes its kind keeps the () with which a declared range had closed `special` and `heaps`.
        foreign = key not in keys_of(column.kind) and isinstance(value, tuple) and not value
        if value is None or foreign:
            settled[key] = _implied(column.kind, key, settled)
    return settled


def implied(column: Column, key: str) -> Any:
    """The value that `key` of `column` has where it is left out."""
    return _implied(column.kind, key, {other: getattr(column, other) for other in ("min", "max", "format")})


def plain(value: Any) -> Any:
    """Lists as tuples, and numpy's and pandas' scalars as Python's; anything else as it is."""
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, datetime.datetime):
        return _plain_moment(value)
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def keys_of(kind: object) -> tuple[str, ...]:
    """The keys of a kind; none if there is no such kind."""
    return KEYS.get(kind, ()) if isinstance(kind, str) else ()


def zone_info(zone: object) -> datetime.tzinfo | None:
    """The zone of an IANA name or of an offset such as +02:00; None if there is none of that name."""
    if not isinstance(zone, str) or not zone:
        return None
    offset = _OFFSET.fullmatch(zone)
    if offset:
        span = datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return datetime.timezone(-span if offset[1] == "-" else span)
    try:
        return zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # no such file, a bad path, a folder such as "Europe"
        return None


def _implied(kind: object, key: str, values: dict[str, Any]) -> Any:
    if key in ("special", "heaps") and key in keys_of(kind):
        return None if values["min"] is None or values["max"] is None else ()
    if key == "zone" and kind == "datetime" and "%z" in str(values["format"]):
        return "UTC"  # cells with an offset are instants
    return _IMPLIED.get((str(kind), key), DEFAULTS[key])


_IMPLIED = {("boolean", "levels"): ("false", "true"), ("constant", "nullable"): False}


def _each(settler: Callable[[Any, Column], Any], value: Any, column: Column) -> Any:
    return tuple(settler(item, column) for item in value) if isinstance(value, tuple) else settler(value, column)


def _plain_moment(value: datetime.datetime) -> datetime.datetime:
    """A datetime with no zone or with an offset of whole minutes: what TOML can say, and what compares by its instant.

    Python finds datetimes in different zones unequal while the clocks are set back, even at the same instant.
    """
    if value != value:  # pandas' NaT is a datetime
        return value
    wall = datetime.datetime(*value.timetuple()[:6], value.microsecond)
    offset = value.utcoffset()
    if offset is None:
        return wall
    if not offset % datetime.timedelta(minutes=1):
        return wall.replace(tzinfo=datetime.timezone(offset))
    try:
        return (wall - offset).replace(tzinfo=datetime.UTC)  # local mean time has odd seconds
    except OverflowError:
        return value


def _as_text(value: Any, _column: Column) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


def _as_whole(value: Any, _column: Column) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_moment(value: Any, column: Column, time: datetime.time = datetime.time.min) -> Any:
    """ISO text as a date or a time; a date where the column has days, a time where it has anything finer."""
    if isinstance(value, str):
        value = _from_iso(value)
    if type(value) is datetime.datetime:
        return _as_date(value, column) if column.resolution == "day" else value
    if type(value) is datetime.date and column.resolution != "day":
        return datetime.datetime.combine(value, time)
    return value


def _as_last_moment(value: Any, column: Column) -> Any:
    # A `max` of 2024-12-31 includes that day's evening.
    return _as_moment(value, column, LAST.get(str(column.resolution), datetime.time.min))


def _as_special(value: Any, column: Column) -> Any:
    return value if isinstance(value, str) else _as_moment(value, column)


def _from_iso(text: str) -> Any:
    for read in (datetime.date.fromisoformat, datetime.datetime.fromisoformat):
        try:
            return plain(read(text))
        except ValueError:
            continue
    return text


def _as_date(value: datetime.datetime, column: Column) -> datetime.date:
    """The date of a midnight, in the column's zone if the moment has one; any other moment as it is."""
    zone = zone_info(column.zone)
    if value.tzinfo is not None and zone is None:
        return value
    try:
        local = value if value.tzinfo is None else value.astimezone(zone)
    except OverflowError:
        return value
    return local.date() if local.time() == datetime.time.min else value


def _spelled_out(value: Any, _column: Column) -> Any:
    return re.sub("%.", lambda found: SHORTHANDS.get(found[0], found[0]), value) if isinstance(value, str) else value


def _unspaced(value: Any, _column: Column) -> Any:
    """A distribution as "ZeroInflated(Poisson)", however it was spaced."""
    return "".join(value.split()) if isinstance(value, str) else value


_SETTLERS: dict[tuple[str, str], Callable[[Any, Column], Any]] = {
    **{(kind, key): _as_text for kind in LEVELLED for key in ("levels", "other")},
    **{("integer", key): _as_whole for key in ("min", "max", "special", "heaps")},
    ("datetime", "min"): _as_moment,
    ("datetime", "max"): _as_last_moment,
    ("datetime", "heaps"): _as_moment,
    ("datetime", "special"): _as_special,
    ("datetime", "format"): _spelled_out,
    **{(kind, "distribution"): _unspaced for kind in (*RANGED, *LEVELLED)},
}

"""Dates and times as whole ticks since 1970, and back: text in any format, Arrow's dates and timestamps, zones.

A column without a zone counts wall time. One with a zone counts instants; but days of the zone's calendar where its
resolution is a day, and wall time where it is written without an offset, since there an hour of autumn occurs twice.
"""

from __future__ import annotations

import datetime
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.cells import zones
from twinify_lite.cells.parsing import by_distinct_text, is_text, only, plain
from twinify_lite.cells.stamps import INSTANT, STAMP, counts, nulls, parse, show, tells_zone, tokens
from twinify_lite.cells.zones import zone_of
from twinify_lite.schema import Column, Moment

#: Microseconds in one tick of each resolution.
TICK = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
#: How a time is written where it must be text and no format is declared.
ISO = {
    "day": "%Y-%m-%d",
    **dict.fromkeys(("hour", "minute", "second"), "%Y-%m-%dT%H:%M:%S"),
    **dict.fromkeys(("millisecond", "microsecond"), "%Y-%m-%dT%H:%M:%S.%f"),
}
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
#: What Arrow reads, and reads as Python does: a year from 1, a day that its month has in every year, a time or none.
_EASY_ISO = (
    "^(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-"
    "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?)?$"
)
_SIXTIETH = "[0-5][0-9]"
_TELLS_OFFSET = re.compile(rf"(?:Z|[+-][0-9]{{2}}(?::?{_SIXTIETH}(?::?{_SIXTIETH}(?:\.[0-9]+)?)?)?)$")


# -- scalars ----------------------------------------------------------------------------------------------------------


def ticks(column: Column, moment: Moment) -> int:
    """The tick of `column` at or before `moment`; a moment without a zone is in the column's."""
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    zone = _zone(column)
    wall = counts_wall_time(column)
    if moment.tzinfo is not None and zone is not None and wall:
        moment = moment.astimezone(zone)
    since = moment.replace(tzinfo=None) - _EPOCH
    if zone is not None and not wall:
        since -= (moment if moment.tzinfo else moment.replace(tzinfo=zone)).utcoffset()
    return (since // _MICROSECOND + _phase(column)) // TICK[column.resolution]


def moment(column: Column, tick: int) -> Moment:
    """The inverse of `ticks`: a date where the resolution is a day."""
    stamp = _EPOCH + (int(tick) * TICK[column.resolution] - _phase(column)) * _MICROSECOND
    zone = _zone(column)
    if column.resolution == "day":
        return stamp.date()
    if zone is None:
        return stamp
    if counts_wall_time(column):
        return stamp.replace(tzinfo=zone)
    return stamp.replace(tzinfo=datetime.UTC).astimezone(zone)


def counts_wall_time(column: Column) -> bool:
    """Whether the ticks of `column` count what a clock on the wall shows; otherwise they count instants."""
    without_offset = _is_written(column) and column.format is not None and "%z" not in tokens(column.format)
    return _zone_name(column) is None or column.resolution == "day" or without_offset


def _is_written(column: Column) -> bool:
    return column.dtype in (None, "string", "large_string", "categorical")


def _zone_name(column: Column) -> str | None:
    """The column's zone; UTC if it has none and its format wants one."""
    return column.zone or ("UTC" if tells_zone(column.format or "") else None)


def _zone(column: Column) -> datetime.tzinfo | None:
    name = _zone_name(column)
    return None if name is None else zone_of(name)


def _phase(column: Column) -> int:
    """Microseconds by which the zone's hours lie beside those of UTC: half an hour in India."""
    if column.resolution != "hour" or counts_wall_time(column):
        return 0
    offset = datetime.datetime(2000, 1, 1, tzinfo=_zone(column)).utcoffset()
    return offset // _MICROSECOND % TICK["hour"]


# -- reading ----------------------------------------------------------------------------------------------------------


def moments(column: Column, array: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The cells as int64 ticks of the column's resolution, null where there is no time."""
    array = plain(array)
    if pa.types.is_string(array.type):
        stamps = _parsed(column, array)
    elif pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        stamps = _typed(array)
    else:
        return pa.nulls(len(array), pa.int64())
    counted = _counted(column, stamps)
    # In numpy: Arrow's division truncates, and times before 1970 need the floor.
    return pa.array((counts(counted) + _phase(column)) // TICK[column.resolution], mask=nulls(counted))


def _counted(column: Column, stamps: pa.Array) -> pa.Array:
    """Stamps of wall time or instants, as what the column counts."""
    if stamps.type.tz is None:
        return stamps if counts_wall_time(column) else _localised(stamps, _zone_name(column))
    return _wall(stamps, _zone_name(column) or stamps.type.tz) if counts_wall_time(column) else stamps


def _localised(stamps: pa.Array, zone: str) -> pa.Array:
    instants = zones.instants(counts(stamps), zone)
    return pa.array(instants, mask=nulls(stamps)).cast(pa.timestamp("us", tz=zone))


def _wall(stamps: pa.Array, zone: str) -> pa.Array:
    return pa.array(zones.local(counts(stamps), zone), mask=nulls(stamps)).cast(STAMP)


def _typed(array: pa.Array) -> pa.Array:
    """Arrow's dates and timestamps as microseconds, rounded down; null where these overflow."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s"), safe=False)
    count, to = counts(array), pa.timestamp("us", tz=array.type.tz)
    if array.type.unit == "ns":
        return pa.array(count // 1_000, mask=nulls(array)).cast(to)
    factor = _UNITS[array.type.unit]
    far = (count > 2**62 // factor) | (count < -(2**62) // factor)
    return pa.array(np.where(far, 0, count) * factor, mask=nulls(array) | far).cast(to)


def _parsed(column: Column, array: pa.Array) -> pa.Array:
    """Texts as timestamp[us] of wall time, or as instants where they tell their offset and the column has a zone."""
    if column.format is None:
        return _parsed_iso(column, array)
    if column.resolution != "day":
        return parse(column.format, array, lambda text: _strptime(column, text))
    encoded = array.dictionary_encode()  # days repeat
    return parse(column.format, encoded.dictionary, lambda text: _strptime(column, text)).take(encoded.indices)


def _parsed_iso(column: Column, array: pa.Array) -> pa.Array:
    """Every cell by itself: what one cell is read as may not depend on another, or one row could move all votes."""
    easy = pc.match_substring_regex(array, _EASY_ISO)
    wall, rest = only(easy, array).cast(STAMP), only(pc.invert(easy), array)
    zone = _zone_name(column)
    if rest.null_count < len(rest):
        wall = pc.coalesce(wall, by_distinct_text(rest, STAMP, lambda text: _wall_of(text, drop_offset=zone is None)))
    if zone is None:
        return wall
    stamps = _localised(wall, zone).cast(INSTANT)
    return stamps if rest.null_count == len(rest) else pc.coalesce(stamps, by_distinct_text(rest, INSTANT, _instant_of))


def _wall_of(text: str, *, drop_offset: bool) -> datetime.datetime | None:
    read = _fromisoformat(text)
    return None if read is None or (read.tzinfo and not drop_offset) else read.replace(tzinfo=None)


def _instant_of(text: str) -> datetime.datetime | None:
    read = _fromisoformat(text)
    try:
        return read.astimezone(datetime.UTC) if read and read.tzinfo else None
    except OverflowError:
        return None


def _fromisoformat(text: str) -> datetime.datetime | None:
    try:
        read = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    # Python takes an offset of 90 minutes for one and a half hours.
    return None if read.tzinfo and not _TELLS_OFFSET.search(text.strip()) else read


def _strptime(column: Column, text: str) -> datetime.datetime | None:
    try:
        read = datetime.datetime.strptime(text.strip(), column.format)
        return _settled(column, read) if "%z" in tokens(column.format) else read.replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _settled(column: Column, moment: datetime.datetime) -> datetime.datetime:
    """What a text with an offset tells: an instant where the column has a zone, otherwise what it shows."""
    return moment.replace(tzinfo=None) if _zone(column) is None else moment.astimezone(datetime.UTC)


# -- writing ----------------------------------------------------------------------------------------------------------


def written(column: Column, ticks: pa.Array, to: pa.DataType) -> pa.Array:
    """Ticks as dates or timestamps of type `to`, or as text in the column's format."""
    count = counts(ticks) * TICK[column.resolution] - _phase(column)
    if pa.types.is_timestamp(to) and to.unit == "ns":
        count = np.clip(count, -(2**63) // 1000 + 1, 2**63 // 1000)
    stamps = pa.array(count, mask=nulls(ticks)).cast(STAMP)
    if is_text(to) or pa.types.is_dictionary(to):
        return _formatted(column, stamps).cast(to)
    aware = pa.types.is_timestamp(to) and to.tz is not None
    stamps = _aware(column, stamps, to.tz) if aware else _naive(column, stamps)
    return _floored(stamps, to.unit).cast(to) if pa.types.is_timestamp(to) else stamps.cast(to, safe=False)


def _aware(column: Column, stamps: pa.Array, zone: str) -> pa.Array:
    if counts_wall_time(column):
        return _localised(stamps, zone)
    return stamps.cast(INSTANT).cast(pa.timestamp("us", tz=zone))


def _naive(column: Column, stamps: pa.Array) -> pa.Array:
    return stamps if counts_wall_time(column) else _wall(stamps, _zone_name(column))


def _floored(stamps: pa.Array, unit: str) -> pa.Array:
    """Stamps without what `unit` cannot tell, rounded down: Arrow's cast rounds to 1970."""
    factor = _UNITS.get(unit, 1)
    if factor == 1:
        return stamps
    return pa.array(counts(stamps) // factor, mask=nulls(stamps)).cast(pa.timestamp(unit, tz=stamps.type.tz))


def _formatted(column: Column, stamps: pa.Array) -> pa.Array:
    zone = _zone_name(column)
    format = column.format or ISO[column.resolution] + ("%z" if zone and column.resolution != "day" else "")
    stamps = _aware(column, stamps, zone) if tells_zone(format) else _naive(column, stamps)
    return show(tokens(format), stamps, digits=3 if column.resolution == "millisecond" else 6)

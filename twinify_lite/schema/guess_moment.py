"""Dates and times among the texts of a column: a public list of formats, and the resolution that their cells need.

The formats are ISO 8601 (with a space or a T; to the minute, the second or a fraction; with Z, an offset or no zone),
and day.month.year, day/month/year, day-month-year, year/month/day, day-Mon-year, day Mon year and day Month year, alone
or with a time to the minute or the second. With slashes and hyphens the month comes first if three cells more can be
read so: cells that can be read both ways do not decide.

What could as well be a code is a date only where nearly all cells are of its form: 20240131 and 2024-01, in the years
1900 to 2099, and 31.01.24 and 31/1/24, which are in the years 1969 to 2068.

The resolution is the coarsest that nearly all cells allow: times that are all midnight are days. The zone is that of
the offset that nearly all cells have, or else UTC. An ISO column whose cells look different from each other has no
format, so that all of them can be read.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.cells.moments import TICK
from twinify_lite.schema.guess_votes import LEAST, Poll, carries, flags, mostly, nearly_all

#: The formats beside ISO's, with the shape of their cells.
DATES = {
    "%d.%m.%Y": r"\d{1,2}\.\d{1,2}\.\d{4}",
    "%d.%m.%y": r"\d{2}\.\d{2}\.\d{2}",  # while 1.2.10 is a version
    "%d/%m/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%d/%m/%y": r"\d{1,2}/\d{1,2}/\d{2}",
    "%Y/%m/%d": r"\d{4}/\d{1,2}/\d{1,2}",
    "%d-%m-%Y": r"\d{1,2}-\d{1,2}-\d{4}",
    "%d-%b-%Y": r"\d{1,2}-[A-Za-z]{3}-\d{4}",
    "%d %b %Y": r"\d{1,2} [A-Za-z]{3,9} \d{4}",
}
TIMES = {"": "", " %H:%M": r" \d{1,2}:\d{2}", " %H:%M:%S": r" \d{1,2}:\d{2}:\d{2}"}
#: Other formats of the same shape, each taken if it reads more cells than the one before it.
ALTERNATIVES = {
    "%d/%m/%Y": "%m/%d/%Y",
    "%d/%m/%y": "%m/%d/%y",
    "%d-%m-%Y": "%m-%d-%Y",
    "%d %b %Y": "%d %B %Y",
}

# Anything that could be one of these: most columns of text are done with this.
SIEVE = r"^\d{1,4}([-/.]\d{1,2}[-/.]|-[A-Za-z]{3}-| [A-Za-z]{3,9} )\d{1,4}"
YEAR_AND_MONTH = r"^(19|20)\d{2}-(0[1-9]|1[0-2])$"
# Arrow's strptime reads long names by %b, and Python's does not.
_MONTHS = {
    "%b": r"(?i)\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\b",
    "%B": r"(?i)\b(january|february|march|april|may|june|july|august|september|october|november|december)\b",
}
COMPACT = r"^(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"
_HOUR, _SIXTIETH = r"([01]\d|2[0-3])", r"[0-5]\d"
_ZONE = f"(Z|[+-]{_HOUR}(:?{_SIXTIETH})?)"
ISO = rf"^\d{{4}}-\d\d-\d\d([T ]{_HOUR}:{_SIXTIETH}(:{_SIXTIETH}([.,]\d{{1,9}})?)?{_ZONE}?)?$"
ZONED = rf":\d{{2}}([.,]\d+)?{_ZONE}$"
_OFFSETS = {"": "", "Z": "Z", "+02:00": r"[+-]\d\d:\d\d", "+0200": r"[+-]\d\d\d\d", "+02": r"[+-]\d\d"}
# Of which cells a resolution loses nothing, the finest first; each is among those before it.
ALLOWS = {
    "millisecond": rf"^[^.,]*([.,]\d{{1,3}}0*{_ZONE}?)?$",
    "second": rf"^[^.,]*([.,]0+{_ZONE}?)?$",
    "minute": rf"^[^:]*(:\d{{2}}(:00([.,]0+)?)?{_ZONE}?)?$",
    "hour": rf"^[^:]*(:00(:00([.,]0+)?)?{_ZONE}?)?$",
    "day": rf"^[^:]*$|[T ]0?0:00(:00([.,]0+)?)?{_ZONE}?$",
}


class _Look(NamedTuple):
    """One way to write a date or a time of ISO 8601, and the finest resolution that it can show."""

    format: str
    pattern: str
    resolution: str
    offset: str = ""


def _looks() -> Iterator[_Look]:
    yield _Look("%Y-%m-%d", "^.{10}$", "day")
    clocks = (
        ("%H:%M", r"\d\d:\d\d", "minute"),
        ("%H:%M:%S", r"\d\d:\d\d:\d\d", "second"),
        ("%H:%M:%S.%f", r"\d\d:\d\d:\d\d\.\d{1,3}", "millisecond"),
        ("%H:%M:%S.%f", r"\d\d:\d\d:\d\d\.\d{4,9}", "microsecond"),
    )
    for (offset, shape), (clock, time, resolution), between in itertools.product(_OFFSETS.items(), clocks, " T"):
        yield _Look(f"%Y-%m-%d{between}{clock}", f"^.{{10}}{between}{time}{shape}$", resolution, offset)


LOOKS = tuple(_looks())


def guess_moment(poll: Poll) -> dict[str, Any] | None:
    """What the cells say of a datetime column, or None if they are not dates or times."""
    if not carries(poll, poll.matching(SIEVE)):
        return _guess_month(poll)
    return _guess_iso(poll) or _guess_other(poll)


def is_compact_date(poll: Poll) -> bool:
    """Whether nearly all cells, but for the text that is set aside, are of the form 20240131."""
    return carries(poll, _of_form(poll, 8, COMPACT), enough=nearly_all)


def _guess_month(poll: Poll) -> dict[str, Any] | None:
    months = _of_form(poll, 7, YEAR_AND_MONTH)
    if not carries(poll, months, enough=nearly_all):
        return None
    found = poll.where(months)
    if nearly_all(found.votes(is_school_year(found.texts)), found.size):
        return None
    return {"kind": "datetime", "format": "%Y-%m"}


def is_school_year(months: pa.Array) -> np.ndarray:
    """Which texts like 2003-04 and 2007-08 are more probably school years than months."""
    year, month = (pc.utf8_slice_codeunits(months, *ends).cast(pa.int8()).to_numpy() for ends in ((2, 4), (5, 7)))
    return month == (year + 1) % 100


def _of_form(poll: Poll, length: int, pattern: str) -> np.ndarray:
    """Which texts match a pattern, all of whose matches have this length: most texts are done with it."""
    found = flags(pc.equal(pc.binary_length(poll.texts), length))
    found[found] = poll.where(found).matching(pattern)
    return found


def guess_timestamp(array: pa.ChunkedArray | pa.Array) -> dict[str, Any]:
    """What the type and the cells of a timestamp column say of it; days and hours are those of its zone."""
    return moment_of_timestamps(array.type, np.bincount(coarsest_of(array.drop_null()), minlength=len(TICK)))


def coarsest_of(timestamps: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """The place in `TICK` of the coarsest resolution that loses nothing of each time; the last one's if all do."""
    unit, zone = timestamps.type.unit, timestamps.type.tz
    wall = timestamps if zone is None else pc.local_timestamp(timestamps)
    values = wall.cast(pa.int64()).to_numpy()
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ticks = [max(1, tick * per_second // 10**6) for tick in TICK.values()]
    found = np.full(len(values), len(ticks) - 1)
    for place in reversed(range(len(ticks) - 1)):
        found[values % ticks[place] == 0] = place
    return found


def moment_of_timestamps(arrow: pa.DataType, counts: np.ndarray) -> dict[str, Any]:
    """The same of so many cells of each of the resolutions of `TICK`."""
    finest = {"s": "second", "ms": "millisecond"}.get(arrow.unit, "microsecond")
    cells = int(counts.sum())
    enough = (name for name, votes in zip(TICK, np.cumsum(counts), strict=True) if nearly_all(int(votes), cells))
    resolution = next(enough, finest) if cells >= LEAST else finest
    return {"kind": "datetime", "resolution": resolution, "zone": arrow.tz}


def _guess_iso(poll: Poll) -> dict[str, Any] | None:
    iso = poll.matching(ISO)
    iso &= parses(pc.utf8_slice_codeunits(poll.texts, 0, 10), "%Y-%m-%d")
    if not carries(poll, iso):
        return None
    moments = poll.where(iso)
    look = _common_look(moments)
    if look is None:
        zone = "UTC" if 2 * moments.votes(moments.matching(ZONED)) > moments.size else None
        coarsest = "minute" if zone else "day"
        return {"kind": "datetime", "resolution": _resolution(moments, "microsecond", coarsest), "zone": zone}
    offset = _common_offset(moments.where(moments.matching(look.pattern)), look)
    coarsest = "minute" if offset is None else look.resolution if "%f" in look.format else "day"
    resolution = _resolution(moments, look.resolution, coarsest)
    return {
        "kind": "datetime",
        "resolution": resolution,
        "format": _format(look, resolution, offset),
        "zone": _zone(offset),
    }


def _common_look(moments: Poll) -> _Look | None:
    """The look of nearly all cells, if there is one."""
    look = moments.majority({look: look.pattern for look in LOOKS})
    return look if look and nearly_all(moments.votes(moments.matching(look.pattern)), moments.size) else None


def _common_offset(moments: Poll, look: _Look) -> str | None:
    """The offset of nearly all cells as they write it, "" if they have no zone, None if they differ."""
    if look.offset in ("", "Z"):
        return look.offset
    ends = pc.utf8_slice_codeunits(moments.texts, -len(look.offset))
    offset, votes = Poll(ends, moments.cells).most_frequent()
    return offset if nearly_all(votes, moments.size) else None


def _zone(offset: str | None) -> str | None:
    """The name of the zone for an offset such as +0200."""
    if offset == "":
        return None
    digits = re.sub(r"\D", "", offset or "").ljust(4, "0")
    return f"{offset[0]}{digits[:2]}:{digits[2:]}" if offset and int(digits) else "UTC"


def _format(look: _Look, resolution: str, offset: str | None) -> str | None:
    """The format to declare, None where Arrow writes a time so by itself."""
    arrows_own = " " in look.format and "%S" in look.format and (look.offset in ("", "Z") or offset is None)
    if look.format == "%Y-%m-%d" or (arrows_own and resolution != "day"):
        return None
    # %z is written as +0200, so that any other offset must stand in the format itself, and be that of all cells.
    return look.format + ("%z" if offset is None or look.offset == "+0200" else offset)


def _resolution(moments: Poll, finest: str, coarsest: str) -> str:
    """The coarsest resolution that nearly all cells allow, from `finest`, which all allow, to `coarsest`."""
    names = ["microsecond", *ALLOWS]
    found = finest
    for name in names[names.index(finest) + 1 : names.index(coarsest) + 1]:
        if not nearly_all(moments.votes(moments.matching(ALLOWS[name])), moments.size):
            break
        found = name
    return found


def _guess_other(poll: Poll) -> dict[str, Any] | None:
    shapes = {date: rf"^{shape}( \d{{1,2}}:\d{{2}}(:\d{{2}})?)?$" for date, shape in DATES.items()}
    likely = poll.where(poll.matching(SIEVE))
    date = likely.majority(shapes)
    if date is None:
        return None
    time = likely.majority({time: f"^{DATES[date]}{clock}$" for time, clock in TIMES.items()})
    return None if time is None else _read_so(poll, date, time)


def _read_so(poll: Poll, date: str, time: str) -> dict[str, Any] | None:
    """This format, or its alternative if that reads more cells, if enough of them can be read so."""
    read = parses(poll.texts, date + time)
    if date in ALTERNATIVES:
        otherwise = parses(poll.texts, ALTERNATIVES[date] + time)
        if poll.votes(otherwise) >= poll.votes(read) + LEAST:
            date, read = ALTERNATIVES[date], otherwise
    if not carries(poll, read, enough=nearly_all if "%y" in date else mostly):
        return None
    resolution = _resolution(poll.where(read), "second", "day")
    return {"kind": "datetime", "format": date + time, "resolution": resolution}


def parses(texts: pa.Array, format: str) -> np.ndarray:
    """Which texts can be read in a format."""
    read = flags(pc.strptime(texts, format=format, unit="s", error_is_null=True).is_valid())
    for directive, names in _MONTHS.items():
        if directive in format:
            read = read & flags(pc.match_substring_regex(texts, names))
    return read

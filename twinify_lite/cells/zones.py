"""Wall time in a zone and instants, by Python's zoneinfo.

Not by Arrow, which knows no summer time after 2037 (https://github.com/apache/arrow/issues/36110), nor any where the
system's zone files are slim (https://github.com/apache/arrow/issues/42157).
"""

from __future__ import annotations

import datetime
import functools
import zoneinfo

import numpy as np

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND = datetime.timedelta(seconds=1)
_MICRO = 1_000_000
#: Before, all zones have local mean time; after, each keeps its last offset.
_YEARS = (1840, 2500)
_WEEK = 7 * 86_400


def zone_of(name: str) -> datetime.tzinfo:
    """The zone of an IANA name or of an offset such as +02:00; UTC for what is neither."""
    if name[0] in "+-":
        return datetime.datetime.strptime(name, "%z").tzinfo
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return datetime.UTC


def local(instants: np.ndarray, name: str) -> np.ndarray:
    """The wall time at each instant, both in microseconds."""
    changes, offsets = _changes(name)
    return instants + offsets[np.searchsorted(changes, instants, side="right")]


def instants(wall: np.ndarray, name: str) -> np.ndarray:
    """The instant of each wall time: the first where there are two, and that of the change where there is none."""
    changes, offsets = _changes(name)
    span = np.searchsorted(changes + offsets[:-1], wall, side="right")
    # So that the midnight that a spring's change skips stays in its day.
    return np.maximum(wall - offsets[span], np.append(np.iinfo(np.int64).min, changes)[span])


@functools.lru_cache(maxsize=64)
def _changes(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The instants at which the zone changes its offset, and the offsets before, between and after them."""
    zone = zone_of(name)
    first, last = ((datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) - _EPOCH) // _SECOND for year in _YEARS)
    weeks = range(first, last, _WEEK)
    seen = [_offset(zone, second) for second in weeks]
    changes = [_change(zone, weeks[i], weeks[i + 1]) for i in range(len(weeks) - 1) if seen[i] != seen[i + 1]]
    offsets = [seen[0], *(_offset(zone, second) for second in changes)]
    return np.array(changes, np.int64) * _MICRO, np.array(offsets, np.int64) * _MICRO


def _offset(zone: datetime.tzinfo, second: int) -> int:
    return (_EPOCH + second * _SECOND).astimezone(zone).utcoffset() // _SECOND


def _change(zone: datetime.tzinfo, before: int, after: int) -> int:
    """The first second with another offset than `before`."""
    old = _offset(zone, before)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (middle, after) if _offset(zone, middle) == old else (before, middle)
    return after

"""Texts in a format such as %d.%m.%Y %H:%M as Arrow's timestamps, and back: exact inverses of each other, and fast.

Arrow's strptime reads 30 February as 1 March and knows no %f; its strftime takes microseconds a cell. So a text counts
as read if it is what would be written, and what is written is put together from its distinct days and times of day.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.cells.parsing import by_distinct_text, only
from twinify_lite.cells.zones import local

STAMP = pa.timestamp("us")
INSTANT = pa.timestamp("us", tz="UTC")
_DAY = 86_400_000_000
#: Directives that Arrow's strptime does not know or reads as it likes: how they look, and how long they may be.
_TAILS = {
    "%f": ("^[0-9]+$", (6, 3, 5, 4, 2, 1)),
    "%z": ("^(?:Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])$", (5, 6, 1)),
    "%Z": ("^(?:[A-Za-z]+|[+-][0-9]+)$", (3, 4, 2, 5, 1)),
}
_CLOCK = {"%H", "%M", "%S", "%I", "%p"}


def tokens(format: str) -> tuple[str, ...]:
    """The directives and the characters between them, so that the f of %%f is none."""
    return tuple(re.findall("%.|[^%]", format, re.DOTALL))


def tells_zone(format: str) -> bool:
    """Whether texts in this format have an offset or the name of a zone in them."""
    return not {"%z", "%Z"}.isdisjoint(tokens(format))


def counts(stamps: pa.Array) -> np.ndarray:
    """Timestamps as the number of their units since 1970, 0 where null."""
    return stamps.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def nulls(array: pa.Array) -> np.ndarray:
    """Which cells are null."""
    return array.is_null().to_numpy(zero_copy_only=False)


# -- reading ----------------------------------------------------------------------------------------------------------


def parse(format: str, array: pa.Array, one: Callable[[str], datetime.datetime | None]) -> pa.Array:
    """Texts in `format`: instants if it has %z, otherwise wall time. What is written oddly is left to `one`."""
    parts = tokens(format)
    stamps = _parse(parts, array)
    rest = only(stamps.is_null(), array)
    if rest.null_count < len(rest) and "%f" not in parts:  # 1/2/2024; but the 5 of 10:00:00.5 must not become 05
        stamps = pc.coalesce(stamps, _parse(parts, pc.replace_substring_regex(rest, r"\b([0-9])\b", r"0\1")))
        rest = only(stamps.is_null(), array)
    if rest.null_count == len(rest):
        return stamps
    return pc.coalesce(stamps, by_distinct_text(rest, stamps.type, one))


def _parse(parts: tuple[str, ...], array: pa.Array) -> pa.Array:
    """Null where a text is not exactly what would be written for the time that it tells."""
    if parts and parts[-1] in _TAILS:
        return _parse_tail(parts, array)
    if not {*_TAILS, "%y"}.isdisjoint(parts):  # the century of %y differs between systems
        return pa.nulls(len(array), _type(parts))
    stamps = pc.strptime(array, format="".join(parts), unit="us", error_is_null=True)
    return only(pc.equal(show(parts, stamps), array), stamps)


def _parse_tail(parts: tuple[str, ...], array: pa.Array) -> pa.Array:
    """Without their last directive, which is then added by hand."""
    pattern, widths = _TAILS[parts[-1]]
    stamps, rest = pa.nulls(len(array), _type(parts)), array
    for width in widths:
        if rest.null_count == len(rest):
            break
        tail = pc.utf8_slice_codeunits(rest, -width)
        fits = pc.match_substring_regex(tail, pattern)
        head = _parse(parts[:-1], only(fits, pc.utf8_slice_codeunits(rest, 0, -width)))
        stamps = pc.coalesce(stamps, _ADD[parts[-1]](head, only(fits, tail)))
        rest = only(stamps.is_null(), array)
    return stamps


def _type(parts: tuple[str, ...]) -> pa.DataType:
    return INSTANT if "%z" in parts else STAMP


def _add_fraction(stamps: pa.Array, digits: pa.Array) -> pa.Array:
    return pc.add(stamps, pc.utf8_rpad(digits, 6, "0").cast(pa.int64()).cast(pa.duration("us")))


def _subtract_offset(stamps: pa.Array, offsets: pa.Array) -> pa.Array:
    return pc.subtract(stamps, by_distinct_text(offsets, pa.duration("us"), _offset)).cast(INSTANT)


def _offset(text: str) -> datetime.timedelta:
    if text == "Z":
        return datetime.timedelta()
    span = datetime.timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return -span if text[0] == "-" else span


_ADD = {"%f": _add_fraction, "%z": _subtract_offset, "%Z": lambda stamps, _: stamps}


# -- writing ----------------------------------------------------------------------------------------------------------


def show(parts: tuple[str, ...], stamps: pa.Array, *, digits: int = 6) -> pa.Array:
    """Timestamps as text: wall time as it is, instants in their zone. `digits` are those of %f."""
    count, minutes = _local(stamps)
    write = {
        "day": lambda format: _by_distinct(count // _DAY * 86_400, lambda day: _strftime(day, format)),
        "clock": lambda format: _by_distinct(count % _DAY // 1_000_000, lambda time: _strftime(time, format)),
        "%f": lambda _: _fraction(count % 1_000_000, digits),
        "%z": lambda _: _by_distinct(minutes, _offsets),
        "%Z": lambda _: pc.strftime(stamps, format="%Z"),
    }
    runs = itertools.groupby(_kinds(parts), key=lambda pair: pair[0])
    texts = [write[kind]("".join(part for _, part in run)) for kind, run in runs]
    return only(stamps.is_valid(), pc.binary_join_element_wise(*texts, ""))


def _kinds(parts: tuple[str, ...]) -> list[tuple[str, str]]:
    """Every part with what it depends on: the day, the clock, or more. What lies between directives goes with them."""
    kinds, kind = [], "day"
    for part in parts:
        if len(part) == 2 and part != "%%":
            kind = part if part in _TAILS else "clock" if part in _CLOCK else "day"
        elif kind in _TAILS:
            kind = "day"
        kinds.append((kind, part))
    return kinds


def _by_distinct(number: np.ndarray, show: Callable[[pa.Array], pa.Array]) -> pa.Array:
    encoded = pa.array(number).dictionary_encode()
    return show(encoded.dictionary).take(encoded.indices)


def _strftime(seconds: pa.Array, format: str) -> pa.Array:
    return pc.strftime(seconds.cast(pa.timestamp("s")), format=format)


def _local(stamps: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Wall time and its offset in minutes. The seconds that local mean time has too are left out, as %z leaves them."""
    count = counts(stamps)
    if stamps.type.tz is None:
        return count, np.zeros(len(count), np.int64)
    minutes = np.trunc((local(count, stamps.type.tz) - count) / 60_000_000).astype(np.int64)
    return count + minutes * 60_000_000, minutes


def _offsets(minutes: pa.Array) -> pa.Array:
    return pa.array([f"{'-' if m < 0 else '+'}{abs(m) // 60:02d}{abs(m) % 60:02d}" for m in minutes.to_pylist()])


def _fraction(microseconds: np.ndarray, digits: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(microseconds // 10 ** (6 - digits)).cast(pa.string()), digits, "0")

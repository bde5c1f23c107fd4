"""What a cell of text looks like: one of a public list of forms, so that noisy counts of forms can tell a kind.

    cell -> its form -> noisy counts of forms -> the rules of `guess`, on an example of each form

A form is all that the rules ask of a cell: how many decimals it has, in which formats of dates it can be read, and so
on. Forms are made from examples: two texts are of one form where the same marks are found in them. So whatever the
rules say of many cells they also say of as many copies of their forms' examples. Texts that are no number, no truth
value and no date are of one of a few forms, by their checksum: enough to see whether one word prevails.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.cells.parsing import pointed
from twinify_lite.schema import guess_moment
from twinify_lite.schema.guess import BOOLEANS, DECIMALS, PLAIN, SCIENTIFIC, decimals_of_texts
from twinify_lite.schema.guess_votes import Poll, flags

#: Words for which a column of numbers or dates often has cells.
_WORDS = ("N", "NA", "N/A", "n/a", "na", "nan", "NaN", "null", "NULL", "None", "none", "unknown", "Unknown", "?", "-")
# Of all other texts, a form for each share of the checksums.
_OTHERS = 4
# Whole hours, and the zones that are none.
_HOURS = range(-12, 15)
_BETWEEN = ("-0930", "-0330", "+0330", "+0430", "+0530", "+0545", "+0630", "+0845", "+0930", "+1030", "+1245")
_CLOCKS = {
    "%H:%M": ("10:11", "10:00", "00:00"),
    "%H:%M:%S": ("10:11:12", "10:11:00", "10:00:00", "00:00:00"),
}
_FRACTIONS = ("123", "120000", "123000", "123456", "000", "000000")
# The year, the month and the day decide nothing but in which order they can be read.
_DAYS = {
    "%d.%m.%Y": ("31.01.2024",),
    "%d.%m.%y": ("31.01.24",),
    "%d/%m/%Y": ("31/01/2024", "01/31/2024", "01/02/2024"),
    "%d/%m/%y": ("31/01/24", "01/31/24", "01/02/24"),
    "%Y/%m/%d": ("2024/01/31",),
    "%d-%m-%Y": ("31-01-2024", "01-31-2024", "01-02-2024"),
    "%d-%b-%Y": ("31-Jan-2024",),
    "%d %b %Y": ("31 Jan 2024", "31 January 2024", "31 May 2024"),
}


class Forms(NamedTuple):
    """The forms of all cells of a type: an example of each, and the family that it belongs to.

    Where noise hides which form of a family the cells have, it may still show the family.
    """

    examples: pa.Array
    families: np.ndarray


def forms_of(texts: pa.Array, decimal: str) -> np.ndarray:
    """The form of each text, as its place in `text_forms`.

    Formal guarantee: the form of a cell depends on that cell and on public things alone.
    """
    marks = _marks(texts, decimal)
    known = _distinct()[1]
    at = np.minimum(np.searchsorted(known, marks), len(known) - 1)
    forms = np.where(known[at] == marks, at, -1)
    other = forms < 0
    forms[other] = len(known) + np.array([_share(text) for text in texts.filter(pa.array(other)).to_pylist()], np.int64)
    return forms


@functools.cache
def text_forms() -> Forms:
    """The forms of texts."""
    examples, marks = _distinct()
    others = [next(text for text in map("~{}".format, itertools.count()) if _share(text) == n) for n in range(_OTHERS)]
    return Forms(pa.array([*examples.to_pylist(), *others]), np.append(marks // _FAMILY, [_OTHER] * _OTHERS))


# -- marks: whatever the rules ask of a cell, as one number ------------------------------------------------------------

# A family is a range of marks; 0 is for texts that have none. Times with an offset are of very many forms, as an offset
# is part of a format, and rare.
_FAMILY = 10**7
_NUMBER, _BOOLEAN, _WORD, _ISO, ABROAD, _DATE, _MONTH, _OTHER = range(1, 9)


def _marks(texts: pa.Array, decimal: str) -> np.ndarray:
    marks = np.zeros(len(texts), np.int64)
    for find in (partial(_number_marks, decimal=decimal), _word_marks, _iso_marks, _date_marks, _month_marks):
        left = marks == 0
        if left.any():
            marks[left] = find(texts.filter(pa.array(left)))
    return marks


def _number_marks(texts: pa.Array, *, decimal: str) -> np.ndarray:
    texts = pointed(texts, decimal)
    plain, scientific = (_matches(texts, pattern) for pattern in (PLAIN, SCIENTIFIC))
    numeric = plain | scientific
    found = np.zeros(len(texts), np.int64)
    numbers = texts.filter(pa.array(numeric))
    decimals = np.minimum(decimals_of_texts(numbers, ~plain[numeric]), DECIMALS + 1)
    zeros = _matches(numbers, r"^0\d")
    dates = _matches(numbers, guess_moment.COMPACT)
    found[numeric] = _NUMBER * _FAMILY + decimals + 10 * zeros + 20 * dates
    return found


def _word_marks(texts: pa.Array) -> np.ndarray:
    truths = pc.index_in(texts, pa.array(itertools.chain(*BOOLEANS)))
    words = pc.index_in(texts, pa.array(_WORDS))
    marks = pc.if_else(truths.is_valid(), pc.add(truths, _BOOLEAN * _FAMILY), pc.add(words, _WORD * _FAMILY))
    return pc.fill_null(marks.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)


def _iso_marks(texts: pa.Array) -> np.ndarray:
    iso = _matches(texts, guess_moment.ISO)
    iso &= guess_moment.parses(pc.utf8_slice_codeunits(texts, 0, 10), "%Y-%m-%d")
    found = np.zeros(len(texts), np.int64)
    moments = Poll.of_each(texts.filter(pa.array(iso)))
    look, offset = np.zeros(moments.size, np.int64), np.zeros(moments.size, np.int64)
    for number, one in enumerate(guess_moment.LOOKS, start=1):
        left = look == 0
        hits = np.flatnonzero(left)[_matches(moments.texts.filter(pa.array(left)), one.pattern)]
        look[hits] = number
        if one.offset not in ("", "Z"):
            offset[hits] = _offsets(moments.texts.take(pa.array(hits)))
    zoned = np.where(offset == 0, _matches(moments.texts, guess_moment.ZONED), 0)
    marks = _coarseness(moments) + 10 * zoned + 20 * look + 2_000 * offset
    found[iso] = np.where(offset > 0, ABROAD, _ISO) * _FAMILY + marks
    return found


def _offsets(texts: pa.Array) -> np.ndarray:
    """Numbers for the offsets of zones at the end of texts: 15 minutes apart from -24 hours on, from 1 on."""
    parts = pc.extract_regex(texts, r"(?P<sign>[+-])(?P<hour>\d\d):?(?P<minute>\d\d)?$")
    hour, minute = (pc.struct_field(parts, name) for name in ("hour", "minute"))
    minute = pc.if_else(pc.equal(minute, ""), "0", minute)
    passed = 60 * hour.cast(pa.int64()).to_numpy() + minute.cast(pa.int64()).to_numpy()
    sign = np.where(flags(pc.equal(pc.struct_field(parts, "sign"), "-")), -1, 1)
    return (24 * 60 + sign * passed) // 15 + 1


def _coarseness(moments: Poll) -> np.ndarray:
    """How many resolutions each time allows, the finest first."""
    allowed = np.ones(moments.size, bool)
    count = np.zeros(moments.size, np.int64)
    for pattern in guess_moment.ALLOWS.values():
        allowed &= moments.matching(pattern)
        count += allowed
    return count


def _date_marks(texts: pa.Array) -> np.ndarray:
    found = np.zeros(len(texts), np.int64)
    likely = np.flatnonzero(_matches(texts, guess_moment.SIEVE))
    dates = itertools.product(enumerate(guess_moment.DATES.items()), enumerate(guess_moment.TIMES.items()))
    for (i, (date, shape)), (j, (time, clock)) in dates:
        hits = likely[_matches(texts.take(pa.array(likely)), f"^{shape}{clock}$")]
        some = texts.take(pa.array(hits))
        other = guess_moment.ALTERNATIVES.get(date, date)
        read, otherwise = guess_moment.parses(some, date + time), guess_moment.parses(some, other + time)
        marks = _coarseness(Poll.of_each(some)) + 10 * read + 20 * otherwise + 100 * (3 * i + j)
        found[hits] = np.where(read | otherwise, _DATE * _FAMILY + marks, 0)
    return found


def _month_marks(texts: pa.Array) -> np.ndarray:
    months = _matches(texts, guess_moment.YEAR_AND_MONTH)
    found = np.zeros(len(texts), np.int64)
    found[months] = _MONTH * _FAMILY + guess_moment.is_school_year(texts.filter(pa.array(months)))
    return found


def _matches(texts: pa.Array, pattern: str) -> np.ndarray:
    return flags(pc.match_substring_regex(texts, pattern))


# -- examples ----------------------------------------------------------------------------------------------------------


@functools.cache
def _distinct() -> tuple[pa.Array, np.ndarray]:
    """One example for each mark, and the marks."""
    examples = pa.array(dict.fromkeys(_examples()))
    marks, first = np.unique(_marks(examples, "."), return_index=True)
    return examples.take(pa.array(first)), marks


def _examples() -> Iterator[str]:
    yield from ("7", "007", "00.5", "20240131", "1e5")
    yield from (f"0.{'1234567'[:decimals]}" for decimals in range(1, DECIMALS + 2))
    yield from itertools.chain(*BOOLEANS, _WORDS)
    yield from _iso_examples()
    for date, time in itertools.product(guess_moment.DATES, guess_moment.TIMES):
        clocks = _CLOCKS.get(time.strip(), ("",))
        yield from (f"{day} {clock}".rstrip() for day in _DAYS[date] for clock in clocks)
    yield from ("2024-01", "2003-04")


def _iso_examples() -> Iterator[str]:
    yield "2024-01-31"
    seconds = _CLOCKS["%H:%M:%S"]
    fractions = [f"{clock}{point}{part}" for clock in seconds for point in ".," for part in _FRACTIONS]
    for between, clock in itertools.product(" T", (*_CLOCKS["%H:%M"], *seconds, *fractions)):
        yield from (f"2024-01-31{between}{clock}{offset}" for offset in _zones())


@functools.cache
def _zones() -> tuple[str, ...]:
    minutes = [*(f"{hour:+03d}00" for hour in _HOURS), *_BETWEEN]
    return "", "Z", *minutes, *(f"{one[:3]}:{one[3:]}" for one in minutes), *(f"{hour:+03d}" for hour in _HOURS)


def _share(text: str) -> int:
    return zlib.crc32(text.encode()) % _OTHERS

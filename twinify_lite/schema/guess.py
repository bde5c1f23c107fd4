"""The kind of a column, guessed from its type or, where it is text, from a vote of its cells.

Formal guarantee: no single row can flip a guess. Cells vote, every rule compares counts of votes, and one row moves a
count by one at most. So where the rules are met or missed by more than the one row that is added, taken away or
replaced, the guessed `Column` stays equal in all of its keys. From five rows on, this is so whenever all cells but that
one are clear: when they agree on the kind, the decimals and the format. It is robustness, not differential privacy: in
a table that is just at a threshold, a row counts.

The rules, for the present cells of a text column:

1.  A kind needs at least three votes, and a hundredth of the cells. The most frequent text that is of another kind is
    set aside ("N", "NA", "?"); of the remaining cells, three quarters must be of the kind.
2.  Numbers are codes (a category) if three of them, and a fiftieth, or most, have a superfluous leading zero; where
    nearly all have the same number of digits, three suffice. They are integers if nearly all are whole ("5", "5.0",
    "1e+05"), but dates if nearly all are of the form 20240131; otherwise they have as many decimals as nearly all of
    them need, or any (`decimals=None`) where that is more than `DECIMALS`.
3.  A boolean column has true and false in nearly all cells, in the commonest of three spellings.
4.  A datetime has one of the formats of `guess_moment`.
5.  Everything else, also a column without cells, is a category.

"Nearly all" is 19 of 20, or all but one of at least four.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.cells import dtype_of
from twinify_lite.cells.parsing import is_text, plain, pointed, texts
from twinify_lite.schema import Column
from twinify_lite.schema.guess_moment import guess_moment, guess_timestamp, is_compact_date
from twinify_lite.schema.guess_votes import LEAST, Poll, carries, flags, mostly, nearly_all

#: More decimals than these are not a look but the precision of a float.
DECIMALS = 6
#: Of at most 18 digits, which fit into 64 bits: longer ones are codes. Exponents from 300 on overflow.
PLAIN = r"^\s*[-+]?(\d{1,18}(\.\d*)?|\.\d+)\s*$"
SCIENTIFIC = r"^\s*[-+]?(\d{1,18}(\.\d*)?|\.\d+)[eE][-+]?[012]?\d?\d\s*$"
# The commas of 1,234 and 1,234,567, which are no decimal commas.
_THOUSANDS = r"^\s*[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*$"
_ENDLESS = 99
BOOLEANS = (("false", "true"), ("False", "True"), ("FALSE", "TRUE"))
_CATEGORY = {"kind": "category"}


def guess(name: str, array: pa.ChunkedArray | pa.Array, *, decimal: str = ".") -> Column:
    """The column `name` as its type and cells suggest: kind, type, decimals and format, but no range, level or value.

    Promises that no single row can flip the result, in the sense of this module's first paragraph.
    """
    for is_type, guess_typed in _TYPES:
        if is_type(array.type):
            return Column(name=name, dtype=type_name(array.type), **guess_typed(array))
    # What is neither text nor among the types (times of the day) has no kind of its own.
    return Column(name=name, **(_guess_text(array, decimal) if is_text(array.type) else _CATEGORY))


def type_name(arrow: pa.DataType) -> str | None:
    """The `dtype` of a column of this type; None for text, and for types that a schema does not know."""
    return dtype_of(arrow) if any(is_type(arrow) for is_type, _ in _TYPES) else None


def looks_at_cells(arrow: pa.DataType) -> bool:
    """Whether the guess for a column of this type depends on its cells, and not on the type alone."""
    return is_text(arrow) or pa.types.is_floating(arrow) or pa.types.is_timestamp(arrow)


def _guess_text(array: pa.ChunkedArray | pa.Array, decimal: str) -> dict[str, Any]:
    return guess_text(Poll.of(texts(array)), decimal)


def guess_text(poll: Poll, decimal: str) -> dict[str, Any]:
    """What the texts of a column say of it."""
    return _guess_number(poll, decimal) or _guess_boolean(poll) or guess_moment(poll) or _CATEGORY


def _guess_float(array: pa.ChunkedArray | pa.Array) -> dict[str, Any]:
    """Number; or integer where nearly all cells are whole, as pandas stores integers with missing cells so."""
    return number_of_floats(np.bincount(decimals_of_floats(plain(array).drop_null()), minlength=DECIMALS + 2))


def decimals_of_floats(floats: pa.Array) -> np.ndarray:
    """How many decimals each number needs; `DECIMALS` + 1 if more than those."""
    values = floats.to_numpy(zero_copy_only=False)
    found = np.full(len(values), DECIMALS + 1)
    left = np.arange(len(values))
    for decimals in range(DECIMALS + 1):
        some = values[left]
        with np.errstate(over="ignore", invalid="ignore"):  # the largest numbers are whole
            same = np.round(some.astype(np.float64), decimals).astype(values.dtype) == some
        found[left[same]] = decimals
        left = left[~same]
    return found


def number_of_floats(counts: np.ndarray) -> dict[str, Any]:
    """What so many floats with each number of decimals say of their column."""
    cells = int(counts.sum())
    if cells < LEAST:
        return {"kind": "number"}
    for decimals, votes in enumerate(np.cumsum(counts)[: DECIMALS + 1].tolist()):
        if nearly_all(votes, cells):
            return {"kind": "number", "decimals": decimals} if decimals else {"kind": "integer"}
    return {"kind": "number"}


def _guess_decimal(array: pa.ChunkedArray | pa.Array) -> dict[str, Any]:
    scale = array.type.scale
    return {"kind": "number", "decimals": min(scale, 15)} if scale > 0 else {"kind": "integer"}


#: From Arrow's types to what they say of a column. Text is not among them.
_TYPES = (
    (pa.types.is_dictionary, lambda _array: _CATEGORY),
    (pa.types.is_boolean, lambda _array: {"kind": "boolean"}),
    (pa.types.is_integer, lambda _array: {"kind": "integer"}),
    (pa.types.is_floating, _guess_float),
    (pa.types.is_decimal, _guess_decimal),
    (pa.types.is_date, lambda _array: {"kind": "datetime"}),
    (pa.types.is_timestamp, guess_timestamp),
)


def _guess_number(poll: Poll, decimal: str) -> dict[str, Any] | None:
    read = Poll(pointed(poll.texts, decimal), poll.cells)
    scientific = ~read.matching(PLAIN)
    numeric = ~scientific
    scientific[scientific] = read.where(scientific).matching(SCIENTIFIC)
    numeric |= scientific
    if not carries(poll, numeric):
        return None
    numbers = read.where(numeric)
    if _are_codes(numbers):
        return _CATEGORY
    decimals = decimals_of_texts(numbers.texts, scientific[numeric])
    if nearly_all(numbers.votes(decimals == 0), numbers.size):
        return {"kind": "datetime", "format": "%Y%m%d"} if is_compact_date(poll) else {"kind": "integer"}
    common = (most for most in range(1, DECIMALS + 1) if nearly_all(numbers.votes(decimals <= most), numbers.size))
    return {"kind": "number", "decimals": next(common, None)}


def has_decimal_commas(column: Column, array: pa.ChunkedArray | pa.Array) -> bool:
    """Whether the cells of `column`, as guessed with decimal points, look like numbers with decimal commas instead."""
    if not is_text(array.type) or (pc.sum(pc.match_substring(array, ",")).as_py() or 0) < LEAST:
        return False
    poll = Poll.of(texts(array))
    commas = poll.where(flags(pc.match_substring(poll.texts, ",")))
    if mostly(commas.votes(commas.matching(_THOUSANDS)), commas.size):
        return False
    kind = (_guess_number(poll, ",") or _CATEGORY)["kind"]
    return kind in ("number", "integer") and kind != column.kind


def _are_codes(numbers: Poll) -> bool:
    """Whether a notable share has a superfluous leading zero: codes, phone numbers, zip codes."""
    zeros = numbers.where(flags(pc.starts_with(numbers.texts, "0")))
    codes, size = zeros.votes(zeros.matching(r"^0\d")), numbers.size
    return 2 * codes > size or (codes >= LEAST and (50 * codes > size or _are_padded(numbers)))


def _are_padded(numbers: Poll) -> bool:
    """Whether nearly all have as many digits, and some have zeros in front for it, more than have fewer digits."""
    width = pc.binary_length(numbers.texts).to_numpy(zero_copy_only=False)
    whole = numbers.matching(r"^\d+$")
    common = np.bincount(width[whole], weights=numbers.cells[whole], minlength=1).argmax()
    same = whole & (width == common)
    if not nearly_all(numbers.votes(same), numbers.size):
        return False
    alike = numbers.where(same)
    padded = alike.votes(alike.matching("^0+[1-9]"))  # while 0000 may stand for a missing year
    return padded >= LEAST and padded > numbers.votes(whole & (width < common))


def decimals_of_texts(numbers: pa.Array, scientific: np.ndarray) -> np.ndarray:
    """The decimals of each number as it is written; 0 if they are zeros, `_ENDLESS` with a negative exponent."""
    trimmed = pc.ascii_trim_whitespace(numbers)
    point = pc.find_substring(trimmed, ".").to_numpy(zero_copy_only=False)
    decimals = np.where(point < 0, 0, pc.binary_length(trimmed).to_numpy(zero_copy_only=False) - point - 1)
    # Regular expressions are slow beside what is above, so that they see only the cells that need them.
    zero = flags(pc.ends_with(trimmed, "0"))
    decimals[zero] = np.where(_match(trimmed, zero, r"\.0+$"), 0, decimals[zero])
    decimals[scientific] = np.where(_match(trimmed, scientific, "[eE]-"), _ENDLESS, 0)
    return decimals


def _match(texts: pa.Array, where: np.ndarray, pattern: str) -> np.ndarray:
    return flags(pc.match_substring_regex(texts.filter(pa.array(where)), pattern))


def _guess_boolean(poll: Poll) -> dict[str, Any] | None:
    votes = [poll.votes(flags(pc.is_in(poll.texts, pa.array(spelling)))) for spelling in BOOLEANS]
    if sum(votes) < LEAST or not nearly_all(sum(votes), poll.size):
        return None
    return {"kind": "boolean", "levels": BOOLEANS[int(np.argmax(votes))]}

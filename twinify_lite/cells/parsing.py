"""Arrow arrays of any look as plain texts, numbers and whole numbers: null wherever a cell is none.

Arrow's own error messages quote cells. So no error is ever raised while one of them is being handled: `attempt`
swallows it whole, and what Arrow refuses is read again text by text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_THOUSANDS = r"^\s*[-+]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]*)?\s*$"
_WHOLE = re.compile(r"[-+]?\d+", re.ASCII)
#: What Arrow parses as we do. Its own rules for whole numbers admit hexadecimal ones, and refuse a plus.
_EASY_WHOLE = "^-?[0-9]{1,18}$"


def is_text(arrow: pa.DataType) -> bool:
    """Whether cells of this type are texts."""
    return pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow)


def plain(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One contiguous array without a dictionary; text as `string`; null for what is not a finite number."""
    if isinstance(array, pa.ChunkedArray):
        # Each chunk by itself: the dictionaries of several may be too many values for their type of index.
        chunks = [plain(chunk) for chunk in array.chunks]
        return pa.concat_arrays(chunks) if chunks else plain(pa.array([], array.type))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type) or (is_text(array.type) and not pa.types.is_string(array.type)):
        array = array.cast(pa.string())
    if pa.types.is_float16(array.type):  # Arrow computes little with it
        array = array.cast(pa.float32())
    return only(pc.is_finite(array), array) if pa.types.is_floating(array.type) else array


def texts(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The cells as text, missing as null: what partition selection counts.

    Whole numbers are the same texts as floats, which pandas makes of them where one cell is missing.
    """
    array = plain(array)
    text = array.cast(pa.string())
    if not pa.types.is_floating(array.type):
        return text
    powered = pc.fill_null(pc.match_substring(text, "e"), False)
    if not pc.any(powered).as_py():
        return text
    return pc.if_else(powered, by_distinct_text(only(powered, text), pa.string(), _unpowered), text)


def numbers(array: pa.ChunkedArray | pa.Array, *, decimal: str = ".") -> pa.Array:
    """The cells as float64, null where there is no finite number."""
    array = plain(array)
    if pa.types.is_string(array.type):
        array = _parse(pointed(array, decimal), pa.float64(), f"^{_NUMBER.pattern}$", _number)
    elif pa.types.is_temporal(array.type):
        return pa.nulls(len(array), pa.float64())
    array = array.cast(pa.float64(), safe=False)
    return only(pc.is_finite(array), array)


def integers(array: pa.ChunkedArray | pa.Array, *, decimal: str = ".") -> pa.Array:
    """The cells as int64, rounded where they have decimals, null where there is no number of that size."""
    array = plain(array)
    if pa.types.is_string(array.type):
        return _parse(pointed(array, decimal), pa.int64(), _EASY_WHOLE, _whole)
    if pa.types.is_uint64(array.type):
        array = only(pc.less(array, pa.scalar(2**63, pa.uint64())), array)
    if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
        return array.cast(pa.int64(), safe=False)
    rounded = numbers(array)
    inside = pc.less(pc.abs(rounded), 2.0**63)
    if pa.types.is_decimal(array.type) and 0 <= array.type.scale <= 56:
        # A double would lose digits; and 999.99 needs one more than it has when it is rounded.
        rounded = only(inside, array).cast(pa.decimal256(76, array.type.scale))
    return pc.round(only(inside, rounded), round_mode="half_to_even").cast(pa.int64(), safe=False)


def only(where: pa.Array, array: pa.Array) -> pa.Array:
    """`array` where `where` is true, null elsewhere."""
    return pc.if_else(where, array, pa.scalar(None, array.type))


def attempt(array: pa.Array, to: pa.DataType) -> pa.Array | None:
    """The array cast to another type, None if Arrow refuses a cell or the type."""
    try:
        return array.cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def by_distinct_text(array: pa.Array, to: pa.DataType, one: Callable[[str], object]) -> pa.Array:
    """`one` of every distinct text; much cheaper than `one` of every cell."""
    encoded = array.dictionary_encode()
    return pa.array([one(text) for text in encoded.dictionary.to_pylist()], to).take(encoded.indices)


def flags(array: pa.Array) -> np.ndarray:
    """Truths as numpy's, false where null."""
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False)


def _parse(array: pa.Array, to: pa.DataType, easy: str, one: Callable[[str], object]) -> pa.Array:
    """Arrow parses the cells that look `easy`, `one` each distinct text among the others."""
    looks_easy = pc.match_substring_regex(array, easy)
    parsed = only(looks_easy, array).cast(to)
    rest = only(pc.invert(looks_easy), array)
    return parsed if rest.null_count == len(rest) else pc.coalesce(parsed, by_distinct_text(rest, to, one))


def pointed(array: pa.Array, decimal: str) -> pa.Array:
    """Numbers with a decimal comma as numbers with a point. A point beside a comma parts thousands, or it is none."""
    if decimal == ".":
        return array
    parted = pc.fill_null(pc.match_substring_regex(array, _THOUSANDS), False)
    array = pc.if_else(parted, pc.replace_substring(array, ".", ""), pc.replace_substring(array, ".", "?"))
    return pc.replace_substring(array, decimal, ".", max_replacements=1)


def _unpowered(text: str) -> str:
    number = float(text)
    return str(int(number)) if number.is_integer() and abs(number) < 2.0**63 else text


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def _whole(text: str) -> int | None:
    text = text.strip()
    if _WHOLE.fullmatch(text) and len(text) < 25:
        whole = int(text)
    else:
        number = _number(text)
        whole = round(number) if number is not None and abs(number) < 2.0**63 else 2**63
    return whole if -(2**63) <= whole < 2**63 else None

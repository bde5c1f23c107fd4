"""The cells of one column, read as its kind and written back: Arrow on the outside, plain numpy on the inside.

Nothing here fails because of what cells hold, however many they are: a cell that does not parse is missing. Whether a
table fits its schema is told before a fit (`schema.doubts`), or from noisy counts after it.
"""

from __future__ import annotations

import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.cells.moments import TICK, moment, moments, ticks, written
from twinify_lite.cells.numerals import fixed
from twinify_lite.cells.parsing import attempt, flags, integers, is_text, numbers, only, plain, texts
from twinify_lite.schema import Cell, Column

__all__ = [
    "MISSING",
    "TICK",
    "VALUE",
    "Cells",
    "arrow_type",
    "decimals_of",
    "dtype_of",
    "fixed",
    "integers",
    "moment",
    "moments",
    "number_of",
    "numbers",
    "parse",
    "plain",
    "read",
    "rounded",
    "says_something",
    "stored",
    "texts",
    "ticks",
    "write",
]

VALUE, MISSING = 0, -1
_NO, _YES = {"false", "f", "no", "n", "0"}, {"true", "t", "yes", "y", "1"}
#: Arrow types whose name in a schema is not that of their function.
_TYPES = {"double": "float64", "float": "float32", "halffloat": "float16", "bool": "bool_"}
#: Texts that say nothing: in every column, and in one of numbers or times.
_BLANK = r"^\s*$"
_NO_VALUE = r"(?i)^\s*(?:n/?a|nan|null|none|[-+]?inf(?:inity)?|[-.?]*)\s*$"
_FLOATS = {"float": np.float32, "halffloat": np.float16}


class Cells(NamedTuple):
    """One column, read as its kind.

    `state` is `VALUE` where `value` holds, `MISSING`, or i >= 1 for `column.special[i - 1]`. `value` is float64 for a
    number, int64 for an integer, for the ticks of a time since 1970 (see `moments`), and for the code of a level
    (`len(levels)` is `other`). Where `state` is not `VALUE`, `value` means nothing.
    """

    value: np.ndarray
    state: np.ndarray


def read(column: Column, array: pa.ChunkedArray | pa.Array, *, decimal: str = ".") -> Cells:
    """Read `array` as what `column` declares.

    A text that is neither a number, a time, a level nor special is missing, or `other` where the column has that.

    Formal guarantee: what a cell becomes depends on that cell and on its type alone, and none is refused.
    """
    blocks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    parts = [parse(column, block, decimal=decimal) for block in blocks or [pa.array([], pa.string())]]
    return Cells(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def parse(column: Column, array: pa.Array, *, decimal: str = ".") -> Cells:
    """The same for one array."""
    return (_read_ranged if column.is_ranged else _read_levelled)(column, plain(array), decimal)


def says_something(column: Column, array: pa.Array) -> np.ndarray:
    """Which cells are there, and are no text that says nothing in a column of this kind, such as "N/A" for a number."""
    return _is_present(plain(array), _NO_VALUE if column.is_ranged else _BLANK)


def write(column: Column, cells: Cells, *, decimal: str = ".", dictionaries: bool = False) -> pa.Array:
    """Return what `read` read: the column with its types, formats and spellings.

    A value beyond the column's Arrow type becomes the nearest that it can hold. `decimal` is the mark of numbers that
    must be text because a special value beside them is a word. With `dictionaries`, levels that are texts stay a
    dictionary, which is quicker.
    """
    return _write_ranged(column, cells, decimal) if column.is_ranged else _write_levelled(column, cells, dictionaries)


def number_of(column: Column, value: Cell) -> int | float | None:
    """A bound, heap or special value on the scale of `Cells.value`, or None for a text that is none of them."""
    if isinstance(value, datetime.date):
        return ticks(column, value)
    if isinstance(value, str):
        parsed = moments(column, pa.array([value])) if column.kind == "datetime" else numbers(pa.array([value]))
        return parsed[0].as_py()
    return None if column.kind == "datetime" else value


def decimals_of(column: Column) -> int | None:
    """The decimals of a number: as declared, but no more than its Arrow type has; None if it may have any."""
    limit = None
    if "int" in (column.dtype or ""):
        limit = 0
    elif (column.dtype or "").startswith("decimal"):
        limit = max(arrow_type(column).scale, 0)
    known = [decimals for decimals in (column.decimals, limit) if decimals is not None]
    return min(known, default=None)


def rounded(column: Column, value: np.ndarray) -> np.ndarray:
    """Numbers on the column's decimals, each the double nearest to its decimal text, so that it prints as such."""
    decimals = decimals_of(column)
    if decimals is None:
        return value + 0.0  # no minus before a zero
    scaled = np.rint(value * 10.0**decimals)
    # Above 2**52 a double has no decimals left to round, and scaling it would only blur it.
    return np.where(np.abs(scaled) < 2.0**52, scaled / 10.0**decimals, value) + 0.0


def stored(column: Column, value: np.ndarray) -> np.ndarray:
    """Numbers as the column's Arrow type can hold them."""
    return value.astype(_FLOATS.get(column.dtype, value.dtype)).astype(value.dtype)


# -- types ------------------------------------------------------------------------------------------------------------


def dtype_of(arrow: pa.DataType) -> str | None:
    """How schema.toml names an Arrow type; None for text, which is what a schema without `dtype` means."""
    if pa.types.is_dictionary(arrow):
        return "categorical"
    if pa.types.is_string(arrow) or pa.types.is_string_view(arrow) or pa.types.is_null(arrow):
        return None
    if pa.types.is_timestamp(arrow):
        return f"timestamp[{arrow.unit}]"
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return str(arrow).partition("[")[0]


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type that the column is written in."""
    name = column.dtype
    if name is None:
        return _text_type(column)
    if name == "categorical":
        return pa.dictionary(pa.int32(), pa.string(), ordered=column.kind == "ordinal")
    if name.startswith("timestamp"):
        return pa.timestamp(name[len("timestamp[") : -1], tz=column.zone)
    if name.startswith("decimal"):
        precision, scale = (int(part) for part in name[len("decimal(") : -1].split(","))
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    return getattr(pa, _TYPES.get(name, name))()


def _text_type(column: Column) -> pa.DataType:
    """What a column without a type of its own becomes: CSV gives it back as the text that it was."""
    if column.kind in ("number", "integer"):
        return pa.int64() if column.kind == "integer" else pa.float64()
    if column.kind == "datetime" and column.format is None:
        unit = {"millisecond": "ms", "microsecond": "us"}.get(column.resolution, "s")
        return pa.date32() if column.resolution == "day" else pa.timestamp(unit, tz=column.zone)
    return pa.string()


# -- reading ----------------------------------------------------------------------------------------------------------


def _is_present(array: pa.Array, absent: str = _BLANK) -> np.ndarray:
    """Which cells are neither null nor texts that say nothing."""
    if not pa.types.is_string(array.type):
        return flags(array.is_valid())
    return flags(pc.invert(pc.match_substring_regex(array, absent)))


def _read_ranged(column: Column, array: pa.Array, decimal: str) -> Cells:
    parsed = {
        "number": lambda: numbers(array, decimal=decimal),
        "integer": lambda: integers(array, decimal=decimal),
        "datetime": lambda: moments(column, array),
    }[column.kind]()
    missing = flags(parsed.is_null())
    value = parsed.fill_null(0).to_numpy(zero_copy_only=False)
    state = np.where(missing, MISSING, VALUE).astype(np.int16)
    for place, special in enumerate(column.special or (), start=1):
        state[_equals(column, special, array, value, missing)] = place
    return Cells(value, state)


def _equals(column: Column, special: Cell, array: pa.Array, value: np.ndarray, missing: np.ndarray) -> np.ndarray:
    number = number_of(column, special)
    same = np.zeros(len(value), bool)
    if number is not None:
        kept = stored(column, np.array([number]))[0]
        same = ~missing & (value == kept)
        if pa.types.is_floating(array.type):  # a number that no whole number is
            same |= flags(pc.equal(array.cast(pa.float64()), float(kept)))
    if pa.types.is_string(array.type) and (number is None or isinstance(special, str)):
        same |= flags(pc.equal(array, str(special)))
    return same


def _read_levelled(column: Column, array: pa.Array, _decimal: str) -> Cells:
    codes = _level_codes(column, array)
    missing = flags(codes.is_null())
    if column.other is not None:
        missing &= ~_is_present(array)
    code = codes.fill_null(len(column.levels or ())).to_numpy(zero_copy_only=False).astype(np.int64)
    return Cells(code, np.where(missing, MISSING, VALUE).astype(np.int16))


def _level_codes(column: Column, array: pa.Array) -> pa.Array:
    """The place of each cell among the levels, null if it is none: compared as text, then in the array's own type."""
    if column.kind == "boolean" and pa.types.is_boolean(array.type):
        return array.cast(pa.int32())
    text, levels = texts(array), pa.array(column.levels or (), pa.string())
    codes = pc.index_in(text, levels)
    typed = None if is_text(array.type) else attempt(levels, array.type)
    if typed is not None:  # a level "1.0" of a float column, whose text is "1"
        codes = pc.coalesce(codes, pc.index_in(array, typed))
    return pc.coalesce(codes, _synonyms(text)) if _says_yes_and_no(column) else codes


def _says_yes_and_no(column: Column) -> bool:
    """Whether other words for no and yes may stand for the levels: not for "male" and "female", where F is not "no"."""
    low = [level.lower() for level in column.levels or ()]
    return column.kind == "boolean" and low[0] in _NO and low[1] in _YES


def _synonyms(text: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(text)
    no, yes = (pc.is_in(lower, pa.array(sorted(words))) for words in (_NO, _YES))
    return only(pc.or_(no, yes), yes.cast(pa.int32()))


# -- writing ----------------------------------------------------------------------------------------------------------


def _write_ranged(column: Column, cells: Cells, decimal: str) -> pa.Array:
    value = rounded(column, cells.value) if column.kind == "number" else cells.value.copy()
    to = arrow_type(column)
    if pa.types.is_floating(to):
        value = value.astype(np.float64)
    as_text, words = _is_written_as_text(column), []
    for place, special in enumerate(column.special or (), start=1):
        number = number_of(column, special)
        if as_text and not isinstance(special, datetime.date):
            words.append((cells.state == place, str(special)))
        else:
            value[cells.state == place] = _nearest(number, value.dtype)
    is_words = is_text(to) or pa.types.is_dictionary(to)
    array = _typed(column, value, cells.state == MISSING, pa.string() if as_text else to, decimal)
    for where, word in words:
        array = pc.if_else(pa.array(where), word, array)
    return array.cast(to) if as_text and is_words else array


def _nearest(number: int | float, kind: np.dtype) -> int | float:
    """The number, or the nearest that 64 bits hold where it is to be whole."""
    return number if kind.kind == "f" else min(max(int(number), -(2**63)), 2**63 - 1)


def _is_written_as_text(column: Column) -> bool:
    """Whether its type is text, or must be because a special value is a word or a spelling that no number keeps."""
    to = arrow_type(column)
    if is_text(to) or pa.types.is_dictionary(to):
        return True
    spelled = [special for special in column.special or () if isinstance(special, str)]
    return any(column.dtype is None or number_of(column, special) is None for special in spelled)


def _typed(column: Column, value: np.ndarray, missing: np.ndarray, to: pa.DataType, decimal: str) -> pa.Array:
    if column.kind == "datetime":
        return written(column, pa.array(value, pa.int64(), mask=missing), to)
    if is_text(to):
        return _number_texts(column, value, missing, decimal)
    if pa.types.is_integer(to):
        return pa.array(_whole(value, to), mask=missing).cast(to)
    array = pa.array(_within(value, to) if pa.types.is_decimal(to) else value, mask=missing)
    if pa.types.is_decimal(to) and column.kind == "integer":
        array = array.cast(pa.decimal128(19, 0))
    return array.cast(to, safe=False)


def _whole(value: np.ndarray, to: pa.DataType) -> np.ndarray:
    """Whole numbers between the least and the greatest of an Arrow type."""
    kind = np.dtype(to.to_pandas_dtype())
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    if value.dtype.kind == "f":  # 2.0**63 is the double after the last int64
        value = np.clip(value, float(least), np.nextafter(float(most), 0) if most > 2**53 else float(most))
        return value.astype(kind)
    return np.clip(value, max(least, -(2**63)), min(most, 2**63 - 1)).astype(kind)


def _within(value: np.ndarray, to: pa.DataType) -> np.ndarray:
    """Numbers that a decimal type has the digits for."""
    most = 10 ** (to.precision - to.scale) - 10.0**-to.scale
    if value.dtype.kind == "f":
        return np.clip(value, -most, most)
    return np.clip(value, -min(int(most), 2**63 - 1), min(int(most), 2**63 - 1))


def _number_texts(column: Column, value: np.ndarray, missing: np.ndarray, decimal: str) -> pa.Array:
    if column.kind == "integer":
        return pa.array(value, mask=missing).cast(pa.string())
    decimals = decimals_of(column)
    array = pa.array(value, mask=missing).cast(pa.string()) if decimals is None else fixed(value, missing, decimals)
    return array if decimal == "." else pc.replace_substring(array, ".", decimal)


def _write_levelled(column: Column, cells: Cells, dictionaries: bool) -> pa.Array:
    spelled = pa.array([*(column.levels or ()), *([] if column.other is None else [column.other])], pa.string())
    to = arrow_type(column)
    codes = pa.array(cells.value.astype(np.int32), mask=cells.state == MISSING)
    if pa.types.is_dictionary(to):
        return pa.DictionaryArray.from_arrays(codes, spelled, ordered=to.ordered)
    if column.kind == "boolean" and pa.types.is_boolean(to):
        return pa.array([False, True]).take(codes)
    typed = attempt(spelled, to)
    if typed is None and column.kind == "boolean":
        typed = attempt(pa.array([0, 1]), to)
    # As text where a level, most often `other`, is not of the column's type.
    typed = spelled if typed is None else typed
    is_kept = dictionaries and pa.types.is_string(typed.type)
    return pa.DictionaryArray.from_arrays(codes, typed) if is_kept else typed.take(codes)

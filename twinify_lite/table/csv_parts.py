"""Lines of a CSV file in parts: cells of few texts are looked up, and neighbours among them are looked up together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.cells.numerals import fixed

TEXT = pa.large_string()
#: Texts that numbers, or several cells together, are looked up among: few enough to be made anew for every batch.
_FEW = 4096
#: Steps of a number below this are exact.
_EXACT = 2.0**50


class Coded(NamedTuple):
    """One of a few texts in each row; a code without rows is that of all."""

    codes: np.ndarray
    texts: pa.Array


Part = Coded | pa.Array


@functools.cache
def _nothing() -> pa.Scalar:
    return pa.scalar("", TEXT)  # Arrow loads pandas for it, which reading a file does not need


def always(text: str) -> Coded:
    """The same text in every row."""
    return Coded(np.array(0, np.int32), pa.array([text], TEXT))


def joined(parts: Iterable[Part]) -> pa.Array:
    """The parts of each row, one after the other; a missing one is nothing. One of them, at least, has rows."""
    glued: list[Part] = []
    for part in parts:
        if glued and _are_few(glued[-1], part):
            glued[-1] = _together(glued[-1], part)
        else:
            glued.append(part)
    texts = [_spelled(part) for part in glued]
    return pc.binary_join_element_wise(*texts, _nothing(), null_handling="replace", null_replacement="")


def _are_few(one: Part, other: Part) -> bool:
    return isinstance(one, Coded) and isinstance(other, Coded) and len(one.texts) * len(other.texts) <= _FEW


def _together(one: Coded, other: Coded) -> Coded:
    first, second = len(one.texts), len(other.texts)
    codes = one.codes * np.int32(second) + other.codes if one.codes.ndim else other.codes
    left = one.texts.take(pa.array(np.repeat(np.arange(first), second)))
    right = other.texts.take(pa.array(np.tile(np.arange(second), first)))
    return Coded(codes if other.codes.ndim else one.codes, pc.binary_join_element_wise(left, right, _nothing()))


def _spelled(part: Part) -> pa.Array | pa.Scalar:
    if not isinstance(part, Coded):
        return part
    return part.texts.take(pa.array(part.codes)) if part.codes.ndim else part.texts[0]


def changed(part: Part, change: Callable[[pa.Array], pa.Array]) -> Part:
    """The part with other texts."""
    return part._replace(texts=change(part.texts)) if isinstance(part, Coded) else change(part)


def looked_up(column: pa.DictionaryArray) -> Coded:
    """A column that is a dictionary; a missing cell is nothing."""
    codes = _filled(column.indices, 0).astype(np.int32, copy=False)
    return _or_nothing(codes, column.dictionary.cast(TEXT).fill_null(""), _missing(column))


def whole(column: pa.Array) -> Part:
    """Whole numbers, or days, as text: looked up if they lie close together."""
    if pa.types.is_uint64(column.type) or column.null_count == len(column):
        return column.cast(TEXT)
    numbers = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column

    def show(steps: np.ndarray) -> pa.Array:
        return pa.array(steps).cast(numbers.type).cast(column.type).cast(TEXT)

    steps = _filled(numbers.cast(pa.int64()), pc.min(numbers).as_py())
    found = _close(steps, _missing(column), show)
    return column.cast(TEXT) if found is None else found


def pointed(column: pa.Array, decimals: int, *, apart: bool) -> list[Part]:
    """Numbers with all of their decimals: looked up if they lie close together, else in two parts if `apart`."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    value = column.to_numpy(zero_copy_only=False).astype(np.float64)
    with np.errstate(over="ignore"):
        steps = np.rint(value * 10.0**decimals)
    steps[missing] = 0 if missing.all() else np.nanmin(steps[~missing])
    if not (np.abs(steps) < _EXACT).all():
        return [fixed(value, missing, decimals).cast(TEXT)]
    steps = steps.astype(np.int64)
    found = _close(steps, missing, lambda near: fixed(near / 10.0**decimals, near != near, decimals).cast(TEXT))
    if found is not None:
        return [found]
    if not apart or steps.min() < 0 or not 1 < 10**decimals <= _FEW:
        return [fixed(value, missing, decimals).cast(TEXT)]
    before, after = np.divmod(steps, 10**decimals)
    return [whole(pa.array(before, mask=missing)), _or_nothing(after.astype(np.int32), _endings(decimals), missing)]


@functools.cache
def _endings(decimals: int) -> pa.Array:
    return pa.array([f".{number:0{decimals}d}" for number in range(10**decimals)], TEXT)


def _close(steps: np.ndarray, missing: np.ndarray | None, show: Callable[[np.ndarray], pa.Array]) -> Coded | None:
    """Steps as codes of the texts that `show` makes of all between the least and the greatest; None if many are."""
    least, most = int(steps.min(initial=2**62)), int(steps.max(initial=-(2**62)))
    if not 0 <= most - least < _FEW:
        return None
    return _or_nothing((steps - least).astype(np.int32), show(np.arange(least, most + 1)), missing)


def _or_nothing(codes: np.ndarray, texts: pa.Array, missing: np.ndarray | None) -> Coded:
    if missing is None or not missing.any():
        return Coded(codes, texts)
    return Coded(np.where(missing, np.int32(len(texts)), codes), pa.concat_arrays([texts, pa.array([""], TEXT)]))


def _filled(numbers: pa.Array, value: int) -> np.ndarray:
    return (numbers.fill_null(value) if numbers.null_count else numbers).to_numpy(zero_copy_only=False)


def _missing(column: pa.Array) -> np.ndarray | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None

"""Tables as arrays that a model can see, and back: exact up to the resolution that the schema declares.

Two views. The continuous one has a number in [-1, 1] for a ranged column, beside an array `name:state` if the column
can be special or missing. The discrete one has one code a cell. Both give a levelled column the codes of its levels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from twinify_lite.cells import MISSING, VALUE, Cells, arrow_type, number_of, read, rounded, write
from twinify_lite.cells.parsing import attempt
from twinify_lite.encode.axis import axis, fallback
from twinify_lite.encode.layout import Cuts, Layout, from_codes, layout, to_codes
from twinify_lite.encode.refusals import (
    code_problems,
    lacking_problems,
    refuse,
    schema_problems,
    state_of,
    stranger_problems,
    view_problems,
)
from twinify_lite.schema import Column, Schema
from twinify_lite.table import CsvStyle, PrivateTable, read_table
from twinify_lite.table.csv_notes import with_decimals, with_style, with_units

if TYPE_CHECKING:
    import pandas as pd

    from twinify_lite.schema.enforcing import Enforcer

__all__ = ["BINS", "Cuts", "Layout", "decode", "encode", "layout"]

Bins = int | Mapping[str, int | Cuts]
BINS = 32
# How fine a CSV file tells times; hours and minutes are told to the second.
_UNITS = {"day": "day", "millisecond": "ms", "microsecond": "us"}


def encode(
    schema: Schema,
    table: str | os.PathLike[str] | pd.DataFrame | pa.Table | PrivateTable,
    *,
    view: str = "continuous",
    bins: Bins = BINS,
) -> dict[str, np.ndarray]:
    """The modelled columns of `table` as arrays. They are private, as the table is.

    `table` is all that `read_table` takes; a CSV file is read with the decimal mark and the encoding of the schema.
    Values outside `min` and `max` are clamped. A cell that is no value of its column is missing; in a column that is
    not nullable, a missing cell becomes the first heap, the middle of the range, `other` or the first level.
    """
    turn = _view(view)
    refuse(schema_problems(schema))
    rows, decimal = _rows(schema, table)
    refuse(stranger_problems(schema, rows.column_names))
    arrays: dict[str, np.ndarray] = {}
    for column in schema.modelled:
        cells = _filled(column, read(column, rows.column(column.name), decimal=decimal))
        arrays |= turn.encode(column, cells, _bins(bins, column))
    return arrays


def decode(
    schema: Schema,
    arrays: Mapping[str, np.ndarray],
    *,
    view: str = "continuous",
    bins: Bins = BINS,
    rng: np.random.Generator | None = None,
    rows: int | None = None,
    first: int = 0,
    enforcer: Enforcer | None = None,
    dictionaries: bool = False,
) -> pa.Table:
    """The table that `arrays` encode, in the types, formats and spellings of the schema, its constraints enforced.

    What a model produced need not be exact: numbers are rounded to the declared resolution, places beyond [-1, 1] are
    clamped, and NaN is missing or, in a column that is not nullable, what `encode` makes of missing. Arrays of another
    view, and codes that the schema or `bins` do not have, are refused. `rng` draws values within their bins; without
    it, each is the middle of its bin. `rows` is needed only if no column is modelled. `first` rows came before these,
    for the running numbers of surrogate identifiers. With `dictionaries`, texts of levels are dictionaries, which are
    quicker to make and to write. The table tells `write_table` the look of a CSV file: the style of
    the schema, the decimals of its numbers and the units of its times.
    """
    turn = _view(view)
    refuse(schema_problems(schema))
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    refuse(view_problems(schema, arrays, view))
    sizes = [(column, turn.sizes(column, _bins(bins, column))) for column in schema.modelled]
    refuse(lacking_problems(arrays, [name for _, names in sizes for name in names], rows))
    refuse(problem for column, names in sizes for problem in code_problems(column, arrays, names))
    cells = {column.name: turn.decode(column, arrays, _bins(bins, column), rng) for column in schema.modelled}
    if schema.constraints or enforcer is not None:
        cells = _enforcer(schema, enforcer).apply(cells)
    rows = next((len(arrays[name]) for name in cells), rows)
    return _written(schema, cells, first, rows, dictionaries)


def _rows(schema: Schema, table: object) -> tuple[pa.Table, str]:
    """The rows of `table`, and the decimal mark of its texts."""
    style = schema.style or CsvStyle()
    is_file = isinstance(table, str | os.PathLike)
    private = read_table(table, **{"decimal": style.decimal, "encoding": style.encoding} if is_file else {})
    return private.reveal(), (private.style or style).decimal


def _written(schema: Schema, cells: dict[str, Cells], first: int, rows: int, dictionaries: bool) -> pa.Table:
    made, decimal = {}, (schema.style or CsvStyle()).decimal
    for column in schema.columns:
        if column.is_modelled:
            made[column.name] = write(column, cells.pop(column.name), decimal=decimal, dictionaries=dictionaries)
        elif column.kind == "constant":
            made[column.name] = _constant(column, rows)
        elif column.sample == "surrogate":
            made[column.name] = _surrogates(column, first, rows)
    decimals = {column.name: column.decimals for column in schema.columns if _has_fixed_decimals(column)}
    units = {column.name: _UNITS.get(column.resolution, "s") for column in schema.columns if column.kind == "datetime"}
    return with_style(with_units(with_decimals(pa.table(made), decimals), units), schema.style)


def _has_fixed_decimals(column: Column) -> bool:
    """Whether all of its numbers, special ones too, have the declared decimals and no more."""
    if column.decimals is None:
        return False
    numbers = [number_of(column, special) for special in column.special or ()]
    numbers = np.array([number for number in numbers if number is not None], float)
    return bool((rounded(column, numbers) == numbers).all())


# -- the two views ----------------------------------------------------------------------------------------------------


class _View(NamedTuple):
    sizes: Callable[[Column, int], dict[str, int | None]]  # the names of a column's arrays; None for places
    encode: Callable[[Column, Cells, int], dict[str, np.ndarray]]
    decode: Callable[[Column, Mapping[str, np.ndarray], int, np.random.Generator | None], Cells]


def _sizes_continuous(column: Column, bins: int | Cuts) -> dict[str, int | None]:
    if column.is_levelled:
        return _sizes_discrete(column, bins)
    states = {state_of(column): len(column.special) + bool(column.nullable) + 1}
    return {column.name: None} | (states if _has_state(column) else {})


def _sizes_discrete(column: Column, bins: int | Cuts) -> dict[str, int | None]:
    return {column.name: layout(column, bins).size}


def _has_state(column: Column) -> bool:
    return column.is_ranged and bool(column.nullable or column.special)


def _encode_continuous(column: Column, cells: Cells, bins: int | Cuts) -> dict[str, np.ndarray]:
    if column.is_levelled:
        return _encode_discrete(column, cells, bins)
    line = axis(column)
    # What is no value has the place 0, and a step that a logarithm can take on the way there.
    steps = np.where(cells.state == VALUE, line.clamp(cells.value), line.high)
    place = np.where(cells.state == VALUE, line.place(steps), line.dtype(0))
    if not _has_state(column):
        return {column.name: place}
    last = len(column.special) + bool(column.nullable)
    state = np.where(cells.state == MISSING, last, cells.state).astype(np.min_scalar_type(last))
    return {column.name: place, state_of(column): state}


def _decode_continuous(column: Column, arrays: Mapping[str, np.ndarray], bins: int | Cuts, rng) -> Cells:
    if column.is_levelled:
        return _decode_discrete(column, arrays, bins, rng)
    line = axis(column)
    place = arrays[column.name]
    nowhere = np.isnan(place)
    value = line.values(line.unplace(np.where(nowhere, 0, place)))
    state = np.full(len(value), VALUE, np.int16)
    if _has_state(column):
        state[:] = arrays[state_of(column)]
        if column.nullable:
            state[state == len(column.special) + 1] = MISSING
    # A value at a special one is that special one, as it is where it is read.
    for code, special in enumerate(column.special, start=1):
        number = number_of(column, special)
        if number is not None:
            state[(state == VALUE) & ~nowhere & (value == number)] = code
    state[nowhere & (state == VALUE)] = MISSING
    return _filled(column, Cells(value, state))


def _encode_discrete(column: Column, cells: Cells, bins: int | Cuts) -> dict[str, np.ndarray]:
    return {column.name: to_codes(column, layout(column, bins), cells)}


def _decode_discrete(column: Column, arrays: Mapping[str, np.ndarray], bins: int | Cuts, rng) -> Cells:
    return from_codes(column, layout(column, bins), arrays[column.name], rng)


_VIEWS = {
    "continuous": _View(_sizes_continuous, _encode_continuous, _decode_continuous),
    "discrete": _View(_sizes_discrete, _encode_discrete, _decode_discrete),
}


def _view(name: str) -> _View:
    if name not in _VIEWS:
        raise ValueError(f"There is no view {name!r}. The views are {' and '.join(map(repr, _VIEWS))}.")
    return _VIEWS[name]


def _bins(bins: Bins, column: Column) -> int | Cuts:
    count = bins.get(column.name, BINS) if isinstance(bins, Mapping) else bins
    if (count[0] if isinstance(count, tuple) else count) < 1:
        raise ValueError(f"Column {column.name!r} needs at least one bin. Give `bins` of 1 or more.")
    return count


def _filled(column: Column, cells: Cells) -> Cells:
    """No missing cells in a column that is not nullable."""
    if column.nullable or not (cells.state == MISSING).any():
        return cells
    levels = len(column.levels or ())
    value = (levels if column.other is not None else 0) if column.is_levelled else fallback(column)
    missing = cells.state == MISSING
    state = np.where(missing, VALUE, cells.state).astype(np.int16)
    return Cells(np.where(missing, value, cells.value).astype(cells.value.dtype), state)


# -- columns that no model sees ---------------------------------------------------------------------------------------


def _surrogates(column: Column, first: int, rows: int) -> pa.Array:
    """Running numbers in the column's pattern; in its type, where they are of that type."""
    names = pa.array(map(column.pattern.format, range(first + 1, first + rows + 1)), pa.string())
    typed = attempt(names, arrow_type(column))
    return names if typed is None else typed


def _constant(column: Column, rows: int) -> pa.Array:
    """The value in each row, or nothing; in the column's type, where it is of that type."""
    if column.value is None:
        return pa.nulls(rows, arrow_type(column))
    value = pa.array([column.value])
    typed = None if column.dtype is None else attempt(value, arrow_type(column))
    return (value if typed is None else typed).take(pa.array(np.zeros(rows, np.int32)))


def _enforcer(schema: Schema, enforcer: Enforcer | None) -> Enforcer:
    if enforcer is not None:
        return enforcer
    from twinify_lite.schema.enforcing import Enforcer

    return Enforcer(schema)

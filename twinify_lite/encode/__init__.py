"""Tables as arrays that a model can see, and back: exact up to the resolution that the schema declares.

Two views. The continuous one has a number in [-1, 1] for a ranged column, beside an array `name:state` if the column
can be special or missing. The discrete one has one code a cell. Both give a levelled column the codes of its levels.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from twinify_lite.cells import MISSING, VALUE, Cells, arrow_type, read, write
from twinify_lite.cells.parsing import attempt
from twinify_lite.encode.axis import axis, fallback
from twinify_lite.encode.layout import Layout, from_codes, layout, to_codes
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column, Schema

if TYPE_CHECKING:
    from twinify_lite.schema.enforcing import Enforcer
    from twinify_lite.table import PrivateTable

__all__ = ["BINS", "Layout", "decode", "encode", "layout"]

Bins = int | Mapping[str, int]
BINS = 32


def encode(
    schema: Schema, table: PrivateTable | pa.Table, *, view: str = "continuous", bins: Bins = BINS
) -> dict[str, np.ndarray]:
    """The modelled columns of `table` as arrays. They are private, as the table is.

    Values outside `min` and `max` are clamped. A cell that is no value of its column is missing; in a column that is
    not nullable, a missing cell becomes the first heap, the middle of the range, `other` or the first level.
    """
    turn = _view(view)
    rows = table if isinstance(table, pa.Table) else table.reveal()
    _refuse([*_open(schema), *_ambiguous(schema), *_strangers(schema, rows.column_names)])
    decimal = getattr(getattr(table, "style", None), "decimal", ".")
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
    first: int = 0,
    enforcer: Enforcer | None = None,
    decimal: str = ".",
) -> pa.Table:
    """The table that `arrays` encode, in the types, formats and spellings of the schema, its constraints enforced.

    What a model produced need not be exact: numbers are rounded to the declared resolution, places beyond [-1, 1] and
    codes beyond the last are clamped, and NaN is missing or, in a column that is not nullable, what `encode` makes of
    missing. `rng` draws values within their bins; without it, each is the middle of its bin. `first` rows came before
    these, for the running numbers of surrogate identifiers. `decimal` is the mark of numbers beside special words.
    """
    turn = _view(view)
    _refuse([*_open(schema), *_ambiguous(schema)])
    _refuse(_lacking(schema, arrays, turn))
    cells = {column.name: turn.decode(column, arrays, _bins(bins, column), rng) for column in schema.modelled}
    if schema.constraints or enforcer is not None:
        cells = _enforcer(schema, enforcer).apply(cells)
    rows = next((len(arrays[name]) for name in cells), 0)
    made = {}
    for column in schema.columns:
        if column.is_modelled:
            made[column.name] = write(column, cells.pop(column.name), decimal=decimal)
        elif column.kind == "constant":
            made[column.name] = _constant(column, rows)
        elif column.sample == "surrogate":
            made[column.name] = _surrogates(column, first, rows)
    return pa.table(made)


# -- the two views ----------------------------------------------------------------------------------------------------


class _View(NamedTuple):
    names: Callable[[Column], tuple[str, ...]]
    encode: Callable[[Column, Cells, int], dict[str, np.ndarray]]
    decode: Callable[[Column, Mapping[str, np.ndarray], int, np.random.Generator | None], Cells]


def _state(column: Column) -> str:
    return f"{column.name}:state"


def _has_state(column: Column) -> bool:
    return column.is_ranged and bool(column.nullable or column.special)


def _encode_continuous(column: Column, cells: Cells, bins: int) -> dict[str, np.ndarray]:
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
    return {column.name: place, _state(column): state}


def _decode_continuous(column: Column, arrays: Mapping[str, np.ndarray], bins: int, rng) -> Cells:
    if column.is_levelled:
        return _decode_discrete(column, arrays, bins, rng)
    line = axis(column)
    place = np.asarray(arrays[column.name])
    nowhere = np.isnan(place)
    value = line.values(line.unplace(np.where(nowhere, 0, place)))
    state = np.full(len(value), VALUE, np.int16)
    if _has_state(column):
        last = len(column.special) + bool(column.nullable)
        state[:] = np.clip(np.asarray(arrays[_state(column)]).astype(np.int64), 0, last)
        if column.nullable:
            state[state == last] = MISSING
    state[nowhere & (state == VALUE)] = MISSING
    return _filled(column, Cells(value, state))


def _encode_discrete(column: Column, cells: Cells, bins: int) -> dict[str, np.ndarray]:
    return {column.name: to_codes(column, layout(column, bins), cells)}


def _decode_discrete(column: Column, arrays: Mapping[str, np.ndarray], bins: int, rng) -> Cells:
    return from_codes(column, layout(column, bins), np.asarray(arrays[column.name]), rng)


_VIEWS = {
    "continuous": _View(
        lambda column: (column.name, _state(column)) if _has_state(column) else (column.name,),
        _encode_continuous,
        _decode_continuous,
    ),
    "discrete": _View(lambda column: (column.name,), _encode_discrete, _decode_discrete),
}


def _view(name: str) -> _View:
    if name not in _VIEWS:
        raise ValueError(f"There is no view {name!r}. The views are {' and '.join(map(repr, _VIEWS))}.")
    return _VIEWS[name]


def _bins(bins: Bins, column: Column) -> int:
    count = bins.get(column.name, BINS) if isinstance(bins, Mapping) else bins
    if count < 1:
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
    """The value in each row; in the column's type, where it is of that type."""
    value = pa.array([column.value])
    typed = None if column.dtype is None else attempt(value, arrow_type(column))
    return (value if typed is None else typed).take(pa.array(np.zeros(rows, np.int32)))


def _enforcer(schema: Schema, enforcer: Enforcer | None) -> Enforcer:
    if enforcer is not None:
        return enforcer
    from twinify_lite.schema.enforcing import Enforcer

    return Enforcer(schema)


# -- what is refused --------------------------------------------------------------------------------------------------


def _refuse(problems: list[str]) -> None:
    if problems:
        raise SchemaError.listing(problems)


def _open(schema: Schema) -> Iterator[str]:
    for column in schema.columns:
        if column.open:
            yield (
                f"Column {column.name!r} leaves {', '.join(column.open)} open. Declare it in [columns.{column.name}] "
                "of the schema, or have it estimated from the privacy budget by `discover`."
            )


def _ambiguous(schema: Schema) -> Iterator[str]:
    for column in schema.columns:
        if _state(column) in schema:
            yield (
                f"Column {_state(column)!r} has the name of the array that tells where {column.name!r} is missing or "
                "special. Rename one of the two columns."
            )


def _strangers(schema: Schema, names: list[str]) -> Iterator[str]:
    for column in schema.columns:
        if names.count(column.name) > 1:
            yield f"The table has {names.count(column.name)} columns {column.name!r}. Give each its own name."
        if column.name not in names:
            close = difflib.get_close_matches(column.name, [name for name in names if name not in schema], n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Delete [columns.{column.name}] from the schema."
            yield f"The table has no column {column.name!r}. {hint}"
    for name in names:
        if name not in schema:
            yield (
                f"The schema does not know column {name!r} of the table. Add a block [columns.{name}]; with "
                'kind = "identifier" in it, the column is left out.'
            )


def _lacking(schema: Schema, arrays: Mapping[str, np.ndarray], turn: _View) -> list[str]:
    wanted = [name for column in schema.modelled for name in turn.names(column)]
    lacking = [f"There is no array {name!r} to decode a column from." for name in wanted if name not in arrays]
    if not lacking and len({len(arrays[name]) for name in wanted}) > 1:
        return ["The arrays to decode differ in length. Give one entry for each row in every one of them."]
    return lacking

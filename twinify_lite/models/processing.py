"""`preprocess` and `postprocess` of a model file: a DataFrame from a DataFrame, row by row, as in twinify.

A function that looks at other rows (a mean to subtract, the levels of a column, rows to drop) would carry one person
into another's row, and no noise is sized for that. So `preprocess` is given every row of the table alone, in a frame
of one row, and the model file is run anew for each, so that nothing in it remembers another row. That is slow (about a
second for 3,000 rows), and it is sound, up to a function that keeps something outside its file between calls.
`postprocess` sees generated rows, which are public; it must work row by row so that rows can be made in batches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from twinify_lite import cells
from twinify_lite.encode import decode
from twinify_lite.errors import ModelError
from twinify_lite.models.guessing import made_up_schema
from twinify_lite.models.program import made_up_arrays
from twinify_lite.models.source import Source, new_module
from twinify_lite.quiet import quietly, unheard
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.draft import draft
from twinify_lite.table import PrivateTable

Frame = Callable[[pd.DataFrame], pd.DataFrame]
_ROWS = 40
# What a column of each kind is to pandas: chosen by the kind, never by the cells, so that no row decides for another.
_UNITS = {"day": "D", "hour": "h", "minute": "m", "second": "s", "millisecond": "ms", "microsecond": "us"}
_DTYPES = {"number": "float64", "integer": "Int64", "boolean": "boolean", "datetime": "datetime64[us]"}


def prepare_table(source: Source, table: PrivateTable) -> PrivateTable:
    """The table that `preprocess` makes of `table`, a row from each row; `table` itself if there is no `preprocess`.

    Formal guarantee: row i of the result is a function of row i of `table` and of public things only, if `preprocess`
    keeps nothing outside its own file between calls. A row for which it fails, or from which it makes none or several,
    is missing throughout: to tell would be to tell something of the row.
    """
    if source.preprocess is None:
        return table
    schema = draft(table)
    problems = list(_problems(source, "preprocess", made_up_frame(schema, _ROWS)))
    if problems:
        raise ModelError("\n".join(problems))
    wanted = _types(source.preprocess, schema)
    frame = to_frame(schema, table)
    fresh = _fresh(source, "preprocess")
    made = [_alone(fresh, frame.iloc[i : i + 1], wanted) for i in range(len(frame))]
    columns = {name: pa.array([row[j] for row in made], kind) for j, (name, kind) in enumerate(wanted.items())}
    return PrivateTable(pa.table(columns))


def finish_table(source: Source, table: pa.Table) -> pa.Table:
    """What `postprocess` makes of generated rows; they themselves if there is none."""
    if source.postprocess is None:
        return table
    try:
        made = pa.Table.from_pandas(_result(source.postprocess, table.to_pandas()), preserve_index=False)
    except Exception as error:  # whatever the user's code raises, or returns; the rows are public
        raise ModelError(f"{source.locate(error)} (in postprocess, on generated rows)") from None
    return made.replace_schema_metadata(table.schema.metadata)


def to_frame(schema: Schema, table: PrivateTable) -> pd.DataFrame:
    """The rows as pandas has them, with the types of their kinds."""
    rows, decimal = table.reveal(), table.style.decimal if table.style else "."
    return pd.DataFrame({c.name: _series(c, rows[c.name], decimal) for c in schema.columns}).reset_index(drop=True)


def _series(column: Column, array: pa.ChunkedArray, decimal: str) -> pd.Series:
    """One column, cell by cell: no cell decides how another is read, or whether any is."""
    plain = cells.plain(array)
    if column.kind not in _DTYPES:
        return pd.Series(cells.texts(plain).to_pylist(), dtype=object)
    if column.kind == "boolean":
        return pd.Series([_truth(cell) for cell in cells.texts(plain).to_pylist()], dtype="boolean")
    value, state = cells.parse(column, plain, decimal=decimal)
    if column.kind == "datetime":
        return _moments(column, value, state)
    series = pd.Series(value, dtype=_DTYPES[column.kind])
    return series.mask(state != cells.VALUE)


def _moments(column: Column, ticks: np.ndarray, state: np.ndarray) -> pd.Series:
    unit = _UNITS[column.resolution]
    first, last = (np.datetime64(end, unit).astype(np.int64) for end in ("0001-01-01", "9999-12-31"))
    told = (state == cells.VALUE) & (ticks >= first) & (ticks <= last)
    moments = np.where(told, ticks, 0).astype(np.int64).astype(f"datetime64[{unit}]").astype("datetime64[us]")
    return pd.Series(np.where(told, moments, np.datetime64("NaT", "us")))


def _truth(cell: Any) -> Any:
    text = str(cell).strip().lower()
    return (
        True if text in ("true", "t", "yes", "y", "1") else False if text in ("false", "f", "no", "n", "0") else pd.NA
    )


def _types(function: Frame, schema: Schema) -> dict[str, pa.DataType]:
    """The columns that the function makes, and their types, from made-up rows: public, whatever the table holds."""
    made = function(made_up_frame(schema, _ROWS))
    return {field.name: field.type for field in pa.Schema.from_pandas(made, preserve_index=False)}


def _alone(fresh: Callable[[], Frame], row: pd.DataFrame, wanted: dict[str, pa.DataType]) -> list[Any]:
    """The cells that the function makes of one row; all missing if it fails, or does not make just one row.

    It may fail as it likes: an exit for one row would end the fit, and what it prints could quote a cell.
    """
    nothing = [None] * len(wanted)
    try:
        with unheard():
            made = fresh()(row.reset_index(drop=True).copy())  # else, with pandas' copy-on-write, a view of all rows
            if len(made) != 1:
                return nothing
            record = pa.Table.from_pandas(made[list(wanted)], preserve_index=False)
            return [_cell(record.column(name), kind) for name, kind in wanted.items()]
    except KeyboardInterrupt:  # somebody wants to stop
        raise
    except BaseException:
        return nothing


def _cell(column: pa.ChunkedArray, kind: pa.DataType) -> Any:
    try:
        return column.cast(kind)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None


# -- the check --------------------------------------------------------------------------------------------------------


def preprocess_problems(source: Source, raw: Schema) -> Iterator[str]:
    """Whether `preprocess` works row by row, on made-up rows of `raw`: alone, among others, reversed, and again."""
    if source.preprocess is not None:
        yield from _problems(source, "preprocess", made_up_frame(raw, _ROWS))


def postprocess_problems(source: Source, schema: Schema) -> Iterator[str]:
    """Whether `postprocess` does, on rows of `schema` as a model draws them."""
    if source.postprocess is None:
        return
    drawn = _drawn(schema, _ROWS)
    problems = list(_problems(source, "postprocess", drawn.to_pandas()))
    yield from problems
    if not problems:
        with contextlib.suppress(ModelError):
            finish_table(source, drawn)
            return
        yield f"{source.name}: postprocess makes columns that no table can have. Give each its name and one type."


def finished_columns(source: Source, schema: Schema) -> list[str]:
    """The columns that `postprocess` makes, tried on made-up rows; none where there is no such function."""
    return [] if source.postprocess is None else finish_table(source, _drawn(schema, _ROWS)).column_names


def _drawn(schema: Schema, rows: int) -> pa.Table:
    """Rows that nobody has, as a model of `schema` draws them."""
    whole = made_up_schema(schema)
    return decode(whole, made_up_arrays(whole, rows, seed=3), rows=rows)


def made_up_frame(schema: Schema, rows: int) -> pd.DataFrame:
    """Rows that nobody has, with missing cells and the ends of ranges among them."""
    whole = made_up_schema(schema)
    nullable = whole.replace_columns(column.replace(nullable=True) for column in whole.modelled)
    table = decode(nullable, made_up_arrays(nullable, rows, seed=3), rows=rows)
    lacking = [column.name for column in schema.columns if column.name not in table.column_names]
    for name in lacking:
        table = table.append_column(name, pa.array([f"{name}{i}" for i in range(rows)]))
    return to_frame(nullable, PrivateTable(table.select([column.name for column in schema.columns])))


def _fresh(source: Source, key: str) -> Callable[[], Frame]:
    """What gives the function `key` of the model file, run anew: nothing that an earlier call left is in it."""
    code = compile(source.text, source.path or source.name, "exec")

    def run() -> Frame:
        module = new_module(source.path)
        exec(code, module.__dict__)
        return module.__dict__[key]

    return run


def _problems(source: Source, key: str, frame: pd.DataFrame) -> Iterator[str]:
    fresh = _fresh(source, key)
    try:
        together = _result(fresh(), frame)
        if len(together) != len(frame):
            yield (
                f"{source.name}: {key} makes {len(together)} rows of {len(frame)}. It must make one of each: leaving "
                "rows out, or repeating them, shows through to others. Mark cells as missing instead."
            )
            return
        reverse = _result(fresh(), frame.iloc[::-1].reset_index(drop=True)).iloc[::-1].reset_index(drop=True)
        alone = [_result(fresh(), frame.iloc[i : i + 1].reset_index(drop=True)) for i in range(len(frame))]
        few = _result(fresh(), frame.iloc[:7].reset_index(drop=True))
        again = _result(fresh(), frame)
    except Exception as error:
        yield f"{source.locate(error)} (in {key}, on made-up rows with missing cells)"
        return
    pairs = [(again, together), (reverse, together), (few, together.iloc[:7])]
    pairs += [(row, together.iloc[i : i + 1]) for i, row in enumerate(alone)]
    mixed = sorted({name for one, other in pairs for name in _different(one, other)})
    if mixed:
        yield (
            f"{source.name}: {key} does not work row by row: {', '.join(map(repr, mixed))} of a row changes with the "
            "rows beside it, or from call to call (a mean, a rank, levels that were seen, random numbers?). Compute "
            "each row from its own cells and from constants."
        )


def _result(function: Frame, frame: pd.DataFrame) -> pd.DataFrame:
    with quietly():
        made = function(frame.copy())
    if not isinstance(made, pd.DataFrame):
        raise ModelError("it must return a DataFrame.")
    return made.reset_index(drop=True)


def _different(one: pd.DataFrame, other: pd.DataFrame) -> list[str]:
    """The columns in which two frames differ; types may, as those of one row can be narrower."""
    if list(one.columns) != list(other.columns):
        return sorted(set(one.columns) ^ set(other.columns)) or list(map(str, one.columns))
    if len(one) != len(other):
        return ["the number of rows"]
    return [name for name in one.columns if not _same(one[name], other[name])]


def _same(one: pd.Series, other: pd.Series) -> bool:
    a, b = one.to_numpy(object), other.to_numpy(object)
    missing = pd.isna(a) & pd.isna(b)
    return all(gone or _equal(x, y) for gone, x, y in zip(missing, a, b, strict=True))


def _equal(x: Any, y: Any) -> bool:
    if pd.isna(x) or pd.isna(y):
        return False
    if isinstance(x, float | np.floating):
        return bool(np.isclose(float(x), float(y), rtol=1e-9, atol=0))
    return bool(x == y)

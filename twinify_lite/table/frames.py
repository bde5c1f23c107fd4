"""Rows as Arrow has them: DataFrames column by column, and nothing of what pandas notes beside the columns."""

from __future__ import annotations

import collections
import contextlib
import datetime
import json
import math
import re
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from twinify_lite.errors import TableError
from twinify_lite.schema.guess_votes import nearly_all

if TYPE_CHECKING:
    import pandas as pd


def is_frame(source: object) -> bool:
    """Whether `source` is a pandas DataFrame."""
    # Without importing pandas: whoever has a DataFrame has done so.
    return "pandas" in sys.modules and isinstance(source, sys.modules["pandas"].DataFrame)


def as_arrow(rows: pa.Table | pd.DataFrame, name: str) -> pa.Table:
    """An Arrow table of `rows`, which errors call `name`."""
    if isinstance(rows, pa.Table):
        return rows
    if not is_frame(rows):
        raise TableError(f"{name} must be a path, a pandas DataFrame or a pyarrow Table, not a {type(rows).__name__}.")
    if not all(isinstance(label, str) for label in rows.columns):
        raise TableError(f"{name} has column names that are not text. Call `frame.columns = frame.columns.map(str)`.")
    columns = [_column(rows.iloc[:, place]) for place in range(rows.shape[1])]
    return pa.Table.from_arrays(columns, names=list(rows.columns))


def _column(series: pd.Series) -> pa.Array | pa.ChunkedArray:
    """A column as Arrow has it, or as text where Arrow has no type for it."""
    if series.dtype == object or (series.dtype == "category" and series.cat.categories.dtype == object):
        return _objects(series)
    values = series.array.to_dense() if hasattr(series.array, "to_dense") else series
    with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        column = pa.array(values, from_pandas=True)
        if not isinstance(column.type, pa.BaseExtensionType):
            return column
    return _texts(series)


def _objects(series: pd.Series) -> pa.Array:
    """Python objects in the type that nearly all of them have, strangers as missing; as text if there is no such type.

    Arrow would find one type for all cells, with the digits of the longest number and the zone of the first time: then
    one cell would change how the others are read.
    """
    present = series[~series.isna()]
    if all(isinstance(cell, str) for cell in present):
        return pa.array(series, from_pandas=True) if series.dtype == "category" else _texts(series)
    seen = collections.Counter(map(_kind, present))
    for kind, arrow in _TYPES.items():
        if nearly_all(seen[kind] + seen[_NARROWER.get(kind, "")], len(present)):
            return pa.array([_as(kind, cell) for cell in series], arrow, from_pandas=True)
    return _texts(series)


_TYPES = {
    "truth": pa.bool_(),
    "whole": pa.int64(),
    "float": pa.float64(),
    "date": pa.date32(),
    "wall time": pa.timestamp("us"),
    "instant": pa.timestamp("us", tz="UTC"),
    # No table may hold these, as the caller says.
    "nested": pa.list_(pa.null()),
    "bytes": pa.binary(),
}
_NARROWER = {"float": "whole", "wall time": "date"}
_KINDS = {
    "truth": bool | np.bool_,
    "whole": int | np.integer,
    "float": float | np.floating,
    "time": datetime.datetime,
    "date": datetime.date,
    "nested": list | tuple | dict | set | np.ndarray,
    "bytes": bytes,
}


def _kind(cell: object) -> str:
    kind = next((kind for kind, types in _KINDS.items() if isinstance(cell, types)), "other")
    if kind == "time":
        return "wall time" if cell.tzinfo is None else "instant"
    return "other" if kind == "whole" and not -(2**63) <= cell < 2**63 else kind


def _as(kind: str, cell: object) -> object:
    """The cell as an object of this kind, None if it is none. No other cell has a say in it."""
    own = _kind(cell)
    if kind in ("whole", "float") and own in ("whole", "float"):
        is_sound = math.isfinite(cell) and abs(cell) < 2**63
        return (round if kind == "whole" else float)(cell) if is_sound else None
    if own == "date" and kind == "wall time":
        return datetime.datetime(cell.year, cell.month, cell.day)
    if own in ("wall time", "instant") and own == kind:
        return cell.floor("us") if hasattr(cell, "floor") else cell
    return cell if own == kind != "nested" else None


def _texts(series: pd.Series) -> pa.Array:
    texts = [str(cell).encode(errors="replace").decode() for cell in series]
    return pa.array(texts, pa.string(), mask=series.isna().to_numpy(dtype=bool))


def without_pandas_index(table: pa.Table) -> pa.Table:
    """Leave out the index that pandas stored beside the columns, and its notes, which tell the number of rows."""
    notes = (table.schema.metadata or {}).get(b"pandas", b"{}")
    index = []
    with contextlib.suppress(ValueError, AttributeError):  # notes that are not pandas' own
        index = json.loads(notes).get("index_columns", [])
    unnamed = [entry for entry in index if isinstance(entry, str) and re.fullmatch(r"__index_level_\d+__", entry)]
    return table.drop_columns([n for n in unnamed if n in table.column_names]).replace_schema_metadata(None)

"""Rows as Arrow has them: DataFrames column by column, and nothing of what pandas notes beside the columns."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import TYPE_CHECKING

import pyarrow as pa

from twinify_lite.errors import TableError

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
    """A column as Arrow has it, or as text where Arrow has no type for it, such as for numbers mixed with texts."""
    values = series.array.to_dense() if hasattr(series.array, "to_dense") else series
    with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        column = pa.array(values, from_pandas=True)
        if not isinstance(column.type, pa.BaseExtensionType):
            return column
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

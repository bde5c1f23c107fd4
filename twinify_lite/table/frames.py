"""Rows as Arrow has them: DataFrames column by column, without what pandas notes beside the columns; and back."""

from __future__ import annotations

import collections
import contextlib
import datetime
import json
import math
import re
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from twinify_lite.errors import TableError
from twinify_lite.schema.guess_votes import LEAST, nearly_all
from twinify_lite.table.guard import guarded

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


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
    columns = [
        guarded(
            lambda series=rows.iloc[:, place]: _column(series),
            f"{name}: column {rows.columns[place]!r} holds objects that cannot be read. Turn them into text.",
        )
        for place in range(rows.shape[1])
    ]
    return pa.Table.from_arrays(columns, names=list(rows.columns))


def as_frame(table: pa.Table, may_miss: Collection[str]) -> pd.DataFrame:
    """A DataFrame of `table`, in which whole numbers and truth values of the columns `may_miss` stay what they are.

    pandas would make floats and objects of them if a cell is missing; its nullable types have a place for that.
    """
    from pandas.api.types import pandas_dtype

    frame = table.to_pandas()
    for name in (name for name in table.column_names if name in may_miss):
        nullable = _NULLABLE.get(str(table.schema.field(name).type))
        if nullable is not None:
            frame[name] = pandas_dtype(nullable).__from_arrow__(table.column(name))
    return frame


_SIZES = (8, 16, 32, 64)
_NULLABLE = {"bool": "boolean"} | {f"{sign}int{n}": f"{sign.upper()}Int{n}" for sign in ("", "u") for n in _SIZES}


def _column(series: pd.Series) -> pa.Array | pa.ChunkedArray:
    """A column as Arrow has it, or as text where Arrow has no type for it."""
    if hasattr(series.array, "to_dense"):
        series = series.sparse.to_dense()
    if series.dtype == object:
        return _objects(series)
    if series.dtype == "category" and series.cat.categories.dtype == object:
        return _spelled(series)
    with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        column = pa.array(series, from_pandas=True)
        if not isinstance(column.type, pa.BaseExtensionType):
            return column
    return _texts(series)


def _objects(series: pd.Series) -> pa.Array:
    """Python objects in the type that nearly all of them have, strangers as missing; as text if there is no such type.

    Arrow would find one type for all cells, with the digits of the longest number and the zone of the first time: then
    one cell would change how the others are read.
    """
    present = [cell for cell, is_missing in zip(series, _missing(series), strict=True) if not is_missing]
    seen = collections.Counter(map(_kind, present))
    for kind, arrow in _TYPES.items() if len(present) >= LEAST else ():
        if nearly_all(seen[kind] + seen[_NARROWER.get(kind, "")], len(present)):
            return pa.array([_if_it_can(_as, kind, cell) for cell in series], arrow, from_pandas=True)
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
        is_sound = math.isfinite(float(cell)) and abs(float(cell)) < 2.0**63
        return (round if kind == "whole" else float)(cell) if is_sound else None
    if own == "date" and kind == "wall time":
        return datetime.datetime(cell.year, cell.month, cell.day)
    if own in ("wall time", "instant") and own == kind:
        return _in_microseconds(cell)
    return cell if own == kind != "nested" else None


def _in_microseconds(cell: datetime.datetime) -> datetime.datetime:
    cell.utcoffset()  # a zone that cannot say it raises here, and not when all cells become an array
    return cell.to_pydatetime(warn=False) if hasattr(cell, "to_pydatetime") else cell


def _if_it_can(make: Callable[..., T], *arguments: Any) -> T | None:
    """What `make` makes, None if it cannot: a year that Python does not know, an object whose own methods fail.

    One such cell is missing, and refuses no table.
    """
    try:
        return make(*arguments)
    except MemoryError:
        raise
    except Exception:
        return None


def _missing(series: pd.Series) -> np.ndarray:
    """Which cells pandas finds missing. What it cannot judge, such as a signalling NaN, is missing too."""
    judged = _if_it_can(series.isna)
    if judged is not None:
        return judged.to_numpy(dtype=bool)
    if len(series) == 1:
        return np.array([True])
    middle = len(series) // 2
    return np.concatenate([_missing(series.iloc[:middle]), _missing(series.iloc[middle:])])


def _spelled(series: pd.Series) -> pa.Array:
    """A categorical whose categories are objects, by their texts."""
    codes = series.cat.codes.to_numpy()
    levels = pa.array([_text(level) for level in series.cat.categories], pa.string())
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=codes < 0), levels, ordered=bool(series.cat.ordered)
    )


def _texts(series: pd.Series) -> pa.Array:
    """The cells as texts; one that cannot be written is missing, and a column of such cells is refused."""
    texts, present = [_if_it_can(_text, cell) for cell in series], ~_missing(series)
    lost = sum(text is None and is_present for text, is_present in zip(texts, present, strict=True))
    if present.sum() >= LEAST and nearly_all(lost, int(present.sum())):
        raise ValueError("These objects have no text.")
    return pa.array(texts, pa.string(), mask=~present)


def _text(cell: object) -> str:
    return str(cell).encode(errors="replace").decode()


def without_pandas_index(table: pa.Table) -> pa.Table:
    """Leave out the index that pandas stored beside the columns, and its notes, which tell the number of rows."""
    notes = (table.schema.metadata or {}).get(b"pandas", b"{}")
    index = []
    with contextlib.suppress(ValueError, AttributeError):  # notes that are not pandas' own
        index = json.loads(notes).get("index_columns", [])
    unnamed = [entry for entry in index if isinstance(entry, str) and re.fullmatch(r"__index_level_\d+__", entry)]
    return table.drop_columns([n for n in unnamed if n in table.column_names]).replace_schema_metadata(None)

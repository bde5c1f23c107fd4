"""Columns to read cells as, and the way there and back: what the tests of cells share."""

import datetime

import pyarrow as pa
from hypothesis import settings

from twinify_lite.cells import (
    read,
    write,
)
from twinify_lite.schema import Column

PROFILE = settings(deadline=None, max_examples=150)
UTC = datetime.UTC


def column(kind, **more):
    bounds = {} if kind in ("category", "ordinal", "boolean") else {"min": 0, "max": 100}
    if kind == "datetime":
        bounds = {"min": datetime.date(1800, 1, 1), "max": datetime.date(2100, 1, 1)}
    return Column(**{"name": "x", "kind": kind, "nullable": True, **bounds, **more})


def cycle(column, cells, **more):
    """What is written for what was read."""
    array = cells if isinstance(cells, pa.Array | pa.ChunkedArray) else pa.array(cells)
    return write(column, read(column, array, **more)).to_pylist()

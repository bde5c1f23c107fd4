"""One column at a time, encoded and decoded: what the tests of encoding share."""

import numpy as np
import pyarrow as pa
import pytest
from columns import Case
from hypothesis import settings

from twinify_lite.encode import decode, encode
from twinify_lite.schema import Column, Schema

settings.register_profile("encode", deadline=None, max_examples=150, derandomize=True)
PROFILE = settings.get_profile("encode")
VIEWS = pytest.mark.parametrize("view", ["continuous", "discrete"])


def single(case: Case) -> tuple[Schema, pa.Table]:
    return Schema((case.column,)), pa.table({case.column.name: case.array})


def same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        np.testing.assert_array_equal(left[name], right[name], name)


def close(found, wanted, tolerance):
    if isinstance(wanted, float | int) and isinstance(found, float):
        return abs(found - wanted) <= tolerance
    return found == wanted and type(found) is type(wanted)


def integer(**more):
    return Column(**{"name": "x", "kind": "integer", "min": 0, "max": 100, "nullable": True, **more})


def of(column, cells, **more):
    return encode(Schema((column,)), pa.table({column.name: cells}), **more)


def back(column, arrays, **more):
    return decode(Schema((column,)), arrays, **more)[column.name].to_pylist()

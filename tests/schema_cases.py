"""Columns with the least that their kind must be told, and what is said of wrong ones."""

import datetime
import zoneinfo

import pytest

from twinify_lite.errors import SchemaError
from twinify_lite.schema import KINDS, Column

DAY, NOON, UTC = datetime.date(2024, 5, 6), datetime.datetime(2024, 5, 6, 12), datetime.UTC
MIDNIGHT = datetime.datetime(2024, 5, 6)
HELSINKI = zoneinfo.ZoneInfo("Europe/Helsinki")
ALWAYS = {"min": datetime.date.min, "max": datetime.date.max}
DTYPES = (
    *("bool", "int8", "int64", "uint8", "uint64", "float", "halffloat", "double", "string", "large_string"),
    *("categorical", "date32", "date64", "decimal(10,2)", "decimal(38, 0)"),
)
#: The least that each kind must be told.
LEAST = {kind: {} for kind in KINDS} | {"ordinal": {"levels": ("low", "high")}, "constant": {"value": "x"}}


def column(kind="number", /, **keys):
    return Column(**{"name": "age", "kind": kind, **LEAST.get(kind, {}), **keys})


def problems_of(kind, **keys):
    with pytest.raises(SchemaError) as refused:
        column(kind, **keys)
    return str(refused.value).split("\n")

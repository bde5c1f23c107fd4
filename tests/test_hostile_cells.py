"""No cell of any type makes an error where rows are read, voted on or encoded: Arrow's and numpy's own errors too.

What is tried: the ends of every type of Arrow, and texts that are nearly numbers, times and levels, as the cells of
columns of every kind, declared and open.
"""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from twinify_lite.discover import ranges
from twinify_lite.discover.findings import look_at, rare_value_ballot, value_ballot
from twinify_lite.discover.votes import tally
from twinify_lite.encode import encode
from twinify_lite.models.processing import to_frame
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.guess import guess
from twinify_lite.score.reading import REAL, SYNTHETIC, read_sheets
from twinify_lite.table import CsvStyle, PrivateTable

TEXTS = """
0 -0 1e400 -1e400 1e-400 nan NaN inf -inf 0x1F 1_000 ٣ 1,5 1.234.567,8 1.5e308 9223372036854775807
-9223372036854775809 18446744073709551615 2024-02-30 0000-00-00 0001-01-01 9999-12-31T23:59:59.999999
9999-12-31T23:59:59.999999+00:00
0001-01-01T00:00:00+23:59 0001-01-01T00:00:00-23:59 24:00 2024-01-01T25:00 31.02.2020 99/99/9999 2020-W01-1 20200101
2020-01-01T00:00:00Z -0001-01-01 +10000-01-01 yes No T f true FALSE 1e e1 . - + .e5 1. +.5e+5 12abc NULL N/A ? %s %Z é
2024-03-31T02:30:00 10:00:00.5 \U0010ffff \u202e " ' ; NA 99 a b
""".split()  # noqa: SIM905
TEXTS += ["", " ", "\n", "9" * 30, "9" * 400, "a" * 70_000, "  12  ", "2020-01-01 00:00:00.1234567", None]


def ends(kind, *more):
    """The least and the greatest number of an Arrow type, and those around zero."""
    numbers = (np.iinfo if pa.types.is_integer(kind) else np.finfo)(kind.to_pandas_dtype())
    return pa.array(np.array([numbers.min, numbers.max, 0, 1, *more], kind.to_pandas_dtype()), kind)


def timestamps():
    counts = pa.array([-(2**63) + 1, 2**63 - 1, 0, 1, -1, 2**62, None])
    zones = (None, "UTC", "Europe/Helsinki", "+05:30")
    return {f"{unit} {tz}": counts.cast(pa.timestamp(unit, tz=tz)) for unit in ("s", "ms", "us", "ns") for tz in zones}


def decimals():
    makes = {(38, 0): pa.decimal128, (38, 38): pa.decimal128, (76, 0): pa.decimal256, (76, 60): pa.decimal256}
    for (precision, scale), make in makes.items():
        whole = "9" * (precision - scale) or "0." + "9" * scale
        cells = [decimal.Decimal(whole), decimal.Decimal(f"-{whole}"), None]
        yield f"decimal {precision} {scale}", pa.array(cells, make(precision, scale))


SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.5]
ARRAYS = {
    "texts": pa.array(TEXTS, pa.string()),
    "large texts": pa.array(TEXTS, pa.large_string()),
    "nothing": pa.nulls(5),
    "truths": pa.array([True, False, None]),
    "days": pa.array([-(2**31), 2**31 - 1, 0, None], pa.int32()).cast(pa.date32()),
    "clock": pa.array([0, 86_399, None], pa.int32()).cast(pa.time32("s")),
    **{str(kind): ends(kind) for kind in (pa.int8(), pa.int64(), pa.uint8(), pa.uint64())},
    **{str(kind): ends(kind, *SPECIAL) for kind in (pa.float16(), pa.float32(), pa.float64())},
    **timestamps(),
    **dict(decimals()),
}
ARRAYS |= {
    f"{name} by distinct ones": ARRAYS[name].dictionary_encode() for name in ("texts", "int64", "double", "s None")
}
DAYS = {"min": datetime.date(2000, 1, 1), "max": datetime.date(2001, 1, 1)}
EVER = {"min": datetime.date(1, 1, 1), "max": datetime.date(9999, 12, 31)}
KINDS = [
    {"kind": "integer", "min": 0, "max": 9},
    {"kind": "integer", "min": -(2**63), "max": 2**63 - 1},
    {"kind": "integer", "min": 0, "max": 9, "special": (-1, "N", "99")},
    {"kind": "integer", "min": 1, "max": 10**6, "scale": "log"},
    {"kind": "number", "min": 0, "max": 1},
    {"kind": "number", "min": -8e307, "max": 8e307},
    {"kind": "number", "min": 1e-300, "max": 1e300, "scale": "log"},
    {"kind": "number", "min": -1.5, "max": 2.25, "decimals": 1, "special": ("N", -1)},
    {"kind": "number", "min": 0, "max": 1, "decimals": 15},
    {"kind": "category", "levels": ("a", "1")},
    {"kind": "category", "levels": ("",), "other": "others"},
    {"kind": "ordinal", "levels": ("1", "2", "3")},
    {"kind": "boolean"},
    {"kind": "boolean", "levels": ("male", "female")},
    *({"kind": "datetime", **DAYS, "format": look} for look in (None, "%d.%m.%Y", "%d/%m/%y", "%Y%m%d", "%Y %j %p")),
    {"kind": "datetime", **EVER, "resolution": "microsecond"},
    {"kind": "datetime", **EVER, "resolution": "hour", "zone": "Asia/Kolkata"},
    {"kind": "datetime", **EVER, "resolution": "second", "format": "%Y-%m-%dT%H:%M:%S%z", "zone": "Europe/Helsinki"},
]


def opened(column):
    """The column with nothing declared but its kind."""
    if column.is_ranged:
        return column.replace(min=None, max=None, special=None, heaps=None, nullable=None)
    return column.replace(nullable=None, **({"levels": None} if column.kind == "category" else {}))


def votes(column, table):
    look = look_at(column, table)
    ballots = [value_ballot(look), rare_value_ballot(look)]
    if column.is_ranged:
        grids = (ranges.magnitudes(column), ranges.parts(-1.0, 1e18))
        ballots += [look.number_ballot(grid, inside=inside) for grid, inside in zip(grids, (False, True), strict=True)]
    return tally(ballots)


@pytest.mark.parametrize("cells", ARRAYS)
def test_no_cell_is_refused_where_rows_are_read(cells):
    array, synthetic = ARRAYS[cells], PrivateTable(pa.table({"x": ["1"] * 60}))
    chunks = pa.chunked_array([array, array[:0], array[:1]])
    tables = [PrivateTable(pa.table({"x": array})), PrivateTable(pa.table({"x": chunks}))]
    tables += [PrivateTable(pa.table({"x": array}), style=CsvStyle(decimal=","))] if cells == "texts" else []
    guess("x", array)
    for table in tables:
        rows = table.reveal().num_rows
        for kind in KINDS:
            for nullable in (True, False):
                column = Column(name="x", nullable=nullable, **kind)
                schema = Schema((column,))
                for view in ("continuous", "discrete"):
                    assert {len(made) for made in encode(schema, table, view=view).values()} == {rows}
            assert all(sums.ndim == 1 for sums in votes(opened(column), table))
            assert len(to_frame(schema, table)) == rows
        sheets, _ = read_sheets(
            {SYNTHETIC: synthetic, REAL: table},
            Schema((Column(name="x", nullable=True, **KINDS[0]),)),
            by=SYNTHETIC,
            judged={SYNTHETIC},
        )
        assert sheets[REAL].rows == rows

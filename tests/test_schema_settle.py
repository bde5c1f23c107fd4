"""What is given in another shape is settled, in value and in type."""

import contextlib
import datetime
import math

import numpy as np
import pandas as pd
import pytest
from schema_cases import DAY, HELSINKI, LEAST, MIDNIGHT, NOON, UTC, column, problems_of

from twinify_lite.errors import SchemaError
from twinify_lite.schema import KINDS, RANGED, Column, Schema
from twinify_lite.schema.rules import column_problems
from twinify_lite.schema.settle import DEFAULTS, LAST, settle


@pytest.mark.parametrize(
    ("kind", "keys", "settled"),
    [
        ("number", {"special": ["N", -1]}, {"special": ("N", -1)}),
        ("number", {"heaps": [0, 0.5]}, {"heaps": (0, 0.5)}),
        ("number", {"min": 0.0, "max": 3.0}, {"min": 0.0, "max": 3.0}),
        ("number", {"min": 1, "peeked": ["min"]}, {"peeked": ("min",)}),
        ("integer", {"min": 3.0, "max": 4.0}, {"min": 3, "max": 4}),
        ("integer", {"heaps": [40.0], "special": [9999.0, "N"]}, {"heaps": (40,), "special": (9999, "N")}),
        ("category", {"levels": ["a", 1, True, False]}, {"levels": ("a", "1", "true", "false")}),
        ("category", {"other": 9}, {"other": "9"}),
        ("ordinal", {"levels": [1, 2, 3]}, {"levels": ("1", "2", "3")}),
        ("boolean", {}, {"levels": ("false", "true")}),
        ("boolean", {"levels": [0, 1]}, {"levels": ("0", "1")}),
        ("boolean", {"levels": [False, True]}, {"levels": ("false", "true")}),
        ("constant", {}, {"nullable": False}),
        ("constant", {"nullable": True}, {"nullable": True}),
        ("identifier", {"pattern": None, "sample": None}, {"pattern": "{}", "sample": "omit"}),
        ("datetime", {"min": "2024-05-06"}, {"min": DAY}),
        ("datetime", {"min": MIDNIGHT, "heaps": [MIDNIGHT]}, {"min": DAY, "heaps": (DAY,)}),
        ("datetime", {"special": ["2024-05-07", MIDNIGHT]}, {"special": ("2024-05-07", DAY)}),
        ("datetime", {"min": "2024-05-06T12:00:00", "resolution": "hour"}, {"min": NOON}),
        ("datetime", {"format": "%F %T %%F"}, {"format": "%Y-%m-%d %H:%M:%S %%F"}),
    ],
)
def test_what_is_given_in_another_shape_is_settled_in_value_and_in_type(kind, keys, settled):
    made = column(kind, **keys)
    for key, value in settled.items():
        assert repr(getattr(made, key)) == repr(value)


@pytest.mark.parametrize("kind", RANGED)
def test_a_declared_range_closes_what_stands_beside_it_and_half_a_range_does_not(kind):
    low, high = (DAY, DAY.replace(day=7)) if kind == "datetime" else (0, 1)
    whole = column(kind, min=low, max=high)
    assert (whole.special, whole.heaps, whole.open) == ((), (), ("nullable",))
    assert column(kind, min=low, max=high, special=("N",)).special == ("N",)
    assert column(kind, min=low).open == ("max", "special", "heaps", "nullable")
    assert column(kind, special=()).open == ("min", "max", "heaps", "nullable")


@pytest.mark.parametrize("resolution", LAST)
def test_a_max_that_is_a_date_includes_all_of_that_day_at_the_columns_resolution(resolution):
    made = column("datetime", min=DAY, max="2024-05-06", heaps=[DAY], resolution=resolution)
    assert made.min == made.heaps[0] == MIDNIGHT
    assert made.max.date() == DAY
    step = datetime.timedelta(**{f"{resolution}s": 1})
    assert made.max + step == datetime.datetime(2024, 5, 7)


def test_midnight_in_the_columns_zone_is_a_date_and_midnight_elsewhere_is_none():
    aware = datetime.datetime(2024, 5, 6, tzinfo=HELSINKI)
    assert repr(column("datetime", min=aware, zone="Europe/Helsinki").min) == repr(DAY)
    assert repr(column("datetime", min=aware.astimezone(UTC), zone="+03:00").min) == repr(DAY)
    assert "must be a date" in problems_of("datetime", min=MIDNIGHT.replace(tzinfo=UTC), zone="+03:00")[0]


def test_a_moment_in_a_zone_keeps_its_instant_with_a_fixed_offset_of_whole_minutes():
    repeated = datetime.datetime(2024, 10, 27, 3, 30, tzinfo=HELSINKI, fold=1)
    old = datetime.datetime(1850, 1, 1, tzinfo=HELSINKI)  # local mean time, +01:39:49
    for moment in (repeated, old):
        settled = column("datetime", min=moment, resolution="second", zone="Europe/Helsinki").min
        assert settled.timestamp() == moment.timestamp()
        assert isinstance(settled.tzinfo, datetime.timezone)
        assert settled.utcoffset() % datetime.timedelta(minutes=1) == datetime.timedelta()


def test_scalars_of_numpy_and_pandas_become_those_of_python():
    made = column(min=np.float64(0.5), max=np.int64(3), nullable=np.bool_(True), special=[np.str_("N")])
    assert [type(value) for value in (made.min, made.max, made.nullable, made.special[0])] == [float, int, bool, str]
    assert type(Schema((column(),), rows=np.int32(5)).rows) is int
    moment = column("datetime", min=pd.Timestamp(2024, 5, 6, 12), resolution="second").min
    assert (type(moment), moment) == (datetime.datetime, NOON)
    assert "max must be a date or a time" in problems_of("datetime", max=pd.NaT)[0]


@pytest.mark.parametrize("kind", [*KINDS, "nonsense", None, ["number"]])
@pytest.mark.parametrize("value", [None, True, -1, 1.5, math.nan, "x", "", (), [[]], {}, b"", object(), 10**400])
def test_nothing_that_a_key_may_hold_makes_settling_or_checking_raise_anything_else(kind, value):
    for key in ("name", *DEFAULTS):
        with contextlib.suppress(SchemaError):
            made = Column(**{"name": "a", "kind": kind, **LEAST.get(str(kind), {}), key: value})
            assert {field: getattr(made, field) for field in DEFAULTS} == settle(made)
            assert column_problems(made) == []


def test_a_column_can_change_its_kind_although_its_range_had_closed_other_keys():
    assert column(min=0, max=1).replace(kind="category", min=None, max=None).special is None

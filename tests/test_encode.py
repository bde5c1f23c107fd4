"""Tables become arrays and come back, exact up to the declared resolution."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from columns import cases, tables
from encode_cases import PROFILE, VIEWS, back, close, integer, of, same, single
from hypothesis import given, settings
from hypothesis import strategies as st

from twinify_lite.encode import decode, encode, layout
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column, Schema
from twinify_lite.table import CsvStyle, PrivateTable, read_table, write_table

# -- there and back ---------------------------------------------------------------------------------------------------


@settings(PROFILE, max_examples=600)
@given(cases())
def test_what_is_decoded_is_what_was_encoded_up_to_the_declared_resolution(case):
    schema, table = single(case)
    back = decode(schema, encode(schema, table))[case.column.name]
    for found, wanted in zip(back.to_pylist(), case.expected, strict=True):
        assert close(found, wanted, case.tolerance), (found, wanted)
    if case.column.dtype is not None and not pa.types.is_dictionary(case.array.type):
        assert back.type == case.array.type


@VIEWS
@settings(PROFILE, max_examples=300)
@given(cases(), st.integers(1, 70))
def test_encoding_what_was_decoded_changes_nothing(view, case, bins):
    schema, table = single(case)
    arrays = encode(schema, table, view=view, bins=bins)
    same(encode(schema, decode(schema, arrays, view=view, bins=bins), view=view, bins=bins), arrays)


@settings(PROFILE, max_examples=600)
@given(cases(st.just(1)), st.integers(1, 300), st.none() | st.integers(0, 9))
def test_every_code_of_every_column_comes_back_from_every_draw(case, bins, seed):
    schema, _ = single(case)
    plan = layout(case.column, bins)
    codes = {case.column.name: np.repeat(np.arange(plan.size), 3).astype(plan.dtype)}
    rng = None if seed is None else np.random.default_rng(seed)
    same(encode(schema, decode(schema, codes, view="discrete", bins=bins, rng=rng), view="discrete", bins=bins), codes)


@settings(PROFILE)
@given(cases(), st.integers(1, 70), st.integers(0, 9))
def test_a_discrete_value_stays_in_its_bin_and_all_else_is_exact(case, bins, seed):
    schema, table = single(case)
    plan = layout(case.column, bins)
    arrays = encode(schema, table, view="discrete", bins=bins)
    (codes,) = arrays.values()
    assert codes.dtype == np.min_scalar_type(plan.size - 1)
    assert codes.max() < plan.size
    back = decode(schema, arrays, view="discrete", bins=bins, rng=np.random.default_rng(seed)).column(0).to_pylist()
    for code, found, wanted in zip(codes, back, case.expected, strict=True):
        if case.column.is_levelled or code >= plan.bins:
            assert close(found, wanted, 0)


@settings(PROFILE, max_examples=60)
@given(tables(), st.randoms())
def test_a_table_keeps_the_order_of_its_columns_and_leaves_out_what_it_must(made, random):
    columns = [case.column.replace(name=f"c{i}") for i, case in enumerate(made)]
    columns += [Column(name="id", kind="identifier"), Column(name="key", kind="identifier", sample="surrogate")]
    columns += [Column(name="one", kind="constant", value="1")]
    random.shuffle(columns)
    rows = len(made[0].array)
    data = {f"c{i}": case.array for i, case in enumerate(made)}
    data |= {"one": pa.array(["1"] * rows), "id": pa.array(["x"] * rows), "key": pa.array(["y"] * rows)}
    schema = Schema(columns)
    back = decode(schema, encode(schema, pa.table(data)), first=100)
    assert back.column_names == [column.name for column in columns if column.name != "id"]
    assert back["key"].to_pylist() == [str(101 + row) for row in range(rows)]
    assert back["one"].to_pylist() == ["1"] * rows
    for i, case in enumerate(made):
        assert all(map(close, back[f"c{i}"].to_pylist(), case.expected, [case.tolerance] * rows))


@settings(PROFILE, max_examples=60)
@given(tables())
def test_a_table_from_pandas_comes_back_as_the_same_frame(made):
    kept = [
        case for case in made if case.column.dtype in ("double", "categorical", "timestamp[ns]") and not case.tolerance
    ]
    if not kept:
        return
    frame = pa.table({f"c{i}": case.array for i, case in enumerate(kept)}).to_pandas()
    schema = Schema([case.column.replace(name=f"c{i}") for i, case in enumerate(kept)])
    back = decode(schema, encode(schema, PrivateTable(frame))).to_pandas()
    for name in frame:
        assert back[name].dtype == frame[name].dtype or isinstance(frame[name].dtype, pd.CategoricalDtype)
        assert back[name].astype(object).where(back[name].notna(), None).tolist() == (
            frame[name].astype(object).where(frame[name].notna(), None).tolist()
        )


# -- models are not exact ---------------------------------------------------------------------------------------------


@settings(PROFILE)
@given(cases(st.just(1)), st.lists(st.floats(-9, 9) | st.sampled_from([np.nan, np.inf, -np.inf]), min_size=1))
def test_any_float_decodes_to_a_value_in_the_range_or_to_missing(case, places):
    if not case.column.is_ranged:
        return
    schema, _ = single(case)
    arrays = {"x": np.array(places), "x:state": np.zeros(len(places), np.uint8)}
    again = encode(schema, decode(schema, arrays))
    missing = np.isnan(places) & bool(case.column.nullable)
    if "x:state" in again:
        np.testing.assert_array_equal(again["x:state"] == len(case.column.special) + 1, missing)
    assert np.isfinite(again["x"]).all()
    assert (np.abs(again["x"]) <= 1).all()
    low, high = (again["x"][np.array(places) == end] for end in (-np.inf, np.inf))
    assert (low == -1).all() or case.tolerance
    assert (high == 1).all() or case.tolerance


def test_a_place_at_a_special_value_within_the_range_is_that_special_value():
    from twinify_lite.schema.constraints import Constraint

    column = integer(special=("N", 50), nullable=False)
    level = Column(name="y", kind="category", levels=("a", "b"), nullable=False)
    schema = Schema((column, level), (Constraint.parse("x determines y"),))
    arrays = {"x": np.zeros(3), "x:state": np.array([0, 2, 2]), "y": np.array([0, 1, 1])}
    assert decode(schema, arrays).to_pydict() == {"x": ["50"] * 3, "y": ["b"] * 3}


def test_what_is_outside_the_bounds_is_clamped_to_them():
    assert back(integer(), of(integer(), ["-5", "7", "1000", "99999999999999999999"])) == [0, 7, 100, None]
    number = Column(name="x", kind="number", min=-1.5, max=2.5, nullable=False)
    assert back(number, of(number, [-1e300, 1e300])) == [-1.5, 2.5]
    codes = of(number, [-1e300, 1e300], view="discrete", bins=4)["x"]
    assert codes.tolist() == [0, 3]


def test_the_place_of_a_cell_without_a_value_is_zero():
    arrays = of(integer(special=(-1,)), ["100", "-1", None, "junk", "0"])
    assert arrays["x"].tolist() == [1, 0, 0, 0, -1]
    assert arrays["x:state"].tolist() == [0, 1, 2, 2, 0]


# -- what stands for missing ------------------------------------------------------------------------------------------


@VIEWS
@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (integer(nullable=False), 50),
        (integer(nullable=False, heaps=(40, 0)), 40),
        (integer(nullable=False, special=(50,)), 51),
        (integer(nullable=False, min=49, max=50, special=(50,)), 49),
        (Column(name="x", kind="number", min=0, max=1, nullable=False), 0.5),
        (Column(name="x", kind="number", min=0.01, max=100, nullable=False, scale="log", decimals=2), 1.0),
        (Column(name="x", kind="category", levels=("a", "b"), nullable=False), "a"),
        (Column(name="x", kind="category", levels=("a", "b"), other="rest", nullable=False), "rest"),
        (Column(name="x", kind="boolean", nullable=False), "false"),
        (
            Column(
                name="x", kind="datetime", min=datetime.date(2000, 1, 1), max=datetime.date(2000, 1, 3), nullable=False
            ),
            datetime.date(2000, 1, 2),
        ),
    ],
)
def test_missing_where_nothing_may_be_missing_becomes_the_fallback(view, column, wanted):
    arrays = of(column, pa.array([None, ""]), view=view)
    found = back(column, arrays, view=view)
    if view == "continuous" or column.is_levelled:
        assert found == [wanted] * 2
    else:
        wanted = {"x": pa.array([wanted] * 2)}
        same(encode(Schema((column,)), pa.table(wanted), view=view), arrays)


def test_a_number_that_is_not_finite_is_missing():
    column = Column(name="x", kind="number", min=0, max=1, nullable=True)
    for arrow in (pa.float32(), pa.float64(), pa.float16()):
        cells = pa.array(np.array([np.nan, np.inf, -np.inf, 1], arrow.to_pandas_dtype()))
        assert of(column, cells)["x:state"].tolist() == [1, 1, 1, 0]
    assert of(column, ["NaN", "inf", "-Infinity", "0.5"])["x:state"].tolist() == [1, 1, 1, 0]
    level = Column(name="x", kind="category", levels=("1",), other="rest", nullable=True)
    assert of(level, [np.nan, 1.0, 2.0])["x"].tolist() == [2, 0, 1]


# -- compact arrays ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (integer(max=2**22 - 1), np.float32),
        (integer(max=2**22), np.float64),
        (Column(name="x", kind="number", min=0, max=1, nullable=False), np.float32),
        (Column(name="x", kind="number", min=0, max=1, decimals=9, nullable=False), np.float64),
        (integer(min=1, max=10**4, scale="log"), np.float32),
        (integer(min=1, max=10**7, scale="log"), np.float64),
    ],
)
def test_a_place_is_a_float32_where_the_resolution_survives_it(column, dtype):
    assert of(column, ["1"])["x"].dtype == dtype


@pytest.mark.parametrize(("count", "dtype"), [(254, np.uint8), (255, np.uint8), (256, np.uint16), (65536, np.uint32)])
def test_codes_have_the_shortest_type_with_room_for_missing(count, dtype):
    column = Column(name="x", kind="category", levels=tuple(map(str, range(count))), nullable=True)
    for view in ("continuous", "discrete"):
        arrays = of(column, ["0", None], view=view)
        assert arrays["x"].dtype == dtype
        assert arrays["x"].tolist() == [0, count]


def test_every_step_up_to_2_to_the_52_is_exact():
    column = integer(min=-(2**51), max=2**51, nullable=False)
    ends = np.array([0, 1, 2, 3, 1000, 2**50, 2**51 - 1, 2**51])
    cells = np.concatenate([-ends, ends])
    assert back(column, of(column, cells)) == cells.tolist()


# -- constants and identifiers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype", "wanted", "arrow"),
    [
        ("ÅÄ", None, "ÅÄ", pa.string()),
        (5, None, 5, pa.int64()),
        (5, "int8", 5, pa.int8()),
        (True, "bool", True, pa.bool_()),
        (datetime.date(1899, 1, 1), "date32", datetime.date(1899, 1, 1), pa.date32()),
        (2.5, "double", 2.5, pa.float64()),
        ("x", "int8", "x", pa.string()),
        ("a", "categorical", "a", pa.dictionary(pa.int32(), pa.string())),
        (decimal.Decimal("1.5").__float__(), "decimal(5,2)", decimal.Decimal("1.50"), pa.decimal128(5, 2)),
    ],
)
def test_a_constant_is_in_every_row_in_its_own_type(value, dtype, wanted, arrow):
    schema = Schema((integer(nullable=False), Column(name="k", kind="constant", value=value, dtype=dtype)))
    column = decode(schema, {"x": np.zeros(3)})["k"]
    assert column.to_pylist() == [wanted] * 3
    assert column.type == arrow


@pytest.mark.parametrize(
    ("pattern", "dtype", "wanted"), [("P{:03d}", None, "P008"), ("{}", "int64", 8), ("P{}", "int64", "P8")]
)
def test_a_surrogate_counts_on_from_the_rows_before(pattern, dtype, wanted):
    column = Column(name="k", kind="identifier", sample="surrogate", pattern=pattern, dtype=dtype)
    assert decode(Schema((integer(nullable=False), column)), {"x": np.zeros(1)}, first=7)["k"].to_pylist() == [wanted]


def test_a_table_that_no_model_sees_has_the_rows_that_are_asked_for():
    key = Column(name="k", kind="identifier", sample="surrogate")
    schema = Schema((key, Column(name="one", kind="constant", value=1)))
    assert decode(schema, {}, rows=2, first=3).to_pydict() == {"k": ["4", "5"], "one": [1, 1]}
    assert decode(schema, {}, rows=0).num_rows == 0
    with pytest.raises(SchemaError, match=r"rows=\.\.\."):
        decode(schema, {})


def test_the_rows_that_are_asked_for_are_those_of_the_arrays():
    schema = Schema((integer(nullable=False),))
    assert decode(schema, {"x": np.zeros(2)}, rows=2).num_rows == 2
    with pytest.raises(SchemaError, match="rows"):
        decode(schema, {"x": np.zeros(2)}, rows=3)


# -- with the other parts ---------------------------------------------------------------------------------------------


PRICES = "price;weight;day;age\n1,50;36,0;01.02.1899;7\nN;;;\n20,25;7,5;29.02.2024;40\n"


def prices(**more):
    price = Column(name="price", kind="number", min=0, max=100, decimals=2, special=("N",), nullable=False)
    weight = Column(name="weight", kind="number", min=0, max=100, decimals=1, nullable=True)
    day = Column(
        name="day",
        kind="datetime",
        min=datetime.date(1850, 1, 1),
        max=datetime.date(2050, 1, 1),
        format="%d.%m.%Y",
        nullable=True,
    )
    return Schema((price, weight, day, integer(name="age")), style=CsvStyle(";", ",", **more))


def test_a_csv_file_with_decimal_commas_comes_back_as_it_was(tmp_path):
    (tmp_path / "t.csv").write_text(PRICES)
    schema, table = prices(), read_table(tmp_path / "t.csv", decimal=",")
    back = decode(schema, encode(schema, table))
    assert back.to_pydict() == {
        "price": ["1,50", "N", "20,25"],
        "weight": [36.0, None, 7.5],
        "day": ["01.02.1899", None, "29.02.2024"],
        "age": [7, None, 40],
    }
    write_table(back, tmp_path / "twin.csv")
    assert (tmp_path / "twin.csv").read_text() == PRICES
    same(encode(schema, back), encode(schema, table))


def test_the_table_may_be_a_path_a_frame_or_a_private_table(tmp_path):
    schema = prices(encoding="latin-1")
    (tmp_path / "t.csv").write_bytes(PRICES.encode("latin-1"))
    wanted = encode(schema, read_table(tmp_path / "t.csv", decimal=",", encoding="latin-1"))
    same(encode(schema, tmp_path / "t.csv"), wanted)
    same(encode(schema, str(tmp_path / "t.csv")), wanted)
    frame = decode(schema, wanted).to_pandas()
    same(encode(schema, frame), wanted)
    same(encode(schema, PrivateTable(frame)), wanted)


def test_decimals_are_noted_only_where_they_lose_nothing(tmp_path):
    odd = Column(name="x", kind="number", min=0, max=9, decimals=1, special=(0.125,), nullable=False)
    schema = Schema((odd, Column(name="y", kind="number", min=0, max=9, decimals=1, dtype="float", nullable=False)))
    table = decode(schema, encode(schema, pa.table({"x": [0.125, 3.0], "y": [0.1, 3.0]})))
    write_table(table, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "x,y\n0.125,0.1\n3,3.0\n"


@VIEWS
def test_constraints_hold_in_what_is_decoded(view):
    from twinify_lite.schema.constraints import Constraint

    columns = [integer(name=name, nullable=False) for name in ("low", "high")]
    schema = Schema(columns, constraints=(Constraint.parse("low <= high"),))
    arrays = encode(Schema(columns), pa.table({"low": ["90", "1"], "high": ["5", "60"]}), view=view, bins=200)
    assert decode(schema, arrays, view=view, bins=200).to_pydict() == {"low": [5, 1], "high": [90, 60]}


def test_an_enforcer_that_is_given_is_the_one_that_is_asked():
    class Forgetful:
        def apply(self, cells):
            return {name: column._replace(value=column.value * 0) for name, column in cells.items()}

    schema = Schema((integer(nullable=False),))
    assert decode(schema, {"x": np.ones(2)}, enforcer=Forgetful())["x"].to_pylist() == [0, 0]


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        ({"min": 0, "max": 100}, ["1.01", "0", "99.999", "33.5"]),
        ({"min": -1e9, "max": 1e9}, ["0", "1000", "-999999000"]),
        ({"min": 1e-6, "max": 1e6, "scale": "log"}, ["0.001", "1", "12345", "1e-06"]),
    ],
)
def test_a_number_of_any_decimals_comes_back_with_the_digits_that_it_needs(keys, texts):
    schema = Schema([Column(name="x", kind="number", nullable=False, special=(), heaps=(), **keys)])
    table = pa.table({"x": pa.array(texts)})
    back = decode(schema, encode(schema, table))["x"].to_pylist()
    given, now = (np.array(numbers, float) for numbers in (texts, back))
    assert (np.abs(given - now) <= 2e-5 * np.maximum(1, np.abs(given))).all()
    assert all(len(str(now)) <= 12 for now in back)


def test_days_of_a_typed_table_are_written_to_csv_as_days(tmp_path):
    days = pa.table({"day": pa.array([datetime.datetime(2022, 4, 12)] * 3, pa.timestamp("ns")), "n": [1, 2, 3]})
    first, last = datetime.date(2022, 1, 1), datetime.date(2023, 1, 1)
    typed = Column(name="day", kind="datetime", min=first, max=last, nullable=False, dtype="timestamp[ns]")
    schema = Schema([typed, Column(name="n", kind="integer", min=0, max=9, nullable=False)])
    rows = decode(schema, encode(schema, days))
    assert rows.schema.field("day").type == pa.timestamp("ns")
    write_table(rows, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "day,n\n2022-04-12,1\n2022-04-12,2\n2022-04-12,3\n"

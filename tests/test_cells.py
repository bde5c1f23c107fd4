"""Cells are read as their kind, each by itself, and written back."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
from cell_cases import PROFILE, column, cycle
from hypothesis import given, settings
from hypothesis import strategies as st

from twinify_lite import cells
from twinify_lite.cells import (
    MISSING,
    Cells,
    arrow_type,
    dtype_of,
    fixed,
    integers,
    numbers,
    read,
    says_something,
    texts,
    write,
)
from twinify_lite.schema import Column

# -- texts ------------------------------------------------------------------------------------------------------------


def test_whole_numbers_are_the_same_texts_as_floats():
    whole = [3, 0, -7, 10**9, 10**10, 123_456_789_012, 10**15, 2**53, -(10**12)]
    assert texts(pa.array(whole, pa.float64())).to_pylist() == texts(pa.array(whole, pa.int64())).to_pylist()
    assert texts(pa.array([1e300, 2.5e-9, None, 0.1])).to_pylist() == ["1e+300", "2.5e-9", None, "0.1"]


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_texts_are_numbers_however_they_are_written():
    cells = ["5", "+5", " 5 ", "5.", ".5", "1e2", "-1E-2", "0x1F", "1_000", "1,5", "٣", "", None, "inf", "1e400"]
    wanted = [5, 5, 5, 5, 0.5, 100, -0.01, None, None, None, None, None, None, None, None]
    assert numbers(pa.array(cells)).to_pylist() == wanted


def test_whole_numbers_keep_all_their_digits_beside_cells_that_are_none():
    great = 2**53 + 1
    cells = [str(great), "N", "", "0x1F", "0X1F", "7.0", "2.5", " +3", str(2**63 - 1), str(2**63), "1e30", "9" * 5000]
    wanted = [great, None, None, None, None, 7, 2, 3, 2**63 - 1, None, None, None]
    assert integers(pa.array(cells)).to_pylist() == wanted
    assert integers(pa.array([2**63 + 5, 2**53 + 1], pa.uint64())).to_pylist() == [None, great]
    assert integers(pa.array([decimal.Decimal(great), decimal.Decimal(10**30)])).to_pylist() == [great, None]


def test_a_decimal_comma_is_read_and_written():
    number = column("number", decimals=2, special=("N",))
    cells = read(number, pa.array(["1,50", "N", "2"]), decimal=",")
    assert write(number, cells, decimal=",").to_pylist() == ["1,50", "N", "2,00"]
    assert read(column("integer"), pa.array(["3,0"]), decimal=",").value.tolist() == [3]


def test_a_point_beside_decimal_commas_parts_thousands_and_is_nothing_else():
    texts = pa.array(["26.838", "1.234.567,89", "-1.000", "3.5", "1.23", "1.0000", "12.34,5"])
    assert numbers(texts, decimal=",").to_pylist() == [26838, 1234567.89, -1000, None, None, None, None]
    assert integers(texts, decimal=",").to_pylist() == [26838, 1234568, -1000, None, None, None, None]


@PROFILE
@given(st.lists(st.integers(-(10**12), 10**12), min_size=1), st.integers(0, 9))
def test_a_number_beside_words_is_written_with_all_its_decimals(steps, places):
    number = column("number", decimals=places, special=("N",))
    exact = [f"{decimal.Decimal(step).scaleb(-places):f}" for step in steps]
    assert cycle(number, [*exact, "N"]) == [*exact, "N"]


def test_no_zero_is_written_with_a_minus():
    assert cycle(column("number", decimals=1, special=("N",)), ["-0.01", "-0"]) == ["0.0", "0.0"]
    for decimals in (None, 1):
        assert str(cycle(column("number", decimals=decimals), ["-0.0"])) == "[0.0]"


def test_special_values_are_written_as_they_stand_in_the_schema():
    assert cycle(column("number", decimals=1, special=("N", -1)), ["-1.0", "N", "5"]) == ["-1", "N", "5.0"]
    assert cycle(column("number", decimals=1, special=(0.005,)), ["0.005", "0.01"]) == [0.005, 0.0]
    assert cycle(column("integer", special=(-1,)), ["-1", "5"]) == [-1, 5]
    assert cycle(column("integer", special=("9999",)), ["9999", "5"]) == ["9999", "5"]
    text = pa.array(["9999", "5"]).dictionary_encode()
    assert cycle(column("integer", special=(9999,), dtype="categorical"), text) == ["9999", "5"]


def test_a_special_value_of_a_short_float_is_known_in_its_own_precision():
    short = column("number", special=(-9.9,), dtype="float")
    assert read(short, pa.array([-9.9, 1.5], pa.float32())).state.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("dtype", "most"),
    [
        ("int8", 127),
        ("uint8", 255),
        ("int64", 2**63 - 1),
        ("uint64", 2**63 - 1),
        ("decimal(4,1)", decimal.Decimal(999)),
    ],
)
def test_a_value_beyond_the_type_becomes_the_nearest_that_it_holds(dtype, most):
    cells = Cells(np.array([-(2**63), 2**63 - 1]), np.zeros(2, np.int16))
    written = write(column("integer", dtype=dtype), cells).to_pylist()
    assert written[1] == most
    assert written[0] == (0 if dtype.startswith("u") else -most - (not dtype.startswith("d")))
    if dtype != "uint64":  # which no int64 exceeds, but a float does
        floats = Cells(np.array([1e30]), np.zeros(1, np.int16))
        assert float(write(column("number", dtype=dtype), floats)[0].as_py()) == pytest.approx(float(most), rel=1e-3)


def test_a_number_in_an_integer_type_is_rounded_not_cut():
    assert write(column("number", dtype="int32"), Cells(np.array([2.7]), np.zeros(1, np.int16))).to_pylist() == [3]


@pytest.mark.parametrize(
    "arrow",
    [
        *(pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.large_string(), pa.string()),
        *(pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns"), pa.decimal128(9, 2), pa.decimal256(50, 3)),
    ],
    ids=str,
)
def test_a_type_is_that_of_its_name(arrow):
    kind = "datetime" if pa.types.is_temporal(arrow) else "category"
    more = {"levels": ("a",)} if kind == "category" else {}
    assert arrow_type(column(kind, dtype=dtype_of(arrow), **more)) == arrow


# -- levels -----------------------------------------------------------------------------------------------------------


def test_other_words_for_true_stand_in_only_for_levels_that_mean_it():
    assert read(column("boolean"), pa.array(["T", "no", "1", "TRUE", None, "x"])).value[:4].tolist() == [1, 0, 1, 1]
    sexes = column("boolean", levels=("male", "female"))
    assert read(sexes, pa.array(["female", "male", "F"])).state.tolist() == [0, 0, MISSING]


def test_truths_have_codes_whatever_their_levels_are_called():
    sexes = column("boolean", levels=("male", "female"), dtype="bool")
    assert cycle(sexes, [True, False, None]) == [True, False, None]
    assert cycle(column("boolean", dtype="int8"), pa.array([1, 0, None], pa.int8())) == [1, 0, None]


def test_a_blank_cell_is_missing_unless_blank_is_a_level():
    assert cycle(column("category", levels=("a",), other="rest"), ["a", "", " ", "b", None]) == [
        *("a", None, None, "rest", None)
    ]
    assert cycle(column("category", levels=("a", "")), ["a", "", None]) == ["a", "", None]


def test_levels_that_are_not_of_the_columns_type_are_written_as_text():
    assert cycle(column("category", levels=("1",), other="rest", dtype="int8"), pa.array([1, 2], pa.int8())) == [
        *("1", "rest")
    ]


def test_an_ordinal_of_categories_keeps_its_order():
    made = write(column("ordinal", levels=("b", "a"), dtype="categorical"), Cells(np.array([1]), np.zeros(1, np.int16)))
    assert made.type.ordered
    assert made.dictionary.to_pylist() == ["b", "a"]


# -- what fits --------------------------------------------------------------------------------------------------------


def test_cells_that_do_not_fit_are_missing_however_many_they_are():
    assert read(column("integer"), pa.array(["1", *["", " ", "NA", "nan", "?", None] * 9])).state[0] == 0
    assert read(column("number"), pa.array([1.0, *[np.nan] * 9])).state.tolist() == [0] + [MISSING] * 9
    for words in range(8):
        found = read(column("integer"), pa.array(["1", "2", *["a"] * words]))
        assert found.state.tolist() == [0, 0] + [MISSING] * words
    levels = read(column("category", levels=("x",), other="rest"), pa.array(["x", "a", "b", "c"]))
    assert (levels.value.tolist(), levels.state.tolist()) == ([0, 1, 1, 1], [0] * 4)


def test_texts_that_say_nothing_of_a_kind_are_told_from_those_that_do():
    cells = pa.array(["1", "", " ", "NA", "nan", "?", None, "a"])
    assert says_something(column("integer"), cells).tolist() == [True, *[False] * 6, True]
    levels = says_something(column("category", levels=("a",)), cells)
    assert levels.tolist() == [True, False, False, True, True, True, False, True]


def test_chunks_and_their_absence_make_no_difference():
    whole = pa.array(["1", "N", None, "7"])
    chunked = pa.chunked_array([whole[:1], whole[1:1], whole[1:]])
    for one, other in zip(read(column("integer"), whole), read(column("integer"), chunked), strict=True):
        np.testing.assert_array_equal(one, other)
    empty = read(column("datetime"), pa.chunked_array([], pa.string()))
    assert (len(empty.value), empty.value.dtype) == (0, np.int64)
    assert texts(pa.chunked_array([], pa.large_string())).to_pylist() == []


TEXTS = [
    *(
        "0",
        "-0",
        " 1",
        "+1",
        "1e400",
        "007",
        "0x1F",
        "nan",
        "9" * 30,
        "1.5",
        "1,5",
        "N",
        "٣",
        "2023-02-30",
        "2024-02-29",
    ),
    *("2023-01-01", "2023-1-1", "0000-01-01", "0001-01-01", "2023-01-01 10:00", "2023-01-01T10:00:00.123456789"),
    *("2023-01-01T10:00:00Z", "2023-01-01 10:00:00+02:00", "2024-03-31 03:30:00", "2999-07-01 12:00", "01.02.2023"),
    *("1.2.2023", "true", "F", "2023-01-01 10:00:00.5", "2023-01-01 24:00", "2023-W01-1", "20230101"),
]
READ_AS = [
    Column(name="x", kind="number"),
    Column(name="x", kind="integer"),
    Column(name="x", kind="boolean"),
    Column(name="x", kind="category", levels=("1", "N")),
    Column(name="x", kind="datetime"),
    Column(name="x", kind="datetime", resolution="microsecond"),
    Column(name="x", kind="datetime", resolution="second", zone="Europe/Helsinki"),
    Column(name="x", kind="datetime", resolution="second", zone="UTC", format="%Y-%m-%dT%H:%M:%S%z"),
    Column(name="x", kind="datetime", format="%d.%m.%Y"),
]


@pytest.mark.parametrize("column", READ_AS, ids=lambda column: f"{column.kind} {column.format or column.zone}")
@pytest.mark.parametrize("mark", [".", ","])
def test_what_a_cell_is_read_as_depends_on_that_cell_alone(column, mark):
    """Otherwise one row could change what all others vote for, and no noise would cover that."""
    alone = {text: cells.parse(column, pa.array([text]), decimal=mark) for text in TEXTS}
    for text in TEXTS:
        for other in TEXTS:
            value, state = cells.parse(column, pa.array([text, other]), decimal=mark)
            assert state[0] == alone[text].state[0], (text, other)
            assert state[0] != 0 or value[0] == alone[text].value[0], (text, other)


def test_a_whole_number_that_needs_another_digit_when_rounded_is_read():
    column = Column(name="x", kind="integer")
    array = pa.array([decimal.Decimal("12.50"), decimal.Decimal("999.99")], pa.decimal128(5, 2))
    assert list(cells.parse(column, array).value) == [12, 1000]


def test_chunks_with_more_values_together_than_their_index_can_number_are_read():
    chunks = [pa.array([f"v{i}" for i in range(start, start + 100)]).dictionary_encode() for start in (0, 100)]
    small = [chunk.cast(pa.dictionary(pa.int8(), pa.string())) for chunk in chunks]
    assert len(cells.texts(pa.chunked_array(small)).unique()) == 200


# -- numbers as text --------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.floats(-1e6, 1e6), max_size=9), st.integers(0, 15))
@settings(deadline=None)
def test_fixed_gives_every_number_all_its_decimals(values, decimals):
    value = np.array(values, float)
    for found, number in zip(fixed(value, value > 5, decimals).to_pylist(), values, strict=True):
        if number > 5 or not np.isfinite(number):
            assert found == (None if number > 5 else str(number))
            continue
        apart = abs(decimal.Decimal(found) - decimal.Decimal(number))
        assert apart <= decimal.Decimal("0.65").scaleb(-decimals)  # half a step, and what scaling may round
        assert len(found.partition(".")[2]) == decimals
        assert not found.startswith("-") or float(found) < 0


def test_one_number_that_is_not_finite_leaves_the_others_as_they_are():
    value = np.array([np.nan, 36.0, -0.001, -12.5, 1e300, np.inf])
    shown = fixed(value, np.array([False] * 5 + [True]), 2).to_pylist()
    assert shown == ["nan", "36.00", "0.00", "-12.50", f"{1e300:.2f}", None]
    assert fixed(np.array([-3.0, 0.4, -0.4]), np.zeros(3, bool), 0).to_pylist() == ["-3", "0", "0"]


@pytest.mark.parametrize("type", [pa.decimal256(76, 1), pa.decimal128(38, 37), pa.decimal256(76, 60)])
def test_decimals_of_any_precision_are_read_as_whole_numbers(type):
    column = Column(name="x", kind="integer")
    widest = "9" * (type.precision - type.scale) + "." + "9" * type.scale
    array = pa.array([decimal.Decimal("7.5"), decimal.Decimal(widest)], type)
    assert cells.parse(column, array).value[0] == 8

import datetime
import decimal
import zoneinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
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
    moment,
    moments,
    numbers,
    read,
    texts,
    ticks,
    write,
    zones,
)
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column

PROFILE = settings(deadline=None, max_examples=150, derandomize=True)
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


def test_most_cells_must_fit_but_those_that_say_nothing_do_not_count():
    assert read(column("integer"), pa.array(["1", *["", " ", "NA", "nan", "?", None] * 9])).state[0] == 0
    assert read(column("number"), pa.array([1.0, *[np.nan] * 9])).state.tolist() == [0] + [MISSING] * 9
    with pytest.raises(SchemaError, match="most of its cells"):
        read(column("integer"), pa.array(["1", "2", "a", "b", "c"]))


def test_chunks_and_their_absence_make_no_difference():
    whole = pa.array(["1", "N", None, "7"])
    chunked = pa.chunked_array([whole[:1], whole[1:1], whole[1:]])
    for one, other in zip(read(column("integer"), whole), read(column("integer"), chunked), strict=True):
        np.testing.assert_array_equal(one, other)
    empty = read(column("datetime"), pa.chunked_array([], pa.string()))
    assert (len(empty.value), empty.value.dtype) == (0, np.int64)
    assert texts(pa.chunked_array([], pa.large_string())).to_pylist() == []


# -- times ------------------------------------------------------------------------------------------------------------


def test_a_day_that_the_calendar_does_not_have_is_missing():
    day = column("datetime", format="%d.%m.%Y")
    cells = [
        "30.02.2024",
        "29.02.1900",
        "29.02.2024",
        "31.04.2024",
        "1.2.2024",
        " 01.02.2024 ",
        "01.02.2024",
        "01.02.1899",
    ]
    wanted = [None, None, "29.02.2024", None, "01.02.2024", "01.02.2024", "01.02.2024", "01.02.1899"]
    assert cycle(day, cells) == wanted


def test_times_before_1970_are_rounded_down():
    stamps = pa.array([-1, -1_000_000_001], pa.timestamp("ns"))
    assert moments(column("datetime", resolution="second"), stamps).to_pylist() == [-1, -2]
    assert moments(column("datetime", resolution="microsecond"), stamps).to_pylist() == [-1, -1_000_001]
    assert moments(column("datetime"), pa.array([10**18, 0], pa.timestamp("s"))).to_pylist() == [None, 0]


def test_a_fraction_of_any_length_is_read_and_one_of_the_resolution_is_written():
    fine = column("datetime", format="%d.%m.%Y %H:%M:%S,%f", resolution="millisecond")
    cells = ["01.02.1969 10:00:00,5", "01.02.2024 10:00:00,123456", "1.2.2024 9:00:00,5", "01.02.2024 10:00:00"]
    wanted = ["01.02.1969 10:00:00,500", "01.02.2024 10:00:00,123", "01.02.2024 09:00:00,500", None]
    assert cycle(fine, cells) == wanted
    coarse = column("datetime", format="%H:%M:%S.%f %d.%m.%Y", resolution="second")
    assert cycle(coarse, ["10:00:00.000000 01.02.2024"]) == ["10:00:00.000000 01.02.2024"]


def test_seconds_that_the_format_does_not_tell_are_not_written():
    assert cycle(column("datetime", format="%H:%M:%S %d.%m.%Y", resolution="millisecond"), ["10:00:05 01.02.1960"]) == [
        "10:00:05 01.02.1960"
    ]


def test_offsets_of_all_spellings_are_read_and_one_is_written():
    berlin = column("datetime", format="%Y-%m-%dT%H:%M:%S%z", resolution="second", zone="Europe/Berlin")
    cells = ["2024-07-01T12:00:00+0200", "2024-07-01T10:00:00Z", "2024-07-01T05:30:00-04:30", "2024-07-01T12:00:00"]
    assert cycle(berlin, cells) == ["2024-07-01T12:00:00+0200"] * 3 + [None]
    nowhere = berlin.replace(zone=None)
    assert cycle(nowhere, cells[:3]) == ["2024-07-01T10:00:00+0000"] * 3


def test_the_name_of_a_zone_is_read_over_and_written():
    berlin = column("datetime", format="%Y-%m-%d %H:%M %Z", resolution="minute", zone="Europe/Berlin")
    assert cycle(berlin, ["2024-07-01 12:00 CEST", "2024-01-01 12:00 CET"]) == [
        *("2024-07-01 12:00 CEST", "2024-01-01 12:00 CET")
    ]


def test_the_hour_that_autumn_has_twice_is_two_hours_of_instants():
    berlin = column("datetime", resolution="second", zone="Europe/Berlin", dtype="timestamp[us]")
    start = datetime.datetime(2024, 10, 26, 23, 30, tzinfo=UTC)
    twice = pa.array(
        [start + datetime.timedelta(minutes=10 * i) for i in range(20)], pa.timestamp("us", "Europe/Berlin")
    )
    assert cycle(berlin, twice) == twice.to_pylist()
    assert len(set(read(berlin, twice).value.tolist())) == 20
    offset = berlin.replace(dtype=None, format="%Y-%m-%d %H:%M:%S%z")
    told = pc.strftime(twice.cast(pa.timestamp("s", "Europe/Berlin")), format="%Y-%m-%d %H:%M:%S%z")
    assert cycle(offset, told) == told.to_pylist()


def test_wall_time_in_a_zone_comes_back_as_written_even_in_the_hours_of_change():
    berlin = column("datetime", resolution="minute", zone="Europe/Berlin", format="%d.%m.%Y %H:%M")
    cells = ["27.10.2024 02:30", "31.03.2024 02:30", "01.01.1880 12:00"]
    assert cycle(berlin, cells) == cells


@PROFILE
@given(
    st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2300, 1, 1)),
    st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Africa/Cairo", "Australia/Lord_Howe", "Africa/Casablanca"]),
)
def test_wall_time_is_that_of_zoneinfo_in_every_year_and_instants_are_its_inverse(time, name):
    instant = np.array([time], "datetime64[us]").astype(np.int64)
    wall = time.replace(tzinfo=UTC).astimezone(zoneinfo.ZoneInfo(name))
    assert zones.local(instant, name).view("datetime64[us]").tolist() == [wall.replace(tzinfo=None)]
    again = zones.instants(zones.local(instant, name), name)
    assert again == instant or (wall.fold and again < instant)


def test_hours_are_those_of_the_zone():
    india = column("datetime", resolution="hour", zone="Asia/Kolkata", dtype="timestamp[s]")
    hours = [datetime.datetime(2024, 1, 1, hour, tzinfo=zoneinfo.ZoneInfo("Asia/Kolkata")) for hour in range(24)]
    assert cycle(india, pa.array(hours, pa.timestamp("s", tz="Asia/Kolkata"))) == hours


@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "Asia/Kolkata", "Pacific/Auckland", "-03:00"])
def test_days_are_those_of_the_zones_calendar(zone):
    day = column("datetime", zone=zone, dtype="timestamp[s]")
    naive = pa.array(np.arange("2016-01-01", "2018-12-31", dtype="datetime64[D]")).cast(pa.timestamp("s"))
    # In Brazil, summer began at midnight: that day starts at one o'clock.
    midnights = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")
    cells = read(day, midnights)
    np.testing.assert_array_equal(cells.value, np.arange(len(naive)) + cells.value[0])
    assert write(day, cells).to_pylist() == midnights.to_pylist()
    assert moment(day, cells.value[0]) == datetime.date(2016, 1, 1)
    assert ticks(day, datetime.date(2016, 1, 1)) == cells.value[0]


def test_local_mean_time_comes_back_as_the_same_instant():
    berlin = column("datetime", format="%Y-%m-%dT%H:%M:%S%z", resolution="second", zone="Europe/Berlin")
    cells = read(berlin, pa.array(["1880-01-01T10:00:00+0000"]))
    assert write(berlin, cells).to_pylist() == ["1880-01-01T10:53:00+0053"]
    np.testing.assert_array_equal(read(berlin, write(berlin, cells)).value, cells.value)


@PROFILE
@given(
    st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)),
    st.sampled_from(["day", "hour", "minute", "second", "millisecond", "microsecond"]),
    st.sampled_from([None, "UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "+05:30"]),
)
def test_a_tick_and_its_moment_are_inverse_and_agree_with_the_cells(time, resolution, zone):
    made = column("datetime", resolution=resolution, zone=zone)
    tick = ticks(made, time)
    assert ticks(made, moment(made, tick)) == tick
    cells = pa.array([time], pa.timestamp("us"))
    gap = datetime.timedelta()
    if zone and zone[0] != "+":
        aware = time.replace(tzinfo=zoneinfo.ZoneInfo(zone))
        gap = aware.astimezone(UTC).astimezone(aware.tzinfo).replace(tzinfo=None) - time
    if not gap:  # no clock shows the hour that spring skips
        assert moments(made, cells).to_pylist() == [tick]


def test_texts_without_a_format_are_iso_times_with_or_without_offset():
    minute = column("datetime", resolution="minute", zone="Europe/Berlin")
    cells = [
        "2024-07-01 12:00",
        "2024-07-01T10:00Z",
        "2024-07-01T12:00:59.9999999+02:00",
        "1.7.2024",
        "20240701T1200",
        "",
    ]
    assert read(minute, pa.array(cells)).state.tolist() == [0, 0, 0, MISSING, 0, MISSING]
    assert len(set(read(minute, pa.array(cells[:3])).value.tolist())) == 1
    plain = column("datetime")
    assert cycle(plain, ["1850-01-01", "2024-07-01T23:59+02:00", "x", "2024-02-30", "2024-01-01"]) == [
        *(datetime.date(1850, 1, 1), datetime.date(2024, 7, 1), None, None, datetime.date(2024, 1, 1))
    ]


def test_a_time_beside_a_word_is_written_so_that_it_can_be_read():
    for resolution, zone in [("day", None), ("second", None), ("millisecond", "Europe/Berlin")]:
        made = column("datetime", resolution=resolution, zone=zone, special=("never",))
        cells = Cells(np.array([ticks(made, datetime.date(1960, 5, 5)), 0]), np.array([0, 1], np.int16))
        text = write(made, cells)
        assert text.to_pylist()[1] == "never"
        again = read(made, text)
        assert (again.value[0], again.state.tolist()) == (cells.value[0], [0, 1])


def test_a_time_that_nanoseconds_cannot_tell_becomes_the_nearest_that_they_can():
    made = column("datetime", dtype="timestamp[ns]", resolution="second", max=datetime.date(9999, 1, 1))
    last = write(made, Cells(np.array([ticks(made, made.max)]), np.zeros(1, np.int16)))
    assert last.cast(pa.int64()).to_pylist()[0] > 9.2e18


SECRET = "Quetzalcoatl"


@pytest.mark.parametrize("format", [None, "%d.%m.%Y", "%d.%m.%y", "%H:%M:%S.%f", "%Y%z"])
def test_an_error_about_times_quotes_no_cell(format):
    with pytest.raises(SchemaError) as caught:
        read(column("datetime", format=format), pa.array([SECRET, "2024-01-01 " + SECRET, SECRET * 2]))
    error = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__


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

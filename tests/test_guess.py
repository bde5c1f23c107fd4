"""Guessed kinds: what they are for every look of a column, and that no single row can flip them."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from twinify_lite import cells
from twinify_lite.schema import Column
from twinify_lite.schema.guess import guess
from twinify_lite.schema.guess_votes import Poll, nearly_all

NASTY = ["abc", None, "1e400", "nan", "-", "2020-13-45", "0x1F", "٣", "007"]
SIZES = (5, 7, 20)
DAYS = ((2020, 1, 22), (1999, 12, 31), (2024, 2, 29), (2021, 7, 21), (1950, 5, 15))


def shown(format):
    """Five times in a format."""
    return [
        datetime.datetime(*day, 11 + place, 31 + place, 51 + place).strftime(format) for place, day in enumerate(DAYS)
    ]


# Columns of text in which every cell is clear, and what is guessed of them.
CLEAR = {
    "integers": (["1", "22", "-3", "0", "1000"], {"kind": "integer"}),
    "signed": (["+1", " 22", "-3 ", "0", "1000"], {"kind": "integer"}),
    "whole floats": (["1.0", "22.0", "3.00", "0.0", "7."], {"kind": "integer"}),
    "thousands by R": (["1e+05", "2e+05", "1e5", "3E+06", "4e+05"], {"kind": "integer"}),
    "years": (["2020", "1999", "2021", "2024", "1987"], {"kind": "integer"}),
    "eight digits": (["12345678", "98765432", "55555555", "20209999", "31415926"], {"kind": "integer"}),
    "money": (["1.50", "22.25", "-3.99", "0.01", "10.10"], {"kind": "number", "decimals": 2}),
    "tenths": (["1.5", ".5", "-3.9", "0.1", "10.1"], {"kind": "number", "decimals": 1}),
    "floats": (["0.1234567", "22.7654321", "-3.91827364", "1.5e-07", "10.123456789"], {"kind": "number"}),
    "zip codes": (["00123", "01234", "00001", "04567", "00999"], {"kind": "category"}),
    "long codes": (["1234567890123456789"] * 2 + ["9876543210987654321012"] * 3, {"kind": "category"}),
    "words": (["red", "green", "blue", "red", "red"], {"kind": "category"}),
    "one word": (["red"] * 5, {"kind": "category"}),
    "names": (["Ann", "Bob", "Cem", "Dea", "Eve"], {"kind": "category"}),
    "versions": (["1.2.3", "1.2.4", "2.0.0", "2.1.10", "3.0.0"], {"kind": "category"}),
    "clock times": (["10:30", "11:45", "12:00", "01:15", "23:59"], {"kind": "category"}),
    "yes and no": (["yes", "no", "no", "yes", "yes"], {"kind": "category"}),
    "nothing": ([None] * 5, {"kind": "category"}),
    "true": (["true", "false", "true", "true", "false"], {"kind": "boolean", "levels": ("false", "true")}),
    "True": (["True", "False", "False", "True", "True"], {"kind": "boolean", "levels": ("False", "True")}),
    "TRUE only": (["TRUE"] * 5, {"kind": "boolean", "levels": ("FALSE", "TRUE")}),
    "dates": (shown("%Y-%m-%d"), {"kind": "datetime"}),
    "seconds": (shown("%Y-%m-%d %H:%M:%S"), {"kind": "datetime", "resolution": "second"}),
    "seconds with T": (
        shown("%Y-%m-%dT%H:%M:%S"),
        {"kind": "datetime", "resolution": "second", "format": "%Y-%m-%dT%H:%M:%S"},
    ),
    "minutes": (
        shown("%Y-%m-%d %H:%M"),
        {"kind": "datetime", "resolution": "minute", "format": "%Y-%m-%d %H:%M"},
    ),
    "whole hours": (shown("%Y-%m-%d %H:00:00"), {"kind": "datetime", "resolution": "hour"}),
    "midnights": (shown("%Y-%m-%d 00:00:00"), {"kind": "datetime", "format": "%Y-%m-%d %H:%M:%S"}),
    "milliseconds by JavaScript": (
        shown("%Y-%m-%dT%H:%M:%S.%S7Z"),
        {"kind": "datetime", "resolution": "millisecond", "format": "%Y-%m-%dT%H:%M:%S.%fZ", "zone": "UTC"},
    ),
    "microseconds": (shown("%Y-%m-%d %H:%M:%S.%S1007"), {"kind": "datetime", "resolution": "microsecond"}),
    "UTC": (shown("%Y-%m-%d %H:%M:%SZ"), {"kind": "datetime", "resolution": "second", "zone": "UTC"}),
    "UTC by Postgres": (
        shown("%Y-%m-%d %H:%M:%S+00"),
        {"kind": "datetime", "resolution": "second", "format": "%Y-%m-%d %H:%M:%S+00", "zone": "UTC"},
    ),
    "an offset": (
        shown("%Y-%m-%dT%H:%M:%S+02:00"),
        {"kind": "datetime", "resolution": "second", "format": "%Y-%m-%dT%H:%M:%S+02:00", "zone": "+02:00"},
    ),
    "an offset without colon": (
        shown("%Y-%m-%dT%H:%M:%S-0330"),
        {"kind": "datetime", "resolution": "second", "format": "%Y-%m-%dT%H:%M:%S%z", "zone": "-03:30"},
    ),
    "either": (
        ["01/02/2020", "12/11/1999", "02/09/2024", "07/01/2021", "05/05/1950"],
        {"kind": "datetime", "format": "%d/%m/%Y"},
    ),
    "without zeros": (
        ["2.1.2020", "31.12.1999", "29.2.2024", "1.7.2021", "5.5.1950"],
        {"kind": "datetime", "format": "%d.%m.%Y"},
    ),
    **{
        format: (shown(format), {"kind": "datetime", "format": format, "resolution": resolution})
        for format, resolution in {
            "%d.%m.%Y": "day",
            "%d/%m/%Y": "day",
            "%m/%d/%Y": "day",
            "%Y/%m/%d": "day",
            "%d-%m-%Y": "day",
            "%d %b %Y": "day",
            "%d %B %Y": "day",
            "%d-%b-%Y": "day",
            "%d.%m.%y": "day",
            "%m/%d/%y": "day",
            "%Y%m%d": "day",
            "%Y-%m": "day",
            "%m/%d/%y %H:%M": "minute",
            "%d.%m.%Y %H:%M": "minute",
            "%m/%d/%Y %H:%M:%S": "second",
        }.items()
    },
}


def text(items):
    return pa.array(items, pa.string())


def guessed(items, **options):
    return guess("x", text(items), **options)


def neighbours(items, strange):
    """Tables with one row less, one row replaced by a strange one, or a strange row more."""
    # A vote does not know the order of the rows; the ends are there because code may.
    for place in (0, len(items) // 2, len(items) - 1):
        before, after = items[:place], items[place + 1 :]
        yield before + after
        for cell in strange:
            yield [*before, cell, *after]
            yield [*before, cell, *items[place:]]


@pytest.mark.parametrize("look", CLEAR)
def test_every_look_of_a_column_is_recognised(look):
    items, expected = CLEAR[look]
    assert guessed(items) == Column(name="x", **expected)


@pytest.mark.parametrize("look", CLEAR)
def test_three_clear_cells_are_enough(look):
    items, expected = CLEAR[look]
    if look not in ("money", "floats"):  # whose decimals differ from cell to cell
        assert guessed(items[:3]) == Column(name="x", **expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("look", CLEAR)
def test_no_single_row_flips_the_guess_of_a_clear_column(look, size):
    items, expected = CLEAR[look]
    items = (items * size)[:size]
    for changed in neighbours(items, NASTY if size == SIZES[0] else NASTY[::3]):
        assert guessed(changed) == Column(name="x", **expected), changed


@pytest.mark.parametrize("look", CLEAR)
def test_no_single_row_of_another_kind_flips_the_guess_of_a_clear_column(look):
    items, expected = CLEAR[look]
    for other, _ in CLEAR.values():
        assert guessed([*items[:4], other[0]]) == Column(name="x", **expected), other[0]
        assert guessed([*items, other[0]]) == Column(name="x", **expected), other[0]


@pytest.mark.parametrize("look", CLEAR)
def test_a_text_that_stands_for_missing_is_set_aside(look):
    items, expected = CLEAR[look]
    if expected["kind"] in ("number", "integer", "datetime"):
        assert guessed(items * 4 + ["N"] * 80 + ["?"]) == Column(name="x", **expected)


def test_a_few_numbers_among_names_do_not_make_numbers():
    names = [f"name {number}" for number in range(10_000)]
    assert guessed([*names, *map(str, range(500))]).kind == "category"
    assert guessed(["none"] * 10_000 + ["1", "2", "3"]).kind == "category"


def test_a_column_that_is_mostly_n_is_a_number_with_a_hundredth_of_numbers():
    assert guessed(["N"] * 980 + ["7"] * 20).kind == "integer"
    assert guessed(["N"] * 995 + ["7"] * 5).kind == "category"


def test_one_or_two_cells_say_nothing():
    assert guessed(["1", "2"]).kind == "category"
    assert guessed([None] * 100 + ["2020-01-01", "2020-01-02"]).kind == "category"


def test_codes_of_which_some_start_with_zero_are_categories():
    assert guessed([f"{code:05d}" for code in range(0, 100_000, 37)]).kind == "category"
    assert guessed(["0", "00", "12", "13", "14"] * 3 + ["10"] * 500).kind == "integer"
    assert guessed(["0.5", "0.25", "0", "0.75", "1"]).kind == "number"


def test_codes_of_one_width_are_categories_if_three_of_them_start_with_zero():
    codes = [f"{code:04d}" for code in (810, 811, 95, *range(1000, 9888, 37))]
    assert sum(code.startswith("0") for code in codes) / len(codes) < 0.02
    for changed in (codes, [*codes, "5"], [*codes, "12345"], [*codes, "N"], codes[:-1]):
        assert guessed(changed).kind == "category"
    assert guessed([*codes[1:], "7777"]).kind == "integer"  # two are not enough


@pytest.mark.parametrize("strange", [["0000"] * 3, ["0202"] * 3 + ["202"] * 3, ["-0202"] * 3, ["0202.5"] * 3])
def test_a_few_odd_zeros_do_not_make_codes_of_years(strange):
    assert guessed([str(year) for year in range(1900, 2025)] * 4 + strange).kind == "integer"


def test_a_few_zeros_before_decimals_make_no_codes():
    assert guessed(["1.5"] * 500 + ["00.5"] * 4) == Column(name="x", kind="number", decimals=1)


def test_a_twentieth_decides_about_decimals():
    assert guessed(["1"] * 96 + ["1.5"] * 4).kind == "integer"
    assert guessed(["1"] * 94 + ["1.5"] * 6) == Column(name="x", kind="number", decimals=1)
    assert guessed(["1.5"] * 96 + ["1.2345"] * 4) == Column(name="x", kind="number", decimals=1)


def test_true_and_false_beside_a_third_level_are_a_category():
    assert guessed(["true", "false", "unknown"] * 10).kind == "category"


def test_the_decimal_mark_is_the_files():
    items = ["1,50", "22,25", "3,99", "0,01", "7,07"]
    assert guessed(items, decimal=",") == Column(name="x", kind="number", decimals=2)
    assert guessed(items).kind == "category"


def test_the_month_comes_first_only_if_three_cells_more_say_so():
    either = ["01/02/2020"] * 20
    assert guessed([*either, "12/25/2020", "12/26/2020"]).format == "%d/%m/%Y"
    assert guessed([*either, "12/25/2020", "12/26/2020", "12/27/2020"]).format == "%m/%d/%Y"


def test_long_and_short_names_of_months_are_told_apart_though_may_is_both():
    may = [f"{day} May 2020" for day in range(10, 20)]
    assert guessed(may).format == "%d %b %Y"
    assert guessed([*may, "1 Jan 2020", "2 Feb 2020", "3 Dec 2020"]).format == "%d %b %Y"
    assert guessed([*may, "1 January 2020", "2 February 2020", "3 December 2020"]).format == "%d %B %Y"


@pytest.mark.parametrize(
    "items",
    [
        ["2020-13", "2020-01", "2020-99", "2021-07", "2020-12"],
        ["2001-02", "2005-06", "2011-12", "2008-09", "2001-02"],  # school years
        ["1234-05", "0001-12", "9999-01", "3456-10", "1234-11"],
        ["10.50.20", "12.11.21", "01.99.33", "02.02.02", "31.12.99"],
        ["1.2.20", "1.3.21", "2.0.10", "2.1.11", "3.0.12"],  # versions
        ["120/80/70", "12/50/20", "1/2/20", "99/99/99", "7/7/07"],
        ["12-abc-2020", "1-xyz-2021", "3-foo-1999", "4-bar-2000", "5-baz-2001"],
        ["12 apples 2020", "1 pears 2021", "3 plums 1999", "4 figs 2000", "5 dates 2001"],
    ],
)
def test_codes_that_resemble_dates_are_categories(items):
    assert guessed(items * 4).kind == "category"


def test_numbers_with_two_decimals_are_no_dates():
    assert guessed(["12.50", "01.12", "31.01", "10.10", "11.11"] * 4).kind in ("number", "category")
    assert guessed(["12.50", "11.12", "31.01", "10.10", "11.11"]) == Column(name="x", kind="number", decimals=2)


def test_iso_times_of_different_looks_have_no_format_but_are_read():
    items = ["2020-01-02", "2020-01-02 03:04", "2020-01-02T03:04:05", "2020-01-02T03:04:05.5"] * 5
    column = guessed(items)
    assert column == Column(name="x", kind="datetime", resolution="millisecond")
    assert cells.moments(column, text(items)).null_count == 0


def test_times_with_different_offsets_are_in_utc():
    items = [f"2020-0{month}-01T03:04:05+0{month}:00" for month in range(1, 9)]
    column = guessed(items)
    assert (column.zone, column.resolution) == ("UTC", "second")
    assert cells.moments(column, text(items)).null_count == 0


def test_summer_and_winter_time_in_arrows_own_look_is_written_as_valid_iso():
    items = [f"2020-0{month}-01 03:04:05+0{1 + (month > 3)}:00" for month in range(1, 9)]
    column = guessed(items)
    assert column == Column(name="x", kind="datetime", resolution="second", zone="UTC")
    written = cells.write(column, cells.read(column, text(items)))
    assert written.cast(pa.string())[0].as_py() == "2020-01-01 02:04:05Z"


@pytest.mark.parametrize("cell", ["2020-01-02T03:04:05+99:99", "2020-01-02 25:61:61", "2020-13-45", "45.13.2020"])
def test_what_looks_like_a_time_and_is_none_is_a_category(cell):
    assert guessed([cell] * 8) == Column(name="x", kind="category")


@pytest.mark.parametrize("look", [look for look, (_, expected) in CLEAR.items() if expected["kind"] == "datetime"])
def test_a_time_is_read_and_written_as_it_looked(look):
    items = CLEAR[look][0]
    column = guessed(items)
    written = cells.write(column, cells.read(column, text(items)))
    assert written.null_count == 0
    if look != "without zeros":  # the one look that is not kept
        assert written.cast(pa.string()).to_pylist() == items


# -- declared types ----------------------------------------------------------------------------------------------------

MOMENTS = [datetime.datetime(2020, 1, day, 3, 4, 5) for day in range(1, 8)]
MIDNIGHTS = [datetime.datetime(2020, 1, day) for day in range(1, 8)]


def times(resolution, unit, **rest):
    return {"kind": "datetime", "dtype": f"timestamp[{unit}]", "resolution": resolution, **rest}


TYPED = {
    "int8": (pa.array([1, 2, None], pa.int8()), {"kind": "integer", "dtype": "int8"}),
    "uint64": (pa.array([1, 2, 3], pa.uint64()), {"kind": "integer", "dtype": "uint64"}),
    "bool": (pa.array([True, None, False]), {"kind": "boolean", "dtype": "bool"}),
    "float": (pa.array([0.125, 2.1, 1 / 3, None, 1e-9]), {"kind": "number", "dtype": "double"}),
    "money": (pa.array([0.25, 2.1, 7.99, None, 1.05]), {"kind": "number", "dtype": "double", "decimals": 2}),
    "narrow": (pa.array([0.25, 2.1, 7.99, 1.05], pa.float32()), {"kind": "number", "dtype": "float", "decimals": 2}),
    "half": (
        pa.array(np.array([0.5, 1.5, 2.5, 1.5], np.float16)),
        {"kind": "number", "dtype": "halffloat", "decimals": 1},
    ),
    "pandas' integers": (pa.array([1.0, 2.0, None, 4.0, float("nan"), 5.0]), {"kind": "integer", "dtype": "double"}),
    "no floats": (pa.array([None, None], pa.float64()), {"kind": "number", "dtype": "double"}),
    "decimal": (pa.array([Decimal("1.50")]), {"kind": "number", "dtype": "decimal(3,2)", "decimals": 2}),
    "whole decimal": (pa.array([Decimal("150")]), {"kind": "integer", "dtype": "decimal(3,0)"}),
    "date": (pa.array([datetime.date(2020, 1, 1)]), {"kind": "datetime", "dtype": "date32"}),
    "seconds": (pa.array(MOMENTS, pa.timestamp("us")), times("second", "us")),
    "nanoseconds": (pa.array(MOMENTS, pa.timestamp("ns")), times("second", "ns")),
    "midnights": (pa.array(MIDNIGHTS, pa.timestamp("ns")), times("day", "ns")),
    "zone": (
        pa.array(MOMENTS, pa.timestamp("ms", tz="Europe/Helsinki")),
        times("second", "ms", zone="Europe/Helsinki"),
    ),
    "one moment": (pa.array(MIDNIGHTS[:1], pa.timestamp("ms")), times("millisecond", "ms")),
    "categorical": (pa.array(["1", "2", "3"]).dictionary_encode(), {"kind": "category", "dtype": "categorical"}),
    "large text": (pa.array(["1", "2", "3"], pa.large_string()), {"kind": "integer"}),
    "text": (pa.array(["1", "2", "3"]), {"kind": "integer"}),
    "null": (pa.nulls(3), {"kind": "category"}),
    "clock time": (pa.array([1, 2, 3], pa.time64("us")), {"kind": "category"}),
}


@pytest.mark.parametrize("name", TYPED)
def test_a_declared_type_tells_the_kind(name):
    array, expected = TYPED[name]
    assert guess("x", array) == Column(name="x", **expected)
    assert guess("x", pa.chunked_array([array, array[:0]])) == Column(name="x", **expected)


def test_a_midnight_is_one_in_the_zone():
    helsinki = pa.compute.assume_timezone(pa.array(MIDNIGHTS, pa.timestamp("us")), "Europe/Helsinki")
    assert guess("x", helsinki).resolution == "day"


@pytest.mark.parametrize(
    ("clear", "strange", "type"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], [0.5, None, 1e300, float("inf"), -0.1], pa.float64()),
        ([1.25, 2.75, 3.25, 4.75, 5.25], [1 / 3, None, 1e300, float("nan"), 7.0], pa.float64()),
        ([0.1234567891, 2 / 3, 1 / 3, 1 / 7, 1 / 9], [0.5, None, 1e300, 7.0], pa.float64()),
        (MIDNIGHTS, [MOMENTS[0], None], pa.timestamp("us")),
        (MOMENTS, [MIDNIGHTS[0], None, datetime.datetime(1, 1, 1, 1, 1, 1, 1)], pa.timestamp("us")),
    ],
)
def test_no_single_row_flips_a_column_of_a_declared_type(clear, strange, type):
    expected = guess("x", pa.array(clear, type))
    for changed in neighbours(clear, strange):
        assert guess("x", pa.array(changed, type)) == expected, changed


# -- votes -------------------------------------------------------------------------------------------------------------


def test_counting_equal_texts_first_changes_no_guess(monkeypatch):
    random = np.random.default_rng(0)
    for items, expected in CLEAR.values():
        many = text(random.choice(np.array([*items, "stray"], object), 12_000, p=[*[0.198] * 5, 0.01]).tolist())
        for few in (0, 10_000):
            monkeypatch.setattr("twinify_lite.schema.guess_votes._FEW", few)
            assert (len(Poll.of(many).texts) < 10) == (few > 0 and many.null_count < len(many) - 10_000)
            assert guess("x", many) == Column(name="x", **expected)


def test_nearly_all_forgives_one_cell_of_four_and_a_twentieth():
    assert [nearly_all(cells - 1, cells) for cells in (1, 2, 3, 4, 5, 50)] == [False, False, False, True, True, True]
    assert nearly_all(38, 40)
    assert not nearly_all(37, 40)
    assert not nearly_all(4, 6)


def test_a_guess_holds_nothing_of_a_cell():
    items = ["zanzibar-7431", "quokka 0.77311", "41.99173", "2020-01-02 zebu"] * 30
    assert not any(part in repr(guessed(items)) for part in ("zanzibar", "7431", "quokka", "77311", "99173", "zebu"))

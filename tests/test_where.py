"""Which rows `where` chooses: numbers as numbers, special ones among them; and what is refused at once."""

import pyarrow as pa
import pytest

import twinify_lite as tw
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Schema
from twinify_lite.where import Filter

COST = Schema(
    (tw.Column(name="cost", kind="number", min=20.0, max=90.0, decimals=2, special=(0.0, "N"), nullable=True),)
)
AGE = Schema((tw.Column(name="age", kind="integer", min=10, max=90, special=(-1,), nullable=False),))
CELLS = ["0.00", "20.00", "55.50", "N", None]


def chosen(schema, asked, cells):
    (name,) = schema
    return Filter.of(schema, {name: asked}).apply(pa.table({name: cells})).column(name).to_pylist()


@pytest.mark.parametrize("zero", ["0", "0.0", "0.00", "-0", 0, 0.0, "<=0", "<20", "<=19.99"], ids=repr)
def test_a_special_number_is_chosen_by_its_number_however_it_is_written(zero):
    assert chosen(COST, zero, CELLS) == ["0.00"]


def test_comparisons_include_special_numbers_and_never_words_or_missing_cells():
    assert chosen(COST, "<=20", CELLS) == ["0.00", "20.00"]
    assert chosen(COST, ">=0", CELLS) == ["0.00", "20.00", "55.50"]
    assert chosen(AGE, "<20", [-1, 10, 20]) == [-1, 10]
    assert chosen(AGE, ">=10", [-1, 10, 20]) == [10, 20]


def test_words_and_missing_cells_are_chosen_by_themselves():
    assert chosen(COST, "N", CELLS) == ["N"]
    assert chosen(COST, None, CELLS) == [None]
    assert chosen(COST, "55.5", CELLS) == ["55.50"]


@pytest.mark.parametrize("asked", ["<0", ">90", ">=200", "5", "55.555", "x", ">", ">x", "<-1"])
def test_what_a_number_never_is_is_refused_with_its_range_and_its_special_values(asked):
    with pytest.raises(SchemaError, match=r"'cost' lies between 20\.0 and 90\.0, or is 0\.0 or 'N'; it never is"):
        Filter.of(COST, {"cost": asked})


@pytest.mark.parametrize("asked", [[">50", "<40"], ["20", "30"], [">20", "<21"], ["-1", ">10"], [">=90", "<90"]])
def test_conditions_that_no_cell_meets_at_once_are_refused(asked):
    with pytest.raises(SchemaError, match=r"No cell of column 'age' can be .* and .* at once"):
        Filter.of(AGE, {"age": asked})


@pytest.mark.parametrize("asked", [[">20", "<22"], ["21", ">20.5"], ["<0", ">-5"], [">=90", "<=90"], ["20", "20.0"]])
def test_conditions_that_some_cell_meets_are_not(asked):
    assert Filter.of(AGE, {"age": asked})


def test_two_levels_at_once_are_refused():
    schema = Schema((tw.Column(name="sex", kind="category", levels=("f", "m"), nullable=True),))
    for asked in (["f", "m"], ["f", ""]):
        with pytest.raises(SchemaError, match="at once"):
            Filter.of(schema, {"sex": asked})
    yes = Schema((tw.Column(name="yes", kind="boolean", levels=("no", "yes"), nullable=False),))
    assert Filter.of(yes, {"yes": ["yes", True]})


DAYS = ["2020-03-12", "2020-12-03", "2020-12-31"]


@pytest.mark.parametrize("asked", ["<=2020-12-03", "<=2020-12-03 00:00", "<2020-12-31"])
def test_times_are_asked_for_as_iso_has_them_or_as_the_column_does(asked):
    day = Schema((tw.Column(name="day", kind="datetime", min="2020-01-01", max="2020-12-31", nullable=False),))
    assert chosen(day, asked, DAYS) == DAYS[:2]
    own = day.replace_columns([day["day"].replace(format="%d.%m.%Y")])
    assert chosen(own, "<=03.12.2020", ["12.03.2020", "03.12.2020", "31.12.2020"]) == ["12.03.2020", "03.12.2020"]


@pytest.mark.parametrize("asked", ["<=03/12/2020", "<=12.03.2020", "31/12/2020", "<=soon"])
def test_times_that_can_be_read_in_two_ways_are_refused_with_the_way_to_write_them(asked):
    day = Schema((tw.Column(name="day", kind="datetime", min="2020-01-01", max="2020-12-31", nullable=False),))
    with pytest.raises(SchemaError, match=r"it never is .*, as .* is no time as in 2020-12-31"):
        Filter.of(day, {"day": asked})


def test_what_is_wrong_with_a_comparison_is_said():
    with pytest.raises(SchemaError, match="it never is '>=abc', as 'abc' is no number"):
        Filter.of(AGE, {"age": ">=abc"})
    sex = Schema((tw.Column(name="sex", kind="category", levels=("f", "m"), nullable=True),))
    with pytest.raises(SchemaError, match=r"no level '>f'.* Only numbers and times can be compared"):
        Filter.of(sex, {"sex": ">f"})

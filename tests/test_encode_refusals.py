"""What encode and decode refuse, and that they quote no cell."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from columns import cases
from encode_cases import PROFILE, VIEWS, back, integer, of, single
from hypothesis import given, settings
from hypothesis import strategies as st

from twinify_lite.encode import decode, encode
from twinify_lite.errors import SchemaError, TableError
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.doubts import doubts
from twinify_lite.table import PrivateTable

# -- what is refused --------------------------------------------------------------------------------------------------


def test_an_open_schema_is_refused_with_all_its_open_columns():
    schema = Schema((Column(name="age", kind="integer"), Column(name="sex", kind="category", nullable=False)))
    with pytest.raises(SchemaError, match=r"(?s)'age' leaves min, max.*'sex' leaves levels open.*discover"):
        encode(schema, pa.table({"age": ["1"], "sex": ["f"]}))


def test_columns_of_the_schema_and_the_table_must_agree():
    with pytest.raises(SchemaError) as caught:
        encode(Schema((integer(name="height"), integer(name="zip"))), pa.table({"heigth": ["1"], "name": ["a"]}))
    message = str(caught.value)
    assert "no column 'height'. Did you mean 'heigth'?" in message
    assert "no column 'zip'. Delete [columns.zip]" in message
    assert "[columns.name]" in message
    assert 'kind = "identifier"' in message


def test_a_column_with_the_name_of_a_state_is_refused():
    schema = Schema((integer(name="age"), integer(name="age:state")))
    with pytest.raises(SchemaError, match="Rename"):
        encode(schema, pa.table({"age": ["1"], "age:state": ["1"]}))


def test_arrays_that_lack_a_column_or_differ_in_length_are_refused():
    schema = Schema((integer(), integer(name="y", nullable=False)))
    with pytest.raises(SchemaError, match="'x:state'"):
        decode(schema, {"x": np.zeros(2), "y": np.zeros(2)})
    with pytest.raises(SchemaError, match="length"):
        decode(schema, {"x": np.zeros(2), "x:state": np.zeros(2), "y": np.zeros(3)})
    with pytest.raises(ValueError, match="'discrete'"):
        decode(schema, {}, view="discreet")
    with pytest.raises(ValueError, match="at least one bin"):
        of(integer(), ["1"], view="discrete", bins=0)


@VIEWS
@settings(PROFILE)
@given(cases(), st.integers(1, 70))
def test_arrays_of_the_other_view_are_refused_wherever_they_can_be_told(view, case, bins):
    if not case.column.is_ranged:
        return
    schema, table = single(case)
    other = "discrete" if view == "continuous" else "continuous"
    with pytest.raises(SchemaError, match=f"encoded with view='{other}'; pass the same view to decode"):
        decode(schema, encode(schema, table, view=other, bins=bins), view=view, bins=bins)


def test_the_view_is_told_once_for_all_columns():
    schema = Schema((integer(), integer(name="y"), Column(name="z", kind="boolean", nullable=False)))
    arrays = encode(schema, pa.table({"x": ["1"], "y": ["2"], "z": ["yes"]}), view="discrete")
    with pytest.raises(SchemaError, match=r"^These arrays were encoded with view='discrete'; [a-z ]*decode\.$"):
        decode(schema, arrays)


def test_codes_and_states_that_a_column_does_not_have_are_refused():
    level = Column(name="y", kind="category", levels=("a", "b"), nullable=False)
    schema = Schema((integer(special=(-1,)), level))
    with pytest.raises(SchemaError) as caught:
        decode(schema, {"x": np.zeros(1), "x:state": np.array([3]), "y": np.array([2])})
    assert str(caught.value).split("\n") == [
        "Column 'x' has states beyond the 3 of its schema. Decode with the schema and the view that encode had.",
        "Column 'y' has codes beyond the 2 of its levels. Decode with the schema that encode had.",
    ]
    for wrong in (np.array([-1]), np.array([np.nan])):
        with pytest.raises(SchemaError, match="'x' has states beyond"):
            decode(schema, {"x": np.zeros(1), "x:state": wrong, "y": np.array([0])})


def test_codes_of_more_bins_are_refused_and_bins_are_named():
    column = integer(nullable=False)
    codes = of(column, ["100"], view="discrete", bins=64)
    with pytest.raises(
        SchemaError, match=r"'x' has codes beyond the 32 that its `bins` make\. Pass the `bins` that encode had"
    ):
        back(column, codes, view="discrete")
    assert back(column, codes, view="discrete", bins={"x": 64}) == [99]


SECRET = "Quetzalcoatl"


@pytest.mark.parametrize(
    "column",
    [
        integer(),
        Column(name="x", kind="number", min=0, max=1, nullable=True),
        Column(name="x", kind="category", levels=("a",), nullable=True),
        Column(name="x", kind="boolean", nullable=True),
        Column(name="x", kind="datetime", min=datetime.date(2000, 1, 1), max=datetime.date(2001, 1, 1), nullable=True),
    ],
    ids=lambda column: column.kind,
)
@pytest.mark.parametrize("wrap", [pa.array, lambda cells: pa.array(cells).dictionary_encode()])
@VIEWS
def test_cells_that_do_not_fit_are_missing_and_refuse_nothing_even_if_all_of_them_are_so(column, wrap, view):
    made = of(column, wrap([SECRET, SECRET + "2", SECRET + "3"]), view=view)
    missing = of(column, pa.array([None] * 3, pa.string()), view=view)
    assert made.keys() == missing.keys()
    assert all((made[name] == missing[name]).all() for name in made)


def test_the_doubt_about_cells_that_do_not_fit_quotes_none_of_them(column_of_words):
    told = doubts(*column_of_words)
    assert told == [
        "Column 'x': most of its cells are not whole numbers. Correct `kind`, `levels` or `format` of this column in "
        "the schema. This was read from the rows without noise: do not share it."
    ]


@pytest.fixture
def column_of_words():
    return PrivateTable(pa.table({"x": [SECRET, SECRET + "2", SECRET + "3"]})), Schema((integer(),)), {"x"}


def test_what_is_not_declared_or_fits_by_half_or_but_for_two_cells_raises_no_doubt(column_of_words):
    table, schema, _ = column_of_words
    assert doubts(table, schema, ()) == []
    for cells in ([SECRET, SECRET + "2"], [SECRET, SECRET + "2", SECRET + "3", "1", "2", "3"]):
        assert doubts(PrivateTable(pa.table({"x": cells})), schema, {"x"}) == []


def test_cells_that_no_kind_can_read_are_refused_by_their_type():
    with pytest.raises(TableError, match="'x' is of type list"):
        of(integer(), pa.array([[1], [2]]))
    with pytest.raises(TableError, match="'x' is of type binary"):
        of(integer(), pa.array([b"\xff"]))

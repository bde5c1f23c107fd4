"""Cells that are looked up are written as those that are not, one by one."""

import csv
import datetime
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinify_lite.encode import decode
from twinify_lite.schema import Schema
from twinify_lite.table import CsvStyle, csv_parts, write_table
from twinify_lite.table.csv_notes import with_decimals
from twinify_lite.table.csv_writing import CsvWriter

RNG = np.random.default_rng(0)
COMMAS = CsvStyle()


def lines(table, style=COMMAS):
    """The rows of the file that is written of `table`, without its header."""
    file = io.BytesIO()
    CsvWriter(file, table.schema, style).write(table)
    found = list(csv.reader(io.StringIO(file.getvalue().decode()), delimiter=style.separator))
    assert found[0] == table.column_names
    return found[1:]


def beside(column):
    """A table of the column between two others, since an only column is written in another way."""
    return pa.table({"a": pa.array(["x"] * len(column)), "column": column, "b": pa.array([7] * len(column))})


def spelled(cell):
    return "" if cell is None else str(cell)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()])
@pytest.mark.parametrize("missing", [False, True])
def test_whole_numbers_of_every_type_are_written_from_end_to_end(kind, missing):
    ends = np.iinfo(kind.to_pandas_dtype())
    near = [ends.max - 1, ends.max, ends.max - 2]
    for numbers in (near, [ends.min, ends.min + 1], [ends.min, ends.max], [5, 5, 5]):
        cells = [*numbers, None] if missing else numbers
        found = lines(beside(pa.array(cells, kind)))
        assert [row[1] for row in found] == [spelled(cell) for cell in cells]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20), min_size=1, max_size=30))
def test_whole_numbers_are_written_as_python_does(cells):
    assert [row[1] for row in lines(beside(pa.array(cells, pa.int64())))] == list(map(spelled, cells))


@given(
    st.lists(st.none() | st.floats(-1e17, 1e17) | st.floats(-9, 9) | st.floats(0, 1e6), min_size=1, max_size=30),
    st.integers(0, 6),
    st.sampled_from([COMMAS, CsvStyle(";", ","), CsvStyle(",", ",")]),
)
def test_numbers_have_all_their_decimals(cells, decimals, style):
    rounded = [None if cell is None else float(np.rint(cell * 10.0**decimals) / 10.0**decimals) for cell in cells]
    table = with_decimals(beside(pa.array(rounded, pa.float64())), {"column": decimals})
    expected = ["" if cell is None else f"{cell + 0.0:.{decimals}f}" for cell in rounded]
    assert [row[1].replace(",", ".") for row in lines(table, style)] == expected
    assert all(len(row) == 3 for row in lines(table, style))


def test_numbers_that_are_not_finite_are_written():
    column = pa.array([1.5, float("inf"), None, float("nan"), -2.25])
    table = with_decimals(beside(column), {"column": 2})
    assert [row[1] for row in lines(table)] == ["1.50", "inf", "", "nan", "-2.25"]


def test_days_are_written_whether_near_or_far_apart():
    for last in (datetime.date(2020, 3, 1), datetime.date(1820, 1, 1)):
        days = [datetime.date(2020, 2, 28), None, last]
        assert [row[1] for row in lines(beside(pa.array(days)))] == list(map(spelled, days))


@given(st.lists(st.none() | st.sampled_from(["", "a", 'say "b"', "c;d", "e,f", "g\nh", "é"]), min_size=1, max_size=30))
def test_a_dictionary_is_written_as_its_texts_are(cells):
    texts = pa.array(cells, pa.string())
    for table in (beside(texts), pa.table({"column": texts})):
        place = table.column_names.index("column")
        coded = table.set_column(place, "column", texts.dictionary_encode())
        for style in (COMMAS, CsvStyle(";", ",")):
            assert lines(coded, style) == lines(table, style)


def test_a_dictionary_may_have_a_missing_text_and_numbers():
    missing = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert [row[1] for row in lines(beside(missing))] == ["a", "", ""]
    numbers = pa.array([1.5, 2.5, None]).dictionary_encode()
    assert [row[1] for row in lines(beside(numbers), CsvStyle(";", ","))] == ["1,5", "2,5", ""]


@pytest.mark.parametrize("few", [1, 2, 50, 4096])
def test_how_many_texts_are_looked_up_at_once_changes_no_line(monkeypatch, few):
    table = with_decimals(
        pa.table(
            {
                "level": pa.array(RNG.choice(["a", "b,c", None], 500)).dictionary_encode(),
                "age": RNG.integers(-5, 90, 500),
                "other": pa.array(RNG.choice(["x", "y"], 500)),
                "weight": RNG.integers(0, 10**7, 500),
                "same": np.full(500, 3),
                "cost": pa.array(RNG.random(500) * 1e5, mask=RNG.random(500) < 0.2),
                "sodium": np.round(RNG.random(500), 1),
            }
        ),
        {"cost": 2, "sodium": 1},
    )
    usual = lines(table)
    monkeypatch.setattr(csv_parts, "_FEW", few)
    assert lines(table) == usual
    assert len(usual) == 500


def test_a_table_of_the_same_cells_only_and_one_without_rows_are_written():
    assert lines(pa.table({"a": [1] * 3, "b": ["x"] * 3})) == [["1", "x"]] * 3
    assert lines(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})) == []
    assert (
        lines(pa.table({"a": pa.array([None] * 2, pa.int64()), "b": pa.array([None] * 2, pa.date32())}))
        == [["", ""]] * 2
    )


SCHEMA = """
[columns.sex]
kind = "category"
levels = ["f", "m, or not"]
other = "else"
nullable = true
[columns.known]
kind = "boolean"
nullable = false
dtype = "bool"
[columns.group]
kind = "category"
levels = ["1", "2"]
nullable = false
dtype = "int64"
"""


def test_decoded_texts_may_be_dictionaries_and_nothing_else_changes(tmp_path):
    schema = Schema.from_toml(SCHEMA)
    arrays = {"sex": np.array([0, 1, 2, 3]), "known": np.array([0, 1, 1, 0]), "group": np.array([1, 0, 1, 0])}
    plain, coded = (decode(schema, arrays, view="discrete", dictionaries=given) for given in (False, True))
    assert pa.types.is_string(plain.schema.field("sex").type)
    assert pa.types.is_dictionary(coded.schema.field("sex").type)
    assert [coded.schema.field(name).type for name in ("known", "group")] == [pa.bool_(), pa.int64()]
    assert coded.cast(plain.schema) == plain
    for name, table in (("plain.csv", plain), ("coded.csv", coded)):
        write_table(table, tmp_path / name)
    assert (tmp_path / "coded.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()
    assert pd.read_csv(tmp_path / "coded.csv")["sex"].tolist()[:3] == ["f", "m, or not", "else"]

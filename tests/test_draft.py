"""Drafted schemas: kinds alone without `peek`; with it, marked values. And schemas that a user began."""

import dataclasses
import datetime

import pandas as pd
import pyarrow as pa
import pytest

from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.draft import MOST_LEVELS, draft, fill
from twinify_lite.schema.notes import notes
from twinify_lite.table import CsvStyle, PrivateTable, read_table

MARK = "# read from the data: not private"

# Nothing in these cells may be seen in a draft.
CANARIES = ("41977", "90311", "77.313", "zanzibar", "quokka", "1987-03-14", "1913-11-09", "QX7")
MESSY = """\
id,income,rent,born,seen,zip,sex,ok,note
41977,N,77.313,1987-03-14,2021-05-06T07:08:09Z,00041977,zanzibar,True,"quokka, again"
41978,90311,1.25,1913-11-09,2021-05-06T07:08:10Z,00041978,f,False,QX7
41979,N,2.5,1987-03-14,2021-05-06T07:08:11Z,00041979,zanzibar,True,
41980,90312,QX7,quokka,2021-05-06T07:08:12Z,00041980,,False,quokka
41981,N,4.75,1987-03-14,2021-05-06T07:08:13Z,00041981,m,True,zanzibar
41982,90313,5.25,1987-03-15,2021-05-06T07:08:14Z,00041982,m,quokka,QX7
"""


@pytest.fixture
def messy(tmp_path):
    path = tmp_path / "messy.csv"
    path.write_text(MESSY, encoding="utf-8")
    return read_table(path)


def table(**columns):
    return PrivateTable(pa.table(columns))


def test_a_draft_tells_the_kinds_of_all_columns_in_their_order(messy):
    kinds = {name: column.kind for name, column in draft(messy).items()}
    assert kinds == {
        "id": "integer",
        "income": "integer",
        "rent": "number",
        "born": "datetime",
        "seen": "datetime",
        "zip": "category",
        "sex": "category",
        "ok": "boolean",
        "note": "category",
    }


def test_nothing_in_a_draft_comes_from_a_cell(messy):
    schema = draft(messy)
    for text in (schema.to_toml(), repr(schema), str(schema)):
        assert not [canary for canary in CANARIES if canary in text]
    assert schema.peeked == ()
    values = ("min", "max", "special", "heaps", "nullable", "other", "value")
    assert all(getattr(column, key) is None for column in schema.columns for key in values)
    assert [column.name for column in schema.columns if column.levels] == ["ok"]


def test_a_draft_is_read_back_from_its_text(messy):
    for schema in (draft(messy), draft(messy, peek=True)):
        assert Schema.from_toml(schema.to_toml()) == schema


def test_what_depends_on_cells_is_said_to_be_guessed_and_what_types_tell_is_not():
    assert draft(table(a=["1", "2"], b=[1, 2])).guessed
    assert draft(table(a=[1.0, 2.0])).guessed  # whether these are whole
    assert draft(table(a=[datetime.datetime(2020, 1, 1)])).guessed  # whether all are midnight
    assert not draft(table(b=[1, 2], c=pa.array(["x", "y"]).dictionary_encode())).guessed


def test_a_dataframe_is_drafted_by_its_types():
    frame = pd.DataFrame(
        {"age": [40.0, None, 41.0, 42.0], "born": pd.to_datetime(["2020-01-02"] * 4), "ok": [True] * 4}
    )
    schema = Schema.draft(PrivateTable(frame))
    assert schema["age"] == Column(name="age", kind="integer", dtype="double")
    assert schema["born"] == Column(name="born", kind="datetime", dtype="timestamp[ns]")
    assert schema["ok"] == Column(name="ok", kind="boolean", dtype="bool")


def test_the_decimal_mark_of_the_file_is_used(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n1,5;x\n2,5;y\n3,5;x\n", encoding="utf-8")
    assert draft(read_table(tmp_path / "x.csv", decimal=","))["a"] == Column(name="a", kind="number", decimals=1)
    peeked = draft(read_table(tmp_path / "x.csv", decimal=","), peek=True)["a"]
    assert (peeked.min, peeked.max) == (1.5, 3.5)


def test_the_look_of_a_csv_file_stands_in_its_schema_unless_it_is_the_usual_one(messy, tmp_path):
    assert draft(messy).style is None
    assert draft(table(a=[1, 2, 3])).style is None
    (tmp_path / "x.csv").write_bytes("größe;b\n1,5;x\n2,5;y\n3,5;x\n".encode("latin-1"))
    rows = read_table(tmp_path / "x.csv", decimal=",", encoding="latin-1")
    schema = draft(rows)
    assert schema.style == draft(rows, peek=True).style == CsvStyle(";", ",", "latin-1")
    assert Schema.from_toml(schema.to_toml()) == schema


def test_filling_adds_the_look_of_the_file_to_a_schema_without_one(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n1;x\n2;y\n3;x\n", encoding="utf-8")
    began = Schema(columns=(Column(name="a", kind="integer"),))
    assert fill(began, read_table(tmp_path / "x.csv")).style == CsvStyle(";")
    bars = CsvStyle("|")
    assert fill(dataclasses.replace(began, style=bars), read_table(tmp_path / "x.csv")).style == bars


# -- peek --------------------------------------------------------------------------------------------------------------


def test_a_peek_reads_ranges_levels_and_missing_cells_and_names_them(messy):
    schema = draft(messy, peek=True)
    assert (schema["id"].min, schema["id"].max, schema["id"].nullable) == (41977, 41982, False)
    assert schema["id"].peeked == ("nullable", "min", "max")
    assert (schema["born"].min, schema["born"].nullable) == (datetime.date(1913, 11, 9), True)
    assert schema["seen"].max == datetime.datetime(2021, 5, 6, 7, 8, 14, tzinfo=datetime.UTC)
    assert (schema["sex"].levels, schema["sex"].nullable) == (("f", "m", "zanzibar"), True)
    assert schema["sex"].peeked == ("nullable", "levels")
    assert (schema["ok"].levels, schema["ok"].nullable, schema["ok"].peeked) == (("False", "True"), True, ("nullable",))


def test_a_peek_keeps_what_a_range_would_otherwise_close(messy):
    income = draft(messy, peek=True)["income"]
    assert (income.min, income.max, income.special, income.nullable) == (90311, 90313, ("N",), False)
    assert income.peeked == ("nullable", "min", "max", "special")


def test_a_peek_leaves_the_guess_as_it_was(messy):
    guessed, peeked = draft(messy), draft(messy, peek=True)
    for name in guessed:
        keys = ("kind", "dtype", "decimals", "resolution", "format", "zone", "scale")
        assert all(getattr(guessed[name], key) == getattr(peeked[name], key) for key in keys)


def test_a_peek_leaves_open_what_has_too_many_levels_or_no_range():
    many = [f"level {number}" for number in range(MOST_LEVELS + 1)]
    size = len(many)
    schema = draft(
        table(many=many, same=[7] * size, none=pa.nulls(size, pa.float64()), few=many[1:] + many[1:2]), peek=True
    )
    assert schema["many"] == Column(name="many", kind="category", nullable=False, peeked=("nullable",))
    assert schema["same"].peeked == schema["none"].peeked == ("nullable",)
    assert len(schema["few"].levels) == MOST_LEVELS


def test_a_peek_survives_years_that_python_does_not_know():
    array = pa.array([0, 1, 10**12], pa.timestamp("s"))
    assert draft(PrivateTable(pa.table({"a": array})), peek=True)["a"].peeked == ("nullable",)


def test_exactly_the_lines_with_values_from_the_data_are_marked(messy):
    lines = draft(messy, peek=True).to_toml().splitlines()
    marked = {line.split(" = ")[0] for line in lines if line.endswith(MARK)}
    assert marked == {"min", "max", "special", "levels", "nullable"}
    unmarked = [line for line in lines if not line.endswith(MARK)]
    assert not [line for line in unmarked if any(canary in line for canary in CANARIES)]
    assert not [line for line in unmarked if line.startswith(("min =", "max =", "nullable =", "special ="))]
    assert [line for line in unmarked if line.startswith("levels =")] == ['levels = ["False", "True"]']


def test_a_peeked_schema_is_refused_until_every_column_is_accepted_by_name(messy):
    schema = Schema.from_toml(draft(messy, peek=True).to_toml())
    with pytest.raises(SchemaError) as refused:
        schema.require_public()
    assert all(f"{name!r}" in str(refused.value) for name in messy.columns)
    assert not [canary for canary in CANARIES if canary in str(refused.value)]
    with pytest.raises(SchemaError, match="'note'"):
        schema.accept(messy.columns[:-1]).require_public()
    schema.accept(messy.columns).require_public()


# -- fill --------------------------------------------------------------------------------------------------------------


def test_filling_guesses_what_a_schema_lacks_and_leaves_the_rest():
    began = Schema.from_toml(
        'rows = 4\nconstraints = ["low <= high"]\n'
        '[columns.high]\nkind = "integer"\nmin = 0\nmax = 9\n[columns.low]\nkind = "integer"\n'
    )
    full = fill(began, table(name=["a", "b", "c"], low=[1, 2, 3], high=[2.0, 3.0, 4.0]))
    assert list(full) == ["name", "low", "high"]
    assert full["name"] == Column(name="name", kind="category")
    assert full["low"] == began["low"].replace(dtype="int64")
    assert full["high"] == began["high"].replace(dtype="double")
    assert (full.rows, full.constraints, full.guessed) == (4, began.constraints, True)


def test_filling_a_schema_of_constraints_alone_guesses_all_columns():
    table = read_table(pd.DataFrame({"a": [1, 2, 3], "b": [2, 3, 4]}))
    whole = fill(Schema.from_toml('constraints = ["a <= b"]'), table)
    assert list(whole) == ["a", "b"]
    assert len(whole.constraints) == 1
    with pytest.raises(SchemaError, match="'c'"):
        fill(Schema.from_toml('constraints = ["a <= c"]'), table)


def test_a_schema_that_lacks_nothing_is_not_guessed():
    began = Schema(columns=(Column(name="a", kind="category", dtype="large_string"),))
    assert fill(began, table(a=["x"])) == began
    assert not fill(began, table(a=["x"], b=[1])).guessed
    assert fill(Schema(columns=began.columns, guessed=True), table(a=["x"])).guessed


def test_filling_nothing_is_a_draft(messy):
    assert fill(None, messy) == draft(messy)


def test_all_columns_that_the_table_lacks_are_named_with_what_was_meant():
    began = Schema(columns=(Column(name="agee", kind="integer"), Column(name="zzz", kind="integer")))
    with pytest.raises(SchemaError) as error:
        fill(began, table(age=[1], sex=["f"]))
    assert "no column 'agee'; did you mean 'age'?" in str(error.value)
    assert "no column 'zzz'. Delete it" in str(error.value)


@pytest.mark.parametrize("type", [pa.time32("s"), pa.time64("us")])
def test_a_type_that_no_schema_knows_is_left_open(type):
    times = PrivateTable(pa.table({"a": pa.array([1, 2, 3], type)}))
    began = Schema(columns=(Column(name="a", kind="category"),))
    assert fill(began, times)["a"].dtype is None
    assert draft(times, peek=True)["a"].levels[0].startswith("00:00:0")


# -- notes -------------------------------------------------------------------------------------------------------------


def csv_table(tmp_path, text, **options):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    return read_table(tmp_path / "x.csv", **options)


def test_an_ordinary_table_needs_no_notes(messy):
    assert notes(messy, draft(messy)) == []


def test_names_that_are_all_numbers_are_noted_without_the_names(tmp_path):
    rows = csv_table(tmp_path, "41977;2\n1;2\n3;4\n5;6,5\n")
    assert notes(rows, draft(rows)) == ["All column names are numbers: if the file has no header, add one."]
    for text in ("41977;a\n1;2\n", "41977\n1\n"):
        rows = csv_table(tmp_path, text)
        assert notes(rows, draft(rows)) == ["Some column names are numbers: if the file has no header, add one."]
    rows = PrivateTable(pa.table({"2019": [1], "b": [2]}))  # it has types, so it has names
    assert notes(rows, draft(rows)) == []


COMMAS = {
    "decimal commas": (["1,5", "22,25", "3,99", "0,01", "7"], True),
    "whole numbers with commas": (["1,0", "22,0", "3,0", "0,0", "7,0"], True),
    "a few among whole numbers": (["1", "2", "3", "4", "5", "6", "7", "8", "9", "1,5", "2,5", "3,5"], True),
    "thousands": (["1,234", "22,250", "3,999", "10,001", "7,500"], False),
    "points": (["1.5", "22.25", "3.99", "0.01", "7"], False),
    "words": (["red, green", "blue", "a,b", "1,5", "2,5"], False),
    "one in many": (["1", "2", "3", "4", "5", "6", "7", "8,5"], False),
}


@pytest.mark.parametrize("look", COMMAS)
def test_decimal_commas_that_are_not_read_as_such_are_noted(look, tmp_path):
    items, is_noted = COMMAS[look]
    text = "x;y\n" + "".join(f"{item};red\n" for item in items)
    rows = csv_table(tmp_path, text)
    expected = [
        "Column 'x' looks like numbers with decimal commas: add --decimal , (`decimal=\",\"`), or declare its kind in "
        "the schema. This was read from the rows without noise: do not share it."
    ]
    assert notes(rows, draft(rows)) == (expected if is_noted else [])
    rows = csv_table(tmp_path, text, decimal=",")
    assert notes(rows, draft(rows)) == []


def test_levels_that_a_peek_left_open_are_noted_by_column():
    many = [f"level {number}" for number in range(MOST_LEVELS + 1)]
    rows = table(many=many, few=["a"] * len(many), none=pa.nulls(len(many), pa.string()))
    assert notes(rows, draft(rows)) == []
    (note,) = notes(rows, draft(rows, peek=True))
    assert "'many'" in note
    assert "more than 100 levels" in note
    assert "'few'" not in note
    assert "'none'" not in note


def test_an_ordered_categorical_is_noted_by_its_type():
    frame = pd.DataFrame({"grade": pd.Categorical(["low", "high"], ["low", "high"], ordered=True)})
    frame["plain"] = pd.Categorical(["low", "high"])
    rows = PrivateTable(frame)
    schema = draft(rows)
    assert schema["grade"] == Column(name="grade", kind="category", dtype="categorical")
    (note,) = notes(rows, schema)
    assert "'grade'" in note
    assert 'kind = "ordinal"' in note
    assert "low" not in note
    ordinal = Column(name="grade", kind="ordinal", dtype="categorical", levels=("low", "high"))
    assert notes(rows, schema.replace_columns([ordinal])) == []

"""schema.toml written by hand: read in its order, and one error lists all that is wrong with it."""

import datetime
import re

import pytest
from schema_cases import column

from twinify_lite.errors import SchemaError
from twinify_lite.schema import Schema
from twinify_lite.schema.toml import parse, render
from twinify_lite.table.csv_style import CsvStyle

GOOD = """
rows = 48842
[columns.zebra]
kind = "integer"
min = 0
max = 120
[columns."marital status"]
kind = "category"
levels = ["single", "married"]
[columns.admitted]
kind = "datetime"
resolution = "second"
min = 1970-01-01
max = "2020-12-31T12:00:00"
"""


def test_a_file_written_by_hand_is_read_in_its_order():
    schema = parse(GOOD)
    assert list(schema) == ["zebra", "marital status", "admitted"]
    assert schema.rows == 48842
    assert not schema.guessed
    assert schema["admitted"].min == datetime.datetime(1970, 1, 1)
    assert schema["admitted"].max == datetime.datetime(2020, 12, 31, 12)
    assert schema["marital status"].levels == ("single", "married")


@pytest.mark.parametrize("text", ['constraints = ["a <= b"]', "rows = 5", '[csv]\nseparator = ";"'])
def test_what_is_said_of_the_whole_table_needs_no_columns(text):
    assert list(parse(text)) == []
    assert parse(render(parse(text))) == parse(text)


def problems_of(text):
    with pytest.raises(SchemaError) as refused:
        parse(text)
    return str(refused.value).split("\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows 5", "The schema is not valid TOML: .*line 1"),
        ('[columns.a]\nkind = "number"\n[columns.a]\nkind = "number"', "The schema is not valid TOML: .*line 3"),
        (f"rows = {'9' * 5000}", "The schema is not valid TOML: "),
        ("a = " + "[" * 100_000, "The schema is not valid TOML: "),
        ("", "There are no columns. Add one: \\[columns.NAME\\]"),
        ("[columns]", "There are no columns"),
        ("columns = 3", "columns must be tables: write \\[columns.NAME\\]"),
        ('[[columns]]\nkind = "number"', "columns must be tables"),
        ('[columns]\nage = "integer"', "Column 'age': it must be a table: write \\[columns.age\\]"),
        ("rowz = 3\n" + GOOD.replace("rows", "#"), "There is no key 'rowz' at the top; did you mean 'rows'\\?"),
        ("zzz = 3\n" + GOOD, "'zzz' at the top. The keys are rows, guessed, accepted, constraints, csv, columns"),
        (GOOD + '[b]\nkind = "number"', "There is no table \\[b\\]. If it is a column, write \\[columns.b\\]"),
        (GOOD + '[column.b]\nkind = "number"', "There is no key 'column' at the top; did you mean 'columns'\\?"),
        (GOOD.replace("48842", "0"), "rows must be a whole number above 0"),
        (GOOD.replace("48842", '"many"'), "rows must be a whole number above 0"),
        ("guessed = 3\n" + GOOD, "guessed must be true or false"),
        ('constraints = "a <= b"\n' + GOOD, "constraints must be a list"),
        ('csv = ";"\n' + GOOD, r"csv must be a table: write \[csv\], with separator, decimal and encoding below it"),
        (GOOD + '[cvs]\nseparator = ";"', "There is no key 'cvs' at the top; did you mean 'csv'\\?"),
        (GOOD + '[csv]\nseperator = ";"', r"\[csv\]: there is no key 'seperator'; did you mean 'separator'\?"),
        (GOOD + "[csv]\nqqq = 3", r"\[csv\]: there is no key 'qqq'. The keys are separator, decimal, encoding\."),
        (GOOD + '[csv]\nseparator = ":"', r"\[csv\]: separator must be ',', ';', '\\t' or '\|'\."),
        (GOOD + "[csv]\ndecimal = 0.5", r"\[csv\]: decimal must be '\.' or ','\."),
        (GOOD + '[csv]\nencoding = ["x"]', r"\[csv\]: encoding must be 'utf-8', 'latin-1' or 'cp1252'\."),
        (GOOD + '[csv]\nencoding = "latin-7"', r"encoding must be .* did you mean 'latin-1'\?"),
        ("[columns.a]\nmin = 3", "Column 'a': it has no kind. Add kind = ..., one of number, integer"),
        ('[columns.a]\nkind = "zzz"', "Column 'a': there is no kind 'zzz'. The kinds are number"),
        ('[columns.a]\nkind = ["x"]', "Column 'a': there is no kind \\['x'\\]"),
        ('[columns.a]\nkind = "numbre"', "Column 'a': there is no kind 'numbre'; did you mean 'number'\\?"),
        ('[columns.a]\nkind = "category"\nlevles = []', "Column 'a': there is no key 'levles'; did you mean 'levels'"),
        ('[columns.a]\nkind = "boolean"\nfalse = "no"', "there is no key 'false'. The keys are kind, .*levels"),
        ('[columns.a]\nkind = "number"\nlevles = []', "there is no key 'levles'; did you mean 'levels'\\?"),
        ('[columns.a]\nkind = "number"\nqqq = 3', "there is no key 'qqq'. The keys are kind, nullable,"),
        ('[columns.a]\nkind = "number"\nname = "b"', "there is no key 'name'"),
        ('[columns.a]\nkind = "category"\nmin = 3', "'min' does not belong to a category; delete it, or set kind to"),
        ('[columns.a]\nkind = "category"\nscale = "linear"', "'scale' does not belong to a category"),
        ('[columns.a]\nkind = "category"\nspecial = []', "'special' does not belong to a category"),
        ('[columns.a]\nkind = "number"\nmin = "3"', "Column 'a': min must be a number"),
        ('[columns.a]\nkind = "number"\nmin = nan', "Column 'a': min must be finite"),
        ('[columns.a]\nkind = "number"\nmin = 99999999999999999999', "min does not fit into 64 bits"),
        ('[columns.a]\nkind = "datetime"\nmin = 10:00:00', "min must be a date or a time"),
        ('[columns.a]\nkind = "ordinal"', "an ordinal must declare its levels"),
        ('[columns.a]\nkind = "constant"', "a constant needs its value"),
        ('[columns." "]\nkind = "number"', "Column ' ': its name must be text that is not blank"),
        ('[columns.a]\nkind = "number"\n[columns.a.b]\nkind = "number"', 'quote it: \\[columns."a.b"\\]'),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_one_sentence_that_names_the_place_and_the_fix(text, said):
    found = problems_of(text)
    assert len(found) == 1
    assert re.search(said, found[0])


def test_one_error_lists_every_problem_of_every_column_and_of_the_top():
    found = problems_of("""
        rows = -1
        rowz = 3
        [columns.a]
        kind = "intger"
        levles = 3
        min = 3.5
        max = "x"
        [columns.b]
        mni = 3
        [columns.c]
        kind = "category"
        min = 3
        levels = []
        [columns.d]
        kind = "number"
        min = 2
        max = 1
        dtype = "complex"
    """)
    wanted = [
        "'rowz' at the top",
        "'a': there is no kind 'intger'; did you mean 'integer'?",
        "'a': there is no key 'levles'",
        "'a': min must be a whole number",
        "'a': max must be a number",
        "'b': it has no kind",
        "'b': there is no key 'mni'; did you mean 'min'?",
        "'c': 'min' does not belong to a category",
        "'c': levels is empty",
        "'d': dtype must be",
        "'d': min is greater than max",
        "rows must be",
    ]
    assert len(found) == len(wanted)
    assert all(part in line for part, line in zip(wanted, found, strict=True))


# -- how a CSV file is written


def test_the_look_of_a_csv_file_stands_above_the_columns():
    text = render(Schema([column("boolean")], style=CsvStyle("\t", ",", "latin-1")))
    assert '\n[csv]\nseparator = "\\t"\ndecimal = ","\nencoding = "latin-1"\n\n[columns.age]\n' in text
    assert "[csv]" not in render(Schema([column("boolean")]))


def test_what_a_look_leaves_out_is_the_usual_and_other_names_of_the_same_are_settled():
    assert parse("[csv]\n" + GOOD.replace("rows", "#")).style == CsvStyle()
    assert parse(GOOD + '[csv]\nseparator = "tab"\nencoding = "ISO-8859-1"').style == CsvStyle("\t", ".", "latin-1")
    assert parse(GOOD).style is None


def test_all_problems_of_a_look_are_listed_with_the_others():
    found = problems_of(GOOD.replace("48842", "0") + '[csv]\nseparator = 3\ndecimal = ";"\nencodnig = "utf-8"')
    wanted = ("separator must be", "decimal must be", "no key 'encodnig'", "rows must be")
    assert all(part in line for part, line in zip(wanted, found, strict=True))


# -- constraints


HOSPITAL = """
[columns.admitted]
kind = "datetime"
[columns.discharged]
kind = "datetime"
[columns.sex]
kind = "category"
levels = ["male", "female"]
[columns.pregnancies]
kind = "integer"
"""


def test_constraints_are_read_in_their_order_and_written_so_that_they_read_back():
    sentences = ["admitted <= discharged", "if sex == 'male' then pregnancies is missing"]
    table = '{ columns = ["sex", "pregnancies"], allowed = [["male", 0], ["female", 1]] }'
    schema = parse(f'constraints = ["{sentences[0]}", "{sentences[1]}", {table}]\n' + HOSPITAL)
    assert [made.to_toml() for made in schema.constraints[:2]] == sentences
    text = render(schema)
    assert f'constraints = [\n    "{sentences[0]}",\n    "{sentences[1]}",\n    {table},\n]\n' in text
    assert parse(text) == schema
    assert render(parse(text)) == text


def test_every_problem_of_every_constraint_is_listed_with_those_of_the_columns():
    text = 'constraints = ["admitted <= sex", "nonsense!", 3, "sex <= pregnancies"]\nrows = 0\n' + HOSPITAL
    found = problems_of(text + '[columns.broken]\nkind = "numbr"\n')
    for part in ("no kind 'numbr'", "admitted <= sex", "nonsense!", "3 ", "sex <= pregnancies", "rows must be"):
        assert any(part in line for line in found)


def test_a_constraint_on_a_column_with_problems_waits_until_they_are_solved():
    text = 'constraints = ["sex <= admitted"]\n' + HOSPITAL
    assert len(problems_of(text)) == 1
    found = problems_of(text.replace('"category"', '"catgory"'))
    assert len(found) == 1
    assert "there is no kind 'catgory'" in found[0]

"""The tables of a score: whatever wrote them, the same cells are the same."""

import pandas as pd
import pytest
from score_cases import people

import twinify_lite as tw
from twinify_lite.errors import TableError
from twinify_lite.score.reading import REAL, SYNTHETIC, read_sheets


def sheets(real, synthetic, declared=None, **options):
    tables = {REAL: tw.read_table(real), SYNTHETIC: tw.read_table(synthetic)}
    return read_sheets(tables, declared, **options)


def test_a_csv_file_and_its_parquet_copy_are_equal(tmp_path):
    table = people(200)
    tw.write_table(table, tmp_path / "a.csv")
    table["joined"] = pd.to_datetime(table["joined"])
    table.to_parquet(tmp_path / "b.parquet")
    score = tw.score(tmp_path / "a.csv", tmp_path / "b.parquet")
    assert score.figure("tvd_2way").whole == 0
    assert score.figure("copies").whole == 1


def test_levels_that_another_tool_wrote_as_floats_are_the_same():
    real, synthetic = pd.DataFrame({"zip": ["010", "3", " b "] * 20}), pd.DataFrame({"zip": ["010", "3.0", "b"] * 20})
    found, _ = sheets(real, synthetic)
    assert found[REAL].columns[0].levels == ("010", "3", "b")
    assert (found[REAL].cells["zip"].value == found[SYNTHETIC].cells["zip"].value).all()


def test_whole_numbers_may_come_back_with_decimals():
    real, synthetic = (
        pd.DataFrame({"n": [str(n) for n in range(40)]}),
        pd.DataFrame({"n": [n + 0.5 for n in range(40)]}),
    )
    found, _ = sheets(real, synthetic)
    assert found[SYNTHETIC].number("n").tolist() == [n + 0.5 for n in range(40)]


def test_truth_values_are_the_same_in_every_spelling():
    real, synthetic = pd.DataFrame({"b": [True, False] * 20}), pd.DataFrame({"b": ["true", "false"] * 20})
    found, _ = sheets(real, synthetic)
    assert (found[REAL].cells["b"].value == found[SYNTHETIC].cells["b"].value).all()


def test_decimal_commas_are_read_as_each_file_has_them(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n" + "".join(f"{n},5;{n}\n" for n in range(40)))
    (tmp_path / "b.csv").write_text("x,y\n" + "".join(f"{n}.5,{n}\n" for n in range(40)))
    tables = {REAL: tw.read_table(tmp_path / "a.csv", decimal=","), SYNTHETIC: tw.read_table(tmp_path / "b.csv")}
    found, _ = read_sheets(tables, None)
    assert (found[REAL].number("x") == found[SYNTHETIC].number("x")).all()


def test_special_values_are_levels_of_their_own():
    schema = tw.Schema.from_toml(
        '[columns.x]\nkind = "number"\nmin = 0\nmax = 1\nspecial = ["clotted", -1]\nnullable = true'
    )
    real = pd.DataFrame({"x": ["0.5", "clotted", "-1", None] * 10})
    score = tw.score(real, real, schema=schema)
    assert score.columns[0].labels[-3:] == ("clotted", "-1", "missing")
    assert score.columns[0].real[-3:] == (10, 10, 10)


def test_rare_levels_count_as_other_where_the_schema_says_so():
    schema = tw.Schema.from_toml('[columns.c]\nkind = "category"\nlevels = ["a"]\nother = "rest"\nnullable = false')
    real, synthetic = pd.DataFrame({"c": ["a", "b"] * 20}), pd.DataFrame({"c": ["a", "rest"] * 20})
    assert tw.score(real, synthetic, schema=schema).figure("tvd_1way").whole == 0


BROKEN = {
    "words for numbers": (lambda t: t.assign(age="CANARY"), "Column 'age' of the synthetic table"),
    "words for dates": (lambda t: t.assign(joined="CANARY"), "Column 'joined' of the synthetic table"),
    "few rows": (lambda t: t.head(5), "The synthetic table has fewer than 20 rows"),
    "other columns": (lambda t: t.rename(columns=lambda name: name + "CANARY"), "no column in common"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_table_that_cannot_be_compared_is_refused_by_its_column_and_never_by_a_cell(how):
    spoil, said = BROKEN[how]
    with pytest.raises(TableError, match=said) as caught:
        tw.score(people(60), spoil(people(60, 1)))
    assert "CANARY" not in str(caught.value)


def test_tables_that_are_not_judged_are_never_refused():
    real = people(60).assign(age="words", joined="words").head(3)
    found, _ = sheets(real, people(60, 1), by=SYNTHETIC, judged={SYNTHETIC})
    assert found[REAL].is_missing("age").all()
    assert found[REAL].rows == 3

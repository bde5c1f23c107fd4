"""Cells that a schema does not cover are nobody's: they count nowhere, and the others stand for them."""

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.auto import outside
from twinify_lite.auto.tables import Noisy, one_way, two_way
from twinify_lite.encode import Cuts

ROWS = 6000
SCHEMA = """
columns.sex = {kind = "category", levels = ["female", "male"], nullable = false}
columns.pain = {kind = "ordinal", levels = ["none", "some", "much"], nullable = false}
columns.sodium = {kind = "number", min = 110, max = 170, decimals = 1, nullable = false}
columns.age = {kind = "integer", min = 0, max = 99, nullable = false}
columns.ward = {kind = "category", levels = ["a", "b"], nullable = false}
"""


def people(seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["female", "male"], ROWS, p=[0.6, 0.4])
    ward = np.where(rng.random(ROWS) < np.where(sex == "female", 0.9, 0.2), "a", "b")
    sex = np.where(rng.random(ROWS) < 0.2, "Male", sex)
    pain = pd.Series(rng.choice(["none", "some", "much"], ROWS, p=[0.2, 0.3, 0.5])).mask(rng.random(ROWS) < 0.25)
    sodium = pd.Series(np.round(rng.normal(140, 4, ROWS), 1)).mask(rng.random(ROWS) < 0.2)
    return pd.DataFrame({"sex": sex, "pain": pain, "sodium": sodium, "age": rng.integers(18, 90, ROWS), "ward": ward})


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    path = tmp_path_factory.mktemp("outside") / "schema.toml"
    path.write_text(SCHEMA)
    return tw.fit(people(), epsilon=2.0, schema=path, insecure_seed=0)


def test_the_cells_that_count_stand_for_the_others(twin):
    rows = twin.sample(20_000, seed=0)
    assert (rows["sex"] == "female").mean() == pytest.approx(0.6, abs=0.02)
    assert rows["pain"].value_counts(normalize=True)[["none", "some", "much"]].tolist() == pytest.approx(
        [0.2, 0.3, 0.5], abs=0.03
    )
    assert rows["sodium"].mean() == pytest.approx(140, abs=0.5)
    assert rows["sodium"].std() == pytest.approx(4, abs=0.8)


def test_how_columns_hang_together_is_told_by_the_rows_that_count_in_both(twin):
    rows = twin.sample(20_000, seed=0)
    by_sex = (rows["ward"] == "a").groupby(rows["sex"]).mean()
    assert by_sex["female"] == pytest.approx(0.9, abs=0.06)
    assert by_sex["male"] == pytest.approx(0.2, abs=0.06)
    assert (rows["ward"] == "a").mean() == pytest.approx(0.62, abs=0.02)


def test_the_notes_tell_of_them_and_how_many_there_are_about(twin):
    (note,) = [note for note in twin.notes if note.startswith("Some cells do not fit the schema (3): ")]
    assert "'sex' about" in note
    assert "'pain' about" in note
    assert "'sodium' about" in note
    assert "'age'" not in note
    assert twin.fitted.misfits == {}
    assert not twin.fitted.outside.keys() - {"sex", "pain", "sodium"}
    assert twin.fitted.outside["sex"] == pytest.approx(0.2, abs=0.03)


def test_noise_alone_lacks_no_rows():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = [Noisy(np.full(5, 200.0) + rng.normal(0, 30, 5), 30.0) for _ in range(6)]
        assert (outside.parts_inside(counts, outside.rows_of(counts)) == 1).all()
        assert (outside.parts_inside(counts, outside.rows_of(counts, outside.Rows(1100, 141))) == 1).all()
    counts[2] = Noisy(counts[2].counts - 150, 30.0)
    parts = outside.parts_inside(counts, outside.rows_of(counts))
    assert (parts < 1).tolist() == [False, False, True, False, False, False]


def test_what_counts_nowhere_is_in_no_table():
    codes, other = np.array([0, 2, 1, 2], np.uint8), np.array([1, 0, 1, 1], np.uint8)
    assert one_way(codes, 2).tolist() == [1, 1]
    assert two_way(codes, other, (2, 2)).tolist() == [[0, 1], [0, 1]]
    assert two_way(codes, other, (3, 1)).tolist() == [[0], [0], [1]]


# -- declarations that are wrong --------------------------------------------------------------------------------------

WRONG = {
    "kind": ('{kind = "integer", min = 0, max = 99, nullable = %s}', [f"about {n}" for n in range(18, 90)]),
    "format": ('{kind = "datetime", format = "%%d.%%m.%%Y", min = 2020-01-01, max = 2020-12-31, nullable = %s}', None),
    "levels": ('{kind = "category", levels = ["F", "M"], nullable = %s}', ["female", "male"]),
    "levels beside other": ('{kind = "category", levels = ["F", "M"], other = "x", nullable = %s}', ["female", "male"]),
    "spelling of true": ('{kind = "boolean", levels = ["f", "t"], nullable = %s}', ["yes indeed", "not at all"]),
    "decimal mark": ('{kind = "number", min = 0, max = 9, decimals = 1, nullable = %s}', ["1,5", "2,5", "3,0"]),
}


def noted(column, cells, rows=3000, misfit=1.0, others=True, epsilon=1.0, seed=0):
    """The notes of a fit of `rows` rows of which the part `misfit` has `cells` that do not fit."""
    rng = np.random.default_rng(seed)
    fitting = {"integer": "40", "datetime": "03.04.2020", "category": "F", "boolean": "t", "number": "1.5"}
    kind = column.split('"')[1]
    cells = pd.date_range("2020-01-01", periods=300).strftime("%Y/%m/%d") if cells is None else cells
    frame = pd.DataFrame({"x": np.where(rng.random(rows) < misfit, rng.choice(cells, rows), fitting[kind])})
    lines = f"columns.x = {column}\n"
    if others:
        frame["ward"] = rng.choice(["a", "b"], rows)
        lines += 'columns.ward = {kind = "category", levels = ["a", "b"], nullable = false}\n'
    return tw.fit(frame, epsilon=epsilon, schema=tw.Schema.from_toml(lines), insecure_seed=seed).notes


@pytest.mark.parametrize("nullable", ["true", "false"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_declaration_is_told_by_its_column_from_noisy_counts(wrong, nullable):
    column, cells = WRONG[wrong]
    (told,) = [note for note in noted(column % nullable, cells) if "'x'" in note and "fit the schema" in note]
    assert told.startswith("About ")
    assert told.endswith("Check its kind, levels and format.")
    assert float(told.split()[1]) == pytest.approx(100, abs=5)


@pytest.mark.parametrize("nullable", ["true", "false"])
@pytest.mark.parametrize("wrong", ["kind", "levels beside other"])
def test_a_wrong_declaration_is_told_where_no_other_column_shows_how_many_rows_there_are(wrong, nullable):
    column, cells = WRONG[wrong]
    (told,) = [note for note in noted(column % nullable, cells, misfit=0.97, others=False) if "fit the schema" in note]
    assert told.startswith("About 9")


@pytest.mark.parametrize("nullable", ["true", "false"])
def test_a_few_cells_that_do_not_fit_and_noise_alone_make_no_such_note(nullable):
    column, cells = WRONG["kind"]
    for seed in range(3):
        assert not any("Check its kind" in note for note in noted(column % nullable, cells, misfit=0.3, seed=seed))
    assert not any("Check its kind" in note for note in noted(column % nullable, cells, rows=40, misfit=0, epsilon=0.2))


def test_a_column_that_nobody_declared_may_be_mostly_missing():
    rng = np.random.default_rng(0)
    x = pd.Series(rng.integers(0, 9, 3000)).astype("Int64").mask(rng.random(3000) < 0.9)
    twin = tw.fit(pd.DataFrame({"x": x, "y": rng.integers(0, 9, 3000)}), epsilon=1.0, insecure_seed=0)
    assert not any("Check its kind" in note for note in twin.notes)


def test_the_note_hangs_on_noisy_counts_alone():
    column = tw.Column(name="x", kind="category", levels=("a", "b"), nullable=True)
    known = {"declared": frozenset("x"), "levels": frozenset("x")}
    rows = outside.Rows(1000.0, 50.0)
    for counts, told in (([20, 20, 960], {"x": 0.96}), ([300, 300, 400], {}), ([240, 240, 520], {})):
        noisy = Noisy(np.array(counts, float), 30.0)
        assert outside.misfits([column], Cuts(16), [noisy], rows, **known) == pytest.approx(told)

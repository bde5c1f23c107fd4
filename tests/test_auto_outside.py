"""Cells that a schema does not cover are nobody's: they count nowhere, and the others stand for them."""

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.auto import outside
from twinify_lite.auto.tables import Noisy, one_way, two_way

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
    (note,) = [note for note in twin.notes if "none of what the schema declares" in note]
    assert "'sex' about" in note
    assert "'pain' about" in note
    assert "'sodium' about" in note
    assert "'age'" not in note
    assert not twin.fitted.outside.keys() - {"sex", "pain", "sodium"}
    assert twin.fitted.outside["sex"] == pytest.approx(0.2, abs=0.03)


def test_noise_alone_lacks_no_rows():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = [Noisy(np.full(5, 200.0) + rng.normal(0, 30, 5), 30.0) for _ in range(6)]
        assert (outside.parts_inside(counts) == 1).all()
    counts[2] = Noisy(counts[2].counts - 150, 30.0)
    assert (outside.parts_inside(counts) < 1).tolist() == [False, False, True, False, False, False]


def test_what_counts_nowhere_is_in_no_table():
    codes, other = np.array([0, 2, 1, 2], np.uint8), np.array([1, 0, 1, 1], np.uint8)
    assert one_way(codes, 2).tolist() == [1, 1]
    assert two_way(codes, other, (2, 2)).tolist() == [[0, 1], [0, 1]]
    assert two_way(codes, other, (3, 1)).tolist() == [[0], [0], [1]]

"""Synthetic rows: the same for the same seed, in batches of any size, one posterior draw a data set, and only those
that are asked for."""

import dataclasses
import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import twinify_lite as tw
from twinify_lite import twin as twin_module
from twinify_lite.auto import drawing, fitted, walking
from twinify_lite.errors import PrivacyParameterError, SchemaError, TwinError
from twinify_lite.schema import Schema
from twinify_lite.table import CsvStyle
from twinify_lite.where import Filter

DAY = datetime.date(2020, 1, 1)
SCHEMA = """
columns.id = {kind = "identifier", sample = "surrogate", pattern = "P{}"}
columns.age = {kind = "integer", min = 18, max = 40, nullable = false}
columns.sex = {kind = "category", levels = ["f", "m"], nullable = false}
columns.ward = {kind = "category", levels = ["1", "2"], nullable = true}
columns.sodium = {kind = "number", min = 130, max = 150, decimals = 1, special = [-1], nullable = true}
columns.smoker = {kind = "boolean", nullable = false}
columns.day = {kind = "datetime", min = 2020-01-01, max = 2020-01-20, nullable = false}
"""


def people(rows=1500):
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], rows)
    sodium = rng.normal(140, 3, rows).round(1).clip(130, 150)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "age": rng.integers(18, 41, rows),
            "sex": sex,
            "ward": np.where(rng.random(rows) < 0.3, None, np.where(sex == "f", "1", "2")),
            "sodium": np.where(rng.random(rows) < 0.2, np.nan, np.where(rng.random(rows) < 0.1, -1, sodium)),
            "smoker": rng.random(rows) < 0.3,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 20, rows), "D"),
        }
    )


@pytest.fixture(scope="module")
def twin():
    options = {"particles": 2048}
    return tw.fit(people(), epsilon=5, schema=Schema.from_toml(SCHEMA), insecure_seed=1, options=options)


# -- seeds and data sets -----------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_rows_and_another_or_none_gives_others(twin):
    rows = twin.sample(200, seed=4)
    assert len(rows) == 200
    assert rows.equals(twin.sample(200, seed=4))
    assert not rows.equals(twin.sample(200, seed=5))
    assert not twin.sample(200).equals(twin.sample(200))


def test_data_sets_differ_and_each_is_the_same_again(twin):
    tables = [twin.sample(200, seed=4, dataset=dataset) for dataset in (0, 1, 2)]
    assert not tables[0].equals(tables[1])
    assert not tables[1].equals(tables[2])
    assert tables[2].equals(twin.sample(200, seed=4, dataset=2))


def test_data_set_0_is_the_mode_and_every_other_one_a_draw(twin, monkeypatch):
    drawn, made, walker = [], [], walking.walker
    monkeypatch.setattr(drawing, "posterior_draw", lambda links, _lines, dataset: drawn.append(dataset) or links)
    monkeypatch.setattr(walking, "walker", lambda links: made.append(links) or walker(links))
    fresh = anew(twin)
    fresh.sample(10, dataset=0)
    assert drawn == []
    assert made == [twin.fitted.links]
    fresh.sample(10, dataset=6)
    fresh.sample(10, dataset=6)
    assert drawn == [6]


def anew(twin):
    """The twin as if it had never been sampled."""
    return dataclasses.replace(twin, fitted=dataclasses.replace(twin.fitted, _samplers={}))


@pytest.mark.parametrize(("few", "wide", "way"), [(3000, 512, "walker"), (2999, 512, "sampler"), (0, 2, "walker")])
def test_a_program_is_compiled_only_for_many_rows_of_few_columns(twin, monkeypatch, few, wide, way):
    monkeypatch.setattr(fitted, "_FEW", few)
    monkeypatch.setattr(fitted, "_WIDE", wide)
    fresh = anew(twin)
    rows = pa.concat_tables(fresh.batches(3000, seed=0, batch=1000))
    assert list(fresh.fitted._samplers) == [(way, 0)]
    shares = rows.to_pandas()["sex"].value_counts(normalize=True)
    assert shares["f"] == pytest.approx(0.5, abs=0.06)


def test_data_sets_keep_what_is_sure(twin):
    for dataset in (1, 17):
        rows = twin.sample(4000, seed=0, dataset=dataset)
        assert (rows["sex"] == "f").mean() == pytest.approx(0.5, abs=0.06)
        both = rows["ward"].notna()
        assert ((rows["ward"] == "1") == (rows["sex"] == "f"))[both].mean() > 0.8


# -- types -------------------------------------------------------------------------------------------------------------

KEPT = ("Int64", "UInt8", "boolean", "float64", "int16", "bool", "datetime64[s]", "float32", "object")


@pytest.mark.parametrize("kind", KEPT)
def test_a_frames_types_come_back_with_missing_cells_or_without(kind):
    cells = np.random.default_rng(0).integers(0, 2, 600)
    column = pd.Series(cells).astype(str if kind == "object" else kind).astype(kind)
    if kind in ("Int64", "UInt8", "boolean", "float64", "object"):
        column = column.mask(cells.cumsum() % 3 == 0)
    twin = tw.fit(pd.DataFrame({"a": column, "b": cells}), epsilon=20, insecure_seed=0, options={"particles": 512})
    rows = twin.sample(300, seed=0)
    assert rows["a"].dtype == column.dtype
    assert rows["a"].isna().any() == column.isna().any()
    assert rows["b"].dtype == "int64"


def test_whole_numbers_of_a_text_file_are_what_pandas_makes_of_them(tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n" + "1,x\n,y\n3,x\n" * 300)
    twin = tw.fit(tmp_path / "data.csv", epsilon=20, insecure_seed=0, options={"particles": 512})
    assert twin.sample(300, seed=0)["a"].dtype == pd.read_csv(tmp_path / "data.csv")["a"].dtype == "float64"


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7, 50, 1000])
def test_batches_are_bounded_and_add_up(twin, batch):
    number = min(100, 10 * batch)
    tables = list(twin.batches(number, seed=0, batch=batch))
    assert all(1 <= table.num_rows <= batch for table in tables)
    assert sum(table.num_rows for table in tables) == number
    assert len({table.schema for table in tables}) == 1


def test_batches_of_any_size_are_alike_in_law(twin):
    small = pd.concat(table.to_pandas() for table in twin.batches(3000, seed=1, batch=300))
    large = twin.sample(30_000, seed=2)
    for names in (["sex", "ward"], ["smoker", "age"]):
        counts = [table.groupby(names, dropna=False).size() for table in (small, large)]
        table = pd.concat(counts, axis=1).fillna(0)
        assert stats.chi2_contingency(table.to_numpy()).pvalue > 1e-4
    assert stats.ks_2samp(small["sodium"].dropna(), large["sodium"].dropna()).pvalue > 1e-4


def test_the_first_batches_do_not_wait_for_the_others(twin):
    stream = twin.batches(10**12, seed=0, batch=10)
    assert next(stream).num_rows == 10


def test_surrogates_count_on_over_batches(twin):
    expected = [f"P{number}" for number in range(1, 101)]
    for where in (None, {"sex": "f"}):
        tables = twin.batches(100, seed=0, batch=30, where=where)
        assert [name for table in tables for name in table.column("id").to_pylist()] == expected


# -- where -------------------------------------------------------------------------------------------------------------

ASKED = {
    "a level": ({"sex": "f"}, lambda t: t["sex"] == "f"),
    "two levels": ({"sex": "f", "ward": "1"}, lambda t: (t["sex"] == "f") & (t["ward"] == "1")),
    "a level that looks like a number": ({"ward": 2}, lambda t: t["ward"] == "2"),
    "missing": ({"ward": ""}, lambda t: t["ward"].isna()),
    "missing as None": ({"ward": None}, lambda t: t["ward"].isna()),
    "a missing number": ({"sodium": ""}, lambda t: t["sodium"].isna()),
    "a whole number": ({"age": 20}, lambda t: t["age"] == 20),
    "a number in words": ({"age": "20.0"}, lambda t: t["age"] == 20),
    "a number": ({"sodium": 140.5}, lambda t: t["sodium"] == 140.5),
    "a special value": ({"sodium": -1}, lambda t: t["sodium"] == -1),
    "true": ({"smoker": True}, lambda t: t["smoker"]),
    "true in words": ({"smoker": "true"}, lambda t: t["smoker"]),
    "false": ({"smoker": False}, lambda t: ~t["smoker"]),
    "true in other words": ({"smoker": "yes"}, lambda t: t["smoker"]),
    "from a number on": ({"age": ">=35"}, lambda t: t["age"] >= 35),
    "above a number": ({"age": ">35"}, lambda t: t["age"] > 35),
    "up to a number": ({"sodium": "<= 139.5"}, lambda t: t["sodium"] <= 139.5),
    "below a number that is not whole": ({"age": "<20.5"}, lambda t: t["age"] <= 20),
    "between": ({"age": [">=20", "<25"]}, lambda t: t["age"].between(20, 24)),
    "days": (
        {"day": [">2020-01-03", "<=2020-01-05"]},
        lambda t: t["day"].isin(pd.to_datetime(["2020-01-04", "2020-01-05"])),
    ),
}


@pytest.mark.parametrize(("where", "holds"), ASKED.values(), ids=ASKED)
def test_only_rows_that_are_asked_for(twin, where, holds):
    rows = twin.sample(40, seed=0, where=where)
    assert len(rows) == 40
    assert holds(rows).all()


@pytest.mark.parametrize("day", ["2020-01-05", datetime.date(2020, 1, 5), pd.Timestamp("2020-01-05")], ids=str)
def test_rows_of_one_day(twin, monkeypatch, day):
    monkeypatch.setattr(twin_module, "_PATIENCE", 1)
    rows = next(twin.batches(5, seed=0, where={"day": day}, batch=1000)).to_pandas()
    assert (rows["day"] == pd.Timestamp("2020-01-05")).all()


def test_rows_that_are_asked_for_have_the_law_of_those_among_all(twin):
    asked, among = twin.sample(2000, seed=0, where={"sex": "m"}), twin.sample(20_000, seed=1)
    share = (among["ward"][among["sex"] == "m"] == "2").mean()
    assert (asked["ward"] == "2").mean() == pytest.approx(share, abs=0.05)


def test_what_cannot_be_asked_for_is_refused_all_at_once(twin):
    where = {"sex": "z", "sxe": 1, "age": "", "id": "P1"}
    with pytest.raises(SchemaError) as refused:
        twin.sample(5, where=where)
    lines = str(refused.value).splitlines()
    assert len(lines) == 4
    assert "no level 'z'. Its levels are 'f', 'm'." in lines[0]
    names = "'age', 'sex', 'ward', 'sodium', 'smoker', 'day'"
    assert lines[1].endswith(f"no column 'sxe' to choose rows by, which can be {names}; did you mean 'sex'?")
    assert "'age' is never missing" in lines[2]
    assert lines[3].endswith(f"no column 'id' to choose rows by, which can be {names}.")


def test_the_level_other_can_be_asked_for_and_is_named(twin):
    schema = twin.schema.replace_columns([twin.schema["sex"].replace(levels=("f",), other="other")])
    rows = pa.table({"sex": ["f", "other", None], "id": ["P1", "P2", "P3"]})
    assert Filter.of(schema, {"sex": "other"}).apply(rows).column("sex").to_pylist() == ["other"]
    with pytest.raises(SchemaError, match=r"no level 'x'\. Its levels are 'f', 'other'"):
        Filter.of(schema, {"sex": "x"})


COLUMNS = [
    ({"kind": "number", "min": 0, "max": 9, "decimals": 1, "dtype": "string"}, ["1.0", "1.5"], "1", ["1.0"]),
    ({"kind": "number", "min": 0, "max": 9, "decimals": 1, "dtype": "string"}, ["1,0", "1,5"], "1.5", ["1,5"]),
    ({"kind": "integer", "min": 0, "max": 9, "special": ["N", "<3"]}, ["4", "N", "<3"], "N", ["N"]),
    ({"kind": "integer", "min": 0, "max": 9, "special": ["N", "<3"]}, ["4", "N", "<3"], "<3", ["<3"]),
    ({"kind": "integer", "min": 0, "max": 9, "special": ["N", "<3"]}, ["4", "N", "2"], "<4", ["2"]),
    ({"kind": "boolean", "levels": ["no", "yes"], "dtype": "bool"}, [True, False], "yes", [True]),
    ({"kind": "boolean", "levels": ["no", "yes"]}, ["yes", "no"], True, ["yes"]),
    ({"kind": "category", "levels": ["1.0", "2.0"], "dtype": "double"}, [1.0, 2.0], "2.0", [2.0]),
    ({"kind": "number", "min": 0, "max": 9, "dtype": "float"}, [1.1, 2.5], "1.1", [pytest.approx(1.1)]),
    (
        {"kind": "datetime", "format": "%d.%m.%Y", "min": DAY, "max": DAY.replace(day=9)},
        ["05.01.2020"],
        "05.01.2020",
        ["05.01.2020"],
    ),
    (
        {"kind": "datetime", "format": "%d.%m.%Y", "min": DAY, "max": DAY.replace(day=9)},
        ["05.01.2020"],
        "2020-01-05",
        ["05.01.2020"],
    ),
]


@pytest.mark.parametrize(("column", "cells", "asked", "kept"), COLUMNS, ids=str)
def test_rows_are_chosen_by_what_their_cells_mean(column, cells, asked, kept):
    style = CsvStyle(decimal="," if "1,0" in cells else ".")
    schema = Schema((tw.Column(name="c", nullable=True, **column),), style=style)
    dtype = pa.float32() if column.get("dtype") == "float" else None
    rows = pa.table({"c": pa.array([*cells, None], dtype)})
    assert Filter.of(schema, {"c": asked}).apply(rows).column("c").to_pylist() == kept


def test_rows_that_never_come_are_given_up(twin, monkeypatch):
    monkeypatch.setattr(twin_module, "_PATIENCE", 3)
    with pytest.raises(SchemaError, match="No row of 30 has what `where` asks for"):
        list(twin.batches(5, seed=0, where={"sodium": 149.9, "age": 18, "ward": "1", "sex": "m"}, batch=10))


@pytest.mark.parametrize(
    "where",
    [{"age": "abc"}, {"age": 99}, {"age": "nan"}, {"age": ">40"}, {"age": "<18"}, {"age": ">x"}, {"age": 20.5}],
    ids=str,
)
def test_a_number_that_a_column_cannot_have_is_refused_before_any_row_is_drawn(twin, monkeypatch, where):
    monkeypatch.setattr(twin_module, "_PATIENCE", 1)
    with pytest.raises(SchemaError, match="'age'"):
        list(twin.batches(5, where=where, batch=10))


@pytest.mark.parametrize("where", [{"day": "2031-01-01"}, {"day": "soon"}, {"day": "<2020-01-01"}, {"sodium": 140.55}])
def test_what_a_column_never_is_is_refused_with_its_range(twin, where):
    with pytest.raises(SchemaError, match=r"Column '(day|sodium)' lies between .*; it never is"):
        Filter.of(twin.schema, where)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"n": 0}, {"n": -1}, {"n": 5, "dataset": -1}, {"n": 5, "dataset": 1000}], ids=str)
def test_rows_and_data_sets_that_there_are_not_are_refused(twin, asked):
    with pytest.raises(PrivacyParameterError):
        twin.sample(**asked)


def test_batches_of_nothing_are_refused(twin):
    with pytest.raises(PrivacyParameterError):
        twin.batches(5, batch=0)


@pytest.mark.parametrize(
    "asked",
    [{"n": 2.5}, {"n": "3"}, {"n": True}, {"n": float("inf")}, {"n": float("nan")}, {"n": 5, "seed": -1}],
    ids=str,
)
def test_numbers_that_are_none_are_refused(twin, asked):
    with pytest.raises(TwinError, match="must be a whole number, at least"):
        twin.sample(**asked)


def test_a_whole_number_may_be_a_float_or_of_numpy(twin):
    rows = twin.sample(20, seed=3, dataset=1)
    assert rows.equals(twin.sample(2e1, seed=3.0, dataset=np.int64(1)))


@pytest.mark.parametrize("where", ["sex=f", [("sex", "f")], 3], ids=repr)
def test_conditions_that_are_no_dict_are_refused_at_once(twin, where):
    with pytest.raises(SchemaError, match="where is a dict"):
        twin.batches(5, where=where)


def test_samplers_of_many_datasets_are_not_all_kept():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 3, 200), "b": rng.random(200) < 0.5})
    twin = tw.fit(frame, epsilon=5, options={"particles": 256})
    before = twin.sample(20, seed=1, dataset=3)
    for dataset in range(40):
        twin.sample(20, seed=1, dataset=dataset)
    assert len(twin.fitted._samplers) <= 4
    pd.testing.assert_frame_equal(twin.sample(20, seed=1, dataset=3), before)

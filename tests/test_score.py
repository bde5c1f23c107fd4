"""The score: every figure means what it says, and stands between floor and ceiling."""

import json

import numpy as np
import pandas as pd
import pytest
from score_cases import bad, good, people, shuffled

import twinify_lite as tw
from twinify_lite.errors import PrivacyParameterError, SchemaError, TableError
from twinify_lite.score import WARNING, coding


def test_every_output_begins_by_saying_that_epsilon_does_not_cover_it():
    assert "NOT COVERED BY EPSILON" in WARNING
    assert "must not leave the house" in WARNING
    assert str(good()).split("\n")[0] == WARNING
    assert next(iter(good().to_json())) == "warning"
    assert json.loads(json.dumps(good().to_json(), allow_nan=False))["warning"] == WARNING
    assert "not covered by epsilon" in repr(good())
    assert "not covered by epsilon" in repr(good().figure("tvd_2way"))


def test_other_people_of_the_same_kind_are_as_good_as_held_out_ones():
    for key in ("tvd_1way", "tvd_2way", "tvd_3way", "correlation", "missing_patterns"):
        figure = good().figure(key)
        assert figure.better == "lower"
        assert figure.synthetic == pytest.approx(figure.heldout, rel=0.5, abs=0.03)
    for key in ("tvd_2way", "tvd_3way", "correlation"):
        assert good().figure(key).synthetic < 0.5 * good().figure(key).independent
    for key in ("quality", "column_pair_trends", "auc", "accuracy"):
        figure = good().figure(key)
        assert figure.synthetic == pytest.approx(figure.heldout, abs=0.06)
        assert figure.synthetic > figure.independent + 0.05


def test_rows_without_dependence_are_no_better_than_independent_columns():
    for key in ("tvd_2way", "tvd_3way", "correlation", "missing_patterns"):
        figure = bad().figure(key)
        assert figure.synthetic > 0.7 * figure.independent > 1.2 * figure.heldout
    assert bad().figure("tvd_1way").synthetic < 2 * bad().figure("tvd_1way").heldout
    assert bad().figure("r2").synthetic < 0.1 < 0.7 < bad().figure("r2").heldout
    assert bad().figure("mae").synthetic > 2 * bad().figure("mae").heldout


def test_a_classifier_tells_apart_what_differs_and_nothing_else():
    assert good().figure("c2st").synthetic == pytest.approx(0.5, abs=0.06)
    assert good().figure("c2st").heldout == pytest.approx(0.5, abs=0.06)
    assert bad().figure("c2st").synthetic > 0.8
    assert bad().figure("c2st").heldout == pytest.approx(0.5, abs=0.06)


def test_distances_are_half_the_sum_of_absolute_differences_of_shares():
    real = pd.DataFrame({"a": ["x"] * 60 + ["y"] * 40, "b": ["u"] * 50 + ["v"] * 50})
    synthetic = pd.DataFrame({"a": ["x"] * 20 + ["y"] * 20 + ["z"] * 10, "b": ["u"] * 25 + ["v"] * 25})
    score = tw.score(real, synthetic)
    assert {column.name: column.tvd for column in score.columns} == {"a": pytest.approx(0.2), "b": pytest.approx(0.0)}
    assert score.figure("tvd_1way").whole == pytest.approx(0.1)
    # Real: xu 50, xv 10, yv 40 of 100; synthetic: xu 20, yu 5, yv 15, zv 10 of 50.
    assert score.figure("tvd_2way").whole == pytest.approx((0.1 + 0.1 + 0.1 + 0.1 + 0.2) / 2)
    assert [pair.columns for pair in score.pairs] == [("a", "b")]


def test_numbers_are_cut_into_bins_of_equal_width_between_the_real_ends():
    real = pd.DataFrame({"x": np.repeat(np.arange(16) + 0.5, 10)})
    synthetic = pd.DataFrame({"x": np.repeat([0.5, 1.4, 15.5, 99.0, -99.0], 40)})
    score = tw.score(real, synthetic)
    # Bins begin at 0.5 and are 15/16 wide: 1.4 is in the first; what lies beyond counts in the outer bins.
    apart = abs(3 / 5 - 1 / 16) + abs(2 / 5 - 1 / 16) + 14 / 16
    assert score.figure("tvd_1way").whole == pytest.approx(apart / 2)


def test_the_worst_cells_are_named_with_their_shares():
    real, synthetic = people(400, 0), people(400, 1)
    synthetic.loc[:199, "sex"] = "unknown"
    score = tw.score(real, synthetic)
    single = next(cell for cell in score.cells if len(cell.columns) == 1)
    assert (single.columns, single.levels) == (("sex",), ("unknown",))
    assert (single.real, single.synthetic) == (0.0, 0.5)
    assert {len(cell.columns) for cell in score.cells} == {1, 2, 3}
    assert "sex = unknown" in str(score)
    assert score.columns[1].tvd == max(column.tvd for column in score.columns)


def test_one_bad_level_does_not_fill_the_list_of_worst_cells():
    real, synthetic = people(400, 0), people(400, 1)
    synthetic.loc[:199, "sex"] = "unknown"
    pairs = [cell for cell in tw.score(real, synthetic).cells if len(cell.columns) == 2]
    assert sum(("sex", "unknown") in zip(c.columns, c.levels, strict=True) for c in pairs) == 1


def test_missing_cells_are_compared_by_share_and_by_pattern():
    patterns = {pattern.columns: pattern for pattern in good().patterns}
    assert set(patterns) <= {(), ("income", "pension")}
    together = patterns[("income", "pension")]
    assert together.real == pytest.approx(people()["income"].isna().mean())
    assert {columns for pattern in bad().patterns for columns in [pattern.columns]} >= {("income",), ("pension",)}
    assert good().figure("missing").whole < 0.05
    assert next(column for column in good().columns if column.name == "income").missing[0] == together.real


def test_a_table_without_missing_cells_has_no_figures_of_them():
    real = people(200)[["age", "sex"]]
    score = tw.score(real, people(200, 1)[["age", "sex"]])
    assert score.patterns == ()
    assert not [figure for figure in score.figures if figure.key.startswith("missing")]


def test_sdmetrics_says_the_same_of_the_tables_themselves():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sdmetrics.reports.single_table import QualityReport

        real, synthetic = (people(seed=seed)[["age", "sex", "income", "pension", "retired"]] for seed in (0, 1))
        kinds = {name: "numerical" if name in ("age", "income", "pension") else "categorical" for name in real}
        report = QualityReport()
        report.generate(
            real, synthetic, {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}, verbose=False
        )
    score = tw.score(real, synthetic)
    assert score.figure("quality").whole == pytest.approx(report.get_score(), abs=1e-9)
    shapes, trends = report.get_properties()["Score"]
    assert score.figure("column_shapes").whole == pytest.approx(shapes, abs=1e-9)
    assert score.figure("column_pair_trends").whole == pytest.approx(trends, abs=1e-9)


def test_the_version_and_the_thresholds_of_sdmetrics_are_told():
    told = good().versions["sdmetrics"]
    assert told.startswith("0.32")
    assert "thresholds 0.5 (correlation) and 0.3 (association)" in told
    assert told in str(good())


def test_weakly_related_pairs_count_where_the_thresholds_are_zero():
    figure = good().figure("all_pairs")
    assert figure.name.endswith("all pairs")
    assert figure.whole != good().figure("column_pair_trends").whole


def test_sizes_are_equal_where_figures_are_compared_with_each_other():
    assert good().rows == {"real": 1500, "synthetic": 1500, "held-out": 1500, "reference": 1500, "compared": 1500}
    assert not good().is_split
    assert bad().rows == {"real": 1500, "synthetic": 1500, "held-out": 750, "reference": 750, "compared": 750}
    assert bad().is_split
    few = tw.score(people(300), people(50, 1))
    assert (few.rows["compared"], few.rows["reference"]) == (50, 150)


def test_the_same_seed_gives_the_same_score():
    arguments = (people(200), people(200, 1))
    once, again, other = (tw.score(*arguments, seed=seed) for seed in (3, 3, 4))
    assert once == again
    assert once.figure("tvd_2way").heldout != other.figure("tvd_2way").heldout
    assert once.figure("tvd_2way").whole == other.figure("tvd_2way").whole


@pytest.mark.parametrize("seed", [-1, True, 1.5, None])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(PrivacyParameterError, match="seed"):
        tw.score(people(50), people(50), seed=seed)


def test_a_target_that_is_not_there_is_refused_with_the_nearest_name():
    with pytest.raises(SchemaError, match="did you mean 'income'"):
        tw.score(people(50), people(50), target="incme")


def test_columns_that_are_not_in_both_tables_are_told_and_left_out():
    score = tw.score(people(100), people(100, 1).drop(columns="joined").assign(extra=1))
    assert [column.name for column in score.columns] == ["age", "sex", "income", "pension", "retired"]
    assert score.notes[0] == "The synthetic table lacks 'joined', and no figure here counts that."
    assert score.notes[1] == "Not compared, as not all tables have them: 'extra'."


def test_columns_that_the_schema_does_not_model_are_told_as_such():
    schema = tw.Schema([tw.Column(name="age", kind="identifier")])
    told = "Not compared, as they are identifiers or constants in the schema: 'age'."
    assert told in tw.score(people(100), people(100, 1), schema=schema).notes


def test_a_boolean_in_other_words_is_refused_and_not_taken_for_missing():
    tables = [people(100, seed).assign(smoker=np.arange(100) % 3 == 0) for seed in range(2)]
    spelled = tables[1].assign(smoker=np.where(tables[1]["smoker"], "ja", "nein"))
    with pytest.raises(TableError, match="'smoker' of the synthetic table: most cells are not true or false"):
        tw.score(tables[0], spelled)


def test_a_target_that_few_held_out_rows_have_is_noted():
    rare = [people(400, seed).assign(rare=["yes"] * 12 + ["no"] * 388) for seed in range(3)]
    notes = tw.score(*rare[:2], holdout=rare[2], target="rare").notes
    assert (
        "Only 12 of the held-out rows have the rarest value of 'rare': how well it is predicted is mostly chance."
        in notes
    )
    assert not any("mostly chance" in note for note in good().notes)


def test_worst_columns_and_pairs_are_told_at_equal_sizes_too():
    real, few = people(3000, 0), people(60, 2)
    score = tw.score(real, people(3000, 1), holdout=few)
    column = max(score.columns, key=lambda column: column.tvd)
    assert column.tvd < 0.5 * column.heldout  # of 3000 rows and of 60
    assert 0.4 < np.mean([c.sampled / c.heldout for c in score.columns]) < 2.5
    assert f"{column.tvd:.4f} ({column.sampled:.4f} {column.heldout:.4f})" in str(score)
    mean = np.mean([pair.sampled for pair in score.pairs])
    assert score.figure("tvd_2way").synthetic == pytest.approx(mean)


def test_a_column_of_keys_moves_no_figure_unless_it_is_declared():
    tables = [people(300, seed) for seed in (0, 1)]
    with_keys = [table.assign(key=[f"{seed} {n}" for n in range(300)]) for seed, table in enumerate(tables)]
    score, plain = tw.score(*with_keys), tw.score(*tables)
    assert score.figures == plain.figures
    assert score.notes[0].startswith("Not compared, as nearly every cell is a text of its own: 'key'.")
    declared = tw.score(*with_keys, schema=tw.Schema([tw.Column(name="key", kind="category")]))
    assert "key" in [column.name for column in declared.columns]
    with pytest.raises(SchemaError, match="'key' is not compared: it is not in all tables"):
        tw.score(*with_keys, target="key")


@pytest.mark.parametrize("target", [["sex"], 5, True])
def test_a_target_is_a_name(target):
    with pytest.raises(SchemaError, match="name of one column"):
        tw.score(people(50), people(50, 1), target=target)


def test_a_figure_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(SchemaError, match=r"no figure 'nothing'\. It has tvd_1way"):
        good().figure("nothing")


def test_a_target_that_cannot_be_predicted_is_noted():
    tables = [people(100, seed).assign(ward="north") for seed in (0, 1)]
    score = tw.score(*tables, target="ward")
    assert score.figure("auc").synthetic is None
    assert any(note.startswith("'ward' cannot be predicted") for note in score.notes)


def test_numbers_with_decimal_commas_are_noted(tmp_path):
    for seed, name in enumerate(("a.csv", "b.csv")):
        commas = {"income": [f"{n % 7},{n % 10}" for n in range(200)], "height": [f"{n},{seed}1" for n in range(200)]}
        tw.write_table(people(200, seed).assign(**commas), tmp_path / name)
    score = tw.score(tmp_path / "a.csv", tmp_path / "b.csv")
    for column, note in zip(("income", "height"), score.notes, strict=False):
        assert note.startswith(f"Column '{column}' looks like numbers with decimal commas, and is taken for texts")


def test_bars_are_counts_of_cells():
    columns = {column.name: column for column in good().columns}
    real, synthetic = people(seed=0), people(seed=1)
    assert dict(zip(columns["sex"].labels, columns["sex"].real, strict=True)) == real["sex"].value_counts().to_dict()
    assert sum(columns["age"].synthetic) == len(synthetic)
    income = columns["income"]
    assert income.labels[-1] == "missing"
    assert (income.real[-1], income.synthetic[-1]) == (real["income"].isna().sum(), synthetic["income"].isna().sum())
    edge = float(income.labels[0].removeprefix("below "))
    assert income.real[0] == pytest.approx((real["income"] < edge).sum(), abs=1)  # the label is rounded
    assert columns["joined"].labels[1].startswith("2015-01")


def test_very_many_levels_are_told_as_the_commonest_and_one_for_the_rest(monkeypatch):
    monkeypatch.setattr(coding, "_SHOWN", 30)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"code": [f"E{number}" for number in rng.geometric(0.02, 3000)]})
    column = tw.score(table, table.sample(frac=1, random_state=0)).columns[0]
    assert len(column.labels) == 31
    assert column.labels[-1] == f"{table['code'].nunique() - 30} other levels"
    assert sum(column.real) == 3000
    assert column.real == column.synthetic


def test_bars_of_whole_numbers_hold_equally_many_and_say_which():
    real = pd.DataFrame({"n": np.arange(17, 217), "x": np.arange(200) / 7}).astype({"n": "int64"})
    column = tw.score(real, real, seed=3).columns[0]
    assert column.labels[:2] == ("17 to 26", "27 to 36")
    assert set(column.real) == {10}
    assert sum(column.real) == 200
    assert column.apart == 0


def test_special_values_stand_apart_from_the_axis():
    schema = tw.Schema([tw.Column(name="n", kind="integer", special=(-1,))])
    real = pd.DataFrame({"n": [*range(10, 15)] * 20 + [-1] * 10 + [None] * 5, "x": range(115)})
    column = tw.score(real, real, schema=schema).columns[0]
    assert column.labels == ("10", "11", "12", "13", "14", "-1", "missing")
    assert (column.real, column.apart) == ((20, 20, 20, 20, 20, 10, 5), 2)


def test_the_tables_of_the_worst_pairs_hold_shares_of_all_rows():
    for table in bad().tables:
        shape = (len(table.labels[0]), len(table.labels[1]))
        assert np.shape(table.real) == np.shape(table.synthetic) == shape
        assert max(shape) <= 9
        assert np.sum(table.real) == pytest.approx(1)
        assert np.sum(table.synthetic) == pytest.approx(1)
    assert bad().tables[0].columns == bad().pairs[0].columns


def test_a_number_that_crowds_into_one_bin_is_noted():
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame({"cost": rng.lognormal(0, 4, 500), "x": rng.random(500)}) for _ in range(2)]
    notes = " ".join(tw.score(*tables).notes)
    assert "'cost'" in notes
    assert "'x'" not in notes


@pytest.mark.parametrize(
    "spoil",
    [
        lambda real, synthetic: synthetic.assign(income=np.nan),
        lambda real, synthetic: synthetic.assign(sex=None),
        lambda real, synthetic: synthetic.assign(sex="other", retired="no"),
        lambda real, synthetic: synthetic.assign(income=1e300 * synthetic["age"]),
        lambda real, synthetic: synthetic.assign(age=7),
    ],
    ids=["numbers gone", "levels gone", "one level", "huge numbers", "a constant"],
)
@pytest.mark.parametrize("target", ["income", "sex"])
def test_a_bad_twin_is_scored_and_not_refused(spoil, target):
    real = people(120)
    score = tw.score(real, spoil(real, people(120, 1)), target=target)
    json.dumps(score.to_json(), allow_nan=False)
    assert score.figure("tvd_1way").synthetic > 1.5 * score.figure("tvd_1way").heldout


def test_a_single_column_can_be_scored():
    score = tw.score(people(60)[["age"]], people(60, 1)[["age"]], target="age")
    assert {figure.key for figure in score.figures} >= {"tvd_1way", "quality", "r2", "c2st", "dcr"}
    assert score.pairs == ()
    str(score)


def test_tables_with_too_many_cells_are_counted_by_those_that_occur():
    from twinify_lite.score import marginals

    real, synthetic = people(300), people(300, 1)
    dense = tw.score(real, synthetic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "_DENSE", 0)
        sparse = tw.score(real, synthetic)
    assert sparse.figure("tvd_3way").whole == pytest.approx(dense.figure("tvd_3way").whole)
    assert sparse.figure("tvd_2way").independent == pytest.approx(dense.figure("tvd_2way").independent)


def test_independent_rows_keep_each_column_and_no_dependence():
    table = shuffled(people(2000))
    score = tw.score(people(2000), table)
    assert score.figure("tvd_1way").whole == pytest.approx(0, abs=1e-12)
    assert score.figure("tvd_2way").whole > 0.05


def test_trees_grow_on_one_thread_and_give_the_others_back(monkeypatch):
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_info

    def threads():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp"]

    seen, fit = [], HistGradientBoostingClassifier.fit
    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", lambda *a, **k: seen.extend(threads()) or fit(*a, **k))
    before = threads()
    tw.score(people(200), people(200, seed=1), target="sex")
    assert set(seen) == {1}
    assert threads()[: len(before)] == before

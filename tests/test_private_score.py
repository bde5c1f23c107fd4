"""The private score: what one row can move, the noise that hides it, and that nothing else of the rows is used."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from score_cases import people, shuffled

import twinify_lite as tw
from twinify_lite import release
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError, SchemaError
from twinify_lite.schema.draft import draft
from twinify_lite.score import coding
from twinify_lite.score.marginals import apart
from twinify_lite.score.private import _LATTICE, _Sums
from twinify_lite.score.reading import REAL, SYNTHETIC, read_sheets
from twinify_lite.statement import GUESSED

COLUMNS = ["age", "sex", "income", "retired"]
SYNTHETIC_ROWS = people(80, 3)[COLUMNS].astype(object)


def sums(rows, target=None, synthetic=SYNTHETIC_ROWS):
    tables = {SYNTHETIC: tw.read_table(synthetic), REAL: tw.read_table(rows)}
    sheets, _ = read_sheets(tables, None, by=SYNTHETIC, judged={SYNTHETIC})
    plan = _Sums.of(sheets[SYNTHETIC], target)
    found = plan.sums(sheets[REAL])
    assert all(isinstance(one, int) for one in found)
    return np.array(found) / _LATTICE, plan.parts  # exact: the lattice is a power of two


ROW = st.tuples(
    st.one_of(st.integers(-1000, 1000), st.just("?")),
    st.sampled_from(["female", "male", "unheard of", "", None]),
    st.one_of(st.floats(-1e12, 1e12), st.none(), st.just("words")),
    st.sampled_from(["yes", "no", "maybe", None]),
)


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=6), extra=ROW, target=st.sampled_from([None, "retired", "income"]))
def test_one_row_adds_at_most_one_to_every_sum(rows, extra, target):
    fewer, more = (pd.DataFrame(list(map(_texts, some)), columns=COLUMNS) for some in (rows, [*rows, extra]))
    (before, parts), (after, _) = sums(fewer, target), sums(more, target)
    assert len(before) == len(parts)
    assert np.abs(after - before).max() <= 1


@settings(max_examples=15, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=6), extra=ROW, other=ROW, target=st.sampled_from([None, "income"]))
def test_another_row_in_place_of_one_moves_no_sum_by_more_than_one(rows, extra, other, target):
    one, two = (pd.DataFrame(list(map(_texts, [*rows, last])), columns=COLUMNS) for last in (extra, other))
    assert np.abs(sums(one, target)[0] - sums(two, target)[0]).max() <= 1


def _texts(row):
    return [None if cell is None else str(cell) for cell in row]


def test_a_row_can_add_a_whole_one_so_no_less_noise_would_do():
    synthetic = pd.DataFrame({"c": ["a"] * 40})
    before, _ = sums(pd.DataFrame({"c": ["a"] * 5}), synthetic=synthetic)
    after, _ = sums(pd.DataFrame({"c": ["a"] * 5 + ["b"]}), synthetic=synthetic)
    assert (after - before).tolist() == [1.0, 1.0, 1.0]  # rows, mean distance, distance of the column


@pytest.mark.parametrize("target", [None, "x"])
def test_a_replaced_row_can_move_a_sum_by_a_whole_one_and_no_number_of_rows(target):
    made = pd.DataFrame({"x": np.arange(0.0, 40.0), "y": ["a"] * 40})
    one, two = (made.assign(x=[*made["x"][:39], last])[:40] for last in (39.0, 0.0))
    moved = np.abs(sums(one, target, made)[0] - sums(two, target, made)[0])
    assert moved[0] == 0
    assert moved[-2] == 1  # of the column x: from one of its bins to another


# Of 2048 synthetic rows, counts whose distance from those of a few real rows, times these, ends in half a step of 1024:
# as floats, one sum would be rounded down, and that of the neighbour up.
@pytest.mark.parametrize("few", [1, 3, 1001])
@pytest.mark.parametrize("rows", [5, 15, 19, 23])
def test_no_sum_moves_by_a_step_more_than_its_bound_where_floats_would_be_rounded_apart(rows, few):
    made = two_levels(few, 2048 - few)
    found = [sums(two_levels(first, rows - first), synthetic=made) for first in range(1, rows)]
    moved = np.abs(np.diff([exact for exact, _ in found], axis=0))
    assert moved.max() == 1
    assert (moved[:, 0] == 0).all()
    assert [part.bound for _, parts in found for part in parts] == [_LATTICE] * 3 * len(found)


def two_levels(first, second):
    return pd.DataFrame({"c": np.repeat(["a", "b"], [first, second])})


def test_sums_of_many_rows_are_exact_and_do_not_overflow():
    """A float holds none of these products exactly."""
    rows = 2**33
    for many in (2**29 - 1, 2**29 + 1, 2**40 + 1):
        made = counted(many - 3, 3, 0)
        found = [apart(counted(rows - 5 - new, 5, new), made, ("c",)) for new in (0, 1)]
        assert found[0] == abs((rows - 5) * many - (many - 3) * rows) + abs(5 * many - 3 * rows)
        assert abs(found[1] - found[0]) <= 2 * many
        assert apart(counted(0, 0, rows), made, ("c",)) == 2 * many * rows


@pytest.mark.parametrize("target", ["retired", "income"])
def test_what_a_row_adds_to_predictions_is_whole_and_depends_on_no_other_row(target):
    real = pd.concat([people(40)[COLUMNS].astype(object), SYNTHETIC_ROWS[:79]])
    real.iloc[0, 1:] = None
    real.iloc[1, COLUMNS.index("income")] = float(np.median(SYNTHETIC_ROWS["income"][:79].dropna().astype(float)))
    tables = {SYNTHETIC: tw.read_table(SYNTHETIC_ROWS[:79]), REAL: tw.read_table(real)}
    sheets, _ = read_sheets(tables, None, by=SYNTHETIC, judged={SYNTHETIC})
    predictor = _Sums.of(sheets[SYNTHETIC], target).predictor
    each = [predictor.rightly(sheets[REAL].take(np.array([row])), steps=_LATTICE) for row in range(len(real))]
    assert tuple(map(sum, zip(*each, strict=True))) == predictor.rightly(sheets[REAL], steps=_LATTICE)
    assert all(isinstance(one, int) and 0 <= one <= _LATTICE for of in each for one in of)
    assert each[0] == (0, 0)  # a cell without a value is never predicted
    assert max(baseline for _, baseline in each) == _LATTICE


def counted(*counts):
    return SimpleNamespace(rows=sum(counts), counts=lambda _: (None, np.array(counts)))


@pytest.fixture
def seen(monkeypatch):
    """The exact sums of all scores of a test, how far a row may move each, the deviation and the noise, in steps."""
    found, noised = [], release._noised

    def watched(what, sums, bound, deviation, bits):
        left = noised(what, sums, bound, deviation, bits)
        found.append((int(sums), bound, deviation, int(left - sums)))
        return left

    monkeypatch.setattr(release, "_noised", watched)
    return found


def paid_for(score):
    return score.statement["stages"][-1]["receipts"][-1]["mechanism"]["noise_multiplier"]


@pytest.mark.parametrize("relation", ["add-remove", "substitute"])
@pytest.mark.parametrize("epsilon", [0.1, 20.0])
def test_the_noise_is_that_of_the_receipt_over_all_sums_together(seen, relation, epsilon):
    table = people(61)[COLUMNS]
    neighbours = {"add-remove": [table, table[1:60]], "substitute": [table[1:], table.iloc[[*range(59), 58]]]}
    found = []
    for rows in (table[:60], *neighbours[relation]):
        score = tw.private_score(rows, SYNTHETIC_ROWS, epsilon=epsilon, relation=relation, target="retired")
        found.append(np.array(seen, float).T)
        seen.clear()
    exact, bounds, deviations, _ = found[0]
    # A row may move every sum by its bound, under both relations.
    together = np.linalg.norm(bounds / deviations) * paid_for(score)
    assert 1 / 1.001 <= together <= 1 + 1e-12
    for other, *same, _ in found[1:]:
        assert (np.array(same) == [bounds, deviations]).all()
        assert np.linalg.norm((other - exact) / deviations) <= 1 / paid_for(score)
        assert (np.abs(other - exact) <= bounds).all()


def test_the_noise_that_is_added_is_gaussian_of_the_deviation_that_is_told(seen):
    for seed in range(30):
        score = tw.private_score(people(60), SYNTHETIC_ROWS, epsilon=1.0, insecure_seed=seed)
    _, bounds, deviations, noise = np.array(seen, float).T
    assert len(noise) == 30 * (1 + 5 + 4)
    assert stats.kstest(noise / deviations, "norm").pvalue > 1e-3
    assert stats.kstest(2 * noise / deviations, "norm").pvalue < 1e-6
    assert score.rows_noise == pytest.approx(1.96 * deviations[0] / bounds[0])


def test_what_is_released_is_on_a_lattice_so_that_floats_tell_nothing():
    for _ in range(5):
        score = tw.private_score(people(60), SYNTHETIC_ROWS, epsilon=5.0)
        assert (score.rows * 2**20).is_integer()


def test_the_figures_are_within_their_noise_of_the_exact_ones():
    real, synthetic = people(8000, 0), people(8000, 1)
    score = tw.private_score(real, synthetic, epsilon=2.0, target="retired")
    exact = sums_of_figures(real, synthetic)
    for figure in score.figures[:3]:
        assert figure.value == pytest.approx(exact[figure.key], abs=2.5 * figure.noise)
        assert 0 < figure.noise < 0.02
    assert score.rows == pytest.approx(8000, abs=3 * score.rows_noise)
    accuracy = score.figures[-1]
    assert accuracy.key == "accuracy"
    assert accuracy.value > 0.85 > accuracy.independent


def sums_of_figures(real, synthetic):
    tables = {SYNTHETIC: tw.read_table(synthetic), REAL: tw.read_table(real)}
    sheets, _ = read_sheets(tables, None, by=SYNTHETIC, judged={SYNTHETIC})
    found = np.array(_Sums.of(sheets[SYNTHETIC], None).sums(sheets[REAL]))
    return dict(zip(("tvd_1way", "tvd_2way", "tvd_3way"), found[1:4] / found[0], strict=True))


def test_a_twin_without_dependence_is_seen_to_be_one():
    good = tw.private_score(people(8000, 0), people(8000, 1), epsilon=2.0)
    bad = tw.private_score(people(8000, 0), shuffled(people(8000, 1)), epsilon=2.0)
    close, far = (next(figure for figure in score.figures if figure.key == "tvd_2way") for score in (good, bad))
    assert close.value == pytest.approx(close.sampling, abs=0.02)
    assert close.value < 0.5 * close.independent
    assert far.value > 0.8 * far.independent


def test_it_begins_with_what_covers_it_and_ends_with_a_statement_that_holds():
    from twinify_lite.verification import verify

    score = tw.private_score(people(200), people(200, 1), epsilon=0.5, delta=1e-7)
    assert str(score).startswith("(0.5, 1e-07)-differentially private: this score may leave the house.")
    assert "NOT COVERED" not in str(score)
    told = json.loads(json.dumps(score.to_json(), allow_nan=False))
    assert next(iter(told)) == "covered"
    found = verify(told["statement"])
    assert found.private
    assert 0.49 < found.recomputed <= 0.5


def test_a_seed_marks_it_as_not_private():
    score = tw.private_score(people(60), people(60, 1), epsilon=1, insecure_seed=1)
    assert str(score).startswith("NOT PRIVATE")
    assert score.figures == tw.private_score(people(60), people(60, 1), epsilon=1, insecure_seed=1).figures
    assert tw.private_score(people(60), people(60, 1), epsilon=1) != score


def test_without_a_seed_the_noise_is_new_every_time():
    scores = [tw.private_score(people(60), people(60, 1), epsilon=1).rows for _ in range(3)]
    assert len(set(scores)) == 3


CANARIES = {"age": "98765", "sex": "CANARY", "income": "CANARY words", "retired": "CANARY", "joined": "CANARY never"}


def test_no_cell_of_one_person_gets_out_nor_makes_a_difference_to_what_is_asked():
    real = people(60).astype(object)
    real.loc[30, list(CANARIES)] = list(CANARIES.values())
    score = tw.private_score(real, people(60, 1), epsilon=1.0, target="retired")
    shown = str(score) + json.dumps(score.to_json()) + repr(score)
    assert not any(word in shown for word in ("CANARY", "98765"))
    assert [figure.name for figure in score.columns] == list(people(1))


def test_real_rows_that_fit_in_nothing_are_scored_and_not_refused():
    real = people(3).assign(age="words", sex=None, joined="words", income="words")
    score = tw.private_score(real, people(60, 1), epsilon=1.0)
    assert len(score.columns) == 6


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.inf}, {"delta": 0}])
def test_a_budget_that_is_none_is_refused(wrong):
    with pytest.raises(PrivacyParameterError):
        tw.private_score(people(60), people(60, 1), **{"epsilon": 1.0, **wrong})


def test_a_target_that_is_not_there_is_refused_before_anything_is_spent(monkeypatch):
    monkeypatch.setattr(release, "opened", lambda *_: pytest.fail("released"))
    with pytest.raises(SchemaError, match="'incme'"):
        tw.private_score(people(60), people(60, 1), epsilon=1, target="incme")


def test_it_is_charged_to_the_ledger_of_the_table(tmp_path):
    path = tmp_path / "ledger.json"
    book = tw.Book.create(path, epsilon=1.0, delta=1e-5, relation="add-remove")
    tw.private_score(people(60), people(60, 1), epsilon=0.9, ledger=path)
    assert book.total() == pytest.approx(0.8, abs=0.12)  # at the larger delta of the book
    with pytest.raises(BudgetExceeded):
        tw.private_score(people(60), people(60, 1), epsilon=0.9, ledger=path)
    assert book.total() == pytest.approx(0.8, abs=0.12)


# -- nothing beside the sums depends on the real rows ------------------------------------------------------------------


def of_levels(number, extra=()):
    """A column in which every level stands ten times, so that it is none of keys."""
    return pd.DataFrame({"c": [f"level {n}" for n in range(number)] * 10 + list(extra)})


@pytest.mark.parametrize("at", [254, 255, 256, 32_765, 32_766, 32_767])
def test_a_level_that_only_real_rows_have_fits_wherever_the_others_end(at):
    before, _ = sums(of_levels(3), synthetic=of_levels(at))
    after, _ = sums(of_levels(3, ["new"]), synthetic=of_levels(at))
    assert np.abs(after - before).max() <= 1
    assert after[0] - before[0] == 1


def test_levels_that_only_real_rows_have_are_one_and_change_no_size_and_no_distance():
    synthetic = people(80, 3)[COLUMNS]
    real = people(50)[COLUMNS].assign(sex=[f"new {n}" for n in range(50)])
    tables = {name: tw.read_table(rows) for name, rows in ((SYNTHETIC, synthetic), (REAL, real))}
    sheets, _ = read_sheets(tables, None, by=SYNTHETIC, judged={SYNTHETIC})
    alone, _ = read_sheets({SYNTHETIC: tables[SYNTHETIC], REAL: tables[SYNTHETIC]}, None, judged={SYNTHETIC})
    of = [_Sums.of(one[SYNTHETIC], "retired") for one in (sheets, alone)]
    assert [coding.size for coding in of[0].coded.values()] == [coding.size for coding in of[1].coded.values()]
    found, parts = sums(real, synthetic=synthetic)
    assert len(parts) == len(found)
    assert found[1 + 3 + 2 + COLUMNS.index("sex")] == pytest.approx(50)  # nothing of the column is alike


def test_cells_of_many_levels_are_numbered_within_64_bits(monkeypatch):
    monkeypatch.setattr(coding, "_LEVELS", 3)
    synthetic = pd.concat([of_levels(6), of_levels(6).rename(columns={"c": "d"})], axis=1)
    before, _ = sums(of_levels(4).assign(d="level 5"), synthetic=synthetic)
    after, _ = sums(of_levels(4, ["level 5"]).assign(d="level 5"), synthetic=synthetic)
    assert np.abs(after - before).max() <= 1
    assert before[-2] == pytest.approx(40 * 0.25)  # levels 3, 4 and 5 are one, with half of the synthetic rows
    monkeypatch.undo()
    assert (coding._LEVELS + 2) ** 3 < 2**63


def test_it_is_charged_before_anything_is_computed_from_the_rows(monkeypatch, tmp_path):
    def fails(*_):
        raise OverflowError("of a cell")

    monkeypatch.setattr(_Sums, "sums", fails)
    book = tw.Book.create(tmp_path / "a.ledger", epsilon=1.0, delta=1e-5)
    with pytest.raises(OverflowError):
        tw.private_score(people(60), people(60, 1), epsilon=0.5, ledger=book)
    assert len(book.read().entries) == 1


def test_what_a_schema_read_from_the_data_is_refused_until_it_is_accepted(tmp_path):
    real, synthetic = people(60), people(60, 1)
    peeked = draft(tw.read_table(real), peek=True)
    with pytest.raises(SchemaError, match="Read from the data, so not private"):
        tw.private_score(real, synthetic, epsilon=1, schema=peeked)
    score = tw.private_score(real, synthetic, epsilon=1, schema=peeked, accept=peeked.peeked)
    assert any("accepted by the user, of the columns 'age'" in told for told in score.statement["public"])
    assert score.covered.startswith("NOT COVERED BY EPSILON")


def test_kinds_that_were_guessed_from_real_rows_are_told(tmp_path):
    tw.write_table(people(60), tmp_path / "real.csv")
    guessed = draft(tw.read_table(tmp_path / "real.csv"))
    assert guessed.guessed
    told = tw.private_score(tmp_path / "real.csv", people(60, 1), epsilon=1, schema=guessed).statement["public"]
    assert GUESSED in told
    assert GUESSED not in tw.private_score(tmp_path / "real.csv", people(60, 1), epsilon=1).statement["public"]


NUMBERS = [3, 10_000_000_000, 123_456_789_012, 2**53 + 1, -7]
SPELLINGS = {
    "int64": lambda cells: pd.Series(cells, dtype="int64"),
    "float64": lambda cells: pd.Series(cells, dtype="float64"),
    "Int64": lambda cells: pd.Series(cells, dtype="Int64"),
    "objects": lambda cells: pd.Series(cells, dtype=object),
    "mixed objects": lambda cells: pd.Series(
        [float(cell) if n % 2 else cell for n, cell in enumerate(cells)], dtype=object
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_levels_are_the_same_whatever_type_a_column_of_numbers_has(spelling):
    cells = NUMBERS * 20
    declared = tw.Schema([tw.Column(name="c", kind="category")])
    synthetic = pd.DataFrame({"c": SPELLINGS["int64"](cells)})
    real = pd.DataFrame({"c": SPELLINGS[spelling](cells)})
    assert tw.private_score(real, synthetic, epsilon=1e6, schema=declared).figures[0].value < 1e-3


def test_one_missing_cell_makes_floats_of_whole_numbers_and_moves_no_sum_by_more_than_one():
    declared = tw.Schema([tw.Column(name="c", kind="category")])
    synthetic = pd.DataFrame({"c": NUMBERS * 20})
    found = []
    for extra in ([], [None]):
        real = pd.DataFrame({"c": pd.Series(NUMBERS * 60 + extra)})
        assert real["c"].dtype == ("float64" if extra else "int64")
        tables = {SYNTHETIC: tw.read_table(synthetic), REAL: tw.read_table(real)}
        sheets, _ = read_sheets(tables, declared, by=SYNTHETIC, judged={SYNTHETIC})
        found.append(_Sums.of(sheets[SYNTHETIC], None).sums(sheets[REAL]))
    assert np.abs(np.subtract(*found)).max() <= _LATTICE


def test_truths_are_the_same_levels_as_flags_objects_and_texts():
    declared = tw.Schema([tw.Column(name="c", kind="category", levels=("True", "False"))])
    flags = [True, False, True, True] * 10
    synthetic = pd.DataFrame({"c": flags})
    for real in (pd.Series(flags), pd.Series(flags, dtype="boolean"), pd.Series([*map(str, flags)])):
        score = tw.private_score(pd.DataFrame({"c": real}), synthetic, epsilon=1e6, schema=declared)
        assert score.figures[0].value < 1e-3

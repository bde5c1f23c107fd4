"""Sanity checks of copying: they find what was copied, and say that they prove nothing."""

import numpy as np
import pandas as pd
import pytest
from score_cases import bad, good, people

import twinify_lite as tw


def figures(score):
    return {figure.key: figure for figure in score.figures if "not a privacy proof" in figure.group}


def test_every_figure_of_closeness_says_that_it_proves_nothing():
    found = figures(good())
    assert set(found) == {"dcr", "copies", "nearer"}
    assert all("Not a privacy proof." in figure.what for figure in found.values())
    assert all(figure.better == "neither" for figure in found.values())
    assert "not a privacy proof" in str(good())


def test_copied_rows_are_found():
    real, holdout = people(500, 0), people(500, 2)
    copied = pd.concat([real.head(250), people(250, 1)])
    found = figures(tw.score(real, copied, holdout=holdout))
    assert found["copies"].whole == pytest.approx(0.5)
    assert found["copies"].heldout == 0
    assert found["dcr"].synthetic < 0.5 * found["dcr"].heldout
    assert found["nearer"].synthetic > 0.7


def test_copies_are_an_alarm_and_rows_that_coincide_by_chance_are_not():
    real = people(500, 0)
    assert "LOOKS COPIED: " in tw.score(real, real).alarm
    assert good().alarm is None
    common = [
        pd.DataFrame({"sex": people(400, seed)["sex"], "retired": people(400, seed)["retired"]}) for seed in (0, 1)
    ]
    assert tw.score(*common).figure("copies").synthetic == 1
    assert tw.score(*common).alarm is None


def test_texts_of_people_that_are_copied_are_an_alarm_though_keys_are_not_compared():
    real, others, holdout = (people(300, seed) for seed in range(3))
    named = [table.assign(name=names(300, seed)) for seed, table in enumerate((real, others))]
    assert tw.score(*named).alarm is None
    copied = named[1].assign(name=named[0]["name"])
    told = "LOOKS COPIED: 100.0% of the texts of 'name' are those of real rows, where about 0.0% would be by chance."
    assert tw.score(named[0], copied).alarm.startswith(told)
    assert tw.score(named[0], copied, holdout=holdout.assign(name="x")).alarm.startswith(told)


def names(rows, seed):
    rng = np.random.default_rng(seed)
    return ["".join(letters) for letters in rng.choice(list("abcdefghij"), (rows, 8))]


@pytest.mark.parametrize(
    ("made", "is_copied"),
    [
        (lambda rng: [f"P{n:06d}" for n in range(1, 401)], False),  # numbers in a row, as `twin sample` makes them up
        (lambda rng: [f"{n:05d}-X" for n in rng.choice(1200, 400, replace=False)], False),  # from a range of their own
        (lambda rng: [f"{n:09d}" for n in np.random.default_rng(7).choice(10**9, 400, replace=False)], True),
    ],
)
def test_numbers_of_people_that_coincide_as_numbers_do_are_no_alarm_and_others_are(made, is_copied):
    tables = [people(400, seed).assign(key=made(np.random.default_rng(seed))) for seed in range(2)]
    schema = tw.Schema([tw.Column(name="age", kind="integer")])
    alarm = tw.score(*(table.assign(key=table["key"].map("n {}".format)) for table in tables), schema=schema).alarm
    assert ("'key'" in alarm) if is_copied else (alarm is None)


@pytest.mark.parametrize("with_holdout", [False, True])
def test_an_alarm_tells_the_share_of_all_rows(with_holdout):
    real, others = people(2000, 0), people(2000, 1)
    some = pd.concat([others[40:], real[:40]])
    given = {"holdout": people(700, 2)} if with_holdout else {}
    score = tw.score(real, some, **given)
    assert 0.02 <= score.figure("copies").whole < 0.022
    assert f"{score.figure('copies').whole:.1%} of the synthetic rows equal a real one" in score.alarm
    assert "100.0% of the synthetic rows" in tw.score(real, real, **given).alarm


def test_copies_are_told_apart_from_real_rows_as_well_as_strangers():
    real = people(600, 0)
    assert tw.score(real, real).figure("c2st").synthetic > 0.55
    assert all(value >= 0.5 for value in (good().figure("c2st").synthetic, good().figure("c2st").heldout))


@pytest.mark.parametrize("rows", [40, 100, 400])
def test_rows_of_one_law_that_coincide_are_no_alarm(rows):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        tables = [pd.DataFrame({f"c{n}": rng.integers(0, 4, rows).astype(str) for n in range(4)}) for _ in range(2)]
        assert tw.score(*tables).alarm is None, seed


def test_held_out_rows_that_are_the_fitted_ones_are_noted():
    real, others = people(300, 0), people(300, 1)
    assert any("equal a real one" in note for note in tw.score(real, others, holdout=real).notes)
    assert not any("equal a real one" in note for note in good().notes)


def test_rows_that_were_not_copied_are_as_near_to_fitted_rows_as_to_others():
    found = figures(good())
    assert found["copies"].whole == 0
    assert found["nearer"].synthetic == pytest.approx(0.5, abs=0.06)
    assert found["dcr"].synthetic == pytest.approx(found["dcr"].heldout, rel=0.2)


def test_halves_of_the_fitted_rows_cannot_tell_whether_these_are_nearer():
    assert "nearer" not in figures(bad())
    assert any("--holdout" in note for note in bad().notes)


def test_a_distance_is_the_mean_over_columns_of_parts_of_their_ranges():
    real = pd.DataFrame({"x": np.linspace(0, 10, 40), "c": ["a"] * 40})
    far = pd.DataFrame({"x": np.linspace(0, 10, 40), "c": ["b"] * 40})
    assert figures(tw.score(real, far, holdout=real))["dcr"].synthetic == pytest.approx(0.5)
    gone = pd.DataFrame({"x": [np.nan] * 40, "c": ["b"] * 40})
    assert figures(tw.score(real, gone, holdout=real))["dcr"].synthetic == pytest.approx(1.0)
    assert figures(tw.score(real, gone, holdout=real))["dcr"].heldout == 0


def test_rows_that_differ_in_what_is_missing_are_no_copies():
    real = pd.DataFrame({"x": [0.0, 1.0] * 20, "c": ["a", "b"] * 20})
    other = real.assign(x=real["x"].where(real["x"] > 0))
    assert figures(tw.score(real, other, holdout=real))["copies"].whole == pytest.approx(0.5)

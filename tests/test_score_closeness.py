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
    named = [table.assign(name=[f"{seed} {n}" for n in range(300)]) for seed, table in enumerate((real, others))]
    assert tw.score(*named).alarm is None
    copied = named[1].assign(name=named[0]["name"])
    told = "LOOKS COPIED: 100.0% of the texts of 'name' are those of real rows, where 0.0% would be."
    assert tw.score(named[0], copied).alarm.startswith(told)
    assert tw.score(named[0], copied, holdout=holdout.assign(name="x")).alarm.startswith(told)


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

"""A risk in words and as data: what each relation is about, nothing told smaller than it is, and no jargon."""

import dataclasses
import json
import math
import re

import pytest

import twinify_lite as tw
from twinify_lite.risk import words


@pytest.fixture(scope="module")
def found():
    return tw.risk(epsilon=1.0, delta=1e-6)


def changed(risk, **figures):
    return dataclasses.replace(risk, **figures)


def test_a_person_reads_of_coins_accusations_and_suspicions(found):
    said = "\n".join(found.sentences())
    right = math.ceil(50 + 50 * found.advantage)
    assert f"right at most {right} times" in said
    assert f"they find at most {math.ceil(1000 * found.true_positives[0.01]) / 10:g} in 100 who are" in said
    assert f"at most {math.ceil(10_000 * found.true_positives[0.001]) / 10:g} in 1,000" in said
    assert f"at most {math.ceil(100 * found.suspicion[0.5])} % likely" in said
    assert f"From 1 % they come to at most {math.ceil(1000 * found.suspicion[0.01]) / 10:g} %" in said
    assert "From this release nobody can do better" in said


def test_no_sentence_needs_the_words_of_the_trade(found):
    said = str(found).lower()
    assert not re.search(r"posterior|advantage|false positive|hockey|likelihood|mechanism|prior|profile", said)


def test_what_epsilon_alone_would_promise_is_told_beside(found):
    (told,) = [line for line in found.sentences() if line.startswith("If epsilon 1 and delta 1e-06 were all")]
    assert f"right at most {math.ceil(50 + 50 * found.alone.advantage)} times" in told
    assert f"from 50 % to at most {math.ceil(100 * found.alone.suspicion[0.5])} %" in told


def test_only_what_is_supposed_is_said_to_be():
    supposed = [tw.risk(epsilon=1.0), tw.risk(mechanisms=tw.Gaussian(noise_multiplier=5.0))]
    assert ["No twin was given" in str(risk) for risk in supposed] == [True, False]


def test_each_relation_is_told_in_its_own_words(found):
    replaced = str(tw.risk(epsilon=1.0, relation="substitute"))
    assert "whether you are in the table" in str(found)
    assert "which of two rows is yours" in replaced
    assert "How sure can they become that a certain one of the two rows is yours?" in replaced
    assert "whether you are in the table" not in replaced
    assert "which of two rows" not in str(found)


@pytest.mark.parametrize("share", [0.001234, 0.0101, 0.0999, 0.50001, 0.731, 0.9949, 0.999999, 1.0, 1e-9])
def test_percentages_are_rounded_away_from_comfort(share):
    shown = float(words.percent(share).removesuffix(" %"))
    low = float(words.percent_down(share).removesuffix(" %"))
    assert low <= 100 * share * (1 + 1e-9)
    assert 100 * share * (1 - 1e-9) <= shown <= 100 * share * 1.1
    assert low >= 90 * share


def test_figures_that_are_exact_stay_so():
    assert [words.percent(share) for share in (0.5, 0.01, 0.07, 0.0, 1.0)] == ["50 %", "1 %", "7 %", "0 %", "100 %"]
    assert words.percent_down(1 - 0.7) == "30 %"


def test_a_tiny_risk_is_not_told_to_be_none(found):
    small = changed(found, advantage=1e-6, suspicion={0.5: 0.5000001, 0.01: 0.0100001})
    assert "right at most 51 times" in str(small)
    assert "at most 51 % likely, and at least 49 %" in str(small)


def test_what_is_not_private_says_so_first():
    risk = tw.risk(tw.Ledger(1.0, insecure_seed=1))
    assert risk.sentences()[0].startswith("NOT PRIVATE: rows and noise were drawn from a seed")
    assert "There is no bound" in risk.sentences()[1]
    assert "at most" not in "\n".join(risk.sentences())


def test_the_picture_is_small_plain_and_true(found):
    lines = found.picture().splitlines()
    assert 8 <= len(lines) <= 12
    assert found.picture().isascii()
    assert max(map(len, lines)) <= 80
    bars = [line.count("#") for line in lines if "|" in line]
    shares = [0.5, found.suspicion[0.5], found.alone.suspicion[0.5], 0.01, found.suspicion[0.01]]
    assert bars[:5] == [math.ceil(40 * share - 1e-9) for share in shares]
    assert "66 %" in lines[3]


def test_a_picture_without_a_bound_is_full():
    risk = tw.risk(tw.Ledger.without_privacy())
    assert sum(line.count("#") == 40 for line in risk.picture().splitlines()) == 4


def test_json_has_every_figure(found):
    told = json.loads(json.dumps(found.to_json()))
    assert told["advantage"] == found.advantage
    assert told["true_positives"] == {"0.01": found.true_positives[0.01], "0.001": found.true_positives[0.001]}
    assert told["suspicion"] == {"0.5": found.suspicion[0.5], "0.01": found.suspicion[0.01]}
    assert told["alone"]["suspicion"]["0.5"] == found.alone.suspicion[0.5]
    assert told["curve"] == [list(point) for point in found.curve]
    assert (told["epsilon"], told["relation"], told["supposed"], told["private"]) == (1.0, "add-remove", True, True)


def test_json_has_no_infinity():
    told = json.dumps(tw.risk(tw.Ledger.without_privacy()).to_json(), allow_nan=False)
    assert json.loads(told)["epsilon"] == "inf"
    assert json.loads(told)["why_not"].startswith("this ledger has no limit")

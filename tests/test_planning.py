"""Epsilons compared before there is a table: the noise is that of a fit, and nothing is read or spent."""

import json
import math

import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import planning
from twinify_lite.accountant import pld, reference
from twinify_lite.auto import tables
from twinify_lite.errors import ModelError, PrivacyParameterError
from twinify_lite.models.family import Family
from twinify_lite.planning import choices, lines

EPSILONS = [0.5, 1.0, 2.0, 4.0]


@pytest.fixture(scope="module")
def found():
    return choices(20_000, 12, EPSILONS)


def of(found, model):
    return [choice for choice in found if choice.model == model]


def test_each_model_is_told_for_each_epsilon(found):
    assert [(choice.model, choice.epsilon) for choice in found] == [
        (model, epsilon) for model in ("auto", "independent") for epsilon in EPSILONS
    ]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("model", ["auto", "independent"])
def test_the_noise_is_what_a_fit_would_add(model, declared, monkeypatch):
    """A dry run on a table of such columns plans the same; that it tries the model first changes no plan."""
    monkeypatch.setattr(Family, "check", lambda *_: None)
    schema = planning._made_up(4, declared)
    table = pd.DataFrame(
        {"column_1": ["a", "b"], "column_2": [0.5, 1.5], "column_3": [1, 2], "column_4": [True, False]}
    )
    if model == "auto" and not declared:  # as a file of texts, of which not even the kinds are known
        table, schema = table.astype(str), None
    dry = tw.dry_run(table, epsilon=1.0, model=model, schema=schema, options={"rows": 5000})
    (choice,) = choices(5000, 4, [1.0], model=model, declared=declared)
    if model == "auto":
        told = [choice.noise, choice.share_error * 5000]
        least = [
            dry["noise of pairs"] * math.sqrt(dry["measured_pairs"]),
            dry["noise of single columns"] * math.sqrt(4),
        ]
        assert all(low <= noise <= 1.001 * low for noise, low in zip(told, least, strict=True))
        assert (choice.pairs, choice.steps) == (dry["measured_pairs"], 2)
    else:
        assert (choice.noise, choice.steps) == (dry["noise of DPSVI"], dry["steps"])
        assert choice.rows_a_step == dry["sampling_rate"] * 5000
        assert choice.signal_to_noise == pytest.approx(dry["clearness"], abs=0.01)


def test_the_noise_of_a_cell_is_that_of_the_release(found):
    """Tables of equal weight, released with the noise of the plan, have the noise that is told."""
    choice = of(found, "auto")[1]
    ledger = tw.Ledger(100.0, insecure_seed=0)
    settings = tw.dry_run(
        pd.DataFrame({f"column_{n}": [0, 1] for n in range(1, 13)}),
        epsilon=1.0,
        schema=planning._made_up(12, True),
        options={"rows": 20_000},
    )
    receipt = ledger.spend(tw.Gaussian(noise_multiplier=settings["noise of pairs"]), "pairs")
    released = tables.release(receipt, [pd.Series([0]).to_numpy()] * choice.pairs, [1.0] * choice.pairs)
    assert {table.noise for table in released} == {choice.noise}


def test_more_epsilon_is_less_noise_a_clearer_signal_and_more_risk(found):
    for model in planning.MODELS:
        told = of(found, model)
        assert [choice.noise for choice in told] == sorted((choice.noise for choice in told), reverse=True)
        assert [choice.signal_to_noise for choice in told] == sorted(choice.signal_to_noise for choice in told)
        assert [choice.risk.advantage for choice in told] == sorted(choice.risk.advantage for choice in told)
        assert told[0].risk.suspicion[0.5] < told[-1].risk.suspicion[0.5]


def test_the_risk_is_that_of_all_that_a_fit_would_release(found):
    """The row count is a stage of its own, so that the risk is a little above that of one release."""
    for choice in found:
        supposed = tw.risk(epsilon=choice.epsilon).advantage
        assert supposed * 0.9 < choice.risk.advantage < supposed * 1.2
        assert (choice.risk.epsilon, choice.risk.delta) == (choice.epsilon, 1e-6)


def test_what_must_be_found_leaves_less_for_the_model():
    (declared,), (found,) = (choices(20_000, 8, [1.0], model="auto", declared=known) for known in (True, False))
    assert found.noise > declared.noise
    assert found.risk.advantage == pytest.approx(declared.risk.advantage, rel=0.1)


def test_a_single_column_has_no_pairs():
    (choice,) = choices(300, 1, [1.0], model="auto")
    assert (choice.pairs, choice.steps) == (0, 1)
    assert choice.share_error == choice.noise / 300


def test_an_epsilon_takes_few_compositions(monkeypatch):
    """Both accountants together: a table of four epsilons and two models is there within seconds."""
    composed = []
    for module in (pld, reference):
        monkeypatch.setattr(module, "_compose", lambda *of, make=module._compose: composed.append(of) or make(*of))
    tw.accountant.bounds._own_epsilon.cache_clear()
    tw.accountant.bounds._epsilon.cache_clear()
    choices(21_000, 12, [1.0])
    assert 20 < len(composed) < 120


def test_lines_have_a_table_a_definition_and_a_way_to_choose(found):
    told = list(lines(found, rows=20_000))
    heads = [line.split() for line in told if line.split()[:1] == ["epsilon"]]
    assert [head[1:3] for head in heads] == [["noise", "pairs"], ["noise", "steps"]]
    first = told.index("auto: noisy tables of counts, of single columns and of pairs")
    assert [line.split()[0] for line in told[first + 2 : first + 6]] == ["0.5", "1", "2", "4"]
    assert all("signal/noise: " in line for line in told if line.startswith("noise: "))
    assert sum(line.startswith("noise: ") for line in told) == 2
    assert told[-1].startswith("To choose: ")
    assert max(len(line) for line in told if line[:1] == " " or line.startswith("epsilon")) <= 100


def test_a_risk_is_rounded_up_in_the_table(found):
    choice = of(found, "auto")[3]
    (line,) = [line for line in lines([choice], rows=20_000) if line.split()[:1] == ["4"]]
    assert line.split()[-3:-2] == [str(math.ceil(50 + 50 * choice.risk.advantage))]
    assert line.split()[-2:] == [str(math.ceil(100 * choice.risk.suspicion[0.5])), "%"]


def test_a_delta_above_one_over_the_rows_is_told():
    loose, sound = (
        " ".join(lines(choices(500, 2, [1.0], delta=delta, model="auto"), rows=500)) for delta in (0.01, 1e-6)
    )
    assert "Delta 0.01 is above 1/rows = 0.002" in loose
    assert "--delta 2e-04" in loose
    assert "1/rows" not in sound


def test_json_has_the_figures_and_the_risk(found):
    told = json.loads(json.dumps([choice.to_json() for choice in found]))
    assert told[0]["noise"] == found[0].noise
    assert told[0]["risk"]["suspicion"]["0.5"] == found[0].risk.suspicion[0.5]
    assert told[-1]["share_error"] is None
    assert "curve" not in told[0]["risk"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rows": 0}, "rows must be a whole number from 1"),
        ({"rows": math.inf}, "rows must be"),
        ({"columns": 2.5}, "columns must be"),
        ({"columns": 10**6}, "columns must be"),
        ({"epsilons": []}, "some epsilons"),
        ({"epsilons": [1.0, -1.0]}, "epsilon must be a positive number"),
        ({"delta": 2.0}, "delta"),
    ],
)
def test_what_cannot_be_planned_is_refused(given, said):
    with pytest.raises(PrivacyParameterError, match=said):
        choices(**{"rows": 1000, "columns": 3, "epsilons": [1.0], "model": "auto", **given})


def test_a_model_that_is_not_there_is_refused():
    with pytest.raises(ModelError, match="There is no template 'nonsense'"):
        choices(1000, 3, [1.0], model="nonsense")

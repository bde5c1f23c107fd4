"""The risk of one person, against closed forms, another package, and attacks that are carried out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import riskcal.analysis
from dp_accounting.pld import privacy_loss_distribution
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

import twinify_lite as tw
from twinify_lite import accountant
from twinify_lite.accountant import (
    ApproximateDP,
    DiscreteLaplace,
    FixedSizeGaussian,
    Gaussian,
    Laplace,
    NotPrivate,
    PoissonGaussian,
    hockey,
)
from twinify_lite.errors import ArtifactError, PrivacyParameterError
from twinify_lite.risk.odds import TELLING, advantage, suspicion, true_positives
from twinify_lite.risk.profile import alone, composed, of_stages, stage_of
from twinify_lite.statement import accepted_of

RATES = (0.001, 0.01, 0.1, 0.5, 0.9)
RARE = PoissonGaussian(noise_multiplier=0.79, sampling_rate=0.001, steps=10_000)
MIXED = (
    Gaussian(noise_multiplier=5.0),
    Laplace(scale=10.0, releases=3),
    PoissonGaussian(noise_multiplier=2.0, sampling_rate=0.02, steps=200),
)


def profile(*mechanisms, relation="add-remove"):
    return of_stages([stage_of(mechanisms, 1e-6, tw.Relation(relation))], tw.Relation(relation))


def gaussian_pld(noise, rate=1.0, steps=1):
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=1e-4
    )
    return pld.self_compose(steps)


def pld_of(mechanism):
    """dp-accounting's distribution of losses, for what riskcal reads."""
    if isinstance(mechanism, Laplace):
        return privacy_loss_distribution.from_laplace_mechanism(
            mechanism.scale, value_discretization_interval=1e-4
        ).self_compose(mechanism.releases)
    return gaussian_pld(
        mechanism.noise_multiplier,
        *[getattr(mechanism, name) for name in ("sampling_rate", "steps") if hasattr(mechanism, name)],
    )


# -- closed forms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.02, 0.2, 1.0, 3.0])
def test_a_gaussian_has_its_known_trade_off(mu):
    """T(a) = Phi(mu - Phi^-1(1 - a)), and the advantage 2 Phi(mu / 2) - 1."""
    found = profile(Gaussian(noise_multiplier=1 / mu))
    assert 1.0 <= advantage(found) / (2 * ndtr(mu / 2) - 1) <= 1.002
    for rate in RATES:
        assert 1.0 <= true_positives(found, rate) / ndtr(mu + ndtri(rate)) <= 1.002


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("prior", [0.5, 0.01, 0.2])
def test_a_suspicion_after_a_gaussian_is_that_of_the_likelihood_ratio(mu, prior):
    """The outputs that say most are those above t, which is where prior and noise put so many."""

    def flagged(t):
        return prior * ndtr(mu - t) + (1 - prior) * ndtr(-t)

    t = brentq(lambda t: flagged(t) - TELLING, -10, 20)
    exact = prior * ndtr(mu - t) / TELLING
    assert exact <= suspicion(profile(Gaussian(noise_multiplier=1 / mu)), prior) <= exact * 1.003


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_a_pure_release_has_the_trade_off_of_randomised_response(epsilon):
    found = profile(DiscreteLaplace(scale=1 / epsilon))
    assert advantage(found) == pytest.approx(math.tanh(epsilon / 2), rel=1e-8)
    for rate in RATES:
        exact = min(math.exp(epsilon) * rate, 1 - math.exp(-epsilon) * (1 - rate))
        assert true_positives(found, rate) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("prior", [0.5, 0.01])
def test_a_pure_release_raises_odds_by_e_to_the_epsilon_and_no_more(prior):
    odds = math.exp(1.0) * prior / (1 - prior)
    assert suspicion(profile(DiscreteLaplace(scale=1.0)), prior) == pytest.approx(odds / (1 + odds), rel=1e-9)


def test_nothing_that_was_released_moves_nothing():
    found = of_stages([])
    assert advantage(found) == 0
    assert true_positives(found, 0.01) == 0.01
    assert suspicion(found, 0.5) == 0.5


# -- riskcal -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanisms",
    [
        (Gaussian(noise_multiplier=5.0),),
        (Gaussian(noise_multiplier=0.8),),
        (PoissonGaussian(noise_multiplier=5.3, sampling_rate=0.05, steps=600),),
        (PoissonGaussian(noise_multiplier=1.7, sampling_rate=0.05, steps=600),),
        (PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.01, steps=1000),),
        MIXED,
    ],
)
def test_figures_are_those_of_riskcal_from_above(mechanisms):
    first, *others = map(pld_of, mechanisms)
    for other in others:
        first = first.compose(other)
    found = profile(*mechanisms)
    assert 1.0 <= advantage(found) / riskcal.analysis.get_advantage_from_pld(first) <= 1.002
    theirs = 1 - riskcal.analysis.get_beta_from_pld(first, alpha=np.array(RATES))
    ours = np.array([true_positives(found, rate) for rate in RATES])
    assert np.all(theirs * (1 - 1e-5) <= ours)
    assert np.all(ours <= theirs * 1.02)


def test_rare_large_losses_are_not_missed():
    """By the lines of dp-accounting's profile: riskcal's curve loses them to rounding, the more the finer its grid."""
    pld, epsilons = pld_of(RARE), np.geomspace(1e-3, 3.0, 300)
    deltas = np.array(pld.get_delta_for_epsilon(epsilons))
    for rate in (0.001, 0.01):
        theirs = min(deltas + np.exp(epsilons) * rate)
        assert theirs * 0.999 <= true_positives(profile(RARE), rate) <= theirs * 1.005


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-2), (4.0, 1e-6)])
def test_what_epsilon_alone_says_is_riskcals_too(epsilon, delta):
    worst = alone(epsilon, delta)
    assert advantage(worst) == pytest.approx(riskcal.analysis.get_advantage_from_adp(epsilon, delta), rel=1e-6)
    for rate in RATES:
        exact = 1 - riskcal.analysis.get_beta_from_adp(epsilon, delta, rate)
        assert true_positives(worst, rate) == pytest.approx(exact, rel=1e-6)


# -- attacks -----------------------------------------------------------------------------------------------------------


def test_the_best_attack_on_a_gaussian_comes_close_and_not_above():
    """One release of noise 1, half of the people in it: flag those whose answer is largest."""
    people, found = 400_000, profile(Gaussian(noise_multiplier=1.0))
    noise = np.random.default_rng(5).normal(size=(2, people))
    outside, inside = noise[0], noise[1] + 1
    for rate in (0.01, 0.1):
        caught = np.mean(inside > np.quantile(outside, 1 - rate))
        assert 0.97 <= caught / true_positives(found, rate) <= 1.01
    assert (
        0.99
        <= np.max([np.mean(inside > t) - np.mean(outside > t) for t in (0.4, 0.5, 0.6)]) / advantage(found)
        <= 1.005
    )
    shown, there = noise.ravel() + np.repeat([0, 1], people), np.repeat([0.0, 1.0], people)
    telling = np.argsort(shown)[-int(TELLING * 2 * people) :]
    assert 0.99 <= there[telling].mean() / suspicion(found, 0.5) <= 1.005


# -- composition -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanisms", [(RARE,), MIXED, (*MIXED, ApproximateDP(epsilon=0.1, delta=1e-4))])
def test_one_composition_says_what_the_accountant_says_one_epsilon_at_a_time(mechanisms):
    epsilons = np.array([0.0, 0.05, 0.3, 0.8])
    one_by_one = [accountant.delta(mechanisms, epsilon=epsilon) for epsilon in epsilons]
    np.testing.assert_allclose(composed(mechanisms, epsilons), one_by_one, rtol=0.01)


def test_both_directions_count(monkeypatch):
    """A row that is sampled weighs more where it is there than where it is not: exchanging the two changes nothing."""
    mechanism, before = PoissonGaussian(noise_multiplier=0.5, sampling_rate=0.01, steps=3), hockey._RELEASES
    found = profile(mechanism)
    turned = {**before, PoissonGaussian: lambda mechanism: before[PoissonGaussian](mechanism).reversed()}
    monkeypatch.setattr(hockey, "_RELEASES", turned)
    np.testing.assert_allclose(composed([mechanism], found.epsilons), found.deltas, rtol=1e-9)
    release, one = before[PoissonGaussian](mechanism), np.array([1.0])
    assert release.forward(one) > 1e-4 > release.backward(one)


def test_an_earlier_stage_shifts_the_whole_profile():
    first, second = DiscreteLaplace(scale=10.0), Gaussian(noise_multiplier=4.0)
    found = of_stages([stage_of([first], 1e-6), stage_of([second], 1e-6)])
    later = accountant.delta(second, epsilon=0.1)
    assert advantage(found) == pytest.approx(1 - math.exp(-0.1) * (1 - later), rel=1e-9)
    at = int(np.argmin(abs(found.epsilons - 0.5)))
    assert found.deltas[at] == pytest.approx(accountant.delta(second, epsilon=found.epsilons[at] - 0.1), rel=1e-6)


@pytest.mark.parametrize(
    "stages",
    [
        [(DiscreteLaplace(scale=10.0),), (Gaussian(noise_multiplier=4.0),)],
        [(Gaussian(noise_multiplier=6.0),), (Gaussian(noise_multiplier=4.0),)],
        [(Gaussian(noise_multiplier=6.0),), (DiscreteLaplace(scale=30.0),), MIXED],
    ],
)
def test_stages_cost_at_least_what_they_would_as_one_and_at_most_what_epsilon_alone_says(stages):
    listed = [stage_of(stage, 5e-7) for stage in stages]
    apart, together = of_stages(listed), profile(*(mechanism for stage in stages for mechanism in stage))
    worst = alone(sum(stage.epsilon for stage in listed), sum(stage.delta for stage in listed))
    for rate in RATES:
        assert true_positives(together, rate) <= true_positives(apart, rate) <= true_positives(worst, rate) * 1.001
    for prior in (0.5, 0.01):
        assert suspicion(together, prior) <= suspicion(apart, prior) <= suspicion(worst, prior) * 1.001
    assert advantage(together) < advantage(apart) < advantage(worst)


# -- tw.risk -----------------------------------------------------------------------------------------------------------


def ledger(**options):
    made = tw.Ledger(1.0, 1e-6, **options)
    made.spend(DiscreteLaplace(scale=50.0), "row count").redeem(DiscreteLaplace)
    made.spend(Gaussian(noise_multiplier=6.0), "pairs")
    return made


def test_a_supposed_epsilon_is_one_gaussian_that_just_has_it():
    found = tw.risk(epsilon=1.0, delta=1e-6)
    assert found.supposed
    noise = accountant.calibrate(Gaussian(noise_multiplier=1.0), free="noise_multiplier", epsilon=1.0, delta=1e-6)
    assert found.advantage == pytest.approx(2 * ndtr(0.5 / noise.noise_multiplier) - 1, rel=0.002)
    assert found.advantage < 0.25 * found.alone.advantage


def test_more_epsilon_is_more_risk():
    risks = [tw.risk(epsilon=epsilon) for epsilon in (0.1, 0.5, 1.0, 4.0, 10.0, 150.0, 1000.0)]
    for less, more in itertools.pairwise(risks):
        assert less.advantage <= more.advantage <= 1
        assert all(less.true_positives[rate] <= more.true_positives[rate] <= 1 for rate in less.true_positives)
        assert all(less.suspicion[prior] <= more.suspicion[prior] <= 1 for prior in less.suspicion)
    assert risks[0].advantage < risks[3].advantage


def test_the_curve_rises_from_nothing_to_all_and_stays_below_that_of_epsilon_alone():
    found = tw.risk(ledger())
    assert found.curve[0] == (0.0, pytest.approx(0.0, abs=1e-6))
    assert found.curve[-1] == (1.0, 1.0)
    rates, true = np.array(found.curve).T
    assert np.all(np.diff(true) > 0)
    assert np.all(true >= rates)
    assert np.all(true <= np.array(found.alone.curve)[:, 1] + 1e-9)


def test_a_ledger_its_statement_and_a_twin_that_has_it_say_the_same():
    made = ledger()
    found = tw.risk(made)
    twin = type("Twin", (), {"statement": made.statement().to_json()})()
    assert found == tw.risk(made.statement()) == tw.risk(made.statement().to_json()) == tw.risk(twin)
    assert (found.epsilon, found.delta, found.relation, found.supposed) == (1.0, 1e-6, "add-remove", False)


def test_what_was_accepted_without_noise_is_no_part_of_the_figures_and_is_told_first():
    made = ledger()
    made.treat_as_public(accepted_of(["age", "ward"]))
    found = tw.risk(made)
    assert found.sentences()[0].startswith("NOT COVERED BY EPSILON: ranges, levels or missing cells of 'age', 'ward'")
    assert found.to_json()["warning"] in str(found).split("\n")[0]
    assert found.advantage == tw.risk(ledger()).advantage
    assert tw.risk(ledger()).warning is None


def test_what_a_ledger_has_left_is_no_risk_yet():
    assert tw.risk(tw.Ledger(1.0)).advantage == 0
    assert 0 < tw.risk(ledger()).advantage < tw.risk(epsilon=1.0).advantage


def test_mechanisms_under_substitution_have_a_risk():
    batch = FixedSizeGaussian(noise_multiplier=8.0, sampling_rate=0.05, steps=100)
    found = tw.risk(mechanisms=batch, relation="substitute")
    assert found.relation == "substitute"
    assert 0 < found.advantage < found.alone.advantage
    assert found.epsilon == accountant.epsilon(batch, delta=1e-6, relation=tw.Relation.SUBSTITUTE)
    with pytest.raises(PrivacyParameterError, match="no theorem"):
        tw.risk(mechanisms=batch)


@pytest.mark.parametrize(
    "given",
    [
        {"twin": ledger(insecure_seed=1)},
        {"twin": ledger(insecure_seed=1).statement().to_json()},
        {"twin": tw.Ledger.without_privacy()},
        {"mechanisms": [Gaussian(noise_multiplier=1.0), NotPrivate()]},
    ],
)
def test_what_is_not_private_has_no_bound_and_says_why(given):
    found = tw.risk(**given)
    assert not found.private
    assert found.why_not
    figures = [found.advantage, *found.true_positives.values(), *found.suspicion.values()]
    assert figures == [1.0] * 5
    assert found.alone.advantage == 1.0


def test_a_statement_that_does_not_hold_has_no_risk():
    statement = ledger().statement().to_json()
    statement["stages"][1]["receipts"][0]["mechanism"]["noise_multiplier"] = 3.0
    with pytest.raises(ArtifactError, match="does not hold"):
        tw.risk(statement)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "pass one of them"),
        ({"epsilon": 1.0, "mechanisms": [Gaussian(noise_multiplier=1.0)]}, "pass one of them"),
        ({"epsilon": 0.0}, "positive"),
        ({"epsilon": math.inf}, "positive"),
        ({"epsilon": True}, "positive"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": 1.0, "relation": "cousins"}, "add-remove, substitute"),
        ({"twin": 3}, "int has no risk"),
        ({"mechanisms": ["noise"]}, "not a mechanism"),
    ],
)
def test_what_has_no_risk_is_refused_with_what_would(given, said):
    with pytest.raises(PrivacyParameterError, match=said):
        tw.risk(**given)

"""Each mechanism lies below the Gaussian release that a book takes it for, and a book's total is an upper bound."""

import math

import numpy as np
import pytest

from twinify_lite import accountant, dominating
from twinify_lite.accountant import (
    ApproximateDP,
    DiscreteLaplace,
    FixedSizeGaussian,
    Gaussian,
    Laplace,
    NotPrivate,
    PoissonGaussian,
    Relation,
)
from twinify_lite.accountant.hockey import gaussian_delta, release_of
from twinify_lite.book import Book
from twinify_lite.dominating import dominate, mu_of_epsilon
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError

STEPS = PoissonGaussian(noise_multiplier=3.0, sampling_rate=0.02, steps=200)
FEW = PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.05, steps=30)
FIXED = FixedSizeGaussian(noise_multiplier=6.0, sampling_rate=0.05, steps=100)
SLACK = 2e-8
ADD, SUBSTITUTE = Relation.ADD_REMOVE, Relation.SUBSTITUTE


def bound(cost, x):
    """The profile of the pair that a cost stands for."""
    return cost.slack + (1 - cost.slack) * gaussian_delta(np.asarray(x, float), cost.mu)


@pytest.mark.parametrize(("mechanism", "relation"), [(STEPS, ADD), (FEW, ADD), (FIXED, SUBSTITUTE)])
def test_a_sampled_mechanism_lies_below_its_gaussian_between_the_points_too(mechanism, relation):
    """`accountant.delta` is the larger of both directions."""
    cost = dominate(mechanism, relation, SLACK)
    far = accountant.epsilon(mechanism, delta=1e-9, relation=relation)
    for x in np.random.default_rng(7).uniform(0, 1.5 * far, 25):
        assert accountant.delta(mechanism, epsilon=x, relation=relation) <= bound(cost, x), x


def test_a_gaussian_that_is_a_little_smaller_does_not_lie_above():
    """The search stops at the least mu, up to what chords and precision add."""
    cost = dominate(STEPS, ADD, SLACK)
    x = np.linspace(0, 0.5, 30)
    deltas = np.array([accountant.delta(STEPS, epsilon=point) for point in x])
    assert np.any(deltas > bound(cost._replace(mu=0.98 * cost.mu), x))


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 9e-4, 1.1e-3, 0.03, 0.5, 1.0, 4.0, 20.0, 500.0])
def test_a_pure_release_lies_below_its_gaussian_and_touches_it(epsilon):
    """The worst pair of a pure epsilon, in closed form, at every x."""
    cost = dominating.Cost(mu_of_epsilon(epsilon), 0.0)
    x = np.linspace(0, 1.2 * epsilon, 2001)
    worst = -np.expm1(np.minimum(x - epsilon, 0)) / (1 + np.exp(-epsilon))
    assert np.all(worst <= bound(cost, x) + 1e-15)  # the round-off of the Gaussian's profile
    assert bound(cost, 0.0) == pytest.approx(math.tanh(epsilon / 2), rel=1e-6)


@pytest.mark.parametrize(
    "mechanism", [Laplace(scale=3.0), DiscreteLaplace(scale=0.7), ApproximateDP(epsilon=1, delta=0)]
)
def test_every_pure_mechanism_lies_below_its_gaussian(mechanism):
    cost, x = dominate(mechanism, ADD, SLACK), np.linspace(0, 3, 301)
    assert cost.slack == 0
    assert np.all(release_of(mechanism).forward(x) <= bound(cost, x) * (1 + 1e-12))


def test_many_small_pure_releases_cost_less_than_one_of_their_sum():
    many, one = DiscreteLaplace(scale=100.0, releases=100), DiscreteLaplace(scale=1.0)
    assert dominate(many, ADD, SLACK).mu == pytest.approx(10 * mu_of_epsilon(0.01))
    assert dominate(many, ADD, SLACK).mu < 0.2 * dominate(one, ADD, SLACK).mu


def test_few_large_pure_releases_cost_no_more_than_their_sum():
    assert dominate(Laplace(scale=0.02, releases=2), ADD, SLACK).mu <= mu_of_epsilon(100.0)


@pytest.mark.parametrize(
    ("mechanism", "squared"),
    [
        (Gaussian(noise_multiplier=5.0, releases=3), 3 / 25),
        (PoissonGaussian(noise_multiplier=5.0, sampling_rate=1.0, steps=3), 3 / 25),
        (FixedSizeGaussian(noise_multiplier=5.0, sampling_rate=1.0, steps=3), 12 / 25),
    ],
)
def test_what_is_gaussian_stays_what_it_is(mechanism, squared):
    cost = dominate(mechanism, max(mechanism.relations), SLACK)
    assert (cost.mu**2, cost.slack) == (pytest.approx(squared, rel=1e-8), 0)
    assert cost.mu**2 >= squared


def test_an_approximate_mechanism_gives_its_delta_away():
    cost = dominate(ApproximateDP(epsilon=1.0, delta=1e-3), ADD, SLACK)
    assert cost == (mu_of_epsilon(1.0), 1e-3)
    x = np.linspace(0, 2, 101)
    assert np.all(release_of(ApproximateDP(epsilon=1.0, delta=1e-3)).forward(x) <= bound(cost, x) * (1 + 1e-12))


def test_what_has_no_cost_is_refused():
    with pytest.raises(BudgetExceeded, match="no finite epsilon"):
        dominate(NotPrivate(), ADD, SLACK)
    with pytest.raises(PrivacyParameterError, match="no theorem for the relation"):
        dominate(STEPS, SUBSTITUTE, SLACK)
    with pytest.raises(BudgetExceeded, match="delta is too small"):
        dominate(STEPS, ADD, 0.0)


# -- the total ---------------------------------------------------------------------------------------------------------


def book(folder, *charges, epsilon=9.0, delta=1e-6):
    made = Book.create(folder / "a.ledger", epsilon=epsilon, delta=delta)
    for number, mechanisms in enumerate(charges):
        made.charge(f"{number:08x}", 0, mechanisms)
    return made


CHARGES = (
    [[Gaussian(noise_multiplier=5.0)], [Gaussian(noise_multiplier=3.0), DiscreteLaplace(scale=20.0)]],
    [[STEPS], [STEPS], [Gaussian(noise_multiplier=9.0), ApproximateDP(epsilon=0.0, delta=1e-7)]],
    [[FEW, Laplace(scale=10.0, releases=4)], [STEPS]],
)


@pytest.mark.parametrize("charges", CHARGES)
def test_the_total_is_never_below_the_composition_of_all_mechanisms(tmp_path, charges):
    everything = [mechanism for mechanisms in charges for mechanism in mechanisms]
    total = book(tmp_path, *charges).total()
    assert accountant.epsilon(everything, delta=1e-6) <= total <= 1.25 * accountant.epsilon(everything, delta=1e-6)


def test_gaussian_fits_cost_together_what_one_composition_of_them_costs(tmp_path):
    fits = [[Gaussian(noise_multiplier=5.0)], [Gaussian(noise_multiplier=3.0, releases=2)]] * 3
    everything = [mechanism for mechanisms in fits for mechanism in mechanisms]
    # A quarter of delta is kept for the slacks, which no Gaussian has.
    together = accountant.epsilon(everything, delta=0.75e-6)
    assert book(tmp_path, *fits).total() == pytest.approx(together, rel=1e-3)


def test_squares_are_added_and_not_the_mus_themselves(tmp_path):
    total = book(tmp_path, *[[Gaussian(noise_multiplier=10.0)]] * 4).total()
    assert total == pytest.approx(accountant.epsilon(Gaussian(noise_multiplier=5.0), delta=0.75e-6), rel=1e-6)


def test_slacks_add_up_and_are_refused_past_their_part_of_delta(tmp_path):
    made = book(tmp_path, [ApproximateDP(epsilon=0.0, delta=1e-7)], [ApproximateDP(epsilon=0.0, delta=1.4e-7)])
    assert made.read().slack == pytest.approx(2.4e-7)
    with pytest.raises(BudgetExceeded, match="of delta beside the noise"):
        made.charge("abcdabcd", 0, [ApproximateDP(epsilon=0.0, delta=2e-8)])
    made.charge("abcdabcd", 0, [ApproximateDP(epsilon=0.0, delta=9e-9)])


def test_a_limit_so_large_that_sampling_errors_count_holds_no_sampled_fit_and_says_why(tmp_path):
    with pytest.raises(BudgetExceeded, match="lower its epsilon"):
        book(tmp_path, [STEPS], epsilon=40.0)


def test_the_total_with_its_slacks_is_that_of_one_gaussian_and_one_coin(tmp_path):
    """At the slack limit, and so at every slack below it, the two together are within delta at the total."""
    made = book(tmp_path, [STEPS], [Gaussian(noise_multiplier=4.0)], [ApproximateDP(epsilon=0.0, delta=1e-7)])
    found = made.read()
    pair = [Gaussian(noise_multiplier=1 / found.mu), ApproximateDP(epsilon=0.0, delta=found.slack_limit)]
    assert accountant.epsilon(pair, delta=1e-6) <= found.epsilon * (1 + 2e-3)
    assert found.slack_limit > found.slack > 1e-7 + 0.02e-6


def test_noise_that_hides_next_to_nothing_is_refused_and_does_not_take_for_ever():
    with pytest.raises(BudgetExceeded, match="hides next to nothing"):
        dominate(PoissonGaussian(noise_multiplier=0.628, sampling_rate=0.217, steps=595), ADD, SLACK)

"""The accountant's figures among themselves: order, inverses, and the parameter that a budget allows."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_accountant import MIXED, PAPER

from twinify_lite.accountant import (
    ApproximateDP,
    Gaussian,
    Laplace,
    NotPrivate,
    PoissonGaussian,
    calibrate,
    delta,
    epsilon,
)
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError


def test_order_and_packing_do_not_matter():
    costs = {epsilon(order, delta=1e-6) for order in itertools.islice(itertools.permutations(MIXED), 6)}
    assert len(costs) == 1
    assert epsilon([PAPER], delta=1e-6) == epsilon(PAPER, delta=1e-6) == epsilon((PAPER,), delta=1e-6)
    half = PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.01, steps=500)
    assert epsilon([half, half], delta=1e-6) == pytest.approx(epsilon(PAPER, delta=1e-6), rel=1e-9)
    assert epsilon([], delta=1e-6) == 0.0


@settings(max_examples=12, deadline=None)
@given(
    noise=st.floats(0.5, 50.0),
    rate=st.floats(1e-4, 1.0),
    steps=st.integers(1, 3000),
    exponent=st.floats(-10.0, -3.0),
)
def test_delta_and_epsilon_are_inverse_and_monotone(noise, rate, steps, exponent):
    target = max(10**exponent, 1e-10)
    mechanism = PoissonGaussian(noise_multiplier=noise, sampling_rate=rate, steps=steps)
    bound = epsilon(mechanism, delta=target)
    assert delta(mechanism, epsilon=bound) <= target * 1.03
    # The bound may stand 0.2 % above the tightest epsilon; at 1 % below it, delta is too large.
    if bound > 0:
        assert delta(mechanism, epsilon=0.99 * bound) >= target
    loose = 1.003
    assert epsilon(mechanism, delta=min(2 * target, 0.5)) <= bound * loose
    more = PoissonGaussian(noise_multiplier=1.1 * noise, sampling_rate=rate, steps=steps)
    longer = PoissonGaussian(noise_multiplier=noise, sampling_rate=rate, steps=steps + 100)
    assert epsilon(more, delta=target) <= bound * loose
    assert bound <= epsilon(longer, delta=target) * loose


def test_given_and_pure_mechanisms_keep_their_own_figures():
    assert epsilon(ApproximateDP(epsilon=1.0, delta=1e-6), delta=1e-6) == pytest.approx(1.0, rel=1e-8)
    assert epsilon(Laplace(scale=2.0), delta=1e-10) <= 0.5
    assert delta(Laplace(scale=2.0), epsilon=0.5) == 0.0
    assert epsilon([ApproximateDP(epsilon=0.1, delta=1e-7)] * 11, delta=1e-6) == math.inf
    assert epsilon([ApproximateDP(epsilon=1.0, delta=1e-7)] * 3, delta=1e-6) <= 3.0
    assert delta(ApproximateDP(epsilon=1.0, delta=1e-4), epsilon=50.0) == pytest.approx(1e-4)


def test_epsilon_is_zero_where_delta_covers_everything():
    faint = PoissonGaussian(noise_multiplier=50.0, sampling_rate=1e-5, steps=100)
    assert epsilon(faint, delta=1e-3) == 0.0
    assert delta(faint, epsilon=0.0) < 1e-3


def test_nothing_private_about_not_private():
    assert epsilon([PAPER, NotPrivate()], delta=1e-6) == math.inf
    assert delta(NotPrivate(), epsilon=10.0) == 1.0


@pytest.mark.parametrize("rate", [0.001, 0.1])
@pytest.mark.parametrize("steps", [100, 10_000])
@pytest.mark.parametrize("target", [0.3, 4.0])
def test_calibrated_noise_is_safe_and_tight(rate, steps, target):
    template = PoissonGaussian(noise_multiplier=1.0, sampling_rate=rate, steps=steps)
    found = calibrate(template, free="noise_multiplier", epsilon=target, delta=1e-6)
    assert epsilon(found, delta=1e-6) <= target
    less = PoissonGaussian(noise_multiplier=0.999 * found.noise_multiplier, sampling_rate=rate, steps=steps)
    assert epsilon(less, delta=1e-6) > target


def test_calibrated_counts_and_rates_are_the_largest():
    beside = (Gaussian(noise_multiplier=10.0),)
    template = PoissonGaussian(noise_multiplier=2.0, sampling_rate=0.01, steps=7)
    budget = {"epsilon": 2.0, "delta": 1e-6, "beside": beside}
    found = calibrate(template, free="steps", **budget)
    one_more = PoissonGaussian(noise_multiplier=2.0, sampling_rate=0.01, steps=found.steps + 1)
    assert epsilon([*beside, found], delta=1e-6) <= 2.0 < epsilon([*beside, one_more], delta=1e-6)
    found = calibrate(template, free="sampling_rate", **budget)
    more = PoissonGaussian(noise_multiplier=2.0, sampling_rate=1.001 * found.sampling_rate, steps=7)
    assert epsilon([*beside, found], delta=1e-6) <= 2.0 < epsilon([*beside, more], delta=1e-6)
    assert calibrate(Gaussian(noise_multiplier=100.0), free="releases", epsilon=1.0, delta=1e-6).releases == 560
    assert calibrate(Laplace(scale=9.0), free="scale", epsilon=0.5, delta=1e-6).scale == pytest.approx(2.0, rel=1e-3)


def test_calibration_returns_the_whole_table_when_the_budget_allows_it():
    template = PoissonGaussian(noise_multiplier=40.0, sampling_rate=0.5, steps=1)
    assert calibrate(template, free="sampling_rate", epsilon=1.0, delta=1e-6).sampling_rate == 1.0


def test_the_placeholder_is_ignored():
    found = {
        calibrate(Gaussian(noise_multiplier=start), free="noise_multiplier", epsilon=1.0, delta=1e-6)
        for start in (1e-3, 1.0, 1e3)
    }
    assert len(found) == 1


def test_calibration_refuses_a_spent_budget():
    beside = Gaussian(noise_multiplier=1.0)
    with pytest.raises(BudgetExceeded, match="already spent"):
        calibrate(PAPER, free="noise_multiplier", epsilon=1.0, delta=1e-6, beside=[beside])
    tight = PoissonGaussian(noise_multiplier=0.5, sampling_rate=0.9, steps=1)
    with pytest.raises(BudgetExceeded, match="any value"):
        calibrate(tight, free="steps", epsilon=0.1, delta=1e-6)
    with pytest.raises(PrivacyParameterError, match="noise_multiplier, releases"):
        calibrate(Gaussian(noise_multiplier=1.0), free="steps", epsilon=1.0, delta=1e-6)
    with pytest.raises(PrivacyParameterError, match="target epsilon"):
        calibrate(PAPER, free="steps", epsilon=0.0, delta=1e-6)

"""fourier-accountant, the paper's accountant, as a second opinion."""

from __future__ import annotations

import numpy as np
import pytest

from twinify_lite.accountant import Gaussian, PoissonGaussian, Relation, bounds, calibrate, crosscheck, epsilon
from twinify_lite.errors import AccountantDisagreement

PAPER = PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)


def test_the_two_accountants_agree_on_the_paper_setting():
    bound = epsilon(PAPER, delta=1e-5)
    assert crosscheck(PAPER, delta=1e-5, bound=bound) == pytest.approx(bound, rel=1e-3)


@pytest.mark.parametrize("factor", [0.5, 0.97, 1.03, 2.0])
def test_a_wrong_bound_is_refused(factor):
    bound = factor * epsilon(PAPER, delta=1e-5)
    with pytest.raises(AccountantDisagreement, match="differs from fourier-accountant"):
        crosscheck(PAPER, delta=1e-5, bound=bound)


def test_halved_noise_is_noticed():
    half = PoissonGaussian(noise_multiplier=2.0, sampling_rate=0.01, steps=1000)
    with pytest.raises(AccountantDisagreement):
        crosscheck(half, delta=1e-5, bound=epsilon(PAPER, delta=1e-5))


@pytest.mark.parametrize(
    ("mechanism", "delta", "relation"),
    [
        (Gaussian(noise_multiplier=1.0), 1e-5, Relation.ADD_REMOVE),
        (PAPER, 1e-5, Relation.SUBSTITUTE),
        (PAPER, 1e-9, Relation.ADD_REMOVE),
        (PoissonGaussian(noise_multiplier=0.9, sampling_rate=0.01, steps=1000), 1e-5, Relation.ADD_REMOVE),
        (PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.001, steps=1000), 1e-5, Relation.ADD_REMOVE),
        (PoissonGaussian(noise_multiplier=1.0, sampling_rate=1.0, steps=10), 1e-5, Relation.ADD_REMOVE),
        (PoissonGaussian(noise_multiplier=50.0, sampling_rate=0.005, steps=1), 1e-5, Relation.ADD_REMOVE),
    ],
)
def test_no_opinion_where_it_is_not_reliable(mechanism, delta, relation):
    bound = 0.0 if mechanism.__dict__.get("steps") == 1 else 1.0
    assert crosscheck(mechanism, delta=delta, relation=relation, bound=bound) is None


@pytest.mark.parametrize("count", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_the_two_accountants_agree_across_the_region(count):
    """The region of `crosscheck` holds: at random settings they are within 0.2 % of each other, not just 2 %."""
    rng = np.random.default_rng(7)
    found = 0
    while found < count:
        mechanism = PoissonGaussian(
            noise_multiplier=float(np.exp(rng.uniform(0, np.log(50)))),
            sampling_rate=float(np.exp(rng.uniform(np.log(0.005), np.log(0.99)))),
            steps=int(np.exp(rng.uniform(0, np.log(1e5)))),
        )
        target = float(10 ** rng.uniform(-8, -3))
        bound = epsilon(mechanism, delta=target)
        figure = crosscheck(mechanism, delta=target, bound=bound)
        if figure is not None:
            assert figure == pytest.approx(bound, rel=2e-3), mechanism
            found += 1


def test_a_calibration_is_cross_checked(monkeypatch):
    plan = PoissonGaussian(noise_multiplier=1, sampling_rate=0.02, steps=321)
    budget = {"free": "noise_multiplier", "epsilon": 1.5, "delta": 1e-6}
    found = calibrate(plan, **budget)
    assert crosscheck(found, delta=1e-6, bound=epsilon(found, delta=1e-6)) == pytest.approx(1.5, rel=3e-3)
    # As if both of our bounds had missed a twentieth of the cost.
    real_own, real = bounds.own_epsilon, bounds.epsilon
    monkeypatch.setattr(bounds, "own_epsilon", lambda *args, **kwargs: real_own(*args, **kwargs) / 1.05)
    monkeypatch.setattr(bounds, "epsilon", lambda *args, **kwargs: real(*args, **kwargs) / 1.05)
    with pytest.raises(AccountantDisagreement, match="fourier-accountant"):
        calibrate(plan, **budget)

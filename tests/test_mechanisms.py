"""What a mechanism may hold, how it is written down, and what importing it loads."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from test_accountant import MIXED, PAPER

from twinify_lite import accountant
from twinify_lite.accountant import (
    ApproximateDP,
    DeltaWarning,
    DiscreteLaplace,
    FixedSizeGaussian,
    Gaussian,
    Laplace,
    NotPrivate,
    PoissonGaussian,
    check_delta,
    epsilon,
    mechanism_from_json,
    warn_delta,
)
from twinify_lite.errors import PrivacyParameterError


@pytest.mark.parametrize(
    "fields",
    [
        {"noise_multiplier": 0.0},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": math.inf},
        {"noise_multiplier": "1"},
        {"noise_multiplier": True},
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.01},
        {"steps": 0},
        {"steps": 1.5},
        {"steps": True},
    ],
)
def test_values_out_of_range_are_refused(fields):
    good = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 10}
    name = next(iter(fields))
    for kind in (PoissonGaussian, FixedSizeGaussian):
        with pytest.raises(PrivacyParameterError, match=f"{kind.__name__}: {name}"):
            kind(**{**good, **fields})


@pytest.mark.parametrize("wrong", [0.0, 1e-11, 1.0, math.nan, "1e-6"])
def test_deltas_that_cannot_be_vouched_for_are_refused(wrong):
    with pytest.raises(PrivacyParameterError, match="delta must be"):
        check_delta(wrong)
    with pytest.raises(PrivacyParameterError, match="delta must be"):
        epsilon(PAPER, delta=wrong)
    assert check_delta(1e-10) == 1e-10


def test_a_delta_above_one_over_rows_is_warned_about():
    with pytest.warns(DeltaWarning, match="1/rows"):
        warn_delta(1e-3, 100_000)
    warn_delta(1e-6, 1000)


@pytest.mark.parametrize(
    "mechanism",
    [*MIXED, Laplace(scale=2), NotPrivate(), FixedSizeGaussian(noise_multiplier=1, sampling_rate=1, steps=1)],
)
def test_mechanisms_survive_json(mechanism):
    import json

    again = mechanism_from_json(json.loads(json.dumps(mechanism.to_json())))
    assert again == mechanism == type(mechanism).from_json(mechanism.to_json())
    assert hash(again) == hash(mechanism)


def test_json_that_is_no_mechanism_is_refused():
    with pytest.raises(PrivacyParameterError, match="No mechanism is called 'Cauchy'"):
        mechanism_from_json({"mechanism": "Cauchy"})
    with pytest.raises(PrivacyParameterError, match="takes the fields noise_multiplier, releases"):
        mechanism_from_json({"mechanism": "Gaussian", "sigma": 1.0})
    with pytest.raises(PrivacyParameterError, match="above 0"):
        mechanism_from_json({"mechanism": "Gaussian", "noise_multiplier": -1.0})
    with pytest.raises(PrivacyParameterError, match="not a mechanism"):
        epsilon([1.0], delta=1e-6)


def test_pure_epsilons():
    assert Laplace(scale=4.0, releases=2).pure_epsilon == 0.5
    assert DiscreteLaplace(scale=4.0).pure_epsilon == 0.25
    assert ApproximateDP(epsilon=0.3, delta=0.0).pure_epsilon == 0.3
    assert ApproximateDP(epsilon=0.3, delta=1e-9).pure_epsilon is None
    assert Gaussian(noise_multiplier=1.0).pure_epsilon is None


def test_importing_the_accountant_is_light():
    code = (
        "import sys, twinify_lite.accountant as a; a.ACCOUNTANT; a.CROSSCHECK;"
        "print([m for m in ('jax', 'scipy', 'dp_accounting', 'fourier_accountant') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[]"
    assert accountant.ACCOUNTANT.startswith("dp-accounting 0.6")
    assert "twinify-lite" in accountant.ACCOUNTANT
    assert "connect-the-dots" in accountant.ACCOUNTANT
    assert accountant.CROSSCHECK.startswith("fourier-accountant 0.12")

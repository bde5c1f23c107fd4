"""Privacy accounting: mechanisms, upper bounds on what they cost together, and the noise for a budget.

    epsilon(PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.01, steps=1000), delta=1e-6)

Read `mechanisms` for what can be written down, `hockey` for the theorems, `pld` for the composition,
`reference` for dp-accounting's figure: the stated epsilon is the larger of the two.
"""

from __future__ import annotations

from importlib import metadata

from twinify_lite.accountant.bounds import (
    SAMPLING_SHARE,
    SMALLEST_DELTA,
    DeltaWarning,
    check_delta,
    delta,
    epsilon,
    pure_epsilon,
    reference_epsilon,
    warn_delta,
)
from twinify_lite.accountant.calibration import calibrate
from twinify_lite.accountant.crosschecking import crosscheck
from twinify_lite.accountant.mechanisms import (
    ApproximateDP,
    DiscreteLaplace,
    FixedSizeGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    NotPrivate,
    PoissonGaussian,
    Relation,
    mechanism_from_json,
)

__all__ = [
    "ACCOUNTANT",
    "CROSSCHECK",
    "SAMPLING_SHARE",
    "SMALLEST_DELTA",
    "ApproximateDP",
    "DeltaWarning",
    "DiscreteLaplace",
    "FixedSizeGaussian",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NotPrivate",
    "PoissonGaussian",
    "Relation",
    "calibrate",
    "check_delta",
    "crosscheck",
    "delta",
    "epsilon",
    "mechanism_from_json",
    "pure_epsilon",
    "reference_epsilon",
    "warn_delta",
]


def __getattr__(name: str) -> str:
    """ACCOUNTANT and CROSSCHECK: who computed the bound and who checked it, with versions."""
    if name == "ACCOUNTANT":
        both = f"dp-accounting {metadata.version('dp-accounting')} and twinify-lite {metadata.version('twinify-lite')}"
        return f"{both}, pessimistic connect-the-dots PLDs, the larger figure"
    if name == "CROSSCHECK":
        return f"fourier-accountant {metadata.version('fourier-accountant')}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

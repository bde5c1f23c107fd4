"""Draws from fixed keys, and the chance of a false alarm: what the tests of exact noise share."""

from fractions import Fraction

import numpy as np

from twinify_lite import exact, rng
from twinify_lite.exact import Bits

# The keys are fixed, so a frequency test that passed once passes always; a right sampler fails with this chance when
# the keys or the order of its draws change.
P_VALUE = 1e-4


def bits(seed: int) -> Bits:
    return Bits(rng.insecure_key(seed))


def laplaces(source: Bits, scale: Fraction | float, count: int) -> np.ndarray:
    return np.array([exact.discrete_laplace(source, scale) for _ in range(count)])

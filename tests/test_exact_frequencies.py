"""The noise has its law: frequencies of many draws, and those of OpenDP beside ours."""

import math
from fractions import Fraction

import numpy as np
import pytest
from exact_draws import P_VALUE, bits, laplaces
from scipy import stats

from twinify_lite import exact


def chi_square(draws: np.ndarray, edges: np.ndarray, cumulative: np.ndarray) -> float:
    """The p-value of the counts of draws between `edges`, where `cumulative` is the chance to lie below each edge."""
    counts = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)
    expected = len(draws) * np.diff(cumulative, prepend=0.0, append=1.0)
    assert np.min(expected) > 5
    return stats.chisquare(counts, expected).pvalue


def gaussian_fit(draws: np.ndarray, scale: int) -> float:
    edges = np.unique(np.linspace(-3 * scale, 3 * scale + 1, 42).astype(int))
    return chi_square(draws, edges, stats.norm.cdf((edges - 0.5) / scale))


def laplace_fit(draws: np.ndarray, scale: float) -> float:
    edges = np.unique(np.linspace(-6 * scale, 6 * scale + 1, 42).astype(int))
    ratio = math.exp(-1 / scale)
    below = np.where(edges <= 0, ratio ** (1.0 - edges.clip(max=0)), 1 + ratio - ratio ** edges.clip(min=0))
    return chi_square(draws, edges, below / (1 + ratio))


@pytest.mark.parametrize("scale", [1, 2, 3, 10, 1000])
def test_rounded_gaussians_have_the_frequencies_of_their_law(scale):
    assert gaussian_fit(exact.rounded_gaussians(bits(scale), scale, 50_000), scale) > P_VALUE


@pytest.mark.parametrize("scale", [1, 10])
def test_rounded_gaussians_have_them_also_when_digits_are_single_bits(monkeypatch, scale):
    monkeypatch.setattr(exact, "DIGIT", 1)
    assert gaussian_fit(exact.rounded_gaussians(bits(30 + scale), scale, 50_000), scale) > P_VALUE


@pytest.mark.parametrize("scale", [1.0, 2.0, 3.0, 10.0, 1000.0, 0.9, Fraction(22, 7)])
def test_discrete_laplace_has_the_frequencies_of_its_law(scale):
    assert laplace_fit(laplaces(bits(40), scale, 50_000), float(scale)) > P_VALUE


def test_the_frequency_checks_fail_for_wrong_samplers():
    halved = exact.rounded_gaussians(bits(50), 5, 30_000)
    assert gaussian_fit(halved, 10) < 1e-12
    down = exact.rounded_gaussians(bits(51), 2**20, 30_000) >> 20  # floor(X) instead of floor(X + 1/2)
    assert gaussian_fit(down, 1) < 1e-12
    towards_zero = np.trunc(exact.rounded_gaussians(bits(52), 2**20, 30_000) / 2**20 * 3).astype(int)
    assert gaussian_fit(towards_zero, 3) < 1e-12
    assert laplace_fit(laplaces(bits(53), 5.0, 30_000), 10.0) < 1e-12
    twice_zero = laplaces(bits(54), 3.0, 30_000)
    assert laplace_fit(np.concatenate([twice_zero, twice_zero[twice_zero == 0]]), 3.0) < 1e-12


def test_the_tails_beyond_three_and_four_standard_deviations_are_as_heavy_as_they_should_be():
    scale = 10**8
    standard = exact.rounded_gaussians(bits(60), scale, 200_000) / scale
    assert stats.kstest(standard, stats.norm.cdf).pvalue > P_VALUE
    for deviations in (3, 4):
        for tail in (standard > deviations, standard < -deviations):
            assert stats.binomtest(int(tail.sum()), len(tail), stats.norm.sf(deviations)).pvalue > P_VALUE
    laplace = laplaces(bits(61), 1e8, 50_000) / 1e8
    assert stats.kstest(laplace, stats.laplace.cdf).pvalue > P_VALUE


def test_large_scales_have_random_low_bits():
    source = bits(71)
    draws = np.array([exact.rounded_gaussian(source, 2**60) % 64 for _ in range(20_000)])
    assert stats.chisquare(np.bincount(draws, minlength=64)).pvalue > P_VALUE
    source = bits(72)
    draws = np.array([exact.discrete_laplace(source, 1e30) % 64 for _ in range(20_000)])
    assert stats.chisquare(np.bincount(draws, minlength=64)).pvalue > P_VALUE


def test_neighbouring_draws_are_uncorrelated():
    draws = exact.rounded_gaussians(bits(73), 1000, 50_000)
    assert stats.pearsonr(draws[:-1], draws[1:]).pvalue > P_VALUE
    assert stats.pearsonr(np.abs(draws[:-1]), np.abs(draws[1:])).pvalue > P_VALUE


# --- against OpenDP ---

# OpenDP draws from the operating system, so these tests differ from run to run: a rarer false alarm.
RARE = 1e-7
DRAWS = 50_000


@pytest.fixture(scope="module")
def opendp():
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    return opendp


def same_law(ours: np.ndarray, theirs: np.ndarray, scale: float) -> float:
    """The p-value of a two-sample chi-square test on cells of a quarter of the scale, within three scales."""
    edges = np.unique(np.linspace(-3 * scale, 3 * scale + 1, 25).astype(int))
    table = [
        np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1) for draws in (ours, theirs)
    ]
    return stats.chi2_contingency(table).pvalue


@pytest.mark.parametrize("scale", [0.7, 2.5, 40.0])
def test_discrete_laplace_has_the_law_of_opendp(opendp, scale):
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l1_distance(T=int)
    theirs = np.array(opendp.m.make_laplace(*space, scale=scale)([0] * DRAWS))
    assert same_law(laplaces(bits(100), scale, DRAWS), theirs, scale) > RARE
    assert same_law(laplaces(bits(101), 1.25 * scale, DRAWS), theirs, scale) < RARE


@pytest.mark.parametrize("scale", [10, 300])
def test_rounded_gaussian_has_almost_the_law_of_the_discrete_gaussian_of_opendp(opendp, scale):
    # Rounding adds 1/12 to the variance, which the discrete Gaussian has not: the laws are 0.02 / scale^2 apart in
    # total variation, 2e-4 at scale 10. That moves the chi-square statistic of so few draws by 0.01 on average.
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    theirs = np.array(opendp.m.make_gaussian(*space, scale=float(scale))([0] * DRAWS))
    assert same_law(exact.rounded_gaussians(bits(102), scale, DRAWS), theirs, scale) > RARE
    assert same_law(exact.rounded_gaussians(bits(103), scale + scale // 10, DRAWS), theirs, scale) < RARE

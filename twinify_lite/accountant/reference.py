"""The same bound from Google's dp-accounting, which shares no code with ours, where it can be relied on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from twinify_lite.accountant.mechanisms import (
    ApproximateDP,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
    PoissonGaussian,
)

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

MAX_STEPS = 100_000
MAX_POINTS = 1 << 19
SMALLEST_EPSILON, LARGEST_EPSILON = 0.01, 100.0
# A transform in double precision is off by up to 3e-16 a step, in delta itself.
_DELTA_PER_STEP = 1e-13
_CUT = 1e-4  # share of delta that the cut tails of the noise may cost
_FIRST = 0.1  # the first interval, over the sd of one loss
_ROUNDED = 1e-3  # the interval at most, over the sd of all losses together, for each that is rounded up
_PURE = 3e-3  # the same, for the square root of the number of pure releases
_CONVERGED = 1e-3  # what halving the interval may still change


class _Part(NamedTuple):
    """One mechanism: how to make its PLD for an interval, how often, and the size of its loss."""

    make: Callable[[float], PrivacyLossDistribution]
    count: int
    sd: float
    width: float
    rounded: bool = False  # its losses are rounded up, instead of split between two dots
    pure: bool = False  # its largest loss has a mass of its own, and the dot above inherits some of it


def epsilon(mechanisms: Iterable[Mechanism], delta: float) -> float | None:
    """dp-accounting's upper bound on the epsilon of all mechanisms together at this delta, or None.

    None outside of the region where it is reliable and quick: at most 100,000 steps and delta >= 1e-13 * steps
    (its transform is off by about 1e-16 a step, and at a million steps it states less than the closed form:
    tests/test_reference.py); 0.01 <= epsilon <= 100; a grid of at most 2^19 points on which the figure has
    settled; no FixedSizeGaussian, whose pair it does not know.

    The region was found by drawing settings at random (noise 0.1 to 100, rate 1e-5 to 1, up to a million steps,
    delta 1e-10 to 1e-3; alone and up to four mechanisms of all kinds together) and comparing with ours: inside,
    its figure is between 0.1 % below and 0.2 % above ours.
    """
    listed = Counter(mechanisms)
    if not listed or not all(type(mechanism) in _PARTS for mechanism in listed):
        return None
    steps = sum(times * _count(mechanism) for mechanism, times in listed.items())
    if steps > MAX_STEPS or delta < _DELTA_PER_STEP * steps:
        return None
    log_cut = math.log(_CUT * delta / steps)
    parts = [_PARTS[type(mechanism)](mechanism, times, log_cut) for mechanism, times in listed.items()]
    # Far outside there is only time to lose. The mean loss is about half the variance, and beyond a loss of 700
    # its exponentials overflow; all losses together are at most the sum of their widths.
    if _variance(parts) > 4 * LARGEST_EPSILON or sum(part.count * part.width for part in parts) < SMALLEST_EPSILON:
        return None
    return _converged(parts, delta)


def _count(mechanism: Mechanism) -> int:
    return getattr(mechanism, "steps", getattr(mechanism, "releases", 1))


def _converged(parts: list[_Part], delta: float) -> float | None:
    """The figure on the first grid that agrees with one half as fine, or None if no grid does.

    The error falls at least as fast as the interval, so what is left is at most what the last halving changed.
    """
    width = sum(part.width + _composed_width(part) for part in parts)
    interval, coarse = _first_interval(parts), math.inf
    while width <= MAX_POINTS * interval:
        fine = _compose(parts, interval).get_epsilon_for_delta(delta)
        if not SMALLEST_EPSILON <= fine <= 2 * LARGEST_EPSILON:
            return None
        if abs(coarse - fine) <= _CONVERGED * fine:
            return float(fine) if fine <= LARGEST_EPSILON else None
        coarse, interval = fine, interval / 2
    return None


def _first_interval(parts: list[_Part]) -> float:
    """Dots h apart add a variance of about h^2 / 6 to each loss: h is set against the root mean square sd.

    Rounded losses move by up to h, and so do the largest losses of pure mechanisms, not always less when h is
    halved: both are kept small from the start.
    """
    steps = sum(part.count for part in parts)
    rounded = sum(part.count for part in parts if part.rounded)
    pure = sum(part.count for part in parts if part.pure)
    share = min(_FIRST / math.sqrt(steps), _ROUNDED / max(rounded, _ROUNDED), _PURE / math.sqrt(max(pure, _PURE**2)))
    return math.sqrt(_variance(parts)) * share


def _variance(parts: list[_Part]) -> float:
    return sum(part.count * part.sd**2 for part in parts)


def _composed_width(part: _Part) -> float:
    """The window that dp-accounting cuts by Chernoff's bound, with its orders 1 .. 20 over the width of one loss."""
    if part.width == 0:
        return 0.0
    return min(
        2 * (35 * part.width / order + part.count * part.sd**2 * order / (2 * part.width)) for order in range(1, 21)
    )


def _compose(parts: list[_Part], interval: float) -> PrivacyLossDistribution:
    composed = None
    for part in parts:
        alone = part.make(interval)
        alone = alone.self_compose(part.count) if part.count > 1 else alone
        composed = alone if composed is None else composed.compose(alone)
    return composed


def _gaussian(mechanism: Gaussian | PoissonGaussian, times: int, log_cut: float) -> _Part:
    from dp_accounting.pld import privacy_loss_distribution

    noise, rate = mechanism.noise_multiplier, getattr(mechanism, "sampling_rate", 1.0)

    def make(interval: float) -> PrivacyLossDistribution:
        return privacy_loss_distribution.from_gaussian_mechanism(
            noise, sampling_prob=rate, value_discretization_interval=interval, log_mass_truncation_bound=log_cut
        )

    reach = math.sqrt(-2 * log_cut) / noise + 0.5 / noise**2
    width = _sampled(reach, rate) - _sampled(-reach, rate)
    sd = min(rate * math.sqrt(math.expm1(min(noise**-2, 700.0))), 1 / noise)
    return _Part(make, times * _count(mechanism), sd, width)


def _sampled(loss: float, rate: float) -> float:
    """log(1 + rate * (e^loss - 1)): the loss after sampling."""
    if rate == 1 or loss > 600:
        return loss + math.log(rate)
    return math.log1p(rate * math.expm1(loss))


def _laplace(mechanism: Laplace | DiscreteLaplace, times: int, log_cut: float) -> _Part:
    from dp_accounting.pld import privacy_loss_distribution

    del log_cut
    top = 1 / mechanism.scale

    def make(interval: float) -> PrivacyLossDistribution:
        grid = {"value_discretization_interval": interval, "use_connect_dots": True}
        if isinstance(mechanism, DiscreteLaplace):
            return privacy_loss_distribution.from_discrete_laplace_mechanism(top, **grid)
        return privacy_loss_distribution.from_laplace_mechanism(mechanism.scale, **grid)

    return _Part(make, times * mechanism.releases, top, 2 * top, pure=True)


def _approximate_dp(mechanism: ApproximateDP, times: int, log_cut: float) -> _Part:
    from dp_accounting.pld import common, privacy_loss_distribution

    del log_cut
    given = common.DifferentialPrivacyParameters(mechanism.epsilon, mechanism.delta)

    def make(interval: float) -> PrivacyLossDistribution:
        return privacy_loss_distribution.from_privacy_parameters(given, interval)

    return _Part(make, times, mechanism.epsilon, 2 * mechanism.epsilon, rounded=True)


_PARTS: dict[type[Mechanism], Callable[[Mechanism, int, float], _Part]] = {
    PoissonGaussian: _gaussian,
    Gaussian: _gaussian,
    Laplace: _laplace,
    DiscreteLaplace: _laplace,
    ApproximateDP: _approximate_dp,
}

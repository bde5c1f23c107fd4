"""Each mechanism as one Gaussian release that costs at least as much: what a book adds up.

Convolving privacy loss distributions is a theorem for mechanisms that were fixed beforehand. A later fit is chosen by
someone who has seen an earlier twin: its epsilon, its model, whether it is run at all. Gaussians may be chosen like
that: if the squares of their mu never add up to more than a fixed limit, all of them together cost no more than one
Gaussian of that limit (Smith, Thakurta 2022, arXiv:2210.17520, "Fully adaptive composition for Gaussian differential
privacy"), also where they are interactive and run at the same time (Vadhan, Zhang 2022, arXiv:2207.08335; with costs
that are chosen on the way: Haney, Shoemate, Tian, Vadhan, Vyrros, Xu, Zhang 2023, arXiv:2309.05901).

So a mechanism is replaced by a pair (mu, slack): a coin that knows nothing of the table falls on its edge with
probability `slack` and gives everything away, and otherwise a Gaussian of that mu is released. A mechanism whose
profile lies below that pair's, slack + (1 - slack) * gaussian_delta(x, mu), can be simulated from it (Blackwell). No
coin falls on its edge except with the sum of all slacks, which is added to delta; the rest are Gaussians.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from twinify_lite import accountant
from twinify_lite.accountant import ApproximateDP, FixedSizeGaussian, Gaussian, Mechanism, PoissonGaussian, Relation
from twinify_lite.accountant.bounds import SAMPLING_SLACK, own_epsilon
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError

#: Points at which the profile of a sampled mechanism is computed, each for some 0.1 s.
_POINTS = 32
# Every mu is rounded up by this, and every Gaussian down: far more than the round-off of either.
_ROUNDED_UP = 1 + 1e-9
_PRECISION = 1e-5  # of the search for mu
_LARGEST = 1e3  # a mu beyond which nothing is hidden
_SMALL = 1e-3  # an epsilon below which its mu is taken from the first term of the series, which is above it


class Cost(NamedTuple):
    """A Gaussian release of `mu`, beside a coin that gives everything away with probability `slack`."""

    mu: float
    slack: float


def dominate(mechanism: Mechanism, relation: Relation, slack: float) -> Cost:
    """What `mechanism` costs at most.

    Formal guarantee: accountant.delta(mechanism, epsilon=x) <= s + (1 - s) * gaussian_delta(x, mu) for every x >= 0,
    where s is the slack of the result. It is at most `slack`, except that of an `ApproximateDP`, which is its delta.
    """
    if relation not in mechanism.relations:
        raise PrivacyParameterError(
            f"{type(mechanism).__name__} has no theorem for the relation '{relation}', under which this budget is kept."
        )
    if mechanism.pure_epsilon is not None:
        return Cost(_mu_of_pure(mechanism), 0.0)
    if isinstance(mechanism, ApproximateDP):
        return Cost(mu_of_epsilon(mechanism.epsilon), mechanism.delta)
    squared = _mu_squared(mechanism)
    if squared is not None:
        return Cost(math.sqrt(squared) * _ROUNDED_UP, 0.0)
    if isinstance(mechanism, PoissonGaussian | FixedSizeGaussian):
        return Cost(_mu_of_sampled(mechanism, relation, slack), slack)
    raise BudgetExceeded(f"{type(mechanism).__name__}() has no finite epsilon: no budget holds it.")


def mu_of_epsilon(epsilon: float) -> float:
    """The least mu of a Gaussian release that dominates every release of a pure `epsilon`.

    The worst such pair has the losses +-epsilon, and the profile (1 - e^(x - epsilon)) / (1 + e^-epsilon): in e^x a
    straight line. At x = 0 the Gaussian of this mu has the same value, tanh(epsilon / 2), and the same slope,
    -1 / (1 + e^epsilon); it is convex in e^x, so the line is its tangent and lies below it. Both pairs are symmetric,
    so this holds in both directions.
    """
    from scipy.special import ndtri_exp

    if epsilon < _SMALL:
        return epsilon * math.sqrt(math.pi / 2) * _ROUNDED_UP
    return -2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon)))) * _ROUNDED_UP


def _mu_of_pure(mechanism: Mechanism) -> float:
    """Of all releases at once, or of each for itself: both hold, and few large or many small ones differ."""
    releases, epsilon = getattr(mechanism, "releases", 1), mechanism.pure_epsilon
    return min(mu_of_epsilon(epsilon), math.sqrt(releases) * mu_of_epsilon(epsilon / releases))


def _mu_squared(mechanism: Mechanism) -> float | None:
    """(sensitivity / sd)^2 of all releases, where none of them is of a sample."""
    if isinstance(mechanism, Gaussian):
        return mechanism.releases / mechanism.noise_multiplier**2
    if getattr(mechanism, "sampling_rate", None) != 1:
        return None
    moved = 2 if isinstance(mechanism, FixedSizeGaussian) else 1  # a row replaced moves the sum twice as far
    return moved**2 * mechanism.steps / mechanism.noise_multiplier**2


@functools.lru_cache(maxsize=256)
def _mu_of_sampled(mechanism: Mechanism, relation: Relation, slack: float) -> float:
    """The least mu, up to the precision of the search, that `_is_below` finds above the mechanism's profile."""
    profile = _Profile.of(mechanism, relation, slack)
    low, high = 0.0, 1.0
    while not profile.is_below(high, slack):
        low, high = high, 2 * high
        if high > _LARGEST:
            raise BudgetExceeded(f"{type(mechanism).__name__} has too little noise: it hides next to nothing.")
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if profile.is_below(middle, slack) else (middle, high)
    return high


class _Profile(NamedTuple):
    """A profile at some epsilons from 0 on; at the last one it has come down to the slack."""

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    @classmethod
    def of(cls, mechanism: Mechanism, relation: Relation, slack: float) -> _Profile:
        def delta(epsilon: float) -> float:
            return accountant.delta(mechanism, epsilon=epsilon, relation=relation)

        last = own_epsilon(mechanism, delta=max(slack, accountant.SMALLEST_DELTA), relation=relation)
        if not (slack > SAMPLING_SLACK and last < math.inf):
            raise BudgetExceeded(f"{type(mechanism).__name__} has too little noise, or delta is too small for it.")
        while delta(last) > slack:
            last *= 1.01
        epsilons = tuple(last * number / (_POINTS - 1) for number in range(_POINTS))
        return cls(epsilons, tuple(map(delta, epsilons)))

    def is_below(self, mu: float, slack: float) -> bool:
        """Whether this profile lies below the pair of `mu` and `slack`, everywhere.

        In e^x both are convex. Between two points a convex profile lies below its chord, and a convex Gaussian above
        each of its tangents: where the tangent that is parallel to the chord, or the nearest one at an end, lies
        above the chord's two ends, the Gaussian lies above all between them. Beyond the last point a falling profile
        stays below the slack.
        """
        import numpy as np
        from scipy.special import ndtr, ndtri

        from twinify_lite.accountant.hockey import gaussian_delta

        x, deltas = np.array(self.epsilons), np.array(self.deltas)
        a, excess = np.exp(x), (deltas - slack) / (1 - slack)
        slope = np.clip(-np.diff(excess) / np.diff(a), 1e-300, 0.5)
        # The Gaussian falls by Phi(-x / mu - mu / 2) in e^x: here it falls as its chord does.
        touch = np.clip(mu * (-ndtri(slope) - mu / 2), x[:-1], x[1:])
        value, fall = gaussian_delta(touch, mu), ndtr(-touch / mu - mu / 2)
        ends = [value - fall * (end - np.exp(touch)) for end in (a[:-1], a[1:])]
        return bool(np.all(excess[:-1] * _ROUNDED_UP <= ends[0]) and np.all(excess[1:] * _ROUNDED_UP <= ends[1]))

"""Hockey-stick profiles: what one release of a mechanism can cost, at every epsilon.

The profile of a pair (P, Q) is delta(epsilon) = sup over events of P - e^epsilon Q. It says everything
that composition needs. One release is given by two functions of epsilon >= 0: `forward` for (P, Q) and
`backward` for (Q, P); negative epsilons follow from
    delta_PQ(-epsilon) = 1 - e^-epsilon + e^-epsilon * delta_QP(epsilon)
(Zhu, Dong, Wang 2022, "Optimal accounting of differential privacy via characteristic function").

Every function here keeps *relative* precision where its value is tiny: the composition multiplies errors
by the number of steps, up to a million.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr

from twinify_lite.accountant.mechanisms import (
    ApproximateDP,
    DiscreteLaplace,
    FixedSizeGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    PoissonGaussian,
)

Profile = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_SQRT2 = np.sqrt(2.0)


class Release(NamedTuple):
    """A dominating pair by its two profiles, released `count` times."""

    forward: Profile
    backward: Profile
    count: int
    given: float = 0.0  # probability of an infinite loss in one release

    @property
    def symmetric(self) -> bool:
        """Whether both directions cost the same."""
        return self.forward is self.backward

    def reversed(self) -> Release:
        """The same release with P and Q exchanged: a row added instead of removed."""
        return self._replace(forward=self.backward, backward=self.forward)

    def excess(self, loss: NDArray[np.float64]) -> NDArray[np.float64]:
        """delta(loss) - max(0, 1 - e^loss) for sorted losses: what this pair has over no release at all.

        It vanishes in both tails, so second differences of it keep their precision; those of delta do not.
        """
        below, above = np.split(loss, [np.searchsorted(loss, 0.0)])
        return np.concatenate([np.exp(below) * self.backward(-below), self.forward(above)])


def gaussian_delta(epsilon: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """Profile of (N(mu, 1), N(0, 1)) for epsilon >= 0 (Balle & Wang 2018, arXiv:1805.06530v2, Theorem 8)."""
    near = epsilon / mu - mu / 2
    far = near + mu
    # e^epsilon phi(far) = phi(near), so the difference of the two tails is phi(near) times a difference of
    # Mills ratios: no large exponential, and relative precision in the tail.
    safe = np.maximum(near, -1.0)
    tail = 0.5 * np.exp(-(safe**2) / 2) * (erfcx(safe / _SQRT2) - erfcx(far / _SQRT2))
    bulk = ndtr(-near) - np.exp(epsilon + log_ndtr(-far))
    return np.maximum(np.where(near < -1.0, bulk, tail), 0.0)


def _amplified(epsilon: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """log(1 + (e^epsilon - 1) / rate): the epsilon before amplification by sampling."""
    small = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / rate)
    large = epsilon - np.log(rate) + np.log1p(-(1 - rate) * np.exp(-epsilon))
    return np.where(epsilon < 1.0, small, large)


def _poisson_gaussian(mechanism: PoissonGaussian) -> Release:
    """P = (1-q) N(0, s^2) + q N(1, s^2) against Q = N(0, s^2): the row is there in P, and not in Q.

    (P - aQ)+ = q (N1 - (1 + (a-1)/q) N0)+, and (Q - aP)+ = c (N0 - (aq/c) N1)+ with c = 1 - a(1-q), so both
    profiles are the Gaussian one at another epsilon. This pair dominates every pair of neighbours that
    differ by one row (Zhu, Dong, Wang 2022).
    """
    mu, q = 1 / mechanism.noise_multiplier, mechanism.sampling_rate

    def forward(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return q * gaussian_delta(_amplified(epsilon, q), mu)

    def backward(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        # Beyond -log(1-q) the profile is exactly 0; the minimum only keeps the unused branch finite.
        excess = np.expm1(np.minimum(epsilon, -np.log1p(-q))) * (1 - q) / q
        inside = excess < 1.0
        used = np.where(inside, excess, 0.0)
        return np.where(inside, q * (1 - used) * gaussian_delta(epsilon - np.log1p(-used), mu), 0.0)

    return Release(forward, backward, mechanism.steps)


def _fixed_size_gaussian(mechanism: FixedSizeGaussian) -> Release:
    """Batches of a fixed size without replacement, one row substituted.

    Formal guarantee: with M the Gaussian mechanism of sensitivity 2C, the subsampled mechanism satisfies
    delta(log(1 + q (e^epsilon - 1))) <= q delta_M(epsilon) for every epsilon >= 0 and every pair of
    neighbours (Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Theorem 9). Substitution is symmetric, so the
    bound holds for (P, Q) and for (Q, P), which gives it at negative epsilons too. The result, as a function of
    e^epsilon, is convex (its slope at 1 jumps from q(1-2s) + s - 1 up to -s, where
    s = Phi(-1/noise_multiplier) <= 1/2), so it is the profile of one pair, and that pair dominates all
    neighbours at every epsilon: it may be composed (Zhu, Dong, Wang 2022).
    """
    mu, q = 2 / mechanism.noise_multiplier, mechanism.sampling_rate

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return q * gaussian_delta(_amplified(epsilon, q), mu)

    return Release(profile, profile, mechanism.steps)


def _gaussian(mechanism: Gaussian) -> Release:
    mu = np.sqrt(mechanism.releases) / mechanism.noise_multiplier

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return gaussian_delta(epsilon, mu)

    return Release(profile, profile, 1)


def _laplace(mechanism: Laplace) -> Release:
    top = 1 / mechanism.scale

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return -np.expm1(np.minimum(epsilon - top, 0.0) / 2)

    return Release(profile, profile, mechanism.releases)


def _two_point(top: float, given: float, count: int) -> Release:
    """The worst (top, given)-DP pair: losses are +-top and, with probability `given`, infinite.

    (Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy".)
    """

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return given + (1 - given) * -np.expm1(np.minimum(epsilon - top, 0.0)) / (1 + np.exp(-top))

    return Release(profile, profile, count, given)


def _discrete_laplace(mechanism: DiscreteLaplace) -> Release:
    # Neighbouring integers have the likelihood ratio e^(+-1/scale) at every output: two points, exactly.
    return _two_point(1 / mechanism.scale, 0.0, mechanism.releases)


def _approximate_dp(mechanism: ApproximateDP) -> Release:
    return _two_point(mechanism.epsilon, mechanism.delta, 1)


_RELEASES: dict[type[Mechanism], Callable[..., Release]] = {
    PoissonGaussian: _poisson_gaussian,
    FixedSizeGaussian: _fixed_size_gaussian,
    Gaussian: _gaussian,
    Laplace: _laplace,
    DiscreteLaplace: _discrete_laplace,
    ApproximateDP: _approximate_dp,
}


def release_of(mechanism: Mechanism) -> Release:
    """The dominating pair of one mechanism."""
    return _RELEASES[type(mechanism)](mechanism)

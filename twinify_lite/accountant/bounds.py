"""Upper bounds on epsilon and delta, of one mechanism or of many together."""

from __future__ import annotations

import functools
import math
import numbers
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from twinify_lite.accountant.mechanisms import (
    FixedSizeGaussian,
    Gaussian,
    Mechanism,
    NotPrivate,
    PoissonGaussian,
    Relation,
)
from twinify_lite.errors import AccountantDisagreement, PrivacyParameterError

if TYPE_CHECKING:
    from twinify_lite.accountant.hockey import Release

SMALLEST_DELTA = 1e-10
# Share of delta that is kept back for what the samplers of rows and of noise are away from their ideal laws (total
# variation); whoever samples checks that this is enough.
SAMPLING_SHARE = 1e-3
SAMPLING_SLACK = 1e-13  # below this a delta is noise of the computation itself
# The profiles are computed to a relative 1e-11 or better; a bound leaves a hundred times that.
_ROUNDED_UP = 1 + 1e-9
_EPSILON_MOVE, _DELTA_MOVE = 0.005, 0.03
_TOLERANCE = 0.02  # between the two bounds: twenty times what they differ by in the region of `reference`

Mechanisms = Mechanism | Sequence[Mechanism]


class DeltaWarning(UserWarning):
    """Delta is so large that publishing one row in full would be allowed."""


def check_delta(delta: float) -> float:
    """Delta, if the accountant can vouch for it: in [1e-10, 1)."""
    if not isinstance(delta, numbers.Real) or not SMALLEST_DELTA <= delta < 1:
        raise PrivacyParameterError(
            f"delta must be at least {SMALLEST_DELTA:g} and below 1, got {delta!r}. "
            "Below 1e-10 no bound in floating point is vouched for. Pass delta=1e-6, or 1 / (10 * rows) if less."
        )
    return float(delta)


def warn_delta(delta: float, rows: int) -> None:
    """Warn when delta > 1/rows: then releasing one whole row at random would count as private."""
    if delta > 1 / max(rows, 1):
        warnings.warn(
            f"delta={delta:g} is above 1/rows: it would allow publishing a random person's row. "
            "Pass a delta well below 1 / rows, for example delta=1e-6.",
            DeltaWarning,
            stacklevel=2,
        )


def epsilon(mechanisms: Mechanisms, *, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """An upper bound on the epsilon of all mechanisms together at this delta: the larger of two.

    One is ours (`pld`), the other dp-accounting's (`reference`), where that one can be relied on; elsewhere
    ours stands alone.

    Formal guarantee: the composition is (epsilon, delta)-DP under the relation, as long as every parameter
    was fixed before the data were read. Discretisation adds about 0.1 %; FixedSizeGaussian is as loose as its
    theorem (14.8 where real neighbours are known to reach 13.4).
    Raises AccountantDisagreement if the two differ by more than 2 %.
    """
    return _epsilon(_listed(mechanisms, relation), check_delta(delta))


def own_epsilon(mechanisms: Mechanisms, *, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """Our half of `epsilon`, for searches: as sound, faster, and never above it."""
    return _own_epsilon(_listed(mechanisms, relation), check_delta(delta))


def reference_epsilon(
    mechanisms: Mechanisms, *, delta: float, relation: Relation = Relation.ADD_REMOVE
) -> float | None:
    """dp-accounting's half of `epsilon`, None where it has no say: it is not reliable there, or a sum is the bound."""
    return _reference_epsilon(_listed(mechanisms, relation), check_delta(delta))


def pure_epsilon(mechanisms: Mechanisms, *, relation: Relation = Relation.ADD_REMOVE) -> float:
    """The epsilon at delta = 0, the sum of all; infinite if a mechanism has none."""
    parts = [mechanism.pure_epsilon for mechanism in _listed(mechanisms, relation)]
    return math.inf if None in parts else math.fsum(parts)


def delta(mechanisms: Mechanisms, *, epsilon: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """An upper bound on the delta of all mechanisms together at this epsilon; the inverse of `own_epsilon`.

    It is ours alone: dp-accounting is not asked.

    Formal guarantee: the composition is (epsilon, delta)-DP under the relation.
    """
    if not (isinstance(epsilon, numbers.Real) and 0 <= epsilon < math.inf):
        raise PrivacyParameterError(f"epsilon must be a finite number of 0 or more, got {epsilon!r}.")
    return _delta(_listed(mechanisms, relation), float(epsilon))


def _listed(mechanisms: Mechanisms, relation: Relation) -> tuple[Mechanism, ...]:
    """The mechanisms in one order, so that no figure depends on the order they were passed in."""
    listed = [mechanisms] if isinstance(mechanisms, Mechanism) else list(mechanisms)
    for mechanism in listed:
        if not isinstance(mechanism, Mechanism):
            raise PrivacyParameterError(
                f"{type(mechanism).__name__} is not a mechanism. Pass for example Gaussian(noise_multiplier=1.0)."
            )
        if relation not in mechanism.relations:
            known = " or ".join(sorted(mechanism.relations))
            raise PrivacyParameterError(
                f"There is no theorem for {type(mechanism).__name__} under the relation '{relation}'. "
                f"Use relation '{known}', or the sampler that belongs to '{relation}'."
            )
    return tuple(sorted(listed, key=repr))


@functools.lru_cache(maxsize=1024)
def _epsilon(mechanisms: tuple[Mechanism, ...], delta: float) -> float:
    own, other = _own_epsilon(mechanisms, delta), _reference_epsilon(mechanisms, delta)
    if other is None:
        return own
    if not abs(other - own) <= _TOLERANCE * own:
        raise AccountantDisagreement(
            f"Two upper bounds on epsilon at delta={delta:g} differ by more than 2 %: ours is {own:.6g}, "
            f"dp-accounting's {other:.6g}, for {list(mechanisms)}. No figure is stated. Please report these parameters."
        )
    return min(max(own, other), _ceiling(mechanisms, delta))


def _reference_epsilon(mechanisms: tuple[Mechanism, ...], delta: float) -> float | None:
    own = _own_epsilon(mechanisms, delta)
    if own == math.inf or own >= _ceiling(mechanisms, delta):  # basic composition needs no grid, and so no second one
        return None
    from twinify_lite.accountant import reference

    return reference.epsilon(mechanisms, delta * (1 - _share(mechanisms)))


@functools.lru_cache(maxsize=1024)
def _own_epsilon(mechanisms: tuple[Mechanism, ...], delta: float) -> float:
    if any(isinstance(mechanism, NotPrivate) for mechanism in mechanisms):
        return math.inf
    target = delta * (1 - _share(mechanisms))
    bound = _worst(_releases(mechanisms), lambda releases: _epsilon_one_way(releases, target))
    return min(bound, _ceiling(mechanisms, delta))


def _ceiling(mechanisms: Iterable[Mechanism], delta: float) -> float:
    """What basic composition proves at this delta."""
    added, spent = _by_addition(mechanisms)
    return added if spent <= delta else math.inf


@functools.lru_cache(maxsize=1024)
def _delta(mechanisms: tuple[Mechanism, ...], epsilon: float) -> float:
    if any(isinstance(mechanism, NotPrivate) for mechanism in mechanisms):
        return 1.0
    added, spent = _by_addition(mechanisms)
    if epsilon >= added:
        return min(1.0, spent)
    bound = _worst(_releases(mechanisms), lambda releases: _delta_one_way(releases, epsilon))
    return min(1.0, bound / (1 - _share(mechanisms)) + SAMPLING_SLACK)


def _worst(releases: list[Release], cost: Callable[[list[Release]], float]) -> float:
    """The larger cost of the two directions: a row removed, a row added. Each is composed for itself."""
    if not releases:
        return 0.0
    forward = cost(releases)
    if all(release.symmetric for release in releases):
        return forward
    return max(forward, cost([release.reversed() for release in releases]))


def _share(mechanisms: Iterable[Mechanism]) -> float:
    sampled = (PoissonGaussian, FixedSizeGaussian, Gaussian)
    return SAMPLING_SHARE if any(isinstance(mechanism, sampled) for mechanism in mechanisms) else 0.0


def _by_addition(mechanisms: Iterable[Mechanism]) -> tuple[float, float]:
    """Basic composition, where every mechanism states an (epsilon, delta) of its own: the sums of both."""
    stated = [getattr(mechanism, "epsilon", mechanism.pure_epsilon) for mechanism in mechanisms]
    spent = sum(getattr(mechanism, "delta", 0.0) for mechanism in mechanisms)
    return (math.inf if None in stated else sum(stated)), spent


def _releases(mechanisms: Iterable[Mechanism]) -> list[Release]:
    """The dominating pairs, equal ones counted together and all Gaussians as one (closed under composition)."""
    from twinify_lite.accountant.hockey import release_of

    precision, others = 0.0, Counter()
    for mechanism in mechanisms:
        squared = _gaussian_mu_squared(mechanism)
        precision += squared
        others[mechanism] += squared == 0.0
    releases = []
    for mechanism, times in others.items():
        if times:
            release = release_of(mechanism)
            releases.append(release._replace(count=release.count * times))
    if precision:
        releases.append(release_of(Gaussian(noise_multiplier=1 / math.sqrt(precision))))
    return releases


def _gaussian_mu_squared(mechanism: Mechanism) -> float:
    """(sensitivity / sd)^2 summed over the releases, if the mechanism is Gaussian without sampling, else 0."""
    if isinstance(mechanism, Gaussian):
        return mechanism.releases / mechanism.noise_multiplier**2
    if isinstance(mechanism, PoissonGaussian) and mechanism.sampling_rate == 1:
        return mechanism.steps / mechanism.noise_multiplier**2
    if isinstance(mechanism, FixedSizeGaussian) and mechanism.sampling_rate == 1:
        return 4 * mechanism.steps / mechanism.noise_multiplier**2
    return 0.0


def _epsilon_one_way(releases: list[Release], delta: float) -> float:
    if len(releases) == 1 and releases[0].count == 1:
        return _invert(lambda epsilon: _profile(releases[0], epsilon), delta)
    given = sum(release.count * release.given for release in releases)
    if delta <= given:
        return math.inf
    from twinify_lite.accountant import pld

    spans = pld.spans_of(releases, delta - given)
    plan = pld.plan_for_delta(pld.Cumulants(spans), delta - given)
    return pld.refine(
        spans,
        plan,
        read=lambda tail: max(tail.epsilon(delta), 0.0),
        settled=lambda before, after: before <= after * (1 + _EPSILON_MOVE) < math.inf,
    )


def _delta_one_way(releases: list[Release], epsilon: float) -> float:
    if len(releases) == 1 and releases[0].count == 1:
        return _profile(releases[0], epsilon)
    from twinify_lite.accountant import pld

    spans = pld.spans_of(releases, SAMPLING_SLACK)
    cumulants = pld.Cumulants(spans)

    def bound(plan: pld.Plan, move: float) -> float:
        return pld.refine(
            spans,
            plan,
            read=lambda tail: tail.delta(epsilon),
            settled=lambda before, after: before <= after * (1 + move) + SAMPLING_SLACK and after < 1.01,
        )

    # Rare large losses put Chernoff's delta far above the true one; a second window is cut to the first answer.
    rough = bound(pld.plan_for_epsilon(cumulants, epsilon), 1.0)
    plan = pld.plan_for_epsilon(cumulants, epsilon, min(max(rough, SAMPLING_SLACK), 1.0))
    return min(rough, bound(plan, _DELTA_MOVE))


def _profile(release: Release, epsilon: float) -> float:
    """The profile of one release, in closed form, rounded up."""
    import numpy as np

    exact = float(release.forward(np.array([epsilon]))[0])
    return release.given + (exact - release.given) * _ROUNDED_UP


def _invert(profile: Callable[[float], float], delta: float) -> float:
    """The smallest float at which a falling profile is at most delta, approached from above."""
    low, high = 0.0, 1.0
    if profile(low) <= delta:
        return 0.0
    while profile(high) > delta:
        low, high = high, 2 * high
        if high > 1e15:
            return math.inf
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if profile(middle) <= delta else (middle, high)
    return high

"""The privacy profile of everything that was released: an upper bound on delta, at every epsilon at once.

(epsilon, delta) is one point of it. All of it says what an attacker can do, at every rate of false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twinify_lite import accountant
from twinify_lite.accountant import ApproximateDP, Mechanism, NotPrivate, Relation, bounds, pld
from twinify_lite.accountant.hockey import Release

Array = NDArray[np.float64]

# Any epsilons give a sound bound; steps of 1.4 % cost less than 0.3 % of it, for epsilons up to 100.
_GRID = np.concatenate([[0.0], np.geomspace(1e-4, 100.0, 1000)])
# What is left out of a composition, in delta: nothing beside the thousandth of false alarms that is asked for.
_NEGLIGIBLE = 1e-9
_SETTLED = 1e-3


class Profile(NamedTuple):
    """delta <= `deltas[i]` at `epsilons[i]` >= 0, the first of which is 0, in both directions between neighbours."""

    epsilons: Array
    deltas: Array


class Stage(NamedTuple):
    """Mechanisms that were fixed before the first of their answers was seen, and what they were stated to cost."""

    mechanisms: tuple[Mechanism, ...]
    epsilon: float
    delta: float


def alone(epsilon: float, delta: float) -> Profile:
    """The profile of the worst mechanism that is (epsilon, delta)-DP, and of which no more is known."""
    epsilons = _grid([epsilon])
    return Profile(epsilons, composed([ApproximateDP(epsilon=epsilon, delta=delta)], epsilons))


def of_stages(stages: Sequence[Stage], relation: Relation = Relation.ADD_REMOVE) -> Profile:
    """The profile of all stages together.

    Within a stage the whole distributions of losses are composed. What a later stage does may depend on what an earlier
    one answered, so between stages (epsilon, delta) are added, as the ledger does: all stages but one are worth their
    stated (epsilon_i, delta_i), and shift the profile of that one,

        delta(epsilon) <= delta_kept(epsilon - sum of epsilon_i) + sum of delta_i,

    which holds whichever is kept (Rogers, Roth, Ullman, Vadhan 2016), so the least of these bounds does. It is
    that of the plan that was made: had the noisy row count come out otherwise, so might the plan, with the same
    (epsilon, delta) and another profile.
    """
    epsilons = _grid([math.fsum(stage.epsilon for stage in stages)])
    deltas = np.ones_like(epsilons) if stages else np.zeros_like(epsilons)
    for number, kept in enumerate(stages):
        others = [*stages[:number], *stages[number + 1 :]]
        shift, given = math.fsum(s.epsilon for s in others), math.fsum(s.delta for s in others)
        deltas = np.minimum(deltas, _shifted(kept.mechanisms, epsilons - shift, relation) + given)
    return Profile(epsilons, deltas)


def _grid(also: Iterable[float]) -> Array:
    return np.unique(np.concatenate([_GRID, list(also)]))


def _shifted(mechanisms: Sequence[Mechanism], epsilons: Array, relation: Relation) -> Array:
    """The profile at any epsilons.

    At negative ones it is that of the other direction (see `hockey`), and `composed` bounds both.
    """
    sizes = np.abs(epsilons)
    deltas = composed(mechanisms, sizes, relation)
    return np.where(epsilons >= 0, deltas, 1 - np.exp(-sizes) * (1 - deltas))


def composed(mechanisms: Sequence[Mechanism], epsilons: Array, relation: Relation = Relation.ADD_REMOVE) -> Array:
    """An upper bound on the delta of all mechanisms together at each of `epsilons` >= 0: `accountant.delta` of many.

    Formal guarantee: the composition is (epsilons[i], result[i])-DP under the relation, for each i.
    """
    listed = bounds._listed(mechanisms, relation)
    if any(isinstance(mechanism, NotPrivate) for mechanism in listed):
        return np.ones_like(epsilons)
    releases = bounds._releases(listed)
    if not releases:
        return np.zeros_like(epsilons)
    deltas = _one_way(releases, epsilons)
    if not all(release.symmetric for release in releases):
        deltas = np.maximum(deltas, _one_way([release.reversed() for release in releases], epsilons))
    deltas = np.minimum(1.0, deltas / (1 - bounds._share(listed)) + bounds.SAMPLING_SLACK)
    added, given = bounds._by_addition(listed)
    return np.where(epsilons >= added, np.minimum(deltas, given), deltas)


def _one_way(releases: list[Release], epsilons: Array) -> Array:
    """One direction, from one composition. Every grid of it is a bound, and so is the least of them at each epsilon."""
    if len(releases) == 1 and releases[0].count == 1:
        (release,) = releases
        return release.given + (release.forward(epsilons) - release.given) * bounds._ROUNDED_UP
    spans = pld.spans_of(releases, _NEGLIGIBLE)
    plan = pld.plan_for_epsilon(pld.Cumulants(spans), 0.0, _NEGLIGIBLE)
    deltas = np.full_like(epsilons, 1.0)

    def read(tail: pld.Tail) -> float:
        np.minimum(deltas, [tail.delta(epsilon) for epsilon in epsilons], out=deltas)
        return float(deltas.sum())

    pld.refine(spans, plan, read, settled=lambda before, after: before <= after * (1 + _SETTLED))
    return deltas


def stage_of(mechanisms: Iterable[Mechanism], delta: float, relation: Relation = Relation.ADD_REMOVE) -> Stage:
    """A stage with the bound that the accountant states for it at `delta`; none is used where there need be none."""
    listed = tuple(mechanisms)
    pure = accountant.pure_epsilon(listed, relation=relation)
    if math.isfinite(pure):
        return Stage(listed, pure, 0.0)
    return Stage(listed, accountant.epsilon(listed, delta=delta, relation=relation), delta)

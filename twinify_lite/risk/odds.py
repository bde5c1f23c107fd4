"""What a profile lets the best attacker do: how well they tell apart, and how far a suspicion can move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from twinify_lite.risk.profile import Profile

FALSE_POSITIVES = (0.01, 0.001)
PRIORS = (0.5, 0.01)
#: The share of all that can come out which says most; suspicions are averages over it.
TELLING = 0.01
_CURVE = (0.0, *np.geomspace(1e-4, 1.0, 81).tolist())
# Beyond this e^epsilon is as good as infinite, whatever it is multiplied with.
_LARGEST = 500.0


@dataclass(frozen=True, kw_only=True)
class Odds:
    """Upper bounds on what anybody can do, whatever they know and compute.

    `advantage` is the most that true positives can exceed false ones; `true_positives` are by the rate of false ones;
    `suspicion` is by what was suspected before, see the function; `curve` has points (false, true positives).
    """

    advantage: float
    true_positives: Mapping[float, float]
    suspicion: Mapping[float, float]
    curve: tuple[tuple[float, float], ...] = field(repr=False)


def odds_of(profile: Profile) -> dict[str, object]:
    """The fields of `Odds`."""
    return {
        "advantage": advantage(profile),
        "true_positives": {rate: true_positives(profile, rate) for rate in FALSE_POSITIVES},
        "suspicion": {prior: suspicion(profile, prior) for prior in PRIORS},
        "curve": tuple((rate, true_positives(profile, rate)) for rate in _CURVE),
    }


def no_bound() -> dict[str, object]:
    """The fields of `Odds` where nothing is promised."""
    return odds_of(Profile(np.zeros(1), np.ones(1)))


def advantage(profile: Profile) -> float:
    """The most that true positives can exceed false positives: delta at epsilon 0, the total variation distance."""
    return float(profile.deltas[0])


def true_positives(profile: Profile, false_positives: float) -> float:
    """The most true positives of any attack with so many false ones.

    Every (epsilon, delta) is a line above them, one in each direction (Dong, Roth, Su 2022, "Gaussian differential
    privacy", Proposition 2.12); the least of these lines is the bound.
    """
    deltas, odds = profile.deltas, _exp(profile)
    rising = deltas + odds * false_positives
    closing = 1 - (1 - false_positives - deltas) / odds
    return float(min(1.0, rising.min(), closing.min()))


def suspicion(profile: Profile, prior: float, telling: float = TELLING) -> float:
    """How sure somebody who held it for `prior` likely can become, in the outputs that say most.

    The largest average posterior over any share `telling` of all that can come out. It is an average over an event, and
    so a bound that nobody gets around by computing further; a quantile of the losses is not, as what is computed from
    an output may gather its rare large losses and the others.

    A test with true positives T and false ones F flags that share if prior T + (1 - prior) F = telling, and is right
    with prior T / telling. On each line T <= delta + e^epsilon F that is solved by hand; with delta = 0 it is Bayes'
    rule with the odds raised by e^epsilon.
    """
    deltas, odds = profile.deltas, _exp(profile)
    given = deltas * prior * (1 - prior) / telling
    rising = (prior * odds + given) / (1 - prior + prior * odds)
    closing = (prior / odds + prior * (1 - prior) / telling * (1 - (1 - deltas) / odds)) / (1 - prior + prior / odds)
    return float(min(1.0, prior / telling, rising.min(), closing.min()))


def _exp(profile: Profile) -> np.ndarray:
    return np.exp(np.minimum(profile.epsilons, _LARGEST))

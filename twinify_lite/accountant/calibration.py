"""The least noise, or the most steps, that a budget allows."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

from twinify_lite.accountant import bounds
from twinify_lite.accountant.crosschecking import crosscheck
from twinify_lite.accountant.mechanisms import Mechanism, Relation
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError

Free = Literal["noise_multiplier", "scale", "sampling_rate", "steps", "releases"]
M = TypeVar("M", bound=Mechanism)


class _Range(NamedTuple):
    private: float  # the end where the least is given away
    costly: float
    start: float
    whole: bool = False
    stride: float = 0.05  # the first move away from the start, in logs, beside what the excess suggests


_RANGES: dict[str, _Range] = {
    "noise_multiplier": _Range(private=1e9, costly=1e-2, start=1.0),
    "scale": _Range(private=1e12, costly=1e-3, start=1.0),
    "sampling_rate": _Range(private=1e-9, costly=1.0, start=0.01),
    "steps": _Range(private=1, costly=10**7, start=1000, whole=True),
    "releases": _Range(private=1, costly=10**7, start=1, whole=True),
}
_TIGHT = 5e-4  # relative width of the last bracket


def calibrate(
    mechanism: M,
    *,
    free: Free,
    epsilon: float,
    delta: float,
    beside: Sequence[Mechanism] = (),
    relation: Relation = Relation.ADD_REMOVE,
) -> M:
    """`mechanism` with the field `free` set to the least private value that the budget allows.

    The value that `mechanism` carries in that field is a placeholder and is ignored. Noise is searched down to
    0.01 (a scale to 0.001), counts up to ten million. Our own bound does the search; the stated one, which
    also asks dp-accounting, has the last word, and fourier-accountant must agree with it where it is reliable. With
    delta=0 the epsilons of pure mechanisms are added.

    Formal guarantee: the result together with `beside` is (epsilon, delta)-DP: `bounds.epsilon` of them, as
    stated to the user, is at most `epsilon`. A noise is at most 0.1 % above
    one for which the accountant's bound misses the target; a count is one below such a count.
    Raises BudgetExceeded if no value meets the target.
    """
    _check(mechanism, free, epsilon, delta)
    beside = [beside] if isinstance(beside, Mechanism) else list(beside)

    def total(mechanisms: list[Mechanism], bound: Callable[..., float]) -> float:
        if delta == 0:
            return bounds.pure_epsilon(mechanisms, relation=relation)
        return bound(mechanisms, delta=delta, relation=relation)

    def cost(value: float, bound: Callable[..., float]) -> float:
        return total([*beside, dataclasses.replace(mechanism, **{free: value})], bound)

    def excess(bound: Callable[..., float]) -> Callable[[float], float]:
        return lambda value: min(max(math.log(max(cost(value, bound), 1e-300) / epsilon), -5.0), 5.0)

    already = total(beside, bounds.epsilon)
    if already > epsilon:
        raise BudgetExceeded(_refusal(mechanism, free, epsilon, delta, f"is already spent: {already:.6g}"))
    best = _least_private(excess(bounds.own_epsilon), _RANGES[free])
    if best is not None and cost(best, bounds.epsilon) > epsilon:
        # dp-accounting's figure is the larger one here, by 0.1 % or so: a short way to the private side.
        best = _least_private(excess(bounds.epsilon), _RANGES[free]._replace(start=best, stride=_TIGHT / 2))
    if best is None:
        raise BudgetExceeded(_refusal(mechanism, free, epsilon, delta, "is too small for any value"))
    result = dataclasses.replace(mechanism, **{free: best})
    if delta > 0:
        alone = bounds.epsilon(result, delta=delta, relation=relation)
        crosscheck(result, delta=delta, relation=relation, bound=alone)
    return result


def _check(mechanism: Mechanism, free: str, epsilon: float, delta: float) -> None:
    able = [field.name for field in dataclasses.fields(mechanism) if field.name in _RANGES]
    if free not in able:
        raise PrivacyParameterError(
            f"{type(mechanism).__name__} cannot be calibrated by {free!r}. "
            f"Pass free= one of: {', '.join(able) or 'nothing; it has no such field'}."
        )
    if not (isinstance(epsilon, numbers.Real) and 0 < epsilon < math.inf):
        raise PrivacyParameterError(f"The target epsilon must be above 0 and finite, got {epsilon!r}.")
    if delta == 0 and mechanism.pure_epsilon is None:
        raise PrivacyParameterError(f"{type(mechanism).__name__} needs a delta above 0.")
    if delta != 0:
        bounds.check_delta(delta)


def _refusal(mechanism: Mechanism, free: str, epsilon: float, delta: float, why: str) -> str:
    return (
        f"No {free} of {type(mechanism).__name__} fits: epsilon={epsilon:g} at delta={delta:g} {why}. "
        "Raise epsilon or delta, or spend less on the mechanisms beside it."
    )


def _least_private(excess: Callable[[float], float], within: _Range) -> float | None:
    """The value nearest to the costly end with excess <= 0, to `_TIGHT` or to the next whole number."""
    bracket = _bracket(excess, within)
    if bracket is None or bracket[0] == bracket[1]:
        return bracket and bracket[0][0]
    (good, good_excess), (bad, bad_excess) = bracket
    rounds = 0
    while not _close(good, bad, within):
        rounds += 1
        # Close to a power law: interpolate in logs, then step just past the root to shrink the bracket from
        # both sides. Every third round halves it, whatever the shape.
        share = 0.5 if rounds % 3 == 0 else -good_excess / (bad_excess - good_excess)
        width = abs(math.log(bad / good))
        nudge = min(0.4 * _TIGHT / width, 0.1) * (1 if rounds % 2 else -1)
        share = min(max(share + nudge, 0.01), 0.99)
        value = _between(good, bad, share, within)
        value_excess = excess(value)
        if value_excess <= 0:
            good, good_excess = value, value_excess
        else:
            bad, bad_excess = value, value_excess
    return good


def _close(good: float, bad: float, within: _Range) -> bool:
    return abs(good - bad) <= 1 if within.whole else abs(math.log(bad / good)) <= _TIGHT


def _between(good: float, bad: float, share: float, within: _Range) -> float:
    value = good * (bad / good) ** share
    if not within.whole:
        return value
    return min(max(round(value), min(good, bad) + 1), max(good, bad) - 1)


def _bracket(
    excess: Callable[[float], float], within: _Range
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """An affordable value and one that is not, as (value, excess); the same twice where all are affordable."""
    here = (within.start, excess(within.start))
    affordable = here[1] <= 0
    end = within.costly if affordable else within.private
    sign = 1 if end > within.start else -1
    # Towards less noise epsilon soon rises faster than any power, and a far miss is slow to compute.
    stride = min(1.2 * abs(here[1]), 0.7 if affordable else 6.0) + within.stride
    while here[0] != end:
        value = here[0] * math.exp(sign * stride)
        value = min(value, end) if sign > 0 else max(value, end)
        value = (math.ceil(value) if sign > 0 else math.floor(value)) if within.whole else value
        there = (value, excess(value))
        if (there[1] <= 0) != affordable:
            return (here, there) if affordable else (there, here)
        here, stride = there, 2 * stride
    return (here, here) if affordable else None

"""The mechanisms that the accountant has theorems for: plain values, checked when they are made."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any, ClassVar

from twinify_lite.errors import PrivacyParameterError


class Relation(enum.StrEnum):
    """Which tables are neighbours: one row more or less, or one row replaced."""

    ADD_REMOVE = "add-remove"
    SUBSTITUTE = "substitute"


_BOTH = frozenset(Relation)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mechanism:
    """Something that is released. Equal mechanisms cost the same, so they may be cached on."""

    relations: ClassVar[frozenset[Relation]] = _BOTH

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            raise TypeError(
                "Mechanisms are a closed list: each needs a theorem in the accountant. For one that was proved "
                "elsewhere, spend ApproximateDP(epsilon=..., delta=...)."
            )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            checked = _CHECKS[field.name](type(self).__name__, field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, checked)

    @property
    def pure_epsilon(self) -> float | None:
        """The epsilon at delta = 0, or None where there is none."""
        return None

    def to_json(self) -> dict[str, Any]:
        """A plain dict that `mechanism_from_json` turns back into this mechanism."""
        return {"mechanism": type(self).__name__, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Mechanism:
        """The mechanism that `to_json` wrote; the fields are checked again."""
        return mechanism_from_json(fields)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoissonGaussian(Mechanism):
    """Noisy sums over Poisson samples: each row is in with probability `sampling_rate`, every step anew.

    Formal guarantee: covers `steps` releases of sum + N(0, (noise_multiplier * C)^2 I), where each row's
    contribution has L2 norm at most C, for tables that differ by one row more or less.
    """

    relations: ClassVar[frozenset[Relation]] = frozenset({Relation.ADD_REMOVE})
    noise_multiplier: float
    sampling_rate: float
    steps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedSizeGaussian(Mechanism):
    """Noisy sums over batches of exactly sampling_rate * n rows, drawn without replacement.

    Formal guarantee: covers `steps` releases of sum + N(0, (noise_multiplier * C)^2 I), where each row's
    contribution has L2 norm at most C, for tables that differ in the value of one row (the sum moves by up
    to 2C).
    """

    relations: ClassVar[frozenset[Relation]] = frozenset({Relation.SUBSTITUTE})
    noise_multiplier: float
    sampling_rate: float
    steps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism):
    """Gaussian noise; `noise_multiplier` is its sd over the L2 sensitivity under the ledger's relation."""

    noise_multiplier: float
    releases: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Exponential(Mechanism):
    """Noise whose log density falls by 1 in `scale`."""

    scale: float
    releases: int = 1

    @property
    def pure_epsilon(self) -> float | None:
        """Releases over scale."""
        return self.releases / self.scale


@dataclasses.dataclass(frozen=True, kw_only=True)
class Laplace(_Exponential):
    """Laplace noise; `scale` is relative to the L1 sensitivity under the ledger's relation."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(_Exponential):
    """Integer noise with p(k) proportional to exp(-|k| / scale), on a count of sensitivity 1."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApproximateDP(Mechanism):
    """Any mechanism that was shown elsewhere to be (epsilon, delta)-DP under the ledger's relation."""

    epsilon: float
    delta: float

    @property
    def pure_epsilon(self) -> float | None:
        """Its epsilon, if its delta is 0."""
        return self.epsilon if self.delta == 0 else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NotPrivate(Mechanism):
    """A release without noise: epsilon is infinite. For tests and papers only."""


def mechanism_from_json(fields: dict[str, Any]) -> Mechanism:
    """The mechanism that `to_json` wrote; raises PrivacyParameterError for anything else."""
    rest = dict(fields)
    name = rest.pop("mechanism", None)
    if name not in _BY_NAME:
        known = ", ".join(_BY_NAME)
        raise PrivacyParameterError(f"No mechanism is called {name!r}. Set 'mechanism' to one of: {known}.")
    try:
        return _BY_NAME[name](**rest)
    except TypeError:
        wanted = ", ".join(field.name for field in dataclasses.fields(_BY_NAME[name])) or "nothing"
        got = ", ".join(rest) or "nothing"
        raise PrivacyParameterError(f"{name} takes the fields {wanted}, but was given {got}.") from None


def _number(owner: str, name: str, value: object) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise PrivacyParameterError(f"{owner}: {name} must be a number, got {type(value).__name__}.")
    number = float(value)
    if not math.isfinite(number):
        raise PrivacyParameterError(f"{owner}: {name} must be finite, got {number}.")
    return number


def _positive(owner: str, name: str, value: object) -> float:
    number = _number(owner, name, value)
    if number <= 0:
        raise PrivacyParameterError(
            f"{owner}: {name} must be above 0, got {number:g}. "
            "A release without noise is NotPrivate(); to find the noise for a budget, use calibrate(...)."
        )
    return number


def _rate(owner: str, name: str, value: object) -> float:
    number = _number(owner, name, value)
    if not 0 < number <= 1:
        raise PrivacyParameterError(
            f"{owner}: {name} must be in (0, 1], got {number:g}. "
            "It is the expected share of the rows in a batch: batch size / number of rows."
        )
    return number


def _count(owner: str, name: str, value: object) -> int:
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not whole or int(value) < 1:
        raise PrivacyParameterError(f"{owner}: {name} must be a whole number, 1 or more. Pass an int.")
    return int(value)


def _non_negative(owner: str, name: str, value: object) -> float:
    number = _number(owner, name, value)
    if number < 0:
        raise PrivacyParameterError(f"{owner}: {name} must be 0 or more, got {number:g}.")
    return number


def _probability(owner: str, name: str, value: object) -> float:
    number = _number(owner, name, value)
    if not 0 <= number < 1:
        raise PrivacyParameterError(f"{owner}: {name} must be in [0, 1), got {number:g}.")
    return number


_CHECKS = {
    "noise_multiplier": _positive,
    "scale": _positive,
    "sampling_rate": _rate,
    "steps": _count,
    "releases": _count,
    "epsilon": _non_negative,
    "delta": _probability,
}

_BY_NAME: dict[str, type[Mechanism]] = {
    kind.__name__: kind
    for kind in (
        PoissonGaussian,
        FixedSizeGaussian,
        Gaussian,
        Laplace,
        DiscreteLaplace,
        ApproximateDP,
        NotPrivate,
    )
}

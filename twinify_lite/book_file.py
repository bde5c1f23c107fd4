"""What a ledger file says: its limit, every stage of every fit that was charged to it, and what they add up to.

The file is JSON that people can read, and is read as strictly as it is written: no cost in it is believed, all of them
are computed from the mechanisms again.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinify_lite import accountant
from twinify_lite.accountant import (
    FixedSizeGaussian,
    Gaussian,
    Mechanism,
    PoissonGaussian,
    Relation,
    mechanism_from_json,
)
from twinify_lite.dominating import Cost, dominate
from twinify_lite.errors import BookError, TwinError

FORMAT = 1
# Of the limit's delta: for all slacks together, and for each of the first sampled mechanisms, after so many of which it
# is half of that, and so on, so that many fit in. The sum has a limit that is fixed beforehand, because whoever chooses
# the next fit by the last twin could else spend it only where the Gaussians left theirs unused.
_SLACKS, _SLACK, _SAME_SLACK = 0.25, 0.02, 5
_LEAST_SLACK = 1e-12  # well above the errors of sampling
#: In total variation distance, how far all that one stage draws may be from its law where rows are sampled.
SAMPLED = 1e-13
_SAME = 1e-4  # relative, of a mu that another machine computed
_HEADS = {"format", "relation", "epsilon", "delta", "limits", "entries"}


@dataclass(frozen=True, kw_only=True)
class Release:
    """One mechanism, by what it releases, and what it costs at most."""

    what: str
    mechanism: Mechanism
    cost: Cost

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"what": self.what, "mechanism": self.mechanism.to_json(), **self.cost._asdict()}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One stage of one fit: what it was about to run when it was charged."""

    run: str
    stage: int
    when: str
    releases: tuple[Release, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        head = {"run": self.run, "stage": self.stage, "when": self.when}
        return {**head, "releases": [release.to_json() for release in self.releases]}


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What its owner allowed, from `when` on."""

    when: str
    epsilon: float
    delta: float

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"when": self.when, "epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True, kw_only=True)
class Contents:
    """A ledger file, read. The last of its `limits` holds."""

    relation: Relation
    limits: tuple[Limit, ...]
    entries: tuple[Entry, ...] = ()

    @property
    def limit(self) -> Limit:
        """What all fits together may cost."""
        return self.limits[-1]

    @property
    def runs(self) -> int:
        """How many fits and private scores were charged, whether they ended or not."""
        return len({entry.run for entry in self.entries})

    @property
    def counted(self) -> str:
        """The same in words."""
        return f"{self.runs} release{'s' * (self.runs != 1)}"

    def slack_of_sampled(self, beside: Iterable[Release] = ()) -> float:
        """What the next sampled mechanism may take of delta, after all that is charged and those `beside` it."""
        charged = [release for entry in self.entries for release in entry.releases]
        before = sum(map(_is_sampled, [*charged, *beside]))
        return max(_SLACK * self.limit.delta * 0.5 ** (before // _SAME_SLACK), _LEAST_SLACK)

    @property
    def mu(self) -> float:
        """All Gaussians as one: their squares add up."""
        return math.sqrt(math.fsum(release.cost.mu**2 for entry in self.entries for release in entry.releases))

    @property
    def slack(self) -> float:
        """What is given away beside the Gaussians, in delta.

        Where rows are sampled, a stage may be `SAMPLED` away from its law, which costs (1 + e^epsilon) times that.
        """
        given = math.fsum(release.cost.slack for entry in self.entries for release in entry.releases)
        drawn = sum(any(map(_is_sampled, entry.releases)) for entry in self.entries)
        return given + drawn * SAMPLED * (1 + math.exp(min(self.limit.epsilon, 700.0)))

    @property
    def slack_limit(self) -> float:
        """What all slacks together may take of delta."""
        return _SLACKS * self.limit.delta

    @property
    def epsilon(self) -> float:
        """What everything together costs at the limit's delta, an upper bound.

        Formal guarantee: as long as this stays within the limit's epsilon and `slack` within `slack_limit`, whatever
        was charged is (epsilon, delta) differentially private for one row under the relation, also if each fit was
        chosen after looking at all twins before it.
        """
        return self.epsilon_of(self.mu)

    def epsilon_of(self, mu: float) -> float:
        """The epsilon of one Gaussian of `mu` at the delta that the slacks leave."""
        if mu == 0:
            return 0.0
        gaussian = Gaussian(noise_multiplier=1 / mu)
        return accountant.epsilon(gaussian, delta=(1 - _SLACKS) * self.limit.delta, relation=self.relation)

    @property
    def is_within_limit(self) -> bool:
        """Whether nothing was overspent."""
        return self.epsilon <= self.limit.epsilon and self.slack <= self.slack_limit

    @property
    def largest_fit(self) -> float:
        """The epsilon, about, that one more fit with no sampled rows could have at the limit's delta."""
        if self.epsilon >= self.limit.epsilon:
            return 0.0
        delta = (1 - _SLACKS) * self.limit.delta
        whole = accountant.calibrate(
            Gaussian(noise_multiplier=1.0),
            free="noise_multiplier",
            epsilon=self.limit.epsilon,
            delta=delta,
            relation=self.relation,
        )
        return self.epsilon_of(math.sqrt(max(whole.noise_multiplier**-2 - self.mu**2, 0.0)))

    def to_json(self) -> dict[str, Any]:
        """Plain data for the file."""
        return {
            "format": FORMAT,
            "relation": str(self.relation),
            "epsilon": self.limit.epsilon,
            "delta": self.limit.delta,
            "limits": [limit.to_json() for limit in self.limits],
            "entries": [entry.to_json() for entry in self.entries],
        }


def _is_sampled(release: Release) -> bool:
    return isinstance(release.mechanism, PoissonGaussian | FixedSizeGaussian)


def now() -> str:
    """The date and time, to the second, in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


# -- reading -----------------------------------------------------------------------------------------------------------


def parse(text: str, name: str) -> Contents:
    """The contents of the file `name`, or a `BookError` that says it is not what this package wrote."""
    try:
        found = _contents(json.loads(text, object_pairs_hook=_without_repeats))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, TwinError):
        raise BookError(
            f"{name} is no ledger file of this version, is damaged, or was changed by hand. It stays as it is: bring "
            "back a copy that is whole. A new one would forget what was spent."
        ) from None
    return found


def _contents(data: Any) -> Contents:
    _require_keys(data, _HEADS)
    relation = Relation(data["relation"])
    limits = tuple(map(_limit, _list(data["limits"])))
    _require(data["format"] is not True and data["format"] == FORMAT and limits)
    _require((data["epsilon"], data["delta"]) == (limits[-1].epsilon, limits[-1].delta))
    entries = tuple(_entry(entry, relation) for entry in _list(data["entries"]))
    _require(len({(entry.run, entry.stage) for entry in entries}) == len(entries))
    return Contents(relation=relation, limits=limits, entries=entries)


def _limit(data: Any) -> Limit:
    _require_keys(data, {"when", "epsilon", "delta"})
    epsilon = _number(data["epsilon"])
    _require(epsilon > 0)
    return Limit(when=_when(data["when"]), epsilon=epsilon, delta=accountant.check_delta(_number(data["delta"])))


def _entry(data: Any, relation: Relation) -> Entry:
    _require_keys(data, {"run", "stage", "when", "releases"})
    run, stage = data["run"], data["stage"]
    _require(isinstance(run, str) and re.fullmatch("[0-9a-f]{8,64}", run))
    _require(isinstance(stage, int) and not isinstance(stage, bool) and stage >= 0)
    releases = tuple(_release(release, relation) for release in _list(data["releases"]))
    _require(releases)
    return Entry(run=run, stage=stage, when=_when(data["when"]), releases=releases)


def _release(data: Any, relation: Relation) -> Release:
    _require_keys(data, {"what", "mechanism", "mu", "slack"})
    _require(isinstance(data["what"], str) and isinstance(data["mechanism"], dict))
    mechanism, slack = mechanism_from_json(data["mechanism"]), _number(data["slack"])
    cost = dominate(mechanism, relation, slack)
    _require(cost.slack == slack and math.isclose(cost.mu, _number(data["mu"]), rel_tol=_SAME))
    return Release(what=data["what"], mechanism=mechanism, cost=cost)


def _require(holds: Any) -> None:
    if not holds:
        raise ValueError


def _require_keys(data: Any, keys: set[str]) -> None:
    _require(isinstance(data, dict) and set(data) == keys)


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    _require(len(dict(pairs)) == len(pairs))
    return dict(pairs)


def _list(data: Any) -> list[Any]:
    _require(isinstance(data, list))
    return data


def _number(value: Any) -> float:
    _require(isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf)
    return float(value)


def _when(value: Any) -> str:
    datetime.datetime.fromisoformat(value)
    return value

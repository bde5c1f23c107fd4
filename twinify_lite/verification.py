"""Is a privacy statement true? Its figures computed again, from its receipts alone.

A statement (`Ledger.statement().to_json()`) says which mechanisms ran, in which stages, and what they cost. The bound
of every mechanism and of every stage is computed anew, and must not be above what is claimed: by this package, by
dp-accounting where that one is reliable, and for subsampled Gaussians by fourier-accountant too. `consistency` compares
the statement with the rest of its file. Together they prove the arithmetic and that the parts of the file agree, not
where the file comes from: that no more was run than the receipts say is the package's own promise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from twinify_lite import accountant
from twinify_lite.accountant import Mechanism, NotPrivate, PoissonGaussian, Relation
from twinify_lite.errors import AccountantDisagreement, ArtifactError, PrivacyParameterError

#: By how much a claim may be below what is computed here: another version of an accountant rounds otherwise.
TOLERANCE = 1e-3
#: And by how much above: a statement that spent more than its receipts cost has lost some of them.
SURPLUS = 0.02
_CROSSCHECK_TOLERANCE = 0.02
#: Between deltas that are the same sum of the same numbers.
_EXACT = 1e-9
_MOST_RECEIPTS = 1000
#: Beyond these no ledger calibrates, and the accountants' floating point is not made for it.
_SENSIBLE = {
    "noise_multiplier": (1e-3, 1e12),
    "scale": (1e-4, 1e15),
    "sampling_rate": (1e-10, 1.0),
    "steps": (1, 10**8),
    "releases": (1, 10**8),
}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A statement that holds. `epsilon` and `delta` are claimed, `recomputed` is the epsilon found here.

    Of its `stages`, dp-accounting had a figure for `by_reference`; of its `subsampled` receipts, which are all that
    fourier-accountant knows, that one had a figure for `crosschecked`.
    """

    private: bool
    why_not: str | None
    relation: Relation
    epsilon: float
    delta: float
    recomputed: float
    receipts: int
    stages: int
    by_reference: int
    subsampled: int
    crosschecked: int

    def __str__(self) -> str:
        if not self.private:
            return f"NOT PRIVATE: {self.why_not}."
        return "\n".join(
            [
                f"The statement holds: epsilon {self.epsilon:g} at delta {self.delta:g}, relation {self.relation}.",
                f"Recomputed: epsilon {self.recomputed:.6g}, from {self.receipts} receipts in {self.stages} stages.",
                *self._by_whom(),
            ]
        )

    def _by_whom(self) -> Iterator[str]:
        """Which accountant computed what, and why the others did not."""
        yield f"  twinify-lite {version('twinify-lite')}: every receipt and every stage."
        reason = "" if self.by_reference == self.stages else "; the others are sums, or beyond where it is reliable"
        yield f"  dp-accounting {version('dp-accounting')}: {self.by_reference} of {self.stages} stages{reason}."
        checked = f"{self.crosschecked} of {self.subsampled} receipts for a subsampled Gaussian, all that it knows"
        nothing = "nothing, as it knows subsampled Gaussians only, and there is none"
        yield f"  {accountant.CROSSCHECK}: {checked if self.subsampled else nothing}."

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for `json.dumps`."""
        from twinify_lite.statement import json_number

        return {
            "private": self.private,
            "why_not": self.why_not,
            "relation": str(self.relation),
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "recomputed": json_number(self.recomputed),
            "receipts": self.receipts,
            "stages": self.stages,
            "by_reference": self.by_reference,
            "subsampled": self.subsampled,
            "crosschecked": self.crosschecked,
        }


def verify(statement: Mapping[str, Any]) -> Verification:
    """Compute every figure of `statement` again.

    Formal guarantee: what is returned with `private=True` has receipts whose composition is (epsilon, delta)-DP, up to
    `TOLERANCE`. A statement that claims less than was spent, or that cannot be judged, raises `ArtifactError`, with all
    its problems.
    """
    try:
        stages = [_Stage.of(number, stage) for number, stage in enumerate(_listed(statement, "stages"), start=1)]
        problems = list(_problems(statement, stages))
        receipts = sum(len(stage.mechanisms) for stage in stages)
        private = statement["private"] is True
        relation = Relation(statement["relation"])
        claimed, delta = _number(statement, "epsilon"), _number(statement, "delta")
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        detail = f": {error}" if isinstance(error, PrivacyParameterError) else "."
        raise ArtifactError(f"The privacy statement cannot be judged{detail} Make the twin again.") from None
    if problems:
        raise ArtifactError("The privacy statement does not hold.\n" + "\n".join(problems))
    return Verification(
        private=private,
        why_not=None if private else str(statement.get("why_not") or "the statement says so"),
        relation=relation,
        epsilon=claimed,
        delta=delta,
        recomputed=math.fsum(stage.recomputed(relation) for stage in stages),
        receipts=receipts,
        stages=len(stages),
        by_reference=sum(stage.has_reference(relation) for stage in stages),
        subsampled=sum(len(stage.subsampled) for stage in stages),
        crosschecked=sum(stage.crosschecked(relation) for stage in stages),
    )


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """A stage as it is claimed."""

    number: int
    epsilon: float
    delta: float
    receipts: Sequence[Mapping[str, Any]]
    mechanisms: tuple[Mechanism, ...]

    @classmethod
    def of(cls, number: int, stage: Mapping[str, Any]) -> _Stage:
        receipts = _listed(stage, "receipts")
        if len(receipts) > _MOST_RECEIPTS:
            raise PrivacyParameterError(f"stage {number} has more than {_MOST_RECEIPTS} receipts")
        return cls(
            number=number,
            epsilon=_number(stage, "epsilon"),
            delta=_number(stage, "delta"),
            receipts=receipts,
            mechanisms=tuple(_mechanism(receipt["mechanism"]) for receipt in receipts),
        )

    @property
    def subsampled(self) -> list[tuple[PoissonGaussian, Mapping[str, Any]]]:
        pairs = zip(self.mechanisms, self.receipts, strict=True)
        return [(mechanism, receipt) for mechanism, receipt in pairs if isinstance(mechanism, PoissonGaussian)]

    def crosschecked(self, relation: Relation) -> int:
        """For how many receipts fourier-accountant has a figure."""
        claimed = [
            (mechanism, _number(r, "delta")) for mechanism, r in self.subsampled if r.get("crosscheck") is not None
        ]
        return sum(_crosscheck(mechanism, delta, relation) is not None for mechanism, delta in claimed)

    def has_reference(self, relation: Relation) -> bool:
        """Whether dp-accounting has a figure for it."""
        pure = all(mechanism.pure_epsilon is not None for mechanism in self.mechanisms)
        if pure or not accountant.SMALLEST_DELTA <= self.delta < 1:
            return False
        return accountant.reference_epsilon(self.mechanisms, delta=self.delta, relation=relation) is not None

    def recomputed(self, relation: Relation) -> float:
        """The epsilon of the stage's mechanisms together, at the delta that it claims."""
        if any(isinstance(mechanism, NotPrivate) for mechanism in self.mechanisms):
            return math.inf
        if all(mechanism.pure_epsilon is not None for mechanism in self.mechanisms):
            return accountant.pure_epsilon(self.mechanisms, relation=relation)
        if self.delta < accountant.SMALLEST_DELTA:
            return math.inf
        return accountant.epsilon(self.mechanisms, delta=self.delta, relation=relation)


def _mechanism(fields: Mapping[str, Any]) -> Mechanism:
    mechanism = accountant.mechanism_from_json(dict(fields))
    for name, (low, high) in _SENSIBLE.items():
        if not low <= getattr(mechanism, name, low) <= high:
            raise PrivacyParameterError(f"the {name} of a mechanism is beyond that of any fit.")
    return mechanism


def _problems(statement: Mapping[str, Any], stages: Sequence[_Stage]) -> Iterator[str]:
    relation = Relation(statement["relation"])
    if not stages or not all(stage.mechanisms for stage in stages):
        yield "A twin is paid for, and here receipts are missing."
    for number, stage in enumerate(stages):
        yield from _stage_problems(stage, relation)
        left = _number(statement, "delta") - math.fsum(earlier.delta for earlier in stages[:number])
        yield from _delta_problems(stage, left)
    yield from _total_problems(statement, stages)
    yield from _mark_problems(statement, stages)


def _stage_problems(stage: _Stage, relation: Relation) -> Iterator[str]:
    try:
        found = stage.recomputed(relation)
        yield from _below(f"Stage {stage.number}", stage.epsilon, found)
        for receipt, mechanism in zip(stage.receipts, stage.mechanisms, strict=True):
            if receipt.get("stage") != stage.number - 1:
                yield f"Stage {stage.number}: the receipt {receipt['what']!r} belongs to another stage."
            if not isinstance(mechanism, NotPrivate):
                yield from _receipt_problems(receipt, mechanism, relation)
    except AccountantDisagreement as error:
        yield f"Stage {stage.number}: {error}"


def _delta_problems(stage: _Stage, left: float) -> Iterator[str]:
    """A receipt is quoted at its stage's delta: at a larger one, its own epsilon would look smaller than it is.

    A pure stage costs no delta; its receipts are quoted at most at what was `left` of the budget's.
    """
    if any(isinstance(mechanism, NotPrivate) for mechanism in stage.mechanisms):
        return
    pure = all(mechanism.pure_epsilon is not None for mechanism in stage.mechanisms)
    most = max(left if pure else stage.delta, accountant.SMALLEST_DELTA)
    for receipt in stage.receipts:
        delta = _number(receipt, "delta")
        if not (math.isclose(delta, most, rel_tol=_EXACT) or (pure and delta < most)):
            yield f"The receipt {receipt['what']!r} is quoted at delta {delta:.6g}, and its stage has {most:.6g}."


def _receipt_problems(receipt: Mapping[str, Any], mechanism: Mechanism, relation: Relation) -> Iterator[str]:
    delta = _number(receipt, "delta")
    alone = accountant.epsilon(mechanism, delta=delta, relation=relation)
    yield from _below(f"The receipt {receipt['what']!r}", _number(receipt, "epsilon"), alone)
    if receipt.get("crosscheck") is None:
        return
    if not isinstance(mechanism, PoissonGaussian):
        yield f"The receipt {receipt['what']!r}: a cross-check is claimed, and there is none for such a release."
        return
    found = _crosscheck(mechanism, delta, relation)
    if found is None:
        yield f"The receipt {receipt['what']!r}: a cross-check is claimed, and fourier-accountant has no figure for it."
    elif not abs(_number(receipt, "crosscheck") - found) <= _CROSSCHECK_TOLERANCE * found:
        yield f"The receipt {receipt['what']!r}: the cross-check finds epsilon {found:.6g}, not what is claimed."


@functools.lru_cache(maxsize=16)  # asked for twice: is it what is claimed, and was there one
def _crosscheck(mechanism: PoissonGaussian, delta: float, relation: Relation) -> float | None:
    alone = accountant.epsilon(mechanism, delta=delta, relation=relation)
    return accountant.crosscheck(mechanism, delta=delta, relation=relation, bound=alone)


def _total_problems(statement: Mapping[str, Any], stages: Sequence[_Stage]) -> Iterator[str]:
    spent = statement["spent"]
    relation = Relation(statement["relation"])
    claimed, found = _number(spent, "epsilon"), math.fsum(stage.recomputed(relation) for stage in stages)
    yield from _below("In total", claimed, found)
    if claimed > found * (1 + SURPLUS):
        yield f"Epsilon {claimed:.6g} is said to be spent, and the receipts cost {found:.6g}: some are missing."
    delta = math.fsum(stage.delta for stage in stages)
    yield from _below("In total", _number(spent, "delta"), delta, what="delta")
    # Not with what is said to be spent: that may be below by the tolerance, and this by as much again.
    yield from _below("The budget", _number(statement, "epsilon"), found)
    yield from _below("The budget", _number(statement, "delta"), delta, what="delta")


def _mark_problems(statement: Mapping[str, Any], stages: Sequence[_Stage]) -> Iterator[str]:
    if statement["private"] not in (True, False):
        yield "It does not say whether the twin is private."
    endless = math.isinf(_number(statement, "epsilon"))
    unpaid = any(isinstance(mechanism, NotPrivate) for stage in stages for mechanism in stage.mechanisms)
    if statement["private"] and (endless or unpaid or statement.get("why_not") is not None):
        yield "It claims to be private, and is not: a mechanism without noise, no limit, or a reason why not."


def _below(where: str, claimed: float, found: float, *, what: str = "epsilon") -> Iterator[str]:
    if claimed < found and not claimed >= found * (1 - TOLERANCE):
        yield f"{where}: {what} {claimed:.6g} is claimed, and it is {found:.6g}."


def _listed(fields: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    items = fields[key]
    if not isinstance(items, list | tuple):
        raise TypeError
    return list(items)


def _number(fields: Mapping[str, Any], key: str) -> float:
    """A number of 0 or more, or the text "inf" that stands for infinity."""
    value = fields[key]
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise PrivacyParameterError(f"{key} is not a number of 0 or more")
    return float(value)

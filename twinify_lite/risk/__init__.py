"""What (epsilon, delta) means to one person: how well anybody can tell whether their row is there.

    print(tw.risk("data.twin"))        # from the receipts of a twin
    print(tw.risk(epsilon=1.0))        # from one Gaussian release, which is supposed

All figures are upper bounds, from the whole distribution of privacy losses (`profile`) and not from (epsilon, delta)
alone; `odds` says what each of them is, and `words` says it to people.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from twinify_lite import accountant
from twinify_lite.accountant import Gaussian, Mechanism, NotPrivate, Relation, mechanism_from_json
from twinify_lite.errors import PrivacyParameterError
from twinify_lite.risk import words
from twinify_lite.risk.odds import Odds, no_bound, odds_of
from twinify_lite.risk.profile import Stage, alone, of_stages, stage_of
from twinify_lite.statement import uncovered

if TYPE_CHECKING:
    from twinify_lite.ledger import Ledger
    from twinify_lite.statement import Statement
    from twinify_lite.twin import Twin

    Source = Twin | Ledger | Statement | Mapping[str, Any] | str | os.PathLike[str]

__all__ = ["Odds", "Risk", "risk"]


@dataclass(frozen=True, kw_only=True)
class Risk(Odds):
    """What the best attacker can do, at most. `alone` is the same if nothing but (epsilon, delta) were known.

    If `supposed`, there was no twin, and one Gaussian release stands for it. If not `private`, nothing is promised:
    every figure is 1, and `why_not` says why. `warning` tells what was accepted without noise, of which the figures say
    nothing. `print` it for people, `to_json()` is for machines.
    """

    epsilon: float
    delta: float
    relation: Relation
    alone: Odds
    supposed: bool = False
    private: bool = True
    why_not: str | None = None
    warning: str | None = None

    def sentences(self) -> list[str]:
        """The figures in words, rounded up: no risk is told smaller than it is."""
        return words.sentences(self)

    def picture(self) -> str:
        """How far a suspicion can move, as bars of plain text."""
        return words.picture(self)

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for `json.dumps`."""
        from twinify_lite.statement import json_number

        return {
            "warning": self.warning,
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "relation": str(self.relation),
            "private": self.private,
            "why_not": self.why_not,
            "supposed": self.supposed,
            **_plain(self),
            "alone": _plain(self.alone),
        }

    def __str__(self) -> str:
        return "\n".join([*self.sentences(), "", self.picture()])


def risk(
    twin: Source | None = None,
    *,
    epsilon: float | None = None,
    delta: float = 1e-6,
    relation: Relation | Literal["add-remove", "substitute"] = Relation.ADD_REMOVE,
    mechanisms: Mechanism | Iterable[Mechanism] | None = None,
) -> Risk:
    """What anybody can find out about one person, at most.

    Of one of three: a `twin` (or its file, its statement, or a ledger: then of what was spent so far), which has its
    own delta and relation; `mechanisms` that were all fixed before the data were read; or just an `epsilon`, for which
    one Gaussian release with the least noise that it allows is supposed.

    Formal guarantee: no attack on what the receipts paid for, whatever it knows of the table and of the person, does
    better than these figures; what the statement lists as public, it knows. The statement of a twin is verified first.

    >>> found = risk(epsilon=1.0, delta=1e-6)
    >>> round(found.advantage, 2), round(found.alone.advantage, 2)
    (0.09, 0.46)
    """
    if sum(given is not None for given in (twin, epsilon, mechanisms)) != 1:
        raise PrivacyParameterError(
            "A risk is that of a twin, of mechanisms or of an epsilon: pass one of them, such as tw.risk(twin) or "
            "tw.risk(epsilon=1.0, delta=1e-6)."
        )
    if twin is not None:
        statement = _statement_of(twin)
        return dataclasses.replace(_of_statement(statement), warning=uncovered(statement))
    if relation not in tuple(Relation):
        raise PrivacyParameterError(f"The relation is one of {', '.join(Relation)}.")
    relation, delta = Relation(relation), accountant.check_delta(delta)
    if mechanisms is not None:
        return _of_mechanisms(mechanisms, delta, relation)
    if isinstance(epsilon, bool) or not (isinstance(epsilon, numbers.Real) and 0 < epsilon < math.inf):
        raise PrivacyParameterError("epsilon must be a positive number, such as 1.")
    return _supposed(float(epsilon), delta, relation)


def _supposed(epsilon: float, delta: float, relation: Relation) -> Risk:
    release = accountant.calibrate(
        Gaussian(noise_multiplier=1.0), free="noise_multiplier", epsilon=epsilon, delta=delta, relation=relation
    )
    return _bounded([Stage((release,), epsilon, delta)], epsilon, delta, relation, supposed=True)


def _of_mechanisms(mechanisms: Mechanism | Iterable[Mechanism], delta: float, relation: Relation) -> Risk:
    listed = [mechanisms] if isinstance(mechanisms, Mechanism) else list(mechanisms)
    if any(isinstance(mechanism, NotPrivate) for mechanism in listed):
        return _unbounded(math.inf, delta, relation, "there is a release without noise (`NotPrivate`)")
    stage = stage_of(listed, delta, relation)
    return _bounded([stage], stage.epsilon, stage.delta, relation)


def _of_statement(statement: Mapping[str, Any]) -> Risk:
    epsilon, delta, relation = float(statement["epsilon"]), statement["delta"], Relation(statement["relation"])
    if statement["private"] is not True:
        return _unbounded(epsilon, delta, relation, str(statement.get("why_not") or "the statement says so"))
    stages = [
        stage_of((mechanism_from_json(receipt["mechanism"]) for receipt in stage["receipts"]), stage["delta"], relation)
        for stage in statement["stages"]
    ]
    return _bounded(stages, epsilon, delta, relation)


def _bounded(stages: list[Stage], epsilon: float, delta: float, relation: Relation, supposed: bool = False) -> Risk:
    return Risk(
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        supposed=supposed,
        alone=Odds(**odds_of(alone(epsilon, delta))),
        **odds_of(of_stages(stages, relation)),
    )


def _unbounded(epsilon: float, delta: float, relation: Relation, why_not: str) -> Risk:
    nothing = no_bound()
    return Risk(
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        private=False,
        why_not=why_not,
        alone=Odds(**nothing),
        **nothing,
    )


def _statement_of(twin: Source) -> Mapping[str, Any]:
    """The statement, after it was verified; that of a ledger is its own and needs no proof."""
    from twinify_lite import artifact
    from twinify_lite.consistency import require_consistent
    from twinify_lite.ledger import Ledger
    from twinify_lite.statement import Statement
    from twinify_lite.verification import verify

    if isinstance(twin, Ledger):
        return twin.statement().to_json()
    if isinstance(twin, str | os.PathLike):
        members = artifact.read_twin(twin)  # the model is not needed, nor any code of it
        statement = artifact.json_from_bytes(members["statement.json"], "statement.json")
        verify(statement)
        require_consistent(members)
        return statement
    statement = twin.to_json() if isinstance(twin, Statement) else getattr(twin, "statement", twin)
    if not isinstance(statement, Mapping):
        raise PrivacyParameterError(
            f"{type(twin).__name__} has no risk. Pass a Twin, the path of a .twin file, its statement or a Ledger."
        )
    verify(statement)
    return statement


def _plain(odds: Odds) -> dict[str, Any]:
    """The figures of `Odds` as JSON has them, with texts for keys."""
    figures = asdict(Odds(**{field.name: getattr(odds, field.name) for field in fields(Odds)}))
    by_rate = {name: {f"{key:g}": value for key, value in figures[name].items()} for name in _BY_RATE}
    return {**figures, **by_rate, "curve": [list(point) for point in figures["curve"]]}


_BY_RATE = ("true_positives", "suspicion")

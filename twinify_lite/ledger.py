"""The one door for the privacy budget: a mechanism runs on a `Receipt`, and only `Ledger.spend` makes one.

How the total is added up. Mechanisms are grouped in stages. Inside a stage their privacy loss distributions are
convolved, which is tight, but is a theorem only for mechanisms whose noise multipliers, sampling rates and numbers
of releases were fixed before the stage's first answer was seen (queries and sensitivities may adapt). The row count
is private and a plan wants it, so a plan made from the noisy row count is adaptive: the count is a stage of its own,
and the stages are added by basic composition, epsilon to epsilon and delta to delta, which holds for adaptively chosen
mechanisms under a fixed total (Rogers, Roth, Ullman, Vadhan 2016, "Privacy odometers and filters"). The ledger enforces
the order by itself: redeeming a receipt, which is what running its mechanism does, seals the stage, and the next
`spend` opens a new one.
"""

from __future__ import annotations

import math
import numbers
import secrets
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from twinify_lite import accountant
from twinify_lite.accountant import Mechanism, NotPrivate, Relation
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError, ReceiptError
from twinify_lite.receipt import Receipt, Secrets
from twinify_lite.statement import Statement, json_number

if TYPE_CHECKING:
    from twinify_lite.book import Book

_SEED_AND_BOOK = (
    "Noise from a seed can be subtracted by anyone, so such a fit costs more than any ledger file holds. Leave out the "
    "seed, or the ledger file if this is a test."
)


@dataclass(eq=False)
class _Stage:
    """Mechanisms that were fixed before the first of their answers was seen. `delta` is None until it is settled."""

    delta: float | None
    sealed: bool = False
    charged: bool = False
    receipts: list[Receipt] = field(default_factory=list)

    @property
    def mechanisms(self) -> list[Mechanism]:
        return [receipt.mechanism for receipt in self.receipts]


class Ledger:
    """A budget of (epsilon, delta) for one table, under one relation between neighbouring tables.

    Formal guarantee: whatever runs on this ledger's receipts, and everything computed from it, is (epsilon, delta)
    differentially private for one row, provided `insecure_seed` is not given. With a `book`, every stage is charged to
    that as well, before any of its mechanisms runs.

    >>> from twinify_lite.accountant import DiscreteLaplace
    >>> ledger = Ledger(1.0, 1e-6)
    >>> receipt = ledger.spend(DiscreteLaplace(scale=20.0), "row count")
    >>> ledger.spent
    (0.05, 0.0)

    Whoever draws the noise redeems the receipt first, for its keys; that seals the stage, so that what is planned with
    the answer is spent in another.

    >>> keys = receipt.redeem(DiscreteLaplace)
    >>> ledger.spend(DiscreteLaplace(scale=20.0), "again").stage
    1
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 1e-6,
        *,
        relation: Relation | Literal["add-remove", "substitute"] = Relation.ADD_REMOVE,
        insecure_seed: int | None = None,
        book: Book | None = None,
    ):
        if not (isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool) and epsilon > 0):
            raise PrivacyParameterError("epsilon must be a positive number, e.g. Ledger(1.0, 1e-6).")
        accountant.check_delta(delta)
        if insecure_seed is not None and book is not None:
            raise PrivacyParameterError(_SEED_AND_BOOK)
        self.epsilon = float(epsilon)
        self.delta = float(delta)
        self.relation = Relation(relation)
        #: By which a book knows this ledger again when a fit is resumed. It tells nothing of the table.
        self.run = secrets.token_hex(16)
        self._insecure_seed = insecure_seed
        self._book = book
        self._stages: list[_Stage] = []
        self._used: set[int] = set()
        self._steps: dict[int, int] = {}
        self._next_delta: float | None = None
        self._treated_as_public: list[str] = []
        self._lock = threading.Lock()

    @classmethod
    def without_privacy(cls, *, insecure_seed: int | None = None) -> Ledger:
        """A ledger that pays for `NotPrivate()` mechanisms, for tests and comparisons: its statement says so."""
        return cls(math.inf, insecure_seed=insecure_seed)

    @classmethod
    def resumed(
        cls,
        statement: Mapping[str, Any],
        *,
        used: Collection[str],
        steps: Mapping[str, int],
        insecure_seed: int | None = None,
        run: str | None = None,
        book: Book | None = None,
    ) -> Ledger:
        """The ledger of a run that was interrupted, from its statement: nothing more can be spent in its stages.

        Formal guarantee: the receipts named in `used` have run, and of those in `steps` so many steps, so they cannot
        run again; every other one runs once, with new keys. Whatever the interrupted run drew beyond that was never
        shown. What the receipts add up to is computed anew, and may not exceed the statement's epsilon and delta. A
        `book` is charged for every stage that it does not hold yet under the name `run`.
        """
        try:
            ledger = cls(float(statement["epsilon"]), statement["delta"], relation=statement["relation"], book=book)
            ledger._insecure_seed = insecure_seed
            ledger._treated_as_public = [str(what) for what in statement["treated_as_public"]]
            for entry in statement["stages"]:
                ledger._restore(entry)
            epsilon, delta = ledger.spent
        except (KeyError, TypeError, ValueError):
            raise ReceiptError("This checkpoint has no sound statement of what was spent. Start a new fit.") from None
        if epsilon > ledger.epsilon or delta > ledger.delta:
            raise BudgetExceeded("This checkpoint's receipts exceed its budget. Start a new fit.")
        if statement.get("private") is not ledger.is_private:
            raise ReceiptError("The run to continue had another seed, or none. Use the same one.")
        for receipt in ledger.receipts:
            if receipt.what in used:
                ledger._used.add(id(receipt))
            if receipt.what in steps:
                ledger._steps[id(receipt)] = _steps_run(receipt, steps[receipt.what])
        ledger.run = run or ledger.run
        for number in range(len(ledger._stages)):
            ledger._charge(number)
        return ledger

    def _restore(self, entry: Mapping[str, Any]) -> None:
        stage = _Stage(delta=entry["delta"] or None, sealed=True)
        self._stages.append(stage)
        stage.receipts += [
            Receipt(
                what=receipt["what"],
                mechanism=accountant.mechanism_from_json(dict(receipt["mechanism"])),
                relation=self.relation,
                stage=len(self._stages) - 1,
                epsilon=float(receipt["epsilon"]),
                delta=receipt["delta"],
                crosscheck=receipt["crosscheck"],
                _ledger=self,
            )
            for receipt in entry["receipts"]
        ]

    @property
    def is_private(self) -> bool:
        """Whether the statement is a privacy guarantee at all."""
        return math.isfinite(self.epsilon) and self._insecure_seed is None

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Every receipt so far, in order."""
        return tuple(receipt for stage in self._stages for receipt in stage.receipts)

    @property
    def spent(self) -> tuple[float, float]:
        """(epsilon, delta) that the receipts so far add up to: an upper bound."""
        pairs = [self._cost(stage, stage.mechanisms) for stage in self._stages]
        return math.fsum(e for e, _ in pairs), math.fsum(d for _, d in pairs)

    @property
    def begun(self) -> tuple[float, float]:
        """(epsilon, delta) of the stages of which something has run: of the others nothing was shown."""
        pairs = [self._cost(stage, stage.mechanisms) for stage in self._stages if stage.charged]
        return math.fsum(e for e, _ in pairs), math.fsum(d for _, d in pairs)

    def open_stage(self, *, delta: float) -> None:
        """Seal what was spent so far and give the next stage `delta` of its own.

        Without this call a stage of pure mechanisms takes no delta, and any other takes all that is left.
        """
        with self._lock:
            if not 0 <= delta <= self.delta - self.spent[1]:
                raise BudgetExceeded("This stage asks for more delta than the ledger has left.")
            if self._stages:
                self._stages[-1].sealed = True
            self._next_delta = delta

    def treat_as_public(self, what: str) -> None:
        """Have the statement say that `what` is taken as public though nobody paid for it."""
        if what not in self._treated_as_public:
            self._treated_as_public.append(what)

    def spend(self, mechanism: Mechanism, what: str) -> Receipt:
        """Pay for `mechanism`, or raise `BudgetExceeded` with nothing recorded."""
        self._require_theorem(mechanism)
        with self._lock:
            stage = self._current_stage()
            needed = self._total(stage, (*stage.mechanisms, mechanism))
            if needed > self.epsilon or math.isnan(needed):
                raise BudgetExceeded(
                    f"'{what}' would bring epsilon to {needed:.6g}, and the ledger holds {self.epsilon:g} at "
                    f"delta {self.delta:g}. Add noise (`ledger.calibrate`), take fewer steps, or raise epsilon."
                )
            receipt = self._receipt(mechanism, what, stage)
            if stage not in self._stages:
                self._stages.append(stage)
                self._next_delta = None
            stage.receipts.append(receipt)
            return receipt

    def calibrate(
        self, mechanism: Mechanism, *, free: str = "noise_multiplier", share: float = 1.0, beside: tuple = ()
    ) -> Mechanism:
        """The best value of one `free` field that `share` of what is left pays for. Spends nothing.

        `beside` lists mechanisms that will be spent in the same stage after this one.
        """
        self._require_theorem(mechanism)
        if not 0 < share <= 1:
            raise PrivacyParameterError("share must lie in (0, 1].")
        stage = self._current_stage()
        already = self._cost(stage, stage.mechanisms)[0]
        target = already + share * (self.epsilon - self._total(stage, stage.mechanisms))
        if target <= 0:
            raise BudgetExceeded("Nothing is left in this ledger.")
        return accountant.calibrate(
            mechanism,
            free=free,
            epsilon=target,
            delta=0.0 if self._is_pure((*stage.mechanisms, *beside, mechanism)) else self._stage_delta(stage),
            beside=(*stage.mechanisms, *beside),
            relation=self.relation,
        )

    def statement(self) -> Statement:
        """What is guaranteed, in words (`str`) and as JSON (`.to_json()`)."""
        stages = [
            {
                "epsilon": json_number(self._cost(stage, stage.mechanisms)[0]),
                "delta": self._cost(stage, stage.mechanisms)[1],
                "receipts": [receipt.to_json() for receipt in stage.receipts],
            }
            for stage in self._stages
        ]
        epsilon, delta = self.spent
        return Statement(
            private=self.is_private,
            why_not=self._why_not(),
            relation=self.relation,
            epsilon=self.epsilon,
            delta=self.delta,
            spent_epsilon=epsilon,
            spent_delta=delta,
            stages=tuple(stages),
            treated_as_public=tuple(self._treated_as_public),
        )

    def _why_not(self) -> str | None:
        if self._insecure_seed is not None:
            return "rows and noise were drawn from a seed (`insecure_seed`), so anyone can subtract the noise"
        if not self.is_private:
            return "this ledger has no limit (`Ledger.without_privacy`)"
        return None

    def _require_theorem(self, mechanism: Mechanism) -> None:
        if isinstance(mechanism, NotPrivate) and math.isfinite(self.epsilon):
            raise BudgetExceeded("NotPrivate() has no finite epsilon. Use Ledger.without_privacy() if that is meant.")
        if self.relation not in mechanism.relations:
            raise PrivacyParameterError(
                f"{type(mechanism).__name__} has no theorem for the relation '{self.relation}'. It is accounted for "
                f"under {' and '.join(sorted(mechanism.relations))}: make the ledger with that `relation=`."
            )

    def _current_stage(self) -> _Stage:
        if self._stages and not self._stages[-1].sealed:
            return self._stages[-1]
        return _Stage(delta=self._next_delta)

    def _stage_delta(self, stage: _Stage) -> float:
        """What a stage that is not pure may use: its own share, or all that the other stages leave."""
        if stage.delta is not None:
            return stage.delta
        return self.delta - math.fsum(self._cost(s, s.mechanisms)[1] for s in self._stages if s is not stage)

    def _total(self, stage: _Stage, mechanisms: Sequence[Mechanism]) -> float:
        """Epsilon of all stages, if `stage` held `mechanisms`."""
        others = [self._cost(other, other.mechanisms)[0] for other in self._stages if other is not stage]
        return math.fsum([*others, self._cost(stage, mechanisms)[0]])

    def _cost(self, stage: _Stage, mechanisms: Sequence[Mechanism]) -> tuple[float, float]:
        """(epsilon, delta) of `mechanisms` as one stage."""
        if self._is_pure(mechanisms):
            return accountant.pure_epsilon(mechanisms, relation=self.relation), 0.0
        if any(isinstance(mechanism, NotPrivate) for mechanism in mechanisms):
            return math.inf, 0.0
        delta = self._stage_delta(stage)
        if delta < accountant.SMALLEST_DELTA:
            raise BudgetExceeded(
                "No delta is left for this stage: an earlier stage took it. Give each stage its share with "
                "`ledger.open_stage(delta=...)` before the first one is spent."
            )
        return accountant.epsilon(mechanisms, delta=delta, relation=self.relation), delta

    @staticmethod
    def _is_pure(mechanisms: Sequence[Mechanism]) -> bool:
        return all(mechanism.pure_epsilon is not None for mechanism in mechanisms)

    def _receipt(self, mechanism: Mechanism, what: str, stage: _Stage) -> Receipt:
        index = self._stages.index(stage) if stage in self._stages else len(self._stages)
        alone, check, delta = math.inf, None, self.delta
        if not isinstance(mechanism, NotPrivate):
            delta = max(self._stage_delta(stage), accountant.SMALLEST_DELTA)
            alone = accountant.epsilon(mechanism, delta=delta, relation=self.relation)
            check = accountant.crosscheck(mechanism, delta=delta, relation=self.relation, bound=alone)
        return Receipt(
            what=what,
            mechanism=mechanism,
            relation=self.relation,
            stage=index,
            epsilon=alone,
            delta=delta,
            crosscheck=check,
            _ledger=self,
        )

    def _redeem(self, receipt: Receipt, kind: type[Mechanism] | tuple[type[Mechanism], ...]) -> Secrets:
        from twinify_lite import rng

        with self._lock:
            self._require_issued(receipt)
            if not isinstance(receipt.mechanism, kind):
                raise ReceiptError(
                    f"The receipt '{receipt.what}' pays for {type(receipt.mechanism).__name__}, not for this mechanism."
                )
            if id(receipt) in self._used:
                raise ReceiptError(f"The receipt '{receipt.what}' has been used. Spend again to run it again.")
            if not self._stages[receipt.stage].charged:
                self._charge(receipt.stage)
            self._used.add(id(receipt))
            self._stages[receipt.stage].sealed = True
            if self._insecure_seed is None:
                return Secrets(rows=rng.fresh_key(), noise=rng.fresh_key())
            number = next(i for i, other in enumerate(self.receipts) if other is receipt)
            return Secrets(*rng.insecure_keys(self._insecure_seed, number, 2))

    def settle(self) -> None:
        """Have the book hold all that was run, also if its file was replaced or taken away meanwhile; or refuse."""
        with self._lock:
            for number, stage in enumerate(self._stages):
                if stage.charged:
                    self._charge(number)

    def _charge(self, number: int) -> None:
        """Have the book hold all of a stage, for good, before anything of it is run; or refuse all of it."""
        if self._book is not None:
            self._book.charge(self.run, number, self._stages[number].receipts)
        self._stages[number].charged = True

    def _require_issued(self, receipt: Receipt) -> None:
        if not any(receipt is other for other in self.receipts):
            raise ReceiptError("This receipt was not made by this ledger. Only `ledger.spend(...)` makes one.")

    def _claim(self, receipt: Receipt, first: int, number: int) -> None:
        if number < 1:
            raise ReceiptError("Take one step or more.")
        paid = getattr(receipt.mechanism, "steps", 1)
        with self._lock:
            self._require_issued(receipt)
            taken = self._steps.get(id(receipt), 0)
            if first != taken:
                raise ReceiptError(
                    f"Step {first + 1} of '{receipt.what}' is not the next one: {taken} have been run. Running a step "
                    "again would repeat its noise. Go on from the newest state, or spend again and call init()."
                )
            if first + number > paid:
                raise BudgetExceeded(
                    f"The receipt '{receipt.what}' pays for {paid} steps, and this would be step {first + number}."
                )
            self._steps[id(receipt)] = first + number

    def _sampling_allowance(self, receipt: Receipt) -> float:
        if not self.is_private:
            return math.inf
        stage = self._stages[receipt.stage]
        epsilon, delta = self._cost(stage, stage.mechanisms)
        drawn = sum(hasattr(mechanism, "noise_multiplier") for mechanism in stage.mechanisms)
        allowed = accountant.SAMPLING_SHARE * delta / (1 + math.exp(min(epsilon, 700.0)))
        if self._book is not None:
            from twinify_lite.book_file import SAMPLED

            allowed = min(allowed, SAMPLED)
        return allowed / max(1, drawn)

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        mark = "" if self.is_private else ", NOT PRIVATE"
        return (
            f"Ledger(epsilon={self.epsilon:g}, delta={self.delta:g}, relation='{self.relation}', "
            f"spent=({epsilon:.4g}, {delta:.3g}){mark})"
        )


def _steps_run(receipt: Receipt, number: Any) -> int:
    paid = getattr(receipt.mechanism, "steps", 1)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= paid:
        raise ReceiptError(f"This checkpoint says that steps of '{receipt.what}' were run that cannot have been.")
    return number

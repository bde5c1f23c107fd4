"""What `Ledger.spend` gives: proof that a mechanism was paid for, which runs it once, and the keys that it runs on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from twinify_lite.accountant import Mechanism, Relation
from twinify_lite.statement import json_number

if TYPE_CHECKING:
    import jax

    from twinify_lite.ledger import Ledger


class Secrets(NamedTuple):
    """The two keys that the guarantee rests on. Neither is ever stored or printed."""

    rows: jax.Array
    noise: jax.Array

    def __repr__(self) -> str:
        return "Secrets(<hidden>)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Receipt:
    """Proof that one mechanism was paid for. It runs that mechanism once.

    `epsilon` is the upper bound for this mechanism alone at `delta`, that of its stage; `crosscheck` is the figure of
    the independent accountant, where that one is reliable.
    """

    what: str
    mechanism: Mechanism
    relation: Relation
    stage: int
    epsilon: float
    delta: float
    crosscheck: float | None
    _ledger: Ledger = field(repr=False)

    def redeem(self, kind: type[Mechanism] | tuple[type[Mechanism], ...]) -> Secrets:
        """Use this receipt to run a mechanism of `kind`, and get the secret keys for it.

        Formal guarantee: succeeds at most once for each `spend`, and seals the receipt's stage.
        """
        return self._ledger._redeem(self, kind)

    def claim(self, first: int, number: int) -> None:
        """Take steps `first` to `first + number - 1` of a mechanism of several steps.

        Formal guarantee: succeeds at most once for each step, in order, whoever asks: a step that ran again on another
        table would carry the same noise, and the difference of its answers would be exact.
        """
        self._ledger._claim(self, first, number)

    @property
    def sampling_allowance(self) -> float:
        """How far, in total variation distance, all that this receipt's mechanism draws may be from its true law.

        A distance of t costs (1 + e^epsilon) t of delta. The accountant keeps a share of delta for that; the Gaussian
        mechanisms of a stage divide it among them. It is settled once the receipt is redeemed.
        """
        return self._ledger._sampling_allowance(self)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the artifact: everything that a verifier needs to recompute epsilon."""
        return {
            "what": self.what,
            "stage": self.stage,
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "crosscheck": self.crosscheck,
            "mechanism": self.mechanism.to_json(),
        }

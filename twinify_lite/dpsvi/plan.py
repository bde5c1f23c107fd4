"""Noise for a target: the paper's `approximate_sigma`, paid for through a ledger."""

from __future__ import annotations

from typing import Literal

from twinify_lite.accountant import FixedSizeGaussian, PoissonGaussian, Relation
from twinify_lite.errors import PrivacyParameterError
from twinify_lite.ledger import Ledger
from twinify_lite.receipt import Receipt

_SAMPLERS = {
    "fixed": (FixedSizeGaussian, Relation.SUBSTITUTE),
    "poisson": (PoissonGaussian, Relation.ADD_REMOVE),
}


class NoiseScale(float):
    """A noise multiplier together with the receipt that pays for it."""

    receipt: Receipt

    def __new__(cls, value: float, receipt: Receipt) -> NoiseScale:
        """A float that remembers its receipt."""
        self = super().__new__(cls, value)
        self.receipt = receipt
        return self


def approximate_sigma(
    target_eps: float,
    delta: float,
    q: float,
    num_iter: int,
    *,
    sampler: Literal["fixed", "poisson"] = "fixed",
    insecure_seed: int | None = None,
) -> tuple[NoiseScale, float, Ledger]:
    """The smallest noise for `num_iter` steps at sampling rate `q`: `(dp_scale, epsilon, ledger)`.

    Formal guarantee: DPSVI with this `dp_scale` is (epsilon, delta)-private with epsilon <= target_eps, for the sampler
    named. "fixed" is the paper's own sampler (`subsample_batchify_data`), under substitution of one row; "poisson"
    is what `DPSVI.run` draws by itself under addition or removal of one row, and needs less than half of the noise.
    The paper accounts for its fixed-size batches as if they were Poisson samples, which is not a bound: see the
    test of that name.
    """
    if sampler not in _SAMPLERS:
        raise PrivacyParameterError('sampler must be "fixed" or "poisson".')
    kind, relation = _SAMPLERS[sampler]
    ledger = Ledger(target_eps, delta, relation=relation, insecure_seed=insecure_seed)
    mechanism = ledger.calibrate(kind(noise_multiplier=1.0, sampling_rate=q, steps=num_iter))
    receipt = ledger.spend(mechanism, "DPSVI")
    return NoiseScale(mechanism.noise_multiplier, receipt), ledger.spent[0], ledger

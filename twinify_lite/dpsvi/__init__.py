"""Differentially private stochastic variational inference.

Read in this order: `rows` (what belongs to a person), `mixing` and `row_independence` (whether rows look at each
other), `starting` (what runs once), `elbo` (the split), `gradient` and `ghost` (clip and sum), `batches` (which rows),
`step` (one update and the compiled loop), `svi` (the class that users meet).
"""

from twinify_lite.dpsvi.batches import subsample_batchify_data
from twinify_lite.dpsvi.ghost import log_softmax_lookup
from twinify_lite.dpsvi.plan import approximate_sigma
from twinify_lite.dpsvi.svi import DPSVI

__all__ = ["DPSVI", "approximate_sigma", "log_softmax_lookup", "subsample_batchify_data"]

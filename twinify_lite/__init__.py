"""twinify_lite: differentially private synthetic twins of tables.

Names are loaded when they are first used, so that importing the package costs nothing and loads no JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_EXPORTS = {
    "ApproximateDP": "twinify_lite.accountant",
    "BudgetExceeded": "twinify_lite.errors",
    "DPSVI": "twinify_lite.dpsvi",
    "DiscreteLaplace": "twinify_lite.accountant",
    "FixedSizeGaussian": "twinify_lite.accountant",
    "Gaussian": "twinify_lite.accountant",
    "Laplace": "twinify_lite.accountant",
    "Ledger": "twinify_lite.ledger",
    "ModelError": "twinify_lite.errors",
    "NotPrivate": "twinify_lite.accountant",
    "PoissonGaussian": "twinify_lite.accountant",
    "Relation": "twinify_lite.accountant",
    "TwinError": "twinify_lite.errors",
    "approximate_sigma": "twinify_lite.dpsvi",
    "log_softmax_lookup": "twinify_lite.dpsvi",
    "subsample_batchify_data": "twinify_lite.dpsvi",
}
__all__ = sorted(_EXPORTS)

if TYPE_CHECKING:
    from twinify_lite.accountant import ApproximateDP as ApproximateDP
    from twinify_lite.accountant import DiscreteLaplace as DiscreteLaplace
    from twinify_lite.accountant import FixedSizeGaussian as FixedSizeGaussian
    from twinify_lite.accountant import Gaussian as Gaussian
    from twinify_lite.accountant import Laplace as Laplace
    from twinify_lite.accountant import NotPrivate as NotPrivate
    from twinify_lite.accountant import PoissonGaussian as PoissonGaussian
    from twinify_lite.accountant import Relation as Relation
    from twinify_lite.dpsvi import DPSVI as DPSVI
    from twinify_lite.dpsvi import approximate_sigma as approximate_sigma
    from twinify_lite.dpsvi import log_softmax_lookup as log_softmax_lookup
    from twinify_lite.dpsvi import subsample_batchify_data as subsample_batchify_data
    from twinify_lite.errors import BudgetExceeded as BudgetExceeded
    from twinify_lite.errors import ModelError as ModelError
    from twinify_lite.errors import TwinError as TwinError
    from twinify_lite.ledger import Ledger as Ledger


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'twinify_lite' has no attribute '{name}'")
    value = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])

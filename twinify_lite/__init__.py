"""twinify_lite: differentially private synthetic twins of tables.

Names are loaded when they are first used, so that importing the package costs nothing and loads no JAX.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_EXPORTS = {
    "ApproximateDP": "twinify_lite.accountant",
    "ArtifactError": "twinify_lite.errors",
    "Book": "twinify_lite.book",
    "BudgetExceeded": "twinify_lite.errors",
    "Column": "twinify_lite.schema",
    "DPSVI": "twinify_lite.dpsvi",
    "DiscreteLaplace": "twinify_lite.accountant",
    "FixedSizeGaussian": "twinify_lite.accountant",
    "Gaussian": "twinify_lite.accountant",
    "Laplace": "twinify_lite.accountant",
    "Ledger": "twinify_lite.ledger",
    "ModelError": "twinify_lite.errors",
    "NotPrivate": "twinify_lite.accountant",
    "PoissonGaussian": "twinify_lite.accountant",
    "Policy": "twinify_lite.policy",
    "PolicyRefused": "twinify_lite.errors",
    "PrivateTable": "twinify_lite.table",
    "Relation": "twinify_lite.accountant",
    "Risk": "twinify_lite.risk",
    "Schema": "twinify_lite.schema",
    "SchemaError": "twinify_lite.errors",
    "Score": "twinify_lite.score",
    "TableError": "twinify_lite.errors",
    "Twin": "twinify_lite.twin",
    "TwinError": "twinify_lite.errors",
    "approximate_sigma": "twinify_lite.dpsvi",
    "certificate": "twinify_lite.report",
    "decode": "twinify_lite.encode",
    "discover": "twinify_lite.discover",
    "dry_run": "twinify_lite.twin",
    "encode": "twinify_lite.encode",
    "fit": "twinify_lite.twin",
    "load": "twinify_lite.twin",
    "log_softmax_lookup": "twinify_lite.dpsvi",
    "private_score": "twinify_lite.score.private",
    "read_table": "twinify_lite.table",
    "risk": "twinify_lite.risk",
    "score": "twinify_lite.score",
    "subsample_batchify_data": "twinify_lite.dpsvi",
    "write_table": "twinify_lite.table",
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
    from twinify_lite.book import Book as Book
    from twinify_lite.discover import discover as discover
    from twinify_lite.dpsvi import DPSVI as DPSVI
    from twinify_lite.dpsvi import approximate_sigma as approximate_sigma
    from twinify_lite.dpsvi import log_softmax_lookup as log_softmax_lookup
    from twinify_lite.dpsvi import subsample_batchify_data as subsample_batchify_data
    from twinify_lite.encode import decode as decode
    from twinify_lite.encode import encode as encode
    from twinify_lite.errors import ArtifactError as ArtifactError
    from twinify_lite.errors import BudgetExceeded as BudgetExceeded
    from twinify_lite.errors import ModelError as ModelError
    from twinify_lite.errors import PolicyRefused as PolicyRefused
    from twinify_lite.errors import SchemaError as SchemaError
    from twinify_lite.errors import TableError as TableError
    from twinify_lite.errors import TwinError as TwinError
    from twinify_lite.ledger import Ledger as Ledger
    from twinify_lite.policy import Policy as Policy
    from twinify_lite.report import certificate as certificate
    from twinify_lite.risk import Risk as Risk
    from twinify_lite.risk import risk as risk
    from twinify_lite.schema import Column as Column
    from twinify_lite.schema import Schema as Schema
    from twinify_lite.score import Score as Score
    from twinify_lite.score import score as score
    from twinify_lite.score.private import private_score as private_score
    from twinify_lite.table import PrivateTable as PrivateTable
    from twinify_lite.table import read_table as read_table
    from twinify_lite.table import write_table as write_table
    from twinify_lite.twin import Twin as Twin
    from twinify_lite.twin import dry_run as dry_run
    from twinify_lite.twin import fit as fit
    from twinify_lite.twin import load as load


class _Package(ModuleType):
    """The package, in which `encode` and `discover` are functions, though modules of these names define them."""

    def __setattr__(self, name: str, value: Any) -> None:
        # After importing a submodule, Python sets it as an attribute of its package, over the function's head.
        if _EXPORTS.get(name) == f"{__name__}.{name}" and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'twinify_lite' has no attribute '{name}'")
    value = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])

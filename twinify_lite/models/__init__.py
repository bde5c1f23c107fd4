"""Declaring a model: one NumPyro function of `rows`, by name, by file, or by lines of the schema.

Read in this order: `rows` (the contract), `units` (what a site sees of a cell), `source` and `resolving` (where a model
comes from), `program` (model and schema together), `checking`, `fitting`. `likelihoods` and `parts` are for models.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "Declared": "fitting",
    "Groups": "parts",
    "Linear": "parts",
    "Missing": "parts",
    "Mixture": "likelihoods",
    "Report": "checking",
    "Rows": "rows",
    "bounded": "likelihoods",
    "check_model": "checking",
    "check_on": "checking",
    "choose_target": "parts",
    "cutpoints": "likelihoods",
    "dense": "parts",
    "heavy_tailed": "likelihoods",
    "hurdle": "likelihoods",
    "new": "catalogue",
    "ordinal": "likelihoods",
    "others": "parts",
    "resolve": "resolving",
    "season": "parts",
    "templates": "catalogue",
    "zero_inflated": "likelihoods",
}
__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'twinify_lite.models' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])

"""The `distribution` of a column: the names that schema.toml may give, and which columns they fit.

`Normal`, or one inside another: `ZeroInflated(Poisson)`, `Hurdle(LogNormal)`. What they mean is `models.lines`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from twinify_lite.schema import LEVELLED, RANGED, Column
from twinify_lite.schema.words import either, suggestion

_SPELLED = re.compile(r"\s*(\w+)\s*(?:\(\s*(\w+)\s*\))?\s*")
_NUMBERS = ("number", "integer")


class Family(NamedTuple):
    """Which kinds of columns a distribution fits, and whether it begins at 0."""

    kinds: tuple[str, ...]
    from_zero: bool = False


FAMILIES: dict[str, Family] = {
    "Normal": Family(RANGED),
    "TruncatedNormal": Family(RANGED),
    "StudentT": Family(RANGED),
    "Laplace": Family(RANGED),
    "Beta": Family(RANGED),
    "LogNormal": Family(_NUMBERS, from_zero=True),
    "Gamma": Family(_NUMBERS, from_zero=True),
    "Exponential": Family(_NUMBERS, from_zero=True),
    "Poisson": Family(("integer",), from_zero=True),
    "NegativeBinomial": Family(("integer",), from_zero=True),
    "Bernoulli": Family(("boolean",)),
    "Categorical": Family(LEVELLED),
    "Ordinal": Family(("ordinal",)),
}
#: What may stand inside the parentheses of each form.
FORMS: dict[str, tuple[str, ...]] = {
    "ZeroInflated": ("Poisson", "NegativeBinomial"),
    "Hurdle": ("LogNormal", "Gamma", "Exponential", "Poisson", "NegativeBinomial"),
}


def spelled(text: str) -> tuple[str | None, str] | None:
    """(form, family) of a distribution's text; None if it has not that shape."""
    found = _SPELLED.fullmatch(text)
    if found is None:
        return None
    return (found[1], found[2]) if found[2] else (None, found[1])


def check_distribution(value: Any, column: Column) -> Iterator[str]:
    """What is wrong with the `distribution` of a column."""
    parts = spelled(value) if isinstance(value, str) else None
    if parts is None:
        yield 'distribution must be text such as "Normal", "ZeroInflated(Poisson)" or "Hurdle(LogNormal)".'
        return
    form, family = parts
    problem = _unknown(form, family)
    if problem is None and column.kind not in FAMILIES[family].kinds:
        fitting = [name for name in FAMILIES if column.kind in FAMILIES[name].kinds]
        problem = f"distribution {value!r} does not fit a column of kind {column.kind!r}. Use {either(fitting)}."
    low = column.min if column.kind in _NUMBERS else None
    if problem is None and FAMILIES[family].from_zero and isinstance(low, int | float) and low < 0:
        problem = f"distribution {value!r} begins at 0, and min lies below. Raise min, or use 'Normal' or 'StudentT'."
    if problem:
        yield problem


def _unknown(form: str | None, family: str) -> str | None:
    if form is not None and form not in FORMS:
        return f"there is no form {form!r} of a distribution" + (
            suggestion(form, FORMS) or f". The forms are {', '.join(f'{name}(...)' for name in FORMS)}."
        )
    if form is not None and family not in FORMS[form]:
        return f"{form}(...) takes {either(FORMS[form])}, not {family!r}."
    if family not in FAMILIES:
        if family in FORMS:
            return f"distribution {family!r} needs another one inside: {family}({FORMS[family][0]})."
        near = suggestion(family, FAMILIES) or f". The names are {', '.join(FAMILIES)}."
        return f"there is no distribution {family!r}{near}"
    return None

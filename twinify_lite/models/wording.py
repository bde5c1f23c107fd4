"""What the errors of Python, NumPy, JAX and NumPyro mean to whoever wrote the model, and what to do about each."""

from __future__ import annotations

import re
from typing import NamedTuple

from twinify_lite.errors import ModelError

_BRANCH = (
    "the model decides or counts by a value that is known only when it runs (`if`, `float(...)`, a shape). Use "
    "jnp.where instead of `if`, and fixed sizes."
)


class _Known(NamedTuple):
    """An error by its type and a pattern of its text, whose groups fill in what is said of it."""

    kind: str
    text: str
    said: str


_KNOWN = (
    _Known("TracerBoolConversionError", "", _BRANCH),
    _Known("ConcretizationTypeError", "", _BRANCH),
    _Known("TracerIntegerConversionError", "", _BRANCH),
    _Known("ValueError", "truth value of an array", _BRANCH),
    _Known(
        "TracerArrayConversionError",
        "",
        "NumPy is given a value that is known only when the model runs. Use jax.numpy instead: "
        "`import jax.numpy as jnp`, and jnp.exp(...) for np.exp(...).",
    ),
    _Known(
        "NotImplementedError",
        r"^$",
        "a distribution here cannot be drawn from (ImproperUniform?), and a twin is made by drawing. Use a proper one, "
        "such as dist.Normal(0, 10) for a latent that may be anything.",
    ),
    _Known(
        "AssertionError",
        "unique names but got `(.*)` duplicated",
        "there are two sites named {0!r}. Sample each column and each latent once, and give every site its own name.",
    ),
    _Known(
        "ValueError",
        r"^(\w+) distribution got invalid (\w+) parameter",
        "{0} is given a `{1}` that it cannot have. A scale, rate or concentration must be above 0, and probabilities "
        "must sum to 1: give it such a number, jnp.exp(...) of a real one, or a latent that is always so, such as "
        "dist.HalfNormal(1) or dist.Dirichlet(...).",
    ),
    _Known(
        "ValueError",
        r"Incompatible shapes for broadcasting: (?:shapes=)?(.*)",
        "arrays of the shapes {0} do not go together. Under `with rows:` a site has one value a row: give its "
        "distribution single numbers, or arrays that are computed from columns, with one number for each row.",
    ),
)


def in_words(error: BaseException) -> str:
    """What is wrong, in a sentence or more. The error arose on made-up rows, so that its text shows nobody's cells."""
    if isinstance(error, ModelError):
        return str(error)
    name, text = type(error).__name__, first_lines(error)
    for known in _KNOWN:
        match = re.search(known.text, text) if known.kind == name else None
        if match:
            return known.said.format(*match.groups())
    return f"{name}: {text}" if text else f"{name}, without a word about the reason."


def first_lines(error: BaseException) -> str:
    """The text of an error, on one line, and not all of a long one."""
    return " ".join(str(error).split())[:300]

"""What is known of the rows in one array of a traced program, and in one equation.

A program of rows is traced twice, for two numbers of rows. What differs between the two, be it the length of an axis
or a number that is written into the program, belongs to the rows; everything else is the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

# Numbers whose values are followed are indices, and few.
_FOLLOWED = 2**14


class Kind(IntEnum):
    """On which rows an array depends. Of several operands, the greatest usually decides."""

    FREE = 0  #: On none.
    ALIGNED = 1  #: Each row's part of it on that row.
    UNSURE = 2  #: Nobody knows.
    SUMMED = 3  #: It is a sum over rows of what depends on one row each.
    MIXED = 4  #: On several at once.


class Layout(NamedTuple):
    """What is known of one array.

    Where it is `ALIGNED`, entry f of the flattened array belongs to row (f // stride) % rows. It is `placed` if it
    depends on where a row stands, or on how many there are. `value` is what it holds, where that is known;
    `parts` are the columns that were joined to make it.
    """

    kind: Kind = Kind.FREE
    stride: int = 0
    placed: bool = False
    value: np.ndarray | None = None
    parts: tuple[Layout, ...] = ()

    @property
    def known(self) -> tuple[Kind, int, bool]:
        """What does not hang on values."""
        return self.kind, self.stride, self.placed


class Unsure(Exception):
    """A rule cannot tell."""


class Mixes(Exception):
    """A rule sees that several rows enter at once."""


class Sums(Exception):
    """A rule sees that rows are added up."""


class Differs(Exception):
    """The two programs are not the same but for the number of rows."""


class Equation(NamedTuple):
    """One equation of the program, its twin for another number of rows, and what is known of its operands."""

    eqn: core.JaxprEqn
    twin: core.JaxprEqn
    given: tuple[Layout, ...]
    rows: int

    @property
    def params(self) -> dict[str, Any]:
        """How the primitive is called."""
        return self.eqn.params

    @property
    def placed(self) -> bool:
        """Whether any operand depends on where a row stands."""
        return any(one.placed for one in self.given)

    @property
    def aligned(self) -> list[int]:
        """Which operands have rows."""
        return [i for i, one in enumerate(self.given) if one.kind is Kind.ALIGNED]

    def shape(self, operand: int) -> tuple[int, ...]:
        """The shape of an operand."""
        return self.eqn.invars[operand].aval.shape

    def at(self, operand: int) -> tuple[int, int]:
        """On which axis of an operand the rows lie, and in blocks of how many places each."""
        found = position(self.shape(operand), self.given[operand].stride, self.rows)
        if found is None:
            raise Unsure
        return found

    def where(self) -> tuple[int, int]:
        """The same of all operands that have rows, if they agree."""
        found = {self.at(operand) for operand in self.aligned}
        if len(found) != 1:
            raise Unsure
        return found.pop()

    def out(self, axis: int, inner: int, number: int = 0, *, placed: bool | None = None) -> Layout:
        """A result whose rows lie on `axis`."""
        shape = self.eqn.outvars[number].aval.shape
        stride = math.prod(shape[axis + 1 :]) * inner
        if position(shape, stride, self.rows) != (axis, inner):
            raise Unsure
        return Layout(Kind.ALIGNED, stride, self.placed if placed is None else placed)

    def outs(self, axis: int, inner: int) -> list[Layout]:
        """All results, whose rows lie on `axis`."""
        return [self.out(axis, inner, number) for number in range(len(self.eqn.outvars))]

    def every(self, layout: Layout) -> list[Layout]:
        """The same for all results."""
        return [layout] * len(self.eqn.outvars)

    def lifted(self, operand: int) -> Layout:
        """An operand of one number for each row, always the same, has its rows on the axis that grows with them."""
        given, shape = self.given[operand], self.shape(operand)
        axes = growing(self.eqn.invars[operand], self.twin.invars[operand])
        if given.kind is not Kind.FREE or given.placed or len(axes) != 1 or shape[axes[0]] != self.rows:
            return given
        return Layout(Kind.ALIGNED, math.prod(shape[axes[0] + 1 :]))


def position(shape: Sequence[int], stride: int, rows: int) -> tuple[int, int] | None:
    """The axis of `rows` and the size of each row's block on it, or None where they spread over several axes."""
    for axis, size in enumerate(shape):
        below = math.prod(shape[axis + 1 :])
        if stride and stride % below == 0 and below * size % (stride * rows) == 0:
            return axis, stride // below
    return None


def growing(one: Any, twin: Any) -> tuple[int, ...]:
    """The axes that differ in length between a program and its twin."""
    shape, other = one.aval.shape, twin.aval.shape
    if len(shape) != len(other):
        raise Differs
    return tuple(axis for axis, pair in enumerate(zip(shape, other, strict=True)) if pair[0] != pair[1])


def constant(value: Any, twin: Any, rows: int) -> Layout:
    """What is known of a number or an array that is written into a program, and into its twin."""
    one, other = _as_numbers(value), _as_numbers(twin)
    if one.shape == other.shape and (value is twin or _is_equal(one, other)):
        return Layout(value=followed(one))
    is_longer = one.shape != other.shape and one.ndim == other.ndim and one.size > 0
    if is_longer and np.array_equal(one, np.full_like(one, one.flat[0])) and one.flat[0] == other.flat[0]:
        return Layout(value=followed(one))
    if is_longer and len(one) == rows and one.shape[1:] == other.shape[1:] and all(_is_equal(r, other[0]) for r in one):
        return Layout(Kind.ALIGNED, math.prod(one.shape[1:]))
    return Layout(placed=True, value=followed(one))


def _as_numbers(value: Any) -> np.ndarray:
    if jnp.issubdtype(getattr(value, "dtype", np.float32), jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def _is_equal(one: np.ndarray, other: np.ndarray) -> bool:
    if jnp.issubdtype(one.dtype, jnp.inexact):
        # What undoes the scale of a plate may round.
        return bool(np.allclose(one, other, rtol=1e-6, atol=0, equal_nan=True))
    return np.array_equal(one, other)


def followed(value: np.ndarray) -> np.ndarray | None:
    """The value itself, if it may be an index."""
    return value if value.dtype.kind in "iub" and value.size <= _FOLLOWED else None

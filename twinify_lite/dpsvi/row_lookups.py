"""How lookups and writes at an index pass rows on: the rules of `gather` and `scatter`.

An index has a last axis of columns, each of which names a place on one axis of the array that is looked up. Rows stay
apart where the index names each row's own place in the table of rows (`x[jnp.arange(n), level]`), where both are
batched alike (`jnp.take_along_axis`), or where a place is looked up on other axes only (`w[level]`, `x[:, 3]`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twinify_lite.dpsvi.row_axis import Equation, Kind, Layout, Mixes, Unsure, position


class _Numbers(NamedTuple):
    """The axes of a lookup or a write: of the array, of the index, and of the slices that are read or written.

    `named` are the axes of the array that columns of the index stand for; `batched` axes go with `index_batched` ones.
    `whole` axes of the array are the axes `whole_slices` of the slices, and every other axis there is one of the index.
    """

    named: Sequence[int]
    batched: Sequence[int]
    index_batched: Sequence[int]
    whole: Sequence[int]
    whole_slices: Sequence[int]
    index_slices: Sequence[int]
    sizes: Sequence[int]


def _numbers(
    e: Equation, named: Sequence[int], thin: Sequence[int], batched: Sequence[Sequence[int]], slices: Sequence[int]
) -> _Numbers:
    is_read = e.eqn.primitive.name == "gather"
    shape = e.eqn.outvars[0].aval.shape if is_read else e.shape(2)
    whole = [axis for axis in range(len(e.shape(0))) if axis not in (*thin, *batched[0])]
    sizes = [1] * len(e.shape(0))
    for axis, one in zip(whole, slices, strict=True):
        sizes[axis] = shape[one]
    others = [axis for axis in range(len(shape)) if axis not in slices]
    return _Numbers(named, *batched, whole, slices, others, sizes)


def gather(e: Equation) -> list[Layout]:
    """Read slices of operand 0 at the places that operand 1 names."""
    given = e.params["dimension_numbers"]
    batched = given.operand_batching_dims, given.start_indices_batching_dims
    numbers = _numbers(e, given.start_index_map, given.collapsed_slice_dims, batched, given.offset_dims)
    goes, placed = _goes_with(e, numbers)
    places, own = set(), e.lifted(0)
    if own.kind is Kind.ALIGNED:
        axis, inner = _found(e, own)
        places.add((_in_slices(numbers, axis, goes), inner))
    if e.given[1].kind is Kind.ALIGNED:
        axis, inner = e.at(1)
        places.add((numbers.index_slices[axis], inner))
    if len(places) != 1:
        raise Unsure
    return [e.out(*places.pop(), placed=placed)]


def scatter(e: Equation) -> list[Layout]:
    """Write operand 2 into operand 0, at the places that operand 1 names."""
    given = e.params["dimension_numbers"]
    batched = given.operand_batching_dims, given.scatter_indices_batching_dims
    numbers = _numbers(
        e, given.scatter_dims_to_operand_dims, given.inserted_window_dims, batched, given.update_window_dims
    )
    own = e.lifted(0)
    if own.kind is not Kind.ALIGNED:
        raise Mixes  # All rows are written into one array.
    axis, inner = _found(e, own)
    goes, placed = _goes_with(e, numbers)
    wanted = {1: goes, 2: _in_slices(numbers, axis, goes)}
    if any(e.at(i) != (wanted[i], inner) for i in e.aligned if i):
        raise Unsure
    return [e.out(axis, inner, placed=placed)]


def _found(e: Equation, own: Layout) -> tuple[int, int]:
    found = position(e.shape(0), own.stride, e.rows)
    if found is None:
        raise Unsure
    return found


def _in_slices(numbers: _Numbers, axis: int, goes: int | None) -> int:
    """Where the rows of the array lie in the slices."""
    return numbers.whole_slices[numbers.whole.index(axis)] if goes is None else numbers.index_slices[goes]


def _goes_with(e: Equation, numbers: _Numbers) -> tuple[int | None, bool]:
    """Which axis of the index goes with the rows of operand 0, or None if every index sees all of them; and whether
    the result is `placed`: an index that only names each row's own place does not make it so."""
    own, columns, placed, goes = e.lifted(0), _columns(e.given[1], len(numbers.named)), e.placed, None
    if own.kind is Kind.ALIGNED:
        axis, _ = _found(e, own)
        if axis in numbers.batched:
            goes = numbers.index_batched[list(numbers.batched).index(axis)]
        elif numbers.sizes[axis] != e.shape(0)[axis]:
            goes = _own_place(columns.pop(list(numbers.named).index(axis)), e.rows)
            placed = any(one.placed for one in (*columns, own, *e.given[2:]))
    if e.given[1].kind is Kind.ALIGNED and e.at(1)[0] == len(e.shape(1)) - 1:
        raise Unsure
    return goes, placed


def _columns(index: Layout, number: int) -> list[Layout]:
    """What is known of each of the `number` columns of an index."""
    if len(index.parts) == number:
        return list(index.parts)
    if index.value is not None:
        return [index._replace(value=index.value[..., j : j + 1]) for j in range(number)]
    return [index] * number


def _own_place(column: Layout, rows: int) -> int:
    """The axis along which a column of an index says: row 0, row 1, row 2, ..."""
    if column.kind is Kind.ALIGNED:
        raise Mixes  # The row's own cells say which row is looked up.
    if column.value is None:
        raise Unsure
    places = column.value[..., 0]
    for axis, size in enumerate(places.shape):
        if size == rows and (np.moveaxis(places, axis, -1) == np.arange(rows)).all():
            return axis
    raise Mixes

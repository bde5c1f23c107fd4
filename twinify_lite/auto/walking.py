"""Drawing rows from a chain column by column, with nothing compiled: for a few rows, or for many columns.

The compiled way (`drawing`) keeps what is known of all columns to come, which pays where most columns depend on each
other and a program is used for many rows. Here each column looks up its own parents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from twinify_lite.auto.chain import Link
from twinify_lite.auto.drawing import joint_logits, method_of, table_of

# Numbers in one table by the joint level of several parents, and rows that are drawn at a time: both are to stay in a
# core's cache.
_CELLS, _ROWS = 2**15, 2**13


class _Step(NamedTuple):
    """How one column is drawn: by tables, each looked up by the joint level of some parents, and how they combine."""

    column: int
    method: str
    tables: tuple[tuple[Mapping[int, int], Float[np.ndarray, "joint level"]], ...]


def walker(links: Sequence[Link]) -> Callable[[np.random.Generator, int], list[Int[np.ndarray, " row"]]]:
    """A function from a generator and a number of rows to the levels of so many rows, one array a column."""
    steps = [_step(link, links) for link in links]
    kind = np.min_scalar_type(max(len(link.bias) for link in links))

    def draw(rng: np.random.Generator, rows: int) -> list[np.ndarray]:
        uniform = [_spread_out(rng, rows) for _ in steps]
        drawn = np.empty((len(steps), rows), kind)
        for first in range(0, rows, _ROWS):
            part = slice(first, first + _ROWS)
            found: dict[int, np.ndarray] = {}
            for step, numbers in zip(steps, uniform, strict=True):
                found[step.column] = _level(step, found, numbers[part])
                drawn[step.column, part] = found[step.column]
        return list(drawn)

    return draw


def _spread_out(rng: np.random.Generator, rows: int) -> Float[np.ndarray, " row"]:
    """Uniform numbers, one in each of `rows` equal intervals: shares of levels vary less than if all were free."""
    return ((rng.permutation(rows) + rng.random(rows)) / rows).astype(np.float32)


def _step(link: Link, links: Sequence[Link]) -> _Step:
    members = {other.column: other for other in links if other.column in link.parents}
    groups = list(_groups(link, members))
    method = method_of(link) if len(groups) > 1 else "sums"
    tables = []
    for number, group in enumerate(groups):
        logits = joint_logits(link, group) + (link.bias if number == 0 else 0.0)
        sizes = {parent.column: len(parent.bias) for parent in group}
        tables.append((sizes, table_of(method, logits).astype(np.float32)))
    return _Step(link.column, method, tuple(tables))


def _groups(link: Link, members: Mapping[int, Link]) -> Iterator[list[Link]]:
    """Parents whose joint table has at most `_CELLS` cells; or none, if there are no parents."""
    group, cells = [], len(link.bias)
    for parent in link.parents:
        size = len(members[parent].bias)
        if group and cells * size > _CELLS:
            yield group
            group, cells = [], len(link.bias)
        group, cells = [*group, members[parent]], cells * size
    yield group


_COMBINE = {"weights": np.multiply, "logits": np.add}


def _level(step: _Step, found: Mapping[int, np.ndarray], uniform: np.ndarray) -> Int[np.ndarray, " row"]:
    """The level in whose part of the sum of weights each uniform number falls."""
    given = None
    for sizes, table in step.tables:
        joint = np.zeros(len(uniform), np.int64)
        for parent, size in sizes.items():
            joint = joint * size + found[parent]
        looked_up = table.take(joint, axis=0)
        given = looked_up if given is None else _COMBINE[step.method](given, looked_up, out=given)
    if step.method == "logits":
        given = np.exp(given - given.max(axis=1, keepdims=True))
    if step.method != "sums":
        given = np.cumsum(given, axis=1)
        uniform = uniform * given[:, -1]
    return (uniform[:, None] > given[:, :-1]).sum(axis=1)

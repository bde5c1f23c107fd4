"""Clip each row's gradient and add them up: the only place where rows and parameters meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from twinify_lite.dpsvi import ghost, lattice
from twinify_lite.dpsvi.lattice import Lattice, Words
from twinify_lite.dpsvi.row_program import ROUNDING_ROOM, RowProgram, passes, trace_row

# Chunks' sums that are held at once: more numbers than this are added up one chunk after the other.
_HELD = 2**18
# Chunks that are written out one after the other instead of looped over, which hides them from the compiler. The sums
# of as many fit into one word: 6 x 80 rows of at most 2^22 steps.
_UNROLLED = 6


class ClippedSum(NamedTuple):
    """A sum of floats, for rows that nobody protects: its order decides its last bits."""

    gradient: PyTree
    unclipped: Float[Array, ""]


class WholeSum(NamedTuple):
    """A sum in whole steps of `unit`, private until noise has been added: `count` of the rows below the clip norm, each
    as `count` steps of the lattice and every other as as many less than nothing."""

    words: PyTree
    count: Words
    unit: Float[Array, ""]

    @property
    def gradient(self) -> PyTree:
        """The sum as floats, rounded: to look at in tests."""
        return map_words(lambda word: lattice.as_float(word) * self.unit, self.words)


def map_words(function: Callable[..., object], *trees: PyTree) -> PyTree:
    """`jax.tree.map` over sums, each of which is two words."""
    return jax.tree.map(function, *trees, is_leaf=lambda node: isinstance(node, Words))


def clip_factor(norm: Float[Array, "*row"], clip_norm: Float[Array, ""] | float) -> Float[Array, "*row"]:
    """What to multiply a gradient of this norm by.

    Formal guarantee: norm * clip_factor(norm, c) <= c for every norm; a non-finite norm gives 0.
    """
    factor = jnp.minimum(1.0, clip_norm * (1 - ROUNDING_ROOM) / jnp.maximum(norm, 1e-30))
    return jnp.where(jnp.isfinite(norm), factor, 0.0)


def clip(gradient: PyTree, clip_norm: Float[Array, ""] | float) -> PyTree:
    """Scale `gradient` so that its global L2 norm is at most `clip_norm`.

    Formal guarantee: ||clip(g, c)|| <= c for every g; a non-finite g gives 0.
    """
    parts = [ghost.norm(leaf) for leaf in jax.tree.leaves(gradient)]
    factor = clip_factor(ghost.norm(jnp.stack(parts)), clip_norm)
    return jax.tree.map(lambda leaf: jnp.where(factor > 0, factor * leaf, 0.0), gradient)


def whole_sum(
    program: RowProgram,
    shared: PyTree,
    public: PyTree,
    rows: PyTree,
    *,
    mask: Bool[Array, " row"],
    clip_norm: Float[Array, ""],
    on: Lattice,
    devices: int = 1,
) -> WholeSum:
    """Sum over the rows in `mask` of their clipped gradients in whole steps. `devices` share the rows.

    Formal guarantee: one row's joining or leaving moves the integers by at most `on.limit` and what `lattice.rounding`
    adds, in L2, whatever the row holds and however many there are, provided that a row's own pass has the same bits
    wherever it stands; and the count by `on.count`.
    """
    leaves, tree = jax.tree.flatten(shared)
    with jax.default_matmul_precision("highest"):
        passed, norms = passes(program, shared, public, rows)
        factors = jnp.where(mask, clip_factor(norms, clip_norm), 0.0)
        # The weights carry the lattice's scale, so that sums over a chunk come out in steps.
        words = _in_steps(program.forward, leaves, passed, factors * (on.limit / clip_norm), devices)
    below = jnp.where(mask, jnp.where(norms <= clip_norm, on.count, -on.count), 0).astype(jnp.int32)
    return WholeSum(tree.unflatten(words), lattice.sum_clipped(below), clip_norm / on.limit)


def float_sum(
    program: RowProgram,
    shared: PyTree,
    public: PyTree,
    rows: PyTree,
    *,
    mask: Bool[Array, " row"],
    clip_norm: Float[Array, ""] | float,
) -> ClippedSum:
    """The same in floating point, for rows that nobody protects."""
    leaves, tree = jax.tree.flatten(shared)
    with jax.default_matmul_precision("highest"):
        passed, norms = passes(program, shared, public, rows)
        factors = jnp.where(mask, clip_factor(norms, clip_norm), 0.0)
        unclipped = jnp.sum(jnp.where(mask & (norms <= clip_norm), 1.0, 0.0))
        return ClippedSum(tree.unflatten(ghost.weighted_sum(program.forward, leaves, passed, factors)), unclipped)


def clipped_sum(
    row_value: Callable[..., Float[Array, ""]],
    shared: PyTree,
    rows: PyTree,
    *,
    mask: Bool[Array, " row"],
    clip_norm: Float[Array, ""] | float,
) -> ClippedSum:
    """Sum over the rows in `mask` of the clipped gradient of `row_value(shared, row)` with respect to `shared`.

    Formal guarantee: adding or removing one row moves the sum by at most `clip_norm` in L2 (exact arithmetic), whatever
    the row holds: `row_value` sees one row at a time, so no row can reach the others' terms. It equals
    `sum(clip(jax.grad(row_value)(shared, row)))` without holding those gradients (see `ghost`).
    """
    number = mask.shape[0]
    program = _program_of(row_value, shared, jax.tree.map(lambda x: x[0], rows))
    extra = -number % lattice.WIDTH
    padded = jax.tree.map(lambda x: jnp.concatenate([x, jnp.repeat(x[:1], extra, axis=0)]), rows)
    return float_sum(program, shared, (), padded, mask=jnp.pad(mask, (0, extra)), clip_norm=clip_norm)


def row_norms(row_value: Callable[..., Float[Array, ""]], shared: PyTree, rows: PyTree) -> Float[Array, " row"]:
    """The norm of each row's gradient: private wherever the rows are."""
    return passes(_program_of(row_value, shared, jax.tree.map(lambda x: x[0], rows)), shared, (), rows)[1]


def _program_of(row_value: Callable[..., Float[Array, ""]], shared: PyTree, row: PyTree) -> RowProgram:
    return trace_row(lambda shared, _, row: row_value(shared, row), shared, (), row, which="function")


def _in_steps(
    program: ghost.Program, leaves: list[Array], passed: ghost.Backward, weights: Float[Array, " row"], devices: int
) -> list[Words]:
    """The weighted sum in whole steps: direct leaves are truncated row by row, tapped ones summed over chunks."""
    result: list[Words | None] = [None] * program.shared
    for i, leaf in zip(program.direct, passed.direct, strict=True):
        result[i] = lattice.sum_clipped(lattice.truncated(ghost.weighed(weights, leaf)))
    for tap, total in zip(program.taps, _tapped(program, leaves, passed, weights, devices), strict=True):
        result[tap.leaf] = total
    return result


def _tapped(
    program: ghost.Program, leaves: list[Array], passed: ghost.Backward, weights: Float[Array, " row"], devices: int
) -> list[Words]:
    if not program.taps:
        return []
    number = weights.shape[0]
    size = lattice.chunk_of(number // devices)
    chunks = number // size
    parts = jax.tree.map(lambda x: x.reshape(chunks, size, *x.shape[1:]), (passed._replace(direct=[]), weights))

    def one(part: tuple[ghost.Backward, Array]) -> list[Array]:
        return [lattice.rounded(total) for total in ghost.tapped_sums(program, leaves, *part)]

    at = lambda i: one(jax.tree.map(lambda x: x[i], parts))  # noqa: E731
    if chunks * sum(leaves[tap.leaf].size for tap in program.taps) <= _HELD:
        return [lattice.sum_rows(total) for total in jax.vmap(one)(parts)]
    if chunks <= _UNROLLED:
        return [lattice.sum_rows(sum(sums)[None]) for sums in zip(*map(at, range(chunks)), strict=True)]
    start = [lattice.zeros(leaves[tap.leaf].shape) for tap in program.taps]

    def body(total: list[Words], part: tuple[ghost.Backward, Array]) -> tuple[list[Words], None]:
        sums = [lattice.sum_rows(one_sum[None]) for one_sum in one(part)]
        return [lattice.add(a, b) for a, b in zip(total, sums, strict=True)], None

    return jax.lax.scan(body, start, parts)[0]

"""Drawing rows from a chain, many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from twinify_lite.auto.chain import Link, root

#: Rows that are drawn at once: one shape, so that one program is compiled.
BATCH = 2**15
# Joint levels of parents that are looked up at once.
_JOINT = 4096
# Simulated rows that a posterior draw's biases are fitted on, and rounds of it.
_PARTICLES, _ROUNDS = 8192, 12


def sampler(links: Sequence[Link]) -> Callable[[Array], tuple[Int[Array, " row"], ...]]:
    """A compiled function from a key to the levels of `BATCH` rows, one array a column."""
    sizes = {link.column: len(link.bias) for link in links}
    tables = [_joint_tables(link, sizes) for link in links]

    @jax.jit
    def draw(key: Array) -> tuple[Array, ...]:
        drawn: dict[int, Array] = {}
        for link, joint, uniform in zip(links, tables, _spread_out(key, len(links)), strict=True):
            logits = sum((table[_index(group, sizes, drawn)] for group, table in joint), jnp.zeros(1))
            weights = jnp.exp(logits - logits.max(axis=-1, keepdims=True))
            sums = jnp.cumsum(weights, axis=-1)
            drawn[link.column] = (uniform[:, None] * sums[..., -1:] > sums).sum(axis=-1, dtype=jnp.int32)
        return tuple(drawn[column] for column in sorted(drawn))

    return draw


def _joint_tables(link: Link, sizes: Mapping[int, int]) -> list[tuple[tuple[int, ...], Array]]:
    """Logits by the levels of several parents at once: fewer look-ups a row. The first has the bias too."""
    effects = dict(zip(link.parents, link.effects, strict=True))
    joint = []
    for group in _groups(link.parents, sizes):
        table = np.zeros((1, len(link.bias)))
        for parent in group:
            table = (table[:, None, :] + effects[parent][None, :, :]).reshape(-1, len(link.bias))
        joint.append((group, jnp.asarray(table + (0 if joint else link.bias), jnp.float32)))
    return joint or [((), jnp.asarray(link.bias[None, :], jnp.float32))]


def _groups(parents: Sequence[int], sizes: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Parents packed into as few groups as find room, the largest first; each has at most `_JOINT` joint levels."""
    groups: list[list[int]] = []
    for parent in sorted(parents, key=lambda parent: -sizes[parent]):
        room = (group for group in groups if math.prod(map(sizes.get, group)) * sizes[parent] <= _JOINT)
        found = next(room, None)
        if found is None:
            groups.append([parent])
        else:
            found.append(parent)
    return [tuple(group) for group in groups]


def _index(group: tuple[int, ...], sizes: Mapping[int, int], drawn: Mapping[int, Array]) -> Array:
    index = jnp.zeros(BATCH if group else 1, jnp.int32)
    for parent in group:
        index = index * sizes[parent] + drawn[parent]
    return index


def _spread_out(key: Array, count: int) -> Float[Array, "count row"]:
    """Uniform numbers of which each of `BATCH` equal intervals has one, in an order that looks random.

    Rows are then alike in law as independent ones are, but shares of levels among many rows vary less. The order is a
    permutation of the places: multiplications by odd numbers and shifts, both of which can be undone.
    """
    bits = BATCH.bit_length() - 1
    odd = jax.random.bits(key, (3, count, 1), jnp.uint32) | 1
    place = jnp.broadcast_to(jnp.arange(BATCH, dtype=jnp.uint32), (count, BATCH))
    for factor in odd:
        place = ((place + (factor >> 8)) * factor) & (BATCH - 1)
        place = place ^ (place >> (bits // 2))
    within = jax.random.uniform(jax.random.fold_in(key, 1), (count, BATCH))
    return (place.astype(jnp.float32) + within) / BATCH


def posterior_draw(links: Sequence[Link], lines: Sequence[np.ndarray], dataset: int) -> tuple[Link, ...]:
    """Links with effects drawn from their posterior; biases follow, so that every column keeps its shares."""
    generator = np.random.default_rng([dataset, 2])
    simulated: dict[int, np.ndarray] = {}
    moved = []
    for link in links:
        own = root(lines[link.column])
        effects = tuple(
            effect + root(lines[parent]) @ (spread * generator.standard_normal(spread.shape)) @ own.T
            for parent, effect, spread in zip(link.parents, link.effects, link.spread, strict=True)
        )
        logits = sum((effect[simulated[p]] for p, effect in zip(link.parents, effects, strict=True)), np.zeros((1, 1)))
        bias = link.bias
        for _ in range(_ROUNDS):
            given = _softmax(np.broadcast_to(bias + logits, (_PARTICLES, len(bias))))
            bias = bias + np.log(link.shares / np.maximum(given.mean(0), 1e-12))
        sums = np.cumsum(_softmax(np.broadcast_to(bias + logits, (_PARTICLES, len(bias)))), axis=1)
        uniform = generator.random(_PARTICLES)
        simulated[link.column] = np.minimum((uniform[:, None] > sums).sum(1), len(bias) - 1)
        moved.append(Link(link.column, link.parents, bias, effects, link.spread, link.shares))
    return tuple(moved)


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def codes_within(levels: np.ndarray, of_code: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A code for each level, drawn by the codes' weights in it."""
    order = np.argsort(of_code, kind="stable")
    if len(order) == of_code.max() + 1:
        return order[levels]
    ends = of_code[order] + _sums_within(of_code[order], weights[order])
    found = np.searchsorted(ends, levels + rng.random(len(levels)), side="right")
    return order[np.minimum(found, len(order) - 1)]


def _sums_within(group: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Cumulative weights that start again in every group; the last of each is exactly 1."""
    sums = np.cumsum(weights)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    before = np.concatenate([[0.0], sums])[starts]
    within = sums - np.repeat(before, np.diff([*starts, len(group)]))
    within[np.append(starts[1:] - 1, len(group) - 1)] = 1.0
    return within

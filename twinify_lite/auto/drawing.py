"""Drawing rows from a chain, many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from twinify_lite.auto.chain import Link, root

#: Rows that are drawn at once: one shape, so that one program is compiled.
BATCH = 2**15
# Simulated rows that a posterior draw's biases are fitted on, and rounds of it.
_PARTICLES, _ROUNDS = 8192, 12


def sampler(links: Sequence[Link]) -> Callable[[Array], Int[Array, "column row"]]:
    """A compiled function from a key to the levels of `BATCH` rows, one array a column."""
    constants = [
        (jnp.asarray(link.bias, jnp.float32), [jnp.asarray(e, jnp.float32) for e in link.effects]) for link in links
    ]

    @jax.jit
    def draw(key: Array) -> tuple[Array, ...]:
        uniform = _spread_out(key, len(links))
        drawn: dict[int, Array] = {}
        for link, (bias, effects), numbers in zip(links, constants, uniform, strict=True):
            logits = bias[None, :]
            for parent, effect in zip(link.parents, effects, strict=True):
                logits = logits + effect[drawn[parent]]
            weights = jnp.exp(logits - logits.max(axis=1, keepdims=True))
            sums = jnp.cumsum(weights, axis=1)
            drawn[link.column] = (numbers[:, None] * sums[:, -1:] > sums).sum(axis=1, dtype=jnp.int32)
        return tuple(drawn[column] for column in sorted(drawn))

    return draw


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

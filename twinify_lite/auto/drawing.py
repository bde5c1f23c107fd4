"""Drawing rows from a chain, many at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from twinify_lite.auto.chain import Link, root

#: Rows that are drawn from one key, at most.
BATCH = 2**16
# Numbers in one table by the joint level of several columns, and in what one program holds of its rows: both are to
# stay in a processor's cache.
_CELLS, _AHEAD = 2**20, 2**20
# Rows that one program draws, at most.
_ROWS = 2**13
# Weights no further apart than this, in logits, may be multiplied in 32 bits: none becomes 0.
_MILD = 80.0
# Up to so many levels, their weights are added in a program without loops.
_FEW = 64
# Simulated rows that a posterior draw's biases are fitted on, and rounds of it.
_PARTICLES, _ROUNDS = 8192, 12


def sampler(links: Sequence[Link]) -> Callable[[Array, int], list[Int[np.ndarray, " row"]]]:
    """A function from a key and a number of rows to the levels of so many rows or fewer, one array a column.

    There are fewer where a smaller batch would be filled: rows are spread out evenly over whole batches.
    """
    runs = _runs(links)
    rows = _rows_at_once(links)
    program = jax.jit(lambda uniform: _draw(runs, uniform))
    kind = np.min_scalar_type(max(len(link.bias) for link in links))

    @partial(jax.jit, static_argnums=1)
    def spread_out(key: Array, size: int) -> tuple[Array, ...]:
        return tuple(jnp.split(_spread_out(key, len(links), size), size // rows, axis=1))

    def draw(key: Array, wanted: int = BATCH) -> list[np.ndarray]:
        size = min(BATCH, max(rows, 1 << (wanted.bit_length() - 1)))
        parts = [program(uniform) for uniform in spread_out(key, size)]
        return [np.concatenate(column, dtype=kind, casting="unsafe")[:wanted] for column in zip(*parts, strict=True)]

    return draw


def _rows_at_once(links: Sequence[Link]) -> int:
    levels = sum(len(link.bias) for link in links)
    return 2 ** int(np.clip(np.log2(_AHEAD / levels), 8, np.log2(_ROWS)))


class _Run(NamedTuple):
    """Neighbours in the chain, which later columns look up together.

    `within` has, for each of them, a table by the joint level of those before it in the run, with its bias. `beyond`
    has a table by the run's joint level for all later columns, side by side: one of weights, one of logits.
    """

    columns: tuple[int, ...]
    methods: tuple[str, ...]
    within: tuple[Float[Array, "joint level"], ...]
    beyond: Mapping[str, Float[Array, "joint levels"]]


_COMBINE = {"weights": jnp.multiply, "logits": jnp.add}


def _draw(runs: Sequence[_Run], uniform: Float[Array, "column row"]) -> tuple[Int[Array, " row"], ...]:
    """The levels of rows, column by column.

    They are returned in the type that they index tables with: XLA computes again, for every reader, what it need not
    keep.
    """
    drawn: dict[int, Array] = {}
    ahead: dict[str, Array] = {}  # what is known of all columns to come
    uniforms = iter(uniform)
    for run in runs:
        joint = jnp.zeros(1, jnp.int32)
        for column, method, table in zip(run.columns, run.methods, run.within, strict=True):
            size = table.shape[1]
            given = table[joint]
            if method in ahead:
                given = _COMBINE[method](given, ahead[method][:, :size])
                ahead[method] = ahead[method][:, size:]
            drawn[column] = _level(method, given, next(uniforms))
            joint = joint * size + drawn[column]
        found = {method: table[joint] for method, table in run.beyond.items()}
        ahead = {m: _COMBINE[m](table, ahead[m]) if m in ahead else table for m, table in found.items()}
    return tuple(drawn[column] for column in sorted(drawn))


def _level(method: str, given: Float[Array, "row level"], uniform: Float[Array, " row"]) -> Int[Array, " row"]:
    """The level in whose part of the sum of weights each uniform number falls."""
    if method == "sums":
        return (uniform[:, None] > given[:, :-1]).sum(axis=1, dtype=jnp.int32)
    weights = jnp.exp(given - given.max(axis=1, keepdims=True)) if method == "logits" else given
    if weights.shape[1] > _FEW:
        sums = jnp.cumsum(weights, axis=1)
        return ((uniform * sums[:, -1])[:, None] > sums[:, :-1]).sum(axis=1, dtype=jnp.int32)
    *sums, total = itertools.accumulate(weights[:, level] for level in range(weights.shape[1]))
    threshold = uniform * total
    return sum((jnp.int32(threshold > one) for one in sums), jnp.zeros(uniform.shape, jnp.int32))


def _runs(links: Sequence[Link]) -> list[_Run]:
    """Neighbours together as long as the tables beyond them have at most `_CELLS` cells."""
    runs, later = [], list(links)
    while later:
        count, joint = 0, 1
        levels = sum(len(link.bias) for link in later)
        for link in later:
            joint, levels = joint * len(link.bias), levels - len(link.bias)
            if count and joint * levels > _CELLS:
                break
            count += 1
        runs.append(_run(later[:count], later[count:], first=not runs))
        later = later[count:]
    return runs


def _run(members: Sequence[Link], later: Sequence[Link], *, first: bool) -> _Run:
    methods = tuple("sums" if first else method_of(link) for link in members)
    within = [link.bias + joint_logits(link, members[:place]) for place, link in enumerate(members)]
    beyond = {}
    for method in _COMBINE:
        tables = [table_of(method, joint_logits(link, members)) for link in later if method_of(link) == method]
        if tables:
            beyond[method] = jnp.asarray(np.concatenate(tables, axis=1), jnp.float32)
    tables = tuple(jnp.asarray(table_of(m, logits), jnp.float32) for m, logits in zip(methods, within, strict=True))
    return _Run(tuple(link.column for link in members), methods, tables, beyond)


def method_of(link: Link) -> str:
    """Whether weights can be multiplied, or must be made of their logits once these are added."""
    spans = [np.ptp(table, axis=1).max() for table in (link.bias[None, :], *link.effects)]
    return "weights" if sum(spans) <= _MILD else "logits"


def joint_logits(link: Link, parents: Sequence[Link]) -> Float[np.ndarray, "joint level"]:
    """The effects of all these together, by their joint level; 0 of those that are no parents."""
    effects = dict(zip(link.parents, link.effects, strict=True))
    table = np.zeros((1, len(link.bias)))
    for parent in parents:
        effect = effects.get(parent.column, np.zeros((len(parent.bias), len(link.bias))))
        table = (table[:, None, :] + effect[None, :, :]).reshape(-1, len(link.bias))
    return table


def table_of(method: str, logits: Float[np.ndarray, "joint level"]) -> Float[np.ndarray, "joint level"]:
    """What `method` combines, or for "sums" the cumulative distribution, by joint level."""
    logits = logits - logits.max(axis=1, keepdims=True)
    if method == "logits":
        return logits
    weights = np.exp(logits)
    sums = np.cumsum(weights, axis=1)
    return sums / sums[:, -1:] if method == "sums" else weights


def _spread_out(key: Array, count: int, size: int) -> Float[Array, "count row"]:
    """Uniform numbers of which each of `size` equal intervals has one, in an order that looks random.

    Rows are then alike in law as independent ones are, but shares of levels among many rows vary less. The order is a
    permutation of the places: multiplications by odd numbers and shifts, both of which can be undone. The place within
    an interval is a row's random number, stirred in the same way for every column: a new one for each takes longer
    than all else.
    """
    odd = jax.random.bits(key, (5, count, 1), jnp.uint32) | 1
    place = _stirred(jnp.arange(size, dtype=jnp.uint32), odd[:3], bits=size.bit_length() - 1)
    within = _stirred(jax.random.bits(jax.random.fold_in(key, 1), (size,), jnp.uint32), odd[3:], bits=32)
    return (place.astype(jnp.float32) + (within >> 8).astype(jnp.float32) * 2.0**-24) / size


def _stirred(numbers: Array, odd: Array, *, bits: int) -> Array:
    """Another permutation of all numbers of so many bits for each column of `odd`."""
    for factor in odd:
        numbers = ((numbers + (factor >> 8)) * factor) & jnp.uint32(2**bits - 1)
        numbers = numbers ^ (numbers >> (bits // 2))
    return numbers


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


def code_drawer(of_code: np.ndarray, weights: np.ndarray) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    """A function from levels to a code for each, drawn by the codes' weights in it: Walker's alias method.

    A level has as many slots as codes. Each slot is shared by two codes, such that the slots of a level are alike.
    """
    kind = np.min_scalar_type(len(of_code))
    codes = np.argsort(of_code, kind="stable").astype(kind)
    count = np.bincount(of_code)
    first = np.cumsum(count) - count
    if (count == 1).all():
        return lambda levels, _: codes.take(levels)
    slots = [_slots(weights[codes[start : start + size]]) for start, size in zip(first, count, strict=True)]
    share = np.concatenate([share for share, _ in slots])
    other = codes[np.concatenate([start + other for start, (_, other) in zip(first, slots, strict=True)])]

    def draw(levels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        place = rng.random(len(levels)) * count.take(levels)
        slot = place.astype(np.int64)
        place -= slot
        slot += first.take(levels)
        return np.where(place < share.take(slot), codes.take(slot), other.take(slot))

    return draw


def _slots(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of as many slots as weights: which share of each is its own, and the place of whose the rest is."""
    total = weights.sum()
    share = weights * (len(weights) / total) if total > 0 else np.ones(len(weights))
    other = np.arange(len(weights))
    poor, rich = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share >= 1))
    while poor and rich:
        place = poor.pop()
        other[place] = rich[-1]
        share[rich[-1]] -= 1 - share[place]
        if share[rich[-1]] < 1:
            poor.append(rich.pop())
    share[poor] = 1.0  # what is left of them is lacking by rounding alone
    return share, other

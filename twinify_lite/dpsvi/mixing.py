"""Models and guides whose rows look at each other are refused: which rows a density depends on is read off its program.

DPSVI itself shows a model one row at a time, so a model that mixes rows breaks no guarantee: it is another model than
the one that would be fitted, and its author should know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array, PyTree
from numpyro.distributions import biject_to, constraints

from twinify_lite.dpsvi.row_axis import Differs, Kind, Layout
from twinify_lite.dpsvi.row_independence import follow
from twinify_lite.dpsvi.sites import Trace, log_prob, plate_scale, plates_of, run, samples, sketch
from twinify_lite.dpsvi.starting import jit_once
from twinify_lite.errors import ModelError

# A program is traced for all rows that are made up, and for this many of them.
_FEWER = 2
# How far parameters are moved from where they start, in unconstrained space: at 0, a weight of other rows is not seen.
_MOVES = (0.0, 0.1, 0.3)
# By how much a density may differ, relative to its size: in two runs of one program, and where rows stand elsewhere.
_SAME_PROGRAM, _OTHER_PLACE = 1e-5, 1e-3


def refuse_mixing(
    fn: Callable,
    which: str,
    batches: Sequence[PyTree],
    kwargs: Mapping[str, Any],
    plate: str,
    local: frozenset[str] = frozenset(),
) -> None:
    """Refuse `fn` if a row's density depends on other rows, on its place among them, or on how many there are.

    `which` is what `fn` is called; `batches` are made-up rows, several times as many; `local` are latents of one row
    each, also where a guide has no plate for them.
    """
    question = _Question(fn=fn, kwargs=kwargs, plate=plate, axes=_row_axes(fn, batches[0], kwargs, plate, local))
    if not question.axes:
        return
    program, fewer = _traced(question, batches[0]), _traced(question, _first(batches[0], _FEWER))
    for name, layout in _layouts(question, program, fewer).items():
        if layout.kind is Kind.UNSURE:
            elsewhere = fewer if layout.placed else None
            is_mixed = any(starmap(_differs, _tries(question, name, program, elsewhere, batches)))
        else:
            is_mixed = layout.placed or layout.kind is Kind.MIXED
        if is_mixed:
            raise ModelError(
                f"Site '{name}'{' of the guide' if which == 'guide' else ''} mixes rows: a row's density changes with "
                "the rows beside it (a mean over the batch, batch normalisation, an index into the whole table?). "
                "Each row may use only its own columns."
            )


@dataclass(frozen=True, kw_only=True)
class _Question:
    """A model or guide, and where the rows lie in the value of each site that has them."""

    fn: Callable
    kwargs: Mapping[str, Any]
    plate: str
    axes: Mapping[str, int] = field(default_factory=dict)


class _Inputs(NamedTuple):
    """What densities are a function of: rows, latents of one row each, and what is the same for all."""

    rows: PyTree
    own: dict[str, Array]
    params: dict[str, PyTree]
    shared: dict[str, Array]


class _Program(NamedTuple):
    """The densities of the sites in `names`, as a program of the leaves of `_Inputs`."""

    closed: core.ClosedJaxpr
    names: list[str]
    inputs: _Inputs


def _first(rows: PyTree, number: int) -> PyTree:
    return jax.tree.map(lambda x: x[:number], rows)


def _size(rows: PyTree) -> int:
    return jax.tree.leaves(rows)[0].shape[0]


def _row_axes(
    fn: Callable, many: PyTree, kwargs: Mapping[str, Any], plate: str, local: frozenset[str]
) -> dict[str, int]:
    """Where the rows lie in the value of each site that has them."""
    sites = samples(sketch(fn, {plate: jnp.arange(_size(many))}, many, kwargs))
    axes = {name: _plate_axis(site, plate) for name, site in sites.items() if plate in plates_of(site)}
    bare = [name for name in sites if name in local and name not in axes]
    if bare:
        single = samples(sketch(fn, {plate: jnp.arange(1)}, _first(many, 1), kwargs))
        for name in bare:
            shapes = zip(jnp.shape(sites[name]["value"]), jnp.shape(single[name]["value"]), strict=False)
            axis = next((axis for axis, (several, alone) in enumerate(shapes) if several != alone), None)
            axes |= {} if axis is None else {name: axis}
    return axes


def _plate_axis(site: dict[str, Any], plate: str) -> int:
    return _frame(site, plate).dim - site["fn"].event_dim


def _frame(site: dict[str, Any], plate: str) -> Any:
    return next(frame for frame in site["cond_indep_stack"] if frame.name == plate)


def _run(question: _Question, values: Mapping[str, Any], rows: PyTree) -> Trace:
    places = {question.plate: jnp.arange(_size(rows))}
    return run(question.fn, jax.random.key(0), {**values, **places}, rows, question.kwargs)


def _inputs(question: _Question, rows: PyTree, move: float | Array = 0.0) -> _Inputs:
    """Parameters a little away from where they start, and what is drawn there."""
    moved = {n: _moved(site, move) for n, site in _run(question, {}, rows).items() if site["type"] == "param"}
    sites = samples(_run(question, moved, rows))
    drawn = {name: site["value"] for name, site in sites.items() if not site["is_observed"]}
    own = {name: value for name, value in drawn.items() if name in question.axes}
    return _Inputs(rows, own, moved, {name: value for name, value in drawn.items() if name not in own})


def _moved(site: dict[str, Any], by: float | Array) -> PyTree:
    generator = np.random.Generator(np.random.PCG64([*site["name"].encode()]))
    to_support = biject_to(site["kwargs"].get("constraint", constraints.real))

    def move(value: Array) -> Array:
        if not jnp.issubdtype(jnp.result_type(value), jnp.floating):
            return value
        free = to_support.inv(value)
        moved = to_support(free + by * generator.normal(size=jnp.shape(free)).astype(np.float32))
        return jnp.where(by > 0, moved, value)

    return jax.tree.map(move, site["value"])


def _traced(question: _Question, rows: PyTree) -> _Program:
    """The program of the densities, for as many rows; nothing is computed."""

    def densities(inputs: _Inputs) -> dict[str, Array]:
        trace = _run(question, {**inputs.params, **inputs.shared, **inputs.own}, inputs.rows)
        found = samples(trace)
        return {name: _density(found[name], trace, question.plate) for name in question.axes if name in found}

    inputs = jax.eval_shape(partial(_inputs, question), rows)
    closed, shapes = jax.make_jaxpr(densities, return_shape=True)(inputs)
    return _Program(closed, sorted(shapes), inputs)


def _density(site: dict[str, Any], trace: Trace, plate: str) -> Array:
    """Each row's log density at a site, with the plate's own scaling undone; a sum outside the plate."""
    scale = 1.0 if site["scale"] is None else site["scale"]
    if plate not in plates_of(site):
        return jnp.sum(log_prob(site))
    density = log_prob({**site, "scale": scale / plate_scale(trace, plate)})
    moved = jnp.moveaxis(density, _frame(site, plate).dim, 0)
    return jnp.sum(moved.reshape(moved.shape[0], -1), axis=1)


def _layouts(question: _Question, program: _Program, fewer: _Program) -> dict[str, Layout]:
    """Which rows the density of each site depends on."""
    number = _size(program.inputs.rows)
    leaves = zip(
        *map(jax.tree.leaves, (program.inputs, fewer.inputs)), _leaf_axes(question, program.inputs), strict=True
    )
    given = [_of_input(one.shape, other.shape, axis) for one, other, axis in leaves]
    try:
        found = follow(program.closed, fewer.closed, given, number)
    except Differs:
        # Python saw how many rows there are: a loop over them, or another branch.
        found = [Layout(Kind.UNSURE, placed=True)] * len(program.names)
    return dict(zip(program.names, found, strict=True))


def _leaf_axes(question: _Question, inputs: _Inputs) -> list[int | None]:
    """On which axis the rows lie in each of the inputs, if they do."""
    own = [question.axes[name] for name in sorted(inputs.own)]
    free = len(jax.tree.leaves((inputs.params, inputs.shared)))
    return [*[0] * len(jax.tree.leaves(inputs.rows)), *own, *[None] * free]


def _of_input(shape: tuple[int, ...], fewer: tuple[int, ...], axis: int | None) -> Layout:
    if axis is None:
        return Layout(placed=shape != fewer)
    return Layout(Kind.ALIGNED, math.prod(shape[axis % len(shape) + 1 :]))


def _tries(
    question: _Question, name: str, program: _Program, fewer: _Program | None, batches: Sequence[PyTree]
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Pairs of densities that are the same where each row looks at itself alone, and how near they should be.

    The rows beside one are replaced, in batches of one size, which are computed alike. With `fewer`, rows also move to
    other places, and to a smaller batch.
    """
    draw = jit_once(partial(_inputs, question))
    density = _density_of(program, name)
    for move in _MOVES:
        usual, *others = (jax.device_get(draw(batch, move)) for batch in batches)
        expected = density(usual)
        for drawn in others:
            other = drawn._replace(params=usual.params, shared=usual.shared)
            for place in range(_size(usual.rows)):
                yield (*_exchanged(question, density, expected, usual, other, place), _SAME_PROGRAM)
        if fewer is not None:
            yield from _elsewhere(question, density, _density_of(fewer, name), expected, usual)


def _density_of(program: _Program, name: str) -> Callable[[_Inputs], np.ndarray]:
    number, compiled = program.names.index(name), jit_once(core.jaxpr_as_fun(program.closed))
    return lambda inputs: np.asarray(compiled(*jax.tree.leaves(inputs))[number])


def _exchanged(
    question: _Question, density: Callable, expected: np.ndarray, usual: _Inputs, other: _Inputs, place: int
) -> tuple[np.ndarray, np.ndarray]:
    """What stays where all rows but that at `place` become others. Of a sum over rows, two batches exchange one row."""
    kept = density(_blended(question, usual, other, place))
    if expected.ndim:
        return expected[place], kept[place]
    return expected + density(other), kept + density(_blended(question, other, usual, place))


def _elsewhere(
    question: _Question, density: Callable, of_fewer: Callable, expected: np.ndarray, usual: _Inputs
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """The same rows, each at another place, and among fewer. Of a sum over rows, each is in as many of the parts."""
    number = _size(usual.rows)
    orders = [np.roll(np.arange(number), shift) for shift in range(number)]
    parts = [of_fewer(_taken(question, usual, order[:_FEWER])) for order in orders]
    if not expected.ndim:
        yield _FEWER * expected, sum(parts), _OTHER_PLACE
        return
    for order, part in zip(orders, parts, strict=True):
        yield expected[order], density(_taken(question, usual, order)), _OTHER_PLACE
        yield expected[order[:_FEWER]], part, _OTHER_PLACE


def _blended(question: _Question, one: _Inputs, others: _Inputs, place: int) -> _Inputs:
    """One row of `one` among those of `others`."""

    def blend(mine: np.ndarray, theirs: np.ndarray, axis: int | None) -> np.ndarray:
        if axis is None:
            return mine
        blended = np.array(theirs)
        np.moveaxis(blended, axis, 0)[place] = np.moveaxis(mine, axis, 0)[place]
        return blended

    leaves, tree = jax.tree.flatten(one)
    return tree.unflatten(map(blend, leaves, jax.tree.leaves(others), _leaf_axes(question, one)))


def _taken(question: _Question, inputs: _Inputs, order: np.ndarray) -> _Inputs:
    """The rows in another order, or some of them."""
    leaves, tree = jax.tree.flatten(inputs)
    pairs = zip(leaves, _leaf_axes(question, inputs), strict=True)
    return tree.unflatten([leaf if axis is None else np.take(leaf, order, axis) for leaf, axis in pairs])


def _differs(expected: np.ndarray, found: np.ndarray, tolerance: float) -> bool:
    """Whether two densities differ by more than rounding. What is not finite in the first place says nothing."""
    is_finite, other = np.isfinite(expected), np.isfinite(found)
    both = is_finite & other
    near = np.abs(np.where(both, found, 0) - np.where(both, expected, 0)) <= tolerance * (1 + np.abs(expected))
    return bool(np.any(is_finite & ~(other & near)))

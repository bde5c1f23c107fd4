"""Which parts of a NumPyro model belong to one person: found from the plate, checked on made-up rows.

Nothing here reads a value of the table: only the shapes and types of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from numpyro.infer.autoguide import AutoGuide

from twinify_lite.dpsvi import jaxprs, starting
from twinify_lite.dpsvi.allowed import refuse_strangers
from twinify_lite.dpsvi.mixing import refuse_mixing
from twinify_lite.dpsvi.sites import Trace, log_prob, plates_of, run, samples, sketch
from twinify_lite.errors import ModelError


@dataclass(frozen=True, kw_only=True)
class Structure:
    """How a model and its guide divide into a global part and one person's part."""

    model: Callable
    guide: Callable
    plate: str
    latents: frozenset[str]
    local: frozenset[str]
    guided: frozenset[str]
    made_up: PyTree
    kinds: tuple[str, ...]

    def in_plate(self, site: dict[str, Any]) -> bool:
        """Whether a site stands inside the row plate."""
        return self.plate in plates_of(site)

    def is_of(self, model: Callable, guide: Callable, rows: PyTree, plate: str | None) -> bool:
        """Whether it was found for these very functions, and for columns like these."""
        same = self.model == model and self.guide == guide and plate in (None, self.plate)
        return same and _look(self.made_up) == _look(rows)


def _look(rows: PyTree) -> tuple[Any, list[tuple]]:
    """The shapes and types of the columns."""
    leaves, tree = jax.tree.flatten(rows)
    return tree, [(leaf.shape[1:], leaf.dtype) for leaf in leaves]


def invent_rows(rows: PyTree, kinds: Sequence[str], count: int, seed: int = 0) -> PyTree:
    """`count` made-up rows with the shapes and types of `rows`, each column of the kind named for it."""
    generator = np.random.Generator(np.random.PCG64(seed))
    leaves, tree = jax.tree.flatten(rows)
    made = [
        jnp.asarray(_KINDS[kind](generator, (count, *leaf.shape[1:])), leaf.dtype)
        for leaf, kind in zip(leaves, kinds, strict=True)
    ]
    return tree.unflatten(made)


def _simplex(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    weights = generator.uniform(0.1, 0.9, shape)
    return weights / weights.sum(axis=-1, keepdims=True)


# What a made-up cell may be. Together they meet the supports of the usual likelihoods.
_KINDS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "fraction": lambda generator, shape: generator.uniform(0.1, 0.9, shape),
    "bit": lambda generator, shape: generator.integers(0, 2, shape),
    "one": lambda generator, shape: np.ones(shape),
    "simplex": _simplex,
}


def choose_kinds(model: Callable, rows: PyTree, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """For each column, a kind of made-up cell at which the model's density is finite, one column after another."""
    leaves = jax.tree.leaves(rows)
    kinds = ["fraction" if jnp.issubdtype(leaf.dtype, jnp.floating) else "bit" for leaf in leaves]

    @starting.jit_once
    def failures(rows: PyTree) -> Array:
        sites = samples(run(model, jax.random.key(0), {}, rows, kwargs)).values()
        return sum(1 - jnp.all(jnp.isfinite(log_prob(site))).astype(int) for site in sites)

    for place in range(len(leaves)):
        options = [[*kinds[:place], kind, *kinds[place + 1 :]] for kind in [kinds[place], *_KINDS]]
        counts = [int(failures(invent_rows(rows, option, 1))) for option in options]
        kinds = options[counts.index(min(counts))]
    return tuple(kinds)


def count_rows(rows: PyTree) -> int:
    """The one leading size that all row arguments share."""
    sizes = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else None for leaf in jax.tree.leaves(rows)}
    if len(sizes) != 1 or None in sizes:
        raise ModelError(
            "Positional arguments are columns of the table: arrays with one entry for each row, all of one length. "
            "Pass public constants (sizes, group features) by keyword, e.g. dpsvi.run(key, steps, xs, ys, gs=gs)."
        )
    return sizes.pop()


def refuse_columns_by_keyword(kwargs: Mapping[str, Any], rows: int, public: Collection[str] = ()) -> None:
    """Keyword arguments are public: one that has an entry for each row is likely a column in the wrong place.

    `rows` is a public number of rows. The exact one may not enter, as a refusal would tell it.
    """
    for name, value in kwargs.items():
        is_named = public == "all" or name in public
        if not is_named and any(_is_as_long(leaf, rows) for leaf in jax.tree.leaves(value)):
            raise ModelError(
                f"Keyword argument '{name}' has as many entries as num_obs_total says there are rows, and keyword "
                "arguments are public. Pass columns of the table by position. If it is public (a grid, features of "
                f'groups), say so: DPSVI(..., public=["{name}"]).'
            )


def refuse_columns_outside(constants: Sequence[Any], rows: int, public: Collection[str] = ()) -> None:
    """What a model reads from outside is public, too."""
    if public != "all" and any(_is_as_long(constant, rows) for constant in constants):
        raise ModelError(
            "The model or guide reads an array that was not passed to it (a table outside the function?) and has as "
            "many entries as num_obs_total says there are rows. Such an array would be public. Pass columns by "
            'position. If it is public, pass it by keyword and name it: DPSVI(..., public=["name"]).'
        )


def _is_as_long(value: Any, rows: int) -> bool:
    return jnp.ndim(value) > 0 and jnp.shape(value)[0] == rows > 1


def find_structure(
    model: Callable, guide: Callable, rows: PyTree, kwargs: Mapping[str, Any], plate: str | None = None
) -> Structure:
    """Divide model and guide by the row plate, or raise a `ModelError` that names the site that is in the way."""
    kinds = choose_kinds(model, rows, kwargs)
    one, many = invent_rows(rows, kinds, 1), invent_rows(rows, kinds, 3)
    plate = plate or _find_plate(model, one, many, kwargs)
    model_sites = sketch(model, {}, one, kwargs)
    if plate not in model_sites or model_sites[plate]["type"] != "plate":
        raise ModelError(f"The model has no plate named '{plate}'.")
    latents = {name: site for name, site in samples(model_sites).items() if not site["is_observed"]}
    local = frozenset(name for name, site in latents.items() if plate in plates_of(site))
    _refuse_discrete(latents)
    _refuse_automatic_guide(guide, local)
    _refuse_what_is_personal(model, model_sites, "model", one, many, kwargs, plate, local)
    batches = [many, *(invent_rows(rows, kinds, 3, seed) for seed in (1, 2))]
    refuse_mixing(model, "model", batches, kwargs, plate)
    starting.set_up(guide, lambda guide: run(guide, jax.random.key(0), {}, one, kwargs))
    guide_sites = sketch(guide, {plate: jnp.arange(1)}, one, kwargs)
    _refuse_what_is_personal(guide, guide_sites, "guide", one, many, kwargs, plate, local)
    refuse_mixing(guide, "guide", batches, kwargs, plate, local)
    return Structure(
        model=model,
        guide=guide,
        plate=plate,
        latents=frozenset(latents) - local,
        local=local,
        guided=frozenset(samples(guide_sites)),
        made_up=one,
        kinds=kinds,
    )


def _row_dependent(
    fn: Callable, rows: PyTree, kwargs: Mapping[str, Any], plate: str | None = None
) -> dict[str, dict[str, Any]]:
    """The sample sites whose density or value depends on the rows."""
    values = {} if plate is None else {plate: jnp.arange(count_rows(rows))}
    found: dict[str, dict[str, Any]] = {}

    def densities(rows: PyTree) -> list[tuple[Array, Any]]:
        found.update(samples(run(fn, jax.random.key(0), values, rows, kwargs)))
        return [(jnp.sum(log_prob(site)), site["value"]) for site in found.values()]

    closed = jax.make_jaxpr(densities)(rows)
    flags = jaxprs.dependence(closed, [True] * len(closed.jaxpr.invars))
    return {
        name: site
        for number, (name, site) in enumerate(found.items())
        if flags[2 * number] or (not site["is_observed"] and flags[2 * number + 1])
    }


def _find_plate(model: Callable, one: PyTree, many: PyTree, kwargs: Mapping[str, Any]) -> str:
    touched = {n: s for n, s in _row_dependent(model, one, kwargs).items() if s["is_observed"]}
    if not touched:
        raise ModelError(
            "No observed site of the model depends on the rows. Give the columns as `obs=` of sample sites."
        )
    for name, site in touched.items():
        if not plates_of(site):
            raise ModelError(
                f"Site '{name}' observes the table outside a plate, so nobody's share in it can be told apart. "
                f"Put it under `with numpyro.plate('rows', N, subsample_size=x.shape[0]):`."
            )
    shared = set.intersection(*(plates_of(site) for site in touched.values()))
    if not shared:
        raise ModelError(
            f"The sites {sorted(touched)} share no plate. Put all columns of a person under one row plate."
        )
    if len(shared) > 1:
        sizes = [{n: sketch(model, {}, r, kwargs)[n]["value"].shape[0] for n in shared} for r in (one, many)]
        shared = {name for name in shared if sizes[0][name] != sizes[1][name]}
    if len(shared) != 1:
        raise ModelError("Several plates enclose the data. Say which one holds the rows: DPSVI(..., plate='rows').")
    return shared.pop()


def _refuse_discrete(latents: Trace) -> None:
    for name, site in latents.items():
        if site["fn"].support.is_discrete:
            raise ModelError(
                f"Site '{name}' is a discrete latent variable, which has no gradient. Marginalise it out, e.g. with "
                "numpyro.distributions.MixtureSameFamily."
            )


def _refuse_automatic_guide(guide: Callable, local: frozenset[str]) -> None:
    if local and isinstance(guide, AutoGuide):
        raise ModelError(
            f"The latent variables {sorted(local)} belong to one person each, and an automatic guide would hold "
            "one value for each row. Write a guide that predicts them from the row (an amortised guide)."
        )


def _refuse_what_is_personal(
    fn: Callable,
    sites: Trace,
    which: str,
    one: PyTree,
    many: PyTree,
    kwargs: Mapping[str, Any],
    plate: str,
    local: frozenset[str],
) -> None:
    _refuse_personal_parameters(sites, plate)
    _refuse_strange_operations(fn, one, kwargs, plate, which)
    _refuse_data_outside(fn, one, kwargs, plate, local, which)
    _refuse_row_shapes(fn, one, many, kwargs, plate, local)


def _refuse_personal_parameters(trace: Trace, plate: str) -> None:
    for name, site in trace.items():
        if site["type"] == "mutable":
            raise ModelError(f"'{name}' is mutable state, which would carry rows from step to step. Remove it.")
        if site["type"] == "param" and plate in plates_of(site) and site["kwargs"].get("event_dim") is not None:
            raise ModelError(
                f"Parameter '{name}' holds one value for each row: releasing it would release the rows. "
                "Predict it from the row instead (an amortised guide)."
            )


def _refuse_strange_operations(fn: Callable, one: PyTree, kwargs: Mapping[str, Any], plate: str, which: str) -> None:
    def densities(rows: PyTree) -> list[Array]:
        sites = samples(run(fn, jax.random.key(0), {plate: jnp.arange(1)}, rows, kwargs))
        return [jnp.sum(log_prob(site)) for site in sites.values()]

    refuse_strangers(jax.make_jaxpr(densities)(one).jaxpr, which)


def _refuse_data_outside(
    fn: Callable, one: PyTree, kwargs: Mapping[str, Any], plate: str, local: frozenset[str], which: str
) -> None:
    for name, site in _row_dependent(fn, one, kwargs, plate).items():
        if plate not in plates_of(site) and not (which == "guide" and name in local):
            raise ModelError(
                f"Site '{name}' of the {which} depends on the rows but stands outside the row plate '{plate}'. "
                "Move it inside, or compute it from public constants passed by keyword."
            )


def _refuse_row_shapes(
    fn: Callable, one: PyTree, many: PyTree, kwargs: Mapping[str, Any], plate: str, local: frozenset[str]
) -> None:
    """A latent or parameter that grows with the rows is one person's, wherever it stands."""

    def shapes(rows: PyTree) -> dict[str, list[tuple[int, ...]]]:
        return {
            name: [jnp.shape(leaf) for leaf in jax.tree.leaves(site["value"])]
            for name, site in sketch(fn, {plate: jnp.arange(count_rows(rows))}, rows, kwargs).items()
            if site["type"] in ("sample", "param") and plate not in plates_of(site) and name not in local
        }

    alone, together = shapes(one), shapes(many)
    for name, shape in alone.items():
        if shape != together.get(name):
            raise ModelError(
                f"'{name}' has a shape that follows the number of rows but stands outside the row plate '{plate}', "
                "so it couples people. Put it inside the plate (with an amortised guide), or give it a fixed shape."
            )

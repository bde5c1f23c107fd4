"""A model tried on made-up rows, as `twin check` does and every fit before it spends anything."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer import Trace_ELBO

from twinify_lite.dpsvi.rows import Structure, find_structure
from twinify_lite.dpsvi.starting import jit_once
from twinify_lite.dpsvi.svi import refuse_unsafe
from twinify_lite.models.guessing import extremes, made_up_schema, without_levels
from twinify_lite.models.program import Look, Program, Sites, look, made_up_arrays, misspelt, sketch
from twinify_lite.models.rows import PLATE
from twinify_lite.models.source import Source
from twinify_lite.models.units import state_site
from twinify_lite.schema import Schema

_ROWS = 64
# Places where densities are tried beside the initial one, and how far from it in unconstrained space they may be: the
# tails of a wide prior, where an exponential overflows, are not where a fit goes.
_DRAWS, _FAR = 8, 2.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """What a trial has shown, and, if it went well, what a fit of the same program need not make again."""

    seen: Look
    problems: tuple[str, ...] = ()
    program: Program | None = None
    guide: Callable | None = None
    structure: Structure | None = None

    def is_of(self, source: Source, schema: Schema, options: Mapping[str, Any]) -> bool:
        """Whether the program that was tried is the one of this model, schema and options."""
        made = self.program
        if made is None or (made.schema, made.options) != (schema, options):
            return False
        return all(getattr(made.source, part) == getattr(source, part) for part in ("model", "guide", "start"))


def try_model(source: Source, schema: Schema, options: Mapping[str, Any], *, scaled: bool = False) -> Trial:
    """Run the model and its guide on made-up rows of `schema`, and find every mistake that shows.

    What the schema leaves open is made up. `scaled` tries the program that a fit would have, if nothing is open.
    """
    whole = made_up_schema(schema)
    is_open = whole.modelled != schema.modelled
    seen = look(source, whole if is_open else schema, options, unknown=without_levels(schema))
    problems = [*seen.problems, *latent_problems(source, seen.sites, schema)]
    problems = problems or list(open_problems(source, schema, options))
    if seen.program is None or problems:
        return Trial(seen=seen, problems=tuple(problems))
    try:
        with _quiet():
            return _try_rows(seen, scaled and not is_open)
    except Exception as error:  # whatever the user's code raises, on rows that are made up
        return Trial(seen=seen, problems=(source.locate(error),))


def open_problems(source: Source, schema: Schema, options: Mapping[str, Any]) -> Iterator[str]:
    """What fails only where discovery finds little, or much, in the columns that `schema` leaves open."""
    for found in extremes(schema):
        seen = look(source, found, options, unknown=without_levels(schema))
        for problem in seen.problems or (guide_problems(seen.program) if seen.program else ()):
            yield (
                f"{problem} It fails so where other levels or codes are discovered than the model expects: declare "
                "those of its columns in the schema, or ask for them (`rows.levels(name)`, `rows.states(name)`)."
            )


def latent_problems(source: Source, sites: Sites, schema: Schema) -> Iterator[str]:
    """Latents that DPSVI has no gradient or no guide for, and that are no misspelt columns."""
    others = {*column_sites(schema), *misspelt(schema, sites)}
    for name, site in sites.items():
        if site["type"] != "sample" or site["is_observed"] or name in others:
            continue
        if site["fn"].support.is_discrete:
            yield (
                f"Site {name!r} is a discrete latent variable, which has no gradient. Sum it out: "
                "twinify_lite.models.Mixture does so for columns that depend on a kind of row."
            )
        elif _in_plate(site) and isinstance(source.guide, str):
            yield (
                f"Site {name!r} belongs to one row each, and {source.guide} would hold a value for every row. "
                "Write `def guide(rows):` that predicts it from the row, or move the site out of `with rows:`. If it "
                "is a column, name it as the column is named."
            )


def column_sites(schema: Schema) -> frozenset[str]:
    """The sites that are cells of the table."""
    return frozenset(site for column in schema.modelled for site in (column.name, state_site(column.name)))


def _in_plate(site: dict[str, Any]) -> bool:
    return PLATE in {frame.name for frame in site["cond_indep_stack"]}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _try_rows(seen: Look, scaled: bool) -> Trial:
    """What shows only when rows are given: a guide of other sites, rows that mix, numbers that are not finite."""
    plain = seen.program
    problems = list(guide_problems(plain))
    if problems:
        return Trial(seen=seen, problems=tuple(problems))
    table = {name: jnp.asarray(array) for name, array in plain.encode(made_up_arrays(plain.schema, _ROWS)).items()}
    program = plain.scaled() if scaled else plain
    guide = program.guide()
    structure = find_structure(program.model, guide, (table,), {"N": _ROWS}, PLATE)
    refuse_unsafe(program.model, guide, Trace_ELBO(), structure, {"N": _ROWS})
    problems = tuple(_not_finite(plain, table))
    return Trial(seen=seen, problems=problems, program=program, guide=guide, structure=structure)


def guide_problems(program: Program) -> Iterator[str]:
    """Latents that a guide of the user's own forgets, and sites of it that the model does not have."""
    if not callable(program.source.guide):
        return
    guide = program.guide()
    latents = [name for name, site in _samples(sketch(lambda: program.model(program.made_up, 1))) if _is_latent(site)]
    guided = [name for name, site in _samples(sketch(lambda: guide(program.made_up, 1))) if _is_latent(site)]
    lacking = [name for name in latents if name not in guided]
    if lacking:
        yield (
            f"The guide has no site for {_listed(lacking)}, which would stay as the prior has "
            f"{'it' if len(lacking) == 1 else 'them'}, whatever the table says. Add "
            f"`numpyro.sample({lacking[0]!r}, ...)` to `guide(rows)`, for each latent of the model."
        )
    strange = [name for name in guided if name not in latents]
    if strange:
        yield (
            f"The guide has a site for {_listed(strange)}, and the model has no such latent. Name the sites of the "
            'guide as those of the model, or mark one that only helps to draw another: infer={"is_auxiliary": True}.'
        )


def _samples(sites: Sites) -> Iterable[tuple[str, dict[str, Any]]]:
    return ((name, site) for name, site in sites.items() if site["type"] == "sample")


def _is_latent(site: dict[str, Any]) -> bool:
    return not site["is_observed"] and not site["infer"].get("is_auxiliary", False)


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))


def _not_finite(program: Program, table: Mapping[str, Array]) -> Iterator[str]:
    """Sites and latents with a density or a gradient that is not a number, at the initial values and around them."""

    def total(latents: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        fixed = handlers.substitute(handlers.seed(program.model, jax.random.key(0)), data=dict(latents))
        sites = handlers.trace(fixed).get_trace(table, _ROWS)
        each = {name: jnp.sum(site["fn"].log_prob(site["value"])) for name, site in _samples(sites)}
        return sum(each.values()), each

    slopes, found = jit_once(jax.vmap(jax.grad(total, has_aux=True), axis_size=1 + _DRAWS))(_places(program, table))
    broken = [name for name, value in found.items() if not jnp.all(jnp.isfinite(value))]
    for name in broken:
        yield (
            f"Site {name!r} has a density that is not finite on made-up rows. Look for a scale that can be 0 or "
            "negative, a logarithm of 0, or an exponential that overflows."
        )
    if broken:
        return
    for name, slope in slopes.items():
        if not jnp.all(jnp.isfinite(slope)):
            yield (
                f"The gradient with respect to {name!r} is not finite on made-up rows, though the density is. Look for "
                "sqrt or abs at 0, a division by 0 behind `jnp.where`, or a clamped logarithm."
            )


def _places(program: Program, table: Mapping[str, Array]) -> dict[str, Array]:
    """The initial values of the global latents, and draws of the prior or of the user's guide near them."""
    start = program.start
    drawing = program.guide() if callable(program.source.guide) else program.prior(start)
    supports = {}

    def free(key: Array) -> dict[str, Array]:
        sites = handlers.trace(handlers.seed(drawing, key)).get_trace(table, _ROWS)
        supports.update({name: biject_to(sites[name]["fn"].support) for name in start})
        return {name: supports[name].inv(sites[name]["value"]) for name in start}

    drawn = [free(jax.random.key(number)) for number in range(_DRAWS)]
    places = {}
    for name, value in start.items():
        middle = supports[name].inv(value)
        moves = [jnp.clip(draw[name] - middle, -_FAR, _FAR) for draw in drawn]
        tried = [value, *(supports[name](middle + jnp.nan_to_num(move)) for move in moves)]
        places[name] = jnp.stack(tried)
    return places

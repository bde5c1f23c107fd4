"""A model and a schema together: the program that DPSVI fits, and the one that generates.

The user's function knows neither the table nor whether it is being fitted. Here it is run on rows that are given
(`Program.model`) or drawn (`Program.draw`), with the sites that it may leave to us: where a cell is missing or special.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.transforms import StickBreakingTransform, Transform
from numpyro.infer import autoguide, init_to_value

from twinify_lite.dpsvi.starting import jit_once, traced
from twinify_lite.errors import ModelError
from twinify_lite.models import units
from twinify_lite.models.rows import PLATE, ColumnSites, PriorEnds, Rows
from twinify_lite.models.scaling import Scale, Scaled, find_scales, is_scalable, units_of
from twinify_lite.models.source import Source
from twinify_lite.models.units import Unit, state_site
from twinify_lite.schema import Schema

Sites = dict[str, dict[str, Any]]
# How far apart the numbers of an array start, in unconstrained space; and rows to find the latents' scales by.
_APART, _ROWS = 0.2, 128
# Draws of a prior that has no mean, for its median.
_DRAWS = 101
_READ_DENSITIES = ("AutoLaplaceApproximation",)
# So many columns are named in one sentence; and how much alike a misspelt name is, 1 being the same.
_NAMED, _CLOSE = 3, 0.7


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A model for the columns of one complete schema.

    `added` are the columns whose state we sample ourselves, `scales` the units of global latents (see `scaling`).
    """

    source: Source
    schema: Schema
    options: Mapping[str, Any]
    units: dict[str, Unit]
    added: tuple[str, ...]
    scales: dict[str, Scale] = dataclasses.field(default_factory=dict)

    def model(self, table: Mapping[str, Array], N: int) -> None:  # noqa: N803  (DPSVI's name for the number of rows)
        """The model of rows that are given, in the units of its sites."""
        self._run(self._rows(table, N))

    def guide(self) -> Callable:
        """The guide of `model`: the user's function, or the automatic one of the name that the file gives."""
        if callable(self.source.guide):
            return self._guide
        start = {name: value / self.scales.get(name, 1.0) for name, value in self.start.items()}
        model = self.prior(start) if self.source.guide in _READ_DENSITIES else self._outline(start)
        return getattr(autoguide, self.source.guide)(model, init_loc_fn=init_to_value(values=start))

    def scaled(self) -> Program:
        """The same program with global latents in units of what a row tells of them.

        With a guide of the user's own, which samples them in the model's units, they stay as they are.
        """
        if callable(self.source.guide):
            return self
        latents = self.start
        drawn = jit_once(self.draw, static_argnums=2)(latents, jax.random.key(2), _ROWS)
        sites = sketch(lambda: self.model(drawn, _ROWS))
        units = {name: units_of(site) for name, site in sites.items() if is_scalable(site)}
        made = dataclasses.replace(self, scales=find_scales(self.model, latents, units, drawn))
        made.__dict__["start"] = latents  # scales do not move it
        return made

    def draw(self, values: Mapping[str, Array], key: Array, rows: int) -> dict[str, Array]:
        """Rows that the model draws, given `values` of its global latents and parameters; in the units of its sites."""
        program = handlers.substitute(handlers.seed(self._generate, key), data=dict(values))
        trace = handlers.trace(program).get_trace(rows)
        return {name: trace[name]["value"] for name in self.sites}

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that make a row: a column each, and the states of those that have them."""
        names = []
        for column in self.schema.modelled:
            has_state = self.units[column.name].states > 1
            names += [column.name, *([state_site(column.name)] if has_state else [])]
        return tuple(names)

    def encode(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays of the continuous view in the units of the sites. They are as private as they were."""
        made: dict[str, np.ndarray] = {}
        for column in self.schema.modelled:
            made |= units.encode(column, self.units[column.name], arrays)
        return made

    def decode(self, sites: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Drawn rows as arrays of the continuous view."""
        made: dict[str, np.ndarray] = {}
        for column in self.schema.modelled:
            made |= units.decode(column, self.units[column.name], sites)
        return made

    def beyond(self, sites: Mapping[str, np.ndarray]) -> np.ndarray:
        """Which drawn rows have a number beyond its column's range."""
        found = [units.beyond(column, self.units[column.name], sites) for column in self.schema.modelled]
        return np.logical_or.reduce(found)

    def _rows(self, table: Mapping[str, Array], total: int) -> Rows:
        batch = len(next(iter(table.values())))
        return Rows(self.schema, total=total, batch=batch, options=self.options, found=dict(self.units), observed=table)

    def _generate(self, rows: int) -> None:
        self._run(Rows(self.schema, total=rows, batch=rows, options=self.options, found=dict(self.units)))

    def _run(self, rows: Rows) -> None:
        with Scaled(self.scales), ColumnSites(rows):
            add_states(rows, {name: self.units[name].states for name in self.added})
            self.source.model(rows)

    def prior(self, latents: Iterable[str]) -> Callable:
        """The model up to its rows, which is quick to run; or all of it, if some of its latents come after them."""

        def prior(table: Mapping[str, Array], N: int) -> None:  # noqa: N803
            batch = len(next(iter(table.values())))
            rows = Rows(self.schema, total=N, batch=batch, options=self.options, found=dict(self.units), is_prior=True)
            with Scaled(self.scales):
                state_shares({name: self.units[name].states for name in self.added})
                with contextlib.suppress(PriorEnds):
                    self.source.model(rows)

        found = {name for name, site in sketch(lambda: prior(self.made_up, 1)).items() if _is_global_latent(site)}
        return prior if found == set(latents) else self.model

    def _outline(self, latents: Iterable[str]) -> Callable:
        """The shapes and supports of the latents, which is all that most automatic guides read of a model."""
        sites = sketch(lambda: self.model(self.made_up, 1))
        found = {name: sites[name]["fn"] for name in latents}
        if traced([fn.support for fn in found.values()]):
            return self.prior(latents)  # a support with ends that are computed

        def outline(table: Mapping[str, Array], N: int) -> None:  # noqa: N803
            for name, fn in found.items():
                numpyro.sample(name, dist.ImproperUniform(fn.support, fn.batch_shape, fn.event_shape))

        return outline

    def _guide(self, table: Mapping[str, Array], N: int) -> None:  # noqa: N803
        rows = self._rows(table, N)
        rows._seen = dict(table)
        with handlers.trace() as sites:
            self.source.guide(rows)
        guide_states({name: self.units[name].states for name in self.added if f"{name}:states" not in sites})

    @functools.cached_property
    def latents(self) -> frozenset[str]:
        """The names of the global latents."""
        sites = sketch(lambda: self.model(self.made_up, 1))
        return frozenset(name for name, site in sites.items() if _is_global_latent(site))

    @functools.cached_property
    def start(self) -> dict[str, Array]:
        """Initial values of the global latents, in the model's units: the user's, and near the prior's middle."""
        start = self._middles(frozenset())
        lacking = frozenset(name for name, value in start.items() if not np.all(np.isfinite(value)))
        if lacking:
            start = self._middles(lacking)
        if self.source.start is not None:
            rows = Rows(self.schema, total=1, batch=1, options=self.options, found=dict(self.units))
            chosen = {name: jnp.asarray(value, float) for name, value in self.source.start(rows).items()}
            start |= {name: value for name, value in chosen.items() if name in start}
        return start

    def _middles(self, lacking: frozenset[str]) -> dict[str, Array]:
        """The middles of the latents' priors, some of which lack a mean."""
        plain, names = dataclasses.replace(self, scales={}), self.latents
        near = functools.partial(_near_the_middle, lacking=lacking)
        placed = handlers.substitute(handlers.seed(plain.prior(names), jax.random.key(0)), substitute_fn=near)

        def middles() -> dict[str, Array]:
            sites = handlers.trace(placed).get_trace(self.made_up, 1)
            return {name: site["value"] for name, site in sites.items() if name in names}

        return jit_once(middles)()

    @functools.cached_property
    def made_up(self) -> dict[str, np.ndarray]:
        """One row that nobody has, in the units of the sites."""
        return self.encode(made_up_arrays(self.schema, 1))  # numpy's: JAX's, made while tracing, would be traced


def _near_the_middle(site: dict[str, Any], *, lacking: frozenset[str]) -> Array | None:
    """The prior's mean, and a little apart from it, so that components differ; NaN where it has none.

    For the sites in `lacking`, a typical value takes its place.
    """
    if not _is_global_latent(site):
        return None
    prior, to_support = site["fn"], dist.biject_to(site["fn"].support)
    # NumPyro divides by zero where a mean does not exist and the prior's numbers are Python's own.
    try:
        mean = prior.mean
    except (NotImplementedError, ZeroDivisionError):
        mean = jnp.nan
    free = to_support.inv(jnp.broadcast_to(mean, prior.shape()))
    other = _typical(prior, to_support, jnp.zeros_like(free)) if site["name"] in lacking else jnp.nan
    generator = np.random.Generator(np.random.PCG64([*site["name"].encode()]))
    apart = _APART * generator.normal(size=free.shape).astype(np.float32)
    return to_support(jnp.where(jnp.isfinite(free), free, other) + apart)


def _typical(prior: dist.Distribution, to_support: Transform, zero: Array) -> Array:
    """In unconstrained space, the median of draws, or 0 where that is the likelier of the two."""
    drawn = prior.sample(jax.random.key(0), (_DRAWS,))
    median = jnp.median(jax.vmap(to_support.inv)(drawn), axis=0)

    def density(place: Array) -> Array:
        value = to_support(place)
        return prior.log_prob(value) + to_support.log_abs_det_jacobian(place, value)

    # The median of a prior on many orders of magnitude can be 10^28, as that of InverseGamma(0.01, 0.01) is.
    likelier = density(median) > density(zero)
    return jnp.where(likelier.reshape(likelier.shape + (1,) * (zero.ndim - likelier.ndim)), median, zero)


def add_states(rows: Rows, states: Mapping[str, int]) -> None:
    """Sites for what cells are that no one models: each column's states have their own frequencies."""
    shares = state_shares(states)
    with rows:
        for name, share in shares.items():
            numpyro.sample(state_site(name), dist.CategoricalProbs(share))


def state_shares(states: Mapping[str, int]) -> dict[str, Array]:
    """The frequencies of each column's states: global latents."""
    return {name: numpyro.sample(f"{name}:states", dist.Dirichlet(jnp.ones(count))) for name, count in states.items()}


def guide_states(states: Mapping[str, int]) -> None:
    """The guide of `state_shares`, which are ours and not for the user's guide to know of."""
    for name, count in states.items():
        loc = numpyro.param(f"{name}:states:loc", jnp.zeros(count - 1))
        scale = numpyro.param(f"{name}:states:scale", jnp.full(count - 1, _APART), constraint=constraints.positive)
        free = dist.Normal(loc, scale).to_event(1)
        numpyro.sample(f"{name}:states", dist.TransformedDistribution(free, StickBreakingTransform()))


def sketch(run: Callable[[], None]) -> Sites:
    """The sites of a run with shapes but no numbers: nothing is computed, so it is quick."""
    found: Sites = {}
    jax.eval_shape(lambda key: found.update(handlers.trace(handlers.seed(run, key)).get_trace()), jax.random.key(0))
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class Look:
    """What one run of a model on made-up rows has shown. The program is None if there are problems."""

    program: Program | None
    sites: Sites
    options: dict[str, Any]
    pinned: dict[str, Any]
    problems: tuple[str, ...]


def look(
    source: Source,
    schema: Schema,
    options: Mapping[str, Any],
    *,
    strict: bool = True,
    unknown: frozenset[str] = frozenset(),
) -> Look:
    """Run the model once on rows that it draws itself, and settle the unit of every column. No data is needed.

    `strict` refuses declared ranges that do not fit; without it they were discovered, and values are clamped. The
    levels of `unknown` columns are made up.
    """
    problems: list[str] = []
    found: dict[str, Unit] = {}
    sites: Sites = {}
    asked: dict[str, Any] = {}
    pinned: dict[str, Any] = {}

    def run() -> None:
        rows = Rows(schema, total=3, batch=3, options=options, found=found, strict=strict, unknown=unknown)
        rows.asked, rows.pinned = asked, pinned
        with ColumnSites(rows, problems):
            source.model(rows)

    try:
        try:
            sites = sketch(run)
        except jax.errors.TracerArrayConversionError:  # a support with ends that are computed
            found.clear()
            problems.clear()
            sites = dict(handlers.trace(handlers.seed(run, jax.random.key(0))).get_trace())
    except Exception as error:  # whatever the user's code raises, on rows that are made up
        if not problems:
            problems.append(source.locate(error))
        return Look(program=None, sites=sites, options=asked, pinned=pinned, problems=tuple(problems))
    problems += site_problems(schema, sites)
    if problems:
        return Look(program=None, sites=sites, options=asked, pinned=pinned, problems=tuple(problems))
    added = tuple(name for name in found if found[name].states > 1 and state_site(name) not in sites)
    program = Program(source=source, schema=schema, options=dict(options), units=found, added=added)
    return Look(program=program, sites=sites, options=asked, pinned=pinned, problems=())


def prepare(source: Source, schema: Schema, options: Mapping[str, Any]) -> Program:
    """The program of a model that was planned, for the schema that discovery has completed."""
    seen = look(source, schema, options, strict=False)
    if seen.program is None:
        raise ModelError("\n".join(seen.problems))
    return seen.program


def site_problems(schema: Schema, sites: Sites) -> list[str]:
    """Columns without a site, with a misspelt one or with one of too many values; observed sites that are no column."""
    columns = {column.name for column in schema.modelled}
    states = {state_site(name) for name in columns}
    meant = misspelt(schema, sites)
    problems = [f"Site {name!r} is no column of the table; did you mean {column!r}?" for name, column in meant.items()]
    lacking = [name for name in schema if name in columns and name not in sites and name not in meant.values()]
    problems += [_not_observed(lacking)] if lacking else []
    for name, site in sites.items():
        stranger = site["type"] == "sample" and site["is_observed"] and name not in {*columns, *states, *meant}
        if stranger and not _is_global(site):  # a public number observed outside the plate is part of the prior
            problems.append(
                f"Site {name!r} is observed and is no column of the table. Name it after a column and leave `obs=` out."
            )
        if name in columns | states and not _is_global(site) and len(site["fn"].batch_shape) > 1:
            problems.append(
                f"Site {name!r} has an axis beside that of the rows, and it must have one value a row. Give its "
                "distribution single numbers, or arrays with one number for each row, and put no plate of your own "
                "around it."
            )
    return problems


def misspelt(schema: Schema, sites: Sites) -> dict[str, str]:
    """The sites of rows that are no column, each with the column that is not observed and was probably meant."""
    lacking = [column.name for column in schema.modelled if column.name not in sites]
    known = {site for column in schema.modelled for site in (column.name, state_site(column.name))}
    strange = [n for n, s in sites.items() if s["type"] == "sample" and not _is_global(s) and n not in known]
    close = {name: difflib.get_close_matches(name, lacking, n=1, cutoff=_CLOSE) for name in strange}
    return {name: matches[0] for name, matches in close.items() if matches}


def _not_observed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_NAMED]))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    which = f"Column {shown} is" if len(names) == 1 else f"Columns {shown}{more} are"
    return (
        f"{which} not observed. Add `numpyro.sample({names[0]!r}, ...)` under `with rows:`; or, if the twin shall not "
        f'have {"it" if len(names) == 1 else "them"}, set kind = "identifier" in the schema.'
    )


def _is_global_latent(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and not site["is_observed"] and _is_global(site)


def _is_global(site: dict[str, Any]) -> bool:
    return PLATE not in {frame.name for frame in site["cond_indep_stack"]}


def made_up_arrays(schema: Schema, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows that nobody has, in the continuous view: all levels and states, and all over the range to its ends."""
    generator = np.random.Generator(np.random.PCG64(seed))
    arrays: dict[str, np.ndarray] = {}
    for column in schema.modelled:
        if column.is_levelled:
            arrays[column.name] = generator.integers(0, units.codes_of(column), rows)
            continue
        arrays[column.name] = np.clip(generator.uniform(-1.1, 1.1, rows), -1, 1)
        if units.states_of(column) > 1:
            state = generator.integers(0, units.states_of(column), rows)
            arrays[state_site(column.name)] = state
            arrays[column.name] = np.where(state == 0, arrays[column.name], 0.0)
    return arrays

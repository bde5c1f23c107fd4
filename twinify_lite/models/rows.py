"""`rows`: the one argument of a model. It is the row plate, and it tells what is public of the columns.

    def model(rows):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with rows:
            numpyro.sample("age", dist.Normal(mean, 0.3))

Sites named after columns are given when the model is fitted and drawn when it generates: the same function does both.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from jaxtyping import Array
from numpyro.primitives import Messenger

from twinify_lite.errors import ModelError
from twinify_lite.models import units
from twinify_lite.models.units import Unit, state_site
from twinify_lite.schema import Column, Schema

PLATE = "rows"


class PriorEnds(Exception):
    """Where a model that is run for its global latents alone would enter the rows."""


class Rows:
    """The rows of the table, as a model or a guide sees them.

    `with rows:` is the row plate. `rows["age"]` is the value at a column's site: in a guide what is observed, in a
    model what its `numpyro.sample` returned. Everything else here is public and the same for every table.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        total: int,
        batch: int,
        options: Mapping[str, Any],
        found: dict[str, Unit],
        observed: Mapping[str, Array] | None = None,
        strict: bool = False,
        is_prior: bool = False,
        unknown: frozenset[str] = frozenset(),
    ):
        self.columns: Mapping[str, Column] = MappingProxyType({column.name: column for column in schema.modelled})
        self.batch = batch
        self.asked: dict[str, Any] = {}
        self.pinned: dict[str, Any] = {}
        self.strict, self.unknown = strict, unknown
        self._is_prior = is_prior
        self._options = options
        self._units = found
        self._observed = observed
        self._seen: dict[str, Array] = {}
        self._plate = numpyro.plate(PLATE, total, subsample_size=batch, dim=-1)

    def __enter__(self) -> Rows:
        if self._is_prior:
            raise PriorEnds
        self._plate.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._plate.__exit__(*error)

    def __getitem__(self, name: str) -> Array:
        if name in self._seen:
            return self._seen[name]
        self._require(name if name in self.columns else name.removesuffix(":state"))
        raise ModelError(
            f"rows[{name!r}] is asked for before `numpyro.sample({name!r}, ...)`. Sample the column first: what it is "
            "given is known in a fit only."
        )

    def levels(self, name: str) -> int:
        """How many codes a category, an ordinal or a boolean has: its levels, and one for missing if it can be."""
        column = self._require(name)
        if not column.is_levelled:
            raise ModelError(f"Column {name!r} is a {column.kind} and has no levels. Use its range: values are scaled.")
        return units.codes_of(column)

    def states(self, name: str) -> int:
        """What a cell of a number or a time can be: 1 if always a value; more if also special or missing."""
        return units.states_of(self._require(name))

    def present(self, name: str) -> Array:
        """Whether each row has a value in the column, rather than a special one or none."""
        self._require(name)
        state = self._seen.get(state_site(name))
        return jnp.ones(self.batch, bool) if state is None else state == 0

    def option(self, name: str, default: Any) -> Any:
        """A public setting of the model, `default` unless the user gives another."""
        self.asked[name] = default
        value = self._options.get(name, default)
        return _like(name, value, default)

    def pin(self, name: str, value: Any) -> Any:
        """Settle an option while the model is planned, so that what is discovered later cannot change it."""
        self.pinned[name] = value
        return value

    def width(self, *names: str) -> int:
        """How many numbers `features(*names)` has for each row."""
        return sum(self._width(self._require(name)) for name in names)

    def features(self, *names: str) -> Array:
        """These columns of each row as numbers of order 1, for a regression on them: rows x `width(*names)`.

        A number is its place in the range, with a flag if it can be special or missing; levels are flags, all but the
        first one.
        """
        parts = [self._features(self._require(name)) for name in names]
        return jnp.concatenate(parts, axis=-1) if parts else jnp.zeros((self.batch, 0))

    def _require(self, name: str) -> Column:
        if name not in self.columns:
            raise ModelError(f"There is no column {name!r}. The columns are {', '.join(map(repr, self.columns))}.")
        return self.columns[name]

    def _width(self, column: Column) -> int:
        if column.is_levelled:
            return max(1, units.codes_of(column) - 1)
        return 1 + (units.states_of(column) > 1)

    def _features(self, column: Column) -> Array:
        value, here = self[column.name], self.present(column.name)
        if column.is_levelled:
            codes = units.codes_of(column)
            code = jnp.where(here, value, codes - 1)
            return jax.nn.one_hot(code, max(2, codes))[..., 1:]
        place = jnp.where(here, _place(column, self._units[column.name], value), 0.0)
        flag = [(~here).astype(place.dtype)] if units.states_of(column) > 1 else []
        return jnp.stack([place, *flag], axis=-1)


def _place(column: Column, unit: Unit, value: Array) -> Array:
    """A value of this unit as a number in [-1, 1]."""
    if unit.name == "place":
        return jnp.clip(value, -1, 1)
    if unit.name == "share":
        return 2 * jnp.clip(value, 0, 1) - 1
    low, high = (unit.low, unit.high) if unit.name == "interval" else (float(column.min), float(column.max))
    return jnp.clip(2 * (value - low) / (high - low) - 1, -1, 1)


def _like(name: str, value: Any, default: Any) -> Any:
    """`value` as the type of `default`, as the command line gives texts."""
    if default is None or isinstance(value, type(default)):
        return value
    try:
        return type(default)(value)
    except (TypeError, ValueError):
        raise ModelError(f"The option {name!r} must be like {default!r}.") from None


class ColumnSites(Messenger):
    """Gives the sites of columns their values, masks them where there is none, and notes what they are."""

    def __init__(self, rows: Rows, problems: list[str] | None = None):
        super().__init__()
        self.rows, self.problems = rows, problems

    def process_message(self, msg: dict[str, Any]) -> None:
        """Observe the site of a column, in a fit."""
        name = msg.get("name")
        if msg["type"] != "sample" or not self._is_column(name):
            return
        if msg["is_observed"] or msg["value"] is not None:
            self._report(f"Site {name!r} has `obs=`. Leave it out: a site named after a column is given its cells.")
        if PLATE not in {frame.name for frame in msg["cond_indep_stack"]}:
            self._report(f"Column {name!r} is sampled outside the row plate. Put it under `with rows:`.")
        unit = self._unit(name, msg["fn"]) if name in self.rows.columns else None
        if unit is not None and unit.states > 1:
            msg["fn"] = msg["fn"].mask(self.rows.present(name))
        if self.rows._observed is not None:
            msg["value"], msg["is_observed"] = self.rows._observed[name], True

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """Note the value. A drawn one is empty where the row has none, as a given one is."""
        name = msg.get("name")
        if msg["type"] != "sample" or not self._is_column(name):
            return
        unit = self.rows._units.get(name)
        if self.rows._observed is None and unit is not None and unit.states > 1:
            msg["value"] = jnp.where(self.rows.present(name), msg["value"], unit.filler).astype(msg["value"].dtype)
        self.rows._seen[name] = msg["value"]

    def _is_column(self, name: str | None) -> bool:
        return name is not None and (name in self.rows.columns or name.removesuffix(":state") in self.rows.columns)

    def _report(self, problem: str) -> None:
        """Raise the problem, or go on with the next site where all of them are wanted."""
        if self.problems is None:
            raise ModelError(problem)
        self.problems.append(problem)

    def _unit(self, name: str, fn: Any) -> Unit:
        if name not in self.rows._units:
            how = {"has_state": state_site(name) in self.rows._seen, "strict": self.rows.strict}
            how["is_unknown"] = name in self.rows.unknown
            try:
                unit = units.choose(self.rows.columns[name], fn.support, **how)
            except ModelError as error:
                self._report(str(error))
                unit = Unit("code" if self.rows.columns[name].is_levelled else "place")
            self.rows._units[name] = unit
        return self.rows._units[name]

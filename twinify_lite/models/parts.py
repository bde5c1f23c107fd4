"""Pieces of models. Each is made outside the row plate, where it draws its own latents, and used inside.

income = Linear(rows, "income", on=["age", "sex"])
with rows:
    ...                                    # sample age and sex
    numpyro.sample("income", dist.Normal(income(rows), 0.3))
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array

from twinify_lite.errors import ModelError
from twinify_lite.models.rows import Rows
from twinify_lite.models.units import state_site
from twinify_lite.schema import Column


class Linear:
    """A regression on other columns: `bias + features @ weights`, with latents `name_bias` and `name_weights`.

    With `outputs`, one prediction for each of them (the logits of a Categorical, say).
    """

    def __init__(self, rows: Rows, name: str, *, on: Sequence[str], outputs: int | None = None, scale: float = 1.0):
        self.on = tuple(on)
        shape = [] if outputs is None else [outputs]
        self.bias = numpyro.sample(f"{name}_bias", _normal(scale, shape))
        width = rows.width(*self.on)
        self.weights = numpyro.sample(f"{name}_weights", _normal(scale, [width, *shape])) if width else None

    def __call__(self, rows: Rows) -> Array:
        """The prediction for each row. Sample the columns `on` before."""
        if self.weights is None:
            return jnp.broadcast_to(self.bias, (rows.batch, *jnp.shape(self.bias)))
        return self.bias + rows.features(*self.on) @ self.weights


def _normal(scale: float, shape: list[int]) -> dist.Distribution:
    return dist.Normal(0.0, scale).expand(shape).to_event(len(shape))


class Groups:
    """A number for each level of a column, drawn around 0 with a spread that is learnt: partial pooling.

    Latents `name_spread` and `name_group`; the offset of a row is `groups(rows)`.
    """

    def __init__(self, rows: Rows, name: str, *, by: str, spread: float = 1.0):
        self.by = by
        self.spread = numpyro.sample(f"{name}_spread", dist.HalfNormal(spread))
        levels = rows.levels(by)
        self.standard = numpyro.sample(f"{name}_group", dist.Normal(0, 1).expand([levels]).to_event(1))

    @property
    def offsets(self) -> Array:
        """Of each level."""
        return self.spread * self.standard

    def __call__(self, rows: Rows) -> Array:
        """Of each row. Sample the column `by` before."""
        code = jnp.where(rows.present(self.by), rows[self.by], len(self.standard) - 1)
        return self.offsets[code]


class Missing:
    """Whether a number or a time is missing or special, by a regression on other columns. Sample it before the column.

    absent = Missing(rows, "income", on=["age"])
    with rows:
        ...                                # sample age
        absent.sample(rows)                # the site `income:state`
        numpyro.sample("income", ...)      # counts only where there is a value
    """

    def __init__(self, rows: Rows, name: str, *, on: Sequence[str] = ()):
        self.name, self.states = name, rows.states(name)
        self.logits = Linear(rows, f"{name}_state", on=on, outputs=self.states - 1) if self.states > 1 else None

    def sample(self, rows: Rows) -> None:
        """The site `name:state`; none if the column always has a value."""
        if self.logits is not None:
            logits = self.logits(rows)
            logits = jnp.concatenate([jnp.zeros((*logits.shape[:-1], 1)), logits], axis=-1)
            numpyro.sample(state_site(self.name), dist.Categorical(logits=logits))


def season(rows: Rows, name: str, *, days: float = 365.2425) -> Array:
    """Where in the year (or in another period of `days`) each row's date lies: rows x 2, its cosine and sine.

    The date must be sampled on the real line (its place in [-1, 1] of the range), as by Normal or StudentT.
    """
    column = rows.columns[name]
    if column.kind != "datetime":
        raise ModelError(f"Column {name!r} is a {column.kind}, and a season is one of a datetime.")
    start, length = _days(column)
    angle = 2 * jnp.pi * (start % days + (jnp.clip(rows[name], -1, 1) + 1) / 2 * length) / days
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)


def _days(column: Column) -> tuple[float, float]:
    """When a datetime's range begins, in days since 2000, and how long it is."""
    low, high = (np.datetime64(_naive(bound), "us") for bound in (column.min, column.max))
    day = np.timedelta64(86_400_000_000, "us")
    return float((low - np.datetime64("2000-01-01", "us")) / day), float((high - low) / day)


def _naive(moment: datetime.date) -> datetime.date:
    return moment.replace(tzinfo=None) if isinstance(moment, datetime.datetime) else moment


def dense(name: str, values: Array, units: int) -> Array:
    """A layer of a neural network, with parameters `name_weights` and `name_bias` that are learnt as points."""
    width = values.shape[-1]
    # The same start in every run, different for every layer: it is public, as all initial values are.
    generator = np.random.Generator(np.random.PCG64([width, units, *name.encode()]))
    start = generator.normal(0, np.sqrt(2 / (width + units)), (width, units)).astype(np.float32)
    return values @ numpyro.param(f"{name}_weights", jnp.asarray(start)) + numpyro.param(
        f"{name}_bias", jnp.zeros(units)
    )


def choose_target(
    rows: Rows, fits: Callable[[Column], bool], what: str, *, default: str = "", option: str = "target"
) -> str:
    """The column that a model predicts: the option `target`, `default`, or the last column for which `fits` holds.

    `fits` sees a complete column; `what` it asks for, errors say in words.
    """
    wanted = rows.option(option, default)
    found = [name for name, column in rows.columns.items() if fits(column)]
    if wanted:
        if wanted not in rows.columns:
            names = ", ".join(map(repr, rows.columns))
            raise ModelError(f"The {option} {wanted!r} is no column. The columns are {names}.")
        if wanted not in found and rows.strict:  # what discovery has made of it is no reason to stop a paid fit
            raise ModelError(f"The {option} {wanted!r} is a {rows.columns[wanted].kind}, and this model needs {what}.")
        return rows.pin(option, wanted)
    if not found:
        raise ModelError(
            f"This model needs {what} as its {option}, and the schema declares none. Declare it (kind, and levels), or "
            "use another template."
        )
    return rows.pin(option, found[-1])


def others(rows: Rows, *without: str) -> list[str]:
    """All columns but these, in their order."""
    return [name for name in rows.columns if name not in without]

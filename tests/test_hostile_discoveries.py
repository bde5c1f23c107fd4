"""Whatever is discovered, a fit that was accepted ends in a twin: nothing stops it once it is paid."""

import functools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import fitting
from twinify_lite.checkpoint import Checkpoint
from twinify_lite.errors import ModelError
from twinify_lite.ledger import Ledger
from twinify_lite.models import Groups, Linear, Missing, Mixture, check_model, cutpoints, ordinal, season
from twinify_lite.models.program import prepare
from twinify_lite.schema import Column, Schema

QUICK = {"steps": 3, "sampling_rate": 0.5}
KINDS = {
    "lab": "number",
    "rare": "category",
    "always": "number",
    "empty": "number",
    "blank": "category",
    "never": "datetime",
    "day": "datetime",
    "flag": "boolean",
    "change": "integer",
    "grade": "ordinal",
    "cost": "number",
}


def sparse(rows):
    """Mostly missing numbers, levels that few share, constants, columns of nothing."""
    rng = np.random.default_rng(0)
    few = rng.random(rows) < 0.08
    return pd.DataFrame(
        {
            "lab": np.where(few, rng.normal(120, 20, rows), np.nan),
            "rare": [f"code {row // 2}" for row in range(rows)],
            "always": 7.5,
            "empty": np.nan,
            "blank": pd.Series([None] * rows, dtype="string"),
            "never": pd.Series([pd.NaT] * rows, dtype="datetime64[s]"),
            "day": pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(rows) % 900, "D")).where(few),
            "flag": pd.array(rng.random(rows) < 0.5, "boolean"),
            "change": rng.integers(-9, 9, rows),
            "grade": [f"grade {row % 7}" if few[row] else "fair" for row in range(rows)],
            "cost": rng.normal(0, 40, rows),
        }
    )


TABLES = {
    "many rows": (sparse(3000), 50.0),
    "a tiny epsilon": (sparse(300), 0.01),
    "three rows": (sparse(3), 1.0),
    "one row, again and again": (sparse(1).loc[[0] * 3000].reset_index(drop=True), 50.0),
    "missing cells": (pd.DataFrame({name: [None] * 3000 for name in KINDS}).astype("string"), 50.0),
}
OTHERS = [name for name in TABLES if name != "missing cells"]
CHANGES = {"grade": {"levels": ("poor", "fair", "good")}, "cost": {"min": 0.0}}
SCHEMA = Schema(tuple(Column(name=name, kind=kind, **CHANGES.get(name, {})) for name, kind in KINDS.items()))


def each(rows, without=()):
    """All columns but `without`, each by itself."""
    columns = {name: column for name, column in rows.columns.items() if name not in without}
    latents = {name: alone(rows, name) for name in columns}
    with rows:
        for name in columns:
            numpyro.sample(name, latents[name])


def alone(rows, name):
    if rows.columns[name].is_levelled:
        shape = [rows.levels(name)]
        return dist.Categorical(logits=numpyro.sample(f"{name}_logits", dist.Normal(0, 2).expand(shape).to_event(1)))
    return dist.Normal(numpyro.sample(f"{name}_mean", dist.Normal(0, 1)), 0.3)


def named(rows):
    each(rows, ["lab", "rare"])
    high = numpyro.sample("high", dist.Normal(0, 1))
    logits = numpyro.sample("logits", dist.Normal(0, 1).expand([rows.levels("rare")]).to_event(1))
    with rows:
        numpyro.sample("lab", dist.Normal(high, 0.3))
        numpyro.sample("rare", dist.Categorical(logits=logits))


def regression(rows):
    line = Linear(rows, "cost", on=["lab", "rare", "day", "flag", "empty", "blank"])
    each(rows, ["cost"])
    with rows:
        numpyro.sample("cost", dist.Normal(line(rows), 0.3))


def gaps(rows):
    absent = {name: Missing(rows, name, on=["flag"]) for name in ("lab", "empty", "never", "always")}
    each(rows, absent)
    with rows:
        for name, state in absent.items():
            state.sample(rows)
            numpyro.sample(name, dist.StudentT(4.0, 0.0, 0.3))


def states(rows):
    """Where cells are missing is said by hand, by a site that some discoveries have no use for."""
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(rows.states("lab"))))
    each(rows, ["lab"])
    with rows:
        numpyro.sample("lab:state", dist.Categorical(shares))
        numpyro.sample("lab", dist.Normal(0.0, 0.3))


def groups(rows):
    """Partial pooling by levels that may all be rare, and by none at all."""
    offsets = {name: Groups(rows, f"cost by {name}", by=name) for name in ("rare", "blank", "flag")}
    each(rows, ["cost"])
    with rows:
        numpyro.sample("cost", dist.Normal(sum(offset(rows) for offset in offsets.values()), 0.3))


def positive(rows):
    """Distributions of other supports than the discovered ranges have."""
    numbers = {"lab": dist.LogNormal(-1.0, 0.5), "always": dist.Gamma(2.0, 4.0), "cost": dist.Exponential(3.0)}
    numbers |= {"empty": dist.Beta(2.0, 2.0), "change": dist.Poisson(3.0), "day": dist.Uniform(-1.0, 1.0)}
    each(rows, numbers)
    with rows:
        for name, distribution in numbers.items():
            numpyro.sample(name, distribution)


def kinds(rows):
    centres = numpyro.sample("centres", dist.Normal(0, 1).expand([2]).to_event(1))
    logits = numpyro.sample("logits", dist.Normal(0, 1).expand([2, rows.levels("rare")]).to_event(2))
    each(rows, ["lab", "rare"])
    mixture = Mixture(jnp.zeros(2))
    with rows:
        mixture.sample(rows, "lab", dist.Normal(centres, 0.3))
        mixture.sample(rows, "rare", dist.Categorical(logits=logits))


def yearly(rows):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([2]).to_event(1))
    each(rows, ["cost"])
    with rows:
        numpyro.sample("cost", dist.Normal(season(rows, "day") @ weights, 0.3))


def ordered(rows):
    steps = cutpoints(rows, "grade")
    weight = numpyro.sample("weight", dist.Normal(0, 1))
    each(rows, ["grade"])
    with rows:
        numpyro.sample("grade", ordinal(weight * rows["cost"], steps))


def described(rows):
    """Reads ranges and levels, as models do."""
    each(rows, ["lab", "rare"])
    lab, rare = rows.columns["lab"], rows.columns["rare"]
    scale = (lab.max - lab.min) / (1 + abs(lab.max) + abs(lab.min))
    centre = numpyro.sample("centre", dist.Normal(0, 1 + scale))
    prior = jnp.linspace(0.0, 1.0, len(rare.levels) + 1 + bool(rare.nullable))
    with rows:
        numpyro.sample("lab", dist.Normal(centre, 0.3))
        numpyro.sample("rare", dist.Categorical(logits=prior))


OWN = [named, regression, gaps, states, groups, positive, kinds, yearly, ordered, described]
TEMPLATES = [
    "bayesian_network",
    "gaussian_mixture",
    "hierarchical_logistic_regression",
    "independent",
    "linear_regression",
    "logistic_regression",
    "mixture",
    "poisson_regression",
    "vae",
]
LINES = Schema(
    tuple(
        column.replace(distribution=line) if line else column
        for column in SCHEMA.columns
        for line in [{"lab": "Gamma", "cost": "Hurdle(LogNormal)", "change": "ZeroInflated(Poisson)"}.get(column.name)]
    )
)
MODELS = {
    **{model.__name__: (model, SCHEMA) for model in OWN},
    **{name: (name, SCHEMA) for name in TEMPLATES},
    "lines": ("lines", LINES),
}


def ended(name, table, columns=tuple(KINDS), **changes):
    model, schema = MODELS.get(name, (name, SCHEMA))
    frame, epsilon = TABLES[table]
    frame, schema = frame[list(columns)], Schema(tuple(schema[name] for name in columns))
    options = {"particles": 256} if name == "auto" else QUICK
    usual = {"epsilon": epsilon, "options": options, "insecure_seed": 3}
    return tw.fit(frame, model=model, schema=schema, **{**usual, **changes})


NARROW = ("lab", "rare", "blank")


@functools.cache
def narrow(table):
    return ended("named", table, columns=NARROW)


@functools.cache
def discovered(table, lines):
    """The schema that a fit of a declared model finds in a table."""
    request = fitting.Request(
        epsilon=TABLES[table][1], delta=1e-6, model=named, relation="add-remove", target=None, options=QUICK, seed=3
    )
    ready = request.prepare(TABLES[table][0], LINES if lines else SCHEMA, ())
    run = fitting.Run.start(request, ready, Checkpoint(None), lambda *_: None)
    return run.discover(ready)


def require_sound(twin):
    assert list(twin.sample(20, seed=1)) == list(KINDS)
    assert all(twin.schema[name].is_modelled for name in KINDS)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_program_for_whatever_is_discovered(name, table):
    model, schema = MODELS[name]
    complete = discovered(table, schema is LINES)
    assert [column.name for column in complete.modelled] == list(KINDS)
    prepare(tw.models.resolve(model, schema).source, complete, {})


@pytest.mark.parametrize("table", ["many rows", "missing cells"])
def test_a_fit_that_was_accepted_ends_in_a_twin(table):
    """The fast version of the slow tests below: three columns, compiled in seconds."""
    twin = narrow(table)
    assert list(twin.sample(20, seed=1)) == list(NARROW)
    assert [column.name for column in twin.schema.modelled] == list(NARROW)


def test_kept_columns_are_told_with_what_to_declare():
    twin = narrow("missing cells")
    assert any(note.startswith("Guessed ranges (1): 'lab'.") for note in twin.notes)
    assert any(note.startswith("Without levels (2): 'rare', 'blank'.") for note in twin.notes)
    assert not any("small for this epsilon" in note for note in twin.notes)
    assert twin.sample(200, seed=1)["lab"].isna().mean() > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", MODELS)
def test_every_fit_that_was_accepted_ends_in_a_twin(name, table):
    require_sound(ended(name, table))


@pytest.mark.parametrize("table", ["missing cells", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_the_automatic_model_ends_in_a_twin_whatever_is_discovered(table):
    twin = ended("auto", table)
    assert list(twin.sample(20, seed=1)) == [name for name in KINDS if twin.schema[name].kind != "identifier"]


def three_levels(rows):
    each(rows, ["rare"])
    with rows:
        numpyro.sample("rare", dist.Categorical(logits=jnp.zeros(3)))


def four_levels(rows):
    each(rows, ["rare"])
    with rows:
        numpyro.sample("rare", dist.Categorical(logits=jnp.zeros(4)))


def first_level(rows):
    each(rows, ["rare"])
    assert rows.columns["rare"].levels[0]
    with rows:
        numpyro.sample("rare", dist.Categorical(logits=jnp.zeros(rows.levels("rare"))))


FIXED = {
    "as many levels as are made up": (three_levels, "Column 'rare' has levels that are still to be found"),
    "and one for missing cells": (four_levels, "Column 'rare' has levels that are still to be found"),
    "a level that need not be": (first_level, "first_level, line .*declare those of its columns in the schema"),
}


@pytest.mark.parametrize(("model", "said"), FIXED.values(), ids=FIXED)
def test_a_model_that_some_discoveries_would_stop_is_refused_before_anything_is_paid(monkeypatch, model, said):
    monkeypatch.setattr(Ledger, "spend", lambda *_: pytest.fail("Something was paid for."))
    assert not check_model(model, SCHEMA).is_sound
    with pytest.raises(ModelError, match=said):
        tw.fit(TABLES["three rows"][0], epsilon=1.0, model=model, schema=SCHEMA, options=QUICK)


@pytest.mark.parametrize("levels", [3, 4])
def test_a_model_of_fixed_levels_is_sound_where_they_are_declared(levels):
    model = {3: three_levels, 4: four_levels}[levels]
    rare = Column(name="rare", kind="category", levels=tuple("abcd"[:levels]), nullable=False)
    schema = Schema((SCHEMA["flag"], rare))
    assert check_model(model, schema).is_sound


class Stopped(BaseException):
    pass


@pytest.mark.parametrize(
    "written", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_a_fit_that_is_interrupted_ends_in_a_twin_too(tmp_path, monkeypatch, written):
    kept = {"checkpoint": tmp_path / "checkpoint", "ledger": tmp_path / "ledger.json"}
    kept |= {"insecure_seed": None, "epsilon": 5.0}
    write, times = Checkpoint._write, iter(range(1, 100))

    def stopping(self):
        write(self)
        if next(times) == written:
            raise Stopped

    monkeypatch.setattr(Checkpoint, "_write", stopping)
    with pytest.raises(Stopped):
        ended("named", "missing cells", NARROW, **kept)
    monkeypatch.setattr(Checkpoint, "_write", write)
    assert list(ended("named", "missing cells", NARROW, **kept, resume=True).sample(20)) == list(NARROW)

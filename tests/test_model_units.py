"""Columns in the units of distributions and back; helpers; distribution lines."""

import datetime

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from model_cases import boolean, category, fit, integer, number, sample, schema_of

import twinify_lite as tw
from twinify_lite.encode import encode
from twinify_lite.errors import ModelError
from twinify_lite.models import check_model, hurdle, likelihoods, resolve, units, zero_inflated
from twinify_lite.models.guessing import made_up_schema
from twinify_lite.models.program import made_up_arrays
from twinify_lite.schema import KINDS, Column, Schema

DATE = Column(
    name="c",
    kind="datetime",
    min=datetime.date(2000, 1, 1),
    max=datetime.date(2020, 1, 1),
    nullable=True,
    dtype="date32",
)
ROUND_TRIPS = [
    (number("c", decimals=2), dist.Normal(0, 1), "place"),
    (number("c", decimals=2, nullable=True, special=("N", -1)), dist.StudentT(3, 0, 1), "place"),
    (number("c", min=0.01, decimals=2, scale="log"), dist.LogNormal(0, 1), "share"),
    (number("c", decimals=1), hurdle(dist.Gamma(1.0, 1.0), 0.5), "share"),
    (number("c", decimals=2), dist.Beta(1.0, 1.0), "interval"),
    (number("c", decimals=2), likelihoods.bounded(0.0, 1.0), "interval"),
    (integer("c"), dist.Poisson(1.0), "count"),
    (integer("c", nullable=True), zero_inflated(dist.Poisson(1.0), 0.2), "count"),
    (integer("c", min=-7, max=1_000_000), dist.Normal(0, 1), "place"),
    (integer("c", max=10), dist.Binomial(10, 0.5), "count"),
    (DATE, dist.Normal(0, 1), "place"),
    (DATE, dist.Gamma(1.0, 1.0), "share"),
    (category("c", ("a", "b", "c"), nullable=True), dist.Categorical(jnp.ones(4) / 4), "code"),
    (category("c", ("a", "b", "c"), nullable=True), dist.Categorical(jnp.ones(3) / 3), "code"),
    (boolean("c", nullable=True), dist.Bernoulli(0.5), "code"),
    (category("c", ("a", "b", "c"), kind="ordinal"), dist.OrderedLogistic(0.0, jnp.array([-1.0, 1.0])), "code"),
]


@pytest.mark.parametrize(("column", "distribution", "name"), ROUND_TRIPS)
def test_a_column_comes_back_from_its_unit_as_it_was(column, distribution, name):
    schema = schema_of(column)
    table = tw.decode(schema, made_up_arrays(schema, 500))
    unit = units.choose(column, distribution.support, has_state=False)
    assert unit.name == name
    sites = units.encode(column, unit, encode(schema, table))
    assert jnp.all(jnp.isfinite(distribution.log_prob(sites["c"])))
    back = tw.decode(schema, units.decode(column, unit, sites))
    assert back.equals(table)
    if unit.states > 1:
        assert set(np.unique(sites["c:state"])) == set(range(unit.states))
        assert (sites["c"][sites["c:state"] > 0] == unit.filler).all()


def test_what_leaves_the_range_is_clamped():
    column = number("c")
    for distribution, drawn in ((dist.Normal(0, 1), [-9.0, 9.0]), (dist.LogNormal(0, 1), [0.0, 9.0])):
        unit = units.choose(column, distribution.support, has_state=False)
        arrays = units.decode(column, unit, {"c": np.array([*drawn, np.nan], np.float32)})
        assert tw.decode(schema_of(column), arrays)["c"].to_pylist()[:2] == [0.0, 100.0]


def test_a_range_that_was_discovered_below_zero_is_clamped_and_not_refused():
    column, support = number("c", min=-5.0), dist.Gamma(1.0, 1.0).support
    with pytest.raises(ModelError, match="begins below 0"):
        units.choose(column, support, has_state=False)
    unit = units.choose(column, support, has_state=False, strict=False)
    assert units.encode(column, unit, {"c": np.array([-1.0, 1.0])})["c"] == pytest.approx([1e-7, 1.0])


def test_everything_open_can_be_made_up():
    columns = [Column(name=kind, kind=kind) for kind in KINDS if kind not in ("ordinal", "constant")]
    columns.append(Column(name="later", kind="number", min=5, scale="log"))
    columns.append(Column(name="max", kind="integer", max=-3))
    columns.append(Column(name="since", kind="datetime", max=datetime.date(1, 6, 1)))
    made = made_up_schema(Schema(tuple(columns)))
    assert made.is_complete


def test_a_constraint_on_a_level_that_is_yet_to_be_found_does_not_stop_a_model():
    schema = Schema.from_toml(
        "constraints = [\"if age < 15 then smoker == 'too young'\"]\n"
        '[columns.age]\nkind = "integer"\n[columns.smoker]\nkind = "category"\n'
    )
    assert made_up_schema(schema).is_complete
    assert check_model("independent", schema).is_sound


# -- helpers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "distribution",
    [hurdle(dist.Poisson(1.5), 0.3), hurdle(dist.LogNormal(0.0, 0.5), 0.3), zero_inflated(dist.Poisson(1.5), 0.3)],
)
def test_zeros_are_drawn_as_often_as_the_density_says(distribution):
    drawn = distribution.sample(jax.random.key(0), (20_000,))
    assert float((drawn == 0).mean()) == pytest.approx(float(jnp.exp(distribution.log_prob(0))), abs=0.01)


def test_a_hurdle_of_counts_is_a_distribution():
    distribution = hurdle(dist.Poisson(1.5), 0.3)
    assert float(jnp.exp(distribution.log_prob(jnp.arange(40))).sum()) == pytest.approx(1.0, abs=1e-5)
    assert jnp.isfinite(jax.grad(lambda rate: hurdle(dist.Poisson(rate), 0.3).log_prob(0))(1.5))


def test_a_blend_is_the_mixture_of_its_components():
    blend = likelihoods.Blend(jnp.log(jnp.array([0.3, 0.7])), dist.Normal(jnp.array([-1.0, 2.0]), 0.5))
    each = jnp.exp(dist.Normal(jnp.array([-1.0, 2.0]), 0.5).log_prob(0.4))
    assert float(jnp.exp(blend.log_prob(0.4))) == pytest.approx(float(0.3 * each[0] + 0.7 * each[1]))
    assert float(blend.sample(jax.random.key(0), (20_000,)).mean()) == pytest.approx(1.1, abs=0.05)


@pytest.mark.parametrize("how", ["probs", "logits"])
def test_levels_of_a_blend_are_drawn_as_often_as_its_density_says(how):
    frequencies = jnp.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    given = {how: frequencies if how == "probs" else jnp.log(frequencies)}
    weights = jnp.log(jnp.tile(jnp.array([[0.25, 0.75], [0.9, 0.1]]), (20_000, 1)))
    blend = likelihoods.Blend(weights, dist.Categorical(**given))
    drawn = blend.sample(jax.random.key(0)).reshape(20_000, 2)
    for level in range(3):
        wanted = jnp.exp(blend.log_prob(jnp.full(40_000, level))[:2])
        np.testing.assert_allclose((drawn == level).mean(axis=0), wanted, atol=0.015)


def test_what_lies_far_out_of_its_range_lies_beyond_it():
    def beyond(column, unit, values, **states):
        return units.beyond(column, unit, {column.name: np.array(values), **states}).tolist()

    steps = integer("n", min=1, max=5)  # ends at 0.5 and 5.5; the margin is a quarter of that
    assert beyond(steps, units.Unit("place"), [-1.9, -1.8, 1.8, 1.9, np.nan]) == [True, False, False, True, True]
    assert beyond(steps, units.Unit("count"), [-1, 0, 6, 7]) == [True, False, False, True]
    assert beyond(integer("n", min=0, max=10), units.Unit("share"), [0.0, 1.3, 1.4]) == [False, False, True]
    free = number("x", min=0, max=10)
    assert beyond(free, units.Unit("place"), [-1.51, -1.5, 1.5, 1.51]) == [True, False, False, True]
    assert beyond(free, units.Unit("interval"), [9.0]) == [False]
    assert beyond(category("c"), units.Unit("code"), [9]) == [False]
    assert beyond(free, units.Unit("place", states=2), [3.0, 3.0], **{"x:state": np.array([0, 1])}) == [True, False]


@pytest.mark.parametrize(
    ("column", "unit", "values", "wanted"),
    [
        (integer("n", min=1, max=5), "place", [-1.3, -1.2, 0.2, 1.2, 1.3, 2.0], [1, 1, 3, 5, 5, 4]),
        (integer("n", min=1, max=5), "count", [0, -1, 1, 5, 6, 7], [1, 2, 1, 5, 5, 4]),
        (integer("n", min=0, max=10), "share", [0.0, 0.5, 1.1, 1.2], [0, 5, 10, 9]),
        (number("x", min=0, max=10), "place", [-1.2, -1.0, 1.0, 1.2, 21.0], [1, 0, 10, 9, 10]),
    ],
)
def test_what_lies_beyond_an_end_is_folded_inside_and_piles_up_nowhere(column, unit, values, wanted):
    arrays = units.decode(column, units.Unit(unit), {column.name: np.array(values)})
    decoded = tw.decode(schema_of(column), arrays).column(column.name).to_numpy()
    np.testing.assert_allclose(decoded, wanted, atol=1e-6)


# -- distribution lines -----------------------------------------------------------------------------------------------

LINES = """
[columns.age]
kind = "integer"
min = 0
max = 100
nullable = true
distribution = "Poisson"

[columns.cost]
kind = "number"
min = 0
max = 100
decimals = 1
distribution = "Hurdle( LogNormal )"

[columns.grade]
kind = "ordinal"
levels = ["low", "middle", "high"]
distribution = "Ordinal"
"""


def test_lines_round_trip_through_toml():
    schema = Schema.from_toml(LINES)
    assert schema["cost"].distribution == "Hurdle(LogNormal)"
    assert Schema.from_toml(schema.to_toml()) == schema


def test_no_model_and_lines_make_a_model_of_them():
    assert resolve(None, Schema.from_toml(LINES)).name == "lines"


EVERY = {
    "number": ["Normal", "TruncatedNormal", "StudentT", "Laplace", "Beta", "LogNormal", "Gamma", "Exponential"],
    "integer": ["Poisson", "NegativeBinomial", "ZeroInflated(Poisson)", "Hurdle(Poisson)"],
    "boolean": ["Bernoulli"],
    "category": ["Categorical"],
}


def every_line():
    return Schema(
        tuple(
            Column(name=name, kind=kind, distribution=name, nullable=name in ("Beta", "Bernoulli"))
            for kind, names in EVERY.items()
            for name in names
        )
    )


def test_every_distribution_makes_a_model():
    schema = every_line()
    plan = resolve(None, schema).plan(schema, 1000, {"components": 2})
    assert plan.settings["components"] == 2


@pytest.mark.slow
def test_every_distribution_has_finite_gradients_at_its_start():
    assert str(check_model(None, every_line(), options={"components": 2})).startswith("lines fits")


def test_lines_are_fitted_and_sampled():
    generator = np.random.default_rng(0)
    rows = 3000
    frame = pd.DataFrame(
        {
            "age": pd.array(generator.poisson(20, rows), "Int64"),
            "cost": np.where(generator.random(rows) < 0.4, 0, np.minimum(generator.lognormal(2, 0.5, rows), 99)).round(
                1
            ),
            "grade": generator.choice(["low", "middle", "high"], rows, p=[0.5, 0.3, 0.2]),
        }
    )
    frame.loc[generator.random(rows) < 0.25, "age"] = pd.NA
    schema = Schema.from_toml(LINES)
    schema = schema.replace_columns(column.replace(nullable=bool(column.nullable)) for column in schema.columns)
    quick = {"steps": 300, "sampling_rate": 0.5, "learning_rate": 0.08, "components": 2}
    drawn = sample(fit(None, schema, frame, **quick))
    age = pd.to_numeric(drawn["age"])
    assert age.isna().mean() == pytest.approx(0.25, abs=0.05)
    assert age.mean() == pytest.approx(20, abs=1.5)
    cost = pd.to_numeric(drawn["cost"])
    assert (cost == 0).mean() == pytest.approx(0.4, abs=0.06)
    assert np.log(cost[cost > 0]).mean() == pytest.approx(2, abs=0.15)
    shares = drawn["grade"].value_counts(normalize=True)
    assert [shares[level] for level in ("low", "middle", "high")] == pytest.approx([0.5, 0.3, 0.2], abs=0.07)

"""Models of `distribution` lines: columns of one family are worked out together, and mean what they meant apart."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from model_cases import fit, integer, number, schema_of
from numpyro import handlers

from twinify_lite.errors import ModelError
from twinify_lite.models import Mixture, families, hurdle
from twinify_lite.models.lines import source_from_lines
from twinify_lite.models.program import made_up_arrays, prepare
from twinify_lite.posterior import Posterior
from twinify_lite.schema import Column

VALUES = jnp.array([0.05, 0.3, 0.9])
COUNTS = jnp.array([0, 1, 7])
LOC, SCALE = jnp.array([-1.0, 0.2]), jnp.array([0.4, 3.0])
MEAN = jax.nn.sigmoid(LOC)
SAME = {
    "StudentT": (families.StudentT(LOC, SCALE), dist.StudentT(4.0, LOC, SCALE), VALUES),
    "Gamma": (families.Gamma(LOC, SCALE), dist.Gamma(SCALE, SCALE / jnp.exp(LOC)), VALUES),
    "Beta": (families.Beta(LOC, SCALE), dist.Beta(MEAN * SCALE, (1 - MEAN) * SCALE), VALUES),
    "Poisson": (families.Poisson(LOC), dist.Poisson(jnp.exp(LOC)), COUNTS),
    "NegativeBinomial": (
        families.NegativeBinomial(LOC, SCALE),
        dist.NegativeBinomial2(jnp.exp(LOC), SCALE),
        COUNTS,
    ),
    "Categorical": (
        families.Categorical(jnp.array([[0.0, 1.0, -2.0], [3.0, 0.0, 0.5]])),
        dist.Categorical(logits=jnp.array([[0.0, 1.0, -2.0], [3.0, 0.0, 0.5]])),
        jnp.array([0, 1, 2]),
    ),
    "Ordinal": (
        families.Ordinal(LOC, jnp.array([[-1.0, 0.5]] * 2)),
        dist.OrderedLogistic(LOC, jnp.array([[-1.0, 0.5]] * 2)),
        jnp.array([0, 1, 2]),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_density_in_fewer_operations_is_numpyros(name):
    ours, numpyros, values = SAME[name]
    np.testing.assert_allclose(ours.log_prob(values[:, None]), numpyros.log_prob(values[:, None]), rtol=2e-5, atol=2e-6)
    drawn = np.asarray(ours.sample(jax.random.key(1), (20_000,)))
    theirs = np.asarray(numpyros.sample(jax.random.key(2), (20_000,)))
    np.testing.assert_allclose(drawn.mean(0), theirs.mean(0), atol=5 * theirs.std() / 100)


def levels(name, **changes):
    return Column(name=name, kind="ordinal", levels=("low", "mid", "high"), dtype="string", **changes)


MIXED = schema_of(
    number("a", distribution="Normal", nullable=True),
    integer("n", distribution="ZeroInflated(Poisson)"),
    number("b", distribution="Normal"),
    levels("grade", distribution="Ordinal", nullable=True),
    integer("m", distribution="Hurdle(Poisson)", nullable=True),
)


def program_of(schema, **options):
    return prepare(source_from_lines(schema), schema, options)


def density(program, latents, table):
    """Of each row: what all its sites add up to."""
    rows = len(next(iter(table.values())))
    fixed = handlers.substitute(handlers.seed(program.model, jax.random.key(0)), data=latents)
    sites = handlers.trace(fixed).get_trace(table, rows)
    return sum(s["fn"].log_prob(s["value"]) for s in sites.values() if s["type"] == "sample" and s["is_observed"])


def column_by_column(latents, table):
    """The same mixture, by `Mixture`, which takes one column after another."""
    loc, scale, zero = (latents[f"components:{role}"] for role in ("loc", "scale", "zero"))
    cut = latents["components:first_cutpoint_3"][0], latents["components:gaps_3"][0]
    cut = jnp.concatenate([cut[0], cut[0] + cut[1]])
    state = latents["components:states_2"]
    # Rows of `loc` are in the order of the groups: the two of Normal, then the others.
    parts = {
        "a:state": dist.Categorical(logits=state[0]),
        "grade:state": dist.Categorical(logits=state[1]),
        "m:state": dist.Categorical(logits=state[2]),
        "a": dist.Normal(loc[0], scale[0]),
        "b": dist.Normal(loc[1], scale[1]),
        "n": dist.ZeroInflatedPoisson(zero[0], jnp.exp(loc[2])),
        "grade": dist.OrderedLogistic(loc[3], cut),
        "m": hurdle(dist.Poisson(jnp.exp(loc[4])), zero[1]),
    }

    class Given:
        columns = frozenset(column.name for column in MIXED.columns)

        @staticmethod
        def present(name):
            return table[f"{name}:state"] == 0 if f"{name}:state" in table else jnp.ones(len(table[name]), bool)

    mixture = Mixture(jnp.log(latents["components:weights"]))
    total = 0.0
    for name, part in parts.items():
        with handlers.seed(rng_seed=0), handlers.trace() as sites, handlers.substitute(data={name: table[name]}):
            mixture.sample(Given, name, part)
        each = sites[name]["fn"].log_prob(table[name])
        total = total + jnp.where(Given.present(name), each, 0.0)
    return total


def test_the_density_of_a_row_is_that_of_the_mixture_column_by_column():
    program = program_of(MIXED, components=3)
    table = {name: jnp.asarray(array) for name, array in program.encode(made_up_arrays(MIXED, 40)).items()}
    assert any((table[name] > 0).any() for name in table if name.endswith(":state"))
    latents = program.start
    np.testing.assert_allclose(density(program, latents, table), column_by_column(latents, table), rtol=1e-4, atol=1e-4)


def test_the_program_of_many_columns_is_not_much_longer_than_that_of_a_few():
    def length(columns):
        schema = schema_of(*(integer(f"c{i}", distribution="NegativeBinomial") for i in range(columns)))
        program = program_of(schema)
        table = program.encode(made_up_arrays(schema, 1))
        slope = jax.grad(lambda latents: density(program, latents, table)[0])
        return str(jax.make_jaxpr(slope)(program.start)).count("\n")

    assert length(24) < 2 * length(3)


def test_rows_are_drawn_from_one_component_each():
    schema = schema_of(*(number(name, distribution="Normal") for name in "abc"), integer("n", distribution="Poisson"))
    program = program_of(schema, components=2)
    latents = {
        "components:weights": jnp.array([0.3, 0.7]),
        "components:loc": jnp.array([[-0.5, 0.5]] * 3 + [[0.0, 3.0]]),
        "components:scale": jnp.full((3, 2), 0.01),
    }
    drawn = program.draw(latents, jax.random.key(3), 4000)
    second = np.asarray(drawn["a"]) > 0
    assert second.mean() == pytest.approx(0.7, abs=0.03)
    for name in "bc":
        assert np.array_equal(np.asarray(drawn[name]) > 0, second)
    assert np.asarray(drawn["n"])[second].mean() == pytest.approx(np.exp(3.0), rel=0.02)
    assert np.asarray(drawn["n"])[~second].mean() == pytest.approx(1.0, abs=0.1)


def test_each_column_of_an_array_of_latents_has_a_unit_of_its_own():
    schema = schema_of(number("wide", distribution="Normal"), integer("count", distribution="Poisson", max=1000))
    scaled = program_of(schema, components=2).scaled()
    wide, count = scaled.scales["components:loc"][:, 0]
    assert wide > 3 * count


def test_a_twin_of_other_latents_is_refused():
    schema = schema_of(number("a", distribution="Normal"))
    table = pd.DataFrame({"a": np.linspace(10, 90, 200)})
    posterior = fit(None, schema, table, steps=2, components=2)
    meta, arrays, texts = posterior.parts()
    renamed = {**meta, "latents": [name.replace("components:loc", "a_loc") for name in meta["latents"]]}
    with pytest.raises(ModelError, match="another version of this package"):
        Posterior.from_parts(renamed, arrays, texts, schema)
    assert Posterior.from_parts(meta, arrays, texts, schema).draws.keys() == posterior.draws.keys()

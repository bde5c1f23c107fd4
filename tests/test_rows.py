"""Which site belongs to a person, and models that break the contract are refused by the name of the site."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import pytest
from fits import KEY, free_receipt
from jax.custom_batching import custom_vmap
from jax.extend import core
from jax.interpreters import batching
from numpyro import plate, sample
from numpyro.infer import Trace_ELBO, autoguide
from numpyro.optim import Adam

import twinify_lite as tw
from twinify_lite.dpsvi import rows
from twinify_lite.dpsvi.row_program import trace_row
from twinify_lite.errors import ModelError

X, Y = jnp.ones((10, 3)), jnp.ones(10)


def weights():
    return sample("w", dist.Normal(0, 4).expand([3]).to_event(1))


def structure(model, guide=None, columns=(X, Y), **kwargs):
    return rows.find_structure(model, guide or autoguide.AutoNormal(model), columns, kwargs)


def paper_style(x, y, N):
    w = weights()
    with plate("batch", N, x.shape[0]):
        sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def numpyro_style(x, y):
    w, s = weights(), sample("s", dist.HalfNormal(1.0))
    with plate("rows", len(x), subsample_size=2) as index:
        sample("y", dist.Normal(x[index] @ w, s), obs=y[index])


def whole_table_style(x, y):
    w = weights()
    with plate("rows", 10):
        sample("y", dist.Normal(x @ w, 1.0), obs=y)


def nested(x, y):
    with plate("features", 3):
        w = sample("w", dist.Normal(0, 4))
    with plate("rows", 100, len(x), dim=-2), plate("columns", 3, dim=-1):
        sample("x", dist.Normal(w, 1.0), obs=x)


def with_anchor(x, y, anchor):
    w = weights()
    sample("anchor", dist.Normal(jnp.mean(w), 0.1), obs=anchor)
    with plate("rows", 100, len(x)):
        sample("y", dist.Normal(x @ w, 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "row_plate", "latents", "kwargs"),
    [
        (paper_style, "batch", {"w"}, {"N": 10}),
        (numpyro_style, "rows", {"w", "s"}, {}),
        (whole_table_style, "rows", {"w"}, {}),
        (nested, "rows", {"w"}, {}),
        (with_anchor, "rows", {"w"}, {"anchor": 0.3}),
    ],
)
def test_the_row_plate_is_found(model, row_plate, latents, kwargs):
    found = structure(model, **kwargs)
    assert found.plate == row_plate
    assert found.latents == latents
    assert found.local == frozenset()


def test_local_latents_with_an_amortised_guide_are_a_persons_own():
    def model(x):
        with plate("rows", 100, len(x)):
            z = sample("z", dist.Normal(0, 1))
            sample("x", dist.Normal(z[:, None], 1.0).to_event(1), obs=x)

    def guide(x):
        slope = numpyro.param("slope", jnp.zeros(3))
        with plate("rows", 100, len(x)):
            sample("z", dist.Normal(x @ slope, 1.0))

    found = structure(model, guide, (X,))
    assert found.local == {"z"}
    assert found.latents == frozenset()


def outside(x, y):
    sample("y", dist.Normal(x @ weights(), 1.0).to_event(1), obs=y)


def centred(x, y):
    w = weights()
    with plate("rows", 100, len(x)):
        sample("y", dist.Normal((x - x.mean(0)) @ w, 1.0), obs=y)


def batch_normalised(x, y):
    w = weights()
    hidden = x @ w
    with plate("rows", 100, len(x)):
        sample("y", dist.Normal(hidden / (1e-3 + jnp.std(hidden)), 1.0), obs=y)


def neighbour(x, y):
    w = weights()
    with plate("rows", 100, len(x)):
        sample("y", dist.Normal(x @ w + jnp.roll(y, 1), 1.0), obs=y)


def data_prior(x, y):
    w = sample("w", dist.Normal(jnp.mean(x, 0), 4).to_event(1))
    with plate("rows", 100, len(x)):
        sample("y", dist.Normal(x @ w, 1.0), obs=y)


def row_latent_outside(x, y):
    w = weights()
    z = sample("z", dist.Normal(0, 4).expand([len(x)]).to_event(1))
    with plate("rows", 100, len(x)):
        sample("y", dist.Normal(x @ w + z, 1.0), obs=y)


def row_latent_inside(x, y):
    w = weights()
    with plate("rows", 100, len(x)):
        z = sample("z", dist.Normal(0, 1))
        sample("y", dist.Normal(x @ w + z, 1.0), obs=y)


def discrete(x, y):
    with plate("rows", 100, len(x)):
        z = sample("z", dist.Bernoulli(0.5))
        sample("y", dist.Normal(z, 1.0), obs=y)


def penalty(x, y):
    w = weights()
    with plate("rows", 100, len(x)):
        sample("y", dist.Normal(x @ w, 1.0), obs=y)
    numpyro.factor("penalty", -jnp.sum(y**2))


def row_parameter(x, y):
    offset = numpyro.param("offset", jnp.zeros(len(x)))
    with plate("rows", 100, len(x)):
        sample("y", dist.Normal(x @ weights_in_plate() + offset, 1.0), obs=y)


def weights_in_plate():
    return jnp.ones(3)


def unused(x, y):
    weights()
    with plate("rows", 100, len(x)):
        sample("noise", dist.Normal(0, 1), obs=jnp.zeros(1))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (outside, "'y' observes the table outside a plate"),
        (centred, "'y' mixes rows"),
        (batch_normalised, "'y' mixes rows"),
        (neighbour, "'y' mixes rows"),
        (data_prior, "'w' of the model depends on the rows"),
        (row_latent_outside, "'z' has a shape that follows the number of rows"),
        (row_latent_inside, r"\['z'\] belong to one person each"),
        (discrete, "'z' is a discrete latent"),
        (penalty, "'penalty' observes the table outside a plate"),
        (row_parameter, "'offset' has a shape that follows the number of rows"),
        (unused, "No observed site of the model depends on the rows"),
    ],
)
def test_a_model_that_breaks_the_contract_is_refused_by_the_name_of_its_site(model, words):
    with pytest.raises(ModelError, match=words):
        structure(model)


def test_a_guide_that_reads_the_rows_for_a_global_latent_is_refused():
    def guide(x, y, N):
        sample("w", dist.Normal(jnp.mean(x, 0), numpyro.param("s", jnp.ones(3))).to_event(1))

    with pytest.raises(ModelError, match="'w' of the guide depends on the rows"):
        structure(paper_style, guide, N=10)


def own_latent(x):
    with plate("rows", 100, len(x)):
        z = sample("z", dist.Normal(0, 1))
        sample("x", dist.Normal(z[:, None], 1.0).to_event(1), obs=x)


def by_mean(x):
    with plate("rows", 100, len(x)):
        sample("z", dist.Normal(jnp.mean(x), 1.0))


def by_weighted_mean(x):
    """At the weight's initial value, nobody sees the others."""
    weight = numpyro.param("weight", 0.0)
    with plate("rows", 100, len(x)):
        sample("z", dist.Normal(weight * jnp.mean(x), 1.0))


def by_scale_of_all(x):
    """Without a plate, all rows stand in one site."""
    scale = numpyro.param("scale", 1.0, constraint=dist.constraints.positive)
    sample("z", dist.Normal(x[:, 0], scale * (1e-3 + jnp.std(x))).to_event(1))


@pytest.mark.parametrize("guide", [by_mean, by_weighted_mean, by_scale_of_all])
def test_a_guide_whose_rows_look_at_each_other_is_refused(guide):
    with pytest.raises(ModelError, match="Site 'z' of the guide mixes rows"):
        structure(own_latent, guide, (X,))


def test_a_guide_without_a_plate_may_predict_each_row_from_itself():
    def guide(x):
        sample("z", dist.Normal(x @ numpyro.param("slope", jnp.zeros(3)), 1.0).to_event(1))

    assert structure(own_latent, guide, (X,)).local == {"z"}


def test_a_model_that_mixes_rows_by_a_parameter_that_starts_at_0_is_refused():
    def model(x, y):
        slope = numpyro.param("slope", jnp.zeros(3))
        with plate("rows", 100, len(x)):
            sample("y", dist.Normal((x - x.mean(0)) @ slope, 1.0), obs=y)

    with pytest.raises(ModelError, match="Site 'y' mixes rows"):
        structure(model, lambda x, y: None)


def test_columns_must_be_positional_and_of_one_length():
    with pytest.raises(ModelError, match="by keyword"):
        rows.count_rows((X, jnp.ones(9)))
    with pytest.raises(ModelError, match="by keyword"):
        rows.count_rows(())
    with pytest.raises(ModelError, match="'y' has as many entries as num_obs_total"):
        rows.refuse_columns_by_keyword({"y": Y}, 10)
    rows.refuse_columns_by_keyword({"y": Y}, 11)
    rows.refuse_columns_by_keyword({"y": Y}, 10, ["y"])


def test_made_up_rows_meet_the_supports_of_usual_likelihoods():
    def model(count, share, label, simplex, positive):
        rate = sample("rate", dist.Gamma(2.0, 1.0))
        with plate("rows", 50, len(count)):
            sample("count", dist.Poisson(rate), obs=count)
            sample("share", dist.Beta(2.0, 2.0), obs=share)
            sample("label", dist.Bernoulli(0.4), obs=label)
            sample("simplex", dist.Dirichlet(jnp.ones(3)), obs=simplex)
            sample("positive", dist.LogNormal(0.0, 1.0), obs=positive)

    columns = (Y, Y, Y, X, Y)
    kinds = rows.choose_kinds(model, columns, {})
    made = rows.invent_rows(columns, kinds, 5)
    trace = rows.run(model, rows.jax.random.key(0), {}, made, {})
    for site in rows.samples(trace).values():
        assert jnp.all(jnp.isfinite(rows.log_prob(site)))


def test_a_known_structure_does_not_hide_a_model_that_talks_with_other_keywords():
    def model(x, loud=False):
        mean = sample("mean", dist.Normal(0, 1))
        with plate("rows", 20, subsample_size=x.shape[0]):
            told = jax.pure_callback(lambda cells: cells, jax.ShapeDtypeStruct(x.shape, x.dtype), x) if loud else x
            sample("x", dist.Normal(mean, 1), obs=told)

    guide = autoguide.AutoNormal(model)
    known = structure(model, guide, (Y,))

    def begun(loud):
        svi = tw.DPSVI(model, guide, Adam(0.1), Trace_ELBO(), free_receipt(), len(Y), structure=known, loud=loud)
        return svi.init(KEY, Y)

    assert begun(loud=False).step == 0
    with pytest.raises(ModelError, match="calls back to Python or prints"):
        begun(loud=True)


def batched_by_a_rule_of_its_own(cell):
    @custom_vmap
    def centred(cell):
        return cell

    centred.def_vmap(lambda size, batched, cells: (cells - jnp.mean(cells), True))
    return centred(cell)


def with_the_name_of_jaxs_own(cell):
    one = core.Primitive("sin")
    one.def_abstract_eval(lambda cell: cell)
    batching.primitive_batchers[one] = lambda args, axes: (args[0] - jnp.mean(args[0]), axes[0])
    return one.bind(cell)


def in_a_loop(cell):
    return jax.lax.scan(lambda sum, _: (sum + batched_by_a_rule_of_its_own(cell), None), 0.0, None, length=2)[0]


@pytest.mark.parametrize("own", [batched_by_a_rule_of_its_own, with_the_name_of_jaxs_own, in_a_loop])
def test_operations_of_somebody_elses_are_refused(own):
    """Their rules of batching see all rows at once: here, every row becomes its distance from the mean of all."""
    with pytest.raises(ModelError, match="not one of JAX's own or may see several rows at once"):
        trace_row(lambda shared, _, row: shared * own(row), jnp.float32(1), (), jnp.float32(1))


def test_keys_whose_batches_share_a_stream_are_refused():
    def value(shared, _, row):
        return shared * row * jax.random.normal(jax.random.key(0, impl="unsafe_rbg"))

    with pytest.raises(ModelError, match="another kind than JAX's default"):
        trace_row(value, jnp.float32(1), (), jnp.float32(1))

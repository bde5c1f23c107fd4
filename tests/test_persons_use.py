"""What is clipped: the gradient of what moves a parameter, and of nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from fits import KEY, D, N, X, Y, free_receipt, linear, seeded
from numpyro import param, plate, sample
from numpyro.infer import Trace_ELBO
from numpyro.optim import SGD, Adam
from test_examples import load

import twinify_lite as tw
from twinify_lite.dpsvi import step
from twinify_lite.errors import ModelError


def weights():
    loc, scale = param("loc", jnp.zeros(D)), param("spread", jnp.ones(D), constraint=dist.constraints.positive)
    return dist.Normal(loc, scale).to_event(1)


def fixed_scale(xs, ys, N):
    sample("w", weights())
    sample("scale", dist.LogNormal(0.0, 0.1))


def stopped_scale(xs, ys, N):
    sample("w", weights())
    drawn = dist.LogNormal(param("width", 0.0), 0.1)
    sample("scale", dist.Delta(jax.lax.stop_gradient(jnp.exp(drawn.base_dist.loc))))


def all_driven(xs, ys, N):
    sample("w", weights())
    sample("scale", dist.LogNormal(param("width", 0.0), 0.1))


def all_fixed(xs, ys, N):
    sample("w", dist.Normal(jnp.zeros(D), 1.0).to_event(1))
    sample("scale", dist.LogNormal(0.0, 0.1))


def begun(model=linear, guide=fixed_scale, **options):
    svi = seeded(model=model, guide=guide, **options)
    return svi, svi.init(KEY, X, Y)


@pytest.mark.parametrize("guide", [fixed_scale, stopped_scale])
def test_only_latents_that_move_a_parameter_are_in_the_clipped_vector(guide):
    svi, state = begun(guide=guide)
    training = svi._training
    assert (training.person_latents, training.fixed_latents) == ({"w"}, {"scale"})
    assert training.program.summed.coordinates == D
    assert step.noise_size(training) == D + 1
    (clipped, selected), (_, fixed) = step.draw_shared(training, svi.optim.get_params(state.optim_state), KEY)
    assert (set(clipped), selected, set(fixed)) == ({"w"}, [], {"scale"})


def test_a_latent_with_a_parameter_of_its_own_is_in_the_clipped_vector():
    training = begun(guide=all_driven)[0]._training
    assert (training.person_latents, training.fixed_latents) == ({"w", "scale"}, frozenset())


def test_a_parameter_that_rows_reach_through_a_stopped_gradient_alone_gets_no_noise():
    def model(xs, ys, N):
        shift = jax.lax.stop_gradient(param("shift", 0.0))
        w = sample("w", dist.Normal(0, 4).expand([D]).to_event(1))
        with plate("batch", N, xs.shape[0]):
            sample("ys", dist.Normal(xs @ w + shift, 1.0), obs=ys)

    def guide(xs, ys, N):
        sample("w", weights())

    svi, state = begun(model, guide)
    assert not any(svi._training.person_params)
    params = svi.run(KEY, 5, X, Y, progress_bar=False, init_state=state).params
    assert params["shift"] == 0.0


def test_rows_see_the_value_of_a_fixed_latent_that_the_guide_drew():
    """With a guide that says 0.5, each row's gradient is that of a model in which 0.5 is written."""

    def told(xs, ys, N):
        sample("w", weights())
        sample("scale", dist.Delta(jnp.float32(0.5)))

    def written(xs, ys, N):
        w = sample("w", dist.Normal(0, 4).expand([D]).to_event(1))
        with plate("batch", N, xs.shape[0]):
            sample("ys", dist.Normal(xs @ w, 0.5), obs=ys)

    def moved(model, guide):
        svi = tw.DPSVI(model, guide, SGD(0.01), Trace_ELBO(), free_receipt(), N)
        state = svi.init(KEY, X, Y, init_params={"loc": jnp.ones(D), "spread": jnp.full(D, 1e-3)})
        return svi.get_params(svi.update(state, X, Y)[0])["loc"]

    alone = moved(written, lambda xs, ys, N: sample("w", weights()))
    np.testing.assert_allclose(moved(linear, told), alone, rtol=2e-2)


def test_a_guide_that_learns_nothing_from_the_rows_is_refused_and_nothing_is_spent():
    svi = seeded(model=linear, guide=all_fixed)
    with pytest.raises(ModelError, match="No parameter would learn from the rows"):
        svi.init(KEY, X, Y)
    assert svi.receipt.redeem((tw.PoissonGaussian,))


def test_a_model_whose_rows_use_no_latent_is_fitted_as_before():
    def model(xs, ys, N):
        sample("w", dist.Normal(0, 4).expand([D]).to_event(1))
        with plate("batch", N, xs.shape[0]):
            sample("ys", dist.Bernoulli(0.5), obs=ys)

    svi, _ = begun(model, lambda xs, ys, N: sample("w", weights()))
    assert svi._training.program.summed.coordinates == 0


def mixture_guide(xs, N, k=5, d=2):
    """As d3p's: weights and centres are fitted, widths are drawn from a fixed distribution."""
    start = jnp.asarray(1.5 * np.random.default_rng(2).normal(size=(k, d)), jnp.float32)
    sample("pis", dist.Dirichlet(jnp.exp(param("alpha_log", jnp.zeros(k)))))
    with plate("component_priors", k, k):
        sample("locs", dist.Normal(param("locs_loc", start), 0.05).to_event(1))
        sample("sigmas", dist.InverseGamma(1, 1))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_mixture_whose_guide_draws_widths_from_a_fixed_distribution_finds_its_clusters(seed):
    example = load("gaussian_mixture")
    rows = example.make_data(2000)
    ledger = tw.Ledger(1e6, 1e-6, insecure_seed=seed)
    receipt = ledger.spend(tw.PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.1, steps=300), "DPSVI")
    svi = tw.DPSVI(example.model, mixture_guide, Adam(0.05), Trace_ELBO(), receipt, len(rows), clip_norm=20.0)
    centres = svi.run(jax.random.key(seed), 300, rows, progress_bar=False).params["locs_loc"]
    distance = np.linalg.norm(np.asarray(centres)[None] - example.CENTRES[:, None], axis=-1).min(axis=1)
    assert (distance < 0.5).all()

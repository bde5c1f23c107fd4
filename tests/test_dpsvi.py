"""DPSVI without noise is NumPyro's SVI, for models with parameters and latents of many kinds."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
import pytest
from fits import KEY, D, N, X, Y, free_receipt, linear, logistic, mean_field, seeded
from numpyro import param, plate, sample
from numpyro.infer import SVI, RenyiELBO, Trace_ELBO, TraceMeanField_ELBO, autoguide
from numpyro.optim import SGD, Adam

import twinify_lite as tw
from twinify_lite.errors import ModelError, PrivacyParameterError


@pytest.mark.parametrize("model", [logistic, linear])
def test_without_noise_a_point_estimate_equals_numpyros(model):
    ours = tw.DPSVI(model, autoguide.AutoDelta(model), Adam(0.05), Trace_ELBO(), free_receipt(), N)
    theirs = SVI(model, autoguide.AutoDelta(model), Adam(0.05), Trace_ELBO(), N=N)
    start = {"w_auto_loc": jnp.zeros(D), "scale_auto_loc": jnp.float32(1.0)}
    start = {name: value for name, value in start.items() if model is linear or name == "w_auto_loc"}
    got = ours.run(KEY, 100, X, Y, progress_bar=False, init_params=start).params
    wanted = theirs.run(KEY, 100, X, Y, progress_bar=False, init_params=start).params
    for name in wanted:
        np.testing.assert_allclose(got[name], wanted[name], rtol=2e-4)


GUIDES = {
    "AutoNormal": autoguide.AutoNormal,
    "AutoDiagonalNormal": autoguide.AutoDiagonalNormal,
    "AutoMultivariateNormal": autoguide.AutoMultivariateNormal,
    "AutoLowRankMultivariateNormal": autoguide.AutoLowRankMultivariateNormal,
    "AutoIAFNormal": autoguide.AutoIAFNormal,
}


@pytest.mark.parametrize("name", GUIDES)
def test_without_noise_every_guide_reaches_numpyros_posterior(name):
    # Where a scale is latent, the flow's gradients at its start are too wild to compare, in NumPyro as well.
    model = logistic if name == "AutoIAFNormal" else linear

    def posterior(svi, guide):
        result = svi.run(KEY, 1500, X, Y, progress_bar=False)
        draws = guide.sample_posterior(jax.random.key(1), result.params, X, Y, N=N, sample_shape=(2000,))
        return {name: np.asarray(value) for name, value in draws.items() if name in ("w", "scale")}

    guide, loss = GUIDES[name](model), Trace_ELBO(num_particles=4)
    ours = posterior(tw.DPSVI(model, guide, Adam(0.01), loss, free_receipt(), N), guide)
    guide = GUIDES[name](model)
    theirs = posterior(SVI(model, guide, Adam(0.01), loss, N=N), guide)
    for site, draws in theirs.items():
        # Within a quarter of a posterior standard deviation: what is left of the optimiser's own jitter.
        np.testing.assert_array_less(np.abs(ours[site].mean(0) - draws.mean(0)), 0.25 * draws.std(0) + 0.01)


def pulled_back_gradient(loss):
    """One step of SGD with rate 1 and no noise: its move is the gradient."""
    svi = tw.DPSVI(logistic, mean_field, SGD(1.0), loss, free_receipt(), N)
    state = svi.init(KEY, X, Y)
    before = svi.optim.get_params(state.optim_state)
    after = svi.optim.get_params(svi.update(state, X, Y)[0].optim_state)
    return jax.tree.map(lambda a, b: a - b, before, after)


def test_particles_average_to_the_same_gradient():
    many = pulled_back_gradient(Trace_ELBO(num_particles=64))["loc"]
    exact = pulled_back_gradient(Trace_ELBO(num_particles=2000))["loc"]
    np.testing.assert_allclose(many, exact, atol=0.35 * np.linalg.norm(exact))


def test_an_analytic_divergence_gives_the_same_gradient_on_average():
    exact = pulled_back_gradient(TraceMeanField_ELBO(num_particles=2000))
    sampled = pulled_back_gradient(Trace_ELBO(num_particles=2000))
    np.testing.assert_allclose(exact["loc"], sampled["loc"], atol=0.05 * np.linalg.norm(sampled["loc"]))


def test_other_losses_are_refused():
    with pytest.raises(ModelError, match="RenyiELBO"):
        tw.DPSVI(logistic, mean_field, Adam(0.1), RenyiELBO(), free_receipt(), N)


def test_optax_optimisers_work():
    svi = seeded(optim=optax.adam(0.05))
    assert np.all(np.isfinite(svi.run(KEY, 20, X, Y, progress_bar=False).params["loc"]))


def test_amortised_guides_and_decoders_are_fitted():
    """A small variational autoencoder by `numpyro.module`-style parameters."""

    def decoder(params, z):
        return jnp.tanh(z @ params["hidden"] + params["bias"]) @ params["out"]

    shapes = {"hidden": (1, 8), "bias": (8,), "out": (8, 2)}
    start = {
        k: 0.5 * jnp.asarray(np.random.default_rng(i).normal(size=s), jnp.float32)
        for i, (k, s) in enumerate(shapes.items())
    }

    def model(x, N):
        params = param("decoder", start)
        with plate("rows", N, len(x)):
            z = sample("z", dist.Normal(0, 1).expand([1]).to_event(1))
            sample("x", dist.Normal(decoder(params, z), 0.3).to_event(1), obs=x)

    def guide(x, N):
        weight, bias = param("encoder", 0.1 * jnp.ones((2, 1))), param("encoder_bias", jnp.zeros(1))
        log_scale = param("log_scale", jnp.zeros(1))
        with plate("rows", N, len(x)):
            sample("z", dist.Normal(x @ weight + bias, jnp.exp(log_scale)).to_event(1))

    generator = np.random.default_rng(1)
    z = generator.normal(size=(400, 1))
    x = jnp.asarray(np.hstack([z, -z]) + 0.1 * generator.normal(size=(400, 2)), jnp.float32)
    ledger = tw.Ledger(1000.0, 1e-5, insecure_seed=0)
    receipt = ledger.spend(tw.PoissonGaussian(noise_multiplier=0.5, sampling_rate=0.2, steps=500), "x")
    svi = tw.DPSVI(model, guide, Adam(0.02), Trace_ELBO(), receipt, 400)
    state = svi.init(KEY, x)
    before = svi.evaluate(state, x, rows_are_public=True)
    result = svi.run(KEY, 500, x, progress_bar=False, init_state=state)
    assert svi.evaluate(result.state, x, rows_are_public=True) < 0.6 * before
    assert svi._training.person_params == (True,) * 6


def test_a_latent_that_the_guide_leaves_out_is_drawn_from_the_model():
    groups = jnp.asarray(np.arange(N) % 3)

    def model(xs, ys, ls, N):
        m = sample("m", dist.Normal(0, 4).expand([D]).to_event(1))
        with plate("group", 3):
            ws = sample("ws", dist.Normal(m, 1).to_event(1))
        with plate("batch", N, xs.shape[0]):
            sample("ys", dist.Bernoulli(logits=jnp.einsum("nd,nd->n", xs, ws[ls])), obs=ys)

    def guide(xs, ys, ls, N):
        sample("m", dist.Normal(param("loc", jnp.zeros(D)), jnp.exp(param("log_scale", jnp.zeros(D)))).to_event(1))

    svi = tw.DPSVI(model, guide, Adam(0.05), Trace_ELBO(), free_receipt(), N)
    loc = svi.run(KEY, 300, X, Y, groups, progress_bar=False).params["loc"]
    assert np.sign(loc).tolist() == [1, -1, 1]
    assert svi._training.person_latents == {"ws"}  # rows depend on m through ws only: no noise on m


def test_rows_in_microbatches_give_the_same_sum(monkeypatch):
    from twinify_lite.dpsvi import batches

    whole = seeded(seed=9).run(KEY, 5, X, Y, progress_bar=False).params
    monkeypatch.setattr(batches, "_LARGEST_MICROBATCH", 7)
    small = seeded(seed=9).run(KEY, 5, X, Y, progress_bar=False).params
    np.testing.assert_allclose(whole["loc"], small["loc"], rtol=1e-4, atol=1e-5)


def test_progress_is_reported_and_holds_only_counts(capsys):
    seen = []
    seeded(steps=40).run(KEY, 40, X, Y, chunk_steps=10, on_progress=lambda *done: seen.append(done))
    assert seen[-1] == (40, 40)
    assert "40/40" in capsys.readouterr().err


def test_a_delta_too_small_for_the_samplers_bits_is_refused():
    ledger = tw.Ledger(1e3, 1e-10)
    receipt = ledger.spend(tw.PoissonGaussian(noise_multiplier=5.0, sampling_rate=0.5, steps=10_000), "x")
    svi = tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), receipt, N)
    with pytest.raises(PrivacyParameterError, match="need a larger delta"):
        svi.run(KEY, 10, X, Y, progress_bar=False)


def test_delta_above_one_over_the_rows_is_warned_about():
    ledger = tw.Ledger(1.0, 1e-2)
    receipt = ledger.spend(ledger.calibrate(tw.PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.1, steps=10)), "x")
    with pytest.warns(UserWarning, match="1/rows"):
        tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), receipt, N)

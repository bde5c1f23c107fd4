"""A small table, models for it, and fits of them that are paid for: what the tests of DPSVI share."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import param, plate, sample
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam

import twinify_lite as tw

N, D = 120, 3
KEY = jax.random.key(0)
GENERATOR = np.random.default_rng(0)
X = jnp.asarray(GENERATOR.normal(size=(N, D)), jnp.float32)
Y = jnp.asarray(X @ np.array([1.0, -1.0, 0.5]) + 0.3 * GENERATOR.normal(size=N) > 0, jnp.float32)


def logistic(xs, ys, N):
    w = sample("w", dist.Normal(0, 4).expand([xs.shape[1]]).to_event(1))
    with plate("batch", N, xs.shape[0]):
        sample("ys", dist.Bernoulli(logits=xs @ w), obs=ys)


def linear(xs, ys, N):
    w = sample("w", dist.Normal(0, 4).expand([xs.shape[1]]).to_event(1))
    scale = sample("scale", dist.HalfNormal(2.0))
    with plate("batch", N, xs.shape[0]):
        sample("ys", dist.Normal(xs @ w, scale), obs=ys)


def mean_field(xs, ys, N):
    loc, scale = param("loc", jnp.zeros(D)), param("scale", jnp.ones(D), constraint=dist.constraints.positive)
    sample("w", dist.Normal(loc, scale).to_event(1))


def free_receipt():
    return tw.Ledger.without_privacy(insecure_seed=0).spend(tw.NotPrivate(), "comparison")


def paid_receipt(noise=1.0, rate=0.2, steps=50, seed=None, kind=tw.PoissonGaussian, relation="add-remove"):
    ledger = tw.Ledger(1e6, 1e-5, relation=relation, insecure_seed=seed)
    return ledger.spend(kind(noise_multiplier=noise, sampling_rate=rate, steps=steps), "DPSVI")


def seeded(noise=1.0, steps=50, seed=7, model=logistic, guide=mean_field, optim=None, loss=None, **options):
    receipt = paid_receipt(noise=noise, steps=steps, seed=seed)
    return tw.DPSVI(model, guide, optim or Adam(0.05), loss or Trace_ELBO(), receipt, N, **options)


def leaves_equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))

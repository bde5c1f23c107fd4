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


def glorot(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape) / np.sqrt(shape[0]), jnp.float32)


def vae(hidden=400, z_size=50, x_size=784):
    """The paper's variational autoencoder: one hidden layer each way, 688,884 parameters."""

    def decoder(z):
        h = jax.nn.softplus(z @ param("d1", glorot(0, z_size, hidden)) + param("d1b", jnp.zeros(hidden)))
        return h @ param("d2", glorot(1, hidden, x_size)) + param("d2b", jnp.zeros(x_size))

    def encoder(x):
        h = jax.nn.softplus(x @ param("e1", glorot(2, x_size, hidden)) + param("e1b", jnp.zeros(hidden)))
        loc = h @ param("e2", glorot(3, hidden, z_size)) + param("e2b", jnp.zeros(z_size))
        return loc, jnp.exp(h @ param("e3", glorot(4, hidden, z_size)) + param("e3b", jnp.zeros(z_size)))

    def model(x, N):
        with plate("batch", N, x.shape[0]):
            z = sample("z", dist.Normal(0, 1).expand([z_size]).to_event(1))
            sample("x", dist.Bernoulli(logits=decoder(z)).to_event(1), obs=x)

    def guide(x, N):
        loc, scale = encoder(x)
        with plate("batch", N, x.shape[0]):
            sample("z", dist.Normal(loc, scale).to_event(1))

    return model, guide

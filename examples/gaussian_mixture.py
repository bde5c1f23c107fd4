"""A private Gaussian mixture, with a distribution of one's own.

    python examples/gaussian_mixture.py

The experiment of the DP-VI and d3p papers: five round clusters in the plane. Which cluster a person belongs to is
summed out inside `GaussianMixtureModel.log_prob`, so no latent variable belongs to a person and any guide will do.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.scipy.special import logsumexp
from numpyro import plate, sample
from numpyro.distributions import (
    CategoricalProbs,
    Dirichlet,
    Distribution,
    InverseGamma,
    MultivariateNormal,
    Normal,
    constraints,
)
from numpyro.infer import Trace_ELBO
from numpyro.infer.autoguide import AutoDiagonalNormal
from numpyro.optim import Adam

from twinify_lite import DPSVI, Ledger, PoissonGaussian


class GaussianMixtureModel(Distribution):
    """Spherical normal components with weights, the component summed out."""

    support = constraints.real_vector

    def __init__(self, mixture_probabilities, mixture_locs, mixture_scales):
        self._pis, self._locs, self._scales = mixture_probabilities, mixture_locs, mixture_scales
        super().__init__((), mixture_locs.shape[1:])

    def sample(self, rng_key, sample_shape=()):
        """Draw a component, then a point of it."""
        zs_rng, xs_rng = jax.random.split(rng_key)
        zs = CategoricalProbs(self._pis).sample(zs_rng, sample_shape)
        return Normal(self._locs[zs], self._scales[zs][..., None]).sample(xs_rng)

    def log_prob(self, value):
        """Log density of each point."""
        each = Normal(self._locs, self._scales[:, None]).log_prob(value[..., None, :]).sum(-1)
        return logsumexp(each + jnp.log(self._pis), axis=-1)


def model(xs, N, k=5, d=2):
    """Weights, centres and widths of k clusters; each row is a draw from the mixture."""
    pis = sample("pis", Dirichlet(jnp.ones(k)))
    with plate("component_priors", k, k):
        mus = sample("locs", MultivariateNormal(jnp.zeros((d,)), jnp.eye(d)))
        sigmas = sample("sigmas", InverseGamma(1, 1))
    with plate("batch", N, xs.shape[0]):
        sample("xs", GaussianMixtureModel(pis, mus, sigmas), obs=xs)


CENTRES = np.array([[0.0, 0.0], [2.0, 2.0], [-2.0, 2.0], [2.0, -2.0], [-2.0, -2.0]])


def make_data(rows, seed=0):
    """Points around five centres."""
    generator = np.random.default_rng(seed)
    points = CENTRES[generator.integers(0, 5, rows)] + 0.5 * generator.normal(size=(rows, 2))
    return points.astype(np.float32)


def main(rows=5000, num_iter=1000, epsilon=1.0, delta=1e-5):
    """Fit, and compare the held-out log-likelihood with that of the true mixture and of one wide cluster."""
    train, test = make_data(rows), make_data(rows, seed=1)
    ledger = Ledger(epsilon, delta)
    mechanism = PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.05, steps=num_iter)
    receipt = ledger.spend(ledger.calibrate(mechanism), "DPSVI")
    # Centres start apart: from one place they would all follow the same gradient.
    start = {"locs": jnp.asarray(1.5 * np.random.default_rng(2).normal(size=(5, 2)), jnp.float32)}
    guide = AutoDiagonalNormal(model, init_loc_fn=numpyro.infer.init_to_value(values=start))
    dpsvi = DPSVI(model, guide, Adam(5e-2), Trace_ELBO(), receipt, rows)
    params = dpsvi.run(jax.random.key(0), num_iter, train, progress_bar=False).params
    point = guide.median(params)
    fitted = float(GaussianMixtureModel(point["pis"], point["locs"], point["sigmas"]).log_prob(test).mean())
    true = GaussianMixtureModel(jnp.full(5, 0.2), jnp.asarray(CENTRES), jnp.full(5, 0.5))
    best = float(true.log_prob(test).mean())
    single = float(Normal(test.mean(0), test.std(0)).log_prob(test).sum(-1).mean())
    print(f"{rows} rows, {num_iter} steps, epsilon {epsilon:g}, delta {delta:g}")
    print(f"held-out log-likelihood: private mixture {fitted:.3f}; true mixture {best:.3f}; one cluster {single:.3f}")
    return fitted, best, single


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--num-iter", type=int, default=1000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    main(**vars(parser.parse_args()))

"""Where to clip: the gradient in latent space (this package) against the gradient of the whole ELBO (the papers' way).

    python examples/latent_gradient.py

Both fit one logistic regression under the same noise multiplier, sampling rate and number of steps. The papers' way
takes each row's gradient of its share of the whole ELBO with respect to the guide's parameters, clips and noises
that. Ours clips and noises the gradient of the row's log-likelihood with respect to the weights themselves, and
pulls the noisy sum back through the guide; prior and entropy stay exact. Each way gets the best of several clip
norms, by its own error.
"""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from twinify_lite import PoissonGaussian
from twinify_lite.accountant import calibrate
from twinify_lite.dpsvi.gradient import clipped_sum

RATE, LEARNING_RATE, PRIOR_SD = 0.05, 0.02, 4.0


def make_data(rows, columns, seed=0):
    """Rows with a binary label."""
    generator = np.random.default_rng(seed)
    xs = generator.normal(size=(rows, columns)).astype(np.float32)
    ys = generator.uniform(size=rows) < 1 / (1 + np.exp(-xs @ np.linspace(-1, 1, columns)))
    return jnp.asarray(xs), jnp.asarray(ys, jnp.float32)


def exact_posterior(xs, ys):
    """Mean and covariance by Newton's method: the posterior is close to normal."""
    xs, ys = np.asarray(xs, float), np.asarray(ys, float)
    w = np.zeros(xs.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-xs @ w))
        precision = (xs.T * (p * (1 - p))) @ xs + np.eye(len(w)) / PRIOR_SD**2
        w = w + np.linalg.solve(precision, xs.T @ (ys - p) - w / PRIOR_SD**2)
    return w, np.linalg.inv(precision)


def log_likelihood(w, row):
    """One row's."""
    x, y = row
    return y * (x @ w) - jax.nn.softplus(x @ w)


def weights(psi, noise):
    """The guide: w = loc + L noise, with L diagonal or lower triangular."""
    if psi["scale"].ndim == 1:
        return psi["loc"] + jnp.exp(psi["scale"]) * noise
    return psi["loc"] + (jnp.tril(psi["scale"], -1) + jnp.diag(jnp.exp(jnp.diag(psi["scale"])))) @ noise


def global_part(psi, noise):
    """Log prior plus the guide's entropy."""
    diagonal = psi["scale"] if psi["scale"].ndim == 1 else jnp.diag(psi["scale"])
    return norm.logpdf(weights(psi, noise), scale=PRIOR_SD).sum() + diagonal.sum()


def latent_gradient(psi, noise, rows, mask, clip_norm, sigma, key):
    """Ours: clip and noise in the space of the weights, then pull back."""
    w, pull_back = jax.vjp(lambda psi: weights(psi, noise), psi)
    total = clipped_sum(log_likelihood, w, rows, mask=mask, clip_norm=clip_norm).gradient
    noisy = total + sigma * clip_norm * jax.random.normal(key, w.shape)
    (of_rows,) = pull_back(noisy / RATE)
    return jax.tree.map(jnp.add, of_rows, jax.grad(global_part)(psi, noise))


def whole_gradient(psi, noise, rows, mask, clip_norm, sigma, key, number):
    """The papers': clip and noise each row's share of the ELBO in the space of the guide's parameters."""

    def share(psi, row):
        return log_likelihood(weights(psi, noise), row) + global_part(psi, noise) / number

    total = clipped_sum(share, psi, rows, mask=mask, clip_norm=clip_norm).gradient
    keys = dict(zip(psi, jax.random.split(key, len(psi)), strict=True))
    noisy = {name: g + sigma * clip_norm * jax.random.normal(keys[name], g.shape) for name, g in total.items()}
    return jax.tree.map(lambda g: g / RATE, noisy)


@partial(jax.jit, static_argnums=(0, 5))
def train(way, psi, rows, clip_norm, sigma, steps, key):
    """Adam on the noisy gradient, Poisson batches by a mask; the mean of the second half of the iterates."""
    number = rows[0].shape[0]

    def step(carry, key):
        psi, average, first, second, t = carry
        key_rows, key_draw, key_noise = jax.random.split(key, 3)
        mask = jax.random.uniform(key_rows, (number,)) < RATE
        gradient = way(psi, jax.random.normal(key_draw, psi["loc"].shape), rows, mask, clip_norm, sigma, key_noise)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradient)
        scale = LEARNING_RATE * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        psi = jax.tree.map(lambda p, m, v: p + scale * m / (jnp.sqrt(v) + 1e-8), psi, first, second)
        average = jax.tree.map(lambda a, p: jnp.where(t > steps / 2, a + 2 * p / steps, a), average, psi)
        return (psi, average, first, second, t + 1), None

    zeros = jax.tree.map(jnp.zeros_like, psi)
    return jax.lax.scan(step, (psi, zeros, zeros, zeros, 1.0), jax.random.split(key, steps))[0][1]


def errors(psi, mean, covariance):
    """Relative error of the mean, ratio of the sds to the exact ones, divergence from the exact posterior in nats."""
    scale = np.asarray(psi["scale"], float)
    factor = np.diag(np.exp(scale)) if scale.ndim == 1 else np.tril(scale, -1) + np.diag(np.exp(np.diag(scale)))
    found, gap, precision = factor @ factor.T, np.asarray(psi["loc"], float) - mean, np.linalg.inv(covariance)
    ratio = np.exp(np.mean(np.log(np.diag(found) / np.diag(covariance))) / 2)
    log_dets = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(found)[1]
    divergence = 0.5 * (np.trace(precision @ found) + gap @ precision @ gap - len(mean) + log_dets)
    return np.linalg.norm(gap) / np.linalg.norm(mean), ratio, divergence


def main(rows=2000, columns=10, steps=1000, epsilon=1.0, delta=1e-5, runs=8, clip_norms=(1.0, 2.0, 4.0, 8.0)):
    """Print the table, and return it."""
    xs, ys = make_data(rows, columns)
    mean, covariance = exact_posterior(xs, ys)
    mechanism = PoissonGaussian(noise_multiplier=1.0, sampling_rate=RATE, steps=steps)
    sigma = calibrate(mechanism, free="noise_multiplier", epsilon=epsilon, delta=delta).noise_multiplier
    print(f"logistic regression, d={columns}, n={rows}, epsilon {epsilon:g}, {steps} steps, mean of {runs} runs")
    print(
        f"{'guide':12s}{'clipped in':16s}{'best clip norm':>15s}{'error of mean':>15s}"
        f"{'sd over exact':>15s}{'divergence':>12s}"
    )
    table = {}
    for guide, scale in (("mean field", -2 * jnp.ones(columns)), ("full rank", -2 * jnp.eye(columns))):
        start = {"loc": jnp.zeros(columns), "scale": scale}
        for name, way in (("latent space", latent_gradient), ("guide space", partial(whole_gradient, number=rows))):
            results = {}
            for clip_norm in clip_norms:
                keys = jax.random.split(jax.random.key(0), runs)
                psis = [train(way, start, (xs, ys), clip_norm, sigma, steps, key) for key in keys]
                results[clip_norm] = np.mean([errors(psi, mean, covariance) for psi in psis], axis=0)
            best = min(results, key=lambda c: results[c][2])
            table[guide, name] = results[best]
            error, ratio, divergence = results[best]
            print(f"{guide:12s}{name:16s}{best:15g}{error:15.3f}{ratio:15.3f}{divergence:12.1f}")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=8)
    main(**vars(parser.parse_args()))

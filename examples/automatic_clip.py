"""How good is `clip_norm="auto"`? Three models, each with several fixed clip norms and the automatic one.

    python examples/automatic_clip.py
    python examples/automatic_clip.py --rows 500 --sampling-rate 0.1 --steps 10000 --epsilon 2 --learning-rate 0.005

The automatic rule moves the clip norm towards a quantile of the rows' gradient norms, by a noisy count that is part of
each step's paid-for release. Which quantile, and how fast, follows from the noise, the parameters, the batch and the
steps: hardly any row is cut where the signal is clear (the first line above), and many where noise is large (the
second). A fixed norm must be guessed: too small biases the fit, too large drowns it in noise. Figures are mean
log-likelihoods of held-out rows at the posterior median, so higher is better.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import plate, sample
from numpyro.infer import Trace_ELBO, init_to_median
from numpyro.infer.autoguide import AutoDiagonalNormal
from numpyro.optim import Adam

from twinify_lite import DPSVI, Ledger, PoissonGaussian

COLUMNS = 10


def logistic(xs, ys, N):
    """A binary answer."""
    w = sample("w", dist.Normal(0, 4).expand([COLUMNS]).to_event(1))
    with plate("rows", N, xs.shape[0]):
        sample("ys", dist.Bernoulli(logits=xs @ w), obs=ys)


def linear(xs, ys, N):
    """A number, with unknown spread."""
    w = sample("w", dist.Normal(0, 4).expand([COLUMNS]).to_event(1))
    scale = sample("scale", dist.HalfNormal(2.0))
    with plate("rows", N, xs.shape[0]):
        sample("ys", dist.Normal(xs @ w, scale), obs=ys)


def poisson(xs, ys, N):
    """A count."""
    w = sample("w", dist.Normal(0, 4).expand([COLUMNS]).to_event(1))
    with plate("rows", N, xs.shape[0]):
        sample("ys", dist.Poisson(jnp.exp(jnp.clip(xs @ w, -10, 10))), obs=ys)


def make_data(rows, seed=0):
    """One set of columns with an answer for each model."""
    generator = np.random.default_rng(seed)
    xs = generator.normal(size=(rows, COLUMNS)).astype(np.float32)
    signal = xs @ np.linspace(-1, 1, COLUMNS)
    answers = {
        logistic: generator.uniform(size=rows) < 1 / (1 + np.exp(-signal)),
        linear: signal + 0.5 * generator.normal(size=rows),
        poisson: generator.poisson(np.exp(0.5 * signal)),
    }
    return xs, {model: ys.astype(np.float32) for model, ys in answers.items()}


def held_out(model, point, xs, ys):
    """Mean log-likelihood of rows at a point estimate."""
    signal = xs @ point["w"]
    answers = {
        logistic: lambda: dist.Bernoulli(logits=signal),
        linear: lambda: dist.Normal(signal, point["scale"]),
        poisson: lambda: dist.Poisson(jnp.exp(jnp.clip(signal, -10, 10))),
    }
    return float(answers[model]().log_prob(ys).mean())


def fit(model, train, test, clip_norm, epsilon, mechanism, learning_rate, seed):
    """One private fit; its held-out log-likelihood and the clip norm it ended with."""
    rows = len(train[0])
    receipt = Ledger(epsilon, 1e-5).spend(mechanism, "DPSVI")
    guide = AutoDiagonalNormal(model, init_loc_fn=init_to_median)
    dpsvi = DPSVI(model, guide, Adam(learning_rate), Trace_ELBO(), receipt, rows, clip_norm=clip_norm)
    result = dpsvi.run(jax.random.key(seed), mechanism.steps, *train, progress_bar=False)
    return held_out(model, guide.median(result.params), *test), float(result.state.clip_norm)


def main(
    rows=2000,
    steps=1000,
    epsilon=1.0,
    sampling_rate=0.05,
    learning_rate=0.02,
    runs=3,
    models=(logistic, linear, poisson),
    clip_norms=(0.3, 1.0, 3.0, 10.0, 30.0),
):
    """Print and return, for each model, the best fixed clip norm's figure and the automatic one's."""
    (xs, answers), (xs_test, answers_test) = make_data(rows), make_data(rows, seed=1)
    unscaled = PoissonGaussian(noise_multiplier=1.0, sampling_rate=sampling_rate, steps=steps)
    mechanism = Ledger(epsilon, 1e-5).calibrate(unscaled)
    print(f"{rows} rows, epsilon {epsilon:g}, {steps} steps of {sampling_rate:g} of the rows, ", end="")
    print(f"noise multiplier {mechanism.noise_multiplier:.3g}; log-likelihood of held-out rows, mean of {runs} runs")
    table = {}
    for model in models:
        train, test = (xs, answers[model]), (xs_test, answers_test[model])
        figures = {}
        for clip_norm in (*clip_norms, "auto"):
            fits = [fit(model, train, test, clip_norm, epsilon, mechanism, learning_rate, seed) for seed in range(runs)]
            figures[clip_norm] = np.mean(fits, axis=0)
        fixed = {c: figures[c][0] for c in clip_norms}
        shown = "  ".join(f"{c:g}: {value:.3f}" for c, value in fixed.items())
        value, ended = figures["auto"]
        print(f"{model.__name__:10s} fixed  {shown}   auto: {value:.3f} (ended at {ended:.2g})")
        table[model.__name__] = (max(fixed.values()), value)
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--sampling-rate", type=float, default=0.05)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--runs", type=int, default=3)
    main(**vars(parser.parse_args()))

"""Private Bayesian logistic regression, with the names of the d3p paper: model, guide and `infer`.

    python examples/logistic_regression.py

Makes a table of 10,000 people, fits it under (epsilon, delta) = (1, 1e-6) in two ways, and compares both with the
posterior that the data alone would give:
  * `infer`, the paper's own loop: fixed-size batches, private when one row is replaced by another;
  * `DPSVI.run`: Poisson batches, private when one row is added or removed, one compiled program, much less noise.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from numpyro import param, plate, sample
from numpyro.distributions import Bernoulli, Normal
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam

from twinify_lite import DPSVI, Ledger, PoissonGaussian, approximate_sigma, subsample_batchify_data


def model(xs, ys, N):
    """A label for each row, from a weighted sum of its columns."""
    batch_size, d = xs.shape
    w = sample("w", Normal(0, 4), sample_shape=(d,))
    with plate("batch", N, batch_size):
        sample("ys", Bernoulli(sigmoid(xs.dot(w))), obs=ys)


def guide(xs, ys, N):
    """Independent normal posteriors for the weights."""
    d = jnp.shape(xs)[1]
    w_loc = param("w_loc", jnp.zeros((d,)))
    w_scale = jnp.exp(param("w_scale_log", jnp.zeros((d,))))
    sample("w", Normal(w_loc, w_scale))


def infer(data, labels, batch_size, num_iter, epsilon, delta, rng_key):
    """The paper's loop: sample a batch, update, repeat."""
    batchifier_init, get_batch = subsample_batchify_data((data, labels), batch_size)
    _, batchifier_state = batchifier_init(rng_key)

    q = batch_size / len(data)
    dp_scale, _, ledger = approximate_sigma(epsilon, delta, q, num_iter)
    dpsvi = DPSVI(model, guide, Adam(2e-2), Trace_ELBO(), dp_scale, len(data))
    svi_state = dpsvi.init(rng_key, *get_batch(0, batchifier_state))

    for i in range(num_iter):
        data_batch, label_batch = get_batch(i, batchifier_state)
        svi_state, _ = dpsvi.update(svi_state, data_batch, label_batch)
    return dpsvi.get_params(svi_state), ledger


def run(data, labels, sampling_rate, num_iter, epsilon, delta, rng_key):
    """The same model by `DPSVI.run`, paid for from a ledger."""
    ledger = Ledger(epsilon, delta)
    mechanism = PoissonGaussian(noise_multiplier=1.0, sampling_rate=sampling_rate, steps=num_iter)
    receipt = ledger.spend(ledger.calibrate(mechanism), "DPSVI")
    dpsvi = DPSVI(model, guide, Adam(2e-2), Trace_ELBO(), receipt, len(data))
    return dpsvi.run(rng_key, num_iter, data, labels, progress_bar=False).params, ledger


def make_data(rows, seed=0):
    """People with five measurements and a diagnosis."""
    generator = np.random.default_rng(seed)
    data = generator.normal(size=(rows, 5)).astype(np.float32)
    weights = np.array([1.5, -1.0, 0.5, 0.0, 0.25])
    labels = generator.uniform(size=rows) < 1 / (1 + np.exp(-data @ weights))
    return data, labels.astype(np.float32)


def exact_posterior(data, labels):
    """Mean and standard deviation by Newton's method: with this many rows the posterior is normal."""
    w = np.zeros(data.shape[1])
    for _ in range(20):
        p = 1 / (1 + np.exp(-data @ w))
        precision = (data.T * (p * (1 - p))) @ data + np.eye(len(w)) / 16
        w = w + np.linalg.solve(precision, data.T @ (labels - p) - w / 16)
    return w, np.sqrt(np.diag(np.linalg.inv(precision)))


def main(rows=10_000, num_iter=1000, epsilon=1.0, delta=1e-6):
    """Fit both ways and print the posteriors."""
    data, labels = make_data(rows)
    mean, sd = exact_posterior(data, labels)
    print(f"{rows} rows, {num_iter} steps, epsilon {epsilon:g}, delta {delta:g}\n")
    print(f"{'':24s}" + "".join(f"      w{j}" for j in range(5)) + "   mean sd")
    print(f"{'exact, not private':24s}" + "".join(f"{x:8.3f}" for x in mean) + f"{sd.mean():10.3f}")
    results = {}
    for name, fit in (("infer (fixed size)", infer), ("run (Poisson)", run)):
        size = 200 if fit is infer else 200 / rows
        params, ledger = fit(data, labels, size, num_iter, epsilon, delta, jax.random.key(1))
        scale = np.exp(params["w_scale_log"]).mean()
        print(f"{name:24s}" + "".join(f"{x:8.3f}" for x in params["w_loc"]) + f"{scale:10.3f}")
        results[name] = (params, ledger)
    print("\n" + str(results["run (Poisson)"][1].statement()))
    return results, mean


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--num-iter", type=int, default=1000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    main(**vars(parser.parse_args()))

"""Private hierarchical logistic regression: weights differ between groups, and group features explain how.

    python examples/hierarchical_logistic_regression.py

The model of the d3p paper's second example (after Wong and Mason 1985): a row's group is private, the features of the
groups (`gs`) are public, so they are passed by keyword. The guide speaks of the matrix M only; the groups' own weights
are drawn from the model given M.
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

from twinify_lite import DPSVI, Ledger, PoissonGaussian


def model(xs, ys, ls, gs, N):
    """Each group has its own weights, centred at a linear map M of the group's features."""
    batch_size, D = xs.shape
    L, K = gs.shape
    M = sample("M", Normal(0, 4), sample_shape=(D, K))
    with plate("group", L, L):
        ws = sample("ws", Normal(gs @ M.T, 1).to_event(1))
    with plate("batch", N, batch_size):
        thetas = sigmoid(jnp.einsum("nd,nd->n", xs, ws[ls]))
        sample("ys", Bernoulli(thetas), obs=ys)


def guide(xs, ys, ls, gs, N):
    """Independent normal posteriors for the entries of M."""
    D, K = xs.shape[1], gs.shape[1]
    M_loc = param("M_loc", jnp.zeros((D, K)))
    M_scale = jnp.exp(param("M_scale_log", jnp.zeros((D, K))))
    sample("M", Normal(M_loc, M_scale))


def make_data(rows, seed=0, groups=3, features=3, columns=5):
    """Rows in groups, as the model says, and the M behind them."""
    generator = np.random.default_rng(seed)
    gs = np.eye(groups, features).astype(np.float32)
    M = generator.normal(scale=2.0, size=(columns, features))
    ws = gs @ M.T + 0.3 * generator.normal(size=(groups, columns))
    xs = generator.normal(size=(rows, columns)).astype(np.float32)
    ls = generator.integers(0, groups, rows)
    ys = generator.uniform(size=rows) < 1 / (1 + np.exp(-np.einsum("nd,nd->n", xs, ws[ls])))
    return xs, ys.astype(np.float32), ls.astype(np.int32), gs, M


def auc(scores, labels):
    """The chance that a row of label 1 scores above one of label 0."""
    ranks = np.argsort(np.argsort(scores)) + 1.0
    positive = labels == 1
    return (ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2) / (positive.sum() * (~positive).sum())


def main(rows=2000, num_iter=2000, epsilon=2.0, delta=1e-5):
    """Fit, and test on as many rows again."""
    xs, ys, ls, gs, M = make_data(2 * rows)
    train, test = slice(0, rows), slice(rows, None)
    ledger = Ledger(epsilon, delta)
    mechanism = PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.05, steps=num_iter)
    receipt = ledger.spend(ledger.calibrate(mechanism), "DPSVI")
    dpsvi = DPSVI(model, guide, Adam(1e-2), Trace_ELBO(), receipt, rows, gs=jnp.asarray(gs))
    result = dpsvi.run(jax.random.key(0), num_iter, xs[train], ys[train], ls[train], progress_bar=False)

    def score(M):
        return auc(np.einsum("nd,nd->n", xs[test], (gs @ np.asarray(M).T)[ls[test]]), ys[test])

    private, best = score(result.params["M_loc"]), score(M)
    print(f"{rows} rows, {num_iter} steps, epsilon {epsilon:g}, delta {delta:g}")
    print(f"AUC on held-out rows: private {private:.3f}; with the true M {best:.3f}; by chance 0.500")
    return private, best


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--num-iter", type=int, default=2000)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    main(**vars(parser.parse_args()))

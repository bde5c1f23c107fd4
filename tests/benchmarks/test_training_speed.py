"""What privacy costs in CPU time: a DPSVI step against a step of NumPyro's SVI, measured side by side.

python -m pytest -m benchmark -s tests/benchmarks
"""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from fits import vae
from numpyro import param, plate, sample
from numpyro.infer import SVI, Trace_ELBO
from numpyro.optim import Adam

import twinify_lite as tw
from twinify_lite.dpsvi import step

ROWS, BATCH = 60_000, 128


def interleaved(runs, steps, repeats):
    """Median CPU ms of a step for several programs in turn, so that a noisy machine is noisy for all of them."""
    for run in runs.values():
        run()
    times = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.process_time()
            run()
            times[name].append((time.process_time() - start) / steps * 1e3)
    return {name: float(np.median(values)) for name, values in times.items()}


def in_order(columns, i):
    """The next slice of the table: the cheapest minibatches there are, with no sampling at all."""
    return [jax.lax.dynamic_slice_in_dim(c, (i % (ROWS // BATCH)) * BATCH, BATCH) for c in columns]


def at_random(columns, i):
    """Rows drawn with replacement by JAX's own generator."""
    index = jax.random.randint(jax.random.fold_in(jax.random.key(1), i), (BATCH,), 0, ROWS)
    return [c[index] for c in columns]


def numpyro_scan(model, guide, columns, steps, rows, **kwargs):
    """NumPyro's SVI in a scan, each step on the minibatch that `rows` names."""
    svi = SVI(model, guide, Adam(1e-3), Trace_ELBO(), **kwargs)
    state = svi.init(jax.random.key(0), *(c[:BATCH] for c in columns))

    @jax.jit
    def run(state, columns):
        def step(state, i):
            return svi.update(state, *rows(columns, i))

        return jax.lax.scan(step, state, jnp.arange(steps))[0]

    return lambda: jax.block_until_ready(run(state, columns).optim_state)


def dpsvi_run(model, guide, columns, steps, mechanism, relation, **kwargs):
    ledger = tw.Ledger(1e6, 1e-6, relation=relation)
    svi = tw.DPSVI(model, guide, Adam(1e-3), Trace_ELBO(), ledger.spend(mechanism, "x"), ROWS, **kwargs)
    state = svi.init(jax.random.key(0), *columns)
    sampler = svi._sampler(columns, is_batch=False)
    # The compiled program that `run` calls, without its once-only guard, so that it can be timed again and again.
    program = jax.jit(partial(step.run_groups, svi._training, sampler, svi._groups(steps)))
    return lambda: jax.block_until_ready(program(svi._secrets, state, columns, jnp.int32(steps)).optim_state)


def mechanisms(steps):
    settings = {"noise_multiplier": 1.5, "sampling_rate": BATCH / ROWS, "steps": steps}
    return {
        "Poisson": (tw.PoissonGaussian(**settings), "add-remove"),
        "fixed size": (tw.FixedSizeGaussian(**settings), "substitute"),
    }


def test_vae_step_costs_at_most_two_and_a_half_times_the_non_private_one(is_full):
    model, guide = vae() if is_full else vae(hidden=4, z_size=2)
    columns = (jnp.asarray(np.random.default_rng(0).integers(0, 2, (ROWS, 784)), jnp.float32),)
    steps, repeats = (20, 5) if is_full else (2, 1)
    runs = {"NumPyro SVI": numpyro_scan(model, guide, columns, steps, in_order, N=ROWS)}
    for name, (mechanism, relation) in mechanisms(steps).items():
        runs[f"DPSVI, {name}"] = dpsvi_run(model, guide, columns, steps, mechanism, relation)
    cost = interleaved(runs, steps, repeats)
    print(f"\nVAE, 688,884 parameters in full, batch {BATCH}, CPU ms a step")
    for name, ms in cost.items():
        print(f"  {name:20s} {ms:8.2f}   {ms / cost['NumPyro SVI']:.2f}x")
    assert max(cost["DPSVI, fixed size"], cost["DPSVI, Poisson"]) <= 2.5 * cost["NumPyro SVI"] or not is_full


def logistic(xs, ys, N):
    w = sample("w", dist.Normal(0, 4).expand([xs.shape[1]]).to_event(1))
    with plate("batch", N, xs.shape[0]):
        sample("ys", dist.Bernoulli(logits=xs @ w), obs=ys)


def mean_field(xs, ys, N):
    d = xs.shape[1]
    scale = jnp.exp(param("w_scale_log", jnp.zeros(d)))
    sample("w", dist.Normal(param("w_loc", jnp.zeros(d)), scale).to_event(1))


def test_logistic_regression_step_costs_at_most_twice_the_non_private_one(is_full):
    for d in (5, 20, 100) if is_full else (3,):
        cost = cost_of_logistic_regression(d, *((2000, 7) if is_full else (2, 1)))
        assert max(cost["DPSVI, fixed size"], cost["DPSVI, Poisson"]) <= 2 * cost["NumPyro SVI"] or not is_full


def cost_of_logistic_regression(d, steps, repeats):
    generator = np.random.default_rng(0)
    columns = (
        jnp.asarray(generator.normal(size=(ROWS, d)), jnp.float32),
        jnp.asarray(generator.integers(0, 2, ROWS), jnp.float32),
    )
    runs = {
        "NumPyro SVI": numpyro_scan(logistic, mean_field, columns, steps, at_random, N=ROWS),
        "NumPyro SVI, slices": numpyro_scan(logistic, mean_field, columns, steps, in_order, N=ROWS),
    }
    for name, (mechanism, relation) in mechanisms(steps).items():
        runs[f"DPSVI, {name}"] = dpsvi_run(logistic, mean_field, columns, steps, mechanism, relation)
    cost = interleaved(runs, steps, repeats)
    print(f"\nlogistic regression, d={d}, {BATCH} random rows of {ROWS}, whole run in one program, CPU ms a step")
    for name, ms in cost.items():
        print(f"  {name:20s} {ms:8.4f}   {ms / cost['NumPyro SVI']:.2f}x")
    return cost

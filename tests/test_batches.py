"""Batches of a fixed size, by the paper's names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fits import KEY, N, X, Y, logistic, mean_field, paid_receipt
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam

import twinify_lite as tw
from twinify_lite.dpsvi import subsample_batchify_data
from twinify_lite.errors import ReceiptError


def test_fixed_size_batches_come_from_subsample_batchify_data():
    receipt = paid_receipt(kind=tw.FixedSizeGaussian, relation="substitute", noise=3.0, rate=0.1)
    svi = tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), receipt, N)
    init, get_batch = subsample_batchify_data((X, Y), N // 10)
    _, batches = init(KEY)
    state = svi.init(KEY, *get_batch(0, batches))
    for i in range(3):
        state, _ = svi.update(state, *get_batch(i, batches))
    assert state.step == 3
    with pytest.raises(ReceiptError, match="pays for batches of 12 rows"):
        svi.update(state, X[:13], Y[:13])


def test_batchified_batches_are_distinct_rows_and_differ_from_batch_to_batch():
    init, get_batch = subsample_batchify_data((jnp.arange(50),), 20)
    number, state = init(KEY)
    assert number == 2
    batches = [np.asarray(get_batch(i, state)[0]) for i in range(3)]
    for batch in batches:
        assert len(set(batch.tolist())) == 20
    assert set(batches[0].tolist()) != set(batches[1].tolist())
    assert set(batches[0].tolist()) != set(np.asarray(get_batch(0, init(KEY)[1])[0]).tolist())


def test_a_compiled_epoch_draws_new_batches_each_time_it_runs():
    init, get_batch = subsample_batchify_data((jnp.arange(1000),), 20)
    epoch = jax.jit(lambda: get_batch(0, init(KEY)[1])[0])
    assert set(np.asarray(epoch()).tolist()) != set(np.asarray(epoch()).tolist())
    with pytest.raises(ValueError, match="ordered"):
        jax.vmap(lambda key: init(key)[1])(jax.random.split(KEY, 2))

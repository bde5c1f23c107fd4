"""Batches of a fixed size, by the paper's names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fits import KEY, N, X, Y, logistic, mean_field, paid_receipt, seeded
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam

import twinify_lite as tw
from twinify_lite import rng
from twinify_lite.dpsvi import batches, row_program, subsample_batchify_data
from twinify_lite.errors import ReceiptError


def test_fixed_size_batches_come_from_subsample_batchify_data():
    receipt = paid_receipt(kind=tw.FixedSizeGaussian, relation="substitute", noise=3.0, rate=0.1)
    svi = tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), receipt, N)
    init, get_batch = subsample_batchify_data((X, Y), N // 10)
    _, drawn = init(KEY)
    state = svi.init(KEY, *get_batch(0, drawn))
    for i in range(3):
        state, _ = svi.update(state, *get_batch(i, drawn))
    assert state.step == 3
    with pytest.raises(ReceiptError, match="pays for batches of 12 rows"):
        svi.update(state, X[:13], Y[:13])


def test_batchified_batches_are_distinct_rows_and_differ_from_batch_to_batch():
    init, get_batch = subsample_batchify_data((jnp.arange(50),), 20)
    number, state = init(KEY)
    assert number == 2
    drawn = [np.asarray(get_batch(i, state)[0]) for i in range(3)]
    for batch in drawn:
        assert len(set(batch.tolist())) == 20
    assert set(drawn[0].tolist()) != set(drawn[1].tolist())
    assert set(drawn[0].tolist()) != set(np.asarray(get_batch(0, init(KEY)[1])[0]).tolist())


def test_a_compiled_epoch_draws_new_batches_each_time_it_runs():
    init, get_batch = subsample_batchify_data((jnp.arange(1000),), 20)
    epoch = jax.jit(lambda: get_batch(0, init(KEY)[1])[0])
    assert set(np.asarray(epoch()).tolist()) != set(np.asarray(epoch()).tolist())
    with pytest.raises(ValueError, match="ordered"):
        jax.vmap(lambda key: init(key)[1])(jax.random.split(KEY, 2))


def test_the_rows_of_a_whole_table_are_shuffled():
    """At rate 1 as well: a row that joins takes a random place, so that it moves the sums of two chunks at most."""
    whole = tw.PoissonGaussian(noise_multiplier=1.0, sampling_rate=1.0, steps=1)
    sampler = batches.sampler_for(whole, 300, 320)
    first, second = (batches.draw(sampler, rng.insecure_key(seed)) for seed in (0, 1))
    assert first.count == second.count == 300
    for drawn in (first, second):
        assert sorted(np.asarray(drawn.first)[:300].tolist()) == list(range(300))
        assert np.mean(np.asarray(drawn.first)[:300] == np.arange(300)) < 0.1
    assert np.mean(np.asarray(first.first == second.first)[:300]) < 0.1


@pytest.mark.parametrize("rows", [1, 300, 10**9, 2 * 10**9, 2**31 - 1])
@pytest.mark.parametrize("kind", [tw.PoissonGaussian, tw.FixedSizeGaussian])
def test_a_batch_has_no_more_rows_than_its_table(rows, kind):
    """Rates that are not exact in binary are given some room, and at rate 1 that would be another row."""
    assert batches.sampler_for(kind(noise_multiplier=1.0, sampling_rate=1.0, steps=1), rows, 32).size == rows


def test_no_width_follows_the_exact_number_of_rows():
    """A row's bits may change with the width of its batch, so one row more would change all others'."""
    svi = seeded()
    svi.init(KEY, X, Y)
    tables = [jnp.zeros((rows, 3)) for rows in (1, N - 1, N, N + 1, 10 * N)]
    widths = {svi._sampler((table, table[:, 0]), is_batch=False).microbatch for table in tables}
    assert widths == {64}
    assert {batches.width(svi.mechanism, rows, 1) for rows in (1, 10 * N)} == {32, 288}


@pytest.mark.parametrize("agree", [True, False])
def test_rows_pass_one_by_one_where_their_bits_would_follow_their_place(agree, monkeypatch):
    monkeypatch.setattr(row_program, "places_agree", lambda *_: agree)
    svi = seeded()
    svi.init(KEY, X, Y)
    assert svi._training.program.one_by_one is not agree


def test_bits_that_follow_their_place_are_noticed():
    weights = jnp.ones(3)
    program = row_program.trace_row(lambda shared, _, row: jnp.sum(jnp.sin(row * shared)), weights, (), X[0])
    assert row_program.places_agree(program, weights, (), X[:32], lambda rows: rows)
    last_bit = jnp.ones((32, 1)).at[7].set(1 + 2.0**-23)
    assert not row_program.places_agree(program, weights, (), X[:32], lambda rows: rows * last_bit)

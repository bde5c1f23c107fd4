"""A paid-for step runs once, whatever program is built around it: two answers with one noise differ by exact sums."""

import copy
import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from fits import KEY, N, X, Y, leaves_equal, seeded
from numpyro import plate, sample

from twinify_lite.errors import ReceiptError


def test_a_step_runs_once():
    """The same step on two tables would carry the same noise, and their difference would be exact."""
    svi = seeded()
    state = svi.init(KEY, X, Y)
    svi.update(state, X, Y)
    with pytest.raises(ReceiptError, match="Step 1 of 'DPSVI' is not the next one"):
        svi.update(state, X[1:], Y[1:])
    with pytest.raises(ReceiptError, match="Step 1 of 'DPSVI' is not the next one"):
        svi.run(KEY, 3, X, Y, progress_bar=False, init_state=state)
    with pytest.raises(Exception, match="is not the next one"):
        jax.block_until_ready(jax.jit(svi.update)(state, X, Y))


def test_several_tables_cannot_share_one_steps_noise():
    svi = seeded()
    state = svi.init(KEY, X, Y)
    tables = jnp.stack([X, 2 * X]), jnp.stack([Y, Y])
    for update in (svi.update, jax.jit(svi.update)):
        with pytest.raises(ValueError, match="ordered"):
            jax.vmap(update, in_axes=(None, 0, 0))(state, *tables)
    svi.update(state, X, Y)


def lanes_of_states(svi, state):
    """Two states that differ in one thing."""
    keys = jax.random.split(KEY, 2)
    yield jax.vmap(lambda key: svi.update(dataclasses.replace(state, rng_key=key), X, Y)[0]), keys
    yield jax.vmap(lambda c: svi.update(dataclasses.replace(state, clip_norm=c), X, Y)[0]), jnp.array([1.0, 2.0])
    moved = jax.tree.map(lambda x: jnp.stack([x, x + 1]), state.optim_state)
    yield jax.vmap(lambda o: svi.update(dataclasses.replace(state, optim_state=o), X, Y)[0]), moved
    yield jax.jit(jax.vmap(lambda key: svi.update(dataclasses.replace(state, rng_key=key), X, Y)[0])), keys


@pytest.mark.parametrize("which", range(4))
def test_several_states_cannot_share_one_steps_noise(which):
    """Restarts by vmap: the difference of two lanes would be exact."""
    svi = seeded()
    state = svi.init(KEY, X, Y)
    lanes, over = list(lanes_of_states(svi, state))[which]
    with pytest.raises(ValueError, match="ordered"):
        lanes(over)
    svi.update(state, X, Y)


def test_several_runs_cannot_share_one_receipt():
    svi = seeded()
    starts = jnp.zeros((2, X.shape[1])).at[1].set(1.0)
    with pytest.raises(ReceiptError, match="vmap"):
        jax.vmap(lambda w: svi.run(KEY, 1, X, Y, init_params={"w_loc": w}, progress_bar=False).params)(starts)
    with pytest.raises(ReceiptError, match="vmap"):
        jax.vmap(lambda key: svi.run(key, 1, X, Y, progress_bar=False).params)(jax.random.split(KEY, 2))
    svi.run(KEY, 1, X, Y, progress_bar=False)


def test_a_claim_cannot_be_taken_back():
    svi = seeded()
    state = svi.init(KEY, X, Y)
    for _ in range(3):
        state, _ = svi.update(state, X, Y)
    with pytest.raises(ReceiptError, match="one step or more"):
        svi.run(None, -3, X, Y, progress_bar=False, init_state=state)
    with pytest.raises(ReceiptError, match="is not the next one"):
        svi.update(dataclasses.replace(state, step=jnp.int32(0)), X, Y)


def test_a_copied_receipt_claims_nothing():
    svi = seeded()
    state = svi.init(KEY, X, Y)
    svi.update(state, X, Y)
    with pytest.raises(ReceiptError, match="not made by this ledger"):
        copy.copy(svi.receipt).claim(0, 1)
    second = copy.copy(svi)
    second.receipt = copy.copy(svi.receipt)
    with pytest.raises(ReceiptError, match="not made by this ledger"):
        second.update(dataclasses.replace(state, owner=id(second.receipt)), X, Y)


@pytest.fixture
def spread():
    """What a model has from outside, and may change from call to call."""
    return [1.0]


@pytest.fixture
def spreading(spread):
    def model(xs, ys, N):
        w = sample("w", dist.Normal(0, 4).expand([xs.shape[1]]).to_event(1))
        with plate("batch", N, xs.shape[0]):
            sample("ys", dist.Bernoulli(logits=spread[0] * (xs @ w)), obs=ys)

    svi = seeded(model=model)
    return svi, svi.init(KEY, X, Y)


@pytest.mark.parametrize(("traced", "error"), [(False, ReceiptError), (True, ValueError)])
def test_a_models_closure_cannot_bring_in_lanes(spreading, spread, traced, error):
    svi, state = spreading

    def lane(value):
        spread[0] = value
        update = partial(svi.update, N=N)  # a keyword has the model traced again
        return (jax.jit(update) if traced else update)(state, X, Y)[0].optim_state

    with pytest.raises(error, match=r"vmap"):
        jax.vmap(lane)(jnp.array([1.0, 2.0]))


def test_what_a_model_has_from_outside_is_that_of_the_start(spreading, spread):
    svi, state = spreading

    def lane(value):
        spread[0] = value
        return svi.update(state, X, Y)[0].optim_state

    lanes = jax.vmap(lane)(jnp.array([1.0, 2.0]))
    assert leaves_equal(*(jax.tree.map(lambda x, i=i: x[i], lanes) for i in range(2)))
    with pytest.raises(ReceiptError):  # the step was run, once
        svi.update(state, X, Y)


def test_the_secret_keys_do_not_stand_in_a_users_program():
    svi = seeded()
    state = svi.init(KEY, X, Y)
    text = jax.jit(lambda xs, ys: svi.update(state, xs, ys)[0].optim_state).lower(X, Y).as_text()
    words = np.concatenate([jax.random.key_data(key) for key in svi._secrets])
    assert not any(f"{word}" in text or f"{word:08X}" in text for word in words)

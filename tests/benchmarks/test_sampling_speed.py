"""What a step pays for its randomness: `pytest -m benchmark -s tests/benchmarks/test_sampling_speed.py`."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from twinify_lite import alias, noise, rng
from twinify_lite.dpsvi import binomial, feistel


@pytest.fixture
def cpu_ms(is_full):
    """The median CPU time of a call, over all threads."""

    def measure(function, *arguments, repeats: int = 15) -> float:
        jax.block_until_ready(function(*arguments))
        taken = []
        for _ in range(repeats if is_full else 1):
            start = time.process_time()
            jax.block_until_ready(function(*arguments))
            taken.append(time.process_time() - start)
        return 1e3 * float(np.median(taken))

    return measure


@pytest.fixture
def per_step(cpu_ms, is_full):
    """CPU ms of one `draw(key)` inside a `lax.scan` with a new key each step, as training runs it."""

    def measure(draw, key, steps: int = 200) -> float:
        steps = steps if is_full else 2

        @jax.jit
        def epoch(key):
            def step(total, i):
                return total + draw(jax.random.fold_in(key, i)).sum(), None

            return lax.scan(step, jnp.int32(0), jnp.arange(steps))[0]

        return cpu_ms(epoch, key) / steps

    return measure


def test_chacha20(cpu_ms, per_step, is_full):
    words = 1_000_000 if is_full else 1000
    taken = cpu_ms(jax.jit(partial(jax.random.bits, shape=(words,))), rng.insecure_key(0))
    fry = cpu_ms(jax.jit(partial(jax.random.bits, shape=(words,))), jax.random.key(0))
    block = per_step(lambda key: jax.random.bits(key, (16,)).astype(jnp.int32), rng.insecure_key(0))
    print(f"\nChaCha20: {words / taken:,.0f} words/ms ({taken:.2f} ms in all; threefry {fry:.2f} ms)")
    print(f"fold_in and one block in a scan: {1e3 * block:.2f} us")


def test_gaussian(cpu_ms, per_step, is_full):
    size, key = 688_884 if is_full else 10_000, rng.insecure_key(0)
    for law in noise.LAWS:
        ours = cpu_ms(jax.jit(lambda key, law=law: noise.draw(key, size, law)), key)
        few = per_step(lambda key, law=law: noise.draw(key, 1000, law), key)
        print(f"\n{law}: {size:,} numbers in {ours:.2f} ms; 1,000 in a scan in {1e3 * few:.1f} us", end="")
    theirs = cpu_ms(jax.jit(lambda key: jax.random.normal(key, (size,))), jax.random.key(0))
    print(f"\njax.random.normal(threefry), {size:,} numbers: {theirs:.2f} ms")


def test_tables_of_the_noise_are_made_quickly(is_full):
    for law, most in zip(noise.LAWS, (0.1, 0.3), strict=True):
        alias.discrete.cache_clear()
        alias.rounded.cache_clear()
        start = time.process_time()
        assert len(law.tables) == 2
        taken = time.process_time() - start
        print(f"\n{law}: both tables in {taken:.3f} s", end="")
        assert taken < most or not is_full


def test_rows_are_a_hundred_times_cheaper_than_choice(cpu_ms, per_step, is_full):
    key = rng.insecure_key(0)
    taken = {}
    for n in (60_000, 65_537, 1_000_000):
        taken[n] = per_step(lambda key, n=n: feistel.rows(key, 0, 128, n), key)
        print(f"\nFeistel, 128 of {n:,} rows in a scan: {taken[n]:.4f} ms", end="")
    keys = jax.jit(lambda key: jax.random.split(key, 16))
    group = per_step(lambda key: jax.vmap(lambda k: feistel.rows(k, 0, 160, 60_000))(keys(key)), key, steps=50)
    print(f"\nFeistel, 16 steps of 160 rows at once: {group:.4f} ms, {group / 16:.4f} a step")
    choice = jax.jit(lambda key: jax.random.choice(key, 1_000_000, (128,), replace=False))
    theirs = cpu_ms(choice, jax.random.key(0), repeats=3)
    print(f"jax.random.choice, 128 of 1,000,000 rows: {theirs:.1f} ms; {theirs / taken[1_000_000]:,.0f} times as much")
    assert theirs > 100 * taken[1_000_000] or not is_full
    assert taken[1_000_000] < 2 * taken[60_000] or not is_full


def test_binomial(per_step):
    start = time.process_time()
    table = binomial.binomial_table(10**7, 0.5)
    built = time.process_time() - start
    drawn = per_step(lambda key: binomial.draw(table, key), rng.insecure_key(0))
    print(f"\nBinomial(10^7, 0.5): table in {built:.3f} s, a draw in a scan {1e3 * drawn:.2f} us")

"""What a step pays for its randomness: `pytest -m benchmark -s tests/benchmarks/test_sampling_speed.py`."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from twinify_lite import noise, rng
from twinify_lite.dpsvi import binomial, feistel

pytestmark = pytest.mark.benchmark
STEPS = 200


def cpu_ms(function, *arguments, repeats: int = 15) -> float:
    """The median CPU time of a call, over all threads."""
    jax.block_until_ready(function(*arguments))
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        jax.block_until_ready(function(*arguments))
        taken.append(time.process_time() - start)
    return 1e3 * float(np.median(taken))


def per_step(draw, key, steps: int = STEPS) -> float:
    """CPU ms of one `draw(key)` inside a `lax.scan` with a new key each step, as training runs it."""

    @jax.jit
    def epoch(key):
        def step(total, i):
            return total + draw(jax.random.fold_in(key, i)).sum(), None

        return lax.scan(step, jnp.int32(0), jnp.arange(steps))[0]

    return cpu_ms(epoch, key) / steps


def test_chacha20():
    words = 1_000_000
    taken = cpu_ms(jax.jit(partial(jax.random.bits, shape=(words,))), rng.insecure_key(0))
    fry = cpu_ms(jax.jit(partial(jax.random.bits, shape=(words,))), jax.random.key(0))
    block = per_step(lambda key: jax.random.bits(key, (16,)).astype(jnp.int32), rng.insecure_key(0))
    print(f"\nChaCha20: {words / taken:,.0f} words/ms ({taken:.2f} ms a million; threefry {fry:.2f} ms)")
    print(f"fold_in and one block in a scan: {1e3 * block:.2f} us")


def test_gaussian():
    size = 690_000
    ours = cpu_ms(jax.jit(lambda key: noise.draw(key, size, 20)), rng.insecure_key(0))
    theirs = cpu_ms(jax.jit(lambda key: jax.random.normal(key, (size,))), jax.random.key(0))
    print(f"\n{size:,} Gaussian integers: {ours:.2f} ms; jax.random.normal(threefry): {theirs:.2f} ms")


def test_rows_are_a_hundred_times_cheaper_than_choice():
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
    assert theirs > 100 * taken[1_000_000]
    assert taken[1_000_000] < 2 * taken[60_000]


def test_binomial():
    start = time.process_time()
    table = binomial.binomial_table(10**7, 0.5)
    built = time.process_time() - start
    drawn = per_step(lambda key: binomial.draw(table, key), rng.insecure_key(0))
    print(f"\nBinomial(10^7, 0.5): table in {built:.3f} s, a draw in a scan {1e3 * drawn:.2f} us")

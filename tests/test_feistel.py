import math
from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec
from scipy import stats

from twinify_lite import rng
from twinify_lite.dpsvi import feistel
from twinify_lite.errors import PrivacyParameterError


def many_keys(seed: int, count: int):
    return jax.random.split(rng.insecure_key(seed), count)


def assert_uniform(outcomes: np.ndarray, cells: int) -> None:
    counts = np.bincount(outcomes, minlength=cells)
    assert len(counts) == cells
    assert stats.chisquare(counts).pvalue > 1e-4


def batches(n: int, count: int, seed: int, keys: int) -> np.ndarray:
    draw = jax.jit(jax.vmap(lambda key: feistel.rows(key, 0, count, n)))
    return np.asarray(draw(many_keys(seed, keys)))


@jax.jit
def _tiny_tables(keys, n):
    def rank(key):
        return feistel._rank(feistel.round_keys(key), jnp.arange(5, dtype=jnp.uint32), n)

    return jax.vmap(rank)(keys)


def tiny_batches(n: int, count: int, seed: int) -> np.ndarray:
    """30,000 batches of at most 5 rows, compiled once for all n."""
    return np.asarray(_tiny_tables(many_keys(seed, 30_000), n))[:, :count].astype(np.int64)


def assert_permutations(images: np.ndarray, sizes: np.ndarray) -> None:
    for image, n in zip(images, sizes, strict=True):
        np.testing.assert_array_equal(np.sort(image[:n]), np.arange(n))


def test_a_permutation_for_every_n_up_to_512():
    keys = feistel.round_keys(rng.insecure_key(0))
    small, large = np.arange(1, 257, dtype=np.uint32), np.arange(257, 513, dtype=np.uint32)
    index = jnp.arange(512, dtype=jnp.uint32)
    ranks = jax.jit(jax.vmap(lambda n: feistel._rank(keys, index[:256], n)))(small)
    walks = jax.jit(jax.vmap(lambda n: feistel._walk(keys, index % n, n, 9)))(large)
    assert_permutations(np.asarray(ranks), small)
    assert_permutations(np.asarray(walks), large)
    for n in (1, 100, 256):
        np.testing.assert_array_equal(feistel.permute(keys, index[:n], n), ranks[n - 1, :n])
    for n in (257, 300, 512):
        np.testing.assert_array_equal(feistel.permute(keys, index[:n], n), walks[n - 257, :n])


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 8, 9, 11, 12])
def test_the_network_is_a_bijection_of_its_domain(bits):
    keys = jax.random.bits(rng.insecure_key(1), (5, feistel._rounds(bits), 2), jnp.uint32)
    domain = jnp.arange(2**bits, dtype=jnp.uint32)
    images = np.asarray(jax.jit(jax.vmap(lambda keys: feistel._network(keys, domain, bits)))(keys))
    np.testing.assert_array_equal(np.sort(images, -1), np.tile(domain, (5, 1)))
    assert len(np.unique(images, axis=0)) > 1


@pytest.mark.parametrize("n", [65_537, 1_000_000])
def test_a_permutation_of_large_n(n):
    image = np.asarray(feistel.rows(rng.insecure_key(n), 0, n, n))
    np.testing.assert_array_equal(np.sort(image), np.arange(n))
    assert abs(np.corrcoef(np.arange(n), image)[0, 1]) < 5 / math.sqrt(n)


def test_the_largest_table():
    n = 2**31 - 1
    image = np.asarray(feistel.rows(rng.insecure_key(2), n - 500, 500, n))
    assert len(set(image)) == 500
    assert image.min() >= 0
    assert stats.kstest(image / n, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 9, 16, 17])
def test_single_rows_and_ordered_pairs_are_uniform_on_tiny_tables(n):
    first, second = tiny_batches(n, 2, seed=n).T
    assert_uniform(first, n)
    assert_uniform(second, n)
    pair = first * (n - 1) + second - (second > first)
    assert_uniform(pair, n * (n - 1))


@pytest.mark.parametrize(("n", "size"), [(4, 2), (5, 1), (5, 2), (5, 3), (5, 4), (6, 3), (8, 4), (9, 3), (16, 2)])
def test_whole_batches_are_uniform_subsets_on_tiny_tables(n, size):
    drawn = np.sort(tiny_batches(n, size, seed=100 + n), -1) @ (n ** np.arange(size))
    subsets = sorted(np.array(subset) @ (n ** np.arange(size)) for subset in combinations(range(n), size))
    assert set(drawn) <= set(subsets)
    assert_uniform(np.searchsorted(subsets, drawn), math.comb(n, size))


def test_every_order_of_five_rows_is_equally_likely():
    drawn = tiny_batches(5, 5, seed=3) @ (5 ** np.arange(5))
    _, place = np.unique(drawn, return_inverse=True)
    assert_uniform(place, math.factorial(5))


@pytest.mark.parametrize("bits", [6, 8])
def test_the_network_sends_pairs_to_uniform_pairs(bits):
    """Pairs that share a half are where too few rounds show: 4 rounds on 6 bits are off by a tenth."""
    keys = jax.random.bits(rng.insecure_key(bits), (250_000, feistel._rounds(bits), 2), jnp.uint32)
    network = jax.jit(jax.vmap(lambda keys: feistel._network(keys, jnp.uint32([0, 1, 2**bits - 1]), bits)))
    a, b, c = np.asarray(network(keys)).astype(np.int64).T
    size = 2**bits
    for x, y in ((a, b), (a, c)):
        assert_uniform(x, size)
        if bits == 6:
            assert_uniform(x * (size - 1) + y - (y > x), size * (size - 1))
        assert_uniform((x ^ y) - 1, size - 1)


@pytest.mark.parametrize("n", [257, 1000, 60_000])
def test_rows_and_differences_are_uniform_just_above_the_ranked_tables(n):
    first, second = batches(n, 2, seed=n, keys=60_000).T.astype(np.int64)
    assert_uniform(first if n <= 1000 else first // 100, min(n, n // 100 if n > 1000 else n))
    assert stats.kstest((second - first) % n / n, "uniform").pvalue > 1e-4


def test_membership_of_each_row_has_the_sampling_rate():
    """A batch of half of 300 rows: the number of batches a row is in, and two rows are in together."""
    drawn = batches(300, 150, seed=5, keys=20_000)
    member = np.zeros((20_000, 300), np.float32)
    np.put_along_axis(member, drawn, 1, axis=1)
    single = member.sum(0)
    assert stats.chi2.sf(np.sum((single - 10_000) ** 2) / 5000 * 299 / 300, 299) > 1e-4
    together = (member.T @ member)[np.triu_indices(300, 1)]
    expected = 20_000 * 150 * 149 / (300 * 299)
    assert abs(np.std(together) / np.sqrt(expected * (1 - expected / 20_000)) - 1) < 0.03


def test_rounds_bring_pairs_within_two_to_the_minus_64():
    for bits in range(9, 32):
        rounds = feistel._rounds(bits)
        assert rounds % 2 == 0
        assert 16 <= rounds <= 32
        assert (bits // 2) * rounds // 2 >= 64
    assert feistel._rounds(16) == 16
    assert feistel._rounds(9) == 32


@pytest.mark.parametrize(("n", "expected"), [(2**12 + 1, 2.0), (2**12, 1.0), (3000, 4096 / 3000)])
def test_walks_end_after_the_expected_number_of_networks(n, expected):
    bits = (n - 1).bit_length()
    keys = feistel.round_keys(rng.insecure_key(6))
    x = np.arange(n, dtype=np.uint32)
    network = jax.jit(lambda x: feistel._network(keys, x, bits))
    walks, going = 0, np.ones(n, bool)
    while going.any():
        walks += going.sum()
        x = np.where(going, network(x), x)
        going = x >= n
    assert walks / n == pytest.approx(expected, rel=0.05)
    np.testing.assert_array_equal(x, feistel.permute(keys, jnp.arange(n), n))


def test_chunks_join_to_the_whole_and_places_beyond_the_table_give_row_0():
    key = rng.insecure_key(7)
    for n in (5, 256, 1000):
        whole = np.asarray(feistel.rows(key, 0, n, n))
        chunk = jax.jit(lambda start, n=n: feistel.rows(key, start, 64, n))
        parts = np.concatenate([chunk(start) for start in range(0, n, 64)])
        np.testing.assert_array_equal(parts[:n], whole)
        assert not np.any(parts[n:])
        assert not np.any(np.asarray(chunk(2**31 - 1)))


def test_vmap_scan_and_shard_map_agree_with_single_draws():
    keys = many_keys(8, 4)
    draw = partial(feistel.rows, start=0, count=20, n=1000)
    single = np.stack([draw(key) for key in keys])
    np.testing.assert_array_equal(jax.vmap(draw)(keys), single)
    np.testing.assert_array_equal(lax.scan(lambda _, key: (None, draw(key)), None, keys)[1], single)
    mesh = Mesh(np.array(jax.devices()[:1]), ("device",))
    spec = PartitionSpec("device")
    sharded = jax.shard_map(jax.vmap(draw), mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_array_equal(sharded(keys), single)
    assert single.dtype == np.int32
    assert len(np.unique(single[0])) == 20


def test_exports_for_cuda():
    def draw(data):
        return feistel.rows(rng.key_from_words(data), 0, 128, 60_000)

    jax.export.export(jax.jit(draw), platforms=["cuda"])(jax.ShapeDtypeStruct((8,), jnp.uint32))


@pytest.mark.parametrize("n", [0, -1, 2**31])
def test_impossible_tables_are_refused(n):
    with pytest.raises(PrivacyParameterError, match="rows"):
        feistel.permute(feistel.round_keys(rng.insecure_key(0)), jnp.arange(1), n)


def test_the_memory_does_not_grow_with_the_table():
    def needed(n):
        draw = jax.jit(lambda key: feistel.rows(key, 0, 128, n))
        return draw.lower(rng.insecure_key(9)).compile().memory_analysis().temp_size_in_bytes

    assert needed(60_000) == needed(2**31 - 1) < 128 * 100


@pytest.mark.parametrize("n", [60_000, 65_537, 1_000_000, 2**30 + 1, 2**31 - 1])
def test_the_passes_through_the_network_do_not_grow_with_the_table(monkeypatch, n):
    network, passes = feistel._network, []
    monkeypatch.setattr(feistel, "_network", lambda *arguments: passes.append(1) or network(*arguments))
    with jax.disable_jit():
        feistel.rows(rng.insecure_key(9), 0, 128, n)
    # Each pass leaves less than half of the rows to walk on: of 128, one does so after 40 passes with chance 2^-33.
    assert 1 <= len(passes) <= 40

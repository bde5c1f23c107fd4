import doctest
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec
from scipy import stats

from twinify_lite import rng
from twinify_lite.errors import PrivacyParameterError

# RFC 8439, section 2.3.2 and appendix A.1: key, counter, nonce, block.
RFC_8439 = [
    (
        bytes(range(32)).hex(),
        1,
        "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        "00" * 32,
        0,
        "00" * 12,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        "00" * 32,
        1,
        "00" * 12,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        "00" * 31 + "01",
        1,
        "00" * 12,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    (
        "00ff" + "00" * 30,
        2,
        "00" * 12,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (
        "00" * 32,
        0,
        "00" * 11 + "02",
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
]


def words(hexadecimal: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(hexadecimal), "<u4")


def key_words(key) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


@pytest.mark.parametrize(("key", "counter", "nonce", "block"), RFC_8439)
def test_block_matches_rfc_8439(key, counter, nonce, block):
    counters = jnp.uint32([counter, 7, counter])
    blocks = rng.chacha20_block(jnp.asarray(words(key)), counters, jnp.asarray(words(nonce)))
    np.testing.assert_array_equal(blocks[0], words(block))
    np.testing.assert_array_equal(blocks[2], words(block))
    assert not np.array_equal(blocks[1], blocks[0])


def test_blocks_take_the_shape_of_the_counters():
    key, nonce = jnp.arange(8, dtype=jnp.uint32), jnp.arange(3, dtype=jnp.uint32)
    counters = jnp.uint32([[0, 1, 2**32 - 1], [5, 6, 2**31]])
    blocks = rng.chacha20_block(key, counters, nonce)
    assert blocks.shape == (2, 3, 16)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_array_equal(blocks[i, j], rng.chacha20_block(key, counters[i, j], nonce))


def keystream(key, purpose: int, blocks: int, data: int = 0) -> np.ndarray:
    nonce = jnp.asarray([purpose, data, 0], jnp.uint32)
    return np.asarray(rng.chacha20_block(jax.random.key_data(key), jnp.arange(blocks, dtype=jnp.uint32), nonce))


def test_streams_children_and_folds_come_from_separate_nonces():
    key = rng.insecure_key(11)
    bits = np.asarray(jax.random.bits(key, (64,)))
    assert sorted(bits) == sorted(keystream(key, 4, 4).ravel())
    np.testing.assert_array_equal(key_words(jax.random.split(key, 6)), keystream(key, 2, 3).reshape(6, 8))
    np.testing.assert_array_equal(key_words(jax.random.fold_in(key, 9)), keystream(key, 3, 1, data=9)[0, :8])
    everything = [bits, key_words(jax.random.split(key, 6)), key_words(jax.random.fold_in(key, 0))]
    seen = np.concatenate([np.ravel(x) for x in everything])
    assert len(np.unique(seen)) == len(seen)


@pytest.mark.parametrize("blocks", [1, 255, 256, 257, 1000])
def test_a_stream_uses_each_block_once_however_it_is_chunked(blocks):
    key = rng.insecure_key(12)
    size = 16 * blocks
    expected = np.sort(keystream(key, 4, blocks).ravel())
    if blocks <= 256 or blocks % 256 == 0:
        np.testing.assert_array_equal(np.sort(jax.random.bits(key, (size,))), expected)
    else:
        whole = 16 * 256 * -(-blocks // 256)
        stream = np.asarray(jax.random.bits(key, (whole,)))
        np.testing.assert_array_equal(stream[:size], jax.random.bits(key, (size,)))
        np.testing.assert_array_equal(np.sort(stream), np.sort(keystream(key, 4, whole // 16).ravel()))


@pytest.mark.parametrize("size", [7, 20_000])
def test_jit_vmap_and_scan_give_the_same_bits(size):
    keys = jax.random.split(rng.insecure_key(1), 3)
    draw = partial(jax.random.bits, shape=(size,))
    one_by_one = np.stack([draw(key) for key in keys])
    np.testing.assert_array_equal(jax.jit(jax.vmap(draw))(keys), one_by_one)
    np.testing.assert_array_equal(lax.scan(lambda _, key: (None, draw(key)), None, keys)[1], one_by_one)
    folded = jax.vmap(jax.random.fold_in)(keys, jnp.arange(3))
    np.testing.assert_array_equal(key_words(folded[1]), key_words(jax.random.fold_in(keys[1], 1)))


def test_cpu_chunks_give_what_other_devices_compute_in_one_pass():
    key = jax.random.key_data(rng.insecure_key(2))
    counter = jnp.arange(3 * 256, dtype=jnp.uint32).reshape(3, 256)
    at_once = jnp.moveaxis(rng._words_first(key, counter, rng._nonce(4)), 0, 1)
    np.testing.assert_array_equal(rng._keystream(key, 3 * 256 * 16), at_once.ravel())


@pytest.mark.parametrize(("width", "x64"), [(8, False), (16, False), (32, False), (64, True)])
def test_every_width_is_uniform_in_every_bit(width, x64):
    with jax.enable_x64(x64):
        bits = np.asarray(jax.random.bits(rng.insecure_key(width), (30_001,), f"uint{width}"))
    assert bits.dtype == f"uint{width}"
    assert bits.shape == (30_001,)
    ones = np.array([np.sum(bits >> np.array(i, bits.dtype) & np.array(1, bits.dtype)) for i in range(width)])
    assert stats.chi2.sf(np.sum((ones - 15_000.5) ** 2 / 7500.25), width) > 1e-4
    assert bits.max() > 0.99 * 2**width


def test_jax_distributions_take_the_key():
    key = rng.insecure_key(3)
    assert stats.kstest(np.asarray(jax.random.uniform(key, (4000,))), "uniform").pvalue > 1e-3
    assert stats.kstest(np.asarray(jax.random.normal(key, (4000,))), "norm").pvalue > 1e-3
    assert sorted(np.asarray(jax.random.permutation(key, 50))) == list(range(50))
    assert jax.random.bits(key, (0,)).shape == (0,)
    assert str(key.dtype) == "key<c20>"


def test_a_stream_longer_than_its_counter_is_refused():
    assert rng._block_count(2**36) == 2**32
    with pytest.raises(ValueError, match=r"jax\.random\.split"):
        rng._block_count(2**36 + 1)


def test_fresh_keys_differ_and_hold_256_bits():
    keys = np.stack([key_words(rng.fresh_key()) for _ in range(200)])
    assert keys.shape == (200, 8)
    assert len(np.unique(keys)) == keys.size
    ones = np.array([(keys >> i & 1).sum(0) for i in range(32)])
    assert np.all((ones > 40) & (ones < 160))


def test_insecure_key_repeats_and_uses_all_64_bits():
    np.testing.assert_array_equal(key_words(rng.insecure_key(5)), key_words(rng.insecure_key(5)))
    np.testing.assert_array_equal(key_words(rng.insecure_key(5)), key_words(jax.random.key(5, impl=rng.CHACHA20)))
    seeds = [0, 1, 2**31, 2**32, 2**32 + 1, 2**64 - 1]
    assert len({key_words(rng.insecure_key(seed)).tobytes() for seed in seeds}) == len(seeds)
    for seed in (-1, 2**64):
        with pytest.raises(PrivacyParameterError, match="seed"):
            rng.insecure_key(seed)


def test_insecure_keys_differ_by_use_and_place():
    keys = [key_words(key).tobytes() for number in range(3) for key in rng.insecure_keys(4, number, 2)]
    assert len(set(keys)) == 6
    assert keys[:2] == [key_words(key).tobytes() for key in rng.insecure_keys(4, 0, 2)]


def test_shard_map_draws_from_the_keys_of_each_device():
    mesh = Mesh(np.array(jax.devices()[:1]), ("device",))
    keys = jax.random.split(rng.insecure_key(6), len(mesh.devices))

    @partial(jax.shard_map, mesh=mesh, in_specs=PartitionSpec("device"), out_specs=PartitionSpec("device"))
    def draw(key):
        folded = jax.random.fold_in(rng.insecure_key(0), lax.axis_index("device"))
        return jax.random.bits(key[0], (5000,))[None] ^ jax.random.bits(folded, (5000,))

    folded = jax.random.fold_in(rng.insecure_key(0), 0)
    expected = jax.random.bits(keys[0], (5000,)) ^ jax.random.bits(folded, (5000,))
    np.testing.assert_array_equal(draw(keys)[0], expected)


def test_exports_for_cuda():
    def draw(data):
        key = rng.key_from_words(data)
        return jax.random.bits(jax.random.fold_in(key, 1), (9000,))

    exported = jax.export.export(jax.jit(draw), platforms=["cuda"])(jax.ShapeDtypeStruct((8,), jnp.uint32))
    assert exported.platforms == ("cuda",)


def test_docstrings_run():
    assert doctest.testmod(rng).failed == 0

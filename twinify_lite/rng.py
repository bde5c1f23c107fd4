"""ChaCha20 as a JAX random number generator: keys that cannot be guessed, streams that cannot be predicted.

`fresh_key()` is what a private run uses; `insecure_key(seed)` repeats itself, for tests and papers. Either is an
ordinary typed JAX key: `jax.random.split`, `fold_in`, `bits`, `normal` and the rest take it, under jit, vmap and scan.

>>> import jax
>>> key_rows, key_noise = jax.random.split(insecure_key(0))
>>> jax.random.uniform(key_noise, (2,)).shape
(2,)
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Integer, Key, UInt32

from twinify_lite.errors import PrivacyParameterError

_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4").astype(np.uint32)

# One purpose per nonce: an output stream, a child key and a folded key come from different blocks for every input,
# so none can equal another except by chance of 2^-256.
_SEED, _SPLIT, _FOLD, _BITS = 1, 2, 3, 4

# Blocks that XLA's CPU backend works on at once: their state is 16 KiB and stays in the core's cache.
_CHUNK = 256
_MAX_BLOCKS = 2**32


def _rotate(x: UInt32[Array, "..."], bits: int) -> UInt32[Array, "..."]:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def _quarter_round(a, b, c, d):
    a = a + b
    d = _rotate(d ^ a, 16)
    c = c + d
    b = _rotate(b ^ c, 12)
    a = a + b
    d = _rotate(d ^ a, 8)
    c = c + d
    b = _rotate(b ^ c, 7)
    return a, b, c, d


def _shift(row: UInt32[Array, "4 *n"], by: int) -> UInt32[Array, "4 *n"]:
    # A gather, not `jnp.roll`: XLA's CPU backend does not fuse through it, and so computes no quarter round twice.
    return row.at[(np.arange(4) + by) % 4].get(mode="promise_in_bounds")


def _double_round(state):
    a, b, c, d = _quarter_round(*state)
    a, b, c, d = _quarter_round(a, _shift(b, 1), _shift(c, 2), _shift(d, 3))
    return a, _shift(b, 3), _shift(c, 2), _shift(d, 1)


@jax.jit
def _rounds(*state: UInt32[Array, "4 *n"]) -> tuple[UInt32[Array, "4 *n"], ...]:
    """Run the 20 rounds as a loop: it compiles in 0.3 s on a CPU, ten copies of its body in 2 s, at every use."""
    return lax.fori_loop(0, 10, lambda _, state: _double_round(state), state)


def _rounds_in_one_kernel(*state: UInt32[Array, "4 *n"]) -> tuple[UInt32[Array, "4 *n"], ...]:
    """The same with a hint to XLA's CPU backend to compile the loop as one function, not a score of them a round.

    It does so by itself for loops over less than 1 KiB. Half the CPU time; a backend that does not know the hint
    ignores it.
    """
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        return _rounds(*state)


def _words_first(
    key: UInt32[Array, "8"], counter: UInt32[Array, "*n"], nonce: UInt32[Array, "3"], rounds: Callable = _rounds
) -> UInt32[Array, "16 *n"]:
    """Run the block function on the four rows of all states at once, as CPUs with vector registers do for one state."""

    def spread(words):
        return jnp.broadcast_to(words.reshape((-1,) + (1,) * counter.ndim), (len(words), *counter.shape))

    last_row = jnp.concatenate([counter[None], spread(nonce)])
    # In `shard_map`, a loop wants all it carries to vary over the same devices: 0, but made of every input, does that.
    zero = (counter & 0) | (key[0] & 0) | (nonce[0] & 0)
    rows = (spread(jnp.asarray(_CONSTANTS)), spread(key[:4]), spread(key[4:]), last_row)
    start = tuple(row | zero for row in rows)
    return jnp.concatenate([x + y for x, y in zip(start, rounds(*start), strict=True)])


@jax.jit
def chacha20_block(
    key: UInt32[Array, "8"], counter: UInt32[Array, "*n"], nonce: UInt32[Array, "3"]
) -> UInt32[Array, "*n 16"]:
    """Return the ChaCha20 blocks with these counters, each as its 16 little-endian words.

    Formal guarantee: equals the block function of RFC 8439, section 2.3, for every key, counter and nonce.
    """
    return jnp.moveaxis(_words_first(key, counter, nonce), 0, -1)


def _nonce(purpose: int, data=0) -> UInt32[Array, "3"]:
    return jnp.stack([jnp.uint32(purpose), jnp.asarray(data, jnp.uint32), jnp.uint32(0)])


def _block_count(words: int) -> int:
    blocks = -(-words // 16)
    if blocks > _MAX_BLOCKS:
        raise ValueError(
            f"{words} random words were asked of one key, which has {16 * _MAX_BLOCKS}: its 32-bit block counter "
            "would repeat. Split the key with `jax.random.split` and draw a part from each."
        )
    return blocks


def _keystream(key: UInt32[Array, "8"], words: int) -> UInt32[Array, "words"]:
    """Return `words` words of the key's output stream, in an order that suits the machine, not that of RFC 8439."""
    blocks = _block_count(words)
    nonce = _nonce(_BITS)
    if blocks <= _CHUNK:
        return _words_first(key, lax.iota(jnp.uint32, blocks), nonce).ravel()[:words]
    chunks = -(-blocks // _CHUNK)
    counter = lax.iota(jnp.uint32, chunks * _CHUNK).reshape(chunks, _CHUNK)
    stream = lax.platform_dependent(
        counter,
        cpu=lambda counter: lax.map(lambda part: _words_first(key, part, nonce, _rounds_in_one_kernel), counter),
        default=lambda counter: jnp.moveaxis(_words_first(key, counter, nonce), 0, 1),
    )
    return stream.ravel()[:words]


@jax.jit
def _seed(seed: Integer[Array, ""]) -> UInt32[Array, "8"]:
    low = seed.astype(jnp.uint32)
    high = (seed >> 32).astype(jnp.uint32) if seed.dtype.itemsize == 8 else jnp.uint32(0)
    return _expand_seed(jnp.stack([low, high]))


def _expand_seed(words: UInt32[Array, "2"]) -> UInt32[Array, "8"]:
    padded = jnp.concatenate([words, jnp.zeros(6, jnp.uint32)])
    return chacha20_block(padded, jnp.uint32(0), _nonce(_SEED))[:8]


@partial(jax.jit, static_argnums=1)
def _split(key: UInt32[Array, "8"], shape: tuple[int, ...]) -> UInt32[Array, "*shape 8"]:
    words = 8 * math.prod(shape)
    blocks = chacha20_block(key, lax.iota(jnp.uint32, _block_count(words)), _nonce(_SPLIT))
    return blocks.ravel()[:words].reshape(*shape, 8)


@jax.jit
def _fold_in(key: UInt32[Array, "8"], data: Integer[Array, ""]) -> UInt32[Array, "8"]:
    return chacha20_block(key, jnp.uint32(0), _nonce(_FOLD, data))[:8]


@partial(jax.jit, static_argnums=(1, 2))
def _random_bits(key: UInt32[Array, "8"], bit_width: int, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape)
    words = _keystream(key, -(-size * bit_width // 32))
    if bit_width == 64:
        words = words.reshape(-1, 2)
    return lax.bitcast_convert_type(words, f"uint{bit_width}").ravel()[:size].reshape(shape)


#: Pass it as `impl` where JAX asks for a generator: `jax.random.key(0, impl=CHACHA20)`.
CHACHA20 = define_prng_impl(
    key_shape=(8,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="chacha20",
    tag="c20",
)


def key_from_words(words: UInt32[Array | np.ndarray, "*n 8"]) -> Key[Array, "*n"]:
    """Make a key of 256 bits that the caller answers for."""
    return jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32), impl=CHACHA20)


def fresh_key() -> Key[Array, ""]:
    """Return a key from the operating system's entropy: the only key that keeps a run private.

    Formal guarantee: all 256 bits come from the operating system's CSPRNG, and nothing of it is stored or logged here.
    Do not print it: JAX shows the words of a key in its repr.
    """
    return key_from_words(np.frombuffer(secrets.token_bytes(32), dtype="<u4"))


def insecure_key(seed: int) -> Key[Array, ""]:
    """Return the key that belongs to `seed`. Whoever guesses the seed can subtract the noise: never for a release."""
    if not 0 <= seed < 2**64:
        raise PrivacyParameterError("A seed is a whole number from 0 to 2^64 - 1. Choose one in this range.")
    return key_from_words(_expand_seed(jnp.asarray([seed % 2**32, seed >> 32], jnp.uint32)))


def insecure_keys(seed: int, number: int, count: int) -> Key[Array, "count"]:
    """Return `count` keys for use number `number` of `seed`, with the warning of `insecure_key`."""
    return jax.random.split(jax.random.fold_in(insecure_key(seed), number), count)

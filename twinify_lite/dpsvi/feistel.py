"""Uniform rows without replacement at a cost that does not grow with the table.

Place i of a keyed permutation of {0, ..., n-1} is computed on its own, so a batch of K rows is the first K places
and nothing of size n is ever made: a Feistel network with cycle walking, as in Prediger et al., "d3p", section
"Performant GPU Batch Subsampling". Tables of at most 256 rows are too small for a network and are ranked instead.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32, Integer, Key, UInt32

from twinify_lite.errors import PrivacyParameterError
from twinify_lite.rng import key_from_words

_MAX_ROWS = 2**31 - 1
# On a tiny table a network of 16 rounds is not uniform: with ideal round functions, a batch of half the table is at a
# total variation distance of 0.029 from a uniform one at n = 8, and of 0.0025 at n = 16 (enumerated exactly).
_RANKED = 256
#: How far the ranking of so many rows is from a uniform permutation, in total variation distance: the chance of a tie.
RANKING_ERROR = 2.0**-113
_MAX_ROUNDS = 32


def round_keys(key: Key[Array, ""]) -> UInt32[Array, "32 2"]:
    """Derive the 64 secret bits of every round; `permute` takes as many rounds as the table needs."""
    return jax.random.bits(key, (_MAX_ROUNDS, 2), jnp.uint32)


def _rounds(bits: int) -> int:
    # For ideal round functions on halves of h bits or more, the distance of a pair of rows from a uniform pair falls by
    # 2^-h every second round (enumerated exactly for 4 to 8 bits): this many, at least 16, bring it to about 2^-64.
    return max(16, 2 * -(-64 // (bits // 2)))


def _mix(half: UInt32[Array, "*n"], key: UInt32[Array, "2"]) -> UInt32[Array, "*n"]:
    # "triple32" of Wellons' hash-prospector, a mixer found by searching for the least avalanche bias, with half of the
    # key before the first multiplication and half before the second. It stays in registers, where a block of ChaCha20
    # for each row and round would not; nobody sees its output, only sums over whole batches with noise on them.
    x = half ^ key[0]
    x = (x ^ (x >> 17)) * np.uint32(0xED5AD4BB)
    x = ((x ^ (x >> 11)) + key[1]) * np.uint32(0xAC4C1B51)
    x = (x ^ (x >> 15)) * np.uint32(0x31848BAB)
    return x ^ (x >> 14)


def _network(keys: UInt32[Array, "rounds 2"], x: UInt32[Array, "*n"], bits: int) -> UInt32[Array, "*n"]:
    """Permute {0, ..., 2^bits - 1}: each round adds a keyed function of one half of the bits to the other half.

    An odd number of bits is split unevenly, so that the domain stays below 2n. With two bits or more in either half,
    each round is an even permutation. That cannot be seen in a batch: the even permutations of N places reach every
    ordered choice of N - 2 of them, and every set, equally often.
    """
    low_bits = (bits + 1) // 2
    low_mask, high_mask = np.uint32(2**low_bits - 1), np.uint32(2 ** (bits - low_bits) - 1)
    low, high = x & low_mask, x >> low_bits
    for i in range(_rounds(bits)):
        if i % 2 == 0:
            low = low ^ (_mix(high, keys[i]) & low_mask)
        else:
            high = high ^ (_mix(low, keys[i]) & high_mask)
    return (high << low_bits) | low


def _walk(
    keys: UInt32[Array, "rounds 2"], index: UInt32[Array, "*n"], n: Integer[Array, ""] | int, bits: int
) -> UInt32[Array, "*n"]:
    """Follow each index through the network until it lands below n: in expectation 2^bits / n < 2 times."""

    def again(x):
        return jnp.where(x >= n, _network(keys, x, bits), x)

    return lax.while_loop(lambda x: jnp.any(x >= n), again, _network(keys, index, bits))


def _rank(
    keys: UInt32[Array, "rounds 2"], index: UInt32[Array, "*n"], n: Integer[Array, ""] | int
) -> UInt32[Array, "*n"]:
    """Send `index` to its rank among n random 128-bit words: uniform but for ties, which have chance n^2 2^-129."""
    words = jax.random.bits(key_from_words(keys[:4].ravel()), (4, _RANKED), jnp.uint32)
    at, other = index[..., None], lax.iota(jnp.uint32, _RANKED)
    before = other < at
    for word in words:
        before = (word < word[at]) | ((word == word[at]) & before)
    return jnp.sum(before & (other < n), axis=-1, dtype=jnp.uint32)


@partial(jax.jit, static_argnums=2)
def permute(keys: UInt32[Array, "rounds 2"], index: Integer[Array, "*n"], n: int) -> Int32[Array, "*n"]:
    """Return where the permutation of {0, ..., n-1} that belongs to `keys` sends each `index`, which must be below n.

    Formal guarantee: a bijection for every keys and n. For n <= 256 and random keys it is uniform up to a total
    variation distance of 2^-113; above, a pair of rows is up to about 2^-64, as far as `_mix` passes for random.
    """
    if not 1 <= n <= _MAX_ROWS:
        raise PrivacyParameterError("Rows can be drawn from tables of 1 to 2^31 - 1 rows. Give `n` in this range.")
    index = index.astype(jnp.uint32)
    image = _rank(keys, index, n) if n <= _RANKED else _walk(keys, index, n, (n - 1).bit_length())
    return image.astype(jnp.int32)


def rows(key: Key[Array, ""], start: Integer[Array, ""] | int, count: int, n: int) -> Int32[Array, "count"]:
    """Return the rows at places start, ..., start + count - 1 of the permutation of n rows that belongs to `key`.

    Formal guarantee: rows of different places below n differ. Places from n on give row 0: mask them out.
    """
    place = jnp.asarray(start).astype(jnp.uint32) + lax.iota(jnp.uint32, count)
    inside = place < np.uint32(n)
    return jnp.where(inside, permute(round_keys(key), jnp.where(inside, place, 0), n), 0)

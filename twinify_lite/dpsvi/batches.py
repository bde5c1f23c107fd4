"""Which rows a step sees: the samplers that the accountant has theorems for, drawn from one keyed permutation.

Poisson sampling: K ~ Binomial(n, rate), then the first K places of a fresh permutation. A uniform subset of
binomial size is a Poisson sample, so `PoissonGaussian` is the exact account of it. Fixed-size sampling takes the
first B places, and is accounted for under substitution only (`FixedSizeGaussian`). Either way the rows are met in
microbatches of one fixed shape with a mask: nothing is cut off, whatever K turns out to be.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from twinify_lite import rng
from twinify_lite.accountant import Mechanism, NotPrivate, PoissonGaussian
from twinify_lite.dpsvi import binomial, feistel, jaxprs
from twinify_lite.dpsvi.lattice import WIDTH
from twinify_lite.dpsvi.rows import count_rows
from twinify_lite.errors import PrivacyParameterError

# A microbatch holds at most about this many gradient numbers: 8 MB of float32, which stays near the cache.
_MICROBATCH_NUMBERS = 2**21
_LARGEST_MICROBATCH = 4096


class Sampler(NamedTuple):
    """How many rows of a table of `rows` rows a step takes: `size` of them, or binomially many where there is a
    `table`. `microbatch` of them are met at once: a width that no private number enters.

    The sum over a batch times `rows_over_batch` estimates the sum over the table without bias, by public numbers only.
    With `in_order` rows keep their places: they are a batch that was drawn elsewhere, or nobody protects them. Where
    `size` is public, the program may be made for it.
    """

    rows: int
    size: int
    table: binomial.BinomialTable | None
    microbatch: int
    rows_over_batch: float
    in_order: bool = False
    is_size_public: bool = False

    @property
    def is_one_microbatch(self) -> bool:
        """Whether a batch of a size that is public fits into one."""
        return self.is_size_public and self.size <= self.microbatch


class Draw(NamedTuple):
    """One step's batch, all of it secret: the permutation's keys, how many places to take, the rows at the first of
    them, and the key for what the guide draws for each person.
    """

    round_keys: UInt32[Array, "..."]
    count: Int[Array, ""]
    first: Int[Array, " place"]
    local_key: Array


def width(mechanism: Mechanism, public_rows: int, numbers_per_row: int, multiple: int = 1) -> int:
    """How many rows of a batch are met at once: the usual batch if memory allows, a multiple of 32 on every device.

    `public_rows` is a public or noisy number of rows. The exact one may not enter: a row's bits may change with the
    width of its batch, so one row more would change all others'. `numbers_per_row` is what a row holds in memory.
    """
    rate = _rate(mechanism)
    usual = math.ceil(public_rows * rate + 2.5 * math.sqrt(public_rows * rate * (1 - rate)))
    return _whole_widths(usual, numbers_per_row, multiple)


def sampler_for(mechanism: Mechanism, rows: int, microbatch: int) -> Sampler:
    """The sampler that `mechanism` accounts for, on a table of `rows` rows, `microbatch` at once."""
    rate = _rate(mechanism)
    if isinstance(mechanism, PoissonGaussian) and rate < 1:
        return Sampler(rows, rows, binomial.binomial_table(rows, rate), microbatch, 1 / rate)
    # Rounding room, because a rate such as 128/60000 is not exact in binary.
    size = min(rows, math.floor(rows * rate * (1 + 1e-9)))
    if size < 1:  # the number of rows is public here: only batches of a fixed size get so small
        raise PrivacyParameterError("The sampling rate takes less than one row of this table. Raise it above 1/rows.")
    is_free, is_poisson = isinstance(mechanism, NotPrivate), isinstance(mechanism, PoissonGaussian)
    return Sampler(rows, size, None, microbatch, 1 / rate, in_order=is_free, is_size_public=not is_poisson)


def whole_batch(rows: int, numbers_per_row: int, rows_over_batch: float, multiple: int = 1) -> Sampler:
    """Every row of a batch that was drawn elsewhere, and whose size is public."""
    microbatch = _whole_widths(rows, numbers_per_row, multiple)
    return Sampler(rows, rows, None, microbatch, rows_over_batch, in_order=True, is_size_public=True)


def _rate(mechanism: Mechanism) -> float:
    return 1.0 if isinstance(mechanism, NotPrivate) else mechanism.sampling_rate


def _whole_widths(wanted: int, numbers_per_row: int, multiple: int) -> int:
    affordable = max(8, _MICROBATCH_NUMBERS // max(1, numbers_per_row))
    together = WIDTH * multiple
    return math.ceil(max(1, min(wanted, affordable, _LARGEST_MICROBATCH)) / together) * together


def error_bound(mechanism: Mechanism) -> float:
    """Total variation distance of one step's batch from the law that is accounted for, as far as it is proven.

    The binomial count, and the ranking of at most 256 rows; the permutation of larger tables is taken for ideal. It
    holds for every number of rows, because what is refused by it may not tell that number.
    """
    return feistel.RANKING_ERROR + binomial.error_bound(_rate(mechanism))


def draw(sampler: Sampler, key: Array) -> Draw:
    """Draw one step's batch."""
    key_count, key_rows, key_local = jax.random.split(key, 3)
    round_keys = feistel.round_keys(key_rows)
    # Behind a barrier, because XLA runs `while start < 1` no times where the 1 is a constant and `start` grows by more.
    whole = jax.lax.optimization_barrier(jnp.int32(sampler.size))
    count = whole if sampler.table is None else binomial.draw(sampler.table, key_count)
    first, _ = places(sampler, round_keys, count, 0)
    return Draw(round_keys, count, first, key_local)


def places(
    sampler: Sampler, round_keys: Array, count: Array, start: Array | int
) -> tuple[Int[Array, " place"], Bool[Array, " place"]]:
    """The rows at places `start` and on, one microbatch of them, and which of them belong to the batch."""
    place = start + jnp.arange(sampler.microbatch, dtype=jnp.int32)
    if sampler.in_order:
        return jnp.minimum(place, sampler.rows - 1), place < count
    return feistel.permute(round_keys, jnp.minimum(place, sampler.rows - 1), sampler.rows), place < count


def _fresh_words(*_: Any) -> UInt32[np.ndarray, "8"]:
    return np.frombuffer(secrets.token_bytes(32), dtype="<u4")


def subsample_batchify_data(
    data: tuple[Any, ...], batch_size: int
) -> tuple[Callable[..., tuple[int, Array]], Callable[[Any, Array], tuple[PyTree, ...]]]:
    """Batches of exactly `batch_size` rows without replacement, with the paper's names: `(init, get_batch)`.

    `init(rng_key)` gives `(number of batches in an epoch, state)` and `get_batch(i, state)` gives batch number i.
    This sampler is accounted for under substitution only: pay for it with `FixedSizeGaussian`, as
    `approximate_sigma` does. Which rows are taken must stay secret, so the state is drawn from the operating system,
    each time that `init` runs, and `rng_key` is not used. The same state and i give the same rows, which no account
    covers: call `init` once an epoch, or count i up over the whole run.
    """
    rows = count_rows(data)
    if not 1 <= batch_size <= rows:
        raise PrivacyParameterError("batch_size must lie between 1 and the number of rows.")
    columns = jax.tree.map(jnp.asarray, data)

    def init(rng_key: Array | None = None) -> tuple[int, Array]:
        # A callback, so that a compiled epoch draws anew each time it runs; `vmap` over `rng_key` is refused.
        flags = [jaxprs.false_from(key) for key in jax.tree.leaves(rng_key)]
        words = io_callback(_fresh_words, jax.ShapeDtypeStruct((8,), jnp.uint32), *flags, ordered=True)
        return rows // batch_size, rng.key_from_words(words)

    def get_batch(i: Any, state: Array) -> tuple[PyTree, ...]:
        index = feistel.rows(jax.random.fold_in(state, i), 0, batch_size, rows)
        return jax.tree.map(lambda column: column[index], columns)

    return init, get_batch

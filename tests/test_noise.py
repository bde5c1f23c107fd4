"""The noise: its law is computed and proven, so the draws are mostly checked bit by bit."""

from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import stats

from twinify_lite import noise, rng

SMALL, LARGE = noise.LAWS
LAWS = pytest.mark.parametrize("law", noise.LAWS, ids=["small", "large"])


def number_of(law: noise.Law, words, extra) -> int:
    """What two words and 64 more bits for either table lead to, in Python's integers."""
    number = 0
    for table, word, (high, low), steps in zip(law.tables, words, extra, (law.stride, 1), strict=True):
        column, entry = int(word) % 2**law.bits, int(table.packed[int(word) % 2**law.bits])
        threshold = (entry >> law.bits) << 64 | int(table.rest[0, column]) << 32 | int(table.rest[1, column])
        chosen = (int(word) >> law.bits) << 64 | int(high) << 32 | int(low)
        index = column if chosen < threshold else entry % 2**law.bits
        number += steps * (index - 2 ** (law.bits - 1))
    return number


def reference(key, size: int, law: noise.Law) -> list[int]:
    """One block, number by number."""
    words = np.asarray(jax.random.bits(key, (2, size), jnp.uint32))
    extra = jax.vmap(lambda i: jax.random.bits(jax.random.fold_in(key, i), (2, 2), jnp.uint32))(jnp.arange(size))
    return [number_of(law, words[:, i], np.asarray(extra)[i]) for i in range(size)]


def columns_of(law: noise.Law) -> list[np.ndarray]:
    """The probabilities of both tables' integers, as their words say."""
    found = []
    for table in law.tables:
        columns = 2**law.bits
        share = (table.packed >> np.uint32(law.bits)) + (table.rest[0] + table.rest[1] / 2**32) / 2**32
        share = share / 2 ** (32 - law.bits)
        probabilities = share.copy()
        np.add.at(probabilities, table.packed % columns, 1 - share)
        found.append(probabilities / columns)
    return found


@LAWS
def test_the_deviation_is_not_above_the_true_one(law):
    true_square = law.scale**2 * (law.stride**2 + 1)
    assert Fraction(law.deviation) ** 2 <= true_square < (Fraction(law.deviation) + Fraction(1, 2**32)) ** 2
    assert law.scale**2 >= 4 * (law.stride**2 + 1)  # tau >= 2


@LAWS
def test_the_theta_bound(law):
    """Formal guarantee of `Law`: the density of stride T + scale X, by its sum, against the Gaussian's."""
    bound = law.theta_bound
    assert bound < 2.0**-112
    deviation_squared = law.scale**2 * (law.stride**2 + 1)
    with mpmath.workprec(400):
        # The discrete Gaussian's sum, up to 2 exp(-2 pi^2 scale^2).
        whole = law.scale * mpmath.sqrt(2 * mpmath.pi)
        ratios = []
        for place in range(-3, 4):
            for part in range(12):
                x = mpmath.mpf(place) * law.scale * law.stride + mpmath.mpf(law.stride * part) / 12
                middle = round(x / law.stride * law.stride**2 / (law.stride**2 + 1))
                density = mpmath.fsum(
                    mpmath.exp(-mpmath.mpf(k * k + (x - law.stride * k) ** 2) / (2 * law.scale**2))
                    for k in range(middle - 60, middle + 61)
                ) / (whole * whole)
                gauss = mpmath.exp(-x * x / (2 * deviation_squared)) / mpmath.sqrt(2 * mpmath.pi * deviation_squared)
                ratios.append(abs(density / gauss - 1))
        # |r / mean - 1| is at most twice the bound, and most of half of that is really reached.
        assert 0.9 * bound < max(ratios) < 2 * bound


def test_the_numbers_of_both_tables_together_have_the_rounded_gaussians_law():
    """All of it in double precision: floor(G) for G of standard deviation D."""
    law = SMALL
    coarse, fine = columns_of(law)
    half = 2 ** (law.bits - 1)
    ends = (law.stride + 1) * half
    together = np.zeros(2 * ends)
    for k, weight in enumerate(coarse):
        together[law.stride * k : law.stride * k + 2 * half] += weight * fine
    deviation = law.scale * np.sqrt(law.stride**2 + 1)
    middles = (np.arange(-ends, ends) + 0.5) / deviation
    # The mean over a step, from the value in its middle, up to a relative error of 1e-17 at one deviation.
    expected = stats.norm.pdf(middles) / deviation * (1 + (middles**2 - 1) / (24 * deviation**2))
    assert np.sum(np.abs(together - expected)) / 2 < 1e-13
    assert together.sum() == pytest.approx(1, abs=1e-12)


@LAWS
@pytest.mark.parametrize("size", [0, 1, 7, 700_000, 10**9])
def test_the_error_bound_adds_up_what_every_number_costs(law, size):
    costs = sum(Fraction(table.distance) for table in law.tables) + Fraction(law.theta_bound)
    assert (
        size * costs
        <= Fraction(noise.error_bound(size, law))
        <= size * costs * (1 + Fraction(1, 10**12)) + Fraction(1, 2**1000)
    )
    assert noise.error_bound(1, law) < 2 * 2.0**-82


def test_the_noise_of_a_long_training_costs_hardly_anything():
    assert 10**5 * noise.error_bound(700_000, LARGE) < 2.9e-14


def test_the_smallest_law_that_is_wide_enough_is_chosen():
    assert [law.deviation for law in noise.LAWS] == sorted(law.deviation for law in noise.LAWS)
    assert SMALL.deviation > 2**14
    assert LARGE.deviation > 2**20
    assert noise.law_for(0.0) == noise.law_for(SMALL.deviation) == SMALL
    assert noise.law_for(np.nextafter(SMALL.deviation, np.inf)) == noise.law_for(1e9) == LARGE
    assert hash(noise.Law(12)) == hash(SMALL)


@LAWS
def test_one_block_is_what_its_words_say(law):
    for seed in range(3):
        key = rng.insecure_key(seed)
        np.testing.assert_array_equal(noise.draw(key, 701, law), reference(key, 701, law))


@LAWS
def test_many_numbers_are_drawn_block_by_block_and_ties_are_settled(law):
    """So many, that some comparisons are ties: these numbers are looked at one by one."""
    size, key = 40 * noise.BLOCK - 5, rng.insecure_key(31)
    drawn = np.asarray(noise.draw(key, size, law))
    keys = jax.random.split(key, 40)
    ties = 0
    for j, key_block in enumerate(keys):
        block = drawn[j * noise.BLOCK : (j + 1) * noise.BLOCK]
        if j in (0, 39):
            np.testing.assert_array_equal(block, noise.draw(key_block, noise.BLOCK, law)[: len(block)])
        words = np.asarray(jax.random.bits(key_block, (2, noise.BLOCK), jnp.uint32))
        entries = np.stack([table.packed[w % 2**law.bits] for table, w in zip(law.tables, words, strict=True)])
        for i in np.flatnonzero(np.any(words >> law.bits == entries >> law.bits, 0)):
            if i < len(block):
                ties += 1
                extra = jax.random.bits(jax.random.fold_in(key_block, i), (2, 2), jnp.uint32)
                assert block[i] == number_of(law, words[:, i], np.asarray(extra))
    if law == LARGE:
        assert 0 < ties < 20  # 5 are expected


@LAWS
def test_a_tie_is_decided_by_64_more_bits(law):
    """Words and bits one below, at, and one above a threshold, in either table and in both."""
    generator = np.random.default_rng(0)
    words, extra = [], []
    for column in generator.integers(0, 2**law.bits, 40):
        for high_step, low_step in [(0, -1), (0, 0), (0, 1), (-1, 5), (1, -5), (-1, 0), (1, 0)]:
            for tied in ([True, True], [True, False], [False, True]):
                word, bits = generator.integers(0, 2**32, 2), generator.integers(0, 2**32, (2, 2))
                for j, table in enumerate(law.tables):
                    if tied[j]:
                        word[j] = int(table.packed[column]) >> law.bits << law.bits | column
                        bits[j] = (table.rest[:, column].astype(int) + np.array([high_step, low_step])) % 2**32
                words.append(word)
                extra.append(bits)
    words, extra = (np.array(x, np.uint32) for x in (words, extra))
    expected = [number_of(law, word, bits) for word, bits in zip(words, extra, strict=True)]
    together = noise.exact(jnp.asarray(words.T), jnp.asarray(np.moveaxis(extra, 0, -1)), law)
    np.testing.assert_array_equal(together, expected)


@LAWS
def test_a_tie_is_whatever_the_bits_of_the_comparison_leave_open(law):
    words = np.random.default_rng(2).integers(0, 2**32, (6, 5000), dtype=np.uint32)
    flips = np.array([0, 1, 2**law.bits - 1, 2**law.bits, 2**law.bits + 1, 2**31], np.uint32)
    tied = noise.is_tie(jnp.asarray(words), jnp.asarray(words ^ flips[:, None]), law.bits)
    np.testing.assert_array_equal(tied, flips[:, None] < 2**law.bits * np.ones(5000))


@LAWS
def test_ties_take_the_loop_and_the_others_do_not(law):
    """Words without a tie give the same with every key; of crafted ties, each gives what its own bits say."""
    size = 300
    generator = np.random.default_rng(1)
    words = generator.integers(0, 2**32, (2, size), dtype=np.uint32)
    tied = {3: [0], 77: [1], 78: [0, 1], 299: [1]}
    for i, which in tied.items():
        for j in which:
            # Where the further bits decide either way about as often.
            even = np.flatnonzero(np.abs(law.tables[j].rest[0] / 2**32 - 0.5) < 0.2)
            column = int(generator.choice(even))
            words[j, i] = int(law.tables[j].packed[column]) >> law.bits << law.bits | column
    settled = jax.jit(noise.settled, static_argnums=2)
    seen = []
    for seed in range(40):
        key = rng.insecure_key(seed)
        drawn = np.asarray(settled(key, jnp.asarray(words), law))
        for i in tied:
            extra = jax.random.bits(jax.random.fold_in(key, i), (2, 2), jnp.uint32)
            assert drawn[i] == number_of(law, words[:, i], np.asarray(extra))
        seen.append(drawn)
    untied = np.setdiff1d(np.arange(size), list(tied))
    moved = np.ptp(np.array(seen), axis=0)
    assert not moved[untied].any()
    assert moved[list(tied)].all()
    nothing = np.zeros((2, 2), int)
    np.testing.assert_array_equal(seen[0][untied], [number_of(law, words[:, i], nothing) for i in untied])


@pytest.fixture(scope="module", params=noise.LAWS, ids=["small", "large"])
def sample(request) -> np.ndarray:
    """Numbers in standard deviations. Half a step up, their mean is 0."""
    drawn = noise.draw(rng.insecure_key(20), 2_000_000, request.param)
    return (np.asarray(drawn, np.float64) + 0.5) / request.param.deviation


def test_moments_and_distribution(sample):
    n = len(sample)
    for power, expected, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(sample**power) - expected) < 4.5 * np.sqrt(variance / n)
    assert stats.kstest(sample[:500_000], "norm").pvalue > 1e-3


def test_tail_frequencies(sample):
    edges = np.array([3.0, 3.5, 4.0, 4.5, 5.0, np.inf])
    observed = np.histogram(np.abs(sample), edges)[0]
    expected = -2 * np.diff(stats.norm.sf(edges)) * len(sample)
    assert stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), len(expected)) > 1e-3


def test_neighbours_and_blocks_are_independent(sample):
    n = len(sample) - noise.BLOCK
    for apart in (1, 2, 16, noise.BLOCK // 2, noise.BLOCK):
        x, y = sample[:n], sample[apart : n + apart]
        for a, b in [(x, y), (x**2, y**2), (np.abs(x), y)]:
            assert abs(np.corrcoef(a, b)[0, 1]) < 4.5 / np.sqrt(n)


@LAWS
def test_every_residue_is_equally_frequent(law):
    """No coarse grid shows: neither the stride of the coarse table nor a power of two."""
    drawn = np.asarray(noise.draw(rng.insecure_key(6), 1_000_000, law))
    for modulus in (2, 64, law.stride, 2 * law.stride):
        assert stats.chisquare(np.bincount(drawn % modulus, minlength=modulus)).pvalue > 1e-3


@LAWS
def test_the_tail_reaches_almost_to_eleven(law):
    integers = np.arange(2**law.bits) - 2 ** (law.bits - 1)
    for probabilities in columns_of(law):
        assert np.all(probabilities[np.abs(integers) < 10.8 * law.scale] > 0)
    assert number_of(law, [0, 0], np.zeros((2, 2), int)) >= -11.3 * law.deviation
    assert (law.stride + 1) * 2 ** (law.bits - 1) > 11 * law.deviation


@pytest.mark.parametrize("size", [0, 1, 3, noise.BLOCK, noise.BLOCK + 1, 40_001])
def test_any_size_any_key(size):
    for key in (rng.insecure_key(1), jax.random.key(1)):
        drawn = noise.draw(key, size, LARGE)
        assert drawn.shape == (size,)
        assert drawn.dtype == jnp.int32
        np.testing.assert_array_equal(drawn, noise.draw(key, size, LARGE))


@LAWS
@pytest.mark.parametrize("size", [7, 40_001])
def test_the_same_integers_under_vmap_and_scan(law, size):
    keys = jax.random.split(rng.insecure_key(2), 4)
    alone = np.stack([noise.draw(key, size, law) for key in keys])
    assert len(np.unique(alone)) > 0.9 * min(alone.size, law.deviation)
    np.testing.assert_array_equal(jax.vmap(lambda key: noise.draw(key, size, law))(keys), alone)
    np.testing.assert_array_equal(jax.lax.map(lambda key: noise.draw(key, size, law), keys), alone)


def test_all_devices_draw_the_same_integers():
    """A GPU draws all blocks at once: that way is taken here, on the CPU, and gives the same; and it lowers there."""
    key = rng.insecure_key(3)
    at_once = jax.vmap(partial(noise._block, size=noise.BLOCK, law=LARGE))(jax.random.split(key, 13))
    np.testing.assert_array_equal(np.ravel(at_once)[:100_000], noise.draw(key, 100_000, LARGE))

    def draw(data):
        return noise.draw(rng.key_from_words(data), 100_000, LARGE)

    exported = jax.export.export(jax.jit(draw), platforms=["cuda"])(jax.ShapeDtypeStruct((8,), jnp.uint32))
    assert [(out.shape, out.dtype) for out in exported.out_avals] == [((100_000,), jnp.int32)]

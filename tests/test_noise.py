import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from twinify_lite import noise, rng

HALF = 2**31
LAST = 2**32 - 1


@pytest.fixture(scope="module")
def sample() -> np.ndarray:
    return np.asarray(noise.gaussian(rng.insecure_key(20), (2_000_000,))).astype(np.float64)


def radius(high: int, low: int) -> float:
    return float(jnp.hypot(*noise.from_bits(jnp.uint32(high), jnp.uint32(low), jnp.uint32(0))))


def box_muller(high, low, angle) -> tuple[np.ndarray, np.ndarray]:
    """The centres of the same cells in float64, for `high` above 0."""
    high, low, angle = (np.asarray(x, np.float64) for x in (high, low, angle))
    zeros = 31 - np.floor(np.log2(high))
    g = (low + (high * 2.0 ** (zeros - 31) - 1) + 2.0 ** (zeros - 32)) * 2.0**-32
    r = np.sqrt(2 * (zeros * np.log(2) - np.log1p(-g / 2)))
    turn = 2 * np.pi * (angle + 0.5) / 2**32
    return r, r[:, None] * np.stack([np.cos(turn), np.sin(turn)], -1)


def test_from_bits_is_box_muller_within_its_stated_error():
    generator = np.random.default_rng(0)
    random = generator.integers(0, 2**32, (3, 300_000), dtype=np.uint32)
    shifts = generator.integers(0, 31, 300_000).astype(np.uint32)
    edges = np.array([0, 1, 2**29 - 1, 2**29, 2**30, HALF - 1, HALF, LAST], np.uint32)
    corners = np.array(np.meshgrid(edges[1:], edges, edges)).reshape(3, -1)
    high, low, angle = np.concatenate([random, [random[0] >> shifts | 1, random[1] >> shifts, random[2]], corners], 1)
    r, expected = box_muller(high, low, angle)
    error = (
        np.abs(np.asarray(noise.from_bits(*map(jnp.asarray, (high, low, angle))), np.float64) - expected) / r[:, None]
    )
    assert np.max(error) < 2**-21
    assert np.median(error) < 2**-24.5


def test_the_tail_reaches_beyond_nine():
    assert radius(0, 0) == pytest.approx(np.sqrt(2 * 64 * np.log(2)), rel=1e-6)
    assert radius(0, 0) > 9.4
    assert radius(0, 1) > 9.3
    # At the seam where `low` takes over, the radius is the 32 log 2 quantile from both sides.
    seam = np.sqrt(2 * 32 * np.log(2))
    assert radius(1, LAST) == pytest.approx(seam, rel=1e-6)
    assert radius(0, HALF) == pytest.approx(seam, rel=1e-6)
    assert radius(0, LAST) == pytest.approx(np.sqrt(2 * 33 * np.log(2)), rel=1e-6)


def test_radii_are_finite_positive_and_distinct_near_zero():
    small = [radius(HALF, 0), radius(HALF, 1), radius(HALF, 2), radius(LAST, 0)]
    assert 0 < small[0] < 1e-9
    assert small[1] < small[2] < 3e-5
    assert small[1] == pytest.approx(2**-16, rel=1e-6)


def test_moments_and_distribution(sample):
    n = len(sample)
    for power, expected, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(sample**power) - expected) < 4.5 * np.sqrt(variance / n)
    assert stats.kstest(sample[:500_000], "norm").pvalue > 1e-3
    assert sample.dtype == np.float64


def test_tail_frequencies(sample):
    edges = np.array([3.0, 3.5, 4.0, 4.5, 5.0, np.inf])
    observed = np.histogram(np.abs(sample), edges)[0]
    expected = -2 * np.diff(stats.norm.sf(edges)) * len(sample)
    assert stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), len(expected)) > 1e-3


def test_tail_frequencies_beyond_five_with_a_fixed_number_of_leading_zeros():
    """Condition on 13 leading zeros (r > 4.24): the rest of the tail must have the right shape up to 7."""
    high, low, angle = jax.random.bits(rng.insecure_key(21), (3, 2_000_000), jnp.uint32)
    x = np.asarray(noise.from_bits(high >> 13, low, angle)).ravel()
    r_squared = np.sum(np.asarray(noise.from_bits(high >> 13, low, angle), np.float64) ** 2, -1)
    # r^2 / 2 - 13 log 2 is exponential.
    assert stats.kstest(r_squared[:400_000] / 2 - 13 * np.log(2), "expon").pvalue > 1e-3
    expected = 2 * stats.norm.sf(np.array([5, 5.5, 6])) * 2**13 * x.size
    observed = np.array([np.sum(np.abs(x) > t) for t in (5, 5.5, 6)])
    assert np.all(np.abs(observed - expected) < 4.5 * np.sqrt(expected))


def test_both_numbers_of_a_pair_are_independent():
    x, y = np.asarray(noise.gaussian(rng.insecure_key(22), (1_000_000,)), np.float64).reshape(-1, 2).T
    n = len(x)
    for a, b in [(x, y), (x**2, y**2), (x, y**2), (np.abs(x), y), (x * np.abs(x), y)]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 4.5 / np.sqrt(n)
    cells = np.searchsorted(stats.norm.ppf(np.linspace(0, 1, 11)[1:-1]), np.stack([x, y]))
    counts = np.bincount(10 * cells[0] + cells[1], minlength=100)
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5), (0,), (40_001,)])
def test_any_shape_any_key(shape):
    for key in (rng.insecure_key(1), jax.random.key(1)):
        draw = noise.gaussian(key, shape)
        assert draw.shape == shape
        assert draw.dtype == jnp.float32
        assert np.all(np.isfinite(draw))
        np.testing.assert_array_equal(draw, noise.gaussian(key, shape))


def test_vmap_and_export():
    keys = jax.random.split(rng.insecure_key(2), 3)
    together = jax.vmap(lambda key: noise.gaussian(key, (10_000,)))(keys)
    np.testing.assert_allclose(together[1], noise.gaussian(keys[1], (10_000,)), rtol=1e-6)
    assert len(np.unique(np.asarray(together))) > 29_000

    def draw(data):
        return noise.gaussian(rng.key_from_words(data), (100_000,))

    jax.export.export(jax.jit(draw), platforms=["cuda"])(jax.ShapeDtypeStruct((8,), jnp.uint32))


def test_noise_on_the_lattice_has_its_size_and_shows_no_finer_bits():
    size, multiplier = 20_000, 2.0
    bits = noise.lattice_bits(size, multiplier)
    values = jnp.asarray(np.random.default_rng(0).normal(size=size), jnp.float32)
    noisy = noise.add_on_lattice(values, noise.gaussian(rng.insecure_key(3), (size,)), multiplier, size)
    assert np.all(np.asarray(noisy, np.float64) * 2**bits % 1 == 0)
    gap = np.asarray(noisy, np.float64) - np.asarray(values, np.float64)
    assert gap.std() == pytest.approx(1.0, rel=4 / np.sqrt(2 * size) + 1e-3)
    assert stats.kstest(gap / gap.std(), "norm").pvalue > 1e-3


def test_the_lattice_costs_at_most_a_thousandth_of_noise_where_it_can_be_fine_enough():
    for size, multiplier in ((6, 1.0), (6, 50.0), (700_000, 1.5)):
        step = 2.0 ** -noise.lattice_bits(size, multiplier)
        assert multiplier * np.sqrt(size) * step <= 1e-3
    assert noise.lattice_bits(10**9, 50.0) == 22


def test_rounding_to_the_lattice_commutes_with_whole_steps():
    """The release of a table moved by whole steps is the moved release, bit for bit: nothing else can be read off."""
    normals = noise.gaussian(rng.insecure_key(5), (1000,))
    step = 2.0 ** -noise.lattice_bits(1000, 1.0)
    moved = noise.add_on_lattice(jnp.full(1000, 37 * step), normals, 1.0, 1000)
    np.testing.assert_array_equal(moved, noise.add_on_lattice(jnp.zeros(1000), normals, 1.0, 1000) + 37 * step)

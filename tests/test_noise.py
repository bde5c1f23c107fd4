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


def pair(first, second, extra=0) -> np.ndarray:
    words = (jnp.asarray(x, jnp.uint32) for x in (first, second, extra))
    return np.asarray(noise.from_bits(*jnp.broadcast_arrays(*words)), np.float64)


def radius(first: int, second: int, extra: int = 0) -> float:
    return float(np.hypot(*pair(first, second, extra)))


def box_muller(first, second, extra) -> tuple[np.ndarray, np.ndarray]:
    """The radius and the two numbers in the centre of the cell that the bits name, by long integers and doubles."""
    r = np.empty(len(first))
    for i, (a, b, c) in enumerate(zip(map(int, first), map(int, second), map(int, extra), strict=True)):
        far = a < 2**8
        width, bits = (72, a << 40 | b >> 24 << 32 | c) if far else (40, a << 8 | b >> 24)
        bits, width = 2 * bits + 1, width + 1
        zeros = width - bits.bit_length()
        fraction = (bits - (1 << width - zeros - 1)) / 2 ** (width - zeros - 1)
        r[i] = np.sqrt(2 * (zeros * np.log(2) - np.log1p(-fraction / 2)))
    turn = 2 * np.pi * (np.asarray(second, np.float64) % 2**24 + 0.5) / 2**24
    return r, r * np.stack([np.cos(turn), np.sin(turn)])


def test_from_bits_is_box_muller_within_its_stated_error():
    generator = np.random.default_rng(0)
    random = generator.integers(0, 2**32, (3, 100_000), dtype=np.uint32)
    shifted = random.copy()
    shifted[0] >>= generator.integers(0, 32, 100_000).astype(np.uint32)
    spent = random[:, :1000] & np.array([[0], [2**24 - 1], [2**20 - 1]], np.uint32)
    edges = np.array([0, 1, 2**8 - 1, 2**8, 2**21 - 1, 2**22, 2**24, 2**29, 2**30, HALF - 1, HALF, LAST], np.uint32)
    corners = np.array(np.meshgrid(edges, edges, edges)).reshape(3, -1)
    bits = np.concatenate([random, shifted, spent, corners], 1)
    r, expected = box_muller(*bits)
    error = np.abs(pair(*bits) - expected) / r
    assert np.max(error) < 2**-21
    assert np.median(error) < 2**-24


def test_the_tail_reaches_beyond_nine():
    assert radius(0, 0, 0) == pytest.approx(np.sqrt(2 * 72 * np.log(2)), rel=1e-6)
    assert radius(0, 0, 0) > 9.9
    assert radius(0, 0, 1) > 9.8
    # At the seam where the extra bits join, the radius is the 24 log 2 quantile from both sides.
    seam = np.sqrt(2 * 24 * np.log(2))
    assert radius(2**9 - 1, LAST, 0) == pytest.approx(seam, rel=1e-6)
    assert radius(2**8, 0, 0) == pytest.approx(np.sqrt(2 * 23 * np.log(2)), rel=1e-6)
    assert radius(2**7, 0, 0) == pytest.approx(seam, rel=1e-6)


def test_extra_bits_are_used_where_they_are_needed_and_nowhere_else():
    assert radius(2**8, 5, 0) == radius(2**8, 5, LAST)
    assert not noise.needs_extra(jnp.uint32(2**8))
    assert radius(2**8 - 1, 5, 0) < radius(2**8 - 1, 5, HALF)
    assert noise.needs_extra(jnp.uint32(2**8 - 1))


def test_radii_are_finite_positive_and_distinct_near_zero():
    small = [radius(HALF, byte << 24) for byte in (0, 1, 2)]
    assert small[0] == pytest.approx(2**-20, rel=1e-6)
    assert small[0] < small[1] < small[2] < 2**-18


def test_many_numbers_agree_with_few_wherever_no_extra_bits_are_needed():
    """The branch is taken once in 48 draws of this size: both of its sides must have been seen."""
    taken = []
    draw = jax.jit(lambda key: noise.gaussian(key, (700_000,)))
    for seed in range(60):
        key, key_extra = jax.random.split(rng.insecure_key(seed))
        first, second = jax.random.bits(key, (2, 350_000), jnp.uint32)
        taken.append(bool(jnp.any(noise.needs_extra(first))))
        if taken[-1] or seed == 0:
            extra = jax.random.bits(key_extra, (350_000,), jnp.uint32)
            expected = noise.from_bits(first, second, extra).ravel()
            np.testing.assert_allclose(draw(rng.insecure_key(seed)), expected, rtol=1e-5, atol=1e-6)
    assert 0 < sum(taken) < 10


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
    first, second, extra = jax.random.bits(rng.insecure_key(21), (3, 2_000_000), jnp.uint32)
    x = pair(first >> 13, second, extra)
    r_squared = np.sum(x**2, 0)
    # r^2 / 2 - 13 log 2 is exponential.
    assert stats.kstest(r_squared[:400_000] / 2 - 13 * np.log(2), "expon").pvalue > 1e-3
    expected = 2 * stats.norm.sf(np.array([5, 5.5, 6])) * 2**13 * x.size
    observed = np.array([np.sum(np.abs(x) > t) for t in (5, 5.5, 6)])
    assert np.all(np.abs(observed - expected) < 4.5 * np.sqrt(expected))


def test_both_numbers_of_a_pair_are_independent():
    x, y = np.asarray(noise.gaussian(rng.insecure_key(22), (1_000_000,)), np.float64).reshape(2, -1)
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


@pytest.mark.parametrize("value", [0, 1])
def test_the_result_does_not_show_the_parity_of_the_value(value):
    """On the finest lattice the noise's own floats are few: a rounding that prefers even integers would show here."""
    size, multiplier = 10**8, 1.0
    step = 2.0 ** -noise.lattice_bits(size, multiplier)
    normals = noise.gaussian(rng.insecure_key(4), (3_000_000,))
    noisy = noise.add_on_lattice(jnp.full(3_000_000, value * step), normals, multiplier, size)
    whole = np.round(np.asarray(noisy, np.float64) / step)
    for low, high in ((0.5, 1), (1, 2), (2, 4), (4, 8)):
        odd = (whole % 2)[(np.abs(noisy) > low) & (np.abs(noisy) < high)]
        assert abs(odd.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(len(odd))


def test_the_lattice_costs_at_most_a_thousandth_of_noise_where_it_can_be_fine_enough():
    for size, multiplier in ((6, 1.0), (6, 50.0), (200_000, 1.5)):
        step = 2.0 ** -noise.lattice_bits(size, multiplier)
        assert multiplier * np.sqrt(size) * step <= 1e-3
    assert noise.lattice_bits(10**9, 50.0) == 20


def test_rounding_to_the_lattice_commutes_with_whole_steps():
    """The release of a table moved by whole steps is the moved release, bit for bit: nothing else can be read off."""
    normals = noise.gaussian(rng.insecure_key(5), (1000,))
    step = 2.0 ** -noise.lattice_bits(1000, 1.0)
    moved = noise.add_on_lattice(jnp.full(1000, 37 * step), normals, 1.0, 1000)
    np.testing.assert_array_equal(moved, noise.add_on_lattice(jnp.zeros(1000), normals, 1.0, 1000) + 37 * step)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from twinify_lite import noise, rng
from twinify_lite.errors import PrivacyParameterError

HALF = 2**31
LAST = 2**32 - 1


@pytest.fixture(scope="module")
def sample() -> np.ndarray:
    """Box-Muller numbers as `noise.draw` makes them, before they become integers."""
    return pair(*jax.random.bits(rng.insecure_key(20), (4, 1_000_000), jnp.uint32)).ravel()


def pair(first, second, extra=0, more=0) -> np.ndarray:
    first, second, *extra = jnp.broadcast_arrays(*(jnp.asarray(x, jnp.uint32) for x in (first, second, extra, more)))
    return np.asarray(noise.from_bits(first, second, jnp.stack(extra)), np.float64)


def radius(first: int, second: int, extra: int = 0, more: int = 0) -> float:
    return float(np.hypot(*pair(first, second, extra, more)))


def box_muller(first, second, extra, more) -> tuple[np.ndarray, np.ndarray]:
    """The radius and the two numbers in the centre of the cell that the bits name, by long integers and doubles."""
    r = np.empty(len(first))
    for i, (a, b, c, d) in enumerate(zip(*(map(int, x) for x in (first, second, extra, more)), strict=True)):
        far = a < 2**8
        width, bits = (87, a << 55 | b >> 24 << 47 | c << 15 | d >> 17) if far else (40, a << 8 | b >> 24)
        bits, width = 2 * bits + 1, width + 1
        zeros = width - bits.bit_length()
        fraction = (bits - (1 << width - zeros - 1)) / 2 ** (width - zeros - 1)
        r[i] = np.sqrt(2 * (zeros * np.log(2) - np.log1p(-fraction / 2)))
    turn = 2 * np.pi * (np.asarray(second, np.float64) % 2**24 + 0.5) / 2**24
    return r, r * np.stack([np.cos(turn), np.sin(turn)])


def test_from_bits_is_box_muller_within_its_stated_error():
    generator = np.random.default_rng(0)
    random = generator.integers(0, 2**32, (4, 100_000), dtype=np.uint32)
    shifted = random.copy()
    shifted[0] >>= generator.integers(0, 32, 100_000).astype(np.uint32)
    spent = random[:, :1000] & np.array([[0], [2**24 - 1], [2**10 - 1], [LAST]], np.uint32)
    edges = np.array([0, 1, 2**8 - 1, 2**8, 2**21 - 1, 2**22, 2**24, 2**29, 2**30, HALF - 1, HALF, LAST], np.uint32)
    corners = np.array(np.meshgrid(edges, edges, edges, edges[::3])).reshape(4, -1)
    bits = np.concatenate([random, shifted, spent, corners], 1)
    r, expected = box_muller(*bits)
    error = np.abs(pair(*bits) - expected) / r
    assert np.max(error) < 2**-21
    assert np.median(error) < 2**-24


def test_the_tail_reaches_beyond_ten():
    assert radius(0, 0) == pytest.approx(np.sqrt(2 * 87 * np.log(2)), rel=1e-6)
    assert radius(0, 0) > 10.9
    assert radius(0, 0, 0, 2**17) > 10.8
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


@pytest.mark.parametrize("bits", [12, 20])
def test_what_is_drawn_is_the_floor_of_box_muller_and_a_uniform_integer(bits):
    """The branch of a large draw is taken once in 48 draws of this size: both of its sides must have been seen."""
    few = 1001
    words = jax.random.bits(rng.insecure_key(0), (5, 501), jnp.uint32)
    check(noise.draw(rng.insecure_key(0), few, bits), words, bits)
    taken = []
    for seed in range(60):
        key, key_extra = jax.random.split(rng.insecure_key(seed))
        words = jax.random.bits(key, (3, 350_000), jnp.uint32)
        taken.append(bool(jnp.any(noise.needs_extra(words[0]))))
        if taken[-1] or seed == 0:
            words = jnp.concatenate([words, jax.random.bits(key_extra, (2, 350_000), jnp.uint32)])
            check(noise.draw(rng.insecure_key(seed), 700_000, bits), words, bits)
    assert 0 < sum(taken) < 10


def check(drawn, words, bits):
    first, second, uniform, *extra = words
    dither = np.stack([uniform & (2**16 - 1), uniform >> 16]).ravel() >> (20 - bits)
    expected = np.floor(pair(first, second, *extra).ravel() * 2**bits) + dither - 2 ** (bits - 5)
    # Compiled together, a product and a sum may be one rounding less: a unit or two of single precision.
    room = 2 + 2.0 ** (bits - 22) * 11
    assert np.max(np.abs(np.asarray(drawn) - expected[: len(drawn)])) <= room


@pytest.mark.parametrize("bits", [12, 20])
def test_the_uniform_integers_are_uniform_and_independent_of_the_rest(bits):
    uniform = jnp.asarray(np.random.default_rng(1).integers(0, 2**32, 200_000), jnp.uint32)
    zeros = jnp.zeros_like(uniform)
    fixed = noise._integers(zeros + np.uint32(HALF), zeros, uniform, jnp.stack([zeros, zeros]), bits)
    dither = np.asarray(fixed) - np.asarray(fixed).min(axis=1, keepdims=True)
    width = 2 ** (bits - 4)
    assert dither.max() < width
    assert stats.chisquare(np.bincount((dither * 64 // width).ravel())).pvalue > 1e-3
    assert abs(np.corrcoef(dither)[0, 1]) < 4.5 / np.sqrt(200_000)


def test_the_rays_of_box_muller_cannot_be_seen():
    """At four sds the 2^24 rays stand further apart than the finest lattice: noise that keeps to them would show."""
    bits, size = 20, 8_000_000
    x, y = (np.asarray(noise.draw(rng.insecure_key(6), size, bits), np.float64) + 0.5).reshape(2, -1)
    far = np.hypot(x, y) > 3.5 * 2**bits
    phase = np.arctan2(y[far], x[far]) * 2**24 - np.pi
    assert abs(np.mean(np.cos(phase))) < 4.5 / np.sqrt(2 * far.sum())


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


def test_tail_frequencies_beyond_five_with_a_fixed_number_of_leading_zeros():
    """Condition on 13 leading zeros (r > 4.24): the rest of the tail must have the right shape up to 7."""
    first, second, *extra = jax.random.bits(rng.insecure_key(21), (4, 2_000_000), jnp.uint32)
    x = pair(first >> 13, second, *extra)
    r_squared = np.sum(x**2, 0)
    # r^2 / 2 - 13 log 2 is exponential.
    assert stats.kstest(r_squared[:400_000] / 2 - 13 * np.log(2), "expon").pvalue > 1e-3
    expected = 2 * stats.norm.sf(np.array([5, 5.5, 6])) * 2**13 * x.size
    observed = np.array([np.sum(np.abs(x) > t) for t in (5, 5.5, 6)])
    assert np.all(np.abs(observed - expected) < 4.5 * np.sqrt(expected))


def test_both_numbers_of_a_pair_are_independent():
    x, y = np.asarray(noise.draw(rng.insecure_key(22), 1_000_000, 20), np.float64).reshape(2, -1) / 2**20
    n = len(x)
    for a, b in [(x, y), (x**2, y**2), (x, y**2), (np.abs(x), y), (x * np.abs(x), y)]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 4.5 / np.sqrt(n)
    cells = np.searchsorted(stats.norm.ppf(np.linspace(0, 1, 11)[1:-1]), np.stack([x, y]))
    counts = np.bincount(10 * cells[0] + cells[1], minlength=100)
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("size", [0, 1, 3, noise.FEW, noise.FEW + 1, 40_001])
def test_any_size_any_key(size):
    for key in (rng.insecure_key(1), jax.random.key(1)):
        drawn = noise.draw(key, size, 15)
        assert drawn.shape == (size,)
        assert drawn.dtype == jnp.int32
        np.testing.assert_array_equal(drawn, noise.draw(key, size, 15))


def test_vmap_and_export():
    keys = jax.random.split(rng.insecure_key(2), 3)
    together = jax.vmap(lambda key: noise.draw(key, 10_000, 20))(keys)
    assert np.max(np.abs(together[1] - noise.draw(keys[1], 10_000, 20))) <= 12
    assert len(np.unique(np.asarray(together))) > 29_000

    def draw(data):
        return noise.draw(rng.key_from_words(data), 100_000, 20)

    jax.export.export(jax.jit(draw), platforms=["cuda"])(jax.ShapeDtypeStruct((8,), jnp.uint32))


def test_noise_on_the_lattice_has_its_size_and_shows_no_finer_bits():
    size, multiplier = 20_000, 2.0
    lattice = noise.lattice(size, multiplier)
    values = jnp.asarray(np.random.default_rng(0).normal(size=size), jnp.float32)
    noisy = noise.add(values, noise.draw(rng.insecure_key(3), size, lattice.bits), lattice)
    whole = np.round(np.asarray(noisy, np.float64) / lattice.unit).astype(np.float32)
    np.testing.assert_array_equal(noisy, whole * np.float32(lattice.unit))
    gap = np.asarray(noisy, np.float64) - np.asarray(values, np.float64)
    assert gap.std() == pytest.approx(1.0, rel=4 / np.sqrt(2 * size) + 2e-3)
    assert stats.kstest(gap / gap.std(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("value", [0, 1])
def test_the_result_does_not_show_the_parity_of_the_value(value):
    """Without the uniform integers: rounding to the nearest would prefer even ones."""
    words = jax.random.bits(rng.insecure_key(4), (2, 1_500_000), jnp.uint32)
    zeros = jnp.zeros_like(words)
    drawn = value + np.asarray(noise._integers(*words, zeros[0], zeros, 20)) + 2**15
    for low, high in ((0.5, 1), (1, 2), (2, 4), (4, 8)):
        odd = (drawn % 2)[(np.abs(drawn) > low * 2**20) & (np.abs(drawn) < high * 2**20)]
        assert abs(odd.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(len(odd))


@pytest.mark.parametrize(("size", "multiplier"), [(6, 1.0), (6, 50.0), (200_000, 1.5), (700_000, 20.0), (10**8, 40.0)])
def test_rounded_neighbours_are_as_far_apart_as_was_paid_for(size, multiplier):
    lattice = noise.lattice(size, multiplier)
    integers_apart = 1 / multiplier / lattice.unit + np.sqrt(size)
    assert integers_apart * multiplier <= 2**lattice.bits * (1 + 1e-9)
    if multiplier * np.sqrt(size) < 1000:
        assert lattice.unit * 2**lattice.bits <= 1.0011


def test_noise_that_leaves_the_lattice_is_refused():
    with pytest.raises(PrivacyParameterError, match="fewer parameters"):
        noise.lattice(1000, 1e6)


def test_whole_steps_of_the_value_move_the_result_by_whole_steps():
    """The release of a table moved by whole steps is the moved release: nothing else can be read off."""
    lattice = noise.lattice(1000, 1.0)
    drawn = noise.draw(rng.insecure_key(5), 1000, lattice.bits)
    results = [noise.add(jnp.full(1000, k * lattice.unit, jnp.float32), drawn, lattice) for k in (0, 37)]
    moved = [np.round(np.asarray(result, np.float64) / lattice.unit) for result in results]
    np.testing.assert_array_equal(moved[1], moved[0] + 37)

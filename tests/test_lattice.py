"""Sums in whole numbers: exact in any order, and moved by one row by no more than was paid for."""

import functools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from twinify_lite import noise, rng
from twinify_lite.dpsvi import clip, lattice
from twinify_lite.dpsvi.gradient import WholeSum, whole_sum
from twinify_lite.dpsvi.lattice import Lattice, Summed, Words
from twinify_lite.dpsvi.row_program import trace_row
from twinify_lite.errors import PrivacyParameterError

LIMIT = 50_000.0
STEPS = Lattice(LIMIT, 7000, noise.law_for(1e6))


def whole(words):
    """The integers themselves."""
    high, low = (np.asarray(word).astype(np.int64) for word in words)
    return high * 2**16 + low


def vector(total: WholeSum):
    """All integers of a sum, its count last."""
    leaves = jax.tree.leaves(total.words, is_leaf=lambda node: isinstance(node, Words))
    return np.concatenate([np.ravel(whole(leaf)) for leaf in [*leaves, total.count]])


@settings(max_examples=200, deadline=None)
@given(
    coordinates=st.integers(1, 10**6),
    tapped=st.floats(0, 1),
    roundings=st.integers(32, 600),
    noise_multiplier=st.floats(0.02, 40),
    share=st.sampled_from([0.0, 0.02, 0.5]),
)
def test_lattice_for_pays_for_rounding_and_for_the_count(coordinates, tapped, roundings, noise_multiplier, share):
    summed = Summed(coordinates, int(tapped * coordinates), roundings)
    try:
        on = lattice.lattice_for(summed, noise_multiplier, share)
    except PrivacyParameterError:
        assert noise_multiplier * math.sqrt(coordinates) > 1000
        return
    unit = Fraction(1, 2**24)
    gamma = roundings * unit / (1 - roundings * unit)
    half_root = Fraction(math.isqrt(summed.tapped * 10**40) + 1, 10**20) / 2 if summed.tapped else 0
    limit = Fraction(on.limit)
    moved = limit + 4 * (gamma * lattice.CHUNK * limit + half_root) * bool(summed.tapped)
    paid = Fraction(on.law.deviation) / Fraction(noise_multiplier)
    assert moved**2 + on.count**2 <= paid**2
    assert on.limit <= 2**22


@pytest.mark.parametrize(("coordinates", "multiplier"), [(6, 1.0), (100, 5.0), (10**4, 1.5), (688_884, 0.5)])
def test_a_lattice_wastes_next_to_nothing(coordinates, multiplier):
    on = lattice.lattice_for(Summed(coordinates, coordinates, 40), multiplier, 0.0)
    assert on.limit * multiplier / on.law.deviation > 0.996


def test_noise_that_leaves_the_lattice_is_refused():
    with pytest.raises(PrivacyParameterError, match="too coarse"):
        lattice.lattice_for(Summed(10**6, 10**6, 40), 1e4, 0.0)


@pytest.mark.parametrize("value", [2**22, -(2**22), 1, -1, 65_535, 65_536, -65_537])
def test_ten_million_rows_add_up_exactly(value):
    rows, width = 10**7, 4096
    one = lattice.sum_rows(jnp.full((width, 1), value, jnp.int32))
    rest = lattice.sum_rows(jnp.full((rows % width, 1), value, jnp.int32))
    total = jax.lax.fori_loop(0, rows // width, lambda _, total: lattice.add(total, one), lattice.zeros((1,)))
    assert whole(lattice.add(total, rest))[0] == rows * value


def test_truncation_lengthens_no_entry_and_rounding_moves_none_by_more_than_half():
    values = np.random.default_rng(0).normal(size=3000) * 10.0 ** np.random.default_rng(1).integers(-3, 6, 3000)
    values = np.concatenate([values, [0.0, -0.0, 0.5, -0.5, 0.9999999, -0.9999999, 1.5, -2.5, 1e-40]]).astype(
        np.float32
    )
    truncated, rounded = (np.asarray(to(jnp.asarray(values))) for to in (lattice.truncated, lattice.rounded))
    assert np.all(np.abs(truncated) <= np.abs(values))
    assert np.all(np.abs(values) - np.abs(truncated) < 1)
    assert np.all(np.abs(rounded - values.astype(np.float64)) <= 0.5)


@given(st.lists(st.integers(-(2**28), 2**28), min_size=1, max_size=50), st.integers(-(2**24), 2**24))
@settings(max_examples=100, deadline=None)
def test_sums_are_exact_in_any_order_and_so_is_their_noise(values, drawn):
    array = jnp.asarray(values, jnp.int32)[:, None]
    assert whole(lattice.sum_rows(array))[0] == whole(lattice.sum_rows(array[::-1]))[0] == sum(values)
    total = lattice.sum_rows(array)
    assert float(lattice.add_noise(total, jnp.int32([drawn]))[0]) == pytest.approx(sum(values) + drawn, rel=2e-7)


@pytest.mark.parametrize("rows", [1, 31, 32, 157, 256, 4096])
@pytest.mark.parametrize("value", [2**22, -(2**22), 2**22 - 1, 1 - 2**16])
def test_sums_of_the_longest_rows_are_exact(rows, value):
    values = jnp.full((rows, 2), value, jnp.int32).at[rows // 2, 1].set(-value)
    assert whole(lattice.sum_clipped(values)).tolist() == [rows * value, (rows - 2) * value]


def test_what_is_released_is_a_function_of_the_sum_with_its_noise():
    """Every way to divide an integer between the sum and the noise gives the same number, bit by bit."""
    released = {
        float(lattice.add_noise(lattice.sum_rows(jnp.int32([[total - part]])), jnp.int32([part]))[0])
        for total in (123_456_789,)
        for part in (0, 1, -1, 77_777, -(2**20), 2**23, 65_536)
    }
    assert len(released) == 1


def test_the_release_has_the_noise_that_was_paid_for_and_shows_no_finer_steps():
    on = lattice.lattice_for(Summed(20_000, 0, 32), 2.0, 0.02)
    words = lattice.sum_rows(jnp.zeros((3, 20_000), jnp.int32))
    total = WholeSum({"w": words}, lattice.zeros(()), jnp.float32(0.25 / on.limit))
    drawn = noise.draw(rng.insecure_key(3), 20_001, on.law)
    noisy, counted = clip.add_noise(total, drawn, on)
    steps = np.asarray(noisy["w"], np.float64) / float(total.unit)
    np.testing.assert_allclose(steps, np.round(steps), atol=0.2)
    gap = steps / on.limit / 2.0  # in units of the noise, but for the count's part
    assert gap.std() == pytest.approx(1 / math.sqrt(1 - 0.02), rel=4 / math.sqrt(40_000) + 2e-3)
    assert stats.kstest(gap / gap.std(), "norm").pvalue > 1e-3
    assert float(counted) == pytest.approx(float(drawn[-1]) / (2 * on.count), rel=1e-6)


# -- one row more, on both paths --------------------------------------------------------------------------------------


def tapped(shared, _, row):
    """Weights that are summed over chunks in floating point."""
    return jnp.sum(jnp.sin(row @ shared["w"])) + jnp.sum(row[:2] * shared["w"][0, :2] * 0)


def tapped_only(shared, _, row):
    return jnp.sum((row @ shared["w"]) * jnp.where(jnp.arange(shared["w"].shape[1]) % 2 == 0, 1.0, -1.0))


def direct(shared, _, row):
    """Weights whose gradients are in hand row by row."""
    return jnp.sum(jnp.outer(row, jnp.ones(3)) * shared["w"] ** 2) / 2


WIDTH = 160
TINY, HUGE = np.float32(1e-42), np.float32(3e38)
ROWS = {
    "alike": lambda g: np.full((WIDTH, 6), 1e6),
    "alternating signs": lambda g: np.where(np.arange(WIDTH)[:, None] % 2 == 0, 1.0, -1.0) * np.full((1, 6), 1e4),
    "ties between two steps": lambda g: np.full((WIDTH, 6), 0.7 / LIMIT * 2.5),
    "subnormal": lambda g: g.normal(size=(WIDTH, 6)) * TINY,
    "near the largest float": lambda g: np.full((WIDTH, 6), HUGE),
    "of all sizes": lambda g: g.normal(size=(WIDTH, 6)) * 10.0 ** g.integers(-30, 30, (WIDTH, 1)),
    "with inf and nan": lambda g: np.where(g.random((WIDTH, 6)) < 0.1, np.nan, g.normal(size=(WIDTH, 6))),
    "ordinary": lambda g: g.normal(size=(WIDTH, 6)),
}


SHARED = {"w": jnp.asarray(np.random.default_rng(5).normal(size=(6, 3)), jnp.float32)}


@functools.cache
def sums_of(value):
    """The program of a row function, and its compiled sum."""
    program = trace_row(value, SHARED, (), jnp.zeros(6))
    total = lambda rows, mask, clip_norm: whole_sum(  # noqa: E731
        program, SHARED, (), rows, mask=mask, clip_norm=clip_norm, on=STEPS
    )
    return program, jax.jit(total)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("value", [tapped, tapped_only, direct], ids=lambda f: f.__name__)
@pytest.mark.parametrize("clip_norm", [0.7, 1e-6])
def test_one_row_moves_the_integers_by_at_most_the_limit_and_its_rounding(name, value, clip_norm):
    rows = jnp.asarray(ROWS[name](np.random.default_rng(5)).astype(np.float32))
    program, total = sums_of(value)
    assert bool(program.forward.taps) == (value is tapped_only)
    most = LIMIT + lattice.rounding(program.summed, LIMIT)
    for place, count in ((0, 1), (0, 40), (79, 81), (5, 160), (159, 160)):
        # A row joins at `place`, and the one that stood there moves to the end.
        with_it = jnp.where(jnp.arange(WIDTH)[:, None] < count, rows, 0)
        without = with_it.at[place].set(with_it[count - 1])
        a = vector(total(with_it, jnp.arange(WIDTH) < count, jnp.float32(clip_norm)))
        b = vector(total(without, jnp.arange(WIDTH) < count - 1, jnp.float32(clip_norm)))
        assert math.hypot(*(a - b)[:-1]) <= most
        assert abs(a[-1] - b[-1]) == STEPS.count
        assert abs(a[-1]) <= count * STEPS.count


@pytest.mark.parametrize("rows", [1000, 8000, 10**5, 10**6, 10**7])
def test_a_row_more_moves_a_sum_of_very_many_by_one_row(rows):
    """In float32 a row more moved the sum of a million by 1.07 clip norms."""
    shared = {"w": jnp.ones(1)}
    program = trace_row(lambda shared, _, row: shared["w"][0] * row, shared, (), jnp.float32(1))
    width = 4096
    whole_of = lambda mask: whole_sum(  # noqa: E731
        program, shared, (), jnp.full(width, 1e6), mask=mask, clip_norm=jnp.float32(0.7), on=STEPS
    )
    full = jax.jit(whole_of)(jnp.arange(width) < width)

    @jax.jit
    def total(number):
        add = lambda _, a: (lattice.add(a[0], full.words["w"]), lattice.add(a[1], full.count))  # noqa: E731
        summed = jax.lax.fori_loop(0, number // width, add, (lattice.zeros((1,)), lattice.zeros(())))
        rest = whole_of(jnp.arange(width) < number % width)
        return lattice.add(summed[0], rest.words["w"])

    sums = np.array([whole(total(rows + i))[0] for i in range(16)])
    moves = np.diff(sums)
    assert np.all(moves == moves[0])
    assert LIMIT * (1 - 2e-4) <= moves[0] <= LIMIT


def test_a_million_coordinates_stay_within_the_bound():
    generator = np.random.default_rng(0)
    wide = 1000
    shared = {"w": jnp.asarray(generator.normal(size=(wide, wide)), jnp.float32)}
    rows = jnp.asarray(generator.normal(size=(lattice.CHUNK, wide)), jnp.float32)
    program = trace_row(lambda shared, _, row: jnp.sum(jnp.tanh(row @ shared["w"])), shared, (), rows[0])
    assert program.summed.tapped == 10**6
    on = lattice.lattice_for(program.summed, 1.0, 0.0)
    total = jax.jit(lambda mask: whole_sum(program, shared, (), rows, mask=mask, clip_norm=jnp.float32(0.5), on=on))
    a, b = (vector(total(jnp.arange(lattice.CHUNK) < count)) for count in (lattice.CHUNK, lattice.CHUNK - 1))
    moved = np.linalg.norm((a - b)[:-1].astype(float))
    assert 0.9 * on.limit < moved <= on.limit + lattice.rounding(program.summed, on.limit)
    assert on.limit + lattice.rounding(program.summed, on.limit) <= on.law.deviation

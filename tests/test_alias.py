"""The tables of Gaussian integers, against mpmath and against their own proofs."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinify_lite import alias

ONE = 2**192
BITS = (12, 15)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workprec(320):
        yield


def weights_in(table: alias.Table, bits: int) -> list[int]:
    """How many of 2^96 numbers lead to each integer, by what the words of the table say."""
    capacity = 2 ** (96 - bits)
    weights = [0] * 2**bits
    for i, (entry, high, low) in enumerate(zip(*(map(int, part) for part in (table.packed, *table.rest)), strict=True)):
        threshold, other = (entry >> bits) << 64 | high << 32 | low, entry % 2**bits
        weights[i] += threshold
        weights[other] += capacity - threshold
    return weights


def discrete_law(bits):
    """The probabilities of the table's integers, and of all others."""
    s, half = alias.scale(bits), 2 ** (bits - 1)
    right = [mpmath.exp(-mpmath.mpf(k * k) / (2 * s * s)) for k in range(half + 1)]
    # The whole is s sqrt(2 pi) (1 + 2 exp(-2 pi^2 s^2) + ...), by Poisson's summation formula, and that is nothing.
    whole = s * mpmath.sqrt(2 * mpmath.pi)
    law = [right[abs(k)] / whole for k in range(-half, half)]
    return law, 1 - mpmath.fsum(law)


def rounded_law(bits):
    s, half = alias.scale(bits), 2 ** (bits - 1)
    above = [mpmath.erfc(k / (s * mpmath.sqrt(2))) / 2 for k in range(half + 1)]
    right = [above[k] - above[k + 1] for k in range(half)]
    return right[::-1] + right, 2 * above[half]


LAWS = {"discrete": (alias.discrete, discrete_law), "rounded": (alias.rounded, rounded_law)}


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", LAWS)
def test_the_total_variation_distance_is_at_most_distance(name, bits):
    """And hardly below it, and below 2^-82."""
    table, (law, others) = LAWS[name][0](bits), LAWS[name][1](bits)
    weights = weights_in(table, bits)
    assert sum(weights) == 2**96
    apart = [mpmath.mpf(weight) / 2**96 - chance for weight, chance in zip(weights, law, strict=True)]
    distance = (mpmath.fsum(map(abs, apart)) + others) / 2
    assert 0.95 * table.distance < distance <= table.distance < 2.0**-82
    worst = [abs(one) * 2**96 for i, one in enumerate(apart) if i != 2 ** (bits - 1)]
    # A share of the tails is missing, so the columns have a little more.
    assert max(worst) < 0.5 + 2.0**96 * others


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 2**14), (8, 8 * 186**2), (1, 8 * 1489**2)])
def test_an_exponential_is_off_by_at_most_16_units(numerator, denominator):
    exact = mpmath.exp(-mpmath.mpf(numerator) / denominator) * ONE
    assert abs(alias._exponential(numerator, denominator) - exact) <= 16


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("halves", [0, 1])
def test_no_height_is_off_by_more_than_its_slip(bits, halves):
    s, count = alias.scale(bits), 2 ** (bits - 1)
    heights = alias._heights(s, halves, count)
    assert len(heights) == count
    for k in [0, 1, 2, *range(3, count, count // 50), count - 1]:
        exact = mpmath.exp(-mpmath.mpf((2 * k + halves) ** 2) / (8 * s * s)) * ONE
        assert abs(heights[k] - exact) <= alias._slip(k)


@pytest.mark.parametrize("bits", BITS)
def test_the_means_over_a_step_are_off_by_at_most_4_units_and_what_the_series_leaves_out(bits):
    s, count = alias.scale(bits), 2 ** (bits - 1)
    means = alias._means_over_a_step(s, count)
    above = lambda k: mpmath.erfc(k / (s * mpmath.sqrt(2))) * s * mpmath.sqrt(mpmath.pi / 2)  # noqa: E731
    left_out = mpmath.mpf(ONE) / (4 * s * s) ** alias._TERMS
    for k in [0, 1, *range(2, count, count // 40), count - 1]:
        middle = mpmath.exp(-mpmath.mpf((2 * k + 1) ** 2) / (8 * s * s))
        exact = (above(k) - above(k + 1)) * ONE
        assert abs(means[k] * middle - exact) <= 4 * middle + left_out


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.booleans())
def test_walkers_thresholds_and_aliases_add_up_to_the_weights(weights, flat):
    weights = [weights[0]] * len(weights) if flat else weights
    weights[0] += -sum(weights) % len(weights)
    capacity = sum(weights) // len(weights)
    added = [0] * len(weights)
    for i, (threshold, other) in enumerate(zip(*alias.walker(weights), strict=True)):
        assert 0 <= threshold <= capacity
        added[i] += capacity if other == i else threshold
        added[other] += 0 if other == i else capacity - threshold
    assert added == weights


def test_weights_that_do_not_fill_all_columns_are_refused():
    with pytest.raises(AssertionError):
        alias.walker([1, 2, 2])


def test_tables_are_made_once_and_cover_a_gaussian_to_eleven_deviations():
    for bits in BITS:
        for make in (alias.discrete, alias.rounded):
            assert make(bits) is make(bits)
        assert Fraction(2 ** (bits - 1), alias.scale(bits)) >= 11


def test_tables_too_small_for_the_proofs_are_refused():
    with pytest.raises(AssertionError):
        alias.scale(11)


@pytest.mark.parametrize("bits", BITS)
def test_a_full_column_keeps_its_integer_whatever_its_threshold(bits):
    """The weights of a table hardly ever fill a column by chance, so one is made to."""
    size = 2**bits
    packed, rest = alias._packed(bits, [2 ** (96 - bits)] * size, list(range(size)))
    assert np.array_equal(packed % size, np.arange(size))
    assert weights_in(alias.Table(packed, rest, 0.0), bits) == [2 ** (96 - bits)] * size

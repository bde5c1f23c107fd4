import math
from fractions import Fraction
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from twinify_lite import rng
from twinify_lite.dpsvi import binomial
from twinify_lite.errors import PrivacyParameterError

SHIFTS = (96, 64, 32, 0)


def thresholds(table: binomial.BinomialTable) -> list[int]:
    return [
        sum(int(word) << shift for word, shift in zip(column, SHIFTS, strict=True))
        for column in np.asarray(table.words).T
    ]


def implied(table: binomial.BinomialTable) -> tuple[np.ndarray, np.ndarray]:
    """The values and the exact probabilities with which `draw` takes them."""
    edges = [0, *thresholds(table), 2**128]
    mass = np.array([float(Fraction(b - a, 2**128)) for a, b in pairwise(edges)])
    return int(table.first) + np.arange(len(mass)), mass


@pytest.mark.parametrize(
    ("n", "rate"),
    [(1, 0.5), (10, 0.3), (100, 0.01), (500, 0.999), (60_000, 128 / 60_000), (10**6, 0.5), (10**7, 1e-9)],
)
def test_the_table_is_the_binomial_distribution(n, rate):
    values, mass = implied(binomial.binomial_table(n, rate))
    assert values[0] >= 0
    assert values[-1] <= n
    assert np.max(np.abs(mass - stats.binom.pmf(values, n, rate))) < 1e-15
    assert mass.sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("rate", [0.1, 0.5, 2 / 3])
def test_every_threshold_is_exact(rate):
    n, p = 30, Fraction(rate)
    table = binomial.binomial_table(n, rate)
    assert int(table.first) == 0
    weights, weight = [], (1 - p) ** n
    for k in range(n + 1):
        weights.append(weight)
        weight *= p * (n - k) / ((1 - p) * (k + 1))
    exact = [int(2**128 * sum(weights[: k + 1])) for k in range(n)]
    # Where 2^128 times the distribution function is an integer, the floor may fall one below it.
    assert all(t - u in (0, 1) for t, u in zip(exact, thresholds(table), strict=False))
    assert table.words.shape == (4, n)


def test_the_mass_left_out_is_below_two_to_the_minus_100():
    n, rate = 1000, 0.25
    table = binomial.binomial_table(n, rate)
    first, last = int(table.first), int(table.first) + table.words.shape[1]
    below, above = stats.binom.logcdf(first - 1, n, rate), stats.binom.logsf(last, n, rate)
    assert 0 < first < last < n
    assert max(below, above) < -101 * np.log(2)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.floats(1e-9, 1))
def test_error_bound_holds(n, rate):
    table = binomial.binomial_table(n, rate)
    values, mass = implied(table)
    distance = np.abs(mass - stats.binom.pmf(values, n, rate)).sum() / 2
    assert distance < binomial.error_bound(rate) + 1e-11


@pytest.mark.parametrize(("n", "rate"), [(1, 0.5), (1000, 0.3), (10**6, 0.5), (10**8, 0.01), (2**31 - 1, 1e-6)])
def test_error_bound_counts_at_least_the_values_of_any_table(n, rate):
    values = binomial.binomial_table(n, rate).words.shape[1] + 1
    assert binomial.error_bound(rate) >= values * 2.0**-128 + 2.0**-100


def test_error_bound_is_one_for_all_numbers_of_rows():
    assert binomial.error_bound(0.5) < 2.0**-99


def test_inversion_steps_exactly_at_every_threshold():
    table = binomial.binomial_table(200, 0.3)
    steps = thresholds(table)

    def invert(numbers):
        words = np.array([[u >> shift & 0xFFFFFFFF for shift in SHIFTS] for u in numbers], np.uint32)
        return np.asarray(jax.vmap(lambda w: binomial.invert(table, w))(words)) - int(table.first)

    # Thresholds at the edges can be equal, where a value has less than 2^-128 of the mass: it is then never taken.
    numbers = [0, *steps, *(u - 1 for u in steps if u), 2**128 - 1]
    np.testing.assert_array_equal(invert(numbers), [sum(t <= u for t in steps) for u in numbers])


def test_lower_words_decide_between_equal_higher_ones():
    table = binomial.BinomialTable(jnp.int32(5), jnp.uint32([[0, 0, 0], [7, 7, 7], [10, 10, 20], [3, 5, 0]]))
    numbers = [(6, 99, 99), (7, 9, 99), (7, 10, 2), (7, 10, 3), (7, 10, 5), (7, 19, 9), (7, 20, 0), (8, 0, 0)]
    taken = [int(binomial.invert(table, jnp.uint32((0, *number)))) for number in numbers]
    assert taken == [5, 5, 5, 6, 7, 7, 8, 8]


@pytest.mark.parametrize(("n", "rate"), [(6, 0.4), (1000, 0.01), (60_000, 0.5)])
def test_draws_are_binomial(n, rate):
    table = binomial.binomial_table(n, rate)
    keys = jax.random.split(rng.insecure_key(n), 40_000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: binomial.draw(table, key)))(keys))
    assert drawn.dtype == np.int32
    quantiles = np.unique(stats.binom.ppf(np.linspace(0.02, 0.98, 25), n, rate))
    edges = np.concatenate([[-1], quantiles, [n]])
    edges = edges[: np.argmax(edges == n) + 1]
    expected = np.diff(stats.binom.cdf(edges, n, rate)) * len(drawn)
    observed = np.histogram(drawn, edges + 0.5)[0]
    assert stats.chisquare(observed, expected).pvalue > 1e-4
    assert int(binomial.draw(table, keys[3])) == drawn[3]


@pytest.mark.parametrize(("n", "rate", "value"), [(0, 0.5, 0), (9, 1.0, 9), (1, 1.0, 1), (0, 1.0, 0)])
def test_certain_draws(n, rate, value):
    table = binomial.binomial_table(n, rate)
    keys = jax.random.split(rng.insecure_key(0), 3)
    np.testing.assert_array_equal(jax.vmap(lambda key: binomial.draw(table, key))(keys), [value] * 3)


def test_a_tiny_rate_takes_nothing_but_once_in_its_inverse():
    values, mass = implied(binomial.binomial_table(1, 2.0**-40))
    assert list(values[:2]) == [0, 1]
    assert mass[1] == 2.0**-40


@pytest.mark.parametrize("rate", [1e-7, 0.0128, 0.5, 0.9999])
def test_ten_million_rows_need_a_table_of_some_standard_deviations(rate):
    table = binomial.binomial_table(10**7, rate)
    assert table.words.shape[1] < 40 + 30 * math.sqrt(10**7 * rate * (1 - rate))


@pytest.mark.parametrize(("n", "rate"), [(-1, 0.5), (2**31, 0.5), (5, 0.0), (5, 1.1), (5, float("nan"))])
def test_impossible_arguments_are_refused(n, rate):
    with pytest.raises(PrivacyParameterError, match="sampling_rate"):
        binomial.binomial_table(n, rate)

"""The stream of random bits, what draws from it cost, and which scales are refused."""

import copy
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_draws import P_VALUE, bits, laplaces
from scipy import stats

from twinify_lite import exact, rng
from twinify_lite.errors import PrivacyParameterError
from twinify_lite.exact import Bits

# --- the stream ---


def test_the_stream_is_the_concatenation_of_distinct_blocks(monkeypatch):
    monkeypatch.setattr(exact, "BLOCK_WORDS", 13)  # 52 bytes: neither takes nor pool pieces end with a block
    key = rng.insecure_key(1)
    blocks = [np.asarray(jax.random.bits(jax.random.fold_in(key, b), (13,), jnp.uint32)) for b in range(20)]
    assert len({block.tobytes() for block in blocks}) == 20
    stream = sum(int(word) << (32 * i) for i, word in enumerate(np.concatenate(blocks)))
    source, position = Bits(key), 0
    for count in [1, 0, 31, 32, 33, 1, 1, 64, 500, 1, 700, 3, 999]:
        assert source.take(count) == stream >> position & ((1 << count) - 1)
        position += count


def test_the_same_key_gives_the_same_numbers_and_another_key_others():
    def draw(seed):
        source = bits(seed)
        return [*exact.rounded_gaussians(source, 10**6, 20), *(exact.discrete_laplace(source, 1e6) for _ in range(20))]

    assert draw(2) == draw(2)
    assert not set(draw(2)) & set(draw(3))


def test_every_taken_bit_is_a_fair_coin():
    source = bits(4)
    ones = sum(source.take(1) for _ in range(50_000)) + sum(source.take(37).bit_count() for _ in range(5_000))
    assert stats.binomtest(ones, 50_000 + 37 * 5_000).pvalue > P_VALUE


def test_bits_show_nothing_of_themselves_and_cannot_be_copied():
    source = bits(5)
    source.take(1)
    assert repr(source) == str(source) == "Bits(<hidden>)"
    assert not hasattr(source, "__dict__")
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="neither pickled nor copied"):
            duplicate(source)


# --- cost ---


class Counting(Bits):
    calls = 0
    bits = 0

    def take(self, count):
        self.bits += count
        return super().take(count)

    def below(self, bound):
        self.calls += 1
        return super().below(bound)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-3, 0.1, 1 / 3, 1.0, 12.5, 1e15, 1e300])
def test_discrete_laplace_makes_few_choices_whatever_its_scale(scale):
    source = Counting(rng.insecure_key(80))
    laplaces(source, scale, 1000)
    # 4 e^2 / (e - 1) = 17.2 at most are expected, besides the signs: half of them for a size, and two sizes if most are
    # zero and have the sign that zero has not.
    assert source.calls < 18.5 * 1000


@pytest.mark.parametrize("scale", [1, 10**8, 2**57])
def test_a_gaussian_takes_few_bits_whatever_its_scale(scale):
    source = Counting(rng.insecure_key(81))
    exact.rounded_gaussians(source, scale, 1000)
    assert source.bits < 200 * 1000


# --- the border ---


@pytest.mark.parametrize("scale", [0, -1, -0.5, math.inf, math.nan])
def test_scales_that_no_theorem_covers_are_refused(scale):
    with pytest.raises(PrivacyParameterError, match="positive, finite"):
        exact.discrete_laplace(bits(90), scale)


def test_gaussian_scales_are_positive_integers():
    with pytest.raises(PrivacyParameterError, match="at least 1"):
        exact.rounded_gaussian(bits(91), 0)
    with pytest.raises(TypeError):
        exact.rounded_gaussian(bits(91), 2.0)
    with pytest.raises(PrivacyParameterError, match="overflow"):
        exact.rounded_gaussians(bits(91), 2**57 + 1, 1)


def test_numpy_scales_do_not_overflow():
    assert exact.rounded_gaussian(bits(92), np.int64(2**60)) == exact.rounded_gaussian(bits(92), 2**60)
    assert exact.discrete_laplace(bits(92), np.float64(1e30)) == exact.discrete_laplace(bits(92), 1e30)


def test_arrays_hold_the_numbers_that_single_calls_draw():
    one_by_one = bits(93)
    array = exact.rounded_gaussians(bits(93), 2**57, 50)
    assert array.dtype == np.int64
    assert array.tolist() == [exact.rounded_gaussian(one_by_one, 2**57) for _ in range(50)]
    assert exact.rounded_gaussians(bits(93), 5, 0).shape == (0,)

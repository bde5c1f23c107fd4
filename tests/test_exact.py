"""Three kinds of evidence that the noise has its law: whole trees of random choices, frequencies, and OpenDP."""

import copy
import math
import pickle
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from twinify_lite import exact, rng
from twinify_lite.errors import PrivacyParameterError
from twinify_lite.exact import Bits

# The keys are fixed, so a frequency test that passed once passes always; a right sampler fails with this chance when
# the keys or the order of its draws change.
P_VALUE = 1e-4


def bits(seed: int) -> Bits:
    return Bits(rng.insecure_key(seed))


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


# --- all ways that the random choices can go ---


class Undecided(Exception):
    pass


class Branches(Bits):
    """Stands for all bit streams: goes down every branch of a sampler's choices that is at least `cutoff` probable."""

    __slots__ = ("cutoff", "mass", "path", "used")

    def __init__(self, cutoff: float):
        self.cutoff, self.path = cutoff, []

    def choose(self, options: int) -> int:
        if self.mass < self.cutoff:
            raise Undecided
        if self.used == len(self.path):
            self.path.append(options - 1)
        self.used += 1
        return self.path[self.used - 1]

    def below(self, bound):
        chosen = self.choose(bound)
        self.mass /= bound
        return chosen

    def take(self, count):
        return self.below(1 << count)

    def coin(self, probability: float) -> bool:
        if probability == 1:
            return True
        chosen = bool(self.choose(2))
        self.mass *= probability if chosen else 1 - probability
        return chosen

    def outcomes(self, sampler: Callable[[Bits], object]) -> Counter:
        """The probability of each outcome along the branches that were followed to their end."""
        found = Counter()
        while True:
            self.used, self.mass = 0, 1.0
            try:
                outcome = sampler(self)
            except Undecided:
                outcome = Undecided
            found[outcome] += self.mass
            del self.path[self.used :]
            while self.path and self.path[-1] == 0:
                self.path.pop()
            if not self.path:
                assert math.isclose(found.total(), 1)
                return found
            self.path[-1] -= 1


class BitBranches(Branches):
    """The same with single bits as the only choices: `below` is the real one."""

    __slots__ = ()
    below = Bits.below

    def take(self, count):
        taken = 0
        for i in range(count):
            taken |= self.choose(2) << i
            self.mass /= 2
        return taken


def misses(found: Counter, probability: Callable[[object], float]) -> list:
    """Outcomes whose exact probability lies outside what the followed and the undecided branches leave open."""
    slack = found[Undecided] + 1e-9
    decided = {outcome: mass for outcome, mass in found.items() if outcome is not Undecided}
    return [o for o, mass in decided.items() if not mass - 1e-9 <= probability(o) <= mass + slack]


@pytest.fixture
def single_bits(monkeypatch):
    """Deviates that grow bit by bit: trees stay small, and digits have to be added all the time."""
    monkeypatch.setattr(exact, "DIGIT", 1)


@pytest.fixture
def coins(monkeypatch):
    """`bernoulli_exp` as what the tests above it show it to be: one choice with that probability."""
    monkeypatch.setattr(exact, "bernoulli_exp", lambda bits, n, d: bits.coin(math.exp(-n / d)))


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 6, 7, 8, 12, 15])
def test_below_is_uniform(bound):
    found = BitBranches(2**-14).outcomes(lambda source: source.below(bound))
    assert found.pop(Undecided, 0) < 0.05
    assert set(found) == set(range(bound))
    assert len(set(found.values())) == 1


@pytest.mark.parametrize("ratio", [(0, 1), (1, 2), (1, 1), (2, 3), (1, 7), (3, 2), (5, 3)])
def test_bernoulli_exp_has_its_probability(ratio):
    found = BitBranches(2**-18).outcomes(lambda source: exact.bernoulli_exp(source, *ratio))
    assert found[Undecided] < 0.06
    yes = math.exp(-ratio[0] / ratio[1])
    assert misses(found, {True: yes, False: 1 - yes}.get) == []
    found = Branches(2**-20).outcomes(lambda source: exact.bernoulli_exp(source, *ratio))
    assert found[Undecided] < 0.001
    assert misses(found, {True: yes, False: 1 - yes}.get) == []


def laplace_probability(scale: float) -> Callable[[int], float]:
    return lambda k: math.tanh(1 / (2 * scale)) * math.exp(-abs(k) / scale)


@pytest.mark.parametrize(("scale", "undecided"), [(1, 0.11), (0.5, 0.2), (Fraction(1, 3), 0.25)])
def test_discrete_laplace_has_its_law_in_single_bits(scale, undecided):
    found = BitBranches(2**-16).outcomes(lambda source: exact.discrete_laplace(source, scale))
    assert found[Undecided] < undecided
    assert misses(found, laplace_probability(float(scale))) == []


@pytest.mark.usefixtures("coins")
@pytest.mark.parametrize("scale", [1, 0.5, Fraction(1, 3), 1.5, 2, Fraction(5, 2), Fraction(2, 5)])
def test_discrete_laplace_has_its_law(scale):
    found = Branches(2**-18).outcomes(lambda source: exact.discrete_laplace(source, scale))
    assert found[Undecided] < 0.1
    assert misses(found, laplace_probability(float(scale))) == []


def gaussian_probability(scale: float) -> Callable[[int], float]:
    return lambda n: stats.norm.cdf((n + 0.5) / scale) - stats.norm.cdf((n - 0.5) / scale)


@pytest.mark.usefixtures("single_bits")
@pytest.mark.parametrize(("k", "undecided"), [(0, 0.015), (1, 0.05), (2, 0.1), (3, 0.15)])
def test_a_part_is_accepted_with_its_probability_wherever_x_lies(k, undecided):
    def sampler(source):
        x = []
        accepted = exact._bernoulli_part(source, k, x)
        return accepted, exact._round(source, 8, 0, x)

    def probability(outcome):
        accepted, cell = outcome
        low, high = max(0, (cell - 0.5) / 8), min(1, (cell + 0.5) / 8)
        kept, _ = integrate.quad(lambda x: math.exp(-x * (2 * k + x) / (2 * k + 2)), low, high)
        return kept if accepted else high - low - kept

    found = Branches(2**-18).outcomes(sampler)
    assert found[Undecided] < undecided
    assert len(found) == 2 * 9 + 1
    assert misses(found, probability) == []


def one_proposal(scale: int) -> Callable[[Bits], int | None]:
    def sampler(source):
        drawn = exact._propose(source)
        return None if drawn is None else exact._round(source, scale, *drawn)

    return sampler


def proposal_probability(scale: int) -> Callable[[int | None], float]:
    """Of a proposal rounded, unsigned: the integral of exp(-y^2/2) over its cell in y >= 0, times P(k = 0) at step 1.

    A rejected one has what is left.
    """
    share = math.sqrt(math.pi / 2) * (1 - math.exp(-0.5))
    folded = gaussian_probability(scale)
    return lambda n: 1 - share if n is None else share * folded(n) * (2 if n else 1)


@pytest.mark.usefixtures("coins", "single_bits")
@pytest.mark.parametrize("scale", [1, 2, 3])
def test_one_proposal_of_the_gaussian_sampler_has_its_law(scale):
    found = Branches(2**-19).outcomes(one_proposal(scale))
    assert found[Undecided] < 0.075
    assert len(found) >= 3 * scale
    assert misses(found, proposal_probability(scale)) == []


@pytest.mark.usefixtures("single_bits")
@pytest.mark.parametrize("scale", [1, 2])
def test_rounded_gaussian_has_its_law_in_single_bits(scale):
    found = BitBranches(2**-16).outcomes(lambda source: exact.rounded_gaussian(source, scale))
    assert found[Undecided] < 0.62
    assert misses(found, gaussian_probability(scale)) == []
    assert all(found[n] == found[-n] for n in found if n is not Undecided)


@pytest.mark.usefixtures("coins", "single_bits")
def test_the_trees_would_show_a_wrong_law():
    found = Branches(2**-18).outcomes(lambda source: exact.discrete_laplace(source, 1.5))
    assert misses(found, laplace_probability(1.3))
    found = Branches(2**-18).outcomes(one_proposal(2))
    assert misses(found, proposal_probability(1))
    half_off = proposal_probability(4)  # cells of floor(2 |X|): two of those of width 1/4, without rounding
    assert misses(found, lambda n: n is not None and half_off(2 * n) + half_off(2 * n + 1))


@given(
    st.integers(1, 2**60),
    st.integers(0, 9),
    st.lists(st.integers(0, 2**32 - 1), max_size=4),
    st.lists(st.integers(0, 2**32 - 1), min_size=5, max_size=5),
)
def test_round_draws_digits_until_no_further_digit_could_matter(scale, k, digits, more):
    class Script(Bits):
        def __init__(self):
            self.rest = list(more)

        def take(self, count):
            assert count == exact.DIGIT == 32
            return self.rest.pop(0)

    source = Script()
    rounded = exact._round(source, scale, k, list(digits))
    used = digits + more[: len(more) - len(source.rest)]
    x = sum((Fraction(digit, 2 ** (32 * (i + 1))) for i, digit in enumerate(used)), Fraction(0))
    width = Fraction(1, 2 ** (32 * len(used)))
    for y in (x, x + width / 3, x + width * (1 - Fraction(1, 2**80))):
        assert math.floor(scale * (k + y) + Fraction(1, 2)) == rounded


# --- frequencies ---


def chi_square(draws: np.ndarray, edges: np.ndarray, cumulative: np.ndarray) -> float:
    """The p-value of the counts of draws between `edges`, where `cumulative` is the chance to lie below each edge."""
    counts = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)
    expected = len(draws) * np.diff(cumulative, prepend=0.0, append=1.0)
    assert np.min(expected) > 5
    return stats.chisquare(counts, expected).pvalue


def gaussian_fit(draws: np.ndarray, scale: int) -> float:
    edges = np.unique(np.linspace(-3 * scale, 3 * scale + 1, 42).astype(int))
    return chi_square(draws, edges, stats.norm.cdf((edges - 0.5) / scale))


def laplace_fit(draws: np.ndarray, scale: float) -> float:
    edges = np.unique(np.linspace(-6 * scale, 6 * scale + 1, 42).astype(int))
    ratio = math.exp(-1 / scale)
    below = np.where(edges <= 0, ratio ** (1.0 - edges.clip(max=0)), 1 + ratio - ratio ** edges.clip(min=0))
    return chi_square(draws, edges, below / (1 + ratio))


def laplaces(source: Bits, scale: Fraction | float, count: int) -> np.ndarray:
    return np.array([exact.discrete_laplace(source, scale) for _ in range(count)])


@pytest.mark.parametrize("scale", [1, 2, 3, 10, 1000])
def test_rounded_gaussians_have_the_frequencies_of_their_law(scale):
    assert gaussian_fit(exact.rounded_gaussians(bits(scale), scale, 50_000), scale) > P_VALUE


@pytest.mark.usefixtures("single_bits")
@pytest.mark.parametrize("scale", [1, 10])
def test_rounded_gaussians_have_them_also_when_digits_are_single_bits(scale):
    assert gaussian_fit(exact.rounded_gaussians(bits(30 + scale), scale, 50_000), scale) > P_VALUE


@pytest.mark.parametrize("scale", [1.0, 2.0, 3.0, 10.0, 1000.0, 0.9, Fraction(22, 7)])
def test_discrete_laplace_has_the_frequencies_of_its_law(scale):
    assert laplace_fit(laplaces(bits(40), scale, 50_000), float(scale)) > P_VALUE


def test_the_frequency_checks_fail_for_wrong_samplers():
    halved = exact.rounded_gaussians(bits(50), 5, 30_000)
    assert gaussian_fit(halved, 10) < 1e-12
    down = exact.rounded_gaussians(bits(51), 2**20, 30_000) >> 20  # floor(X) instead of floor(X + 1/2)
    assert gaussian_fit(down, 1) < 1e-12
    towards_zero = np.trunc(exact.rounded_gaussians(bits(52), 2**20, 30_000) / 2**20 * 3).astype(int)
    assert gaussian_fit(towards_zero, 3) < 1e-12
    assert laplace_fit(laplaces(bits(53), 5.0, 30_000), 10.0) < 1e-12
    twice_zero = laplaces(bits(54), 3.0, 30_000)
    assert laplace_fit(np.concatenate([twice_zero, twice_zero[twice_zero == 0]]), 3.0) < 1e-12


def test_the_tails_beyond_three_and_four_standard_deviations_are_as_heavy_as_they_should_be():
    scale = 10**8
    standard = exact.rounded_gaussians(bits(60), scale, 200_000) / scale
    assert stats.kstest(standard, stats.norm.cdf).pvalue > P_VALUE
    for deviations in (3, 4):
        for tail in (standard > deviations, standard < -deviations):
            assert stats.binomtest(int(tail.sum()), len(tail), stats.norm.sf(deviations)).pvalue > P_VALUE
    laplace = laplaces(bits(61), 1e8, 50_000) / 1e8
    assert stats.kstest(laplace, stats.laplace.cdf).pvalue > P_VALUE


def test_large_scales_have_random_low_bits():
    source = bits(71)
    draws = np.array([exact.rounded_gaussian(source, 2**60) % 64 for _ in range(20_000)])
    assert stats.chisquare(np.bincount(draws, minlength=64)).pvalue > P_VALUE
    source = bits(72)
    draws = np.array([exact.discrete_laplace(source, 1e30) % 64 for _ in range(20_000)])
    assert stats.chisquare(np.bincount(draws, minlength=64)).pvalue > P_VALUE


def test_neighbouring_draws_are_uncorrelated():
    draws = exact.rounded_gaussians(bits(73), 1000, 50_000)
    assert stats.pearsonr(draws[:-1], draws[1:]).pvalue > P_VALUE
    assert stats.pearsonr(np.abs(draws[:-1]), np.abs(draws[1:])).pvalue > P_VALUE


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


# --- against OpenDP ---

# OpenDP draws from the operating system, so these tests differ from run to run: a rarer false alarm.
RARE = 1e-7
DRAWS = 50_000


@pytest.fixture(scope="module")
def opendp():
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    return opendp


def same_law(ours: np.ndarray, theirs: np.ndarray, scale: float) -> float:
    """The p-value of a two-sample chi-square test on cells of a quarter of the scale, within three scales."""
    edges = np.unique(np.linspace(-3 * scale, 3 * scale + 1, 25).astype(int))
    table = [
        np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1) for draws in (ours, theirs)
    ]
    return stats.chi2_contingency(table).pvalue


@pytest.mark.parametrize("scale", [0.7, 2.5, 40.0])
def test_discrete_laplace_has_the_law_of_opendp(opendp, scale):
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l1_distance(T=int)
    theirs = np.array(opendp.m.make_laplace(*space, scale=scale)([0] * DRAWS))
    assert same_law(laplaces(bits(100), scale, DRAWS), theirs, scale) > RARE
    assert same_law(laplaces(bits(101), 1.25 * scale, DRAWS), theirs, scale) < RARE


@pytest.mark.parametrize("scale", [10, 300])
def test_rounded_gaussian_has_almost_the_law_of_the_discrete_gaussian_of_opendp(opendp, scale):
    # Rounding adds 1/12 to the variance, which the discrete Gaussian has not: the laws are 0.02 / scale^2 apart in
    # total variation, 2e-4 at scale 10. That moves the chi-square statistic of so few draws by 0.01 on average.
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    theirs = np.array(opendp.m.make_gaussian(*space, scale=float(scale))([0] * DRAWS))
    assert same_law(exact.rounded_gaussians(bits(102), scale, DRAWS), theirs, scale) > RARE
    assert same_law(exact.rounded_gaussians(bits(103), scale + scale // 10, DRAWS), theirs, scale) < RARE

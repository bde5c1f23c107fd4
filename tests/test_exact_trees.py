"""The noise has its law: all ways that its random choices can go, followed to the end."""

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from twinify_lite import exact
from twinify_lite.exact import Bits


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

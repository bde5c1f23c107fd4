"""The one release of whole-number sums: one row moves all of them, over their noise, by no more than is paid for."""

import ast
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from exact_draws import P_VALUE
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import twinify_lite
from twinify_lite import exact, release
from twinify_lite.accountant import ApproximateDP, Gaussian, NotPrivate, PoissonGaussian, Relation
from twinify_lite.errors import PrivacyParameterError, ReceiptError
from twinify_lite.ledger import Ledger
from twinify_lite.release import Part, Scale, opened, scales

MULTIPLIERS = st.floats(1e-2, 1e6) | st.sampled_from([0.1, 0.27, 1.0, 1 / 3, math.pi])
BOUNDS = st.sampled_from([1, 2, 3, 1000, 1024, 1026, 2**20]) | st.integers(1, 2**20)
PARTS = st.builds(Part, bound=BOUNDS, weight=st.floats(1e-6, 1e6) | st.just(1.0), replaced=st.sampled_from([1, 2, 4]))


def paid(noise=3.7, relation="add-remove", seed=None):
    return Ledger(1e9, 1e-6, relation=relation, insecure_seed=seed).spend(Gaussian(noise_multiplier=noise), "sums")


def moved_over_noise(parts, found, relation):
    """The square of how far one row moves all sums in units of their noise, exactly; it moves each part as far as it
    can."""
    factor = [1 if relation is Relation.ADD_REMOVE else part.replaced for part in parts]
    each = zip(parts, found, factor, strict=True)
    return sum(Fraction(f * (part.bound * scale.fine) ** 2, scale.steps**2) for part, scale, f in each)


# -- the guarantee, in exact arithmetic --------------------------------------------------------------------------------


@given(MULTIPLIERS, st.lists(PARTS, min_size=1, max_size=6), st.sampled_from(Relation))
def test_one_row_moves_all_sums_over_their_noise_by_at_most_what_is_paid_for(multiplier, parts, relation):
    found = scales(multiplier, relation, parts)
    moved = moved_over_noise(parts, found, relation)
    assert moved <= 1 / Fraction(multiplier) ** 2
    if all(scale.steps >= 1024 for scale in found):  # and no noise is wasted
        assert moved * Fraction(1024, 1023) ** 2 > 1 / Fraction(multiplier) ** 2


@given(MULTIPLIERS, PARTS, st.sampled_from(Relation))
def test_the_noise_is_the_least_on_its_lattice(multiplier, part, relation):
    (scale,) = scales(multiplier, relation, [part])
    smaller = scale._replace(steps=scale.steps - 1)
    assert scale.steps == 1 or moved_over_noise([part], [smaller], relation) > 1 / Fraction(multiplier) ** 2


@given(MULTIPLIERS, PARTS, st.sampled_from(Relation))
def test_one_row_is_at_most_so_many_steps_that_64_bits_hold_the_sums_of_four_billion(multiplier, part, relation):
    scale = Scale.of(multiplier, relation, part)
    assert scale.fine.bit_count() == 1
    assert part.bound * scale.fine <= 2**20
    assert scale.fine == 1 or scale.steps <= 2 * 1024
    assert scale.steps >= 1024 or scale.fine * part.bound > 2**19  # a lattice finer than that is of use to nobody


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4), st.lists(st.integers(0, 50), min_size=4, max_size=4))
def test_a_replaced_row_of_numbers_that_are_not_negative_moves_a_sum_by_the_root_of_two_at_most(gone, come):
    bound = max(math.isqrt(sum(x * x for x in row) - 1) + 1 if any(row) else 1 for row in (gone, come))
    moved = sum((a - b) ** 2 for a, b in zip(gone, come, strict=True))
    assert moved <= Part(bound=bound).moved(Relation.SUBSTITUTE)
    assert Part(bound=bound).moved(Relation.ADD_REMOVE) == bound**2


def test_the_root_of_two_is_needed_and_four_squares_where_rows_may_be_negative():
    assert Part().moved(Relation.SUBSTITUTE) == 1**2 + 1**2  # from one cell of a table to another
    assert Part(replaced=4).moved(Relation.SUBSTITUTE) == (1 - -1) ** 2
    assert Part(bound=7, replaced=1).moved(Relation.SUBSTITUTE) == 7**2


@pytest.mark.parametrize("square", [0, 1, 2, 4, 99, 100, 101, Fraction(1, 3), Fraction(400, 99), 10**40, 10**40 + 1])
def test_roots_are_rounded_up(square):
    root = release._root_above(Fraction(square))
    assert root >= 1
    assert root**2 >= square
    assert root == 1 or (root - 1) ** 2 < square


@pytest.mark.parametrize("epsilon", [1.0, 20.0, 100.0])
@pytest.mark.parametrize("parts", [[Part()], [Part()] * 3, [Part(), Part(weight=0.3)]])
def test_at_any_epsilon_the_noise_is_within_a_thousandth_of_what_is_paid_for(epsilon, parts):
    ledger = Ledger(epsilon, 1e-6)
    receipt = ledger.spend(ledger.calibrate(Gaussian(noise_multiplier=1.0)), "sums")
    norm = math.hypot(*(part.weight for part in parts))
    for part, noise in zip(parts, opened(receipt, parts), strict=True):
        least = receipt.mechanism.noise_multiplier * norm / part.weight
        assert least * (1 - 1e-15) <= noise.deviation <= 1.001 * least


@pytest.mark.parametrize(
    "wrong",
    [{"bound": 0}, {"weight": 0.0}, {"weight": math.inf}, {"weight": math.nan}, {"weight": -1.0}, {"replaced": 3}],
)
def test_parts_that_make_no_sense_are_refused(wrong):
    with pytest.raises(PrivacyParameterError):
        Part(**wrong)


# -- what leaves -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("multiplier", "bound"), [(0.3, 1), (5.0, 1), (2.0, 2**20), (1e5, 3)])
def test_what_leaves_is_the_sums_with_gaussian_noise_of_that_deviation(multiplier, bound):
    (noise,) = opened(paid(multiplier, seed=1), [Part(bound=bound)])
    sums = np.arange(3000).reshape(60, 50)
    left = noise.add(sums)
    added = (left - sums).ravel()
    assert left.dtype == np.float64
    assert left.shape == sums.shape
    assert (left * noise.scale.fine == np.rint(left * noise.scale.fine)).all()
    assert stats.kstest(added / noise.deviation, "norm").pvalue > P_VALUE
    assert stats.kstest(added / noise.deviation * 1.2, "norm").pvalue < 1e-5
    assert noise.deviation == pytest.approx(multiplier * bound, rel=1e-3)


def test_parts_and_pieces_have_noise_of_their_own():
    first, second = opened(paid(100.0, seed=2), [Part()] * 2)
    pieces = [one.add(np.zeros(500, np.int64)) for one in (first, second, first, second)]
    for one, other in itertools.combinations(pieces, 2):
        assert (one == other).mean() < 0.02
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.2


def test_the_noise_is_drawn_from_the_secret_key_of_the_receipt_for_noise():
    receipts = [paid(5.0, seed=3) for _ in range(2)]
    (noise,) = opened(receipts[0], [Part()])
    drawn = exact.rounded_gaussians(exact.Bits(receipts[1].redeem(Gaussian).noise), noise.scale.steps, 50)
    assert (noise.add(np.zeros(50, np.int64)) * noise.scale.fine == drawn).all()


def test_noise_is_exact_in_float64_up_to_four_billion_rows():
    (noise,) = opened(paid(0.01), [Part()])
    assert noise.scale.fine > 2**16
    for rows in (0, 1, 2**32 - 1, 2**32):
        left = Fraction(float(noise.add(rows)))
        assert (left * noise.scale.fine).denominator == 1
        assert abs(left - rows) < 1


def test_noise_that_cannot_be_drawn_is_refused_before_the_receipt_is_used_up():
    ledger = Ledger(1.0, 1e-6)
    receipt = ledger.spend(Gaussian(noise_multiplier=2.0**37 + 1), "sums")
    with pytest.raises(PrivacyParameterError, match="more noise than can be drawn"):
        opened(receipt, [Part(bound=2**20)])
    assert ledger.begun == (0, 0)
    (noise,) = opened(receipt, [Part(bound=2**19)])
    assert abs(noise.add(0)) < 64 * noise.deviation


def test_only_whole_numbers_are_released():
    (noise,) = opened(paid(), [Part()])
    with pytest.raises(TypeError):
        noise.add(np.array([1.0]))


def test_the_receipt_is_used_up_before_there_is_a_sum():
    receipt = paid()
    opened(receipt, [Part()])
    with pytest.raises(ReceiptError, match="has been used"):
        opened(receipt, [Part()])


@pytest.mark.parametrize(
    "mechanism",
    [ApproximateDP(epsilon=1.0, delta=0.0), PoissonGaussian(noise_multiplier=5.0, sampling_rate=0.1, steps=10)],
)
def test_a_receipt_for_another_mechanism_pays_for_nothing(mechanism):
    for kinds in (Gaussian, (Gaussian, NotPrivate)):
        with pytest.raises(ReceiptError, match="not for this mechanism"):
            opened(Ledger(10.0, 1e-6).spend(mechanism, "other"), [Part()], kinds)


def test_sums_leave_as_they_are_only_where_a_caller_allows_it_and_nothing_is_private():
    ledger = Ledger.without_privacy()
    with pytest.raises(ReceiptError, match="not for this mechanism"):
        opened(ledger.spend(NotPrivate(), "sums"), [Part()])
    (noise,) = opened(ledger.spend(NotPrivate(), "sums"), [Part()], (Gaussian, NotPrivate))
    assert noise.deviation == 0
    assert noise.add(np.array([3, 4])).tolist() == [3.0, 4.0]


def test_noise_says_nothing_of_its_bits():
    (noise,) = opened(paid(), [Part()])
    assert "Bits" not in repr(noise)


# -- one place ---------------------------------------------------------------------------------------------------------


def test_all_sums_pass_one_function_that_tests_can_watch(monkeypatch):
    seen = []

    def watched(what, sums, bound, deviation, bits):
        seen.append((what, sums.tolist(), bound, deviation))
        return sums

    monkeypatch.setattr(release, "_noised", watched)
    (noise,) = opened(paid(20.0), [Part(bound=3)])
    assert noise.add(np.array([1, 2])).tolist() == [1.0, 2.0]
    fine = noise.scale.fine
    assert seen == [("sums", [fine, 2 * fine], 3 * fine, noise.scale.steps)]
    assert Fraction(seen[0][2], seen[0][3]) <= Fraction(1, 20)


def test_no_other_file_draws_gaussian_noise_for_sums():
    folder = Path(twinify_lite.__file__).parent
    drawers = {name for name in vars(exact) if name.startswith("rounded_gaussian")}
    assert drawers == {"rounded_gaussian", "rounded_gaussians"}
    users = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if any(
            drawers & {getattr(node, name, None) for name in ("id", "attr", "name")}
            for node in ast.walk(ast.parse(path.read_text()))
            if not isinstance(node, ast.FunctionDef)
        )
    }
    assert users == {"release.py"}

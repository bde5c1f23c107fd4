"""Noisy tables: the only door to the rows. The noise is what the receipt pays for, and it is Gaussian."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from exact_draws import P_VALUE
from scipy import stats

import twinify_lite as tw
import twinify_lite.release
from twinify_lite import auto
from twinify_lite.accountant import Gaussian, PoissonGaussian
from twinify_lite.auto import Auto, tables
from twinify_lite.auto.fine import Codes
from twinify_lite.auto.tables import Noisy, one_way, release, two_way
from twinify_lite.errors import ReceiptError
from twinify_lite.ledger import Ledger
from twinify_lite.schema import Column, Schema

RELATIONS = {"add-remove": 1.0, "substitute": math.sqrt(2)}
SIZES = [2, 5, 9, 3]
RNG = np.random.default_rng(0)
COLUMNS = [RNG.integers(0, size, 50).astype(np.uint8) for size in SIZES]
PAIRS = list(itertools.combinations(range(4), 2))


def paid(noise=3.7, relation="add-remove", seed=None):
    return Ledger(100.0, 1e-6, relation=relation, insecure_seed=seed).spend(Gaussian(noise_multiplier=noise), "tables")


@pytest.fixture
def drawn(monkeypatch):
    """The deviations of all noise that is added, in rows, and to how many counts; the noise itself is nothing."""
    scales = []

    def nothing(_what, sums, bound, deviation, _bits):
        scales.append((deviation / bound, sums.size))
        return sums

    monkeypatch.setattr(twinify_lite.release, "_noised", nothing)
    return scales


# -- the guarantee -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [0.3, 2.0, 5.0], [1e-3, 1e3], [0.5] * 190])
def test_noise_is_that_of_the_receipt_for_what_one_row_can_move(drawn, relation, weights):
    receipt = paid(3.7, relation)
    found = release(receipt, [np.zeros((2, 3), np.int64)] * len(weights), weights)
    scales = np.array([scale for scale, _ in drawn], float)
    assert [count for _, count in drawn] == [6] * len(weights)
    assert (scales == [one.noise for one in found]).all()
    assert (scales * 2**20 == np.rint(scales * 2**20)).all()
    # A row moves each table by 1 or, replaced, by the root of 2: in units of the noise, all together by 1 / multiplier.
    moved = np.linalg.norm(RELATIONS[relation] / scales)
    assert moved <= 1 / 3.7
    assert (scales < 3.7 * RELATIONS[relation] * np.linalg.norm(weights) / weights * 1.001).all()


def test_heavier_tables_get_less_noise(drawn):
    light, heavy = release(paid(10.0), [np.zeros(3, np.int64)] * 2, [1.0, 3.0])
    assert light.noise == pytest.approx(3 * heavy.noise, rel=1e-3)


def test_only_the_ratio_of_weights_matters(drawn):
    one = release(paid(), [np.zeros(3, np.int64)] * 3, [1.0, 2.0, 3.0])
    other = release(paid(), [np.zeros(3, np.int64)] * 3, [50.0, 100.0, 150.0])
    assert [x.noise for x in one] == [x.noise for x in other]


def single(columns, receipt):
    fine = [Codes(size, np.arange(size), np.ones(size), np.zeros(size, bool)) for size in SIZES]
    return auto._single(receipt, columns, fine)


def pairs(columns, receipt):
    settings = plan(target="d").settings
    return auto._release(receipt, PAIRS, columns, SIZES, 3, settings, lambda *_: None)


def plan(target=None, rows=2000, noise=1.0, **options):
    schema = Schema([Column(name=name, kind="category", levels=("x", "y"), nullable=False) for name in "abcd"])
    return Auto(target).plan(schema, rows, noise, options)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("make", [single, pairs])
def test_neighbouring_tables_differ_by_no_more_than_the_receipt_pays_for(drawn, relation, make):
    before = make(COLUMNS, paid(2.9, relation))
    largest = 0.0
    for row in itertools.product(*map(range, SIZES)):
        if relation == "add-remove":
            other = [np.append(column, value).astype(np.uint8) for column, value in zip(COLUMNS, row, strict=True)]
        else:
            other = [np.append(column[1:], value).astype(np.uint8) for column, value in zip(COLUMNS, row, strict=True)]
        after = make(other, paid(2.9, relation))
        assert [one.noise for one in after] == [one.noise for one in before]
        differences = [((a.counts - b.counts) / b.noise).ravel() for a, b in zip(after, before, strict=True)]
        largest = max(largest, np.linalg.norm(np.concatenate(differences)))
    assert 0.5 / 2.9 < largest <= 1 / 2.9


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_release_of_a_fit_has_the_noise_of_its_receipt(drawn, monkeypatch, relation):
    made = []

    def recorded(receipt, *rest):
        first = len(drawn)
        found = release(receipt, *rest)
        made.append((receipt, [scale for scale, _ in drawn[first:]], found))
        return found

    monkeypatch.setattr(tables, "release", recorded)
    names = [f"c{number}" for number in range(5)]
    schema = Schema([Column(name=name, kind="integer", min=0, max=4, nullable=False) for name in names])
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 5, (400, 5)), columns=names)
    options = {"particles": 256}
    twin = tw.fit(frame, epsilon=2, schema=schema, relation=relation, target="c1", options=options)
    receipts = {entry["what"]: entry for entry in twin.statement["stages"][-1]["receipts"]}
    assert [receipt.what for receipt, _, _ in made] == list(receipts)
    assert [len(scales) for _, scales, _ in made] == [5, 10, 8]
    for receipt, scales, found in made:
        multiplier = receipts[receipt.what]["mechanism"]["noise_multiplier"]
        moved = np.linalg.norm(RELATIONS[relation] / np.array(scales, float))
        assert 1 / 1.001 / multiplier < moved <= 1 / multiplier
        assert scales == [noisy.noise for noisy in found]
        # Every row is once in each table, and in no other.
        assert all(noisy.counts.sum() == 400 for noisy in found)


def test_the_plan_divides_one_release_among_several():
    for options in ({}, {"single": 0.5}, {"measured_pairs": 4}):
        noise = plan(rows=2000, noise=4.0, **options).noise
        assert sum(1 / one**2 for one in noise.values()) == pytest.approx(1 / 4.0**2)


def test_the_target_gets_more_of_the_budget_of_pairs(drawn):
    found = dict(zip(PAIRS, pairs(COLUMNS, paid(50.0)), strict=True))
    like = {pair: one.noise * (SIZES[pair[0]] * SIZES[pair[1]]) ** auto._SMALL for pair, one in found.items()}
    for pair, noise in like.items():
        assert noise == pytest.approx(like[0, 3] * (1 if 3 in pair else 2), rel=2e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("make", [single, pairs])
def test_at_epsilon_20_the_noise_is_within_a_thousandth_of_what_is_paid_for(relation, make):
    """Rounded up to whole counts, most of the budget of a few columns would go to waste."""
    ledger = Ledger(20.0, 1e-6, relation=relation)
    receipt = ledger.spend(ledger.calibrate(Gaussian(noise_multiplier=1.0)), "tables")
    found = make(COLUMNS, receipt)
    moved = np.linalg.norm([RELATIONS[relation] / one.noise for one in found])
    assert 1 / 1.001 <= moved * receipt.mechanism.noise_multiplier <= 1 + 1e-12
    assert make is pairs or max(one.noise for one in found) < 1  # the noise of a count, by which it was rounded up


# -- receipts ----------------------------------------------------------------------------------------------------------


def never():
    raise AssertionError("rows were counted")
    yield


def test_a_receipt_pays_once():
    receipt = paid()
    release(receipt, [np.zeros(3, np.int64)], [1.0])
    with pytest.raises(ReceiptError, match="has been used"):
        release(receipt, never(), [1.0])


def test_a_receipt_for_another_mechanism_pays_for_nothing():
    steps = PoissonGaussian(noise_multiplier=5.0, sampling_rate=0.1, steps=10)
    receipt = Ledger(10.0, 1e-6).spend(steps, "DPSVI")
    with pytest.raises(ReceiptError, match="not for this mechanism"):
        release(receipt, never(), [1.0])


def test_as_many_weights_as_tables():
    with pytest.raises(ValueError):
        release(paid(), [np.zeros(3, np.int64)], [1.0, 1.0])


# -- noise -------------------------------------------------------------------------------------------------------------


def test_the_noise_is_gaussian_on_a_lattice_and_differs_from_cell_to_cell():
    counts = np.arange(3000).reshape(60, 50)
    first, second = release(paid(20.0, seed=1), [counts, counts], [1.0, 2.0])
    one, two = ((x.counts - counts).ravel() for x in (first, second))
    assert (one * 2**20 == np.rint(one * 2**20)).all()
    assert (one != np.rint(one)).any()
    assert first.counts.dtype == np.float64
    for noise, scale in ((one, first.noise), (two, second.noise)):
        assert stats.kstest(noise / scale, "norm").pvalue > P_VALUE
        assert stats.chi2(3000).sf((noise**2).sum() / scale**2) == pytest.approx(0.5, abs=0.4999)
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / math.sqrt(3000)
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 5 / math.sqrt(3000)


def test_two_releases_have_different_noise():
    table = [np.zeros(200, np.int64)]
    one, two = (release(paid(100.0), table, [1.0])[0].counts for _ in range(2))
    assert (one == two).mean() < 0.02


# -- counting ----------------------------------------------------------------------------------------------------------


def test_counting_counts_every_row_once(monkeypatch):
    assert (one_way(np.array([0, 2, 2, 5], np.uint8), 7) == [1, 0, 2, 0, 0, 1, 0]).all()
    expected = np.zeros((5, 9), np.int64)
    np.add.at(expected, (COLUMNS[1], COLUMNS[2]), 1)
    assert (two_way(COLUMNS[1], COLUMNS[2], (5, 9)) == expected).all()
    monkeypatch.setattr(tables, "_CHUNK", 7)
    assert (two_way(COLUMNS[1], COLUMNS[2], (5, 9)) == expected).all()


def test_many_levels_of_the_shortest_type_do_not_overflow():
    rows, columns = np.full(10, 254, np.uint8), np.full(10, 253, np.uint8)
    assert two_way(rows, columns, (255, 255))[254, 253] == 10


def test_noisy_tables_go_through_plain_arrays():
    noisy = Noisy(np.array([[1.0, -2.0]]), 3.0)
    back = Noisy.from_parts(noisy.to_parts("pairs.0"), "pairs.0")
    assert (back.counts == noisy.counts).all()
    assert back.noise == 3.0

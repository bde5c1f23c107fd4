"""One row moves the tallies by at most its weight, and what leaves has the noise that was paid for."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from twinify_lite.accountant import ApproximateDP, Gaussian, Relation
from twinify_lite.discover.votes import WEIGHT, Ballot, Noise, selection_cost, tally
from twinify_lite.errors import ReceiptError
from twinify_lite.ledger import Ledger


def noise_of(noise_multiplier, *, relation="add-remove", seed=0):
    ledger = Ledger(100.0, 1e-3, relation=relation, insecure_seed=seed)
    return Noise.of(ledger.spend(Gaussian(noise_multiplier=noise_multiplier), "votes"))


@st.composite
def elections(draw):
    """Some ballots over one table of up to 8 rows, and the number of a row."""
    rows = draw(st.integers(1, 8))
    ballots = []
    for _ in range(draw(st.integers(1, 5))):
        items = draw(st.integers(1, 4))
        item = draw(st.lists(st.integers(-1, items - 1), min_size=1, max_size=6))
        codes = draw(st.lists(st.integers(0, len(item) - 1), min_size=rows, max_size=rows))
        ballots.append(Ballot(np.array(codes), np.array(item), items, draw(st.sampled_from([1, 2, 4, 9]))))
    return ballots, draw(st.integers(0, rows - 1))


def without(ballots, row):
    return [Ballot(np.delete(ballot.codes, row), ballot.item, ballot.items, ballot.square) for ballot in ballots]


@given(elections())
def test_one_row_moves_all_tallies_together_by_at_most_its_weight(election):
    ballots, row = election
    with_row, without_row = tally(ballots), tally(without(ballots, row))
    moved = [int(x) for a, b in zip(with_row, without_row, strict=True) for x in a - b]
    assert min(moved) >= 0
    assert sum(x * x for x in moved) <= WEIGHT**2


@given(elections())
def test_a_row_uses_nearly_all_of_its_weight_if_it_votes_at_all(election):
    ballots, row = election
    votes = any(ballot.item[ballot.codes[row]] >= 0 for ballot in ballots)
    alone = [Ballot(ballot.codes[[row]], ballot.item, ballot.items, ballot.square) for ballot in ballots]
    norm = math.sqrt(sum(float(x) ** 2 for sums in tally(alone) for x in sums))
    assert norm == pytest.approx(WEIGHT if votes else 0, rel=1e-5)


def test_a_row_with_one_vote_left_gives_it_all_its_weight():
    everyone, nobody = np.array([0, 1]), np.array([-1, -1])
    codes = np.array([0, 1, 1])
    first = tally([Ballot(codes, everyone, 2), Ballot(codes, everyone, 2)])[0]
    second = tally([Ballot(codes, everyone, 2), Ballot(codes, nobody, 2)])[0]
    assert first == pytest.approx(np.array([1, 2]) * WEIGHT / math.sqrt(2), rel=1e-5)
    assert list(second) == [WEIGHT, 2 * WEIGHT]


@pytest.mark.parametrize(("relation", "factor"), [("add-remove", 1), ("substitute", math.sqrt(2))])
def test_noise_has_the_size_that_the_relation_needs(relation, factor):
    noise = noise_of(3.0, relation=relation)
    drawn = noise.add(np.zeros(20_000, np.int64))
    assert noise.scale == pytest.approx(3.0 * factor)
    assert stats.kstest(drawn / (3.0 * factor), "norm").pvalue > 1e-4
    assert stats.kstest(2 * drawn / (3.0 * factor), "norm").pvalue < 1e-10


def replaced(ballots, row, other):
    return [
        Ballot(np.where(np.arange(len(b.codes)) == row, b.codes[other], b.codes), b.item, b.items, b.square)
        for b in ballots
    ]


@given(elections(), st.integers(0, 7), st.sampled_from(["add-remove", "substitute"]))
def test_neighbours_differ_by_no_more_than_the_receipt_pays_for(election, other, relation):
    ballots, row = election
    rows = len(ballots[0].codes)
    neighbour = without(ballots, row) if relation == "add-remove" else replaced(ballots, row, other % rows)
    noise = noise_of(3.0, relation=relation)._of_votes.scale
    assert noise.fine == 1
    moved = sum(int(x) ** 2 for a, b in zip(tally(ballots), tally(neighbour), strict=True) for x in a - b)
    assert 9 * moved <= noise.steps**2


def test_a_replaced_row_needs_noise_for_the_root_of_two():
    everyone, codes = np.array([0, 1]), np.array([0, 1])
    one, other = (tally([Ballot(of, everyone, 2)] * 3) for of in (codes, codes[[1, 1]]))
    moved = sum(int(x) ** 2 for a, b in zip(one, other, strict=True) for x in a - b)
    steps = noise_of(3.0, relation="substitute")._of_votes.scale.steps
    assert 0.9999 * steps**2 <= 9 * moved <= steps**2


def test_every_released_number_is_a_whole_number_of_votes():
    released = noise_of(3.0).add(np.array([5, 7], np.int64)) * WEIGHT
    assert np.array_equal(released, np.round(released))


def test_a_receipt_pays_for_one_noise_only():
    ledger = Ledger(100.0, 1e-3)
    receipt = ledger.spend(Gaussian(noise_multiplier=3.0), "votes")
    Noise.of(receipt)
    with pytest.raises(ReceiptError):
        Noise.of(receipt)
    with pytest.raises(ReceiptError):
        Noise.of(ledger.spend(ApproximateDP(epsilon=0.1, delta=0.0), "something else"))


def test_what_one_row_brings_in_is_shown_no_more_often_than_paid_for():
    """The worst case: a tally a hair below the floor, lifted over it by one whole row."""
    noise, delta, runs = noise_of(2.0), 0.05, 20_000
    floor = int(noise.scale * WEIGHT) // 4
    worst = np.full(runs, floor - 1 + WEIGHT)
    shown = int(np.isfinite(noise.select(worst, delta=delta)).sum())
    assert stats.binomtest(shown, runs, delta, alternative="greater").pvalue > 1e-6
    halved = int(np.isfinite(noise.select(worst, delta=2 * delta)).sum())  # the check does see twice the chance
    assert stats.binomtest(halved, runs, delta, alternative="greater").pvalue < 1e-6


@given(st.integers(1, 2**40), st.floats(1e-12, 0.4))
def test_the_threshold_leaves_what_one_row_brings_in_to_the_tail_of_the_noise(deviation, delta):
    """Exactly: the least noise that lets it pass is beyond what a Gaussian number exceeds with probability delta."""
    worst = np.array([max(1, min(WEIGHT + 1, deviation // 4)) - 1 + WEIGHT])
    tail = deviation * Fraction(float(stats.norm.isf(delta)))

    def passes(drawn):
        noise = Noise(SimpleNamespace(deviation=float(deviation), add=lambda sums: (sums + drawn).astype(float)))
        return bool(np.isfinite(noise.select(worst, delta=delta))[0])

    assert not passes(math.floor(tail + Fraction(1, 2)))  # to this, noise at the tail is rounded
    assert not passes(math.floor(tail + Fraction(1, 2)) + 1)
    assert passes(math.ceil(tail) + 4)  # and not much further


def test_items_under_the_floor_are_never_shown():
    noise = noise_of(2.0)
    below = np.full(1000, int(noise.scale * WEIGHT) // 4 - 1)
    assert not np.isfinite(noise.select(below, delta=0.4)).any()


def test_frequent_items_are_shown_with_their_noisy_tally():
    shown = noise_of(2.0).select(np.array([0, 1000 * WEIGHT, 3 * WEIGHT]), delta=1e-7)
    assert shown[0] == shown[2] == -math.inf
    assert shown[1] == pytest.approx(1000, abs=20)


def test_selection_under_substitution_is_paid_twice():
    assert selection_cost(Relation.ADD_REMOVE, 1e-7).delta == 1e-7
    assert selection_cost(Relation.SUBSTITUTE, 1e-7).delta == 2e-7


def test_without_privacy_there_is_no_noise():
    from twinify_lite.accountant import NotPrivate

    noise = Noise.of(Ledger.without_privacy().spend(NotPrivate(), "votes"))
    assert list(noise.add(np.array([WEIGHT, 0]))) == [1.0, 0.0]
    assert list(noise.select(np.array([WEIGHT, 0]), delta=0.0)) == [1.0, -math.inf]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 10**6))
def test_weights_are_whole_and_their_squares_fit_for_any_spread(spread):
    from twinify_lite.discover.votes import _weights

    assert spread * int(_weights(1, min(spread, 500))[-1]) ** 2 <= WEIGHT**2 or spread > 500

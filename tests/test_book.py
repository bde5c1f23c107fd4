"""A ledger file: what is granted is written first, what is written is checked, and nothing passes the limit."""

import copy
import dataclasses
import json
import math
import os

import pytest

import twinify_lite as tw
from twinify_lite import accountant, demo, locking
from twinify_lite.accountant import (
    ApproximateDP,
    DiscreteLaplace,
    Gaussian,
    NotPrivate,
    PoissonGaussian,
    Relation,
)
from twinify_lite.accountant.bounds import SAMPLING_SLACK
from twinify_lite.book import Book
from twinify_lite.dominating import dominate
from twinify_lite.errors import BookError, BudgetExceeded, PrivacyParameterError, TableError
from twinify_lite.ledger import Ledger

RUN, OTHER = "0123abcd", "4567abcd"
NOISY = Gaussian(noise_multiplier=10.0)
LOUD = Gaussian(noise_multiplier=0.5)
STEPS = PoissonGaussian(noise_multiplier=3.0, sampling_rate=0.02, steps=200)


@pytest.fixture
def book(tmp_path):
    return Book.create(tmp_path / "a.ledger", epsilon=1.0, delta=1e-6)


def text(book):
    with open(book.path) as file:
        return file.read()


def change(book, edit):
    """Have someone edit the file by hand."""
    data = json.loads(text(book))
    edit(data)
    with open(book.path, "w") as file:
        json.dump(data, file)


# -- charging ----------------------------------------------------------------------------------------------------------


def test_what_is_granted_is_in_the_file_and_what_is_refused_is_not(book):
    book.charge(RUN, 0, [NOISY])
    assert [entry.run for entry in book.read().entries] == [RUN]
    before = text(book)
    with pytest.raises(BudgetExceeded, match="The limit is 1") as refused:
        book.charge(OTHER, 0, [LOUD])
    assert refused.value.exit_code == 3
    assert text(book) == before


def test_fits_are_granted_until_the_limit_and_no_further(book):
    for number in range(100):
        try:
            book.charge(f"{number:08x}", 0, [NOISY])
        except BudgetExceeded:
            break
    granted = len(book.read().entries)
    assert book.total() <= 1.0
    assert accountant.epsilon([NOISY] * granted, delta=1e-6) <= 1.0
    assert accountant.epsilon([NOISY] * (granted + 1), delta=0.75e-6) > 1.0


def test_the_same_stage_of_a_run_is_charged_once(book):
    for _ in range(3):
        book.charge(RUN, 0, [NOISY, STEPS])
    assert len(book.read().entries) == 1
    book.charge(RUN, 1, [NOISY])
    book.charge(OTHER, 0, [NOISY, STEPS])
    assert len(book.read().entries) == 3
    assert book.read().runs == 2


def test_other_releases_under_the_name_of_a_stage_are_refused(book):
    book.charge(RUN, 0, [NOISY])
    with pytest.raises(BookError, match="other releases for this stage"):
        book.charge(RUN, 0, [Gaussian(noise_multiplier=11.0)])


def test_what_has_no_finite_cost_is_refused(book):
    with pytest.raises(BudgetExceeded, match="no finite epsilon"):
        book.charge(RUN, 0, [NotPrivate()])


def test_room_can_be_asked_for_without_taking_it(book):
    before = text(book)
    book.require_room([NOISY], relation="add-remove")
    with pytest.raises(BudgetExceeded):
        book.require_room([LOUD])
    with pytest.raises(PrivacyParameterError, match="what they cost cannot be added"):
        book.require_room([NOISY], relation="substitute")
    assert text(book) == before


def test_one_more_fit_of_what_is_left_is_granted_and_not_much_more(book):
    book.charge(RUN, 0, [Gaussian(noise_multiplier=8.0)])
    left = book.read().largest_fit
    how = {"free": "noise_multiplier", "delta": 0.75e-6}
    book.require_room([accountant.calibrate(NOISY, epsilon=0.999 * left, **how)])
    with pytest.raises(BudgetExceeded):
        book.require_room([accountant.calibrate(NOISY, epsilon=1.01 * left, **how)])


# -- the limit ---------------------------------------------------------------------------------------------------------


def test_the_limit_is_its_owners_and_every_change_is_recorded(book):
    book.charge(RUN, 0, [Gaussian(noise_multiplier=6.0)])
    with pytest.raises(BudgetExceeded):
        book.charge(OTHER, 0, [Gaussian(noise_multiplier=4.0)])
    book.limit(epsilon=3.0)
    book.limit(delta=1e-5)
    book.charge(OTHER, 0, [Gaussian(noise_multiplier=4.0)])
    assert [(limit.epsilon, limit.delta) for limit in book.read().limits] == [(1, 1e-6), (3, 1e-6), (3, 1e-5)]


@pytest.mark.parametrize("limit", [{"epsilon": 0.5}, {"delta": 1e-9}])
def test_a_limit_below_what_is_spent_is_refused(book, limit):
    book.charge(RUN, 0, [Gaussian(noise_multiplier=5.5)])
    before = text(book)
    with pytest.raises(BudgetExceeded, match="what is spent stays spent"):
        book.limit(**limit)
    assert text(book) == before


@pytest.mark.parametrize("epsilon", [0, -1, float("inf"), float("nan"), "1", True, None])
def test_a_limit_is_a_positive_number(tmp_path, epsilon):
    with pytest.raises(PrivacyParameterError, match="positive epsilon"):
        Book.create(tmp_path / "a.ledger", epsilon=epsilon)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("delta", [0, 1e-10, 1, "1e-6"])
def test_a_limit_has_a_delta_that_can_be_divided(tmp_path, delta):
    with pytest.raises(PrivacyParameterError, match="delta"):
        Book.create(tmp_path / "a.ledger", epsilon=1.0, delta=delta)


def test_a_file_that_is_there_is_not_begun_again(book):
    with pytest.raises(BookError, match="is there already"):
        Book.create(book.path, epsilon=5.0)
    assert book.read().limit.epsilon == 1.0


# -- the file ----------------------------------------------------------------------------------------------------------


def edits():
    """What someone could do to a file by hand."""
    yield "a smaller mu", lambda data: data["entries"][0]["releases"][0].update(mu=0.01)
    yield "less slack", lambda data: data["entries"][0]["releases"][1].update(slack=1e-12)
    yield "slack where there is none", lambda data: data["entries"][0]["releases"][0].update(slack=1e-9)
    yield "a limit without its record", lambda data: data.update(epsilon=9.0)
    yield "no limit", lambda data: data.update(limits=[])
    yield "an endless limit", lambda data: (data.update(epsilon=1e999), data["limits"][0].update(epsilon=1e999))
    yield "an unknown key", lambda data: data.update(note="mine")
    yield "an unknown key of a release", lambda data: data["entries"][0]["releases"][0].update(free=True)
    yield "a missing key", lambda data: data["entries"][0].pop("when")
    yield "a newer format", lambda data: data.update(format=2)
    yield "a format that is no number", lambda data: data.update(format=True)
    yield "another relation", lambda data: data.update(relation="substitute")
    yield "no relation", lambda data: data.update(relation="none")
    yield "an unknown mechanism", lambda data: data["entries"][0]["releases"][0]["mechanism"].update(mechanism="Magic")
    yield "more noise", lambda data: data["entries"][0]["releases"][0]["mechanism"].update(noise_multiplier=99.0)
    yield "a stage twice", lambda data: data["entries"].append(copy.deepcopy(data["entries"][0]))
    yield "a stage below 0", lambda data: data["entries"][0].update(stage=-1)
    yield "no releases", lambda data: data["entries"][0].update(releases=[])
    yield "no date", lambda data: data["entries"][0].update(when="yesterday")
    yield "no run", lambda data: data["entries"][0].update(run="\x1b[31m")


@pytest.mark.parametrize("edit", [pytest.param(edit, id=name) for name, edit in edits()])
def test_a_file_that_was_changed_by_hand_is_refused_and_stays(book, edit):
    book.charge(RUN, 0, [NOISY, STEPS])
    change(book, edit)
    before = text(book)
    for use in (book.read, lambda: book.charge(OTHER, 0, [NOISY]), lambda: book.limit(epsilon=9.0)):
        with pytest.raises(BookError, match="It stays as it is"):
            use()
    assert text(book) == before


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", "null", '{"format": 1}', "\0", '{"format": 1, "format": 1}', "[" * 10**5]
)
def test_a_damaged_file_is_refused_and_stays(book, damage):
    with open(book.path, "w") as file:
        file.write(damage)
    with pytest.raises(BookError, match="is damaged"):
        book.charge(RUN, 0, [NOISY])
    assert text(book) == damage


def test_a_file_that_is_no_text_is_refused(book):
    with open(book.path, "wb") as file:
        file.write(b"\xff\xfe\x00")
    with pytest.raises(BookError, match="is damaged"):
        book.read()


def test_what_is_not_there_is_not_begun_by_a_charge(tmp_path):
    with pytest.raises(BookError, match="Begin it: twin ledger"):
        Book(tmp_path / "a.ledger").charge(RUN, 0, [NOISY])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["", "a\0b", 3, None, True])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(TableError, match="path of a file"):
        Book(path)


def test_a_file_holds_what_receipts_hold_and_reads_back_as_it_was(book):
    book.charge(RUN, 0, [NOISY, STEPS, DiscreteLaplace(scale=50.0), ApproximateDP(epsilon=0.0, delta=1e-9)])
    found = book.read()
    assert json.loads(text(book)) == found.to_json()
    assert [set(release) for release in found.to_json()["entries"][0]["releases"]] == [
        {"what", "mechanism", "mu", "slack"}
    ] * 4


@pytest.mark.skipif(locking.fcntl is None, reason="no locks here")
def test_whoever_waits_too_long_is_told_and_nothing_was_spent(book):
    hasty, before = Book(book.path, patience=0.05), text(book)
    with locking.turn(book.path, patience=1), pytest.raises(BookError, match="Nothing was spent"):
        hasty.charge(RUN, 0, [NOISY])
    assert text(book) == before
    hasty.charge(RUN, 0, [NOISY])


# -- the ledger of a fit -----------------------------------------------------------------------------------------------


def test_a_stage_is_charged_whole_when_its_first_receipt_is_redeemed(book):
    ledger = Ledger(0.5, 1e-6, book=book)
    count = ledger.spend(DiscreteLaplace(scale=100.0), "row count")
    assert book.read().entries == ()
    count.redeem(DiscreteLaplace)
    first, second = ledger.spend(NOISY, "a"), ledger.spend(Gaussian(noise_multiplier=20.0), "b")
    assert len(book.read().entries) == 1
    second.redeem(Gaussian)
    first.redeem(Gaussian)
    charged = [[release.what for release in entry.releases] for entry in book.read().entries]
    assert charged == [["row count"], ["a", "b"]]
    assert {entry.run for entry in book.read().entries} == {ledger.run}


def test_a_refused_stage_hands_out_no_key_and_can_be_charged_once_there_is_room(book):
    book.charge(RUN, 0, [Gaussian(noise_multiplier=5.5)])
    receipt = Ledger(5.0, 1e-6, book=book).spend(Gaussian(noise_multiplier=2.0), "a")
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match=r"a\.ledger"):
            receipt.redeem(Gaussian)
    book.limit(epsilon=9.0)
    assert receipt.redeem(Gaussian).noise is not None


def test_a_resumed_ledger_is_charged_for_nothing_twice_and_for_all_that_is_not_held(book):
    first = Ledger(0.8, 1e-6, book=book)
    first.spend(DiscreteLaplace(scale=100.0), "row count").redeem(DiscreteLaplace)
    first.spend(NOISY, "a")  # and here it was killed
    again = {"used": {"row count"}, "steps": {}, "run": first.run, "book": book}
    for _ in range(2):
        resumed = Ledger.resumed(first.statement().to_json(), **again)
        assert [(entry.run, entry.stage) for entry in book.read().entries] == [(first.run, 0), (first.run, 1)]
    resumed.receipts[1].redeem(Gaussian)
    assert len(book.read().entries) == 2


def test_a_seed_and_a_ledger_file_exclude_each_other(book):
    with pytest.raises(PrivacyParameterError, match="can be subtracted by anyone"):
        Ledger(1.0, 1e-6, insecure_seed=1, book=book)


def test_what_samplers_may_err_by_is_what_the_book_counts(book):
    receipt = Ledger(0.5, 1e-3, book=book).spend(STEPS, "DPSVI")
    assert receipt.sampling_allowance == 1e-13
    assert Ledger(0.5, 1e-3).spend(STEPS, "DPSVI").sampling_allowance > 1e-13
    book.charge(RUN, 0, [STEPS])
    assert book.read().slack > book.read().slack_of_sampled()


def test_a_book_keeps_its_relation(tmp_path):
    made = Book.create(tmp_path / "a.ledger", epsilon=1.0, relation="substitute")
    assert made.read().relation is Relation.SUBSTITUTE
    with pytest.raises(PrivacyParameterError, match="no theorem"):
        made.charge(RUN, 0, [STEPS])


def test_a_release_under_another_relation_is_refused_by_the_book_itself(book):
    receipt = Ledger(0.5, 1e-6, relation="substitute", book=book).spend(NOISY, "a")
    with pytest.raises(PrivacyParameterError, match="under the relation 'add-remove', and this is under 'substitute'"):
        receipt.redeem(Gaussian)
    assert book.read().entries == ()


def test_a_second_name_of_the_file_is_refused(book, tmp_path):
    os.link(book.path, tmp_path / "b.ledger")
    with pytest.raises(BookError, match="several names"):
        book.charge(RUN, 0, [NOISY])
    os.unlink(tmp_path / "b.ledger")
    book.charge(RUN, 0, [NOISY])


def test_sampled_fits_never_run_out_of_delta_before_epsilon(tmp_path):
    made = Book.create(tmp_path / "many.ledger", epsilon=9.0, delta=1e-6)
    small = PoissonGaussian(noise_multiplier=4.0, sampling_rate=0.01, steps=50)
    for number in range(30):
        made.charge(f"{number:08x}", 0, [small])
    found = made.read()
    slacks = [release.cost.slack for entry in found.entries for release in entry.releases]
    assert slacks[:6] == [2e-8] * 5 + [1e-8]
    assert found.slack < found.slack_limit
    assert found.mu == pytest.approx(math.sqrt(sum(r.cost.mu**2 for e in found.entries for r in e.releases)))
    assert found.epsilon <= 1.3 * accountant.epsilon([small] * 30, delta=1e-6)


def test_a_sampled_fit_is_priced_however_many_there_were(tmp_path):
    made = Book.create(tmp_path / "very_many.ledger", epsilon=9.0, delta=1e-6)
    small = PoissonGaussian(noise_multiplier=40.0, sampling_rate=0.01, steps=1)
    made.charge("0" * 8, 0, [small])
    found = made.read()
    entries = tuple(dataclasses.replace(found.entries[0], run=f"{number:08x}") for number in range(1000))
    crowded = dataclasses.replace(found, entries=entries)
    slack = crowded.slack_of_sampled()
    assert slack > SAMPLING_SLACK
    assert dominate(small, Relation.ADD_REMOVE, slack).mu < 0.1


@pytest.mark.parametrize("way", ["removed", "emptied"])
def test_what_was_run_is_in_the_file_when_a_fit_ends_or_the_twin_is_not_there(tmp_path, way):
    path = tmp_path / "a.ledger"
    Book.create(path, epsilon=3.0)
    empty = path.read_bytes()

    def take_away(what, *_):
        if what == "fitting":
            path.unlink(missing_ok=True)
            if way == "emptied":
                path.write_bytes(empty)

    asked = {"epsilon": 1.0, "ledger": path, "checkpoint": tmp_path / "checkpoint", "progress": take_away}
    rows = demo.hospital(300)[["age", "sex"]]
    if way == "removed":
        with pytest.raises(BookError, match="There is no ledger file"):
            tw.fit(rows, **asked)
        assert (tmp_path / "checkpoint").exists()
        Book.create(path, epsilon=3.0)
        tw.fit(rows, **{**asked, "progress": None}, resume=True)
    else:
        tw.fit(rows, **asked)
    assert [entry.stage for entry in Book(path).read().entries] == [0, 1]

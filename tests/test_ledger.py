"""The ledger: it refuses, it adds up soundly, and nothing runs without a receipt."""

import fractions
import json
import math
import threading

import jax
import numpy as np
import pytest

from twinify_lite import accountant
from twinify_lite.accountant import (
    ApproximateDP,
    DiscreteLaplace,
    FixedSizeGaussian,
    Gaussian,
    Laplace,
    NotPrivate,
    PoissonGaussian,
)
from twinify_lite.dpsvi.plan import approximate_sigma
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError, ReceiptError
from twinify_lite.ledger import Ledger
from twinify_lite.receipt import Receipt

STEPS = PoissonGaussian(noise_multiplier=3.0, sampling_rate=0.02, steps=200)
ANY = (PoissonGaussian, Gaussian, DiscreteLaplace, FixedSizeGaussian, NotPrivate, ApproximateDP)


def test_spending_within_the_budget_gives_a_receipt_and_past_it_records_nothing():
    ledger = Ledger(0.5, 1e-6)
    first = ledger.spend(STEPS, "first")
    before = ledger.spent
    with pytest.raises(BudgetExceeded, match="'second' would bring epsilon to") as refused:
        ledger.spend(PoissonGaussian(noise_multiplier=0.5, sampling_rate=0.02, steps=200), "second")
    assert refused.value.exit_code == 3
    assert ledger.spent == before
    assert ledger.receipts == (first,)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, fractions.Fraction])
def test_a_budget_is_any_real_number(kind):
    ledger = Ledger(kind(1), np.float64(1e-6))
    assert (type(ledger.epsilon), ledger.epsilon, ledger.delta) == (float, 1.0, 1e-6)


@pytest.mark.parametrize("epsilon", [True, np.True_, "1", None, math.nan, np.float32("nan"), 0, -1.0, 1j])
def test_what_is_no_positive_number_is_no_budget(epsilon):
    with pytest.raises(PrivacyParameterError, match="epsilon must be a positive number"):
        Ledger(epsilon)


def test_mechanisms_of_one_stage_compose_by_their_privacy_loss_not_by_adding_epsilons():
    ledger = Ledger(3.0, 1e-6)
    receipts = [ledger.spend(STEPS, "a"), ledger.spend(Gaussian(noise_multiplier=5.0), "b")]
    assert ledger.spent[0] == pytest.approx(accountant.epsilon([r.mechanism for r in receipts], delta=1e-6))
    assert ledger.spent[0] < 0.95 * sum(r.epsilon for r in receipts)


def test_a_stage_is_sealed_by_its_first_answer_and_stages_add_up():
    ledger = Ledger(2.0, 1e-6)
    ledger.spend(DiscreteLaplace(scale=10.0), "row count").redeem(DiscreteLaplace)
    receipt = ledger.spend(STEPS, "DPSVI")
    assert receipt.stage == 1
    assert ledger.spent[0] == pytest.approx(0.1 + accountant.epsilon(STEPS, delta=1e-6))
    assert ledger.spent[1] == 1e-6


def test_a_stage_that_fits_alone_is_refused_beside_what_earlier_ones_cost():
    ledger = Ledger(1.0, 1e-6)
    ledger.spend(DiscreteLaplace(scale=2.0), "row count").redeem(DiscreteLaplace)
    with pytest.raises(BudgetExceeded, match=r"would bring epsilon to 1\.1"):
        ledger.spend(DiscreteLaplace(scale=1 / 0.6), "again")
    assert ledger.spent == (0.5, 0.0)


def test_mechanisms_spent_before_the_first_answer_share_a_stage_even_if_run_later():
    ledger = Ledger(2.0, 1e-6)
    first, second = ledger.spend(STEPS, "a"), ledger.spend(Gaussian(noise_multiplier=5.0), "b")
    first.redeem(PoissonGaussian)
    second.redeem(Gaussian)
    assert {first.stage, second.stage} == {0}


def test_a_second_approximate_stage_needs_a_share_of_delta():
    ledger = Ledger(5.0, 1e-6)
    ledger.spend(STEPS, "a").redeem(PoissonGaussian)
    with pytest.raises(BudgetExceeded, match="open_stage"):
        ledger.spend(Gaussian(noise_multiplier=5.0), "b")
    split = Ledger(5.0, 1e-6)
    split.open_stage(delta=4e-7)
    split.spend(STEPS, "a").redeem(PoissonGaussian)
    split.spend(Gaussian(noise_multiplier=5.0), "b")
    assert split.spent[0] == pytest.approx(
        accountant.epsilon(STEPS, delta=4e-7) + accountant.epsilon(Gaussian(noise_multiplier=5.0), delta=6e-7)
    )
    assert split.spent[1] == pytest.approx(1e-6)
    with pytest.raises(BudgetExceeded, match="delta"):
        split.open_stage(delta=1e-6)


def test_calibrate_uses_what_is_left_and_the_result_is_affordable():
    ledger = Ledger(1.0, 1e-6)
    ledger.spend(DiscreteLaplace(scale=20.0), "row count").redeem(DiscreteLaplace)
    mechanism = ledger.calibrate(PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.02, steps=500))
    ledger.spend(mechanism, "DPSVI")
    assert 0.99 <= ledger.spent[0] <= 1.0
    with pytest.raises(BudgetExceeded):
        ledger.spend(Gaussian(noise_multiplier=20.0), "more")


def test_calibrate_can_keep_a_share_for_a_mechanism_of_the_same_stage():
    ledger = Ledger(1.0, 1e-6)
    marginals = Gaussian(noise_multiplier=8.0)
    steps = ledger.calibrate(PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.02, steps=500), beside=(marginals,))
    ledger.spend(steps, "DPSVI")
    ledger.spend(marginals, "marginals")
    assert 0.99 <= ledger.spent[0] <= 1.0


def test_receipts_run_their_own_mechanism_once():
    ledger = Ledger(1.0, 1e-6)
    receipt = ledger.spend(STEPS, "DPSVI")
    with pytest.raises(ReceiptError, match="pays for PoissonGaussian"):
        receipt.redeem(Gaussian)
    receipt.redeem(PoissonGaussian)
    with pytest.raises(ReceiptError, match="has been used"):
        receipt.redeem(PoissonGaussian)


def test_a_receipt_that_no_ledger_made_is_refused():
    ledger = Ledger(1.0, 1e-6)
    forged = Receipt(
        what="x",
        mechanism=STEPS,
        relation=ledger.relation,
        stage=0,
        epsilon=0.0,
        delta=0.0,
        crosscheck=None,
        _ledger=ledger,
    )
    with pytest.raises(ReceiptError, match="not made by this ledger"):
        forged.redeem(PoissonGaussian)


def test_a_sampler_without_a_theorem_for_the_relation_cannot_be_paid_for():
    with pytest.raises(PrivacyParameterError, match="relation"):
        Ledger(1.0, 1e-6, relation="substitute").spend(STEPS, "DPSVI")
    with pytest.raises(PrivacyParameterError, match="relation"):
        Ledger(1.0, 1e-6).spend(FixedSizeGaussian(noise_multiplier=30.0, sampling_rate=0.01, steps=10), "DPSVI")


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), "1"])
def test_epsilon_must_be_a_positive_number(epsilon):
    with pytest.raises(PrivacyParameterError, match="epsilon"):
        Ledger(epsilon)


@pytest.mark.parametrize("delta", [0.0, 1e-11, 1.0, 2.0, -1e-6, float("nan")])
def test_delta_must_be_one_that_the_accountant_can_bound(delta):
    with pytest.raises(PrivacyParameterError, match="delta"):
        Ledger(1.0, delta)


def test_the_statement_says_everything_in_words_and_as_json():
    ledger = Ledger(1.0, 1e-6)
    ledger.spend(DiscreteLaplace(scale=20.0), "row count").redeem(DiscreteLaplace)
    ledger.spend(ledger.calibrate(STEPS), "DPSVI")
    words = str(ledger.statement())
    for part in (
        "(1, 1e-06)",
        "adding or removing one row",
        "row count",
        "DPSVI",
        "cross-check",
        "Public:",
        "dp-accounting",
    ):
        assert part in words
    data = json.loads(json.dumps(ledger.statement().to_json()))
    assert data["private"] is True
    assert data["relation"] == "add-remove"
    assert [r["what"] for stage in data["stages"] for r in stage["receipts"]] == ["row count", "DPSVI"]
    assert data["spent"]["epsilon"] <= 1.0


def test_the_row_count_is_public_only_where_a_row_is_replaced():
    for relation, is_public in (("add-remove", False), ("substitute", True)):
        statement = Ledger(1.0, 1e-6, relation=relation).statement().to_json()
        assert ("the number of rows" in statement["public"]) is is_public
        assert ("the number of rows" in statement["not_public"]) is not is_public


def test_epsilon_can_be_recomputed_from_the_statement_alone():
    ledger = Ledger(1.0, 1e-6)
    ledger.spend(DiscreteLaplace(scale=20.0), "row count").redeem(DiscreteLaplace)
    ledger.spend(ledger.calibrate(STEPS), "DPSVI")
    total = 0.0
    for stage in ledger.statement().to_json()["stages"]:
        mechanisms = [accountant.mechanism_from_json(receipt["mechanism"]) for receipt in stage["receipts"]]
        pure = [m.pure_epsilon for m in mechanisms]
        total += sum(pure) if None not in pure else accountant.epsilon(mechanisms, delta=stage["delta"])
    assert total == pytest.approx(ledger.spent[0])


def test_a_seed_or_a_missing_limit_marks_the_statement_not_private():
    seeded = Ledger(1.0, 1e-6, insecure_seed=3)
    assert "NOT PRIVATE" in str(seeded.statement())
    assert seeded.statement().to_json()["private"] is False
    free = Ledger.without_privacy()
    free.spend(NotPrivate(), "comparison")
    assert "NOT PRIVATE" in str(free.statement())
    assert json.loads(json.dumps(free.statement().to_json()))["spent"]["epsilon"] == "inf"
    with pytest.raises(BudgetExceeded, match="NotPrivate"):
        Ledger(1.0).spend(NotPrivate(), "comparison")


def test_secret_keys_are_fresh_unless_seeded_and_are_not_shown():
    def secrets(**how):
        return Ledger(1.0, 1e-6, **how).spend(STEPS, "x").redeem(PoissonGaussian)

    words = lambda s: jax.random.key_data(s.noise).tolist() + jax.random.key_data(s.rows).tolist()  # noqa: E731
    assert words(secrets()) != words(secrets())
    assert words(secrets(insecure_seed=1)) == words(secrets(insecure_seed=1))
    assert words(secrets(insecure_seed=1)) != words(secrets(insecure_seed=2))
    assert repr(secrets()) == "Secrets(<hidden>)"


@pytest.mark.parametrize("seed", [None, 1])
def test_no_two_keys_of_a_ledger_are_the_same(seed):
    """Two releases with one noise differ by exact sums, and rows that follow from the noise are no secret."""
    ledger = Ledger(1.0, 1e-6, insecure_seed=seed)
    drawn = [ledger.spend(Gaussian(noise_multiplier=20.0), what) for what in "abc"]
    keys = [key for receipt in drawn for key in receipt.redeem(Gaussian)]
    assert len({jax.random.key_data(key).tobytes() for key in keys}) == 6


def test_racing_threads_never_overspend():
    ledger = Ledger(1.0, 1e-6)
    half = ledger.calibrate(STEPS, share=0.4)
    refused = []

    def spend():
        try:
            ledger.spend(half, "share")
        except BudgetExceeded:
            refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spent[0] <= 1.0
    assert len(refused) + len(ledger.receipts) == 6
    assert refused


def test_approximate_sigma_is_sound_for_the_sampler_it_names():
    for sampler, kind in (("fixed", FixedSizeGaussian), ("poisson", PoissonGaussian)):
        scale, epsilon, ledger = approximate_sigma(1.0, 1e-5, 0.01, 1000, sampler=sampler)
        mechanism = kind(noise_multiplier=float(scale), sampling_rate=0.01, steps=1000)
        assert scale.receipt.mechanism == mechanism
        assert 0.99 <= epsilon <= 1.0
        assert accountant.epsilon(mechanism, delta=1e-5, relation=ledger.relation) == pytest.approx(epsilon)
    assert isinstance(scale, float)
    with pytest.raises(PrivacyParameterError, match="sampler"):
        approximate_sigma(1.0, 1e-5, 0.01, 1000, sampler="shuffle")


def test_what_samplers_may_miss_is_weighed_by_epsilon_and_shared():
    """A total variation distance of t costs (1 + e^epsilon) t of delta."""
    allowances = []
    for epsilon, number in ((1.0, 1), (8.0, 1), (8.0, 2)):
        ledger = Ledger(epsilon, 1e-6)
        plan = PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.1, steps=100)
        fit = ledger.calibrate(plan, share=0.9)
        receipts = [ledger.spend(fit, "x")]
        for _ in range(number - 1):
            receipts.append(ledger.spend(Gaussian(noise_multiplier=1e4), "y"))
        receipts[0].redeem(PoissonGaussian)
        spent = ledger.spent[0]
        allowances.append(receipts[0].sampling_allowance * (1 + math.exp(spent)) * number)
    assert allowances == pytest.approx([1e-9] * 3)


@pytest.mark.parametrize("releases", [1, 100])
def test_pure_mechanisms_are_calibrated_to_what_they_cost(releases):
    """A stage of them takes no delta and costs the sum of their epsilons, so that is what noise is found for."""
    ledger = Ledger(1.0, 1e-6)
    ledger.spend(DiscreteLaplace(scale=20.0), "row count").redeem(DiscreteLaplace)
    found = ledger.calibrate(Laplace(scale=1.0, releases=releases), free="scale")
    assert found.scale == pytest.approx(releases / 0.95, rel=1e-3)
    ledger.spend(found, "bounds")
    assert ledger.spent == (pytest.approx(1.0, rel=1e-3), 0.0)


def test_a_pure_mechanism_can_be_calibrated_when_all_delta_is_spent():
    ledger = Ledger(1.0, 1e-6)
    fit = ledger.calibrate(PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.1, steps=100), share=0.5)
    ledger.spend(fit, "fit").redeem(PoissonGaussian)
    left = 1.0 - ledger.spent[0]
    assert ledger.calibrate(Laplace(scale=1.0), free="scale").scale == pytest.approx(1 / left, rel=1e-3)

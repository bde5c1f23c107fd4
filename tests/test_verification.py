"""A statement is recomputed from its receipts: the honest one holds, and every lie is named."""

import copy
import json
import math
import re

import pytest

from twinify_lite import DiscreteLaplace, Gaussian, Ledger, NotPrivate, PoissonGaussian
from twinify_lite.errors import ArtifactError
from twinify_lite.verification import verify


def plain(ledger):
    """As it comes back from a file."""
    return json.loads(json.dumps(ledger.statement().to_json()))


def ledger(**options):
    made = Ledger(1.0, 1e-6, **options)
    made.spend(DiscreteLaplace(scale=50.0), "row count").redeem(DiscreteLaplace)
    made.open_stage(delta=2.5e-7)
    made.spend(Gaussian(noise_multiplier=80.0), "values").redeem(Gaussian)
    made.spend(PoissonGaussian(noise_multiplier=3.1, sampling_rate=0.02, steps=1000), "DPSVI")
    return made


@pytest.fixture(scope="module")
def honest():
    return plain(ledger())


def test_an_honest_statement_holds_and_says_what_was_recomputed(honest):
    result = verify(honest)
    assert result.private
    assert (result.epsilon, result.delta, result.receipts, result.crosschecked) == (1.0, 1e-6, 3, 1)
    assert result.recomputed == pytest.approx(honest["spent"]["epsilon"], rel=1e-9)
    assert "The statement holds: epsilon 1 at delta 1e-06" in str(result)
    assert (result.stages, result.by_reference, result.subsampled) == (3, 2, 1)
    said = str(result).splitlines()[2:]
    assert said[0].endswith(": every receipt and every stage.")
    assert re.fullmatch(r"  dp-accounting [\d.]+: 2 of 3 stages; the others are sums, or beyond .*", said[1])
    assert re.fullmatch(r"  fourier-accountant [\d.]+: 1 of 1 receipts for a subsampled Gaussian, .*", said[2])
    assert json.loads(json.dumps(result.to_json()))["private"] is True


def test_what_no_accountant_but_ours_knows_is_not_said_to_be_checked_by_others():
    made = Ledger(1.0, 1e-6)
    made.spend(DiscreteLaplace(scale=50.0), "row count").redeem(DiscreteLaplace)
    made.spend(Gaussian(noise_multiplier=10.0), "single columns")
    result = verify(plain(made))
    assert (result.by_reference, result.subsampled, result.crosschecked) == (1, 0, 0)
    assert "nothing, as it knows subsampled Gaussians only, and there is none." in str(result)
    assert "fourier-accountant" not in str(made.statement())


def test_a_statement_under_substitution_holds():
    made = Ledger(1.0, relation="substitute")
    made.spend(Gaussian(noise_multiplier=10.0, releases=3), "marginals")
    assert verify(plain(made)).relation == "substitute"


def test_a_pure_stage_with_a_delta_of_its_own_holds():
    made = Ledger(1.0, 1e-6)
    made.open_stage(delta=1e-7)
    made.spend(DiscreteLaplace(scale=50.0), "row count").redeem(DiscreteLaplace)
    made.spend(made.calibrate(Gaussian(noise_multiplier=1.0)), "values")
    assert verify(plain(made)).private


def test_a_cross_check_is_refused_where_there_can_be_none():
    made = Ledger(1.0, 1e-6)
    made.spend(PoissonGaussian(noise_multiplier=100.0, sampling_rate=1.0, steps=10), "DPSVI")
    statement = plain(made)
    assert verify(statement).crosschecked == 0
    statement["stages"][0]["receipts"][0]["crosscheck"] = statement["stages"][0]["receipts"][0]["epsilon"]
    with pytest.raises(ArtifactError, match="fourier-accountant has no figure for it"):
        verify(statement)


def test_the_tolerance_counts_once(honest):
    statement = copy.deepcopy(honest)
    statement["spent"]["epsilon"] *= 0.9991
    statement["epsilon"] = statement["spent"]["epsilon"]
    assert verify(statement).private
    statement["epsilon"] *= 0.9991
    with pytest.raises(ArtifactError, match="The budget: epsilon"):
        verify(statement)


def test_a_statement_that_says_not_private_is_read_as_such():
    seeded = verify(plain(ledger(insecure_seed=1)))
    assert not seeded.private
    assert "seed" in str(seeded)
    assert str(seeded).startswith("NOT PRIVATE")
    endless = Ledger.without_privacy()
    endless.spend(NotPrivate(), "comparison")
    found = verify(plain(endless))
    assert (found.private, found.recomputed) == (False, math.inf)
    assert json.dumps(found.to_json(), allow_nan=False)


def stage(statement, number=2):
    return statement["stages"][number]


def receipt(statement, number=2):
    return stage(statement, number)["receipts"][0]


LIES = {
    "a smaller budget": (lambda s: s.update(epsilon=0.5), "The budget: epsilon 0.5 is claimed"),
    "a smaller delta": (lambda s: s.update(delta=1e-8), "delta 1e-08 is claimed"),
    "less spent": (lambda s: s["spent"].update(epsilon=0.2), "In total"),
    "less delta spent": (lambda s: s["spent"].update(delta=0.0), "In total: delta"),
    "a cheaper stage": (lambda s: stage(s).update(epsilon=0.1), "Stage 3"),
    "a cheaper receipt": (lambda s: receipt(s).update(epsilon=0.1), "The receipt 'DPSVI'"),
    "another cross-check": (lambda s: receipt(s).update(crosscheck=0.1), "the cross-check finds"),
    "a cross-check of what has none": (lambda s: receipt(s, 1).update(crosscheck=0.1), "there is none for such"),
    "more steps than paid for": (lambda s: receipt(s)["mechanism"].update(steps=9000), "Stage 3"),
    "less noise than paid for": (lambda s: receipt(s, 1)["mechanism"].update(noise_multiplier=1.0), "Stage 2"),
    "a missing stage": (lambda s: s["stages"].pop(), "some are missing"),
    "a missing receipt": (lambda s: stage(s)["receipts"].clear(), "receipts are missing"),
    "no stage at all": (lambda s: s["stages"].clear(), "receipts are missing"),
    "a receipt of another stage": (lambda s: receipt(s).update(stage=0), "belongs to another stage"),
    "no noise, and private": (lambda s: receipt(s).update(mechanism={"mechanism": "NotPrivate"}), "Stage 3"),
    "a reason why not, and private": (lambda s: s.update(why_not="a seed"), "claims to be private"),
    "no limit, and private": (lambda s: s.update(epsilon="inf"), "claims to be private"),
    "a receipt at another delta": (lambda s: receipt(s).update(delta=0.5), "'DPSVI' is quoted at delta 0.5"),
    "a pure one at more delta than there is": (lambda s: receipt(s, 0).update(delta=0.5), "is quoted at delta 0.5"),
    "a stage without delta": (lambda s: stage(s).update(delta=0.0), "Stage 3"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_and_named(honest, lie):
    change, said = LIES[lie]
    statement = copy.deepcopy(honest)
    change(statement)
    with pytest.raises(ArtifactError, match="does not hold") as caught:
        verify(statement)
    assert said in str(caught.value)


NONSENSE = {
    "an unknown mechanism": lambda s: receipt(s)["mechanism"].update(mechanism="Magic"),
    "a field too many": lambda s: receipt(s)["mechanism"].update(luck=7),
    "no mechanism": lambda s: receipt(s).pop("mechanism"),
    "a mechanism that is text": lambda s: receipt(s).update(mechanism="Gaussian"),
    "no stages": lambda s: s.pop("stages"),
    "stages that are text": lambda s: s.update(stages="none"),
    "a stage that is a number": lambda s: s["stages"].append(1),
    "an epsilon of text": lambda s: s.update(epsilon="one"),
    "a negative epsilon": lambda s: s.update(epsilon=-1),
    "an epsilon that is true": lambda s: s.update(epsilon=True),
    "another relation": lambda s: s.update(relation="twins"),
    "less noise than any fit": lambda s: receipt(s)["mechanism"].update(noise_multiplier=1e-300),
    "a rate below any fit's": lambda s: receipt(s)["mechanism"].update(sampling_rate=1e-300),
    "more steps than any fit": lambda s: receipt(s)["mechanism"].update(steps=10**15),
    "more receipts than any fit": lambda s: stage(s)["receipts"].extend([receipt(s)] * 1001),
    "nothing spent": lambda s: s.pop("spent"),
    "no mark": lambda s: s.pop("private"),
    "an odd mark": lambda s: s.update(private=None),
}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_what_cannot_be_judged_is_refused(honest, nonsense):
    statement = copy.deepcopy(honest)
    NONSENSE[nonsense](statement)
    with pytest.raises(ArtifactError, match="The privacy statement"):
        verify(statement)


@pytest.mark.parametrize("statement", [[], None, "private", 1, {}])
def test_what_is_no_statement_is_refused(statement):
    with pytest.raises(ArtifactError):
        verify(statement)


def test_a_mechanism_without_a_theorem_for_the_relation_is_refused(honest):
    statement = copy.deepcopy(honest)
    statement["relation"] = "substitute"
    with pytest.raises(ArtifactError, match="no theorem"):
        verify(statement)

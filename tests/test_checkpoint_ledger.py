"""A ledger that goes on from its statement, and a declared model that goes on from its last step."""

import copy
import json

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import artifact
from twinify_lite.accountant import DiscreteLaplace, Gaussian, PoissonGaussian
from twinify_lite.checkpoint import Checkpoint
from twinify_lite.errors import BudgetExceeded, ReceiptError
from twinify_lite.ledger import Ledger
from twinify_lite.receipt import Receipt
from twinify_lite.schema import Column, Schema

# -- the ledger --------------------------------------------------------------------------------------------------------


def statement_of(**options):
    made = Ledger(2.0, 1e-6, **options)
    made.treat_as_public("the weather")
    made.spend(DiscreteLaplace(scale=50.0), "row count").redeem(DiscreteLaplace)
    made.spend(Gaussian(noise_multiplier=9.0), "single columns")
    made.spend(PoissonGaussian(noise_multiplier=3.0, sampling_rate=0.02, steps=100), "DPSVI")
    return made, json.loads(json.dumps(made.statement().to_json()))


@pytest.fixture(scope="module")
def statement():
    return statement_of()[1]


def resumed(statement, used=("row count",), steps=(), **options):
    return Ledger.resumed(statement, used=set(used), steps=dict(steps), **options)


def test_a_resumed_ledger_says_what_the_first_one_said(statement):
    ledger = resumed(statement)
    assert json.loads(json.dumps(ledger.statement().to_json())) == statement
    assert ledger.spent[0] == pytest.approx(statement["spent"]["epsilon"], rel=1e-12)


def test_what_was_used_cannot_run_and_the_rest_runs_once(statement):
    count, single, _ = resumed(statement).receipts
    with pytest.raises(ReceiptError, match="has been used"):
        count.redeem(DiscreteLaplace)
    single.redeem(Gaussian)
    with pytest.raises(ReceiptError, match="has been used"):
        single.redeem(Gaussian)


def test_steps_go_on_where_they_were(statement):
    steps = resumed(statement, steps={"DPSVI": 30}).receipts[2]
    with pytest.raises(ReceiptError, match="not the next one: 30 have been run"):
        steps.claim(0, 10)
    with pytest.raises(ReceiptError, match="not the next one"):
        steps.claim(31, 1)
    steps.claim(30, 70)
    with pytest.raises(BudgetExceeded, match="pays for 100 steps"):
        steps.claim(100, 1)


def test_stages_are_sealed_and_nothing_more_fits_in(statement):
    ledger = resumed(statement)
    with pytest.raises(BudgetExceeded):
        ledger.spend(Gaussian(noise_multiplier=50.0), "more")
    assert len(ledger.receipts) == 3


def test_keys_are_new_and_not_those_of_the_first_run(statement):
    keys = [resumed(statement).receipts[1].redeem(Gaussian).noise for _ in range(2)]
    assert (keys[0] != keys[1]).all()


def receipt(statement, number=0):
    return statement["stages"][1]["receipts"][number]


UNSOUND = {
    "no epsilon": lambda s: s.pop("epsilon"),
    "no delta": lambda s: s.pop("delta"),
    "no relation": lambda s: s.pop("relation"),
    "no stages": lambda s: s.pop("stages"),
    "nothing treated as public": lambda s: s.pop("treated_as_public"),
    "stages that are none": lambda s: s.update(stages=3),
    "a stage that is none": lambda s: s["stages"].append(7),
    "a stage without receipts": lambda s: s["stages"][1].pop("receipts"),
    "a stage without delta": lambda s: s["stages"][1].pop("delta"),
    "an unknown relation": lambda s: s.update(relation="swap"),
    "epsilon in words": lambda s: s.update(epsilon="small"),
    "epsilon of nothing": lambda s: s.update(epsilon=0),
    "delta beyond one": lambda s: s.update(delta=2.0),
    "an unknown mechanism": lambda s: receipt(s)["mechanism"].update(mechanism="Hope"),
    "a mechanism without noise": lambda s: receipt(s)["mechanism"].pop("noise_multiplier"),
    "noise of nothing": lambda s: receipt(s)["mechanism"].update(noise_multiplier=0),
    "noise in words": lambda s: receipt(s)["mechanism"].update(noise_multiplier="much"),
    "a mechanism that is none": lambda s: receipt(s).update(mechanism=None),
    "a receipt for nothing": lambda s: receipt(s).pop("what"),
    "a receipt without epsilon": lambda s: receipt(s).pop("epsilon"),
}


@pytest.mark.parametrize("change", UNSOUND.values(), ids=UNSOUND)
def test_an_unsound_statement_is_refused(statement, change):
    changed = copy.deepcopy(statement)
    change(changed)
    with pytest.raises(ReceiptError, match="no sound statement"):
        resumed(changed)


EXCEEDED = {
    "a smaller epsilon": lambda s: s.update(epsilon=0.1),
    "a smaller delta": lambda s: s.update(delta=1e-8),
    "less noise": lambda s: receipt(s)["mechanism"].update(noise_multiplier=0.5),
    "more steps": lambda s: receipt(s, 1)["mechanism"].update(steps=10**6),
    "one more receipt": lambda s: s["stages"][1]["receipts"].append(
        {**receipt(s), "mechanism": {"mechanism": "Gaussian", "noise_multiplier": 0.7, "releases": 1}}
    ),
    "no privacy at all": lambda s: receipt(s).update(mechanism={"mechanism": "NotPrivate"}),
}


@pytest.mark.parametrize("change", EXCEEDED.values(), ids=EXCEEDED)
def test_receipts_that_exceed_the_budget_are_refused(statement, change):
    changed = copy.deepcopy(statement)
    change(changed)
    with pytest.raises(BudgetExceeded):
        resumed(changed)


@pytest.mark.parametrize("steps", [-5, 101, 2.5])
def test_steps_that_cannot_have_been_run_are_refused(statement, steps):
    """A negative number of steps done would let more steps run than were paid for."""
    with pytest.raises(ReceiptError):
        resumed(statement, steps={"DPSVI": steps})


def test_a_run_with_a_seed_does_not_become_private():
    seeded = statement_of(insecure_seed=3)[1]
    try:
        ledger = resumed(seeded)
    except ReceiptError:
        return
    assert not ledger.is_private


# -- a declared model --------------------------------------------------------------------------------------------------

SCHEMA = Schema([Column(name="y", kind="category", levels=("u", "v"), nullable=False)])
STEPS = 25
OPTIONS = {"steps": STEPS, "sampling_rate": 0.3, "clip_norm": 1.0}
FIT = {"epsilon": 3.0, "model": "independent", "schema": SCHEMA, "options": OPTIONS}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"y": rng.choice(["u", "v"], 300)})


@pytest.fixture
def claims(monkeypatch):
    found, claim = [], Receipt.claim
    monkeypatch.setattr(Receipt, "claim", lambda self, *steps: found.append(steps) or claim(self, *steps))
    return found


def stopping_at(step):
    def progress(what, done, _total):
        if what == "fitting" and done >= step:
            raise KeyboardInterrupt

    return progress


def steps_of(claims):
    return [step for first, number in claims for step in range(first, first + number)]


@pytest.fixture(scope="module")
def stopped(people, tmp_path_factory):
    """A fit that was stopped after ten of its steps: the bytes of its checkpoint."""
    path = tmp_path_factory.mktemp("stopped") / "checkpoint"
    with pytest.raises(KeyboardInterrupt) as error:
        tw.fit(people, checkpoint=path, progress=stopping_at(10), **FIT)
    assert error.value.spent.startswith("Spent before this")
    return path.read_bytes()


@pytest.fixture
def path(stopped, tmp_path):
    (tmp_path / "checkpoint").write_bytes(stopped)
    return tmp_path / "checkpoint"


def test_a_declared_model_goes_on_at_its_next_step_and_runs_none_twice(people, path, claims):
    kept = Checkpoint.read(path)
    assert int(kept.load()["step"]) == 10
    twin = tw.fit(people, checkpoint=path, resume=True, **FIT)
    assert steps_of(claims) == list(range(10, STEPS))
    assert json.loads(json.dumps(twin.statement)) == kept.statement
    assert int(Checkpoint.read(path).load()["step"]) == STEPS
    assert len(twin.sample(50, seed=0)) == 50


@pytest.mark.slow
def test_a_finished_fit_runs_no_step_again(people, path, claims):
    tw.fit(people, checkpoint=path, resume=True, **FIT)
    done = list(claims)
    tw.fit(people, checkpoint=path, resume=True, **FIT)
    assert claims == done


@pytest.mark.slow
def test_a_declared_model_can_be_stopped_again(people, path, claims):
    with pytest.raises(KeyboardInterrupt):
        tw.fit(people, checkpoint=path, resume=True, progress=stopping_at(15), **FIT)
    tw.fit(people, checkpoint=path, resume=True, **FIT)
    assert steps_of(claims) == list(range(10, STEPS))


def test_other_options_of_a_declared_model_cannot_go_on(people, path, claims):
    for options in ({**OPTIONS, "steps": 2 * STEPS}, {"steps": STEPS}):
        with pytest.raises(ReceiptError, match="other arguments"):
            tw.fit(people, checkpoint=path, resume=True, **{**FIT, "options": options})
    assert claims == []


def test_the_checkpoint_of_a_declared_model_holds_its_state_alone(path):
    found = [name for name in artifact.read(path) if name.startswith("arrays/")]
    assert {"arrays/step.npy", "arrays/clip_norm.npy"} < set(found)
    assert all(name.startswith("arrays/leaf_") for name in set(found) - {"arrays/step.npy", "arrays/clip_norm.npy"})

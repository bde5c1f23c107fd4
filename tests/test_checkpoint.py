"""An interrupted fit goes on where it was: nothing that is saved runs again, and nothing is paid twice."""

import json

import jax
import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import artifact, fitting
from twinify_lite.auto import tables
from twinify_lite.checkpoint import Checkpoint
from twinify_lite.errors import ArtifactError, ReceiptError
from twinify_lite.ledger import Ledger
from twinify_lite.schema import Column, Schema

# Five columns of 400 rows: pairs are chosen, so that every release of the automatic model is made.
ROWS, FIT = 400, {"epsilon": 2.0, "options": {"particles": 512}}
COLUMNS = (
    Column(name="a", kind="integer", min=0, max=5, nullable=False),
    Column(name="b", kind="category", levels=("x", "y"), nullable=False),
    Column(name="c", kind="boolean"),
    Column(name="d", kind="ordinal", levels=("I", "II", "III"), nullable=False),
    Column(name="e", kind="boolean", nullable=False),
)
SCHEMA = Schema(COLUMNS)
RELEASES = ["single columns", "choice of pairs", "pairs"]


class Stopped(BaseException):
    pass


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 6, ROWS)
    return pd.DataFrame(
        {
            "a": a,
            "b": np.where(a < 3, "x", "y"),
            "c": rng.random(ROWS) < 0.3,
            "d": rng.choice(["I", "II", "III"], ROWS),
            "e": rng.random(ROWS) < 0.5,
        }
    )


@pytest.fixture
def seen(monkeypatch):
    """What was released, by whom, and with which keys."""
    found = {"released": [], "values": {}, "run": [], "keys": [], "spent": []}
    release, redeem, spend = tables.release, Ledger._redeem, Ledger.spend

    def released(receipt, *rest):
        values = release(receipt, *rest)
        found["released"].append(receipt.what)
        found["values"][receipt.what] = values
        return values

    def redeemed(self, receipt, kind):
        keys = redeem(self, receipt, kind)
        found["run"].append(receipt.what)
        found["keys"] += [np.asarray(jax.random.key_data(key)).tobytes() for key in keys]
        return keys

    monkeypatch.setattr(tables, "release", released)
    monkeypatch.setattr(Ledger, "_redeem", redeemed)
    monkeypatch.setattr(Ledger, "spend", lambda self, *what: found["spent"].append(what[1]) or spend(self, *what))
    return found


@pytest.fixture
def stop(monkeypatch):
    """Have a fit stop at a writing of its checkpoint, before or after it."""
    write = Checkpoint._write

    def at(number, *, before=False):
        count = iter(range(1, 100))

        def stopping(self):
            now = next(count) == number
            if now and before:
                raise Stopped
            write(self)
            if now:
                raise Stopped

        monkeypatch.setattr(Checkpoint, "_write", stopping)

    at.off = lambda: monkeypatch.setattr(Checkpoint, "_write", write)
    return at


def arrays(path):
    return {
        name.removeprefix("arrays/").removesuffix(".npy"): artifact.array_from_bytes(data)
        for name, data in artifact.read(path).items()
        if name.startswith("arrays/")
    }


def interrupted(people, path, stop, number, *, before=False, **changes):
    stop(number, before=before)
    with pytest.raises(Stopped) as stopped:
        tw.fit(people, checkpoint=path, **{"schema": SCHEMA, **FIT, **changes})
    stop.off()
    return stopped.value


@pytest.fixture(scope="module")
def whole(people):
    return tw.fit(people, schema=SCHEMA, insecure_seed=5, **FIT)


# -- the automatic model -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [1, 2, 3, 4, 5])
def test_a_fit_that_is_stopped_after_saving_makes_no_release_again(people, tmp_path, seen, stop, written):
    path = tmp_path / "checkpoint"
    stopped = interrupted(people, path, stop, written)
    assert hasattr(stopped, "spent") or written == 1
    statement = Checkpoint.read(path).statement
    paid = list(seen["spent"])
    twin = tw.fit(people, schema=SCHEMA, checkpoint=path, resume=True, **FIT)
    assert seen["released"] == RELEASES
    assert len(set(seen["run"])) == len(seen["run"])
    assert seen["spent"] == paid
    assert json.loads(json.dumps(twin.statement)) == statement
    assert twin.rows == Checkpoint.read(path).facts["rows"]


@pytest.mark.parametrize(("written", "again"), [(2, []), (3, RELEASES[:1]), (4, RELEASES[1:2]), (5, RELEASES[2:])])
def test_only_what_was_not_saved_is_made_once_more(people, tmp_path, seen, stop, written, again):
    path = tmp_path / "checkpoint"
    interrupted(people, path, stop, written, before=True)
    twin = tw.fit(people, schema=SCHEMA, checkpoint=path, resume=True, **FIT)
    assert sorted(seen["released"]) == sorted([*RELEASES, *again])
    assert json.loads(json.dumps(twin.statement)) == Checkpoint.read(path).statement
    # New keys: the noise of what nobody saw is not drawn again.
    assert len(set(seen["keys"])) == len(seen["keys"])


def test_receipts_of_what_was_released_are_used_up_when_a_fit_goes_on(people, tmp_path, stop, monkeypatch):
    path, resumed, ledgers = tmp_path / "checkpoint", Ledger.resumed, []
    interrupted(people, path, stop, 5)
    monkeypatch.setattr(Ledger, "resumed", lambda *of, **how: ledgers.append(resumed(*of, **how)) or ledgers[-1])
    tw.fit(people, schema=SCHEMA, checkpoint=path, resume=True, **FIT)
    assert {receipt.what for receipt in ledgers[0].receipts} >= {"row count", *RELEASES}
    for receipt in ledgers[0].receipts:
        with pytest.raises(ReceiptError, match="has been used"):
            receipt.redeem(type(receipt.mechanism))


@pytest.mark.parametrize("written", [1, 3, 5])
def test_what_comes_out_is_what_would_have(people, tmp_path, stop, whole, written):
    path = tmp_path / "checkpoint"
    interrupted(people, path, stop, written, insecure_seed=5)
    twin = tw.fit(people, schema=SCHEMA, checkpoint=path, resume=True, insecure_seed=5, **FIT)
    assert twin.sample(100, seed=0).equals(whole.sample(100, seed=0))
    assert twin.statement == whole.statement


def test_a_fit_can_be_stopped_again_and_again(people, tmp_path, seen, stop):
    path = tmp_path / "checkpoint"
    interrupted(people, path, stop, 2)
    for _ in RELEASES:
        interrupted(people, path, stop, 1, resume=True)
    tw.fit(people, schema=SCHEMA, checkpoint=path, resume=True, **FIT)
    assert seen["released"] == RELEASES


def test_a_checkpoint_holds_what_was_released_and_nothing_else(people, tmp_path, seen):
    path = tmp_path / "checkpoint"
    tw.fit(people, schema=SCHEMA, checkpoint=path, **FIT)
    expected = {}
    for what, values in seen["values"].items():
        for number, noisy in enumerate(values):
            expected |= {f"{what}.{number}.counts": noisy.counts, f"{what}.{number}.noise": noisy.noise}
    found = arrays(path)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in found)
    assert list(seen["values"]) == RELEASES


def test_no_key_is_in_the_file(people, tmp_path, seen):
    path = tmp_path / "checkpoint"
    tw.fit(people, schema=SCHEMA, checkpoint=path, **FIT)
    held = b"".join([path.read_bytes(), *artifact.read(path).values()])
    assert len(seen["keys"]) == 2 * len(seen["run"]) > 0
    for key in seen["keys"]:
        assert key not in held
        assert key[:8] not in held
        assert key.hex().encode() not in held


def test_a_checkpoint_is_not_a_twin_and_a_twin_is_no_checkpoint(people, tmp_path, whole):
    tw.fit(people, schema=SCHEMA, checkpoint=tmp_path / "checkpoint", **FIT)
    with pytest.raises(ArtifactError):
        tw.load(tmp_path / "checkpoint")
    whole.save(tmp_path / "data.twin")
    with pytest.raises(ArtifactError, match="not a checkpoint"):
        tw.fit(people, schema=SCHEMA, checkpoint=tmp_path / "data.twin", resume=True, **FIT)


# -- other requests ----------------------------------------------------------------------------------------------------

OTHERS = {
    "epsilon": {"epsilon": 3.0},
    "delta": {"delta": 1e-7},
    "options": {"options": {"particles": 256}},
    "no options": {"options": None},
    "target": {"target": "b"},
    "model": {"model": "independent", "options": None},
    "relation": {"relation": "substitute"},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_another_request_cannot_go_on(people, tmp_path, seen, stop, changes):
    interrupted(people, tmp_path / "checkpoint", stop, 3)
    before, run = (tmp_path / "checkpoint").read_bytes(), list(seen["run"])
    with pytest.raises(ReceiptError, match="other arguments"):
        tw.fit(people, checkpoint=tmp_path / "checkpoint", resume=True, **{"schema": SCHEMA, **FIT, **changes})
    assert (tmp_path / "checkpoint").read_bytes() == before
    assert seen["run"] == run


def test_another_table_or_seed_cannot_go_on(people, tmp_path, stop):
    path = tmp_path / "checkpoint"
    interrupted(people, path, stop, 3)
    with pytest.raises(ReceiptError, match="other columns"):
        tw.fit(people[["a", "b", "c"]], schema=Schema(COLUMNS[:3]), checkpoint=path, resume=True, **FIT)
    with pytest.raises(ReceiptError, match="seed"):
        tw.fit(people, schema=SCHEMA, checkpoint=path, resume=True, insecure_seed=5, **FIT)


def test_another_schema_cannot_go_on(people, tmp_path, stop):
    """What the statement says is public is what the first schema took: another one may have more from the data."""
    path = tmp_path / "checkpoint"
    interrupted(people, path, stop, 1)
    other = SCHEMA.replace_columns([COLUMNS[0].replace(min=0, max=4)])
    with pytest.raises(ReceiptError):
        tw.fit(people, schema=other, checkpoint=path, resume=True, **FIT)


def test_without_a_checkpoint_there_is_nothing_to_resume(people, tmp_path):
    with pytest.raises(ArtifactError, match="no file"):
        tw.fit(people, schema=SCHEMA, checkpoint=tmp_path / "nothing", resume=True, **FIT)
    (tmp_path / "broken").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(ArtifactError):
        tw.fit(people, schema=SCHEMA, checkpoint=tmp_path / "broken", resume=True, **FIT)


def test_another_version_of_the_package_cannot_go_on(people, tmp_path, seen, stop, monkeypatch):
    path = tmp_path / "checkpoint"
    interrupted(people, path, stop, 1)
    run = list(seen["run"])
    monkeypatch.setattr(fitting, "__version__", "99.0")
    with pytest.raises(ReceiptError, match="another version"):
        tw.fit(people, schema=SCHEMA, checkpoint=path, resume=True, **FIT)
    assert seen["run"] == run

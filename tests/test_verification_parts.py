"""`twin verify` compares a statement with the other parts of its file, and with what a ledger would write."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import twinify_lite as tw
from twinify_lite import accountant, artifact
from twinify_lite.cli import main
from twinify_lite.consistency import require_consistent
from twinify_lite.errors import ArtifactError
from twinify_lite.schema import Column, Schema
from twinify_lite.statement import GUESSED, STYLE, accepted_of

QUICK = {"particles": 256}
COLUMNS = (
    Column(name="x", kind="category", levels=("a", "b", "c"), nullable=False),
    Column(name="y", kind="category", levels=("a", "b", "c"), nullable=False),
    Column(name="z", kind="integer", min=0, max=99, nullable=False),
)
MODEL = """
import numpyro
import numpyro.distributions as dist

def model(rows):
    centre = numpyro.sample("centre", dist.Normal(50, 20))
    with rows:
        numpyro.sample("z", dist.Normal(centre, 30))

def preprocess(frame):
    return frame[["z"]]
"""


def table():
    rng = np.random.default_rng(0)
    x = rng.choice(list("abc"), 600)
    return pd.DataFrame({"x": x, "y": np.where(rng.random(600) < 0.9, x, "a"), "z": rng.integers(0, 100, 600)})


def verified(file):
    return CliRunner().invoke(main, ["verify", str(file)])


# -- honest files ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("twins")
    table().to_csv(made / "data.csv", index=False)
    (made / "own.py").write_text(MODEL)
    return made


@pytest.fixture(scope="module")
def auto(folder):
    """All is discovered from a CSV file."""
    tw.fit(folder / "data.csv", epsilon=20, kinds="guess", options=QUICK).save(folder / "auto.twin")
    return folder / "auto.twin"


@pytest.fixture(scope="module")
def steps(folder):
    """Of a model's own file. All rows are in every step, for which fourier-accountant has no figure."""
    options = {"steps": 20, "sampling_rate": 1.0}
    twin = tw.fit(folder / "data.csv", epsilon=5, model=folder / "own.py", schema=Schema(COLUMNS[2:]), options=options)
    twin.save(folder / "steps.twin")
    return folder / "steps.twin"


def test_honest_twins_of_every_model_hold(auto, steps):
    for file in (auto, steps):
        ended = verified(file)
        assert (ended.exit_code, ended.stdout.splitlines()[0][:20]) == (0, "The statement holds:")


def accepted():
    from twinify_lite.table import read_table

    drafted = Schema.draft(read_table(table()), peek=True)
    return drafted.accept(drafted.peeked)


HONEST = {
    "a schema": {"schema": Schema(COLUMNS)},
    "a schema of some columns": {"schema": Schema(COLUMNS[:2])},
    "a schema that tells the rows": {"schema": Schema(COLUMNS, rows=600)},
    "what was read and accepted": {"schema": accepted()},
    "replaced rows": {"relation": "substitute"},
    "single columns alone": {"schema": Schema(COLUMNS), "options": {**QUICK, "measured_pairs": 0}},
    "chosen pairs": {"schema": Schema(COLUMNS), "options": {**QUICK, "measured_pairs": 2}},
}


@pytest.mark.parametrize("asked", HONEST.values(), ids=HONEST)
def test_honest_automatic_twins_hold(tmp_path, asked):
    tw.fit(table(), **{"epsilon": 20, "options": QUICK, **asked}).save(tmp_path / "data.twin")
    assert verified(tmp_path / "data.twin").exit_code == 0


def test_a_resumed_twin_holds(tmp_path):
    def stop(what, *_):
        if what == "fitting":
            raise KeyboardInterrupt

    asked = {"epsilon": 20, "options": QUICK, "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(KeyboardInterrupt):
        tw.fit(table(), progress=stop, **asked)
    tw.fit(table(), resume=True, **asked).save(tmp_path / "data.twin")
    assert verified(tmp_path / "data.twin").exit_code == 0


def test_the_parts_of_a_seeded_twin_agree_though_it_is_not_private(tmp_path):
    tw.fit(table(), epsilon=20, options=QUICK, insecure_seed=0).save(tmp_path / "data.twin")
    require_consistent(artifact.read(tmp_path / "data.twin"))
    assert "guarantees nothing" in verified(tmp_path / "data.twin").stderr


# -- doctored files ----------------------------------------------------------------------------------------------------


class Parts:
    """The members of a twin, to be changed."""

    def __init__(self, file):
        self.members = artifact.read(file)
        names = ("statement.json", "twin.json", "fitted.json")
        self.statement, self.facts, self.fitted = (artifact.json_from_bytes(self.members[name]) for name in names)
        self.schema = Schema.from_toml(self.members["schema.toml"].decode())

    def receipt(self, what):
        return next(r for stage in self.statement["stages"] for r in stage["receipts"] if r["what"] == what)

    def spend(self, change):
        """Have `change` make other stages of the mechanisms, and a ledger spend for them: all figures are right."""
        named = accountant.mechanism_from_json
        stages = [
            [(receipt["what"], named(receipt["mechanism"])) for receipt in stage["receipts"]]
            for stage in self.statement["stages"]
        ]
        old, ledger = self.statement, tw.Ledger(1000.0, self.statement["delta"], relation=self.statement["relation"])
        for sentence in old["treated_as_public"]:
            ledger.treat_as_public(sentence)
        for stage in change(stages):
            receipts = [ledger.spend(mechanism, what) for what, mechanism in stage]
            receipts[-1].redeem(type(receipts[-1].mechanism))
        self.statement = json.loads(json.dumps(ledger.statement().to_json()))

    def conceal(self, sentence):
        """Leave it out wherever the statement says it."""
        for key in ("public", "treated_as_public"):
            self.statement[key].remove(sentence)

    def save(self, path):
        parts = {"statement.json": self.statement, "twin.json": self.facts, "fitted.json": self.fitted}
        schema = {"schema.toml": self.schema.to_toml().encode()}
        made = {name: artifact.json_bytes(part) for name, part in parts.items()}
        artifact.write(path, {**self.members, **schema, **made})


def refusal(file, tmp_path, change):
    parts = Parts(file)
    change(parts)
    parts.save(tmp_path / "doctored.twin")
    ended = verified(tmp_path / "doctored.twin")
    assert ended.exit_code == 1
    return ended.stderr


def without(*names):
    def change(stages):
        kept = [[paid for paid in stage if paid[0] not in names] for stage in stages]
        return [stage for stage in kept if stage]

    return lambda parts: parts.spend(change)


def no_pairs(parts):
    parts.fitted["settings"].update(single=1.0, choice=0.0, pairs=0.0)
    without("choice of pairs", "pairs")(parts)


def more_noise(parts):
    def change(stages):
        return [
            [
                (what, tw.Gaussian(noise_multiplier=10 * paid.noise_multiplier) if what == "single columns" else paid)
                for what, paid in stage
            ]
            for stage in stages
        ]

    parts.spend(change)


def tolerance_twice(parts):
    spent = parts.statement["spent"]
    spent["epsilon"] *= 0.9991
    parts.statement["epsilon"] = 0.9991 * spent["epsilon"]


def accept(parts):
    parts.schema = dataclasses.replace(parts.schema, accepted=("x",))


def peek(parts):
    column = parts.schema["x"]
    changed = column.replace(nullable=True, peeked=("nullable",))
    parts.schema = parts.schema.replace_columns([changed, *(c for c in parts.schema.columns if c.name != "x")])


def one_text(parts):
    told = " ".join(parts.statement["treated_as_public"])
    parts.statement.update(treated_as_public=told, public=[*parts.statement["public"][:4], *told])


LIES = {
    "no row count": (without("row count"), "number of rows, which is not declared and which no receipt"),
    "a row count beside others": (lambda p: p.spend(lambda s: [s[0] + s[1]]), "must be a stage of its own"),
    "no single columns": (without("single columns"), "'single columns', which no receipt pays for"),
    "no pairs": (without("pairs"), "'pairs', which no receipt pays for"),
    "no pairs in the settings either": (no_pairs, "'pairs', which no receipt pays for"),
    "more noise in a receipt": (more_noise, "do not divide the budget as the model's settings do"),
    "other settings": (lambda p: p.fitted["settings"].update(single=0.9), "do not divide the budget"),
    "nothing of the file": (lambda p: p.conceal(STYLE), f"does not list as public: {STYLE}"),
    "nothing of guesses": (lambda p: p.conceal(GUESSED), f"does not list as public: {GUESSED}"),
    "nothing of what was accepted": (accept, f"does not list as public: {accepted_of(['x'])}"),
    "a text for a list": (one_text, f"does not list as public: {STYLE}"),
    "another list": (lambda p: p.statement.update(treated_as_public=[]), "not what its relation and its own list"),
    "nothing public": (lambda p: p.statement.update(public=[]), "not what its relation and its own list"),
    "more that is hidden": (lambda p: p.statement["not_public"].append("all"), "calls not public is not what"),
    "households": (lambda p: p.statement.update(unit="one row is one household"), "must read: one row is one person"),
    "accepted and not named": (
        lambda p: [p.statement[key].append(accepted_of(["x"])) for key in ("public", "treated_as_public")],
        "the schema does not name them",
    ),
    "no accountant": (
        lambda p: p.statement.update(accountant=5),
        "accountant and the cross-check of the statement must",
    ),
    "another accountant": (
        lambda p: p.statement.update(accountant="NIST: certified epsilon 0.01"),
        "The accountant of the statement is none of this package's",
    ),
    "something else": (lambda p: p.statement.update(certified_epsilon=0.01), "says something else than"),
    "what was peeked at": (peek, "read from the data, and that nobody accepted"),
    "no number of rows": (lambda p: p.facts.update(rows=-5), "none that a table can have"),
    "another number of rows": (lambda p: p.facts.update(rows=10**6), "planned with another number of rows"),
    "another composition": (lambda p: p.statement.update(composition="none"), "The composition of the statement must"),
    "another relation": (lambda p: p.statement.update(relation="substitute"), "only adding or removing a row needs"),
    "a larger delta": (lambda p: p.receipt("pairs").update(delta=0.9), "'pairs' is quoted at delta 0.9"),
    "a delta of a pure stage": (lambda p: p.receipt("row count").update(delta=0.9), "is quoted at delta 0.9"),
    "the tolerance twice": (tolerance_twice, "The budget: epsilon"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_contradicts_its_statement_is_refused(auto, tmp_path, lie):
    change, said = LIES[lie]
    assert said in refusal(auto, tmp_path, change)


STEPS = {
    "other steps": (lambda p: p.fitted["settings"].update(steps=40), "other steps, another sampling rate"),
    "another rate": (lambda p: p.fitted["settings"].update(sampling_rate=0.5), "other steps, another sampling rate"),
    "other noise": (lambda p: p.fitted["settings"].update(noise_multiplier=0.5), "other steps, another sampling rate"),
    "no steps": (without("DPSVI"), "fitted by DPSVI, which no receipt pays for"),
    "no row count": (without("row count"), "number of rows, which is not declared and which no receipt"),
    "a cross-check": (lambda p: p.receipt("DPSVI").update(crosscheck=0.1), "fourier-accountant has no figure"),
}


@pytest.mark.parametrize("lie", STEPS)
def test_a_file_that_contradicts_its_steps_is_refused(steps, tmp_path, lie):
    change, said = STEPS[lie]
    assert said in refusal(steps, tmp_path, change)


def test_parts_that_cannot_be_compared_are_refused(auto):
    members = artifact.read(auto)
    settings = {"single": "much", "choice": 0, "pairs": 0}
    words = json.dumps({"settings": settings, "links": []}).encode()
    odd = [("fitted.json", b"{}"), ("fitted.json", words), ("twin.json", b"[]"), ("schema.toml", b"\xff")]
    for name, data in odd:
        with pytest.raises(ArtifactError, match="cannot be compared"):
            require_consistent({**members, name: data})

"""`twin report`: the certificate of a twin that holds, of no other, and without a cell of one person."""

import contextlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import Page
from test_cli_canary import SECRET, sings

import twinify_lite as tw
from twinify_lite import artifact, demo
from twinify_lite.cli import main
from twinify_lite.errors import PolicyRefused
from twinify_lite.schema.draft import draft
from twinify_lite.table import read_table, write_table

SCHEMA = 'rows = 500\n[columns.age]\nkind = "integer"\nmin = 0\nmax = 99\nnullable = false\n'
MODEL = """
import numpyro, numpyro.distributions as dist


def model(rows):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with rows:
        numpyro.sample("age", dist.Normal(0, scale))
"""


def twin(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """A private twin, one from a seed, and one whose statement claims too little."""
    folder = tmp_path_factory.mktemp("twins")
    people, schema = demo.hospital(500)[["age"]], tw.Schema.from_toml(SCHEMA)
    tw.fit(people, epsilon=1.0, schema=schema).save(folder / "data.twin")
    tw.fit(people, epsilon=1.0, schema=schema, insecure_seed=1).save(folder / "seeded.twin")
    members = artifact.read(folder / "data.twin")
    claimed = members["statement.json"].replace(b'"epsilon": 1.0', b'"epsilon": 0.5')
    assert claimed != members["statement.json"]
    artifact.write(folder / "false.twin", {**members, "statement.json": claimed})
    return folder


@pytest.fixture
def here(twins, tmp_path, monkeypatch):
    for path in twins.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written():
    return sorted(path.name for path in Path().iterdir() if path.suffix != ".twin")


def test_a_page_and_the_same_facts_as_json_are_written_beside_the_twin(here):
    ended = twin("report", "data.twin")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert written() == ["data.report.html", "data.report.json"]
    facts = json.loads(Path("data.report.json").read_text())
    page = Page(Path("data.report.html").read_text()).text()
    assert facts["twin"]["file"] == "data.twin"
    assert facts["twin"]["sha256"] in page
    assert all(part in page for part in [*facts["promised"], *facts["not_promised"], *facts["risk"]["sentences"][:1]])


def test_json_is_printed_as_it_is_written(here):
    ended = twin("report", "data.twin", "-o", "page.html", "--json")
    assert json.loads(ended.stdout) == json.loads(Path("page.json").read_text())
    assert written() == ["page.html", "page.json"]


@pytest.mark.parametrize(
    ("name", "why"), [("false.twin", "does not hold"), ("seeded.twin", "guarantees nothing"), ("none.twin", "no file")]
)
def test_what_verify_refuses_is_not_certified(here, name, why):
    assert twin("verify", name).exit_code == 1
    ended = twin("report", name)
    assert ended.exit_code == 1
    assert why in ended.stderr
    assert written() == []


@pytest.mark.parametrize("there", ["data.report.html", "data.report.json"])
def test_no_file_is_replaced_unless_forced(here, there):
    Path(there).write_text("mine")
    assert twin("report", "data.twin").exit_code == 1
    assert (written(), Path(there).read_text()) == ([there], "mine")
    assert twin("report", "data.twin", "--force").exit_code == 0
    assert written() == ["data.report.html", "data.report.json"]


@pytest.mark.parametrize("output", ["data.json", "data.twin", "people.csv"])
def test_a_name_that_is_no_pages_is_refused(here, output):
    before = Path("data.twin").read_bytes()
    assert twin("report", "data.twin", "-o", output, "--force").exit_code == 1
    assert (written(), Path("data.twin").read_bytes()) == ([], before)


@pytest.mark.parametrize(
    ("policy", "code"),
    [("epsilon = 1.0", 0), ("epsilon = 0.5", 3), ('forbidden_columns = ["AGE"]', 3), ("epsilom = 1.0", 1)],
)
def test_a_twin_that_does_not_keep_to_the_policy_is_not_certified(here, policy, code):
    Path("policy.toml").write_text(policy)
    ended = twin("report", "data.twin", "--policy", "policy.toml")
    assert ended.exit_code == code, ended.output
    assert Path("data.report.html").exists() == (code == 0)
    if code == 0:
        assert "keep to the policy" in Path("data.report.html").read_text()


def test_the_only_twin_in_the_folder_needs_no_name(here):
    for name in ("false.twin", "seeded.twin"):
        Path(name).unlink()
    assert twin("report").exit_code == 0
    assert written() == ["data.report.html", "data.report.json"]


def test_a_twin_of_ones_own_model_has_distributions_only_where_the_model_may_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(MODEL)
    people, schema = demo.hospital(500)[["age"]], tw.Schema.from_toml(SCHEMA)
    tw.fit(people, epsilon=1.0, schema=schema, model="own.py", options={"steps": 20}).save("own.twin")
    ended = twin("report", "own.twin", "--json")
    assert ended.exit_code == 0, ended.output
    assert "Without distributions" in ended.stderr
    assert json.loads(ended.stdout)["synthetic"] is None
    assert json.loads(ended.stdout)["model"]["steps"] == 20
    ended = twin("report", "own.twin", "--json", "--force", "--model", "own.py")
    assert sum(json.loads(ended.stdout)["synthetic"]["columns"][0]["counts"]) == 20_000


ADDS = MODEL + "\n\ndef postprocess(frame):\n    return frame.assign(ssn=frame['age'])\n"


def test_columns_that_a_model_adds_to_its_rows_are_held_to_the_policy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(ADDS)
    Path("policy.toml").write_text('forbidden_columns = ["ssn"]')
    people, schema = demo.hospital(500)[["age"]], tw.Schema.from_toml(SCHEMA)
    how = {"epsilon": 1.0, "schema": schema, "model": "own.py", "options": {"steps": 20}}
    with pytest.raises(PolicyRefused, match="forbids the columns 'ssn'"):
        tw.fit(people, policy="policy.toml", ledger="data.ledger", **how)
    assert not Path("data.ledger").exists()
    tw.fit(people, **how).save("own.twin")
    for known, why in (((), "not known without its code"), (("--model", "own.py"), "forbids the columns 'ssn'")):
        ended = twin("report", "own.twin", "--policy", "policy.toml", *known)
        assert (ended.exit_code, why in ended.stderr) == (3, True), ended.output
    assert not Path("own.report.html").exists()


def test_what_was_read_without_noise_and_accepted_is_told_in_red(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = demo.hospital(500)[["age", "sex"]]
    tw.fit(people, epsilon=1.0, schema=draft(read_table(people), peek=True), accept=["age", "sex"]).save("peeked.twin")
    ended = twin("report", "peeked.twin", "--json")
    assert ended.exit_code == 0, ended.output
    warning = json.loads(ended.stdout)["warning"]
    assert warning.startswith("NOT COVERED BY EPSILON: ranges, levels or missing cells of 'age', 'sex' were read from")
    assert warning in ended.stderr
    text = Page(Path("peeked.report.html").read_text()).text()
    assert warning in text
    assert text.count("(read from the data, not covered by epsilon)") == 2
    for command in (["explain", "peeked.twin"], ["describe", "peeked.twin"]):
        assert warning in twin(*command).stdout.splitlines()[0]
    assert warning in twin("verify", "peeked.twin").stderr
    assert warning in twin("sample", "peeked.twin", "--n", 30, "-o", "rows.csv").stderr
    write_table(people, "data.csv")
    ended = twin("score", "data.csv", "rows.csv", "--report", "score.html", "--twin", "peeked.twin", "--quiet")
    assert ended.exit_code == 0, ended.output
    assert warning in Page(Path("score.html").read_text()).text("body").split("How faithful")[0]


def test_a_twin_of_which_nothing_was_accepted_has_no_warning(here):
    ended = twin("report", "data.twin", "--json")
    assert json.loads(ended.stdout)["warning"] is None
    assert 'class="warning"' not in Path("data.report.html").read_text()


def test_the_public_report_sings_of_no_person(tmp_path):
    people = demo.hospital(3000).astype(object)
    people.loc[1500, list(SECRET)] = list(SECRET.values())
    write_table(people.astype(str), tmp_path / "data.csv")
    assert sings((tmp_path / "data.csv").read_bytes())
    tw.fit(tmp_path / "data.csv", epsilon=1.0).save(tmp_path / "out.twin")
    with contextlib.chdir(tmp_path):
        ended = twin("report", "out.twin", "--json")
    assert ended.exit_code == 0, ended.output
    for said in (ended.output, *(path.read_bytes() for path in tmp_path.glob("out.report.*"))):
        assert not sings(said)
    assert len(list(tmp_path.glob("out.report.*"))) == 2


def test_a_twin_that_claims_a_little_less_than_its_receipts_cost_is_not_certified(here):
    members = artifact.read("data.twin")
    statement = artifact.json_from_bytes(members["statement.json"])
    statement["spent"]["epsilon"] *= 0.9995
    statement["epsilon"] = statement["spent"]["epsilon"]
    artifact.write("low.twin", {**members, "statement.json": artifact.json_bytes(statement)})
    assert twin("verify", "low.twin").exit_code == 0  # other versions of the accountants may differ by that
    ended = twin("report", "low.twin")
    assert (ended.exit_code, "no certificate can say it" in ended.stderr) == (1, True)


@pytest.mark.parametrize("sample", ["omit", "surrogate"])
def test_a_twin_that_leaves_columns_out_or_makes_them_up_has_distributions_of_the_others(tmp_path, monkeypatch, sample):
    monkeypatch.chdir(tmp_path)
    people = demo.hospital(500)[["age"]].assign(patient=[f"P{n}" for n in range(500)])
    schema = tw.Schema.from_toml(f'{SCHEMA}[columns.patient]\nkind = "identifier"\nsample = "{sample}"\n')
    tw.fit(people, epsilon=1.0, schema=schema).save("data.twin")
    ended = twin("report", "data.twin", "--json")
    assert "Without distributions" not in ended.stderr
    told = json.loads(ended.stdout)["synthetic"]
    assert [one["name"] for one in told["columns"]] == ["age"]
    words = {"omit": "left out", "surrogate": "made up anew"}[sample]
    assert words in Page(Path("data.report.html").read_text()).text("body")


@pytest.mark.parametrize("name", ["-", "page.pdf", "page.twin", "page.json", "page"])
def test_a_page_has_the_name_of_one(here, name):
    ended = twin("report", "data.twin", "-o", name)
    assert (ended.exit_code, "such as" in ended.stderr) == (1, True)
    assert written() == []

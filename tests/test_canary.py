"""Canaries: distinctive cells that must be found nowhere outside the table.

They stand in every column, in one row, the way a person's secret does. Everything that the package says, writes or
keeps is searched for them: stdout, stderr, errors with all their causes, reprs, drafts, schemas, statements, temporary
files.
"""

import io
import os
import pickle
import subprocess
import sys
import traceback

import pytest
from tables import hospital

import twinify_lite as tw
from twinify_lite.errors import TwinError
from twinify_lite.schema.doubts import doubts

WORDS = ("CANARY", "7f3a9c", "98765", "4321.5", "1887-06-05")
SECRET = {
    "patient": "CANARY-7f3a9c",
    "age": "98765",
    "sex": "CANARY sex",
    "born": "1887-06-05",
    "admitted": "1887-06-05",
    "discharged": "CANARY never",
    "diagnosis": "CANARY 7f3a9c",
    "income": "98765432",
    "cost": "4321.5987654",
    "sodium": "-98765.4321",
    "visits": "CANARY visits",
    "note": 'CANARY "quoted"\nsecond line, with comma',
    "ward": "CANARY ward",
    "score": "98765e3",
}


def table_with_canaries(rows):
    frame = hospital(rows)
    frame.loc[rows // 2, list(SECRET)] = list(SECRET.values())
    return frame


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("canary") / "data.csv"
    tw.write_table(table_with_canaries(20_000), path)
    return path


def sings(text):
    return [word for word in WORDS if word in text]


def in_full(error):
    """All that a log could show of an error: its traceback, causes, contexts, arguments and notes."""
    shown = "".join(traceback.format_exception(error))
    while error is not None:
        shown += str(error) + repr(error) + repr(error.args) + repr(getattr(error, "__notes__", ""))
        error = error.__cause__ or error.__context__
    return shown


def test_the_canaries_are_in_the_table(csv):
    assert set(sings(csv.read_text())) == set(WORDS)


def test_drafting_a_schema_says_and_keeps_no_cell(csv, tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    draft = tmp_path / "schema.toml"
    for arguments in (["schema", str(csv)], ["schema", str(csv), "-o", str(draft)], ["schema", "-"]):
        run = subprocess.run(
            [sys.executable, "-m", "twinify_lite", *arguments],
            input=csv.read_bytes(),
            capture_output=True,
            env=environment,
            check=True,
        )
        assert not sings((run.stdout + run.stderr).decode())
    assert [path.name for path in tmp_path.iterdir()] == ["schema.toml"]
    assert not sings(draft.read_text())


def test_discovery_finds_and_says_no_cell_of_one_person(csv, capsys, recwarn):
    table = tw.read_table(csv)
    ledger = tw.Ledger(1.0)
    discovery = tw.discover(table, ledger=ledger)
    said = capsys.readouterr()
    shown = [said.out, said.err, repr(table), str(table), f"{table}", table._repr_html_(), repr(discovery)]
    shown += [discovery.schema.to_toml(), *discovery.notes, str(ledger.statement()), str(ledger.statement().to_json())]
    shown += [repr(ledger), repr(ledger.receipts), *(str(warning.message) for warning in recwarn)]
    assert not any(map(sings, shown))


def test_what_is_decoded_holds_no_cell_of_one_person(csv):
    table = tw.read_table(csv)
    schema = tw.discover(table, ledger=tw.Ledger(1.0)).schema
    for view in ("continuous", "discrete"):
        twin = tw.decode(schema, tw.encode(schema, table, view=view), view=view)
        buffer = io.StringIO()
        twin.to_pandas().to_csv(buffer)
        assert not sings(buffer.getvalue())


MISFITS = {
    "levels that do not fit": '[columns.ward]\nkind = "category"\nlevels = ["here", "there"]\nnullable = true',
    "a number that is text": '[columns.note]\nkind = "number"\nmin = 0\nmax = 1\nnullable = false',
    "a date that is text": '[columns.note]\nkind = "datetime"\nmin = 2000-01-01\nmax = 2001-01-01\nnullable = false',
}
WRONG = {
    "a column that is not there": '[columns.wart]\nkind = "number"',
    "a constraint that is not there": 'constraints = ["agee <= cost"]\n[columns.age]\nkind = "integer"',
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_schema_that_does_not_fit_is_refused_without_a_cell(csv, wrong):
    def use():
        table = tw.read_table(csv)
        tw.encode(tw.discover(table, tw.Schema.from_toml(WRONG[wrong]), ledger=tw.Ledger(1.0)).schema, table)

    with pytest.raises(TwinError) as caught:
        use()
    assert not sings(in_full(caught.value))


@pytest.mark.parametrize("wrong", MISFITS)
def test_a_schema_that_cells_do_not_fit_is_not_refused_and_shows_none_of_them(csv, wrong):
    table = tw.read_table(csv)
    found = tw.discover(table, tw.Schema.from_toml(MISFITS[wrong]), ledger=tw.Ledger(1.0))
    arrays = tw.encode(found.schema, table)
    told = doubts(table, found.schema, declared=tw.Schema.from_toml(MISFITS[wrong]))
    assert len(told) == 1
    assert not sings("\n".join([*found.notes, *told, found.schema.to_toml(), *arrays]))


def test_a_table_cannot_be_carried_away(csv):
    table = tw.read_table(csv)
    for carry in (pickle.dumps, lambda t: pickle.dumps([t]), lambda t: t.__reduce_ex__(4)):
        with pytest.raises(TwinError) as caught:
            carry(table)
        assert not sings(in_full(caught.value))


def test_a_broken_file_is_refused_without_a_cell(csv, tmp_path):
    text = csv.read_text()
    for number, broken in enumerate(
        (text + "CANARY-7f3a9c,98765\n", text + '"CANARY', text.replace("CANARY", "CANARY\0"))
    ):
        path = tmp_path / f"{number}.csv"
        path.write_text(broken)
        run = subprocess.run(
            [sys.executable, "-m", "twinify_lite", "schema", str(path)], capture_output=True, text=True, check=False
        )
        assert run.returncode == 1
        assert "line" in run.stderr
        assert not sings(run.stdout + run.stderr)


def test_a_write_that_fails_leaves_no_temporary_file(csv, tmp_path):
    def chunks():
        yield tw.read_table(csv).reveal().slice(0, 100)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        tw.write_table(chunks(), tmp_path / "twin.csv")
    assert list(tmp_path.iterdir()) == []

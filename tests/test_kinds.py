"""Kinds by noisy votes: a cell has one form, a row moves one count a column, and what is released tells the kind."""

import itertools
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from test_guess import CLEAR, NASTY

import twinify_lite as tw
from twinify_lite import release
from twinify_lite.cli import main
from twinify_lite.discover import begin, plan_beside
from twinify_lite.discover.kinds import find_kinds
from twinify_lite.discover.votes import WEIGHT
from twinify_lite.schema.draft import fill_by_types
from twinify_lite.schema.guess import guess, guess_text
from twinify_lite.schema.guess_forms import forms_of, text_forms
from twinify_lite.schema.guess_votes import Poll
from twinify_lite.statement import GUESSED
from twinify_lite.table import read_table

# Codes of five digits of which one in fifty begins with a zero would be codes to `guess`, whatever the others are;
# forms know of no widths. Nothing else is lost by counting forms.
SAME = [look for look in CLEAR if look != "nothing"]
ODD = [
    *(cell for cell in NASTY if cell),
    "",
    " ",
    "0",
    "00",
    "+0",
    "1,5",
    "1.234,5",
    "2024-01-31T10:11:12,5+05:45",
    "é",
]


def paid(noise, relation="add-remove"):
    ledger = tw.Ledger(1e6, 1e-6, relation=relation, insecure_seed=3)
    return ledger.spend(tw.Gaussian(noise_multiplier=noise), "kinds")


def free():
    return tw.Ledger.without_privacy().spend(tw.NotPrivate(), "kinds")


def kinds_of(frame, receipt, declared=None):
    table = read_table(frame)
    schema, undecided = fill_by_types(declared, table)
    return find_kinds(schema, undecided.columns, table, receipt, delta=1e-6)


def test_every_example_is_of_its_own_form():
    examples = text_forms().examples
    assert (forms_of(examples, ".") == np.arange(len(examples))).all()


def test_the_form_of_a_cell_does_not_depend_on_its_neighbours():
    texts = [*itertools.chain(*(items for items, _ in CLEAR.values())), *ODD]
    texts = [text for text in texts if text is not None]
    together = forms_of(pa.array(texts), ".").tolist()
    assert together == [forms_of(pa.array([text]), ".")[0] for text in texts]
    assert together[::-1] == forms_of(pa.array(texts[::-1]), ".").tolist()


@pytest.mark.parametrize("look", SAME)
def test_the_rules_say_of_forms_what_they_say_of_cells(look):
    cells = pa.array(CLEAR[look][0]).drop_null()
    forms = text_forms().examples.take(pa.array(forms_of(cells, ".")))
    assert guess_text(Poll.of(forms), ".") == guess_text(Poll.of(cells), ".")


@pytest.mark.parametrize("look", SAME)
def test_without_noise_votes_tell_what_a_guess_does(look):
    frame = pd.DataFrame({"x": CLEAR[look][0] * 20})
    schema, hidden = kinds_of(frame, free())
    assert schema["x"] == guess("x", pa.array(frame.x).cast(pa.string())).replace(dtype=schema["x"].dtype)
    assert not hidden


@pytest.mark.parametrize("values", [[1.0, 2.0, None], [0.25, 1.5, 2.0], [math.pi, 1e300, -0.1]])
def test_floats_and_times_vote_with_their_precision(values):
    frame = pd.DataFrame({"x": values * 10, "t": pd.to_datetime(["2024-01-31 10:00", "2024-02-01 11:00", None] * 10)})
    schema, _ = kinds_of(frame, free())
    for name in frame:
        assert schema[name] == guess(name, pa.array(frame[name], from_pandas=True)).replace(dtype=schema[name].dtype)


def table_of(rows):
    frame = pd.DataFrame({"a": [row[0] for row in rows], "b": [row[1] for row in rows]}, dtype=object)
    return pa.table({name: pa.array(frame[name], pa.string()) for name in frame})


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("relation", ["add-remove", "substitute"])
def test_one_row_moves_the_exact_counts_by_what_is_paid_for(odd, relation, monkeypatch):
    """Two cells and three, of a number, at the threshold of the rules: the counts move by one row's votes."""
    seen = []
    whole = release._noised

    def spy(what, sums, bound, deviation, bits):
        seen.append((np.array(sums), bound, deviation))
        return whole(what, sums, bound, deviation, bits)

    monkeypatch.setattr(release, "_noised", spy)
    rows = [("1", "x"), ("2", None), ("red", "2024-01-31"), (odd, odd)]
    more = [*rows, ("3", odd)] if relation == "add-remove" else [*rows[1:], ("3", odd)]
    sums = []
    for one in (rows, more):
        seen.clear()
        kinds_of(table_of(one), paid(1.0, relation))
        assert len({deviation for *_, deviation in seen}) == 1
        sums.append(np.concatenate([counts for counts, *_ in seen if len(counts) > 50]))
        bound = seen[0][1]
    moved = sums[0].astype(object) - sums[1].astype(object)
    assert (moved**2).sum() <= bound**2 * (1 if relation == "add-remove" else 2)
    assert bound % WEIGHT == 0


def votes(number, kinds="private", **options):
    words = ["N", "N", "red", "blue"]
    frame = pd.DataFrame({"x": [str(n) for n in range(number)] + words, "y": ["a"] * (number + len(words))})
    return tw.fit(frame, epsilon=1.0, insecure_seed=5, kinds=kinds, **options)


def test_the_statement_needs_no_guess():
    twin = votes(60)
    assert GUESSED not in twin.statement["public"]
    assert "kinds" in [receipt["what"] for stage in twin.statement["stages"] for receipt in stage["receipts"]]
    assert GUESSED in votes(60, kinds="guess").statement["public"]


def test_a_kind_is_never_told_by_the_third_cell():
    """Without noise three cells made a number of this column, and two did not."""
    told = [votes(number).schema["x"].kind for number in (2, 3)]
    assert told[0] == told[1]
    assert [votes(number, kinds="guess").schema["x"].kind for number in (2, 4)] == ["category", "category"]
    assert guess("x", pa.array(["1", "2", "3"])).kind != guess("x", pa.array(["1", "2"])).kind


def test_kinds_of_five_hundred_rows_are_found():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 99, 500).astype(str),
            "cost": [f"{cost:.2f}" for cost in rng.gamma(2, 100, 500)],
            "smoker": rng.choice(["true", "false"], 500),
            "lab": rng.normal(5, 1, 500).round(1),
            "ward": rng.choice(["A1", "B2", "C3"], 500),
            "admitted": [f"{day:02d}.{month:02d}.2023" for day, month in rng.integers(1, 12, (500, 2))],
        }
    )
    for seed in range(5):
        schema = tw.discover(frame, ledger=tw.Ledger(10.0, 1e-6, insecure_seed=seed), share=0.5).schema
        assert [column.kind for column in schema.columns] == [
            "integer",
            "number",
            "boolean",
            "number",
            "category",
            "datetime",
        ]
        assert (schema["cost"].decimals, schema["lab"].decimals, schema["admitted"].format) == (2, 1, "%d.%m.%Y")


def test_noise_that_hides_a_kind_is_told():
    frame = pd.DataFrame({"x": ["1", "2", "3"] * 10, "y": [0.5] * 30})
    notes, kinds = [], []
    for seed in range(4):
        found = tw.discover(frame, ledger=tw.Ledger(0.05, 1e-6, insecure_seed=seed))
        kinds.append(found.schema["x"].kind)
        notes += found.notes
    assert "category" in kinds
    assert any("Kinds hidden by noise" in note and "'x'" in note for note in notes)
    assert any("Precision hidden by noise" in note and "'y'" in note for note in notes)


def test_a_kind_that_noise_all_but_hides_may_be_wrong_and_is_told():
    frame = pd.DataFrame({f"c{i}": ["red", "green", "blue"] * 60 for i in range(12)})
    told = 0
    for seed in range(4):
        found = tw.discover(frame, ledger=tw.Ledger(1.0, 1e-6, insecure_seed=seed), share=0.5)
        wrong = [name for name in frame if found.schema[name].kind != "category"]
        assert all(any("may be wrong" in note and f"'{name}'" in note for note in found.notes) for name in wrong)
        told += sum("Kinds that may be wrong" in note for note in found.notes)
    assert told


def test_more_rows_leave_more_for_the_model():
    table = read_table(pd.DataFrame({"x": ["1"] * 4, "y": ["2"] * 4}))
    schema, undecided = begin(table, None, kinds="private")
    ledger = tw.Ledger(1.0, 1e-6)
    few, many = (plan_beside(schema, undecided, ledger, part=0.15, rows=rows)[0] for rows in (100, 1_000_000))
    assert few.noise["kinds"] < many.noise["kinds"]
    # What is found comes out of one stage: the squares of what each release adds are at most the whole.
    for rows in (100, 1_000_000):
        plan, left = plan_beside(schema, undecided, ledger, part=0.15, rows=rows)
        whole = ledger.calibrate(
            tw.Gaussian(noise_multiplier=1.0), beside=(tw.ApproximateDP(epsilon=0.0, delta=plan.selection),)
        ).noise_multiplier
        assert sum(noise**-2 for noise in (*plan.noise.values(), left)) <= whole**-2


LINES = ["a,b,c", *(f"{i % 50},{i % 50 + 3},{'xy'[i % 2]}" for i in range(400))]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("\n".join(LINES) + "\n")
    return tmp_path


def constrained(here, *sentences):
    (here / "schema.toml").write_text(f"constraints = {list(sentences)}\n")
    return tw.Schema.load(here / "schema.toml")


def test_constraints_wait_for_the_kinds_of_their_columns(here):
    twin = tw.fit("data.csv", epsilon=5.0, schema=constrained(here, "a <= b", "a <= c"), insecure_seed=0)
    assert [str(one) for one in twin.schema.constraints] == ['"a <= b"']
    assert any("Ignored" in note and "a <= c" in note for note in twin.notes)
    rows = twin.sample(200, seed=0)
    assert (rows.a <= rows.b).all()


def test_a_constraint_on_no_column_is_refused_before_anything_is_paid(here):
    with pytest.raises(tw.SchemaError, match="'d'"):
        tw.fit("data.csv", epsilon=1.0, schema=constrained(here, "a <= d"))


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_undeclared_kinds_are_refused_by_name(here):
    result = run("fit", "data.csv", "--epsilon", 1, "--kinds", "declared")
    assert result.exit_code == 1
    assert all(f"'{name}'" in result.stderr for name in "abc")
    assert "--kinds private" in result.stderr
    assert not list(here.glob("*.twin*"))


def test_a_declared_model_guesses_and_says_so_or_asks_for_kinds(here):
    few = ("--model", "independent", "--set", "steps=3", "--quiet", "--seed", 0)
    result = run("fit", "data.csv", "--epsilon", 1, "--kinds", "private", *few)
    assert result.exit_code == 1
    assert "--kinds declared" in result.stderr
    assert run("fit", "data.csv", "--epsilon", 1, *few).exit_code == 0
    assert GUESSED in tw.load("data.twin").statement["public"]


PREPARED = """
import numpyro, numpyro.distributions as dist


def preprocess(frame):
    return frame[[]].assign(y=frame["a"] / 50)


def model(rows):
    with rows:
        numpyro.sample("y", dist.Normal(0, 1))
"""


def test_declared_kinds_are_those_that_a_preprocess_reads_too(here):
    """It is given columns by their kinds: without noise, the third cell would turn texts into numbers, and fail it."""
    (here / "own.py").write_text(PREPARED)
    (here / "schema.toml").write_text(
        'columns.y = {kind = "number", min = 0, max = 1, decimals = 1, nullable = false}\n'
    )
    fit = ("fit", "data.csv", "--epsilon", 1, "--schema", "schema.toml", "--model", "own.py", "--set", "steps=3")
    result = run(*fit, "--quiet", "--kinds", "declared")
    assert result.exit_code == 1
    assert "preprocess" in result.stderr
    assert all(f"'{name}'" in result.stderr for name in "abc")
    assert not list(here.glob("*.twin*"))


def test_a_preprocess_reads_columns_whose_types_tell_their_kinds(here):
    from twinify_lite.request import Request

    (here / "own.py").write_text(PREPARED)
    schema = tw.Schema([tw.Column(name="y", kind="number", min=0, max=1, nullable=False)])
    asked = {"epsilon": 1.0, "delta": 1e-6, "model": "own.py", "relation": "add-remove", "target": None}
    request = Request(**asked, options=None, kinds="declared")
    ready = request.prepare(pd.DataFrame({"a": [0, 1] * 5}), schema, ())
    assert ready.table.columns == ("y",)
    assert GUESSED not in ready.taken


def test_a_dry_run_tells_the_noise_of_kinds(here):
    assert "noise of kinds" in tw.dry_run("data.csv", epsilon=1.0)
    assert "noise of kinds" not in tw.dry_run("data.csv", epsilon=1.0, kinds="guess")
    assert "\n  kinds " in run("fit", "data.csv", "--epsilon", 1, "--dry-run").stdout


def test_a_fit_whose_kinds_wait_cannot_be_resumed_with_other_constraints(here):
    from twinify_lite.request import Request

    asked = {"epsilon": 1.0, "delta": 1e-6, "model": None, "relation": "add-remove", "target": None, "options": None}
    schemas = [constrained(here, sentence) for sentence in ("a <= b", "b <= a")]
    facts = [Request(**asked).facts(Request(**asked).prepare("data.csv", schema, ())) for schema in schemas]
    assert facts[0] != facts[1]

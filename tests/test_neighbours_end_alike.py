"""A table and its neighbour end alike: exit code, errors, output and every byte of every file.

Keys are the same, and the neighbour's run is shown what the first one released (`replaying`). So nothing at all may
differ, but for what the statement lists as disclosed: `DISCLOSED` names each of those, and the words that say so.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import click
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from neighbours import HEADER, HOSTILE, SCHEMA, changed, ended, hostile, people, remove, write
from numpyro import param, plate, sample
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam
from replaying import joined_by_one, recorded

import twinify_lite as tw
from twinify_lite import auto
from twinify_lite.auto import tables
from twinify_lite.checkpoint import Checkpoint
from twinify_lite.encode import encode
from twinify_lite.errors import SchemaError
from twinify_lite.fitting import Run
from twinify_lite.models import catalogue, resolve
from twinify_lite.schema import Schema
from twinify_lite.table import read_table

ROWS = 40
DECLARED = ["--schema", "schema.toml"]
SCHEMAS = pytest.mark.parametrize("schema", [DECLARED, []], ids=["declared", "guessed"])
#: Of the hostile rows one in so many; all of them, where time does not matter.
EVERY = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
RELATIONS = pytest.mark.parametrize("relation", ["add-remove", "substitute"])


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA)


def fit(lines, *more, given=None, header=HEADER, model="auto"):
    """How a fit of a table of these lines ends."""
    write(lines, header)
    remove("data.twin", "data.twin.checkpoint")
    few = ["--set", "particles=256"] if model == "auto" else ["--set", "steps=3"]
    command = ["fit", "data.csv", "--epsilon", 3, "--delta", 1e-3, "--model", model, *few, *more]
    return ended(*command, given=given)


def require_alike(tables, *more, code=0, header=HEADER, model="auto"):
    """Refuse differences between the first table and the others."""
    first, *others = tables
    one, tape = fit(first, *more, header=header, model=model)
    assert one.code == code, one.stderr
    for lines in others:
        other, _ = fit(lines, *more, header=header, model=model, given=tape)
        assert not one.differs(other)
    return one


def hostile_neighbours(lines, relation):
    return [changed(lines, hostile(name), relation) for name in HOSTILE]


# -- the automatic model -----------------------------------------------------------------------------------------------


@SCHEMAS
@RELATIONS
@EVERY
def test_no_hostile_row_changes_how_a_fit_ends(schema, relation, every):
    lines = people(ROWS)
    neighbours = hostile_neighbours(lines, relation)[::every]
    require_alike([lines, *neighbours], *schema, "--relation", relation)


@pytest.mark.parametrize("epsilon", [0.01, 300])
@EVERY
def test_nor_with_noise_that_hides_all_or_next_to_nothing(epsilon, every):
    lines = people(ROWS)
    require_alike([lines, *hostile_neighbours(lines, "add-remove")[:: 2 * every]], *DECLARED, "--epsilon", epsilon)


@SCHEMAS
@pytest.mark.parametrize("first", [*HOSTILE][::4])
@EVERY
def test_nor_where_every_row_is_hostile(schema, first, every):
    lines = [hostile(first)] * 12
    neighbours = hostile_neighbours(lines, "add-remove")[:: 2 * every]
    require_alike([lines, *neighbours], *schema)


@SCHEMAS
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_tables_of_a_few_rows_end_as_those_of_one_more(schema, rows):
    lines = people(rows + 1)
    require_alike([lines[:rows], lines, lines[1:]], *schema)


#: Of how many cells how many are of another kind, where rules count them; the neighbour has one more of either.
THRESHOLDS = {"half": (50, 100), "3/4": (75, 100), "19/20": (95, 100), "three cells": (3, 100), "all": (100, 100)}


def split(odd, rows, cell="words"):
    """A column of numbers, of which so many are something else, with another column that is always there."""
    numbers = itertools.islice(itertools.cycle(range(1, 30)), rows - odd)
    return [*(f"{number},a" for number in numbers), *([f"{cell},b"] * odd)]


SPLIT = """
columns.x = {kind = "%s", min = 0, max = 50, nullable = %s}
columns.y = {kind = "category", levels = ["a", "b"], nullable = false}
"""


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("cell", ["words", "", *(pytest.param(one, marks=pytest.mark.slow) for one in ("1.5", "-7"))])
def test_no_share_of_cells_that_do_not_fit_is_a_threshold(threshold, cell):
    odd, rows = THRESHOLDS[threshold]
    Path("schema.toml").write_text(SPLIT % (("integer", "true") if cell else ("number", "false")))
    tables = [split(odd, rows, cell), split(odd, rows + 1, cell), split(odd + 1, rows + 1, cell)]
    require_alike(tables, *DECLARED, header="x,y")


def test_a_value_of_one_row_is_not_shown_and_changes_nothing():
    Path("schema.toml").write_text('columns.x = {kind = "category"}\n')
    require_alike([["a"] * 60, ["a"] * 60 + ["b"], ["a"] * 61], *DECLARED, header="x")


# -- an interrupted fit ------------------------------------------------------------------------------------------------


def interrupted(lines, at, *more, given=None):
    """How a fit ends that is stopped while it writes its checkpoint for the nth time, and how it ends when resumed."""
    given = given or (None, None)
    write(lines)
    remove("data.twin", "data.twin.checkpoint")
    command = ["fit", "data.csv", "--epsilon", 3, "--delta", 1e-3, *more]
    written, count = Checkpoint._write, itertools.count(1)

    def stopping(self):
        written(self)
        if next(count) == at:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "_write", stopping)
        stopped = ended(*command, given=given[0])
    resumed = ended(*command, "--resume", given=given[1])
    return [stopped[0], resumed[0]], [stopped[1], resumed[1]]


@pytest.mark.parametrize("at", [1, 2, 3, 4])
@SCHEMAS
def test_an_interrupted_fit_ends_alike_and_goes_on_alike(at, schema):
    lines = people(ROWS)
    ones, tapes = interrupted(lines, at, *schema)
    assert [one.code for one in ones] == [130, 0]
    assert "data.twin.checkpoint" in ones[0].files
    for name in ("large", "a long text"):
        others, _ = interrupted(changed(lines, hostile(name), "add-remove"), at, *schema, given=tapes)
        assert [one.differs(other) for one, other in zip(ones, others, strict=True)] == [[], []]


# -- discovery ---------------------------------------------------------------------------------------------------------


def discovered(lines, schema, relation, given=None):
    """All that `discover` returns, and what its ledger says."""
    write(lines)
    ledger = tw.Ledger(3.0, 1e-3, relation=relation)
    with recorded(given) as tape:
        found = tw.discover("data.csv", schema, ledger=ledger, share=1.0)
    return (found.schema.to_toml(), found.rows, found.notes, str(ledger.statement())), tape


KINDS = {"age": "integer", "cost": "number", "sex": "category", "seen": "datetime", "ill": "boolean"}
OPEN = "\n".join(f'columns.{name} = {{kind = "{kind}"}}' for name, kind in KINDS.items())


@RELATIONS
@pytest.mark.parametrize("rows", [1, 2, ROWS, 1000])
@EVERY
def test_what_is_discovered_does_not_hang_on_a_hostile_row(relation, rows, every):
    lines, schema = people(rows), Schema.from_toml(OPEN)
    one, tape = discovered(lines, schema, relation)
    for neighbour in hostile_neighbours(lines, relation)[::every]:
        assert discovered(neighbour, schema, relation, given=tape)[0] == one


# -- a private score ---------------------------------------------------------------------------------------------------


def score(lines, *more, given=None):
    write(lines)
    return ended("score", "data.csv", "synthetic.csv", "--private", 1, "--json", *more, given=given)


@pytest.mark.parametrize("more", [DECLARED, [], ["--target", "ill"], ["--target", "cost"]], ids=" ".join)
@EVERY
def test_a_private_score_ends_alike(more, every):
    write(people(60, seed=1), name="synthetic.csv")
    for rows in (1, 2, ROWS):
        lines = people(rows)
        one, tape = score(lines, *more)
        assert one.code == 0, one.stderr
        for neighbour in hostile_neighbours(lines, "add-remove")[:: every if rows == ROWS else 4 * every]:
            assert not one.differs(score(neighbour, *more, given=tape)[0])


# -- declared models ---------------------------------------------------------------------------------------------------

NUMBERS = 'columns.age = {kind = "integer", min = 0, max = 90, nullable = false}\n'
ARRAYS = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

CLOSED_OVER = jnp.linspace(0.5, 1.5, 40)


def model(rows, *, by_keyword=(0.5, 1.5) * 20):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with rows:
        numpyro.sample("age", dist.Normal(mean * CLOSED_OVER.mean() * jnp.array(by_keyword).mean(), 0.5))
"""
PREPROCESSED = """
import numpyro
import numpyro.distributions as dist


def preprocess(frame):
    frame["age"] = [made(age) for age in frame["age"]]
    return frame


def made(age):
    if isinstance(age, str) and len(age) > 1000:
        raise ValueError(age)
    return age


def model(rows):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with rows:
        numpyro.sample("age", dist.Normal(mean, 0.5))
"""
MECHANISM = tw.PoissonGaussian(noise_multiplier=50.0, sampling_rate=0.5, steps=3)
GRID, OUTSIDE = jnp.linspace(0, 1, 40), jnp.linspace(0, 1, 41)
OWN = {"arrays": ARRAYS, "preprocessed": PREPROCESSED}


def require_steps_alike(tables, model, header, *more):
    """The same for models that are fitted in steps, of tables that have one row more each."""
    first, *others = tables
    more = [*DECLARED, *more]
    one, tape = fit(first, *more, header=header, model=model)
    assert one.code == 0, one.stderr
    for lines in others:
        with joined_by_one(len(first), place=7):
            other, _ = fit(lines, *more, header=header, model=model, given=tape)
        assert not one.differs(other)


def ages(rows):
    return [line.partition(",")[0] for line in people(rows)]


def test_a_table_as_long_as_the_arrays_of_its_model_ends_as_its_neighbour():
    Path("schema.toml").write_text(NUMBERS)
    Path("own.py").write_text(ARRAYS)
    require_steps_alike([ages(40), [*ages(40), "1e38"]], "own.py", "age")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 39, 40])
@pytest.mark.parametrize("own", OWN)
def test_own_models_end_alike(own, rows):
    Path("schema.toml").write_text(NUMBERS)
    Path("own.py").write_text(OWN[own])
    tables = [ages(rows), *([*ages(rows), HOSTILE[name]] for name in ("nothing", "large", "a long text"))]
    require_steps_alike(tables, "own.py", "age")


def grid_model(xs, N, grid):
    mean = sample("mean", dist.Normal(grid.mean() + OUTSIDE.mean(), 1))
    with plate("rows", N, xs.shape[0]):
        sample("xs", dist.Normal(mean, 1), obs=xs)


def grid_guide(xs, N, grid):
    sample("mean", dist.Normal(param("loc", jnp.zeros(())), 1))


def test_dpsvi_begins_alike_on_tables_as_long_as_public_arrays():
    begun = []
    for rows in (len(GRID), len(OUTSIDE)):
        receipt = tw.Ledger(1.0, 1e-6).spend(MECHANISM, "DPSVI")
        svi = tw.DPSVI(grid_model, grid_guide, Adam(0.1), Trace_ELBO(), receipt, 100, grid=GRID)
        with recorded() as tape:
            state = svi.init(jax.random.key(0), jnp.full(rows, 1e38))
        leaves = jax.tree.leaves((state.optim_state, state.clip_norm))
        begun.append(([np.asarray(leaf).tolist() for leaf in leaves], svi._width(svi._ready()), tape.trace))
    assert begun[0] == begun[1]


TEMPLATES = [name for name, _ in catalogue.templates() if name != "auto"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_a_template_is_given_has_the_same_shape_and_is_finite_whatever_a_row_holds(name):
    schema = Schema.load("schema.toml")
    declared = resolve(name, schema)
    program, *_ = declared._program(schema, declared.plan(schema, ROWS))
    shapes = set()
    for line in ["", *(hostile(one) for one in HOSTILE)]:
        write(people(ROWS) + [line] * bool(line))
        columns = program.encode(encode(schema, read_table("data.csv")))
        assert {len(column) for column in columns.values()} == {ROWS + bool(line)}
        assert all((column == column).all() for column in columns.values())
        shapes.add(tuple((key, column.dtype, column.shape[1:]) for key, column in columns.items()))
    assert len(shapes) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("cell", ["nothing", "large", "a long text"])
def test_templates_end_alike(name, cell):
    lines = people(ROWS)
    require_steps_alike([lines, changed(lines, hostile(cell), "add-remove")], name, HEADER)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 4])
def test_an_interrupted_fit_of_a_template_goes_on_alike(at):
    lines = people(ROWS)
    more = [*DECLARED, "--model", "independent", "--set", "steps=3"]
    ones, tapes = interrupted(lines, at, *more)
    assert [one.code for one in ones] == [130, 0]
    with joined_by_one(ROWS, place=7):
        others, _ = interrupted([*lines, hostile("large")], at, *more, given=tapes)
    assert [one.differs(other) for one, other in zip(ones, others, strict=True)] == [[], []]


# -- what is disclosed -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Disclosed:
    """Two neighbours that end in two ways, before anything is paid for, and the words of the statement that say so."""

    words: str
    one: list[str]
    other: list[str]
    header: str = HEADER
    more: tuple = ()


DISCLOSED = {
    "that there are rows": Disclosed("that it has rows", people(1), []),
    "that all rows can be read": Disclosed("all of which can be read", people(3), [*people(3), "1,2"]),
    "the separator": Disclosed("the separator of the file", ["1;2,3"], ["1;2,3", "1;2"], header="x;y,z"),
    "the number of rows that are replaced": Disclosed(
        "the number of rows", people(3), people(4), more=("--relation", "substitute", *DECLARED)
    ),
    "guessed kinds": Disclosed(
        "guessed from the cells by votes with thresholds, some as low as three cells",
        ["1,a", "2,b"],
        ["1,a", "2,b", "3,a"],
        header="x,y",
        more=("--kinds", "guess"),
    ),
}


@pytest.mark.parametrize("what", DISCLOSED)
def test_what_is_disclosed_is_there_and_is_told(what):
    case = DISCLOSED[what]
    one, tape = fit(case.one, *case.more, header=case.header)
    assert one.code == 0, one.stderr
    assert case.words in one.public()
    # Though it is shown what the first one released.
    other, _ = fit(case.other, *case.more, header=case.header, given=tape)
    assert one.differs(other)


def test_the_types_of_a_frame_are_disclosed_and_told():
    whole, lacking = (pd.DataFrame({"x": cells, "y": ["a"] * 4}) for cells in ([1, 2, 3, 4], [1, 2, 3, None]))
    one, other = (tw.fit(frame, epsilon=1.0) for frame in (whole, lacking))
    assert [twin.schema["x"].dtype for twin in (one, other)] == ["int64", "double"]
    for twin in (one, other):
        assert "for a DataFrame may tell that whole numbers have missing cells" in "; ".join(twin.statement["public"])


# -- what is planted ---------------------------------------------------------------------------------------------------


def refusing(encode):
    """Refuse a column by how many of its cells fit, as a fit once did."""

    def refused(schema, table, **how):
        cells = table.reveal()["age"].to_pylist()
        if 2 * sum(not cell.isdigit() for cell in cells) > len(cells):
            raise SchemaError("Most cells of 'age' do not fit.")
        return encode(schema, table, **how)

    return refused


def telling(encode):
    """Say so on stderr where a cell is odd."""

    def told(schema, table, **how):
        if "inf" in table.reveal()["cost"].to_pylist():
            click.echo("An infinite cost was left out.", err=True)
        return encode(schema, table, **how)

    return told


def ending(pairs):
    """Look at no pairs of columns where the number of rows is odd."""

    def ended(self, settings, schema, receipts, columns, *rest):
        return {} if len(columns[0]) % 2 else pairs(self, settings, schema, receipts, columns, *rest)

    return ended


def widening(release):
    """Have the noise follow the exact number of rows."""

    def widened(receipt, tables, weights):
        tables = list(tables)
        return release(receipt, tables, [1.0 + tables[0].sum() % 2, *weights[1:]])

    return widened


def keeping(keep):
    """Keep an exact count in the checkpoint, and so in the notes."""

    def kept(self, ready):
        found = keep(self, ready)
        self.checkpoint.facts["notes"] = [f"{ready.table.reveal().num_rows} rows were read."]
        return found

    return kept


ODD_AGES = ["x,5.0,f,2020-05-05,no"] * 20
PLANTS = {
    "a refusal": (auto, "encode", refusing, [*people(20), *ODD_AGES], ODD_AGES[0]),
    "a word on stderr": (auto, "encode", telling, people(ROWS), hostile("endless")),
    "a release that is left out": (auto.Auto, "_pairs", ending, people(ROWS), people(1)[0]),
    "noise by the exact count": (tables, "release", widening, people(ROWS), people(1)[0]),
    "an exact count in a note": (Run, "discover", keeping, people(ROWS), people(1)[0]),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_leak_that_is_planted_is_seen(plant, monkeypatch):
    place, name, leaking, lines, line = PLANTS[plant]
    monkeypatch.setattr(place, name, leaking(getattr(place, name)))
    one, tape = fit(lines, *DECLARED)
    assert one.code == 0, one.stderr
    other, _ = fit([*lines, line], *DECLARED, given=tape)
    assert one.differs(other)

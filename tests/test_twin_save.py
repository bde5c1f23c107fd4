"""A twin in a file: it comes back as it was, and a file of parts that do not fit together is refused."""

import copy
import dataclasses
import os

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import artifact
from twinify_lite.errors import ArtifactError, TableError, TwinError
from twinify_lite.schema import Column, Schema
from twinify_lite.verification import verify

SCRIPT = "<script>alert('x')</script>"
SCHEMA = Schema(
    [
        Column(name="age", kind="integer", min=0, max=9, nullable=True),
        Column(name=SCRIPT, kind="category", levels=("a", "b & c"), nullable=False),
        Column(name="cost", kind="number", min=0, max=100, decimals=2, nullable=False),
    ]
)


@pytest.fixture(scope="module")
def twin():
    rng = np.random.default_rng(0)
    age = rng.integers(0, 10, 800)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(800) < 0.1, np.nan, age),
            SCRIPT: np.where(age < 5, "a", "b & c"),
            "cost": np.where(age < 3, 0.0, rng.uniform(0, 100, 800).round(2)),
        }
    )
    return tw.fit(frame, epsilon=5, schema=SCHEMA, options={"particles": 2048})


@pytest.fixture(scope="module")
def file(twin, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "data.twin"
    twin.save(path)
    return path


# -- there and back ----------------------------------------------------------------------------------------------------


def test_a_twin_comes_back_and_gives_the_same_rows(twin, file):
    again = tw.load(file)
    assert again.sample(2000, seed=3).equals(twin.sample(2000, seed=3))
    assert again.sample(20, seed=3, where={"age": 2}).equals(twin.sample(20, seed=3, where={"age": 2}))


def test_draws_of_the_posterior_come_back_up_to_the_rounding_of_its_numbers(twin, file):
    one, other = (made.sample(2000, seed=3, dataset=3) for made in (twin, tw.load(file)))
    same = (one == other) | (one.isna() & other.isna())
    assert same.all(axis=1).mean() > 0.98


def test_all_else_comes_back_too(twin, file):
    again = tw.load(file)
    assert again.schema == twin.schema
    assert again.statement == twin.statement
    assert (again.rows, again.notes, again.is_private) == (twin.rows, twin.notes, True)
    assert repr(again) == repr(twin)
    assert again.fitted.describe() == twin.fitted.describe()
    assert verify(again.statement).private


def test_a_twin_that_came_back_is_saved_as_the_same_bytes(file, tmp_path):
    tw.load(file).save(tmp_path / "again.twin")
    assert (tmp_path / "again.twin").read_bytes() == file.read_bytes()


def test_saving_replaces_a_file_whole_or_not_at_all(twin, file, tmp_path, monkeypatch):
    path = tmp_path / "data.twin"
    path.write_text("another")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(TableError, match="disk is full"):
            twin.save(path)
    assert path.read_text() == "another"
    twin.save(path)
    assert path.read_bytes() == file.read_bytes()
    assert os.listdir(tmp_path) == ["data.twin"]


@pytest.mark.parametrize("path", [3, None, b"data.twin", "", "a\0b"], ids=repr)
def test_what_is_no_path_is_refused(twin, path):
    with pytest.raises(ArtifactError):
        twin.save(path)
    with pytest.raises(ArtifactError):
        tw.load(path)


def test_a_twin_holds_no_more_than_its_parts(file):
    members = artifact.read(file)
    rest = [name for name in members if not name.startswith("arrays/")]
    assert sorted(rest) == ["fitted.json", "schema.toml", "statement.json", "twin.json"]
    kinds = {name.removeprefix("arrays/").split(".")[0] for name in members} - {"fitted", "schema", "statement", "twin"}
    assert kinds == {"bias", "effects", "level", "line", "shares", "spread", "weight"}


def test_a_twin_cannot_be_changed(twin):
    with pytest.raises(AttributeError):
        twin.rows = 3
    with pytest.raises(AttributeError):
        twin.fitted.links = ()


# -- in words ----------------------------------------------------------------------------------------------------------


def test_a_line_a_page_and_a_table_say_what_is_guaranteed(twin):
    assert repr(twin).startswith("Twin(auto")
    assert "3 columns" in repr(twin)
    assert "epsilon=5, delta=1e-06" in repr(twin)
    page = twin.describe()
    assert "(5, 1e-06)-DP, add-remove, one row is one person" in page
    assert "cost  " in page
    assert all(len(line) == len(line.rstrip()) for line in page.splitlines())


def test_a_page_names_what_is_left_out_and_says_what_to_do_before_it_lists_what_is_public(twin):
    columns = [
        Column(name="id", kind="identifier"),
        Column(name="key", kind="identifier", sample="surrogate"),
        Column(name="ward", kind="category", levels=("a",), other="other", nullable=True),
    ]
    schema = dataclasses.replace(twin.schema, columns=(*twin.schema.columns, *columns))
    lines = dataclasses.replace(twin, schema=schema, notes=("Left out (1): 'id'.",)).describe().splitlines()
    said = {line.split()[0]: " ".join(line.split()[2:]) for line in lines if line}
    assert (said["id"], said["key"], said["ward"]) == (
        "left out",
        "made up anew",
        "1 level and 'other', can be missing",
    )
    assert lines[-3:-1] == ["Left out (1): 'id'.", ""]
    assert lines[-1].startswith("Public: ")


def test_a_page_and_a_table_say_that_the_guarantee_is_the_files_own_word(twin):
    assert "`twin verify` recomputes it" in twin.describe()
    assert "`twin verify` recomputes it" in twin._repr_html_()
    seeded = dataclasses.replace(twin, statement=dict(twin.statement) | {"private": False, "why_not": "a test"})
    assert "verify" not in seeded.describe()


def test_html_is_escaped(twin):
    shown = twin._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert shown.startswith("<table>")
    noted = dataclasses.replace(twin, notes=("Left out (1): '<b>'.",))._repr_html_()
    assert noted.endswith("<ul><li>Left out (1): &#x27;&lt;b&gt;&#x27;.</li></ul>")


def test_a_column_takes_one_line_of_the_page_whatever_its_name(twin):
    schema = dataclasses.replace(twin.schema, columns=(Column(name="a\nb\x1b[31m", kind="identifier"),))
    assert "a\\nb\\x1b[31m  identifier  left out" in dataclasses.replace(twin, schema=schema).describe().splitlines()


def test_a_model_that_an_automatic_twin_does_not_need_is_refused(twin, tmp_path):
    twin.save(tmp_path / "a.twin")
    with pytest.raises(TwinError, match="needs no other"):
        tw.load(tmp_path / "a.twin", model=tmp_path / "gone.py")


# -- hostile files -----------------------------------------------------------------------------------------------------


def forged(file, tmp_path, change):
    """A twin with a manifest that is consistent, whose parts were changed."""
    members = artifact.read(file)
    parts = {name: artifact.json_from_bytes(data) for name, data in members.items() if name.endswith(".json")}
    arrays = {
        name.removeprefix("arrays/").removesuffix(".npy"): artifact.array_from_bytes(data).copy()
        for name, data in members.items()
        if name.startswith("arrays/")
    }
    texts = {"schema.toml": members["schema.toml"].decode()}
    parts = copy.deepcopy(parts)
    change(parts, arrays, texts)
    made = {name: artifact.json_bytes(value) for name, value in parts.items()}
    made |= {f"arrays/{name}.npy": artifact.array_bytes(array) for name, array in arrays.items()}
    made |= {name: text.encode() for name, text in texts.items()}
    artifact.write(tmp_path / "forged.twin", made)
    return tmp_path / "forged.twin"


def links(parts):
    return parts["fitted.json"]["links"]


def first(arrays, kind):
    return next(name for name in sorted(arrays) if name.startswith(f"{kind}."))


def put(kind, change):
    """Change the first array of a kind."""

    def changed(_parts, arrays, _texts):
        name = first(arrays, kind)
        arrays[name] = change(arrays[name])

    return changed


def of(value):
    def filled(array):
        array = array.copy()
        array.flat[0] = value
        return array

    return filled


def cyclic(parts, arrays, _texts):
    child, parent = links(parts)[-1]["column"], links(parts)[0]["column"]
    for kind in ("effects", "spread"):
        arrays[f"{kind}.{parent}.{child}"] = arrays[f"{kind}.{child}.{parent}"].T
    links(parts)[0]["parents"] = [child]


KINDS = ("bias", "effects", "level", "line", "shares", "spread", "weight")
FORGERIES = {
    **{f"no {kind}": lambda p, a, t, kind=kind: a.pop(first(a, kind)) for kind in KINDS},
    **{f"{kind} of another length": put(kind, lambda array: array[:-1]) for kind in KINDS},
    **{f"{kind} with another axis": put(kind, lambda array: array[None]) for kind in KINDS},
    **{f"{kind} without axes": put(kind, lambda array: array.reshape(-1)[0]) for kind in KINDS},
    **{f"NaN in {kind}": put(kind, of(np.nan)) for kind in ("bias", "effects", "shares", "spread", "weight")},
    **{f"infinity in {kind}": put(kind, of(np.inf)) for kind in ("bias", "effects", "shares", "spread", "weight")},
    **{
        f"whole numbers in {kind}": put(kind, lambda array: np.ones_like(array, np.int64))
        for kind in ("bias", "effects", "shares", "spread", "weight")
    },
    "a negative weight": put("weight", of(-0.5)),
    "a level that there is not": put("level", of(99)),
    "a negative level": put("level", of(-1)),
    "levels that are no whole numbers": put("level", lambda array: array.astype(np.float64)),
    "lines that are no whole numbers": put("line", lambda array: array.astype(np.float32)),
    "parents in a circle": cyclic,
    "a column that is its own parent": lambda p, a, t: links(p)[0].update(parents=[links(p)[0]["column"]]),
    "a parent that there is not": lambda p, a, t: links(p)[-1].update(parents=[7]),
    "a column twice": lambda p, a, t: links(p).append(dict(links(p)[0])),
    "a column that there is not": lambda p, a, t: links(p)[0].update(column=9),
    "a column in words": lambda p, a, t: links(p)[0].update(column="first"),
    "no links": lambda p, a, t: links(p).clear(),
    "links that are no list": lambda p, a, t: p["fitted.json"].update(links=3),
    "a link that is none": lambda p, a, t: links(p).__setitem__(0, "x"),
    "other bins": lambda p, a, t: p["fitted.json"]["settings"].update(bins=8),
    "no bins": lambda p, a, t: p["fitted.json"]["settings"].pop("bins"),
    "bins of nothing": lambda p, a, t: p["fitted.json"]["settings"].update(bins=0),
    "too many bins": lambda p, a, t: p["fitted.json"]["settings"].update(bins=10**9),
    "bins in words": lambda p, a, t: p["fitted.json"]["settings"].update(bins="16"),
    "no settings": lambda p, a, t: p["fitted.json"].pop("settings"),
    "a fit that is a list": lambda p, a, t: p.update({"fitted.json": []}),
    "an unknown kind": lambda p, a, t: p["twin.json"].update(fitted="pickle"),
    "no kind": lambda p, a, t: p["twin.json"].pop("fitted"),
    "facts that are a list": lambda p, a, t: p.update({"twin.json": [1]}),
    "rows in words": lambda p, a, t: p["twin.json"].update(rows="many"),
    **{
        f"rows of {rows}": lambda p, a, t, rows=rows: p["twin.json"].update(rows=rows)
        for rows in (-5, 0, 2.5, True, 10**12)
    },
    "no rows": lambda p, a, t: p["twin.json"].pop("rows"),
    "notes that are none": lambda p, a, t: p["twin.json"].update(notes=3),
    "a statement that is a list": lambda p, a, t: p.update({"statement.json": []}),
    "no epsilon": lambda p, a, t: p["statement.json"].pop("epsilon"),
    "epsilon in words": lambda p, a, t: p["statement.json"].update(epsilon="small"),
    "private in words": lambda p, a, t: p["statement.json"].update(private="yes"),
    "no stages": lambda p, a, t: p["statement.json"].update(stages=3),
    "a schema without columns": lambda p, a, t: t.update({"schema.toml": "rows = 5"}),
    "another schema": lambda p, a, t: t.update({"schema.toml": t["schema.toml"].replace("max = 9", "max = 8")}),
    "a schema that is open": lambda p, a, t: t.update({"schema.toml": t["schema.toml"].replace("max = 9", "")}),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_parts_that_do_not_fit_together_are_refused(file, tmp_path, change):
    with pytest.raises(ArtifactError) as refused:
        tw.load(forged(file, tmp_path, change))
    assert "again" in str(refused.value) or "cannot be read" in str(refused.value)


def test_what_is_no_schema_is_refused(file, tmp_path):
    with pytest.raises(TwinError):
        tw.load(forged(file, tmp_path, lambda p, a, t: t.update({"schema.toml": "x = [[["})))


def test_parts_that_were_not_changed_are_loaded(file, tmp_path):
    assert tw.load(forged(file, tmp_path, lambda *_: None)).is_private


@pytest.mark.parametrize("spent", [False, True])
def test_a_statement_that_cannot_be_shown_is_refused(file, tmp_path, spent):
    def change(parts, _arrays, _texts):
        (parts["statement.json"]["spent"] if spent else parts["statement.json"])["delta"] = "1e-6"

    try:
        twin = tw.load(forged(file, tmp_path, change))
    except ArtifactError:
        return
    repr(twin)
    twin.describe()


@pytest.mark.parametrize("value", [0.0, -0.5])
def test_shares_of_nothing_or_less_are_refused(file, tmp_path, value):
    with pytest.raises(ArtifactError):
        tw.load(forged(file, tmp_path, put("shares", of(value))))

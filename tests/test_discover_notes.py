"""What discovery tells of columns in which it found little: only what is true of them."""

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import Column, Ledger, Schema, discover

ROWS = 20_000


def told(cells, *columns):
    schema = Schema(columns) if columns else None
    return discover(pd.DataFrame({"x": cells}), schema, ledger=Ledger(5.0)).notes


SINGLE = {
    "a constant": np.full(ROWS, 7.5),
    "zeros and few ones": (np.arange(ROWS) % 1000 == 0).astype(int),
    "a day": pd.Series(pd.Timestamp("2020-05-05"), index=range(ROWS)),
}


@pytest.mark.parametrize("cells", SINGLE.values(), ids=SINGLE)
def test_single_values_are_not_said_to_be_one_number_nor_to_have_others(cells):
    (note,) = [note for note in told(cells) if "single" in note]
    assert note.startswith("Only single values found (1): 'x'. If there are others, declare `min` and `max`")


def test_a_declared_bound_beyond_what_was_found_is_not_called_a_single_value():
    notes = told(np.arange(ROWS) % 1000 / 10, Column(name="x", kind="number", min=500))
    assert any(note.startswith("The declared `min` or `max` lies beyond all that was found (1): 'x'") for note in notes)
    assert not any("single" in note for note in notes)


def test_a_column_of_missing_cells_and_unfound_values_is_not_said_to_be_all_missing():
    texts = pd.Series([None if row % 10 == 0 else f"name {row}" for row in range(ROWS)], dtype="string")
    (note,) = [note for note in told(texts, Column(name="x", kind="category")) if "Left out" in note]
    assert "In them missing cells were found, but no level or range" in note
    assert "Nothing but" not in note


@pytest.mark.parametrize("beside", [1, 8])
@pytest.mark.parametrize("kind", ["category", "number", "datetime"])
def test_a_column_that_is_missing_in_every_row_comes_back_so(kind, beside):
    frame = pd.DataFrame({f"c{number}": ["a", "b"] * (ROWS // 2) for number in range(beside)})
    frame["x"] = pd.Series([None] * ROWS, dtype="string")
    frame["half"] = pd.Series([None, "y"] * (ROWS // 2)).where(np.arange(ROWS) % 4 < 2)
    twin = tw.fit(frame, epsilon=5, schema=Schema([Column(name="x", kind=kind)]), options={"particles": 256})
    assert twin.schema["x"] == Column(name="x", kind="constant", nullable=True, dtype=twin.schema["x"].dtype)
    rows = twin.sample(50)
    assert list(rows) == list(frame)
    assert rows["x"].isna().all()
    assert any(note.startswith("Missing in every row (1): 'x'") for note in twin.notes)
    assert twin.schema["half"].kind == "category"
    assert Schema.from_toml(twin.schema.to_toml()) == twin.schema


def test_a_large_table_of_missing_cells_is_not_called_small():
    assert not any("small for this epsilon" in note for note in told(pd.Series([None] * ROWS, dtype="string")))


def test_a_table_of_missing_cells_ends_in_a_twin_of_missing_cells():
    frame = pd.DataFrame({"a": pd.Series([None] * ROWS, dtype="string"), "b": pd.Series([np.nan] * ROWS)})
    twin = tw.fit(frame, epsilon=5, options={"particles": 256})
    assert [column.is_modelled for column in twin.schema.columns] == [True, True]
    assert twin.sample(500, seed=1).isna().mean().min() > 0.9
    assert any(note.startswith("Without levels (1): 'a'.") for note in twin.notes)
    assert any(note.startswith("Guessed ranges (1): 'b'.") for note in twin.notes)


def test_the_order_of_a_categorical_is_not_taken_from_its_type_and_the_user_is_told():
    cells = pd.Categorical(["lo", "hi"] * (ROWS // 2), categories=["lo", "hi"], ordered=True)
    assert any("'x' is an ordered categorical" in note for note in told(cells))
    declared = Column(name="x", kind="ordinal", levels=("lo", "hi"), nullable=False)
    assert told(cells, declared) == ()

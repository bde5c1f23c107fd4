"""A true constraint leaves every column its shares; one that does not is told."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.auto.chain import Link
from twinify_lite.auto.constrained import moved_beyond
from twinify_lite.auto.fitted import Chained
from twinify_lite.auto.levels import Levels
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.constraints import Constraint


def category(name, count, **keys):
    levels = tuple(f"{name}{number}" for number in range(count))
    return Column(name=name, kind="category", levels=levels, nullable=False, **keys)


def chained(table, of_code, spread, constraint, **keys):
    """A chain of `street` and `town`, whose levels go together as in `table`; the codes of streets have levels."""
    rows, columns = table.sum(1) / table.sum(), table.sum(0) / table.sum()
    effects = np.log(np.maximum(table, 1e-9) / table.sum(1, keepdims=True)) - np.log(columns)
    levels = (
        Levels(of_code, 1 / np.bincount(of_code)[of_code], np.full(len(rows), -1)),
        Levels(np.arange(len(columns)), np.ones(len(columns)), np.full(len(columns), -1)),
    )
    streets = category("street", len(of_code) - ("other" in keys), **keys)
    schema = Schema((streets, category("town", len(columns))), (Constraint.parse(constraint),))
    links = (
        Link(0, (), np.log(rows), (), (), rows),
        Link(1, (0,), np.log(columns), (effects,), (np.zeros_like(effects),), columns),
    )
    spreads = (np.full(len(rows), spread), np.full(len(columns), spread))
    return Chained(schema, levels, links, {"rows": 1000, "bins": 16, "measured_pairs": 1}, spreads=spreads)


TOWNS = np.array([[300.0, 0, 0, 0], [0, 300, 0, 0], [100, 100, 100, 100]])
POOLED = np.array([0, 1, *[2] * 40])


def town_shares(fitted):
    rng = np.random.default_rng(0)
    table = fitted.generate(20_000, dataset=0, rng=rng, total=20_000).to_pandas()
    return table, table["town"].value_counts(normalize=True).sort_index().to_numpy()


def test_streets_that_noise_has_pooled_do_not_all_get_one_town():
    fitted = chained(TOWNS, POOLED, 0.01, "street determines town")
    table, shares = town_shares(fitted)
    assert shares == pytest.approx([0.4, 0.4, 0.1, 0.1], abs=0.02)
    told = table[table["street"].isin(["street0", "street1"])]
    assert told.groupby("street")["town"].nunique().to_list() == [1, 1]
    (note,) = fitted.notes()
    assert note.startswith("Constraint \"street determines town\" is not applied to 40 values of 'street'")


def test_streets_that_are_none_of_the_levels_do_not_all_get_one_town():
    fitted = chained(TOWNS, np.arange(3), 0.01, "street determines town", other="elsewhere")
    table, shares = town_shares(fitted)
    assert shares == pytest.approx([0.4, 0.4, 0.1, 0.1], abs=0.02)
    assert set(table.loc[table["street"] == "elsewhere", "town"]) == {f"town{number}" for number in range(4)}
    assert fitted.notes() == ()


@pytest.mark.parametrize(("spread", "is_told"), [(0.001, True), (0.2, False)])
def test_a_constraint_that_makes_towns_vanish_is_told_unless_noise_does_as_much(spread, is_told):
    fitted = chained(TOWNS, np.arange(3), spread, "street determines town")
    notes = fitted.notes()
    assert bool(notes) == is_told
    if is_told:
        assert notes[0].startswith("Constraints change how frequent values are, by more than noise does (1): ")
        assert '"street determines town" moves' in notes[0]
        assert "of 'town'. Either they are not true" in notes[0]
        assert not any(f"town{number}" in notes[0] or f"street{number}" in notes[0] for number in range(4))


def test_only_the_constraint_and_the_column_that_change_are_named():
    fitted = chained(TOWNS, np.arange(3), 0.001, "street determines town")
    more = (*fitted.schema.constraints, Constraint.parse("if town == 'town0' then street == 'street0'"))
    (note,) = dataclasses.replace(fitted, schema=dataclasses.replace(fitted.schema, constraints=more)).notes()
    assert "(2): " in note
    assert "of 'town', " in note
    assert "of 'street'. " in note


def test_rows_that_change_places_move_no_share():
    before = np.repeat([0, 1, 2], 1000)
    assert moved_beyond(before, before[::-1], np.full(3, 1e-3)) is None
    assert moved_beyond(before, np.minimum(before, 1), np.full(3, 1e-3)) == pytest.approx(1 / 3)
    assert moved_beyond(before, np.minimum(before, 1), np.full(3, 0.5)) is None


def test_a_twin_keeps_towns_whose_streets_are_not_declared():
    """100 streets, of which three are declared, each in one of 20 towns."""
    rng = np.random.default_rng(0)
    street = rng.integers(0, 100, 4000)
    frame = pd.DataFrame({"street": [f"street{one}" for one in street], "town": [f"town{one % 20}" for one in street]})
    columns = (category("street", 3, other="elsewhere"), category("town", 20))
    schema = Schema(columns, (Constraint.parse("street determines town"),))
    twin = tw.fit(frame, epsilon=3.0, schema=schema, insecure_seed=0)
    drawn = twin.sample(4000, seed=0)["town"].value_counts(normalize=True)
    assert len(drawn) == 20
    assert drawn.min() > 0.02

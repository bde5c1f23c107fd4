"""The discrete view: bins, heaps and levels, and what is drawn within them."""

import numpy as np
import pytest
from encode_cases import back, integer, of, same

from twinify_lite.cells import MISSING, VALUE
from twinify_lite.encode import decode, encode, layout
from twinify_lite.encode.layout import from_codes
from twinify_lite.schema import Column, Schema

# -- the discrete layout ----------------------------------------------------------------------------------------------


def test_codes_are_bins_then_heaps_then_special_values_then_missing():
    column = integer(heaps=(40, 0), special=("N", -1))
    plan = layout(column, 10)
    assert (plan.bins, plan.heaps.tolist(), plan.specials, plan.missing, plan.size) == (10, [0, 40], 2, 14, 15)
    assert plan.edges.tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 101]
    cells = ["1", "40", "0", "N", "-1", None, "41", "100"]
    assert of(column, cells, view="discrete", bins={"x": 10})["x"].tolist() == [0, 11, 10, 12, 13, 14, 4, 9]


def test_a_bin_for_each_step_where_these_are_few_and_then_none_for_heaps():
    plan = layout(integer(min=1, max=5, heaps=(3,)), 5)
    assert (plan.bins, plan.edges.tolist(), plan.heaps.tolist()) == (5, [1, 2, 3, 4, 5, 6], [])


def test_edges_lie_on_the_grid_of_the_decimals():
    column = Column(name="x", kind="number", min=0, max=0.7, decimals=1, nullable=False)
    np.testing.assert_array_equal(layout(column, 4).edges, [0, 0.2, 0.4, 0.6, 0.8])


def test_edges_of_a_log_scale_grow_and_hold_a_step_each():
    edges = layout(integer(min=1, max=10**6, scale="log"), 20).edges
    ratios = edges[1:] / edges[:-1]
    assert (np.diff(edges) >= 1).all()
    assert ratios[-5:] == pytest.approx(ratios[-1], rel=1e-3)
    free = Column(name="x", kind="number", min=1e-3, max=1e3, scale="log", nullable=False)
    np.testing.assert_allclose(layout(free, 6).edges, [1e-3, 1e-2, 1e-1, 1, 10, 100, 1000])


def test_no_bin_is_left_to_heaps_alone():
    column = integer(min=0, max=9, heaps=(0, 1, 4, 5, 8, 9))
    plan = layout(column, 5)
    assert plan.edges.tolist() == [0, 6, 10]  # of the bins 01 23 45 67 89, those of heaps join the ones before
    drawn = back(column, {"x": np.repeat([0, 1], 100)}, view="discrete", bins=5, rng=np.random.default_rng(0))
    assert set(drawn[:100]) == {2, 3}
    assert set(drawn[100:]) == {6, 7}


@pytest.mark.parametrize("bins", [1, 3, 20])
@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize(
    "column",
    [
        integer(min=0, max=9, special=(5, 0, 99), heaps=(7,)),
        Column(name="x", kind="number", min=0, max=1, decimals=1, special=(0.5, 0.3), heaps=(0.52, 0.1), nullable=True),
        Column(name="x", kind="number", min=0, max=1, special=(0.5, 0.25), heaps=(0.75,), nullable=False),
    ],
)
def test_no_draw_hits_a_special_value_that_lies_within_the_range(column, bins, seed):
    plan = layout(column, bins)
    codes = {"x": np.repeat(np.arange(plan.size), 50).astype(plan.dtype)}
    rng = None if seed is None else np.random.default_rng(seed)
    schema = Schema((column,))
    same(encode(schema, decode(schema, codes, view="discrete", bins=bins, rng=rng), view="discrete", bins=bins), codes)


def test_without_a_generator_a_bin_gives_its_middle():
    assert back(integer(max=99), {"x": np.array([0, 9])}, view="discrete", bins=10) == [4, 94]
    number = Column(name="x", kind="number", min=0, max=10, nullable=False)
    assert back(number, {"x": np.array([0, 9])}, view="discrete", bins=10) == [0.5, 9.5]


def test_a_draw_is_uniform_over_the_steps_of_its_bin_that_are_no_heaps():
    column = integer(min=0, max=99, heaps=(3, 4, 17), nullable=False)
    codes = {"x": np.zeros(30_000, np.uint8)}
    drawn = np.array(back(column, codes, view="discrete", bins=5, rng=np.random.default_rng(1)))
    counts = np.bincount(drawn, minlength=20)
    assert len(counts) == 20
    assert (counts[[3, 4, 17]] == 0).all()
    expected = 30_000 / 17
    assert np.abs(np.delete(counts, [3, 4, 17]) - expected).max() < 5 * expected**0.5


def test_a_free_number_is_drawn_uniformly_and_never_equals_a_heap():
    column = Column(name="x", kind="number", min=0, max=1, heaps=(0.25, 0.75), nullable=False)
    assert back(column, {"x": np.array([0, 1])}, view="discrete", bins=2) != [0.25, 0.75]  # the middles are heaps
    codes = {"x": np.zeros(20_000, np.uint8)}
    drawn = np.array(back(column, codes, view="discrete", bins=2, rng=np.random.default_rng(1)))
    assert drawn.max() < 0.5
    assert np.abs(np.histogram(drawn, 10, (0, 0.5))[0] - 2_000).max() < 5 * 2_000**0.5


def test_one_bin_over_all_whole_numbers_of_64_bits():
    column = integer(min=-(2**63), max=2**63 - 1)
    rng = np.random.default_rng(0)
    for bins in (1, 2, 1000):
        plan = layout(column, bins)
        codes = {"x": np.arange(plan.size).astype(plan.dtype)}
        schema = Schema((column,))
        same(
            encode(schema, decode(schema, codes, view="discrete", bins=bins, rng=rng), view="discrete", bins=bins),
            codes,
        )


def test_every_step_of_a_bin_is_drawn_as_often_but_for_heaps():
    column = integer(min=0, max=6, heaps=(3,))
    found = from_codes(column, layout(column, 1), np.zeros(60_000, np.uint8), np.random.default_rng(0)).value
    counts = np.bincount(found)
    assert counts[3] == 0
    assert counts[[0, 1, 2, 4, 5, 6]] == pytest.approx(10_000, abs=500)


@pytest.mark.parametrize("high", [2**20, 2**21, 2**40], ids=str)
def test_values_lie_evenly_in_a_long_bin(high):
    column = integer(min=0, max=high - 1, heaps=(3,))
    found = from_codes(column, layout(column, 1), np.zeros(20_000, np.uint8), np.random.default_rng(0)).value
    assert found.min() >= 0
    assert found.max() < high
    places = np.linspace(0.1, 0.9, 9)
    assert np.quantile(found / high, places) == pytest.approx(places, abs=0.02)


def test_the_states_of_a_layout_are_those_of_its_codes():
    column = Column(name="x", kind="integer", min=0, max=99, nullable=True, special=(-1, "N"), heaps=(50,))
    plan = layout(column, 4)
    assert plan.states.tolist() == [VALUE] * 5 + [1, 2, MISSING]
    cells = from_codes(column, plan, np.arange(plan.size), np.random.default_rng(0))
    assert cells.state.tolist() == plan.states.tolist()
    assert cells.value[4] == 50

"""The charts of a report: bars as long as their counts, rings where figures stand, shades of distances."""

import itertools
import re
from xml.etree import ElementTree

import pytest
import scores

from twinify_lite.report.bars import MOST_BINS, MOST_ROWS, Bars, bars
from twinify_lite.report.budget import budget_chart
from twinify_lite.report.heat import heat_map, joint
from twinify_lite.report.markup import element, shown
from twinify_lite.report.positions import place, position, verdict
from twinify_lite.report.svg import WIDTH
from twinify_lite.score.result import Figure

COUNTS = ((10, 40, 0, 50), (300, 100, 200, 400))


def drawn(markup, kind="rect"):
    return list(ElementTree.fromstring(re.sub(r"^<figure>.*?</figcaption>|</figure>$", "", markup)).iter(kind))


def made(kind="category", labels=("a", "b", "c", "missing"), counts=COUNTS, **more):
    return Bars(ident="one", title="one column", kind=kind, labels=labels, counts=counts, **more)


def of(markup, kind, length):
    found = [rect for rect in drawn(markup) if rect.get("class") == kind]
    return [int(rect.get("data-n")) for rect in found], [float(rect.get(length)) for rect in found]


@pytest.mark.parametrize(("kind", "length"), [("category", "width"), ("number", "height")])
def test_bars_are_as_long_as_their_share_of_their_table(kind, length):
    picture = bars(made(kind))
    for mark, counts in zip("rs", COUNTS, strict=True):
        told, long = of(picture, mark, length)
        assert told == list(counts)
        whole = sum(long)
        assert [one / whole for one in long] == pytest.approx([count / sum(counts) for count in counts], abs=1e-3)
    lengths = [of(picture, mark, length)[1] for mark in "rs"]
    assert lengths[0][3] / lengths[1][3] == pytest.approx(0.5 / 0.4, rel=1e-3)


@pytest.mark.parametrize("kind", ["category", "number"])
def test_bars_stay_inside_their_drawing_and_do_not_cover_each_other(kind):
    for rect in drawn(bars(made(kind))):
        x, y, width = (float(rect.get(name)) for name in ("x", "y", "width"))
        assert min(x, y) >= 0
        assert x + width <= WIDTH
    tops = [float(rect.get("y")) for rect in drawn(bars(made("category")))]
    assert len(set(tops)) == len(tops)


def test_the_bars_of_one_table_alone_are_of_a_kind_of_their_own():
    told, _ = of(bars(made(counts=COUNTS[:1], names=("synthetic",))), "a", "width")
    assert told == list(COUNTS[0])


def test_many_levels_show_the_largest_in_their_order_and_the_others_as_one():
    counts = tuple(range(1, 101))
    picture = bars(made(labels=tuple(map(str, counts)), counts=(counts, counts)))
    told, _ = of(picture, "r", "width")
    kept = list(range(101 - MOST_ROWS, 101))
    assert told == [*kept, sum(counts) - sum(kept)]
    assert f"{100 - MOST_ROWS} others" in picture


def test_many_bins_are_put_together_and_missing_stays_alone():
    counts, labels = (*range(200), 7), (*map(str, range(200)), "missing")
    told, _ = of(bars(made("number", labels, (counts,), names=("synthetic",), apart=1)), "a", "height")
    assert len(told) <= MOST_BINS
    assert (told[-1], sum(told)) == (7, sum(counts))
    picture = bars(made("number", labels, (counts,), names=("synthetic",), apart=MOST_BINS + 5))
    assert len(drawn(picture)) <= 2 * MOST_BINS + 5


@pytest.mark.parametrize(
    ("labels", "apart"),
    [
        (("0 to 5", "5 to 10", "clotted", "missing"), ["clotted", "missing"]),
        (("below 1", "1 and more", "-1"), ["-1"]),
        (("1", "2", "missing"), ["missing"]),
        (("below 10", "10", "11", "12"), []),
        (("10", "11", "clotted", "missing"), ["clotted", "missing"]),
        (("1", "2", "3"), []),
    ],
)
def test_what_lies_on_no_axis_stands_apart(labels, apart):
    counts = tuple(range(1, len(labels) + 1))
    picture = bars(made("number", labels, (counts,), names=("synthetic",), apart=len(apart)))
    edges = [(float(rect.get("x")), float(rect.get("width"))) for rect in drawn(picture)]
    gaps = [after[0] - before[0] - before[1] for before, after in itertools.pairwise(edges)]
    assert [gap > 10 for gap in gaps] == [place == len(labels) - len(apart) - 1 for place in range(len(gaps))]
    assert (f"apart: {', '.join(apart)}" in picture) == bool(apart)


@pytest.mark.parametrize("kind", ["category", "number"])
def test_a_column_without_cells_is_drawn_without_bars_that_could_mislead(kind):
    _, long = of(
        bars(made(kind, counts=((0, 0, 0, 0), (0, 0, 0, 0)))), "r", "width" if kind == "category" else "height"
    )
    assert long == [0.0] * 4


def test_a_drawing_says_its_largest_bars_in_words():
    (words,) = drawn(bars(made()), "desc")
    assert "missing 50.0 % real, 40.0 % synthetic" in words.text


def figure(better, synthetic, heldout, independent):
    values = {"synthetic": synthetic, "heldout": heldout, "independent": independent}
    return Figure(key="one", name="one", group="one", better=better, what="one", **values)


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        (("lower", 0.04, 0.02, 0.10), 0.75, "75 % of the way"),
        (("higher", 0.70, 0.90, 0.50), 0.5, "50 % of the way"),
        (("lower", 0.02, 0.02, 0.10), 1.0, "As good as held-out"),
        (("lower", 0.12, 0.02, 0.10), -0.25, "No better than independent"),
        (("lower", 0.012, 0.010, 0.0101), None, "1.2 times that of held-out"),
        (("lower", 0.010, 0.010, 0.0101), None, "As good as held-out"),
        (("lower", 0.030, 0.050, 0.020), None, "As good as held-out"),
        (("neither", 0.04, 0.02, 0.10), None, ""),
        (("lower", None, 0.02, 0.10), None, ""),
        (("lower", 0.04, 0.02, float("nan")), None, "2 times that of held-out"),
    ],
)
def test_a_figure_stands_between_independent_columns_and_heldout_rows(given, where, words):
    assert place(figure(*given)) == (None if where is None else pytest.approx(where))
    assert verdict(figure(*given)).startswith(words)


@pytest.mark.parametrize("width", [132, 280])
def test_the_ring_stands_where_the_figure_does_and_never_outside_of_its_drawing(width):
    def at(synthetic):
        (ring,) = drawn(position("one", figure("lower", synthetic, 0.02, 0.10), width), "circle")
        return float(ring.get("cx"))

    worst, middle, best = at(0.10), at(0.06), at(0.02)
    assert middle == pytest.approx((worst + best) / 2)
    assert worst < middle < best
    assert 5 < at(9.0) < worst
    assert best < at(-9.0) < width - 5


def test_the_heat_map_has_a_darker_cell_for_a_larger_distance_each_in_its_place():
    pairs = [scores.pair_score(pair, tvd) for pair, tvd in {("b", "a"): 0.0, ("a", "c"): 0.3, ("b", "c"): 0.9}.items()]
    cells = drawn(heat_map(["a", "b", "c"], pairs))
    assert [(cell.get("class"), cell.get("data-tvd")) for cell in cells] == [("q0", "0"), ("q5", "0.3"), ("q6", "0.9")]
    places = [(float(cell.get("x")), float(cell.get("y"))) for cell in cells]
    assert places[0][0] == places[1][0] < places[2][0]
    assert places[0][1] < places[1][1] == places[2][1]


def test_the_heat_map_names_every_column_and_tells_a_distance_of_one():
    pairs = [scores.pair_score(("a", "b"), 1.0), scores.pair_score(("a", "c"), 0.25)]
    texts = [text.text for text in drawn(heat_map(["a", "b", "c"], pairs), "text")]
    assert {"a", "b", "c", "1.00", ".25"} <= {*texts}


def test_joint_tables_have_the_shares_of_both_tables():
    pair = scores.joint("a", "b", 2)
    told = [float(text) for text in re.findall(r'<td class="q\d">([0-9.]+)</td>', joint(pair))]
    expected = [100 * share for table in (pair.real, pair.synthetic) for line in table for share in line]
    assert told == pytest.approx(expected, abs=0.051)


def test_the_budget_has_a_bar_for_every_receipt_stage_and_the_whole():
    receipts = [{"what": "row count", "epsilon": 0.25}, {"what": "pairs", "epsilon": 0.5}]
    stages = [{"epsilon": receipt["epsilon"], "receipts": [receipt]} for receipt in receipts]
    picture = budget_chart({"epsilon": 1.0, "spent": {"epsilon": 0.75}, "stages": stages})
    found = drawn(picture)
    told = [float(bar.get("data-epsilon")) for bar in found]
    assert told == [0.25, 0.25, 0.5, 0.5, 0.75]
    long = [float(bar.get("width")) for bar in found]
    assert [one / long[0] for one in long] == pytest.approx([1, 1, 2, 2, 3], abs=1e-3)
    assert "cost less together than their sum" in picture


def test_a_budget_without_limit_is_drawn():
    stage = {"epsilon": "inf", "receipts": [{"what": "comparison", "epsilon": "inf"}]}
    picture = budget_chart({"epsilon": "inf", "spent": {"epsilon": "inf"}, "stages": [stage]})
    assert "no limit" in picture


@pytest.mark.parametrize("text", scores.HOSTILE)
def test_no_text_ends_its_element_or_adds_an_attribute(text):
    tree = ElementTree.fromstring(element("p", shown(text), class_=shown(text)))
    assert (tree.text, tree.attrib, len(tree)) == (shown(text), {"class": shown(text)}, 0)


def test_what_does_not_show_is_shown():
    assert shown("a\u202eb\x1b\n\u200b") == "a\\u202eb\\x1b\\n\\u200b"
    assert (shown(""), shown("  ")) == ("(empty)", "(blank)")
    assert len(shown("x" * 5000)) <= 100

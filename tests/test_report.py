"""The pages of a report, as text: their order, their structure, and that nothing in them can run or fetch."""

import base64
import dataclasses
import hashlib
import itertools
import json
import re
from types import SimpleNamespace

import pandas as pd
import pytest
import scores
from pages import Page

import twinify_lite as tw
from twinify_lite.errors import ArtifactError
from twinify_lite.report import score_page
from twinify_lite.report.certifying import NOT_PROMISED, PROMISED


@pytest.fixture(scope="module")
def twin():
    return tw.fit(scores.people(), epsilon=1.0, schema=scores.SCHEMA)


@pytest.fixture(scope="module")
def certified(twin):
    return tw.certificate(twin)


@pytest.fixture(scope="module", params=["score", "score and twin", "hostile", "wide", "certificate"])
def html(request, twin, certified):
    return {
        "score": lambda: score_page(scores.score()),
        "score and twin": lambda: score_page(scores.score(), twin),
        "hostile": lambda: score_page(scores.score(scores.HOSTILE)),
        "wide": lambda: score_page(scores.wide(70, 5)),
        "certificate": lambda: certified.html,
    }[request.param]()


# -- every page --------------------------------------------------------------------------------------------------------


def test_there_is_one_first_heading_and_no_level_is_left_out(html):
    levels = [int(tag[1]) for tag, _ in Page(html).starts if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_every_id_is_one_elements_and_every_reference_has_its_id(html):
    page = Page(html)
    ids = [attributes["id"] for _, attributes in page.starts if "id" in attributes]
    assert len(set(ids)) == len(ids)
    labels = [attributes["aria-labelledby"] for _, attributes in page.starts if "aria-labelledby" in attributes]
    links = [link["href"] for link in page.all("a")]
    assert all(link.startswith("#") for link in links)
    assert {part for label in labels for part in label.split()} | {link[1:] for link in links} <= set(ids)


def test_every_drawing_has_a_name_or_is_hidden_and_every_table_has_a_caption(html):
    page = Page(html)
    for svg in page.all("svg"):
        assert svg.get("aria-hidden") == "true" or (svg["role"] == "img" and svg["aria-labelledby"])
    assert len(page.all("table")) == len(page.all("caption")) > 0
    assert all(cell.get("scope") for cell in page.all("th"))


def test_landmarks_language_and_regions_that_scroll_are_named(html):
    page = Page(html)
    assert page.all("html") == [{"lang": "en"}]
    assert [len(page.all(tag)) for tag in ("main", "nav", "header", "footer")] == [1, 1, 1, 1]
    assert sum(inside == ("html", "head", "title") for inside, _ in page.texts) == 1
    regions = [attributes for _, attributes in page.starts if attributes.get("class") == "scroll"]
    assert all(region["role"] == "region" and region["aria-label"] and region["tabindex"] == "0" for region in regions)


def test_nothing_is_fetched_and_nothing_runs(html):
    page = Page(html)
    assert {tag for tag, _ in page.starts} & {"script", "link", "img", "iframe", "object", "embed", "base"} == set()
    names = {name for _, attributes in page.starts for name in attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"src", "srcset", "style", "xlink:href"})
    assert not re.search(r"https?://|url\(|@import", page.text("style"))
    assert not any(str(value).startswith("http") for _, one in page.starts for value in one.values())


def test_the_policy_allows_its_own_style_and_nothing_else(html):
    page = Page(html)
    (policy,) = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(page.text("style").encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


# -- the score ---------------------------------------------------------------------------------------------------------


def test_the_warning_is_the_first_text_of_the_page_and_of_its_title():
    score = scores.score()
    page = Page(score_page(score))
    assert page.text("body").strip().startswith(score.warning)
    assert page.text("title").startswith(score.warning)


def test_all_figures_stand_in_the_table_with_their_floors_and_ceilings():
    score = scores.score()
    html = score_page(score)
    for figure in score.figures:
        (row,) = re.findall(rf'<tr data-key="{figure.key}">.*?</tr>', html)
        values = (figure.whole, figure.synthetic, figure.heldout, figure.independent)
        shown = re.findall(r"<td[^>]*>([^<]+)</td>", row)[:4]
        assert shown == ["\N{EN DASH}" if value is None else f"{value:.4f}" for value in values]
        assert figure.what in row
    assert html.count("Not a privacy proof.") == 2


def test_every_column_is_drawn_the_worst_first():
    score = scores.score(["good", "bad", "fair"])
    distances = (0.01, 0.3, 0.1)
    columns = [dataclasses.replace(one, tvd=tvd) for one, tvd in zip(score.columns, distances, strict=True)]
    html = score_page(dataclasses.replace(score, columns=tuple(columns)))
    drawn = re.findall(r'<div class="card"><h3><bdi>(\w+)</bdi>', html)
    assert drawn == ["bad", "fair", "good"]


def test_a_page_of_thirty_columns_with_forty_levels_is_below_500_kb():
    assert len(score_page(scores.wide(30, 40)).encode()) < 500_000


def test_hundreds_of_columns_are_listed_and_the_worst_sixty_drawn():
    html = score_page(scores.wide(300, 30))
    assert html.count('class="card"') == 60
    assert all(f"<bdi>column {number}</bdi>" in html for number in range(300) if number % 4)
    assert len(html.encode()) < 1_500_000


def test_more_columns_than_the_heat_map_holds_show_those_of_the_worst_pairs():
    score = scores.wide(60, 3)
    html = score_page(score)
    first, second = max(score.pairs, key=lambda pair: pair.tvd).columns
    assert html.count("data-tvd=") == 40 * 39 / 2
    assert f"the worst, {first} and {second}, at" in html


@pytest.mark.parametrize("name", scores.HOSTILE)
def test_a_hostile_name_changes_the_text_of_a_page_and_no_element_or_attribute_of_it(name):
    page, plain = Page(score_page(scores.with_name(name))), Page(score_page(scores.with_name("name")))
    assert [tag for tag, _ in page.starts] == [tag for tag, _ in plain.starts]
    assert [sorted(attributes) for _, attributes in page.starts] == [sorted(one) for _, one in plain.starts]


@pytest.mark.parametrize("name", scores.HOSTILE)
def test_no_name_hides_or_turns_the_text_of_a_page(name):
    page = Page(score_page(scores.with_name(name)))
    said = page.text().replace("\n", "")
    assert said.isprintable()
    assert "x" * 2000 not in said


def test_a_score_without_pairs_or_cells_is_still_a_page():
    empty = {"pairs": (), "tables": (), "cells": (), "patterns": (), "notes": (), "target": None, "is_split": False}
    page = Page(score_page(scores.score(**empty)))
    assert "real rows that nothing was fitted to" in page.text()
    assert "#pairs" not in {link["href"] for link in page.all("a")}


def test_without_a_twin_the_page_says_how_to_add_it():
    assert "--twin FILE" in Page(score_page(scores.score())).text("main")


def test_with_a_twin_the_page_has_its_guarantee_its_receipts_and_its_risk(twin):
    page = Page(score_page(scores.score(), twin))
    receipts = [receipt["what"] for stage in twin.statement["stages"] for receipt in stage["receipts"]]
    text = page.text("main")
    assert "(1, 1e-06)-differential privacy" in text
    assert all(what in text for what in receipts)
    assert all(sentence.removeprefix("- ") in text for sentence in tw.risk(twin).sentences())
    assert {"curve", "bound"} <= {path["class"] for path in page.all("path")}


def test_a_twin_that_is_not_private_is_told_in_red_with_the_reason():
    ledger = tw.Ledger.without_privacy(insecure_seed=0)
    ledger.spend(tw.NotPrivate(), "comparison")
    statement = json.loads(json.dumps(ledger.statement().to_json()))
    page = score_page(scores.score(), SimpleNamespace(statement=statement, notes=()))
    assert f'<p class="warning">NOT PRIVATE: {statement["why_not"]}.' in page


# -- the certificate ---------------------------------------------------------------------------------------------------


def test_the_certificate_has_the_statement_the_file_and_what_is_promised(certified, twin, tmp_path):
    twin.save(tmp_path / "data.twin")
    assert certified.sha256 == hashlib.sha256((tmp_path / "data.twin").read_bytes()).hexdigest()
    text = Page(certified.html).text("body")
    assert text.strip().startswith("To the contents")
    found = certified.verification
    assert f"Recomputed: epsilon {found.recomputed:.6g}" in text
    for part in (
        certified.sha256,
        "twin verify data.twin",
        "one row is one person",
        "dp-accounting",
        *PROMISED,
        *NOT_PROMISED,
        *twin.notes,
    ):
        assert part in text


def test_the_certificate_as_json_has_the_same_facts(certified, twin):
    facts = json.loads(json.dumps(certified.to_json()))
    assert facts["statement"] == json.loads(json.dumps(twin.statement))
    assert facts["twin"]["sha256"] == certified.sha256
    assert facts["verification"]["recomputed"] <= facts["statement"]["epsilon"] * 1.001
    assert tw.Schema.from_toml(facts["schema"]) == twin.schema
    assert [column["name"] for column in facts["synthetic"]["columns"]] == [c.name for c in twin.schema.modelled]


def test_the_distributions_are_those_of_the_rows_that_anybody_can_sample(certified, twin):
    rows = twin.sample(20_000, seed=0)
    found = {one.name: dict(zip(one.labels, one.counts, strict=True)) for one in certified.distributions}
    assert all(sum(counts.values()) == 20_000 for counts in found.values())
    assert found["smoker"]["no"] == (rows["smoker"] == "no").sum()
    assert found["cost"]["none"] == (rows["cost"] == "none").sum()
    assert found["age"]["missing"] == rows["age"].replace("", None).isna().sum()
    ages = rows["age"].replace("", None).dropna().astype(int)
    low, high = map(int, next(iter(found["age"])).split(" to "))
    assert next(iter(found["age"].values())) == ages.between(low, high).sum()


def test_the_bars_of_the_certificate_have_the_counts_of_its_distributions(certified):
    page = Page(certified.html)
    told = [int(rect["data-n"]) for rect in page.all("rect") if "data-n" in rect]
    assert told == [count for one in certified.distributions for count in one.counts]


def test_a_certificate_is_the_same_for_the_file_and_for_the_twin(certified, twin, tmp_path):
    twin.save(tmp_path / "data.twin")
    assert tw.certificate(tmp_path / "data.twin").to_json() == certified.to_json()


def test_both_files_are_written_or_neither(certified, tmp_path):
    page, data = certified.save(tmp_path / "one.html")
    assert (page, data) == (str(tmp_path / "one.html"), str(tmp_path / "one.json"))
    assert json.loads((tmp_path / "one.json").read_text()) == json.loads(json.dumps(certified.to_json()))
    (tmp_path / "two.json").mkdir()
    with pytest.raises(tw.TableError):
        certified.save(tmp_path / "two.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.html", "one.json", "two.json"]


def test_a_page_is_not_written_where_its_json_goes(certified, tmp_path):
    with pytest.raises(ArtifactError, match=r"Name the page"):
        certified.save(tmp_path / "one.json")


def test_a_twin_whose_statement_does_not_hold_is_not_certified(twin):
    cheap = {**twin.statement, "epsilon": 0.1, "spent": {"epsilon": 0.1, "delta": 1e-6}}
    with pytest.raises(ArtifactError, match="does not hold"):
        tw.certificate(dataclasses.replace(twin, statement=cheap))


def test_a_twin_from_a_seed_is_not_certified():
    people = pd.DataFrame({"age": ["30", "40"] * 250})
    schema = tw.Schema.from_toml('rows = 500\n[columns.age]\nkind = "integer"\nmin = 0\nmax = 99\nnullable = false')
    seeded = tw.fit(people, epsilon=1.0, schema=schema, insecure_seed=1)
    with pytest.raises(ArtifactError, match="guarantees nothing"):
        tw.certificate(seeded)


@pytest.mark.parametrize("given", [None, 5, {"a": 1}])
def test_what_is_no_twin_is_not_certified(given):
    with pytest.raises(ArtifactError, match="or the path of one"):
        tw.certificate(given)

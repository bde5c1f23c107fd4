"""What everybody knows is asked for by name: found with fewer rows, and shown by nothing but noisy tallies."""

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.discover import findings, votes
from twinify_lite.discover.known import _lists, known_beside
from twinify_lite.schema import Column, Schema
from twinify_lite.table import PrivateTable

COUNTRIES = ["Germany", "France", "United-States"]


@pytest.mark.parametrize(
    ("shown", "expected", "absent"),
    [
        (["United-States", "?"], ["Puerto-Rico", "Mexico", "El-Salvador"], ["Puerto Rico", "MEXICO", "United-States"]),
        (["costa rica", "peru"], ["el salvador", "chile"], ["Chile", "el-salvador"]),
        (["SRI_LANKA"], ["NEW_ZEALAND", "CHAD"], ["NEW ZEALAND"]),
        (["Peru"], ["New Zealand", "New-Zealand", "Chad"], ["new zealand"]),
        (["German", "Swiss"], ["Dutch", "Costa Rican"], ["Germany"]),
        (["TX", "CA", "NY"], ["WA"], ["wa"]),
        (["no"], ["yes"], ["no", "se", "YES"]),
        (["F"], ["M"], ["m"]),
        (["Married", "Single"], ["Widowed"], ["widowed"]),
        (["Mon", "Wed", "Fri"], ["Sun"], ["Monday"]),
        (["E11", "I10", "J18"], ["A00", "Z99"], ["A000", "a00", "E11"]),
        (["W1", "W2", "W3", "ER"], ["W4", "A0"], ["ER"]),
        (["ICD-10", "ICD-11", "ICD-25"], ["ICD-00", "ICD-99"], ["ICD-1", "ABC-00"]),
    ],
)
def test_the_rest_of_a_list_is_spelled_as_what_was_found(shown, expected, absent):
    known = known_beside(shown)
    assert set(expected) <= set(known)
    assert not set(absent) & set(known)
    assert known == sorted(set(known))


@pytest.mark.parametrize(
    "shown",
    [
        [],
        ["yes", "no"],  # Norway
        ["yes", "no", "unknown", "not asked", "refused"],
        ["m", "f"],
        ["in", "out", "at", "home"],  # Indiana, Austria
        ["red", "green", "blue", "Chad"],
        ["never", "sometimes", "often"],
        ["E11", "I10", "x"],
        ["1020-91-75", "2821-55-09", "3422-07-01"],  # too many numbers have this shape
        ["", " ", "-"],
    ],
)
def test_what_looks_like_no_list_brings_nothing(shown):
    assert known_beside(shown) == []


def test_no_list_names_anything_twice():
    for members in _lists():
        assert len(members) >= 2
        assert len(set(members.values())) == len(members)
        assert all(name and name == name.strip() for name in members.values())


def nations(rare, rows=58):
    return pd.DataFrame({"nation": np.repeat([*COUNTRIES, rare], [9000, 6000, 5000, rows])})


def found(frame, seed):
    ledger = tw.Ledger(1.0, insecure_seed=seed)
    return tw.discover(frame, ledger=ledger, share=0.5, kinds="guess").schema["nation"].levels


def test_a_country_is_found_where_an_unknown_word_of_as_many_rows_is_not():
    known = sum("Iceland" in found(nations("Iceland"), seed) for seed in range(10))
    unknown = sum("Xceland" in found(nations("Xceland"), seed) for seed in range(10))
    assert known >= 8
    assert unknown <= 3


def test_a_country_that_nobody_is_from_is_seldom_found():
    extra = [set(found(nations("Iceland"), seed)) - {*COUNTRIES, "Iceland"} for seed in range(10)]
    assert sum(map(len, extra)) <= 4


def test_absent_and_present_names_are_counted_alike(monkeypatch):
    """What is asked for, and that it is answered, must not show whether anybody has it."""
    counted = []
    counts = votes.Tally.counts

    def record(self, ballot, items=slice(None)):
        released = counts(self, ballot, items)
        counted.append(len(released))
        return released

    monkeypatch.setattr(votes.Tally, "counts", record)
    for rare in ("Iceland", "Xceland"):
        found(nations(rare), 0)
    first, second = counted[: len(counted) // 2], counted[len(counted) // 2 :]
    assert first == second
    assert max(first) > 200


def test_a_row_votes_for_a_known_name_with_no_more_than_its_weight():
    schema = Schema((Column(name="nation", kind="category"), Column(name="home", kind="category")))
    frame = pd.DataFrame({"nation": ["Peru", "Chad"], "home": ["Chile", "Mali"]}, dtype="string")
    looks = [findings.look_at(column, PrivateTable(frame)) for column in schema.columns]
    for look in looks:
        look.frequent["Norway"] = 100.0  # as if a first round had shown it
        look.ask(known_beside(look.frequent_texts))
        assert np.count_nonzero(look.known) > 200
    sums = votes.tally([findings.rare_value_ballot(look) for look in looks])
    assert [len(one) for one in sums] == [len(look.known) for look in looks]
    assert sum(float(x) ** 2 for one in sums for x in one) <= 2 * votes.WEIGHT**2
    assert sum(np.count_nonzero(one) for one in sums) == 4


def test_nothing_is_asked_of_columns_whose_levels_and_codes_are_declared(monkeypatch):
    asked = []
    monkeypatch.setattr(findings.Look, "ask", lambda self, items: asked.append((self.column.name, len(items))))
    schema = Schema(
        (
            Column(name="nation", kind="category", levels=("Norway", "Peru")),
            Column(name="age", kind="integer", min=0, max=99, special=(-1,)),
            Column(name="pay", kind="integer"),
        )
    )
    frame = pd.DataFrame({"nation": ["Norway", "Peru"] * 50, "age": [4, -1] * 50, "pay": [4, -1] * 50})
    tw.discover(frame, schema, ledger=tw.Ledger(1.0))
    assert [name for name, count in asked if count] == ["pay"]


def with_code(code):
    """How often a code in two fifths of 1000 rows is told from the numbers beside it."""
    numbers = np.random.default_rng(0).integers(1000, 4000, 1000)
    numbers[:400] = code
    frame = pd.DataFrame({"pay": numbers} | {f"c{i}": ["a", "b"] * 500 for i in range(5)})
    found = [tw.discover(frame, ledger=tw.Ledger(1.0, insecure_seed=s), share=0.9).schema["pay"] for s in range(10)]
    assert all(set(column.special) <= {code} for column in found if column.is_modelled)
    return sum(code in (column.special or ()) for column in found)


def test_a_usual_code_beside_numbers_is_found_with_fewer_rows_than_another():
    assert min(with_code(-9), with_code(9999)) >= 7
    assert with_code(-8) <= 4

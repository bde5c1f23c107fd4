"""A policy: what it says is checked, and what it forbids is refused with all reasons at once."""

import json
import re

import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import DiscreteLaplace, Gaussian, Ledger
from twinify_lite.errors import PolicyError, PolicyRefused
from twinify_lite.policy import Policy, as_policy, given_columns
from twinify_lite.schema import Column, Schema

WHOLE = 'epsilon = 1\ndelta = 1e-6\nrelation = "add-remove"\nforbidden_columns = ["ssn", "*name*"]\n'


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return path

    return write


def statement_of(epsilon=1.0, delta=1e-6, **options):
    ledger = Ledger(epsilon, delta, **options)
    ledger.spend(DiscreteLaplace(scale=50.0), "row count").redeem(DiscreteLaplace)
    ledger.spend(ledger.calibrate(Gaussian(noise_multiplier=1.0)), "single columns")
    return json.loads(json.dumps(ledger.statement().to_json()))


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_policy_is_read_as_it_was_written(write):
    made = Policy(epsilon=1, delta=1e-6, relation="add-remove", forbidden_columns=["ssn", "*name*"])
    assert Policy.load(write(WHOLE)) == made
    assert as_policy(write(WHOLE)) == made


@pytest.mark.parametrize("line", WHOLE.splitlines())
def test_every_key_may_stand_alone(write, line):
    assert Policy.load(write(line))


def test_a_misspelt_key_is_refused_with_the_right_one(write):
    with pytest.raises(PolicyError, match=r"policy\.toml: there is no key 'epsilonn'; did you mean 'epsilon'\?"):
        Policy.load(write("epsilonn = 1\ndelta = 1e-6\n"))


@pytest.mark.parametrize("text", ["", "forbidden_columns = []\n"])
def test_a_policy_that_says_nothing_is_refused(write, text):
    with pytest.raises(PolicyError, match="allows everything"):
        Policy.load(write(text))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("epsilon = 0", "epsilon"),
        ("epsilon = inf", "epsilon"),
        ("epsilon = nan", "epsilon"),
        ('epsilon = "1"', "epsilon"),
        ("epsilon = true", "epsilon"),
        ("delta = 1.0", "delta"),
        ("delta = -1e-6", "delta"),
        ('relation = "friends"', "relation"),
        ('forbidden_columns = "ssn"', "forbidden_columns"),
        ('forbidden_columns = ["ssn", ""]', "forbidden_columns"),
        ("forbidden_columns = [3]", "forbidden_columns"),
    ],
)
def test_what_no_policy_can_say_is_refused(write, line, name):
    with pytest.raises(PolicyError, match=f"{name} must be"):
        Policy.load(write(line))


def test_a_file_that_is_no_policy_is_refused(write, tmp_path):
    with pytest.raises(PolicyError, match="is not TOML"):
        Policy.load(write("epsilon: 1"))
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.load(tmp_path / "none.toml")
    with pytest.raises(PolicyError, match="is the path of"):
        as_policy(3)


# -- what it refuses ---------------------------------------------------------------------------------------------------


def test_what_is_allowed_passes():
    policy = Policy(epsilon=1, delta=1e-6, relation="add-remove", forbidden_columns=["ssn"])
    policy.check_request(epsilon=1, delta=1e-6, relation="add-remove")
    policy.check_columns(["age", "ssn2"])
    policy.check_statement(statement_of())


def test_all_that_a_request_breaks_is_said_at_once():
    with pytest.raises(PolicyRefused) as refused:
        Policy(epsilon=1, delta=1e-6, relation="add-remove").check_request(
            epsilon=2, delta=1e-5, relation="substitute", seed=1
        )
    assert refused.value.exit_code == 3
    lines = str(refused.value).splitlines()
    assert [line.split(",")[0] for line in lines[:2]] == [
        "The policy allows epsilon up to 1",
        "The policy allows delta up to 1e-06",
    ]
    assert "demands the relation 'add-remove', and this is 'substitute'" in lines[2]
    assert "NOT PRIVATE" in lines[3]


@pytest.mark.parametrize(
    "name",
    [
        "ssn",
        "SSN",
        "Surname",
        "name",
        "file_names",
        " ssn ",
        "\uff33\uff33\uff2e",
        "s\u200bsn",
        "ss\ufe0fn\x00",
        "file_\u3164names",
        *(f"s{unseen}sn" for unseen in "\U000e0100\u180b\u180f\u17b4\U00016fe4\u2065\ufff0\u2800\U0001d159\u2028\xa0 "),
    ],
)
def test_a_column_is_forbidden_by_its_name_or_by_a_pattern_in_any_case(name):
    with pytest.raises(PolicyRefused, match=re.escape(repr(name))):
        Policy(forbidden_columns=["ssn", "*name*"]).check_columns(["age", name])


def test_a_name_with_the_marks_of_a_pattern_is_also_itself():
    with pytest.raises(PolicyRefused):
        Policy(forbidden_columns=["weight [kg]"]).check_columns(["weight [kg]"])


@pytest.mark.parametrize(
    ("policy", "made"),
    [
        ({"epsilon": 0.9}, {}),
        ({"delta": 1e-7}, {}),
        ({"relation": "substitute"}, {}),
        ({"relation": "add-remove"}, {"relation": "substitute"}),
        ({"forbidden_columns": ["ssn"]}, {"insecure_seed": 3}),
    ],
)
def test_a_twin_that_guarantees_less_is_refused(policy, made):
    with pytest.raises(PolicyRefused):
        Policy(**policy).check_statement(statement_of(**made))


def test_a_statement_is_judged_by_its_budget_and_by_what_was_spent():
    statement = statement_of()
    for larger in ({**statement, "epsilon": 3.0}, {**statement, "spent": {"epsilon": 3.0, "delta": 0.0}}):
        with pytest.raises(PolicyRefused, match="this is 3"):
            Policy(epsilon=2).check_statement(larger)


def test_what_the_receipts_cost_counts_where_a_statement_claims_a_little_less():
    with pytest.raises(PolicyRefused, match="epsilon up to"):
        Policy(epsilon=1.0).check_statement(statement_of(), recomputed=1.0005)


def test_an_identifier_that_is_left_out_is_not_given():
    kinds = {"a": "number", "id": "identifier"}
    columns = [Column(name=name, kind=kind) for name, kind in kinds.items()]
    assert given_columns(Schema(columns)) == ["a"]
    made_up = Column(name="key", kind="identifier", sample="surrogate")
    assert given_columns(Schema([*columns, made_up])) == ["a", "key"]


# -- a fit -------------------------------------------------------------------------------------------------------------

TABLE = pd.DataFrame({"age": [30.0, 40.0] * 50, "ssn": [str(number) for number in range(100)]})


def fit(policy, **options):
    return tw.fit(TABLE, epsilon=1.0, policy=policy, ledger=options.pop("ledger", None), **options)


def test_a_forbidden_column_is_refused_before_anything_is_spent(tmp_path):
    with pytest.raises(PolicyRefused, match="'ssn'"):
        fit(Policy(forbidden_columns=["ssn"]), ledger=tmp_path / "a.ledger")
    assert list(tmp_path.iterdir()) == []


def test_a_forbidden_column_that_the_schema_leaves_out_is_no_reason_to_refuse():
    schema = Schema([Column(name="age", kind="number", min=0, max=99), Column(name="ssn", kind="identifier")])
    made = fit(Policy(epsilon=1, forbidden_columns=["ssn"]), schema=schema)
    assert list(made.sample(3)) == ["age"]


def test_a_request_is_refused_before_the_table_is_read():
    with pytest.raises(PolicyRefused, match=r"epsilon up to 0\.5"):
        tw.fit("no such file.csv", epsilon=1.0, policy=Policy(epsilon=0.5))
    with pytest.raises(PolicyRefused, match=r"epsilon up to 0\.5"):
        tw.dry_run("no such file.csv", epsilon=1.0, policy=Policy(epsilon=0.5))

"""`twin verify` compares a statement with the other parts of its file."""

import copy

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.errors import ArtifactError
from twinify_lite.verification import require_consistent


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(list("abc"), 2000) for name in ("x", "y")})
    columns = tuple(tw.Column(name=name, kind="category", levels=list("abc"), nullable=False) for name in frame)
    twin = tw.fit(frame, epsilon=1, schema=tw.Schema(columns=columns))
    return dict(twin.statement), {"fitted": "auto"}, twin.fitted.parts()[0]


def without(statement, what):
    changed = copy.deepcopy(statement)
    for stage in changed["stages"]:
        stage["receipts"] = [receipt for receipt in stage["receipts"] if receipt["what"] != what]
    return changed


def test_a_twins_own_parts_agree(parts):
    require_consistent(*parts)


@pytest.mark.parametrize("what", ["single columns", "pairs"])
def test_a_release_without_a_receipt_is_found(parts, what):
    statement, facts, fitted = parts
    with pytest.raises(ArtifactError, match=f"'{what}', which no receipt pays for"):
        require_consistent(without(statement, what), facts, fitted)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"relation": "substitute"}, "only adding or removing a row needs"),
        ({"public": []}, "not what its relation"),
        ({"treated_as_public": ["nothing"]}, "not what its relation"),
    ],
)
def test_a_statement_that_contradicts_itself_is_found(parts, changes, problem):
    statement, facts, fitted = parts
    with pytest.raises(ArtifactError, match=problem):
        require_consistent({**statement, **changes}, facts, fitted)


def test_steps_that_were_not_paid_for_are_found(parts):
    statement, _, _ = parts
    mechanism = tw.PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.01, steps=100).to_json()
    paid = without(statement, "pairs")
    paid["stages"][-1]["receipts"].append({"what": "DPSVI", "mechanism": mechanism})
    settings = {"steps": 100, "sampling_rate": 0.01, "noise_multiplier": 1.0}
    require_consistent(paid, {"fitted": "declared"}, {"settings": settings})
    for key, value in (("steps", 200), ("sampling_rate", 0.02), ("noise_multiplier", 0.5)):
        with pytest.raises(ArtifactError, match="other steps"):
            require_consistent(paid, {"fitted": "declared"}, {"settings": {**settings, key: value}})
    with pytest.raises(ArtifactError, match="fitted by DPSVI, which no receipt"):
        require_consistent(statement, {"fitted": "declared"}, {"settings": settings})


def test_parts_that_cannot_be_compared_are_refused(parts):
    statement, _, _ = parts
    with pytest.raises(ArtifactError, match="cannot be compared"):
        require_consistent(statement, {"fitted": "auto"}, {})

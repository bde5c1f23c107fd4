"""The release certificate: the public half of a report, made from the file of a twin alone."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinify_lite import __version__
from twinify_lite.errors import ArtifactError, ModelError, PolicyRefused, SchemaError
from twinify_lite.statement import uncovered

if TYPE_CHECKING:
    from twinify_lite.policy import Policy
    from twinify_lite.report.distributions import Distribution
    from twinify_lite.risk import Risk
    from twinify_lite.schema import Schema
    from twinify_lite.twin import Twin
    from twinify_lite.verification import Verification

# Rows in which columns are looked for that a policy forbids.
_TRIED = 1_000
# By how much the same figure may differ between machines.
_ROUNDING = 1e-6
PROMISED = (
    "Given what is listed as public, whatever the receipts paid for, and everything computed from it, is (epsilon, "
    "delta)-differentially private for one row: the twin, all rows sampled from it, however many, and this "
    "certificate. What is listed as public is not hidden.",
    "The figure is an upper bound, recomputed here from the receipts by the accountants that are named.",
    "Only noised sums left the rows. What is listed as public, and nothing else, was taken from the table beside them.",
)
NOT_PROMISED = (
    "That one row is one person is the data holder's claim. If a person has ten rows, epsilon is about ten "
    "times as large.",
    "A certificate proves arithmetic and that the parts of the file agree. It does not prove where a file comes from, "
    "nor that no more was run than the receipts say.",
    "Other releases from the same table are not counted here; their epsilons add up.",
    "Running time, memory and logs of the fit are not covered, nor is what the data holder declared as public.",
    "Nothing is said of how faithful the rows are: that can only be told from the real ones.",
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate:
    """What is certified of a twin. `html` for people, `to_json()` for machines, `save(path)` writes both."""

    file: str
    sha256: str
    made: datetime.date
    verification: Verification
    statement: Mapping[str, Any]
    risk: Risk
    rows: int
    model: Mapping[str, Any]
    schema: Schema
    notes: tuple[str, ...]
    distributions: tuple[Distribution, ...] | None
    why_none: str | None = None
    policy: str | None = None

    @property
    def warning(self) -> str | None:
        """What stands in the twin that was neither declared nor paid for, if anything does."""
        return uncovered(self.statement)

    @property
    def html(self) -> str:
        """One self-contained page."""
        from twinify_lite.report.certified import certificate_page

        return certificate_page(self)

    def to_json(self) -> dict[str, Any]:
        """The same facts as plain data, ready for `json.dumps`."""
        from twinify_lite.report.distributions import ROWS, SEED

        drawn = [one._asdict() for one in self.distributions or ()]
        return {
            "certificate": 1,
            "warning": self.warning,
            "package": f"twinify_lite {__version__}",
            "made": self.made.isoformat(),
            "twin": {"file": self.file, "sha256": self.sha256},
            "verification": {**self.verification.to_json(), "words": str(self.verification).splitlines()},
            "policy": self.policy,
            "statement": dict(self.statement),
            "risk": {**self.risk.to_json(), "sentences": self.risk.sentences()},
            "rows": self.rows,
            "model": dict(self.model),
            "schema": self.schema.to_toml(),
            "notes": list(self.notes),
            "synthetic": {"rows": ROWS, "seed": SEED, "columns": drawn} if drawn else None,
            "why_no_synthetic": self.why_none,
            "promised": list(PROMISED),
            "not_promised": list(NOT_PROMISED),
            "check": f"twin verify {self.file}",
        }

    def __repr__(self) -> str:
        return f"Certificate of {self.file}: {str(self.verification).splitlines()[0]}"

    def save(self, path: str | os.PathLike[str]) -> tuple[str, str]:
        """Write the page to `path` and the JSON beside it, both or neither; returns their names."""
        from twinify_lite.table import replacing

        page, data = names(path)
        html, facts = self.html, json.dumps(self.to_json(), indent=2) + "\n"
        with replacing(data) as beside, replacing(page) as file:
            beside.write(facts.encode())
            beside.flush()  # a full disk shows here, before the page is put in its place
            file.write(html.encode())
        return page, data


def names(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The file of the page, and that of the JSON beside it."""
    page = os.fspath(path)
    stem, extension = os.path.splitext(page)
    if extension.lower() == ".json":
        raise ArtifactError(f"{page} is where the JSON goes. Name the page, such as {stem}.html.")
    return page, f"{stem}.json"


def certificate(
    twin: Twin | str | os.PathLike[str], *, model: Any = None, trust_model: bool = False, policy: Any = None
) -> Certificate:
    """Verify a twin or its file, and certify what was found.

    A twin of your own model needs `model` or `trust_model` for its synthetic distributions; without them it has none.
    `policy` is a `Policy`, or the file of one, that its statement and its columns must keep to.

    Formal guarantee: it is made from the file of the twin alone, and only if `twin verify` would accept that.
    """
    if not isinstance(twin, str | os.PathLike) and not hasattr(twin, "save"):
        raise ArtifactError("The twin is a tw.Twin, or the path of one, such as data.twin.")
    if isinstance(twin, str | os.PathLike):
        return _certified(os.fspath(twin), None, {"model": model, "trust_model": trust_model}, policy)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data.twin")
        twin.save(path)
        return _certified(path, twin, {}, policy)


def _certified(path: str, twin: Twin | None, how: dict[str, Any], policy: Any) -> Certificate:
    from twinify_lite import artifact
    from twinify_lite.policy import as_policy, given_columns
    from twinify_lite.risk import risk
    from twinify_lite.schema import Schema

    policy = as_policy(policy)
    sha256 = _sha256(path)
    members = artifact.read_twin(path)
    statement, facts, fitted = (
        artifact.json_from_bytes(members[name], name) for name in ("statement.json", "twin.json", "fitted.json")
    )
    verification = _verified(path, members, statement)
    schema = Schema.from_toml(members["schema.toml"].decode())
    if policy is not None:
        policy.check_statement(statement, recomputed=verification.recomputed)
        policy.check_columns(given_columns(schema))
    loaded, why = (twin, None) if twin is not None else _loaded(path, how)
    if policy is not None:
        _require_allowed_rows(policy, loaded)
    drawn, why = (None, why) if loaded is None else _drawn(loaded)
    if _sha256(path) != sha256:
        raise ArtifactError(f"{path} changed while it was read. Make the certificate again.")
    return Certificate(
        file=os.path.basename(path),
        sha256=sha256,
        made=datetime.datetime.now(datetime.UTC).date(),
        verification=verification,
        statement=statement,
        risk=risk(statement),
        rows=facts["rows"],
        model=_model(fitted) if loaded is None else loaded.fitted.describe(),
        schema=schema,
        notes=tuple(map(str, facts["notes"])),
        distributions=drawn,
        why_none=why,
        policy=None if policy is None else "the statement and the columns keep to the policy that was given",
    )


def _verified(path: str, members: Mapping[str, bytes], statement: Mapping[str, Any]) -> Verification:
    """As `twin verify`: what does not hold, or is not private, is refused."""
    from twinify_lite.consistency import require_consistent
    from twinify_lite.verification import verify

    found = verify(statement)
    require_consistent(members)
    if not found.private:
        raise ArtifactError(f"{path} guarantees nothing: {found.why_not}. Only a private twin can be certified.")
    if found.recomputed > found.epsilon * (1 + _ROUNDING):
        raise ArtifactError(
            f"{path} claims epsilon {found.epsilon:.8g}, and its receipts cost {found.recomputed:.8g}. That little is "
            "within what accountants may differ by, but no certificate can say it. Make the twin again."
        )
    return found


def _loaded(path: str, how: dict[str, Any]) -> tuple[Twin | None, str | None]:
    """The twin; or, without its own model, none, and why."""
    from twinify_lite.twin import load

    try:
        return load(path, **how), None
    except ModelError:
        if any(how.values()):
            raise
        return None, "The twin is of a model of its own, which was not given: see --model and --trust-model."


def _require_allowed_rows(policy: Policy, twin: Twin | None) -> None:
    """Refuse columns that a model's code adds to the rows, and a model whose code is not here to be tried."""
    if twin is not None:
        for batch in twin.batches(_TRIED):
            policy.check_columns(batch.column_names)
    elif policy.forbidden_columns:
        raise PolicyRefused(
            "The policy forbids columns, and which ones this twin's own model makes is not known without its code. "
            "Give it: --model or --trust-model."
        )


def _drawn(twin: Twin) -> tuple[tuple[Distribution, ...] | None, str | None]:
    from twinify_lite.report.distributions import distributions

    with contextlib.suppress(SchemaError):
        return distributions(twin), None
    return None, "The model changes its rows in a way that its schema does not describe."


def _model(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says of a model that is not here."""
    said = fitted.get("model")
    told = (
        {"model": said.get("name"), **{k: v for k, v in said.items() if k != "name"}} if isinstance(said, dict) else {}
    )
    return {**told, **fitted.get("settings", {})}


def _sha256(path: str) -> str:
    """Of the file as it is; what cannot be read is left to who reads it next, with better words."""
    with contextlib.suppress(OSError, ValueError):
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return ""

"""START HERE: `fit` makes a `Twin` of a table, a `Twin` makes synthetic rows, `save` and `load` keep it.

    table -> schema -> noisy row count -> plan -> pay for everything -> discover -> fit -> Twin -> rows

Above `Twin` rows are private, and whatever leaves them is paid for through one `Ledger`; a `Twin` is public.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from twinify_lite.accountant import Relation
from twinify_lite.checkpoint import Checkpoint
from twinify_lite.discover import RELEASES, begin, count_rows, least_rows, plan_beside, taken_from
from twinify_lite.discover import Plan as DiscoveryPlan
from twinify_lite.discover import run as run_discovery
from twinify_lite.errors import (
    ArtifactError,
    BudgetExceeded,
    PrivacyParameterError,
    ReceiptError,
    SchemaError,
    TwinError,
)
from twinify_lite.ledger import Ledger, Receipt
from twinify_lite.schema import Schema
from twinify_lite.schema.draft import fill
from twinify_lite.table import PrivateTable, read_table

if TYPE_CHECKING:
    import pandas as pd

Data = "PrivateTable | pd.DataFrame | pa.Table | str | os.PathLike[str]"
Progress = Callable[[str, int, int], None]

# Of epsilon, for the number of rows.
_ROWS = 0.02
# Of the rest (in parts of 1 / noise^2), for discovery where all is open: the first part that finds values which so many
# times fewer than all rows share, or the last.
_DISCOVERY, _COMFORT = (0.15, 0.3, 0.5), 10.0
# Rows that a plan is shown for when nobody says how many there are.
_SUPPOSED = 10_000
_BATCH = 2**16
# Batches without a single row of those wanted, after which sampling gives up.
_PATIENCE = 50


def fit(
    data: Data,
    *,
    epsilon: float,
    delta: float = 1e-6,
    model: Any = None,
    schema: Schema | str | os.PathLike[str] | None = None,
    relation: Literal["add-remove", "substitute"] = "add-remove",
    device: Literal["auto", "cpu", "gpu"] = "auto",
    target: str | None = None,
    accept: str | Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
    insecure_seed: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Twin:
    """Fit a twin of `data`, a table with one row per person.

    `model` is "auto", the name of a template, a .py file or a function of `rows`; None is what the `distribution` lines
    of the schema say, or "auto". `schema` declares what is public; the rest is found from the budget. `target` names a
    column that others will want to predict. `options` override the plan. `checkpoint` names a file to continue
    from with `resume=True`, should the fit be interrupted.

    Formal guarantee: the twin and all that is made from it is (epsilon, delta)-differentially private for one row under
    `relation`, unless `insecure_seed` is given; its `statement` says what that covers.
    """
    request = _Request(epsilon, delta, model, relation, target, dict(options or {}), insecure_seed)
    report = progress or (lambda *_: None)
    with _on(device):
        ready = request.prepare(data, schema, accept)
        ready.family.plan(ready.schema, _SUPPOSED, 1.0, request.options)  # what is wrong is said before it is paid for
        run = _Run.resume(request, ready, checkpoint) if resume else _Run.start(request, ready, Checkpoint(checkpoint))
        with _telling_what_was_spent(run.ledger):
            complete = _found(run, ready)
            fitted = run.fit(complete, ready.table, report)
    return Twin(
        schema=complete,
        fitted=fitted,
        statement=run.ledger.statement().to_json(),
        rows=run.rows,
        notes=tuple(run.checkpoint.facts.get("notes", ())),
    )


def dry_run(
    data: Data,
    *,
    epsilon: float,
    delta: float = 1e-6,
    model: Any = None,
    schema: Schema | str | os.PathLike[str] | None = None,
    relation: Literal["add-remove", "substitute"] = "add-remove",
    device: Literal["auto", "cpu", "gpu"] = "auto",
    target: str | None = None,
    accept: str | Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
    insecure_seed: int | None = None,
) -> dict[str, Any]:
    """The plan of a fit: every setting and the noise of every release. Spends nothing, so the row count is supposed.

    The count is that of the schema, of `options["rows"]`, or 10,000.
    """
    options = dict(options or {})
    supposed = options.pop("rows", None)
    if supposed is not None and not (isinstance(supposed, int | float) and supposed >= 1):
        raise PrivacyParameterError("rows must be a number of rows to plan for, such as 10000.")
    request = _Request(epsilon, delta, model, relation, target, options)
    ledger = Ledger(epsilon, delta, relation=relation)
    with _on(device):
        ready = request.prepare(data, schema, accept)
        rows = int(supposed or ready.schema.rows or _SUPPOSED)
        if ready.schema.rows is None and relation == "add-remove":
            from twinify_lite.accountant import DiscreteLaplace

            ledger.spend(DiscreteLaplace(scale=1 / (_ROWS * epsilon)), "row count").redeem(DiscreteLaplace)
        plans = _plans(ready, rows, ledger, options)
        receipts = plans.pay(ledger)
    return {
        "rows (supposed)": rows,
        **plans.settings(receipts),
        **{f"noise of {r.what}": _noise(r) for r in ledger.receipts},
        "epsilon": ledger.spent[0],
        "delta": ledger.spent[1],
    }


@dataclass(frozen=True, eq=False, repr=False)
class Twin:
    """A fitted twin. All of it is public: rows are private only above it."""

    schema: Schema
    fitted: Any
    statement: Mapping[str, Any]
    rows: int
    notes: tuple[str, ...] = ()

    @property
    def is_private(self) -> bool:
        """Whether its statement is a privacy guarantee."""
        return self.statement["private"] is True

    def sample(
        self, n: int, *, seed: int | None = None, dataset: int = 0, where: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """`n` synthetic rows, in the types and spellings of the original. Each `dataset` is one posterior draw."""
        return pa.concat_tables(self.batches(n, seed=seed, dataset=dataset, where=where)).to_pandas()

    def batches(
        self,
        n: int,
        *,
        seed: int | None = None,
        dataset: int = 0,
        where: Mapping[str, Any] | None = None,
        batch: int = _BATCH,
    ) -> Iterator[pa.Table]:
        """The same rows as tables of at most `batch` rows, one after the other, for files larger than memory."""
        numbers = {"n": (n, 1), "batch": (batch, 1), "seed": (0 if seed is None else seed, 0), "dataset": (dataset, 0)}
        for name, (value, least) in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise PrivacyParameterError(f"{name} must be a whole number, at least {least}.")
        if dataset >= self.fitted.datasets:
            raise PrivacyParameterError(
                f"This twin has the datasets 0 to {self.fitted.datasets - 1}. Choose one of them."
            )
        return self._stream(n, np.random.default_rng(None if seed is None else [seed, dataset]), dataset, where, batch)

    def _stream(
        self, n: int, rng: np.random.Generator, dataset: int, where: Mapping[str, Any] | None, batch: int
    ) -> Iterator[pa.Table]:
        from twinify_lite.schema.enforcing import Enforcer
        from twinify_lite.where import Filter

        enforcer = Enforcer(self.schema) if self.schema.constraints else None
        wanted = Filter.of(self.schema, where or {})
        made, tried = 0, 0
        while made < n:
            size = batch if wanted else min(batch, n - made)
            rows = self.fitted.generate(size, dataset=dataset, rng=rng, first=made, enforcer=enforcer)
            rows = wanted.apply(rows, first=made) if wanted else rows
            rows = rows.slice(0, n - made)
            made, tried = made + rows.num_rows, 0 if rows.num_rows else tried + 1
            if tried == _PATIENCE:
                raise SchemaError(
                    f"No row of {_PATIENCE * batch} has what `where` asks for. Ask for something likelier."
                )
            if rows.num_rows:
                yield rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the twin to one file, whole or not at all."""
        from twinify_lite import artifact

        meta, arrays, texts = self.fitted.parts()
        facts = {"fitted": self.fitted.kind, "rows": self.rows, "notes": list(self.notes)}
        members = {
            "twin.json": artifact.json_bytes(facts),
            "schema.toml": self.schema.to_toml().encode(),
            "statement.json": artifact.json_bytes(dict(self.statement)),
            "fitted.json": artifact.json_bytes(meta),
            **{f"arrays/{name}.npy": artifact.array_bytes(array, name) for name, array in arrays.items()},
            **{f"texts/{name}": text.encode() for name, text in texts.items()},
        }
        artifact.write(path, members)

    def describe(self) -> str:
        """What the twin is, in lines for people."""
        from twinify_lite.describing import describe

        return describe(self)

    def __repr__(self) -> str:
        from twinify_lite.describing import line

        return line(self)

    def _repr_html_(self) -> str:
        from twinify_lite.describing import html

        return html(self)


def load(path: str | os.PathLike[str], *, model: Any = None, trust_model: bool = False) -> Twin:
    """Read a twin. Code inside the file is never run, unless `trust_model` says so.

    A twin of your own model needs that model again: `model` is its file or function, which must be the one fitted.
    """
    from twinify_lite import artifact
    from twinify_lite.describing import require_readable

    members = artifact.read(path)
    facts, statement, meta = (
        artifact.json_from_bytes(members[name], name) for name in ("twin.json", "statement.json", "fitted.json")
    )
    arrays = {n: artifact.array_from_bytes(data, n) for n, data in _folder(members, "arrays", ".npy").items()}
    try:
        require_readable(statement)
        schema = Schema.from_toml(members["schema.toml"].decode())
        texts = {name: data.decode() for name, data in _folder(members, "texts").items()}
        given = {"model_file": model, "trust_model": trust_model}
        fitted = _fitted_class(facts["fitted"]).from_parts(meta, arrays, texts, schema, **given)
        rows, notes = int(facts["rows"]), tuple(map(str, facts["notes"]))
    except TwinError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        raise ArtifactError(f"{os.fspath(path)} is not a whole twin. Fit the twin again.") from None
    return Twin(schema=schema, fitted=fitted, statement=statement, rows=rows, notes=notes)


def _folder(members: Mapping[str, bytes], folder: str, suffix: str = "") -> dict[str, bytes]:
    found = {name.removeprefix(f"{folder}/"): data for name, data in members.items() if name.startswith(f"{folder}/")}
    return {name.removesuffix(suffix): data for name, data in found.items()}


def _fitted_class(kind: str) -> Any:
    if kind == "auto":
        from twinify_lite.auto import Chained

        return Chained
    if kind == "declared":
        from twinify_lite.posterior import Posterior

        return Posterior
    raise ValueError


# -- the path of a fit -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Request:
    """What the caller asked for; a fit may be resumed only by the same request."""

    epsilon: float
    delta: float
    model: Any
    relation: str
    target: str | None
    options: dict[str, Any]
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.epsilon, int | float) and 0 < self.epsilon < math.inf):
            raise PrivacyParameterError("epsilon must be a positive number, such as 1.")
        if self.relation not in tuple(Relation):
            raise PrivacyParameterError(f"The relation is one of {', '.join(Relation)}.")

    def prepare(self, data: Data, schema: Any, accept: str | Iterable[str]) -> _Ready:
        """The model family, the table as the model wants it, and its schema with a kind for every column."""
        declared = _declared(schema, accept)
        family = self._family(declared)
        raw = _read(data, declared)
        table = family.prepare(raw)
        begun = begin(table, declared)
        _require_columns(begun)
        if self.target is not None and self.target not in {column.name for column in begun.modelled}:
            raise SchemaError(f"There is no column {self.target!r} to be the target, or it is not modelled.")
        taken = [] if table is raw else taken_from(raw, fill(None, raw))
        taken += [*taken_from(table, begun), *family.notes]
        return _Ready(family, table, begun, tuple(dict.fromkeys(taken)))

    def _family(self, declared: Schema | None) -> Any:
        from twinify_lite.models import resolve

        found = resolve(self.model, declared)
        if found.name == "auto":
            from twinify_lite.auto import Auto

            return Auto(self.target)
        from twinify_lite.models.family import Family

        return Family(found, self.target)

    def facts(self, ready: _Ready) -> dict[str, Any]:
        """Plain data to compare."""
        source = getattr(ready.family, "source", None)
        return {
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "relation": self.relation,
            "model": ready.family.name,
            "sha256": getattr(source, "sha256", None),
            "target": self.target,
            "options": {name: str(value) for name, value in self.options.items()},
            "schema": hashlib.sha256(ready.schema.to_toml().encode()).hexdigest(),
            "seed": self.seed,
        }


@dataclass(frozen=True, eq=False)
class _Ready:
    """A table that can be fitted, and what is `taken` from it without being paid for, in sentences."""

    family: Any
    table: PrivateTable
    schema: Schema
    taken: tuple[str, ...]

    def note_public(self, ledger: Ledger) -> None:
        """Have the ledger's statement say what was taken."""
        for sentence in self.taken:
            ledger.treat_as_public(sentence)


@dataclass(frozen=True, eq=False)
class _Plans:
    """What discovery and the model will release, and with how much noise."""

    discovery: DiscoveryPlan
    model: Any
    left: float

    def pay(self, ledger: Ledger) -> dict[str, Receipt]:
        """Spend for everything, in one stage, before any of it is run."""
        found = self.discovery.pay(ledger)
        return {**found, **self.model.pay(ledger)}

    def settings(self, receipts: Mapping[str, Receipt]) -> dict[str, Any]:
        """For `--dry-run`."""
        settings = self.model.settings
        return settings if isinstance(settings, dict) else settings.to_json()


def _plans(ready: _Ready, rows: int, ledger: Ledger, options: Mapping[str, Any]) -> _Plans:
    schema = ready.schema
    for part in _DISCOVERY:
        beside, left = plan_beside(schema, ledger, part=part)
        least = least_rows(schema, beside)
        if rows >= _COMFORT * least:
            break
    if rows < least:
        raise BudgetExceeded(
            f"About {rows} rows are too few to find ranges and levels in so many open columns at this epsilon: about "
            f"{math.ceil(least)} are needed. Declare `min` and `max`, or `levels`, in the schema; it costs nothing."
        )
    return _Plans(beside, ready.family.plan(schema, rows, left, options), left)


@dataclass(frozen=True, eq=False)
class _Run:
    """A fit that is paid for."""

    family: Any
    plan: Any
    ledger: Ledger
    receipts: Mapping[str, Receipt]
    rows: int
    checkpoint: Checkpoint

    @classmethod
    def start(cls, request: _Request, ready: _Ready, checkpoint: Checkpoint) -> _Run:
        """Count the rows, plan with that, and pay."""
        ledger = Ledger(request.epsilon, request.delta, relation=request.relation, insecure_seed=request.seed)
        ready.note_public(ledger)
        rows = count_rows(ready.table, ready.schema, ledger, share=_ROWS)
        with _telling_what_was_spent(ledger):
            plans = _plans(ready, rows, ledger, request.options)
            receipts = plans.pay(ledger)
            facts = {"request": request.facts(ready), "rows": rows, "left": plans.left}
            checkpoint.begin(facts=facts, statement=ledger.statement().to_json())
        return cls(ready.family, plans.model, ledger, receipts, rows, checkpoint)

    @classmethod
    def resume(cls, request: _Request, ready: _Ready, path: str | os.PathLike[str] | None) -> _Run:
        """Take up a run that paid and was interrupted. Nothing is spent."""
        if path is None:
            raise ReceiptError("There is nothing to resume from. Pass the checkpoint=... of the fit to continue.")
        checkpoint = Checkpoint.read(path)
        asked, statement = request.facts(ready), checkpoint.statement
        same = all(statement.get(key) == asked[key] for key in ("epsilon", "delta", "relation"))
        if checkpoint.facts.get("request") != asked or not same:
            raise ReceiptError(
                f"{os.fspath(path)} is of a fit with other arguments, another schema or another table. Continue that "
                "one, or start a new fit without resuming, which spends again."
            )
        rows, left = checkpoint.facts["rows"], checkpoint.facts["left"]
        plan = ready.family.plan(ready.schema, rows, left, request.options)
        used, steps = ready.family.done(plan, checkpoint.load() or {})
        found = () if checkpoint.schema is None else RELEASES
        ledger = Ledger.resumed(statement, used={"row count", *found, *used}, steps=steps, insecure_seed=request.seed)
        ready.note_public(ledger)
        return cls(ready.family, plan, ledger, {r.what: r for r in ledger.receipts}, rows, checkpoint)

    def fit(self, schema: Schema, table: PrivateTable, progress: Progress) -> Any:
        """The model, fitted to what `schema` now says of the table."""
        return self.family.fit(self.plan, schema, table, self.receipts, progress=progress, checkpoint=self.checkpoint)


def _found(run: _Run, ready: _Ready) -> Schema:
    """The complete schema: discovered now, or by the run that was interrupted."""
    if run.checkpoint.schema is None:
        payment = {what: r for what, r in run.receipts.items() if what in RELEASES}
        found = run_discovery(ready.table, ready.schema, payment, rows=run.rows)
        run.checkpoint.keep_schema(found.schema, found.notes)
    complete = run.checkpoint.schema
    if not complete.modelled:
        run.checkpoint.discard()
    _require_columns(complete)
    return complete


def _require_columns(schema: Schema) -> None:
    if not schema.modelled:
        raise SchemaError(
            "No column is left to model. Declare at least one in the schema, with its range or levels: all others are "
            "identifiers, constants, or were not found within the budget."
        )


def _read(data: Data, declared: Schema | None) -> PrivateTable:
    """The table; a file that the schema knows the look of is read by that."""
    is_file = isinstance(data, str | os.PathLike)
    if not is_file or declared is None or declared.style is None:
        return read_table(data)
    return read_table(data, decimal=declared.style.decimal, encoding=declared.style.encoding)


def _declared(schema: Schema | str | os.PathLike[str] | None, accept: str | Iterable[str]) -> Schema | None:
    declared = Schema.load(schema) if isinstance(schema, str | os.PathLike) else schema
    accept = (accept,) if isinstance(accept, str) else tuple(accept)
    if accept and declared is None:
        raise SchemaError("There is no schema of which anything could be accepted. Pass the schema that was read.")
    return declared.accept(accept) if accept else declared


def _noise(receipt: Receipt) -> float:
    mechanism = receipt.mechanism
    return getattr(mechanism, "noise_multiplier", None) or getattr(mechanism, "scale", 0.0)


@contextlib.contextmanager
def _telling_what_was_spent(ledger: Ledger) -> Iterator[None]:
    """Have whatever goes wrong from here on say what is spent by now."""
    try:
        yield
    except BaseException as error:
        if ledger.receipts:
            epsilon, delta = ledger.spent
            error.spent = f"Spent before this: epsilon {epsilon:.4g} of {ledger.epsilon:g}, delta {delta:.3g}."
        raise


@contextlib.contextmanager
def _on(device: str) -> Iterator[None]:
    """Run on the device of this kind."""
    if device == "auto":
        yield
        return
    import jax

    try:
        chosen = jax.devices(device)[0]
    except RuntimeError:
        raise TwinError(f"JAX finds no {device} here. Use --device cpu, or install twinify-lite[cuda12].") from None
    except IndexError:
        raise TwinError(f"JAX finds no {device} here. Use --device cpu.") from None
    with jax.default_device(chosen):
        yield

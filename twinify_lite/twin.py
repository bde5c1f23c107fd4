"""START HERE: `fit` makes a `Twin` of a table, a `Twin` makes synthetic rows, `save` and `load` keep it.

    table -> schema -> noisy row count -> plan -> pay for everything -> discover -> fit -> Twin -> rows

Above `Twin` rows are private, and whatever leaves them is paid for through one `Ledger`; a `Twin` is public.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from twinify_lite.book import Book, as_book
from twinify_lite.checkpoint import Checkpoint
from twinify_lite.consistency import is_row_count
from twinify_lite.errors import ArtifactError, PrivacyParameterError, SchemaError, TwinError
from twinify_lite.fitting import (
    Progress,
    Run,
    rehearse,
    reporting,
    require_plan,
    require_room,
    running_on,
    telling_what_was_spent,
)
from twinify_lite.locking import held
from twinify_lite.policy import Policy, as_policy
from twinify_lite.quiet import quietly
from twinify_lite.request import Request
from twinify_lite.schema import Schema
from twinify_lite.table.frames import as_frame

if TYPE_CHECKING:
    import pandas as pd

    from twinify_lite.request import Data

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
    kinds: Literal["private", "guess", "declared"] | None = None,
    insecure_seed: int | None = None,
    ledger: Book | str | os.PathLike[str] | None = None,
    policy: Policy | str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Twin:
    """Fit a twin of `data`, a table with one row per person.

    `model` is "auto", the name of a template, a .py file or a function of `rows`; None is what the `distribution` lines
    of the schema say, or "auto". `schema` declares what is public; the rest is found from the budget. `target` names a
    column that others will want to predict. `options` override the plan. `kinds` says where kinds come from that
    neither the schema nor a column's type tells: "private" (the default of the automatic model), from the budget;
    "guess" (that of all others), from the cells without noise, which the statement then says; or "declared", which
    refuses such columns. `checkpoint` names a file to continue
    from with `resume=True`, should the fit be interrupted; it is locked meanwhile, so that only one continues it.
    `ledger` names a file that keeps one budget over all fits of this table, and `policy` one of what is allowed: both
    refuse before anything is run.

    Formal guarantee: the twin and all that is made from it is (epsilon, delta)-differentially private for one row under
    `relation`, unless `insecure_seed` is given; its `statement` says what that covers.
    """
    request = Request(
        epsilon=epsilon,
        delta=delta,
        model=model,
        relation=relation,
        target=target,
        options=options,
        kinds=kinds,
        seed=insecure_seed,
        book=as_book(ledger),
        policy=as_policy(policy),
    )
    report = reporting(progress)
    with running_on(device), held(checkpoint):
        ready = request.prepare(data, schema, accept)
        require_plan(request, ready, is_paid=resume)
        if resume:
            run = Run.resume(request, ready, checkpoint)
        else:
            require_room(request, ready)
            run = Run.start(request, ready, Checkpoint(checkpoint), report)
        with telling_what_was_spent(run.ledger), quietly():
            complete = run.discover(ready)
            fitted = run.fit(complete, ready.table, report)
            run.ledger.settle()
    statement = run.ledger.statement().to_json()
    notes = (*run.notes, *fitted.notes())
    return Twin(schema=complete, fitted=fitted, statement=statement, rows=run.rows, notes=notes)


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
    kinds: Literal["private", "guess", "declared"] | None = None,
    insecure_seed: int | None = None,
    ledger: Book | str | os.PathLike[str] | None = None,
    policy: Policy | str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """The plan of a fit: every setting and the noise of every release. Spends nothing, so the row count is supposed.

    The count is that of the schema, of `options["rows"]`, or 10,000. `doubts` are sentences about columns whose kind
    their cells speak against: read from the rows without noise, for whoever holds them, and not for sharing.
    """
    request = Request(
        epsilon=epsilon,
        delta=delta,
        model=model,
        relation=relation,
        target=target,
        options=options,
        kinds=kinds,
        seed=insecure_seed,
        book=as_book(ledger),
        policy=as_policy(policy),
    )
    with running_on(device):
        return rehearse(request, request.prepare(data, schema, accept))


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

    @property
    def is_own(self) -> bool:
        """Whether code of its own may give its rows other columns than the schema has."""
        return self.fitted.is_postprocessed

    def sample(
        self, n: int, *, seed: int | None = None, dataset: int = 0, where: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """`n` synthetic rows, in the types and spellings of the original.

        Each `dataset` is one draw of the posterior; of the automatic model those from 1 on are, and 0 is its best
        estimate.

        Where cells may be missing, whole numbers and truth values that had a type are of pandas' nullable ones, as
        Int64; texts and floats are of its usual ones, also if the original had others, as string[pyarrow].
        """
        rows = pa.concat_tables(self.batches(n, seed=seed, dataset=dataset, where=where))
        return as_frame(rows, {column.name for column in self.schema.columns if column.nullable and column.dtype})

    def batches(
        self,
        n: int,
        *,
        seed: int | None = None,
        dataset: int = 0,
        where: Mapping[str, Any] | None = None,
        batch: int = _BATCH,
        dictionaries: bool = False,
    ) -> Iterator[pa.Table]:
        """The same rows as tables of at most `batch` rows, one after the other, for files larger than memory.

        With `dictionaries`, texts are Arrow's dictionaries: a CSV file is written sooner, and is the same.
        """
        n, batch, dataset = _whole("n", n, 1), _whole("batch", batch, 1), _whole("dataset", dataset, 0)
        rng = np.random.default_rng(None if seed is None else [_whole("seed", seed, 0), dataset])
        if not isinstance(where, Mapping | None):
            raise SchemaError('where is a dict of columns and their values, such as {"sex": "female"}.')
        if dataset >= self.fitted.datasets:
            raise PrivacyParameterError(
                f"This twin has the datasets 0 to {self.fitted.datasets - 1}. Choose one of them."
            )
        return self._stream(n, rng, where, batch, dataset=dataset, dictionaries=dictionaries)

    def _stream(
        self, n: int, rng: np.random.Generator, where: Mapping[str, Any] | None, batch: int, **how: Any
    ) -> Iterator[pa.Table]:
        from twinify_lite.schema.enforcing import Enforcer
        from twinify_lite.where import Filter
        from twinify_lite.where_shown import ShownFilter

        enforcer = Enforcer(self.schema, self.fitted.pooled) if self.schema.constraints else None
        wanted = (ShownFilter if self.fitted.is_postprocessed else Filter).of(self.schema, where or {})
        made, tried = 0, 0
        while made < n:
            size = batch if wanted else min(batch, n - made)
            rows = self.fitted.generate(size, rng=rng, first=made, total=n, enforcer=enforcer, **how)
            rows = wanted.apply(rows) if wanted else rows
            rows = rows.slice(0, n - made)
            made, tried = made + rows.num_rows, 0 if rows.num_rows else tried + 1
            if tried == _PATIENCE:
                raise SchemaError(
                    f"No row of {_PATIENCE * batch} has what `where` asks for. Ask for something likelier.{wanted.hint}"
                )
            if rows.num_rows:
                yield rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the twin to one file, whole or not at all. A file of that name is replaced, as by `DataFrame.to_csv`.

        The commands are more careful: they replace a file only with --force.
        """
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

    members = artifact.read_twin(path)
    facts, statement, meta = (
        artifact.json_from_bytes(members[name], name) for name in ("twin.json", "statement.json", "fitted.json")
    )
    arrays = {n: artifact.array_from_bytes(data, n) for n, data in _folder(members, "arrays", ".npy").items()}
    try:
        require_readable(statement)
        schema = Schema.from_toml(members["schema.toml"].decode())
        if not schema.modelled:
            raise ValueError
        texts = {name: data.decode() for name, data in _folder(members, "texts").items()}
        given = {"model_file": model, "trust_model": trust_model}
        if facts["fitted"] == "auto" and model is not None:
            raise TwinError("This twin was fitted by the automatic model, and needs no other: leave `model` out.")
        fitted = _fitted_class(facts["fitted"]).from_parts(meta, arrays, texts, schema, **given)
        rows, notes = facts["rows"], tuple(map(str, facts["notes"]))
        if not is_row_count(rows):
            raise ValueError
    except TwinError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        raise ArtifactError(f"{os.fspath(path)} is not a whole twin. Fit the twin again.") from None
    return Twin(schema=schema, fitted=fitted, statement=statement, rows=rows, notes=notes)


def _whole(name: str, value: Any, least: int) -> int:
    """`value` as an int: 1e4 is a whole number too."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number and value >= least and value % 1 == 0):
        raise PrivacyParameterError(f"{name} must be a whole number, at least {least}.")
    return int(value)


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

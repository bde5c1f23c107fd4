"""What is asked of a fit, checked at the border: a `Request`, and the table made `Ready` for it.

Nothing is spent here. Whatever a caller can get wrong is a typed error that says what would be right.
"""

from __future__ import annotations

import hashlib
import math
import numbers
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinify_lite.accountant import Relation, check_delta
from twinify_lite.discover import begin, taken_from
from twinify_lite.errors import ModelError, PrivacyParameterError, SchemaError
from twinify_lite.ledger import Ledger
from twinify_lite.policy import given_columns
from twinify_lite.quiet import quietly
from twinify_lite.schema import Schema
from twinify_lite.schema.draft import Undecided, fill, undecided
from twinify_lite.table import PrivateTable, read_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from twinify_lite.book import Book
    from twinify_lite.policy import Policy

    Data = PrivateTable | pd.DataFrame | pa.Table | str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the caller asked for; a fit may be resumed only by the same request."""

    epsilon: float
    delta: float
    model: Any
    relation: str
    target: str | None
    options: Mapping[str, Any] | None
    kinds: str | None = None
    seed: int | None = None
    book: Book | None = None
    policy: Policy | None = None

    def __post_init__(self) -> None:
        if not (_is_a(numbers.Real, self.epsilon) and 0 < self.epsilon < math.inf):
            raise PrivacyParameterError("epsilon must be a positive number, such as 1.")
        check_delta(self.delta)
        if self.relation not in tuple(Relation):
            raise PrivacyParameterError(f"The relation is one of {', '.join(Relation)}.")
        if not isinstance(self.target, str | None):
            raise SchemaError(f"The target is the name of one column, not of type {_type(self.target)}.")
        if not (isinstance(self.options, Mapping | None) and all(isinstance(name, str) for name in self.options or ())):
            raise ModelError('The options are a dict of settings by their names, such as {"steps": 2000}.')
        if self.seed is not None and not (_is_a(numbers.Integral, self.seed) and 0 <= self.seed < 2**64):
            raise PrivacyParameterError("A seed is a whole number from 0 to 2^64 - 1, or None for a private twin.")
        if self.policy is not None:
            self.policy.check_request(epsilon=self.epsilon, delta=self.delta, relation=self.relation, seed=self.seed)
        self._require_open_book()

    def _require_open_book(self) -> None:
        """Refuse a ledger file that cannot hold such a fit, whatever its plan will be, before the table is read."""
        if self.book is None:
            return
        self.ledger(self.book)
        if self.book.exists:
            found = self.book.read()
            self.book.require_relation(found, self.relation)

    @property
    def settings(self) -> dict[str, Any]:
        """The options, as many as were given."""
        return dict(self.options or {})

    def ledger(self, book: Book | None = None) -> Ledger:
        """The whole budget, of which nothing is spent; what will be is charged to `book`."""
        budget = float(self.epsilon), float(self.delta)
        return Ledger(*budget, relation=self.relation, insecure_seed=self.seed, book=book)

    def prepare(self, data: Data, schema: Any, accept: str | Iterable[str]) -> Ready:
        """The model family, the table as the model wants it, and its schema with a kind for every column."""
        declared = declared_in(schema, accept)
        family = self.family(declared)
        kinds = self._kinds(family)
        raw = read_as_declared(data, declared)
        if kinds == "declared":
            _require_types(family, raw)
        with quietly():
            table = family.prepare(raw)
            begun, undecided = begin(table, declared, kinds=kinds)
        require_columns(begun)
        if self.policy is not None:
            self.policy.check_columns(_columns_of(family, begun, raw, table))
        if self.target is not None and self.target not in {column.name for column in begun.modelled}:
            raise SchemaError(f"There is no column {self.target!r} to be the target, or it is not modelled.")
        taken = [] if table is raw else taken_from(raw, fill(None, raw))
        taken += [*taken_from(table, begun), *family.notes]
        return Ready(family, table, begun, undecided, tuple(dict.fromkeys(taken)), frozenset(declared or ()))

    def _kinds(self, family: Any) -> str:
        """Where kinds come from that nobody declared.

        A declared model is a program of columns of certain kinds. It is tried on made-up rows of these before anything
        is paid for, so they cannot come from the budget.
        """
        if self.kinds is None:
            return "guess" if family.names_columns else "private"
        if self.kinds == "private" and family.names_columns:
            raise SchemaError(
                "The kinds of columns must be known before a declared model is tried, so they cannot be found from the "
                'budget. Declare all of them in the schema and use kinds="declared" (--kinds declared), or have them '
                'guessed from the cells without noise: kinds="guess", which the statement then says.'
            )
        return self.kinds

    def family(self, declared: Schema | None) -> Any:
        """What plans and fits the model that was asked for."""
        from twinify_lite.models import resolve

        found = resolve(self.model, declared)
        if found.name == "auto":
            from twinify_lite.auto import Auto

            return Auto(self.target, frozenset(declared or ()))
        from twinify_lite.models.family import Family

        return Family(found, self.target)

    def facts(self, ready: Ready) -> dict[str, Any]:
        """Plain data to compare."""
        source = getattr(ready.family, "source", None)
        return {
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "relation": str(self.relation),
            "model": ready.family.name,
            "sha256": getattr(source, "sha256", None),
            "target": self.target,
            "options": {name: str(value) for name, value in self.settings.items()},
            "schema": hashlib.sha256(ready.schema.to_toml().encode()).hexdigest(),
            "undecided": [*ready.undecided.columns, *map(str, ready.undecided.constraints)],
            "seed": None if self.seed is None else int(self.seed),
            "ledger": self.book is not None,
        }


@dataclass(frozen=True, eq=False)
class Ready:
    """A table that can be fitted, and what is `taken` from it without being paid for, in sentences.

    The schema has kinds for the time being where they are `undecided`. `declared` are the columns that the caller's
    schema names.
    """

    family: Any
    table: PrivateTable
    schema: Schema
    undecided: Undecided
    taken: tuple[str, ...]
    declared: frozenset[str] = frozenset()

    def note_public(self, ledger: Ledger) -> None:
        """Have the ledger's statement say what was taken."""
        for sentence in self.taken:
            ledger.treat_as_public(sentence)


def require_columns(schema: Schema) -> None:
    """Refuse a schema that leaves nothing to model."""
    if not schema.modelled:
        raise SchemaError(
            "No column is left to model: all are identifiers or constants. Declare at least one in the schema as what "
            "it is, with its range or levels."
        )


def declared_in(schema: Schema | str | os.PathLike[str] | None, accept: str | Iterable[str] = ()) -> Schema | None:
    """The schema, from its file if that is what was given, with what the caller accepts of it as public."""
    declared = Schema.load(schema) if isinstance(schema, str | os.PathLike) else schema
    if not isinstance(declared, Schema | None):
        raise SchemaError(
            f"The schema is the path of a schema.toml or a tw.Schema, not of type {_type(schema)}. Draft one to edit: "
            "`twin schema DATA -o schema.toml`; or build it: tw.Schema([tw.Column(...), ...])."
        )
    if not isinstance(accept, Iterable):
        raise SchemaError(
            f'accept is the name of a column or a list of names, such as ["age"], not of type {_type(accept)}.'
        )
    accept = (accept,) if isinstance(accept, str) else tuple(accept)
    if accept and declared is None:
        raise SchemaError("There is no schema of which anything could be accepted. Pass the schema that was read.")
    return declared.accept(accept) if accept else declared


def read_as_declared(data: Data, declared: Schema | None) -> PrivateTable:
    """The table; a file that the schema knows the look of is read by that."""
    is_file = isinstance(data, str | os.PathLike)
    if not is_file or declared is None or declared.style is None:
        return read_table(data)
    return read_table(data, decimal=declared.style.decimal, encoding=declared.style.encoding)


def _require_types(family: Any, raw: PrivateTable) -> None:
    """Refuse a `preprocess` of columns whose kinds it would be given by a guess: no schema speaks of what it reads."""
    source = getattr(family, "source", None)
    untold = () if source is None or source.preprocess is None else undecided(None, raw)
    if untold:
        raise SchemaError(
            f"The types of these columns do not tell their kinds, in which preprocess reads them: "
            f"{', '.join(map(repr, untold))}. No schema can declare them. Have them guessed from the cells without "
            'noise: kinds="guess" (--kinds guess), which the statement then says; or prepare the table before the fit.'
        )


def _columns_of(family: Any, schema: Schema, raw: PrivateTable, table: PrivateTable) -> Iterable[str]:
    """All columns that a twin could show: modelled, made by a `postprocess`, or seen by a `preprocess`."""
    seen = () if table is raw else raw.columns
    return dict.fromkeys([*given_columns(schema), *seen, *family.made_columns(schema)])


def _is_a(kind: type, value: object) -> bool:
    """Whether `value` is a number of this kind, Python's or NumPy's; `True` is none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _type(value: object) -> str:
    """The name of its type, which shows nothing of its contents."""
    return type(value).__name__

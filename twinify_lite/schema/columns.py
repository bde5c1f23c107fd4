"""What a table's columns are: their kinds, and what is known of them without looking at the data.

A `Schema` is public. What it leaves open (`None`) is estimated from the privacy budget by `discover`; everything that
it declares costs nothing.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from twinify_lite.errors import SchemaError

if TYPE_CHECKING:
    from twinify_lite.schema.constraints import Constraint
    from twinify_lite.table import CsvStyle, PrivateTable

Kind = Literal["number", "integer", "category", "ordinal", "boolean", "datetime", "identifier", "constant"]
Resolution = Literal["day", "hour", "minute", "second", "millisecond", "microsecond"]
Moment = datetime.date | datetime.datetime
Cell = str | int | float | bool | Moment

#: One line a kind, for help texts and error messages.
KINDS: dict[str, str] = {
    "number": "any number, with decimals",
    "integer": "a whole number",
    "category": "one of a list of levels without order",
    "ordinal": "one of a list of levels in order",
    "boolean": "true or false",
    "datetime": "a date or a time, with or without a zone",
    "identifier": "a name or key of one row: never modelled, left out or made up anew",
    "constant": "the same value in every row; none, where it is nullable",
}
RANGED = ("number", "integer", "datetime")
LEVELLED = ("category", "ordinal", "boolean")

_ANY = ("kind", "nullable", "dtype", "peeked")
_RANGE = ("min", "max", "special", "heaps")
#: What may be said of a column of each kind, in the order in which schema.toml says it.
KEYS: dict[str, tuple[str, ...]] = {
    "number": (*_ANY, *_RANGE, "scale", "decimals", "distribution"),
    "integer": (*_ANY, *_RANGE, "scale", "distribution"),
    "datetime": (*_ANY, *_RANGE, "resolution", "format", "zone", "distribution"),
    "category": (*_ANY, "levels", "other", "distribution"),
    "ordinal": (*_ANY, "levels", "other", "distribution"),
    "boolean": (*_ANY, "levels", "distribution"),
    "identifier": (*_ANY, "sample", "pattern"),
    "constant": (*_ANY, "value"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """One column. `None` means: not declared. Of `nullable`, `min`, `max`, `special`, `heaps` and `levels`: open.

    `special` are values beside the numbers with a level of their own ("N", -1, 9999), written back as they stand here;
    `heaps` are ordinary values inside the range that stand out (0, 40, 99). `other` is the level of every text that is
    not listed. `peeked` names the keys that were read from the data without privacy. `dtype` is the Arrow type to give
    back, None for text. `distribution` is what a model without Python says of it, such as "ZeroInflated(Poisson)".
    """

    name: str
    kind: Kind
    nullable: bool | None = None
    dtype: str | None = None
    peeked: tuple[str, ...] = ()
    min: int | float | Moment | None = None
    max: int | float | Moment | None = None
    special: tuple[Cell, ...] | None = None
    heaps: tuple[int | float | Moment, ...] | None = None
    scale: Literal["linear", "log"] = "linear"
    decimals: int | None = None
    levels: tuple[str, ...] | None = None
    other: str | None = None
    resolution: Resolution = "day"
    format: str | None = None
    zone: str | None = None
    sample: Literal["omit", "surrogate"] = "omit"
    pattern: str = "{}"
    value: Cell | None = None
    distribution: str | None = None

    def __post_init__(self) -> None:
        from twinify_lite.schema.rules import column_problems
        from twinify_lite.schema.settle import settle

        for key, value in settle(self).items():
            object.__setattr__(self, key, value)
        problems = column_problems(self)
        if problems:
            raise SchemaError.listing(problems)

    @property
    def is_ranged(self) -> bool:
        """Whether it is a number, an integer or a time: values between `min` and `max`."""
        return self.kind in RANGED

    @property
    def is_levelled(self) -> bool:
        """Whether it is a category, an ordinal or a boolean: one of `levels`."""
        return self.kind in LEVELLED

    @property
    def is_modelled(self) -> bool:
        """Whether a model sees it: all but identifiers and constants."""
        return self.is_ranged or self.is_levelled

    @property
    def open(self) -> tuple[str, ...]:
        """The keys that the schema leaves to `discover`. A declared range closes `special` and `heaps` too."""
        if not self.is_modelled:
            return ()
        wanted = ("min", "max", "special", "heaps", "nullable") if self.is_ranged else ("levels", "nullable")
        return tuple(key for key in wanted if getattr(self, key) is None)

    def replace(self, **changes: Any) -> Column:
        """A copy with `changes`, checked again."""
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True)
class Schema(Mapping[str, Column]):
    """The columns of a table in their order, and what holds between them: a mapping from names to `Column`.

    `rows` is the number of rows where that is public; `guessed` says that the kinds were guessed from the cells;
    `style` is the look of the CSV file that the table came from, in which its twin is written too; `accepted` names the
    columns of which something was read from the data without privacy and accepted as public.
    """

    columns: tuple[Column, ...]
    constraints: tuple[Constraint, ...] = ()
    rows: int | None = None
    guessed: bool = False
    style: CsvStyle | None = None
    accepted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        from twinify_lite.schema.rules import schema_problems
        from twinify_lite.schema.settle import plain

        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "constraints", tuple(self.constraints))
        object.__setattr__(self, "rows", plain(self.rows))
        object.__setattr__(self, "accepted", plain(self.accepted))
        problems = schema_problems(self)
        if problems:
            raise SchemaError.listing(problems)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def __iter__(self):
        return (column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def modelled(self) -> tuple[Column, ...]:
        """The columns that a model sees."""
        return tuple(column for column in self.columns if column.is_modelled)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to discover but, perhaps, the number of rows."""
        return not any(column.open for column in self.columns)

    @property
    def peeked(self) -> tuple[str, ...]:
        """The names of the columns about which something was read from the data without privacy."""
        return tuple(column.name for column in self.columns if column.peeked)

    def accept(self, names: str | Iterable[str]) -> Schema:
        """Take what was peeked at in the columns `names`, or in the one of that name, as public: the caller's word."""
        names = (names,) if isinstance(names, str) else tuple(names)
        unknown = [name for name in names if name not in self]
        if unknown:
            raise SchemaError.listing([f"There is no column {name!r} to accept." for name in unknown])
        changed = (column.replace(peeked=()) if column.name in names else column for column in self.columns)
        accepted = tuple(name for name in self if name in self.accepted or (name in names and name in self.peeked))
        return dataclasses.replace(self, columns=tuple(changed), accepted=accepted)

    def require_public(self) -> None:
        """Refuse a schema with values that were peeked at and that nobody accepted by name."""
        if self.peeked:
            found = (f"{column.name!r} ({', '.join(column.peeked)})" for column in self.columns if column.peeked)
            raise SchemaError(
                f"Read from the data, so not private: {', '.join(found)}. Delete those lines, declare values from a "
                f"code book, or accept them as public by name: --accept COLUMN, or schema.accept({list(self.peeked)})."
            )

    def require_constraints(self) -> None:
        """Refuse constraints on columns that are not there; a schema that is not yet whole may have them."""
        problems = [problem for constraint in self.constraints for problem in constraint.problems(self)]
        if problems:
            raise SchemaError.listing(problems)

    def replace_columns(self, columns: Iterable[Column]) -> Schema:
        """A copy in which `columns` stand for those of the same names."""
        new = {column.name: column for column in columns}
        return dataclasses.replace(self, columns=tuple(new.get(column.name, column) for column in self.columns))

    @classmethod
    def draft(cls, table: PrivateTable, *, peek: bool = False) -> Schema:
        """A schema with the kinds of `table` alone; with `peek`, ranges and levels too, which are then not private."""
        from twinify_lite.schema.draft import draft

        return draft(table, peek=peek)

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Read schema.toml; one error lists all of its problems."""
        from twinify_lite.schema.toml import parse

        return parse(text)

    def to_toml(self) -> str:
        """The text of a schema.toml that `from_toml` reads back as an equal schema."""
        from twinify_lite.schema.toml import render

        return render(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a schema.toml from disk."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise SchemaError(f"There is no file {os.fspath(path)}. Make one with `twin schema DATA`.") from None
        except (OSError, ValueError) as error:
            raise SchemaError(f"{os.fspath(path)} cannot be read as UTF-8 text: {type(error).__name__}.") from None
        return cls.from_toml(text)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write schema.toml, whole or not at all."""
        from twinify_lite.table import replacing

        with replacing(path) as file:
            file.write(self.to_toml().encode())

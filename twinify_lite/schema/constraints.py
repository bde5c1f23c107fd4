"""What holds between columns by the user's word.

Constraints are public: `sentences` reads them from schema.toml, and `enforcing` makes them hold in what is sampled.
Values are compared as they are written (`scale`): numbers rounded to their decimals, times in microseconds, ordinals by
the place of their level. A special value that is a number or a time compares as such. A missing cell fulfils no
comparison, not even `!=`; a special word only == and !=.
"""

from __future__ import annotations

import dataclasses
import difflib
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from twinify_lite.cells import MISSING, Cells
from twinify_lite.schema import Cell, Schema
from twinify_lite.schema.ordering import in_order
from twinify_lite.schema.replacements import most_frequent, replacements
from twinify_lite.schema.scale import Scale, pack, repacked
from twinify_lite.schema.sentences import literal, quoted, read_entry

_ORDER: dict[str, Callable] = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


class Memory(NamedTuple):
    """What is known from before: of earlier chunks, how many rows they had and what determined what.

    `gently` is false once many rounds of small changes have not made all constraints hold. `pooled` has, by column, the
    values that whoever made the rows could not tell apart, as `pack` has them.
    """

    rows: int
    known: Mapping[Determines, tuple[np.ndarray, np.ndarray]]
    gently: bool = True
    pooled: Mapping[str, np.ndarray] = {}


@dataclasses.dataclass(frozen=True)
class Constraint:
    """One public statement about columns; `parse` makes the right kind of it."""

    @staticmethod
    def parse(source: str | Mapping[str, Any]) -> Constraint:
        """Read one entry of `constraints` in schema.toml. Formal guarantee: parse(c.to_toml()) == c."""
        entry = read_entry(source)
        return _KINDS[entry.kind](*entry.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The constrained columns."""
        return tuple(self.named)

    @property
    def named(self) -> dict[str, tuple[Cell, ...]]:
        """The constrained columns, and the values of each that the constraint speaks of."""
        return dict.fromkeys(vars(self).values(), ())

    def to_toml(self) -> str | dict[str, Any]:
        """What schema.toml says: a sentence or, for combinations, a table."""
        return self._word.join(map(quoted, vars(self).values()))

    def problems(self, schema: Schema) -> list[str]:
        """All that makes this constraint impossible or meaningless in `schema`. What is open there is no problem."""
        found = list(self.strangers(schema))
        if not found:
            found = dict.fromkeys(self._misfits({name: Scale(schema[name]) for name in self.named}))
        return [f"Constraint {self}: {problem}" for problem in found]

    def changes(self, scales: Mapping[str, Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """The columns that must change for this constraint alone to hold, changed; none if it holds."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f'"{self.to_toml()}"'

    def strangers(self, schema: Schema) -> Iterator[str]:
        """The constrained columns that `schema` does not have or does not model, a sentence each."""
        for name in self.named:
            if name not in schema:
                close = difflib.get_close_matches(name, list(schema), n=1)
                yield f"there is no column {name!r}." + (f" Did you mean {close[0]!r}?" if close else "")
            elif not schema[name].is_modelled:
                yield f"column {name!r} is of kind {schema[name].kind}, which is not modelled. Leave it out."

    def _misfits(self, scales: Mapping[str, Scale]) -> Iterator[str]:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Order(Constraint):
    """`lower <= upper` wherever both are numbers or times, be they values or special."""

    lower: str
    upper: str
    _word: ClassVar[str] = " <= "

    def _misfits(self, scales: Mapping[str, Scale]) -> Iterator[str]:
        lower, upper = scales[self.lower], scales[self.upper]
        kinds = {lower.column.kind, upper.column.kind}
        if lower is upper:
            yield f"it compares column {self.lower!r} with itself."
        elif not (kinds <= {"number", "integer"} or kinds == {"datetime"}):
            yield (
                f"column {self.lower!r} is of kind {lower.column.kind} and {self.upper!r} of kind {upper.column.kind}. "
                "An order is between two numbers or between two datetimes."
            )
        elif lower.clock != upper.clock:
            yield (
                f"column {self.lower!r} counts {lower.clock} and {self.upper!r} {upper.clock}, which do not compare. "
                "Give both a `zone` and a resolution finer than a day, or neither a `zone`."
            )
        elif lower.least is not None and upper.most is not None and lower.least > upper.most:
            yield f"the `min` of column {self.lower!r} is above the `max` of {self.upper!r}."

    def changes(self, scales: Mapping[str, Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """Swap what is the wrong way round; where the columns do not allow that, change as little as they do."""
        lower, upper = scales[self.lower], scales[self.upper]
        left, right = lower.values(cells[self.lower]), upper.values(cells[self.upper])
        both = lower.has_order(cells[self.lower]) & upper.has_order(cells[self.upper])
        rows = np.flatnonzero(both & (left > right))
        if not rows.size:
            return {}
        left, right = in_order(lower, upper, left[rows], right[rows], gently=memory.gently)
        return {
            self.lower: lower.put(cells[self.lower], rows, left, lower.states(left)),
            self.upper: upper.put(cells[self.upper], rows, right, upper.states(right)),
        }


@dataclasses.dataclass(frozen=True)
class Determines(Constraint):
    """Rows that agree on `of` agree on `what`. Special values are values of their own here.

    A missing cell of `of`, and one that is `other`, may be any value, and determines nothing. No more do values that
    are pooled: their rows are alike, and would all get the one `what` that is most frequent with the pool.
    """

    of: str
    what: str
    _word: ClassVar[str] = " determines "

    def _misfits(self, scales: Mapping[str, Scale]) -> Iterator[str]:
        if self.of == self.what:
            yield f"column {self.of!r} always determines itself."
        yield from _not_discrete(scales)

    def learn(self, cells: Mapping[str, Cells], memory: Memory) -> tuple[np.ndarray, np.ndarray]:
        """The sorted values of `of`, and what each determines: what memory says, else what is most frequent with it."""
        keys, targets = most_frequent(pack(cells[self.of]), pack(cells[self.what]))
        if self in memory.known:
            old_keys, old_targets = memory.known[self]
            keys, first = np.unique(np.concatenate([old_keys, keys]), return_index=True)
            targets = np.concatenate([old_targets, targets])[first]
        return keys, targets

    def changes(self, scales: Mapping[str, Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """Give every row the `what` that its `of` determines, if it does."""
        keys, targets = self.learn(cells, memory)
        told = targets[np.searchsorted(keys, pack(cells[self.of]))]
        bound = self._determining(scales[self.of], cells[self.of], memory)
        return repacked(cells, {self.what: np.where(bound, told, pack(cells[self.what]))})

    def _determining(self, scale: Scale, cells: Cells, memory: Memory) -> np.ndarray:
        """Which cells of `of` are one value, and not any of several."""
        is_one = (cells.state != MISSING) & ~scale.is_other(cells)
        return is_one & ~np.isin(pack(cells), memory.pooled.get(self.of, ()))


@dataclasses.dataclass(frozen=True)
class Combinations(Constraint):
    """The values of `columns` are one of the rows `allowed`, wherever none of them is missing."""

    columns: tuple[str, ...]
    allowed: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "allowed", tuple(map(tuple, self.allowed)))

    @property
    def named(self) -> dict[str, tuple[Cell, ...]]:
        """The columns, and what is allowed in each."""
        return dict.fromkeys(self.columns, ()) | dict(zip(self.columns, zip(*self.allowed, strict=False), strict=False))

    def to_toml(self) -> dict[str, Any]:
        """`{ columns = [...], allowed = [[...], ...] }`."""
        return {"columns": list(self.columns), "allowed": [list(row) for row in self.allowed]}

    def __str__(self) -> str:
        return f"on the combinations of {', '.join(map(repr, self.columns))}"

    def _misfits(self, scales: Mapping[str, Scale]) -> Iterator[str]:
        if len(scales) < len(self.columns):
            yield "it names a column twice."
        yield from _not_discrete(scales)
        for place, row in enumerate(self.allowed, start=1):
            if len(row) != len(self.columns):
                yield f"row {place} of `allowed` has {len(row)} values for {len(self.columns)} columns."
            for name, cell in zip(self.columns, row, strict=False):
                yield from scales[name].misfits(cell)

    def changes(self, scales: Mapping[str, Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """Replace what is not allowed by the row that agrees on the longest prefix, of those by one that changes least.

        Equally good ones take turns by the position of the row.
        """
        table = [
            [scales[name].code(cell) for name, cell in zip(self.columns, row, strict=True)] for row in self.allowed
        ]
        table = np.unique(np.array(table, np.int64), axis=0)
        codes = {name: pack(cells[name]) for name in self.columns}
        present = np.logical_and.reduce([cells[name].state != MISSING for name in self.columns])
        rows, choice = replacements(table, list(codes.values()), present, memory.rows)
        for place, code in enumerate(codes.values()):
            code[rows] = table[choice, place]
        return repacked(cells, codes) if rows.size else {}


@dataclasses.dataclass(frozen=True)
class Condition(Constraint):
    """If `given` compares so with `value`, or is or is not missing, then `then` is `outcome`, where None is missing."""

    given: str
    operator: str
    value: Cell | None
    then: str
    outcome: Cell | None

    @property
    def named(self) -> dict[str, tuple[Cell, ...]]:
        """The two columns, or the one, and what is said of each."""
        said = [(self.given, self.value), (self.then, self.outcome)]
        return {name: tuple(cell for other, cell in said if other == name and cell is not None) for name, _ in said}

    def to_toml(self) -> str:
        """`if given operator value then then == outcome`."""
        value = "" if self.value is None else f" {literal(self.value)}"
        outcome = "is missing" if self.outcome is None else f"== {literal(self.outcome)}"
        return f"if {quoted(self.given)} {self.operator}{value} then {quoted(self.then)} {outcome}"

    def _misfits(self, scales: Mapping[str, Scale]) -> Iterator[str]:
        if self.value is not None:
            yield from scales[self.given].misfits(self.value, ordered=self.operator in _ORDER)
        if self.outcome is not None:
            yield from scales[self.then].misfits(self.outcome)
        elif scales[self.then].column.nullable is False:
            yield f"column {self.then!r} has `nullable = false` and cannot be missing."

    def changes(self, scales: Mapping[str, Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """Give the rows that fulfil the condition its outcome."""
        scale, old = scales[self.then], cells[self.then]
        state, value = (MISSING, None) if self.outcome is None else scale.locate(self.outcome)
        rows = np.flatnonzero(self._fulfilled(scales[self.given], cells[self.given]) & ~scale.equals(old, state, value))
        return {self.then: scale.put(old, rows, value, state)} if rows.size else {}

    def _fulfilled(self, scale: Scale, cells: Cells) -> np.ndarray:
        present = cells.state != MISSING
        if self.operator in _ORDER:
            return scale.has_order(cells) & _ORDER[self.operator](scale.values(cells), scale.measure(self.value))
        if self.value is None:
            return present if self.operator == "is not missing" else ~present
        same = scale.equals(cells, *scale.locate(self.value))
        return same if self.operator == "==" else present & ~same


#: What an entry of schema.toml is made into.
_KINDS: dict[str, Callable[..., Constraint]] = {
    "order": Order,
    "determines": Determines,
    "condition": Condition,
    "combinations": Combinations,
}


def _not_discrete(scales: Mapping[str, Scale]) -> Iterator[str]:
    for name, scale in scales.items():
        if not (scale.column.is_levelled or scale.column.kind == "integer"):
            yield f"column {name!r} is of kind {scale.column.kind}. Only levels and whole numbers can stand here."

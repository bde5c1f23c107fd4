"""What holds between columns by the user's word: read from schema.toml, and made to hold in what is sampled.

Constraints are public. Values are compared as they are written: numbers rounded to their decimals, times in
microseconds, ordinals by the place of their level. A missing cell fulfils no comparison, not even `!=`; a special one
only == and !=.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from twinify_lite.cells import MISSING, VALUE, Cells, decimals_of, rounded
from twinify_lite.cells.moments import TICK, counts_wall_time, moment, ticks
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Cell, Column, Moment, Schema

EXAMPLES = (
    '"admitted <= discharged"',
    '"city determines country"',
    "\"if sex == 'male' then pregnancies is missing\"",
    '{ columns = ["city", "country"], allowed = [["Paris", "France"], ["Oslo", "Norway"]] }',
)
ROUNDS = 10
_ORDER: dict[str, Callable] = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_TOP = np.iinfo(np.int64).max


class Memory(NamedTuple):
    """What is known from earlier chunks: how many rows they had, and what determined what (`Determines.learn`)."""

    rows: int
    known: Mapping[Determines, tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Constraint:
    """One public statement about columns; `parse` makes the right kind of it."""

    @staticmethod
    def parse(source: str | Mapping[str, Any]) -> Constraint:
        """Read one entry of `constraints` in schema.toml. Formal guarantee: parse(c.to_toml()) == c."""
        if isinstance(source, Mapping):
            return _parse_table(source)
        for pattern, make in _SENTENCES.items():
            if isinstance(source, str) and (match := re.fullmatch(pattern, source.strip())):
                return make(*match.groups())
        raise _unreadable(f"{source!r} is not a constraint.")

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
        return self._word.join(map(_quote, vars(self).values()))

    def problems(self, schema: Schema) -> list[str]:
        """All that makes this constraint impossible or meaningless in `schema`. What is open there is no problem."""
        found = list(self._strangers(schema))
        if not found:
            found = dict.fromkeys(self._misfits({name: _Scale(schema[name]) for name in self.named}))
        return [f"Constraint {self}: {problem}" for problem in found]

    def changes(self, scales: Mapping[str, _Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """The columns that must change for this constraint alone to hold, changed; none if it holds."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f'"{self.to_toml()}"'

    def _strangers(self, schema: Schema) -> Iterator[str]:
        for name in self.named:
            if name not in schema:
                close = difflib.get_close_matches(name, list(schema), n=1)
                yield f"there is no column {name!r}." + (f" Did you mean {close[0]!r}?" if close else "")
            elif not schema[name].is_modelled:
                yield f"column {name!r} is of kind {schema[name].kind}, which is not modelled. Leave it out."

    def _misfits(self, scales: Mapping[str, _Scale]) -> Iterator[str]:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Order(Constraint):
    """`lower <= upper` wherever both have a value."""

    lower: str
    upper: str
    _word: ClassVar[str] = " <= "

    def _misfits(self, scales: Mapping[str, _Scale]) -> Iterator[str]:
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
        elif lower.low is not None and upper.high is not None and lower.low > upper.high:
            yield f"the `min` of column {self.lower!r} is above the `max` of {self.upper!r}."

    def changes(self, scales: Mapping[str, _Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """Swap what is the wrong way round, then move it into the ranges and onto the grids (whole numbers, ticks)."""
        lower, upper = scales[self.lower], scales[self.upper]
        left, right = lower.values(cells[self.lower]), upper.values(cells[self.upper])
        both = (cells[self.lower].state == VALUE) & (cells[self.upper].state == VALUE)
        rows = np.flatnonzero(both & (left > right))
        if not rows.size:
            return {}
        left, right = lower.clamp(lower.down(right[rows])), upper.clamp(upper.up(left[rows]))
        right = np.where(left > right, upper.clamp(upper.up(left)), right)
        left = np.minimum(left, lower.down(right))
        changed = (lower, left), (upper, right)
        return {scale.column.name: scale.put(cells[scale.column.name], rows, new) for scale, new in changed}


@dataclasses.dataclass(frozen=True)
class Determines(Constraint):
    """Rows that agree on `of` agree on `what`. Missing and special values are values of their own here."""

    of: str
    what: str
    _word: ClassVar[str] = " determines "

    def _misfits(self, scales: Mapping[str, _Scale]) -> Iterator[str]:
        if self.of == self.what:
            yield f"column {self.of!r} always determines itself."
        yield from _not_discrete(scales)

    def learn(self, cells: Mapping[str, Cells], memory: Memory) -> tuple[np.ndarray, np.ndarray]:
        """The sorted values of `of`, and what each determines: what memory says, else what is most frequent with it."""
        keys, targets = _most_frequent(_pack(cells[self.of]), _pack(cells[self.what]))
        if self in memory.known:
            old_keys, old_targets = memory.known[self]
            keys, first = np.unique(np.concatenate([old_keys, keys]), return_index=True)
            targets = np.concatenate([old_targets, targets])[first]
        return keys, targets

    def changes(self, scales: Mapping[str, _Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """Give every row the `what` that its `of` determines."""
        keys, targets = self.learn(cells, memory)
        return _repacked(cells, {self.what: targets[np.searchsorted(keys, _pack(cells[self.of]))]})


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

    def _misfits(self, scales: Mapping[str, _Scale]) -> Iterator[str]:
        if len(scales) < len(self.columns):
            yield "it names a column twice."
        yield from _not_discrete(scales)
        for place, row in enumerate(self.allowed, start=1):
            if len(row) != len(self.columns):
                yield f"row {place} of `allowed` has {len(row)} values for {len(self.columns)} columns."
            for name, cell in zip(self.columns, row, strict=False):
                yield from scales[name].misfits(cell)

    def changes(self, scales: Mapping[str, _Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """Replace what is not allowed by the row that agrees on the longest prefix, of those by one that changes least.

        Equally good ones take turns by the position of the row.
        """
        table = [
            [scales[name].code(cell) for name, cell in zip(self.columns, row, strict=True)] for row in self.allowed
        ]
        table = np.unique(np.array(table, np.int64), axis=0)
        codes = {name: _pack(cells[name]) for name in self.columns}
        present = np.logical_and.reduce([cells[name].state != MISSING for name in self.columns])
        rows, choice = _replacements(table, list(codes.values()), present, memory.rows)
        for place, code in enumerate(codes.values()):
            code[rows] = table[choice, place]
        return _repacked(cells, codes) if rows.size else {}


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
        value = "" if self.value is None else f" {_literal(self.value)}"
        outcome = "is missing" if self.outcome is None else f"== {_literal(self.outcome)}"
        return f"if {_quote(self.given)} {self.operator}{value} then {_quote(self.then)} {outcome}"

    def _misfits(self, scales: Mapping[str, _Scale]) -> Iterator[str]:
        if self.value is not None:
            yield from scales[self.given].misfits(self.value, ordered=self.operator in _ORDER)
        if self.outcome is not None:
            yield from scales[self.then].misfits(self.outcome)
        elif scales[self.then].column.nullable is False:
            yield f"column {self.then!r} has `nullable = false` and cannot be missing."

    def changes(self, scales: Mapping[str, _Scale], cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
        """Give the rows that fulfil the condition its outcome."""
        scale, old = scales[self.then], cells[self.then]
        state, value = (MISSING, None) if self.outcome is None else scale.locate(self.outcome)
        rows = np.flatnonzero(self._fulfilled(scales[self.given], cells[self.given]) & ~scale.equals(old, state, value))
        return {self.then: scale.put(old, rows, value, state)} if rows.size else {}

    def _fulfilled(self, scale: _Scale, cells: Cells) -> np.ndarray:
        present = cells.state != MISSING
        if self.operator in _ORDER:
            return scale.has_order(cells) & _ORDER[self.operator](scale.values(cells), scale.measure(self.value))
        if self.value is None:
            return present if self.operator == "is not missing" else ~present
        same = scale.equals(cells, *scale.locate(self.value))
        return same if self.operator == "==" else present & ~same


class Enforcer:
    """Makes the constraints of `schema` hold in a stream of chunks; what determines what stays as first decided."""

    def __init__(self, schema: Schema) -> None:
        schema.require_constraints()
        self._schema = schema
        self._memory = Memory(0, {})

    def apply(self, cells: Mapping[str, Cells]) -> dict[str, Cells]:
        """`enforce` for the next chunk."""
        settled, memory = _settle(self._schema, cells, self._memory), self._memory
        known = {c: c.learn(settled, memory) for c in self._schema.constraints if isinstance(c, Determines)}
        self._memory = Memory(memory.rows + max((len(c.state) for c in settled.values()), default=0), known)
        return settled


def enforce(schema: Schema, cells: Mapping[str, Cells]) -> dict[str, Cells]:
    """Copy `cells` such that the constraints of `schema` hold in every row.

    Formal guarantee: deterministic; no cell changes where all constraints hold already; the arguments stay as they are.
    Constraints are applied in turn until nothing changes. If they contradict each other, that never happens: after
    `ROUNDS` rounds the conditions are applied last, and of two that disagree the later one holds.
    """
    return _settle(schema, cells, Memory(0, {}))


def _settle(schema: Schema, cells: Mapping[str, Cells], memory: Memory) -> dict[str, Cells]:
    cells, constraints = dict(cells), schema.constraints
    scales = {name: _Scale(schema[name]) for constraint in constraints for name in constraint.named}
    stale = set(constraints)
    for _ in range(max(ROUNDS, len(constraints))):  # a chain of n orders sorts in n rounds
        for constraint in filter(stale.__contains__, constraints):
            changes = constraint.changes(scales, cells, memory)
            cells |= changes
            stale.update(other for other in constraints if not changes.keys().isdisjoint(other.named))
            stale.discard(constraint)
        if not stale:
            return cells
    for constraint in sorted(constraints, key=lambda constraint: isinstance(constraint, Condition)):
        cells |= constraint.changes(scales, cells, memory)
    return cells


class _Scale:
    """How the values of one column compare: numbers as written, times in microseconds, levels by their codes."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.clock, self.step, self.origin = None, 1, 0
        if column.kind == "datetime":
            self.clock = "wall time" if counts_wall_time(column) else "instants"
            self.step, self.origin = TICK[column.resolution], self._microseconds(moment(column, 0))
        spelled = (*(column.levels or ()), *([] if column.other is None else [column.other]))
        self._codes = {text: code for code, text in reversed(list(enumerate(spelled)))}
        bounds = (column.min, column.max) if column.is_ranged else (None, None)
        self.low, self.high = (None if bound is None else self._bound(bound) for bound in bounds)

    def measure(self, cell: Cell) -> Any:
        """A value that is not special, on this scale; None for what is not a level."""
        if self.column.is_levelled:
            yes_or_no = self.column.kind == "boolean" and isinstance(cell, bool)
            return int(cell) if yes_or_no else self._codes.get(_text(cell))
        return self._microseconds(cell) if isinstance(cell, datetime.datetime) else self._bound(cell)

    def _bound(self, cell: Cell) -> Any:
        dated = isinstance(cell, datetime.date)
        return ticks(self.column, cell) * self.step + self.origin if dated else cell

    def _microseconds(self, cell: Moment) -> int:
        zone = None if self.clock == "wall time" else self.column.zone or "UTC"
        return ticks(Column(name="_", kind="datetime", zone=zone, resolution="microsecond"), cell)

    def locate(self, cell: Cell) -> tuple[int, Any]:
        """The state and the value of a cell that has no misfits."""
        place = self._special(cell)
        return (place, None) if place else (VALUE, self.measure(cell))

    def code(self, cell: Cell) -> int:
        """What `_pack` makes of `cell`."""
        state, value = self.locate(cell)
        return _TOP - 1 - state if state else value

    def values(self, cells: Cells) -> np.ndarray:
        """What is compared; it means something where `state` is `VALUE`."""
        if self.column.kind == "number":
            return rounded(self.column, cells.value)
        return cells.value if self.step == 1 else cells.value * self.step + self.origin

    def equals(self, cells: Cells, state: int, value: Any) -> np.ndarray:
        """Where `cells` are what `locate` found."""
        same = cells.state == state
        return same & (self.values(cells) == value) if state == VALUE else same

    def has_order(self, cells: Cells) -> np.ndarray:
        """Where there is a value that can lie below or above others, which `other` cannot."""
        ordered = cells.state == VALUE
        return ordered & (cells.value < len(self.column.levels)) if self.column.is_levelled else ordered

    def put(self, cells: Cells, rows: np.ndarray, values: Any, state: int = VALUE) -> Cells:
        """A copy with other `values`, if any, and another state in `rows`."""
        value, states = cells.value.copy(), cells.state.copy()
        states[rows] = state
        if values is not None:
            value[rows] = values if self.step == 1 else (values - self.origin) // self.step
        return cells._replace(value=value, state=states)

    def clamp(self, values: np.ndarray) -> np.ndarray:
        """Move into the declared range."""
        values = values if self.low is None else np.maximum(values, self.low)
        return values if self.high is None else np.minimum(values, self.high)

    def down(self, values: np.ndarray) -> np.ndarray:
        """The nearest that the column can hold at or below `values`."""
        return self._floor(values - self.origin) + self.origin

    def up(self, values: np.ndarray) -> np.ndarray:
        """The nearest that the column can hold at or above `values`."""
        return self.origin - self._floor(self.origin - values)

    def _floor(self, values: np.ndarray) -> np.ndarray:
        if self.column.kind == "datetime":
            return values // self.step * self.step
        if self.column.kind == "integer":
            return values if values.dtype == np.int64 else np.floor(values).clip(-(2**62), 2**62).astype(np.int64)
        decimals = decimals_of(self.column)
        if decimals is None:
            return values
        near = rounded(self.column, values)  # not floor(0.29 * 100) / 100, which is 0.28
        return np.where(near > values, rounded(self.column, near - 10.0**-decimals), near)

    def misfits(self, cell: Cell, *, ordered: bool = False) -> Iterator[str]:
        """Why the column cannot hold `cell` or, if `ordered`, not compare with it."""
        problem = (self._level_misfit if self.column.is_levelled else self._range_misfit)(cell, ordered)
        if problem:
            yield f"{_literal(cell)} {problem} column {self.column.name!r}, which is of kind {self.column.kind}."

    def _special(self, cell: Cell) -> int:
        same = (s == cell and isinstance(s, bool) == isinstance(cell, bool) for s in self.column.special or ())
        return next((place for place, found in enumerate(same, start=1) if found), 0)

    def _level_misfit(self, cell: Cell, ordered: bool) -> str | None:
        if ordered and self.column.kind != "ordinal":
            return "is neither below nor above a value of"
        levels = self.column.levels
        known = len(levels or ()) if ordered else len(self._codes)
        code = self.measure(cell)
        return None if levels is None or (code is not None and code < known) else "is not a level of"

    def _range_misfit(self, cell: Cell, ordered: bool) -> str | None:
        if not ordered and self._special(cell):
            return None
        wanted = datetime.date if self.column.kind == "datetime" else int | float
        if not isinstance(cell, wanted) or isinstance(cell, bool):
            return None if self.column.special is None and not ordered else "is neither a value nor special in"
        value = self.measure(cell)
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            return "is outside the range of"
        return None if ordered or self.down(np.asarray(value)) == value else "is too fine for"


def _not_discrete(scales: Mapping[str, _Scale]) -> Iterator[str]:
    for name, scale in scales.items():
        if not (scale.column.is_levelled or scale.column.kind == "integer"):
            yield f"column {name!r} is of kind {scale.column.kind}. Only levels and whole numbers can stand here."


def _pack(cells: Cells) -> np.ndarray:
    """One integer a cell: its value or, above all values so that ties prefer those, one for missing and specials."""
    return np.where(cells.state == VALUE, cells.value, _TOP - 1 - cells.state.astype(np.int64))


def _repacked(cells: Mapping[str, Cells], codes: Mapping[str, np.ndarray]) -> dict[str, Cells]:
    """The columns of which `codes` are not those of `cells`, with these codes."""
    changed = {}
    for name, code in codes.items():
        old = cells[name]
        if (code != _pack(old)).any():
            state = np.maximum(code, _TOP - 2**15) - _TOP
            state = np.where(code > _TOP - 2**15, -state - 1, VALUE).astype(old.state.dtype)
            changed[name] = old._replace(value=np.where(state == VALUE, code, old.value), state=state)
    return changed


def _most_frequent(of: np.ndarray, what: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of `of`, sorted, and the most frequent `what` of each, the smallest of ties."""
    keys, place = np.unique(of, return_inverse=True)
    targets, target = np.unique(what, return_inverse=True)
    pairs, counts = np.unique(place * len(targets) + target, return_counts=True)
    owner, target = np.divmod(pairs, max(len(targets), 1))
    best = np.lexsort((target, -counts, owner))
    first = best[np.unique(owner[best], return_index=True)[1]]
    return keys, targets[target[first]]


def _find(ordered: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each of `wanted` first stands in `ordered`; -1 where it does not."""
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[place] == wanted, place, -1)


class _Descent(NamedTuple):
    """Of each row: on how many columns it agrees with the rows [start, stop) of a table, and its ranks in each."""

    depth: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    ranks: list[np.ndarray]


def _descend(ranks: np.ndarray, rows: list[np.ndarray]) -> _Descent:
    """Follow each row down the sorted table `ranks`, column by column, as far as they agree."""
    depth, start, stop = (np.full(len(rows[0]), fill) for fill in (0, 0, len(ranks)))
    group = np.zeros(len(ranks), np.int64)
    for column, rank in enumerate(rows):
        size = ranks[:, column].max() + 1
        keys = group * size + ranks[:, column]
        group, end = np.searchsorted(keys, keys), np.searchsorted(keys, keys, "right")
        found = _find(keys, np.where((depth == column) & (rank >= 0), start * size + rank, -1))
        start, stop = np.where(found < 0, start, found), np.where(found < 0, stop, end[found])
        depth += found >= 0
    return _Descent(depth, start, stop, rows)


def _replacements(
    table: np.ndarray, codes: list[np.ndarray], present: np.ndarray, first_row: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of `codes` that are present and not in the sorted `table`, and which row of `table` each becomes."""
    levels = [np.unique(column) for column in table.T]
    ranks = np.stack([np.searchsorted(*pair) for pair in zip(levels, table.T, strict=True)], axis=1)
    agreed = _descend(ranks, [_find(*pair) for pair in zip(levels, codes, strict=True)])
    rows = np.flatnonzero(present & (agreed.depth < len(codes)))
    # Only what follows the first disagreement can still be kept or lost.
    wishes = [np.where(agreed.depth < column, rank, -1)[rows] for column, rank in enumerate(agreed.ranks)]
    wishes = np.stack([agreed.start[rows], agreed.stop[rows], *wishes], axis=1)
    return rows, _choose(ranks, wishes, rows + first_row)


def _choose(ranks: np.ndarray, wishes: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """For each wish (start, stop, ranks) a row of [start, stop) that fulfils most of its ranks; all such take turns."""
    keys = np.zeros(len(wishes), np.int64)
    for column in wishes.T:
        keys = _dense(keys * (len(ranks) + 2) + column + 1)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    best = [np.zeros(0, np.int64)]
    for start, stop, *wanted in wishes[first]:
        kept = (ranks[start:stop] == wanted).sum(axis=1)
        best.append(start + np.flatnonzero(kept == kept.max()))
    counts = np.array([len(rows) for rows in best[1:]], np.int64)
    return np.concatenate(best)[(np.cumsum(counts) - counts)[group] + turns % counts[group]]


def _dense(keys: np.ndarray) -> np.ndarray:
    """Numbers that are equal where `keys` are, below the number of keys unless the keys are small anyway."""
    if not keys.size or keys.max() < 2**31:
        return keys
    return np.unique(keys, return_inverse=True)[1]


_NAME = r"(`(?:[^`]|``)+`|[^\W\d]\w*)"
_CELL = r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|[^\s'"`]+)"""


def _make_condition(given: str, sign: str, value: str, state: str, then: str, outcome: str) -> Condition:
    value, outcome = (None if text is None else _parse_cell(text) for text in (value, outcome))
    return Condition(_unquote(given), sign or " ".join(state.split()), value, _unquote(then), outcome)


_SENTENCES: dict[str, Callable[..., Constraint]] = {
    rf"{_NAME}\s*<=\s*{_NAME}": lambda lower, upper: Order(_unquote(lower), _unquote(upper)),
    rf"{_NAME}\s*>=\s*{_NAME}": lambda upper, lower: Order(_unquote(lower), _unquote(upper)),
    rf"{_NAME}\s+determines\s+{_NAME}": lambda of, what: Determines(_unquote(of), _unquote(what)),
    rf"if\s+{_NAME}(?:\s*(==|!=|<=|>=|<|>)\s*{_CELL}|\s+(is\s+missing|is\s+not\s+missing))"
    rf"\s+then\s+{_NAME}(?:\s*==\s*{_CELL}|\s+is\s+missing)": _make_condition,
}
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
#: How a value without quotes is read: by the first pattern that fits all of it.
_BARE: dict[str, Callable[[str], Cell]] = {
    "true|false": lambda text: text == "true",
    "[+-]?[0-9]+": int,
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?": float,
    _DATE: datetime.date.fromisoformat,
    f"{_DATE}T.+": datetime.datetime.fromisoformat,
}


def _unreadable(problem: str) -> SchemaError:
    return SchemaError("\n  ".join([f"{problem} A constraint is written in one of these ways:", *EXAMPLES]))


def _parse_cell(text: str) -> Cell:
    if text[0] in "'\"":
        return _unquote(text)
    try:
        cell = next((read(text) for pattern, read in _BARE.items() if re.fullmatch(pattern, text)), None)
    except ValueError:
        cell = None
    if not _is_cell(cell):
        raise _unreadable(f"{text} is no number, date, true or false; text stands in quotes, as in '{text}'.")
    return cell


def _is_cell(cell: object) -> bool:
    if isinstance(cell, int | float):
        return math.isfinite(cell) and abs(cell) < 2**63 if isinstance(cell, int) else math.isfinite(cell)
    return isinstance(cell, str | datetime.date)


def _parse_table(table: Mapping[str, Any]) -> Combinations:
    columns, allowed = table.get("columns"), table.get("allowed")
    if set(table) != {"columns", "allowed"}:
        raise _unreadable("A table of combinations has the keys `columns` and `allowed`.")
    if not isinstance(columns, list | tuple) or len(columns) < 2 or not all(isinstance(name, str) for name in columns):
        raise _unreadable("`columns` is a list of two or more names of columns.")
    rows = isinstance(allowed, list | tuple) and allowed and all(isinstance(row, list | tuple) for row in allowed)
    if not rows or not all(_is_cell(cell) for row in allowed for cell in row):
        raise _unreadable("`allowed` is a list of rows, each a list of texts, numbers, dates or true and false.")
    return Combinations(columns, allowed)


def _unquote(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0]) if text[0] in "`'\"" else text


def _quote(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d]\w*", name) else f"`{name.replace('`', '``')}`"


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell.isoformat() if isinstance(cell, datetime.date) else str(cell)


def _literal(cell: Cell) -> str:
    if not isinstance(cell, str):
        return _text(cell)
    quote = '"' if "'" in cell and '"' not in cell else "'"
    return f"{quote}{cell.replace(quote, quote * 2)}{quote}"

"""What an organisation allows: the largest epsilon and delta, the relation, and columns that no twin may have.

    epsilon = 1.0
    delta = 1e-6
    relation = "add-remove"
    forbidden_columns = ["ssn", "*name*"]

A policy refuses; it never changes what was asked for.
"""

from __future__ import annotations

import fnmatch
import math
import os
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from twinify_lite.accountant import Relation
from twinify_lite.errors import PolicyError, PolicyRefused
from twinify_lite.schema import Schema
from twinify_lite.schema.words import suggestion

# What does not count in a name: spaces and controls, by the first letter of their category; and of other categories the
# letters, marks and symbols that show nothing (Unicode's Default_Ignorable_Code_Point, and blanks).
_UNSEEN = "CZ"
_BLANK = {
    *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4\U0001d159",
    *map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]),
}
_ROUNDING = 1 + 1e-9  # of a figure that was written to a file and read again
_WHY_RELATION = {
    Relation.ADD_REMOVE: "under replacing a row, the number of rows is public",
    Relation.SUBSTITUTE: "adding or removing a row is another promise, which hides less of one who is replaced",
}


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What is allowed; None allows everything. A forbidden column is a name or a shell pattern, in any case of letters.

    >>> Policy(epsilon=1.0, forbidden_columns=("*name*",)).check_columns(["age", "Surname"])
    Traceback (most recent call last):
        ...
    twinify_lite.errors.PolicyRefused: ...
    """

    epsilon: float | None = None
    delta: float | None = None
    relation: Relation | None = None
    forbidden_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = [*_number_problems(self, "epsilon", math.inf), *_number_problems(self, "delta", 1.0)]
        if self.relation is not None and self.relation not in tuple(Relation):
            problems.append(f"relation must be one of {', '.join(Relation)}.")
        patterns = self.forbidden_columns
        if not isinstance(patterns, list | tuple) or not all(isinstance(name, str) and name for name in patterns):
            problems.append('forbidden_columns must be a list of names or patterns, such as ["ssn", "*name*"].')
        if problems:
            raise PolicyError("\n".join(problems))
        object.__setattr__(self, "forbidden_columns", tuple(patterns))
        if self.relation is not None:
            object.__setattr__(self, "relation", Relation(self.relation))
        if all(getattr(self, field.name) in (None, ()) for field in fields(self)):
            raise PolicyError(f"A policy that says nothing allows everything. Set one of {', '.join(_KEYS)}.")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """The policy in a TOML file. A key that there is not is refused: what it meant to forbid would be allowed."""
        name = os.fspath(path)
        try:
            with open(path, "rb") as file:
                said = tomllib.load(file)
        except OSError as error:
            raise PolicyError(f"{name} cannot be read: {os.strerror(error.errno or 0)}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PolicyError(f"{name} is not TOML: {error}.") from None
        unknown = [f"{name}: there is no key {key!r}{suggestion(key, _KEYS)}" for key in said if key not in _KEYS]
        if unknown:
            raise PolicyError("\n".join([*unknown, f"The keys of a policy are {', '.join(_KEYS)}."]))
        try:
            return cls(**said)
        except PolicyError as error:
            raise PolicyError("\n".join(f"{name}: {line}" for line in str(error).splitlines())) from None

    def check_request(self, *, epsilon: float, delta: float, relation: str, seed: int | None = None) -> None:
        """Refuse a fit that asks for more than is allowed."""
        problems = [*self._budget_problems(epsilon, delta, relation)]
        if seed is not None:
            problems.append("A twin from a seed is NOT PRIVATE, which every policy forbids. Leave out the seed.")
        _refuse(problems)

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse columns that a twin may not have."""
        found = [name for name in names if self._forbids(name)]
        listed = ", ".join(map(repr, found))
        if found:
            _refuse(
                [
                    f"The policy forbids the columns {listed}. Leave them out of the table, or have them left out of "
                    'the twin: kind = "identifier" in the schema, without sample = "surrogate".'
                ]
            )

    def check_statement(self, statement: Mapping[str, Any], *, recomputed: float = 0.0) -> None:
        """Refuse a twin that guarantees less than is demanded; `recomputed` is the epsilon of its `Verification`.

        The statement must be known to be true: verify it.
        """
        if statement.get("private") is not True:
            why = statement.get("why_not") or "it guarantees nothing"
            raise PolicyRefused(f"This twin is NOT PRIVATE, which every policy forbids: {why}.")
        spent = statement["spent"]
        budgets = [(statement["epsilon"], statement["delta"]), (spent["epsilon"], spent["delta"])]
        epsilon, delta = (max(map(float, figures)) for figures in zip(*budgets, strict=True))
        _refuse(self._budget_problems(max(epsilon, recomputed), delta, statement["relation"]))

    def _budget_problems(self, epsilon: float, delta: float, relation: str) -> Iterator[str]:
        for name, asked, allowed in (("epsilon", epsilon, self.epsilon), ("delta", delta, self.delta)):
            if allowed is not None and not asked <= allowed * _ROUNDING:
                yield f"The policy allows {name} up to {allowed:g}, and this is {asked:g}. Fit with less: --{name}."
        if self.relation is not None and relation != self.relation:
            yield (
                f"The policy demands the relation '{self.relation}', and this is '{relation}': "
                f"{_WHY_RELATION[self.relation]}. Fit with --relation {self.relation}."
            )

    def _forbids(self, name: str) -> bool:
        plain, patterns = _plain(name), map(_plain, self.forbidden_columns)
        return any(plain == pattern or fnmatch.fnmatchcase(plain, pattern) for pattern in patterns)


_KEYS = tuple(field.name for field in fields(Policy))


def as_policy(policy: Policy | str | os.PathLike[str] | None) -> Policy | None:
    """The policy, if only the path of one was given."""
    if not isinstance(policy, Policy | str | os.PathLike | None):
        raise PolicyError("The policy is the path of a policy.toml or a tw.Policy.")
    return policy if isinstance(policy, Policy | None) else Policy.load(policy)


def given_columns(schema: Schema) -> list[str]:
    """The columns that a twin of this schema models or shows: all but identifiers that are left out."""
    return [column.name for column in schema.columns if column.kind != "identifier" or column.sample != "omit"]


def _plain(name: str) -> str:
    """The name however it is typed: in any case, with or without spaces, with wide, composed or unseen letters."""
    seen = "".join(one for one in name if unicodedata.category(one)[0] not in _UNSEEN and one not in _BLANK)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())


def _refuse(problems: Iterable[str]) -> None:
    problems = list(problems)
    if problems:
        raise PolicyRefused("\n".join(problems))


def _number_problems(policy: Policy, name: str, below: float) -> Iterator[str]:
    value = getattr(policy, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < value < below):
        yield f"{name} must be a positive number{'' if below == math.inf else ' below 1'}, the largest that is allowed."

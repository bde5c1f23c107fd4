"""What a score holds: figures, each between held-out real rows and independent columns, and counts of bins, never rows.

All of it is computed from the real rows, so none of it is covered by epsilon.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twinify_lite.errors import ArtifactError, SchemaError

#: The first line of everything that is computed from real rows without noise.
WARNING = "NOT COVERED BY EPSILON: computed from the real rows, without noise. It must not leave the house."

#: The group of figures of models that predict a target.
LEARNING = "Learning"


@dataclass(frozen=True, kw_only=True, repr=False)
class Figure:
    """One figure. `whole` is of all rows; the other three are of equally many rows, against the same real ones.

    `heldout` real rows show what sampling alone does, `independent` columns what a twin without any dependence would
    get. None where a figure has no meaning, or was not asked for.
    """

    key: str
    name: str
    group: str
    better: Literal["lower", "higher", "neither"]
    what: str
    whole: float | None = None
    synthetic: float | None = None
    heldout: float | None = None
    independent: float | None = None

    def __post_init__(self) -> None:
        for side in ("whole", "synthetic", "heldout", "independent"):
            value = getattr(self, side)
            if value is not None and not math.isfinite(value):
                object.__setattr__(self, side, None)

    def __repr__(self) -> str:
        sides = ", ".join(f"{side}={getattr(self, side)}" for side in ("whole", "synthetic", "heldout", "independent"))
        return f"Figure({self.name}: {sides}; not covered by epsilon, must not leave the house)"


@dataclass(frozen=True, kw_only=True)
class ColumnScore:
    """One column: how many real and synthetic cells lie in each bin or level.

    The last `apart` of these lie on no axis: special values, and "missing".
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    real: tuple[int, ...]
    synthetic: tuple[int, ...]
    apart: int
    tvd: float
    sampled: float  # of as many synthetic rows as there are held-out ones, against the same real rows
    heldout: float
    missing: tuple[float, float]  # shares, real and synthetic


@dataclass(frozen=True, kw_only=True)
class PairScore:
    """Two columns: the total variation distance of their joint table; `sampled` and `heldout` are of equal sizes."""

    columns: tuple[str, str]
    tvd: float
    sampled: float
    heldout: float


@dataclass(frozen=True, kw_only=True)
class PairTable:
    """The joint table of a pair that came out badly, coarsened: shares of all rows, one list a level of the first."""

    columns: tuple[str, str]
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    real: tuple[tuple[float, ...], ...]
    synthetic: tuple[tuple[float, ...], ...]
    tvd: float


@dataclass(frozen=True, kw_only=True)
class CellScore:
    """One cell of a marginal of one, two or three columns: its levels, and its share of real and synthetic rows."""

    columns: tuple[str, ...]
    levels: tuple[str, ...]
    real: float
    synthetic: float


@dataclass(frozen=True, kw_only=True)
class PatternScore:
    """Which columns are missing together, and in which share of real and synthetic rows."""

    columns: tuple[str, ...]
    real: float
    synthetic: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Score:
    """How faithful synthetic rows are: `print(score)` for people, `.to_json()` for machines, `.report(path)` for both.

    `rows` counts the real, synthetic and held-out ones, and those `compared` at equal sizes; `is_split` says that the
    held-out rows are a half of the real ones; `alarm` that rows look copied.
    """

    rows: Mapping[str, int]
    is_split: bool
    target: str | None
    figures: tuple[Figure, ...]
    columns: tuple[ColumnScore, ...]
    pairs: tuple[PairScore, ...]
    tables: tuple[PairTable, ...]
    cells: tuple[CellScore, ...]
    patterns: tuple[PatternScore, ...]
    versions: Mapping[str, str]
    notes: tuple[str, ...] = ()
    alarm: str | None = None
    warning: str = WARNING

    def figure(self, key: str) -> Figure:
        """The figure of this key, such as "tvd_2way"."""
        known = {figure.key: figure for figure in self.figures}
        if not isinstance(key, str) or key not in known:
            raise SchemaError(f"This score has no figure {key!r}. It has {', '.join(known)}.")
        return known[key]

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for `json.dumps`, the warning first."""
        rest = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "warning"}
        return {"warning": self.warning, **_plain(rest)}

    def report(self, path: str | os.PathLike[str], *, twin: Any = None) -> None:
        """Write one self-contained HTML page; with the `twin` that the rows are from, also its guarantee and risk.

        `twin` is a `Twin` or the path of one; that the rows are from it is your claim.
        """
        from twinify_lite.describing import stated_in
        from twinify_lite.report import score_page
        from twinify_lite.table import replacing

        known = stated_in(twin) if isinstance(twin, str | os.PathLike) else twin
        if known is not None and not hasattr(known, "statement"):
            raise ArtifactError("The twin is a tw.Twin, or the path of one, such as data.twin.")
        if known is not None:
            self._require_columns_in(known)
        page = score_page(self, known)
        with replacing(path) as file:
            file.write(page.encode())

    def _require_columns_in(self, twin: Any) -> None:
        """Refuse a twin that cannot have made these rows; code of its own may give them other columns."""
        from twinify_lite.policy import given_columns

        names, known = [column.name for column in self.columns], {*given_columns(twin.schema)}
        strange = [name for name in names if name not in known]
        if strange and not twin.is_own:
            listed = ", ".join(map(repr, strange))
            raise ArtifactError(
                f"These rows are not from this twin: it has no column {listed}. Name the twin that they are from, or "
                "leave it out."
            )

    def __str__(self) -> str:
        from twinify_lite.score.words import lines

        return "\n".join(lines(self))

    def __repr__(self) -> str:
        return f"Score of {self.rows['synthetic']} synthetic rows, {len(self.columns)} columns; not covered by epsilon"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value

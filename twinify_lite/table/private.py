"""Rows that are held and not shown."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from twinify_lite.errors import TableError
from twinify_lite.table.columns import check_columns
from twinify_lite.table.csv_style import CsvStyle
from twinify_lite.table.frames import as_arrow, without_pandas_index
from twinify_lite.table.guard import guarded

if TYPE_CHECKING:
    import pandas as pd


class PrivateTable:
    """Rows that are held and not shown: not by `repr`, not by a debugger, not in a pickle. Their number is private too.

    `PrivateTable(frame)` takes a pandas DataFrame or a pyarrow Table. The index of a DataFrame is left out: call
    `frame.reset_index()` first if it is a column. `style` is given when the cells are the texts of a CSV file, and
    `name` is what errors call the table.

    >>> PrivateTable(pa.table({"age": [40, 41], "sex": ["f", "m"]}))
    PrivateTable of 2 columns, rows not shown
      age  int64
      sex  string
    """

    __slots__ = ("__weakref__", "_reveal", "_schema", "_style")

    def __init__(self, rows: pa.Table | pd.DataFrame, *, style: CsvStyle | None = None, name: str = "The table"):
        table = without_pandas_index(as_arrow(rows, name))
        check_columns(table.schema, name)
        if style is None:
            # Offsets can point nowhere and texts be none until Arrow is asked. A CSV file is checked as it is read.
            problem = f"{name} is damaged or has texts that are not UTF-8. Write it anew."
            guarded(lambda: table.validate(full=True), problem)
        if table.num_rows == 0:
            raise TableError(f"{name} has no rows. Give a table with at least one row.")
        self._schema = table.schema
        self._style = style
        # In a closure and not in an attribute, so that tools which print attributes print no rows.
        self._reveal = lambda: table

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in their order."""
        return tuple(self._schema.names)

    @property
    def types(self) -> dict[str, str]:
        """The type of each column: "text" in a CSV file, else Arrow's name for it, such as "int64"."""
        return {field.name: _type_name(field.type) if self._style is None else "text" for field in self._schema}

    @property
    def style(self) -> CsvStyle | None:
        """How the CSV file was written that the table comes from; None if it comes from anything else."""
        return self._style

    def reveal(self) -> pa.Table:
        """The rows themselves. For code inside the privacy boundary: what it returns may reach nobody without noise."""
        return self._reveal()

    def __repr__(self) -> str:
        shown = [(n if n.isprintable() and n == n.strip() else repr(n), t) for n, t in self.types.items()]
        width = max(len(name) for name, _ in shown[:50])
        lines = [f"  {name:<{width}}  {kind}" for name, kind in shown[:50]]
        more = [f"  ... and {len(shown) - 50} more"] if len(shown) > 50 else []
        count = f"{len(shown)} column{'s' if len(shown) > 1 else ''}"
        return "\n".join([f"PrivateTable of {count}, rows not shown", *lines, *more])

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def _refuse(self, *_: Any) -> NoReturn:
        raise TableError(
            "A PrivateTable is not pickled or copied, so that its rows stay where they are. Pass the path of the file "
            "and call read_table() there, or use the same object."
        )

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse


def _type_name(kind: pa.DataType) -> str:
    return f"dictionary<{kind.value_type}>" if pa.types.is_dictionary(kind) else str(kind)

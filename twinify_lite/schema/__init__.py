"""What is known of a table without looking at it: its columns, and what holds between them.

Start at `columns` (`Column`, `Schema`). `settle`, `checks` and `rules` say what may be said of a column, `toml` is
schema.toml, `constraints` are read by `sentences` and made to hold by `enforcing`, `guess` tells the kinds of columns
that have no types, and `draft` makes a schema from a table.
"""

from twinify_lite.schema.columns import (
    KEYS,
    KINDS,
    LEVELLED,
    RANGED,
    Cell,
    Column,
    Kind,
    Moment,
    Resolution,
    Schema,
)

__all__ = ["KEYS", "KINDS", "LEVELLED", "RANGED", "Cell", "Column", "Kind", "Moment", "Resolution", "Schema"]

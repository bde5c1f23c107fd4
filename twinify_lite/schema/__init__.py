"""What is known of a table without looking at it: its columns, and what holds between them.

Start at `columns` (`Column`, `Schema`); then `settle` and `rules` (what may be said of a column), `toml` (schema.toml),
`constraints`, `guess` (kinds of columns that have no types) and `draft`.
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

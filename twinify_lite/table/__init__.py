"""Tables in and out: rows that are held and never shown, files that are read whole and written whole or not at all.

Start at `private` (`PrivateTable`), `reading` (`read_table`) and `writing` (`write_table`). Behind them: `columns` and
`frames` (what comes in), `formats` and `origin` (which file, and how it is opened), `guard` (errors that quote no
cell), and the CSV files: `csv_style`, `csv_records`, `csv_problems`, `csv_reading`, `csv_writing` and `csv_notes`.
"""

from twinify_lite.table.columns import check_columns
from twinify_lite.table.csv_style import CsvStyle
from twinify_lite.table.formats import EXTENSIONS, FORMATS, Format
from twinify_lite.table.private import PrivateTable
from twinify_lite.table.reading import read_table
from twinify_lite.table.writing import replacing, write_table

__all__ = [
    "EXTENSIONS",
    "FORMATS",
    "CsvStyle",
    "Format",
    "PrivateTable",
    "check_columns",
    "read_table",
    "replacing",
    "write_table",
]

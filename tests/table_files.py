"""A small table and small files that the tests of tables share."""

import pyarrow as pa

from twinify_lite.table import read_table

CANARY = "CANARY_7f3a"
PEOPLE = pa.table({"name": [CANARY, "b", None], "age": [40, None, 42], "income": [1.5, 2.0, None]})


def texts(path, **options):
    """The cells of a file, as they stand."""
    return read_table(path, **options).reveal().to_pydict()


def from_bytes(tmp_path, data, name="a.csv", **options):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_table(path, **options)

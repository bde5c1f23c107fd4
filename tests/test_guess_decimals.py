"""Kinds beside decimal commas: guessed from numbers as they are read."""

import pyarrow as pa
import pytest

from twinify_lite.schema.guess import guess


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1.368,12", "288,58", "12.504,00", "0,50", "7,25"], ("number", 2)),
        (["7.912", "12.504", "988", "1.204", "33.000"], ("integer", None)),
        (["588.93", "12.10", "7.25", "44.01", "9.99"], ("category", None)),
        (["31.12.2020", "01.02.2021", "15.06.2020", "24.12.2019", "02.03.2020"], ("datetime", None)),
    ],
    ids=["thousands and decimals", "thousands", "points that are none", "days"],
)
def test_with_decimal_commas_points_part_thousands_as_they_do_when_cells_are_read(cells, expected):
    column = guess("x", pa.chunked_array([cells * 3]), decimal=",")
    assert (column.kind, column.decimals) == expected

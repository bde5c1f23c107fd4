"""JSON and arrays in a `.twin` file: what the writer writes comes back, and nothing else is taken."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twinify_lite.artifact import array_bytes, array_from_bytes, json_bytes, json_from_bytes
from twinify_lite.errors import ArtifactError

# -- JSON --------------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(json_values)
def test_json_comes_back(value):
    if "\\ud" not in json.dumps(value):
        assert json_from_bytes(json_bytes(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        "NaN",
        "[Infinity]",
        "1e999",
        "[" * 100 + "]" * 100,
        "[" * 1_000_000,
        '"\\ud800"',
        '{"\\ud800": 1}',
        "",
        "{",
        "1" * 10_000,
        "'a'",
    ],
)
def test_json_that_the_writer_would_not_write_is_refused(text):
    with pytest.raises(ArtifactError, match="the member is not JSON"):
        json_from_bytes(text.encode(), "the member")


def test_json_of_other_encodings_is_refused():
    with pytest.raises(ArtifactError):
        json_from_bytes('{"größe": 1}'.encode("latin-1"))


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", [float("inf")]])
def test_json_is_not_written_of_what_it_cannot_hold(value):
    with pytest.raises(ArtifactError):
        json_bytes(value)


# -- arrays ------------------------------------------------------------------------------------------------------------

dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
)


@given(hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0)))
def test_an_array_comes_back(array):
    back = array_from_bytes(array_bytes(array.T))
    assert back.shape == array.T.shape
    assert back.dtype == array.dtype.newbyteorder("<")
    np.testing.assert_array_equal(back, array.T)
    assert not back.flags.writeable


def npy(header, data=b"", version=b"\x01\x00"):
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


HEADERS = {
    "objects": npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", b"cposix\nsystem\n"),
    "Fortran order": npy(b"{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }\n", bytes(4)),
    "big-endian": npy(b"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", bytes(4)),
    "records": npy(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", bytes(4)),
    "texts": npy(b"{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }\n", bytes(4)),
    "a huge shape": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999, 999999999999), }\n"),
    "huge and empty": npy(
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 999999999999, 999999999999, 999999999999), }\n"
    ),
    "a negative shape": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n", bytes(8)),
    "a program": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (__import__('os'),), }\n", bytes(8)),
    "too few": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", bytes(8)),
    "too many": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", bytes(9)),
    "another version": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", bytes(8), b"\x02\x00"),
    "neither true nor false": npy(b"{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }\n", b"\x02"),
    "nothing": b"",
    "a pickle": b"\x80\x04K\x01.",
}


@pytest.mark.parametrize("kind", HEADERS)
def test_an_array_that_the_writer_would_not_write_is_refused(kind):
    with pytest.raises(ArtifactError, match="the member is not an array"):
        array_from_bytes(HEADERS[kind], "the member")


@pytest.mark.parametrize("array", [np.array([None]), np.array(["a"]), np.array([1j]), np.zeros(1, "M8[D]")])
def test_an_array_of_other_things_is_not_written(array):
    with pytest.raises(ArtifactError, match="weights has elements"):
        array_bytes(array, "weights")

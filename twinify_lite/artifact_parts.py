"""The members of a `.twin` file as bytes, and back: JSON and arrays, read as strictly as they are written."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from twinify_lite.errors import ArtifactError

if TYPE_CHECKING:
    import numpy as np

DEEPEST = 64
#: Types of array elements: the same bytes on every machine, and no Python objects.
DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")
_MOST_AXES = 32
# What `numpy.lib.format` writes of such an array; read by pattern, so that nothing in it is evaluated.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>[\x00-\xff]{2})"
    rb"(?P<header>\{'descr': '(?P<dtype>[<|][a-z][0-9])', 'fortran_order': False, 'shape': "
    rb"\((?P<shape>|[0-9]{1,12},|[0-9]{1,12}(, [0-9]{1,12}){1,31})\), \} *\n)",
)


# -- JSON --------------------------------------------------------------------------------------------------------------


def json_bytes(value: Any) -> bytes:
    """`value` as JSON: the same value gives the same bytes. NaN and infinity are refused, as JSON has none."""
    try:
        text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArtifactError(f"A part of a twin cannot be written as JSON: {error}.") from None
    return text.encode() + b"\n"


def json_from_bytes(data: bytes, member: str = "a member") -> Any:
    """The value of a JSON text in UTF-8.

    Formal guarantee: no key stands twice in an object, every number is finite, every text can be written to a file, and
    nothing lies deeper than `DEEPEST`; else `ArtifactError`.
    """
    try:
        value = json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_refuse, parse_float=_finite)
        sound = _is_sound(value)
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise ArtifactError(f"{member} is not JSON as a twin holds it. Make the twin again.")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _refuse(_constant: str) -> float:
    raise ValueError


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):  # 1e999
        raise ValueError
    return number


def _is_sound(value: Any) -> bool:
    """Whether `value` is shallow, and its texts have no half characters. Not recursive: it judges depth."""
    level = [value]
    for _ in range(DEEPEST):
        for item in level:
            for text in item if isinstance(item, dict) else [item]:
                if isinstance(text, str):
                    text.encode()  # raises UnicodeEncodeError, a ValueError
        within = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [inner for items in within for inner in items]
        if not level:
            return True
    return False


# -- arrays ------------------------------------------------------------------------------------------------------------


def array_bytes(array: Any, name: str = "an array") -> bytes:
    """`array` (NumPy's or JAX's) as an `.npy` file: little-endian, in C order, of one of `DTYPES`."""
    import io

    import numpy as np

    plain = np.asarray(array)
    kind = plain.dtype.newbyteorder("<")
    if kind.str not in DTYPES or plain.ndim > _MOST_AXES:
        raise ArtifactError(f"{name} has elements of the type {plain.dtype}, which a twin cannot hold. Convert it.")
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(plain, kind, order="C"), version=(1, 0), allow_pickle=False)
    return file.getvalue()


def array_from_bytes(data: bytes, member: str = "a member") -> np.ndarray:
    """The array of an `.npy` file that `array_bytes` wrote; it cannot be written to.

    Formal guarantee: exact, and no more than `data` itself is held; anything else raises `ArtifactError`.
    """
    import numpy as np

    problem = ArtifactError(f"{member} is not an array as a twin holds it. Make the twin again.")
    match = _NPY.match(data)
    if match is None or match["dtype"].decode() not in DTYPES:
        raise problem
    dtype = np.dtype(match["dtype"].decode())
    shape = tuple(int(size) for size in match["shape"].decode().split(",") if size.strip())
    exact = int.from_bytes(match["length"], "little") == len(match["header"])
    if not exact or len(data) - match.end() != dtype.itemsize * math.prod(shape):
        raise problem
    try:
        array = np.frombuffer(data, dtype, offset=match.end()).reshape(shape)
    except ValueError:  # no elements, and other axes beyond what NumPy counts
        raise problem from None
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise problem
    return array

"""Numbers as text with all their decimals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def fixed(value: np.ndarray, missing: np.ndarray, decimals: int) -> pa.Array:
    """Numbers rounded to `decimals` and written with all of them, as `12.50`; null where `missing`.

    A zero has no minus. What is not finite is `nan` or `inf`.
    """
    with np.errstate(over="ignore"):
        steps = np.rint(np.abs(value, dtype=np.float64) * 10.0**decimals)
    # Where the steps are sure to be exact, Arrow writes them, which is much faster than Python.
    hard = ~(steps < 2.0**50)
    whole = np.where(hard, 0, steps).astype(np.int64)
    text = _pointed(whole, (value < 0) & (whole > 0), missing, decimals)
    hard &= ~missing
    if not hard.any():
        return text
    spelled = pa.array([f"{number:.{decimals}f}" for number in value[hard].tolist()], pa.string())
    return pc.replace_with_mask(text, pa.array(hard), spelled)


def _pointed(steps: np.ndarray, negative: np.ndarray, missing: np.ndarray, decimals: int) -> pa.Array:
    if decimals == 0:
        return pa.array(np.where(negative, -steps, steps), mask=missing).cast(pa.string())
    whole, part = (pa.array(number).cast(pa.string()) for number in divmod(steps, 10**decimals))
    sign = pa.array(["", "-"]).take(pa.array(negative.astype(np.int8), mask=missing))
    return pc.binary_join_element_wise(sign, whole, ".", pc.utf8_lpad(part, decimals, "0"), "")

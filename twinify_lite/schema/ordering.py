"""Two numbers of one row that are the wrong way round, put in order."""

from __future__ import annotations

import numpy as np

from twinify_lite.schema.scale import Scale


def in_order(
    lower: Scale, upper: Scale, left: np.ndarray, right: np.ndarray, *, gently: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that the two columns can hold, the first at most the second, in the place of `left` > `right`.

    Gently: swapped where both columns can hold that, up to their decimals or ticks; else `left` falls to `right`, else
    `right` rises to `left`, so that the other stays as it is. What is left, and all if not `gently`, is swapped and
    moved into the ranges. Only that is sure to settle where several orders pull at one column.
    """
    new_left, new_right = _moved(lower, upper, left, right)
    if not gently:
        return new_left, new_right
    fallen, risen = lower.down(right), upper.up(left)
    can_fall, can_rise = lower.holds(fallen), upper.holds(risen)
    falls = can_fall & (can_rise | upper.holds(right))
    rises = can_rise & (can_fall | lower.holds(left))
    gentle = falls | rises
    new_left = np.where(falls, fallen, np.where(gentle, left, new_left))
    new_right = np.where(rises, risen, np.where(gentle, right, new_right))
    return new_left, new_right


def _moved(lower: Scale, upper: Scale, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if lower.low is not None and upper.high is not None and lower.low > upper.high:
        return _apart(lower, upper, left, right)
    new_left, new_right = lower.clamp(lower.down(right)), upper.clamp(upper.up(left))
    new_right = np.where(new_left > new_right, upper.clamp(upper.up(new_left)), new_right)
    return np.minimum(new_left, lower.down(new_right)), new_right


def _apart(lower: Scale, upper: Scale, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """No value of `lower` is at most one of `upper`: a special number must do, and one of the two may stay."""
    stays = lower.least <= right
    new_left = np.where(~stays & (left <= upper.most), left, lower.least)
    return new_left, np.where(stays, right, upper.most)

"""The clip norm: a number, or found while training from a noisy count of the rows that it does not reach.

The automatic rule is that of Andrew, Thakkar, McMahan, Ramaswamy 2021, "Differentially private learning with adaptive
clipping": each step also releases how many rows were below the clip norm, and the norm moves geometrically towards a
quantile. The count is not free and is not extra either: it is one more coordinate of the step's Gaussian release. A row
contributes the vector (sqrt(1 - s) g / C, sqrt(s) (2 b - 1)), where g is its clipped gradient and b whether it was
below, in whole steps of a `lattice`; that vector has norm at most 1, so the release has the step's noise multiplier
whatever C was, and the accounting (fixed multipliers, adaptive sensitivities) is unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from twinify_lite.dpsvi import lattice
from twinify_lite.dpsvi.gradient import WholeSum
from twinify_lite.dpsvi.lattice import Lattice, Words
from twinify_lite.errors import PrivacyParameterError

# Within this range single precision keeps its relative accuracy for gradients, clip factors and noise alike.
SMALLEST = 1e-12


@dataclass(frozen=True, kw_only=True)
class ClipRule:
    """`share` of the step's signal goes to the count that moves the clip norm towards `quantile`; 0 keeps it fixed."""

    start: float | None
    share: float = 0.0
    quantile: float = 0.9
    rate: float = 0.4
    slowest: float = 0.6


def clip_rule(clip_norm: float | str) -> ClipRule:
    """Read the user's `clip_norm`."""
    if clip_norm == "auto":
        return ClipRule(start=None, share=0.02)
    if not isinstance(clip_norm, int | float) or not SMALLEST <= clip_norm <= 1 / SMALLEST:
        raise PrivacyParameterError(f'clip_norm must be a number from {SMALLEST:g} to {1 / SMALLEST:g}, or "auto".')
    return ClipRule(start=float(clip_norm))


def add_noise(total: WholeSum, drawn: Int[Array, " number"], on: Lattice) -> tuple[PyTree, Float[Array, ""]]:
    """The noisy gradient sum and the noisy sum over rows of (below the clip norm) - 1/2, released together.

    Formal guarantee: all that leaves is a function of the integers of `total`, each with a number of its own from
    `drawn`, so it is the Gaussian mechanism that `on` was made for.
    """
    leaves, tree = jax.tree.flatten(total.words, is_leaf=lambda node: isinstance(node, Words))
    # Leaf by leaf, because one long vector would be copied several times over.
    ends = list(accumulate(leaf.low.size for leaf in leaves))
    noisy = [
        total.unit * lattice.add_noise(leaf, drawn[end - leaf.low.size : end].reshape(leaf.low.shape))
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    counted = lattice.add_noise(total.count, drawn[ends[-1] if ends else 0]) / max(1, 2 * on.count)
    return tree.unflatten(noisy), counted


def move(
    rule: ClipRule,
    clip_norm: Float[Array, ""],
    noisy_surplus: Float[Array, ""],
    expected_rows: float,
    step: Int[Array, ""],
) -> Float[Array, ""]:
    """The next clip norm, from the noisy sum over the batch of (below the norm) - 1/2."""
    if not rule.share:
        return clip_norm
    # Left unclamped: a clamp at 0 or 1 would cut more of one side's noise and drive the norm away from the quantile.
    below = 0.5 + noisy_surplus / expected_rows
    # Quick at first, to find the scale; slow later, to average over the count's noise (Robbins and Monro 1951).
    pace = rule.rate * jnp.maximum(jax.lax.rsqrt(1 + step / 10), rule.slowest)
    moved = jnp.clip(clip_norm * jnp.exp(-pace * (below - rule.quantile)), SMALLEST, 1 / SMALLEST)
    return moved.astype(clip_norm.dtype)

"""The clip norm: a number, or found while training from a noisy count of the rows that it does not reach.

The automatic rule is that of Andrew, Thakkar, McMahan, Ramaswamy 2021, "Differentially private learning with adaptive
clipping": each step also releases how many rows were below the clip norm, and the norm moves geometrically towards a
quantile. The count is not free and is not extra either: it is one more coordinate of the step's Gaussian release. A row
contributes the vector (sqrt(1 - s) g / C, sqrt(s) (2 b - 1)), where g is its clipped gradient and b whether it was
below; that vector has norm at most 1, so the release has the step's noise multiplier whatever C was, and the
accounting (fixed multipliers, adaptive sensitivities) is unchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from twinify_lite import noise
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


class NoiseScales(NamedTuple):
    """Noise sds of a step: of the gradient in units of the clip norm, and of the count; and where both are released."""

    gradient: float
    count: float
    lattice: noise.Lattice


def clip_rule(clip_norm: float | str) -> ClipRule:
    """Read the user's `clip_norm`."""
    if clip_norm == "auto":
        return ClipRule(start=None, share=0.02)
    if not isinstance(clip_norm, int | float) or not SMALLEST <= clip_norm <= 1 / SMALLEST:
        raise PrivacyParameterError(f'clip_norm must be a number from {SMALLEST:g} to {1 / SMALLEST:g}, or "auto".')
    return ClipRule(start=float(clip_norm))


def noise_scales(rule: ClipRule, noise_multiplier: float, coordinates: int) -> NoiseScales:
    """Split one Gaussian release of `noise_multiplier` into the gradient's part, of `coordinates`, and the count's.

    Formal guarantee: 1/gradient^2 + (1/2)^2/count^2 = 1/noise_multiplier^2, the two parts' account together.
    """
    gradient = noise_multiplier / math.sqrt(1 - rule.share)
    count = 0.5 * noise_multiplier / math.sqrt(rule.share) if rule.share else 0.0
    return NoiseScales(gradient, count, noise.lattice(coordinates + 1, noise_multiplier))


def add_noise(
    scales: NoiseScales,
    clip_norm: Float[Array, ""],
    gradient: PyTree,
    surplus: Float[Array, ""],
    drawn: Int[Array, " number"],
) -> tuple[PyTree, Float[Array, ""]]:
    """The noisy gradient sum and the noisy count, released together as one Gaussian vector."""
    leaves, tree = jax.tree.flatten(gradient)
    units = scales.gradient * clip_norm
    # Leaf by leaf, because one long vector would be copied several times over.
    ends = list(accumulate(leaf.size for leaf in leaves))
    noisy = [
        units.astype(leaf.dtype)
        * noise.add(leaf / units, drawn[end - leaf.size : end].reshape(leaf.shape), scales.lattice)
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    counted = surplus / scales.count if scales.count else jnp.zeros_like(surplus)
    return tree.unflatten(noisy), scales.count * noise.add(counted, drawn[ends[-1] if ends else 0], scales.lattice)


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

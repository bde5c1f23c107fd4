"""The clip norm: a number, or found while training from a noisy count of the rows that it does not reach.

The automatic rule is that of Andrew, Thakkar, McMahan, Ramaswamy 2021, "Differentially private learning with adaptive
clipping": each step also releases how many rows were below the clip norm, and the norm moves geometrically towards a
quantile. The count is not free and is not extra either: it is one more coordinate of the step's Gaussian release. A row
contributes the vector (sqrt(1 - s) g / C, sqrt(s) (2 b - 1)), where g is its clipped gradient and b whether it was
below, in whole steps of a `lattice`; that vector has norm at most 1, so the release has the step's noise multiplier
whatever C was, and the accounting (fixed multipliers, adaptive sensitivities) is unchanged.

Which quantile, and how fast, follows from public numbers: `for_run`. A norm that is larger by dC lets in dC more of
every row that is cut, of which there are B (1 - F(C)) in a batch of B, and sigma sqrt(d) dC more noise on d numbers. A
row's bias is the same in every step, while noise averages out over as many of the T steps as the optimiser averages
over. The two are even where

    1 - F(C) = sigma sqrt(d) / (B sqrt(T / k^2))

so that is the share of rows to cut, as long as it is neither hardly any nor most of them. The count's own noise, in a
walk of pace p, adds p sqrt(T) of its standard deviation to log C: a pace that keeps this at one cannot lose the norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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

# The share of the made-up rows' median norm that the automatic rule starts from: noise that a norm lets in while it
# comes down from too high stays in the fit, while what it cuts on its way up is met again in later steps.
LOW = 0.3
# One in `_AVERAGED`^2 steps is what the optimiser averages noise over: k above. It was chosen on simulated fits of
# thirteen models, and held on two others and on other sizes. Twice as much cuts off what is rare, such as the 3 % of
# rows with the other answer. With more than half of the rows cut, the sum is one of directions, and the prior has more
# weight than it should; a quantile nearer to 1 is told by too few rows.
_AVERAGED, _FEWEST_CUT, _MOST_CUT = 10.0, 0.02, 0.5


@dataclass(frozen=True, kw_only=True)
class ClipRule:
    """`share` of the step's signal goes to the count that moves the clip norm towards `quantile`; 0 keeps it fixed.

    A move is the count's distance from the quantile times `rate`, which falls to `slowest` of itself, or times `pace`
    where noise asks for a slower walk. `for_run` sets quantile and pace.
    """

    start: float | None
    share: float = 0.0
    quantile: float = 1 - _FEWEST_CUT
    rate: float = 0.4
    slowest: float = 0.6
    pace: float = math.inf


def clip_rule(clip_norm: float | str) -> ClipRule:
    """Read the user's `clip_norm`."""
    if clip_norm == "auto":
        return ClipRule(start=None, share=0.02)
    if not isinstance(clip_norm, int | float) or not SMALLEST <= clip_norm <= 1 / SMALLEST:
        raise PrivacyParameterError(f'clip_norm must be a number from {SMALLEST:g} to {1 / SMALLEST:g}, or "auto".')
    return ClipRule(start=float(clip_norm))


def for_run(rule: ClipRule, *, noise_multiplier: float, coordinates: int, expected_rows: float, steps: int) -> ClipRule:
    """The rule for `steps` steps on about `expected_rows` rows each, from these public numbers alone.

    Formal guarantee: over all steps, what the count's noise and the drawing of rows add to the logarithm of the clip
    norm has a standard deviation of at most 1, for any rows.
    """
    if not rule.share:
        return rule
    lost = noise_multiplier * math.sqrt(coordinates) / (expected_rows * math.sqrt(steps))
    cut = min(max(_AVERAGED * lost, _FEWEST_CUT), _MOST_CUT)
    # The count is one number of the release, in which a row moves it by sqrt(share) of what the noise pays for.
    from_noise = noise_multiplier / (2 * math.sqrt(rule.share) * expected_rows)
    deviation = math.hypot(from_noise, 0.5 / math.sqrt(expected_rows))
    return replace(rule, quantile=1 - cut, pace=1 / (deviation * math.sqrt(steps)))


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
    pace = jnp.minimum(rule.rate * jnp.maximum(jax.lax.rsqrt(1 + step / 10), rule.slowest), rule.pace)
    moved = jnp.clip(clip_norm * jnp.exp(-pace * (below - rule.quantile)), SMALLEST, 1 / SMALLEST)
    return moved.astype(clip_norm.dtype)

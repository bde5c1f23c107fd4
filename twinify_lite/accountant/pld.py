"""Composition of privacy loss distributions (PLDs), by one Fourier transform under an exponential tilt.

One release becomes a distribution on the losses i * h that dominates it (connect the dots: the profile,
as a function of e^epsilon, is replaced by its chords; Doroshenko et al. 2022, arXiv:2207.04380). The losses of
all releases add up, so their distributions are convolved.

Formal guarantee: every figure is an upper bound on the composed profile. What a computer adds is charged
for: losses beyond the window by Chernoff's bound, round-off by `_ROUND_OFF`.

Why tilt: a transform in double precision leaves an absolute error of 1e-16 per step, which is no longer small
against delta = 1e-10 after 1e6 steps. Weighting each loss by e^(tilt * loss) makes the losses near the epsilon
in question the likely ones, so that the error becomes relative to delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.signal import lfilter
from scipy.special import logsumexp

from twinify_lite.accountant.hockey import Release

Array = NDArray[np.float64]

MAX_POINTS = 1 << 22
_FIRST_POINTS = 1 << 12
_REFINE = 4
_CUT = 1e-5  # share of delta that a cut tail may cost: looser, never unsound
# Measured against long-double transforms: at most 7e-18 a step, relative to Chernoff's bound on delta; the
# untilted transform is off by up to 3e-10 in delta itself after 1e6 steps.
_ROUND_OFF_STEP, _ROUND_OFF_ONCE = 4e-15, 1e-12


class Span(NamedTuple):
    """A release with the range of losses outside of which it may be cut."""

    release: Release
    low: float
    high: float


class Plan(NamedTuple):
    """Where to look: the tilt, the window of composed losses, and the order that bounds what lies above it."""

    tilt: float
    center: float
    low: float
    high: float
    order: float


class Tail(NamedTuple):
    """The composed profile on the window, in units of exp(log_scale).

    For epsilon in [loss[k-1], loss[k]] it is mass[k] - e^(epsilon - loss[k]) * discounted[k] + round_off[k-1],
    and `beyond` (in plain units) on top.
    """

    loss: Array
    mass: Array
    discounted: Array
    round_off: Array
    log_scale: float
    beyond: float

    def delta(self, epsilon: float) -> float:
        """An upper bound on the profile at epsilon; far above 1 if the grid is too coarse to tell."""
        k = int(np.searchsorted(self.loss, epsilon))
        if k == len(self.loss):
            return self.beyond
        inside = self.mass[k] - math.exp(epsilon - self.loss[k]) * self.discounted[k]
        inside = max(inside, 0.0) + self.round_off[max(k - 1, 0)]
        return float(inside) * math.exp(min(self.log_scale, 700.0)) + self.beyond

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon in the window at which the bound is at most delta; may be negative."""
        if self.beyond >= delta:
            return math.inf
        target = math.exp(math.log(delta - self.beyond) - self.log_scale)
        met = self.mass - self.discounted + self.round_off <= target
        if not met.any():
            return math.inf
        k = int(np.argmax(met))
        if k == 0:
            return float(self.loss[0])
        room = self.mass[k] + self.round_off[k - 1] - target
        if room <= 0:
            return float(self.loss[k - 1])
        exact = self.loss[k] + math.log(room / self.discounted[k])
        return float(np.clip(exact, self.loss[k - 1], self.loss[k]))


def spans_of(releases: Sequence[Release], delta: float) -> list[Span]:
    """Cut each release where the rest of it costs less than a share `_CUT` of delta."""
    steps = sum(release.count for release in releases)
    sizes = np.geomspace(1e-12, 1e8, 600)
    return [Span(release, *_range(release, sizes, _CUT * delta / steps)) for release in releases]


def _range(release: Release, sizes: Array, negligible: float) -> tuple[float, float]:
    above = release.forward(sizes) <= release.given + negligible
    below = np.exp(-sizes) * release.backward(sizes) <= negligible
    return -float(sizes[np.argmax(below)]), float(sizes[np.argmax(above)])


class Cumulants:
    """log E_P[e^(order * loss)] of the composition, by quadrature of the profiles: it steers, it bounds nothing.

    E_P[e^(t L)] = 1 + t (t+1) * integral of e^(t x) excess(x) dx, from writing x^(t+1) as a mixture of hockey
    sticks.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self._parts = [(span.release.count, *_quadrature(span)) for span in spans]
        self.steps = sum(span.release.count for span in spans)
        # Beyond this order a moment only says what the largest loss is, and the nodes are too few to tell it.
        self.largest_order = 1e2 / max(span.high for span in spans)

    def __call__(self, orders: Array) -> Array:
        """The cumulant generating function at each order."""
        return sum(count * _log_moment(orders, nodes, weights) for count, nodes, weights in self._parts)


def _quadrature(span: Span) -> tuple[Array, Array]:
    unit = np.concatenate([np.geomspace(1e-9, 1.0, 160), np.linspace(0.0, 1.0, 300)[1:-1]])
    unit.sort()
    nodes = np.concatenate([span.low * unit[::-1], [0.0], span.high * unit])
    widths = np.gradient(nodes)
    with np.errstate(divide="ignore"):  # an excess of 0 weighs nothing
        return nodes, np.log(widths * span.release.excess(nodes))


def _log_moment(orders: Array, nodes: Array, weights: Array) -> Array:
    factor = orders * (orders + 1)
    integral = logsumexp(weights + orders[:, None] * nodes, axis=1)
    with np.errstate(divide="ignore", over="ignore"):
        convex = np.logaddexp(0.0, np.log(np.maximum(factor, 0.0)) + integral)
        concave = np.log1p(np.maximum(-np.exp(integral) / 4, factor * np.exp(integral)).clip(-0.999))
    return np.where(factor >= 0, convex, concave)


def plan_for_delta(cumulants: Cumulants, delta: float) -> Plan:
    """The window around the epsilon that belongs to delta."""

    def epsilon(orders: Array) -> Array:
        return (_log_chernoff(cumulants, orders) - math.log(delta)) / orders

    order, center = _minimise(epsilon, cumulants.largest_order)
    return _narrowest(cumulants, order, max(center, 0.0), math.log(delta))


def plan_for_epsilon(cumulants: Cumulants, epsilon: float, delta: float | None = None) -> Plan:
    """The window around epsilon, wide enough for a profile that is about delta there (Chernoff's, if None)."""

    def log_delta(orders: Array) -> Array:
        return _log_chernoff(cumulants, orders) - orders * epsilon

    order, found = _minimise(log_delta, cumulants.largest_order)
    return _narrowest(cumulants, order, epsilon, math.log(delta) if delta else found)


def _log_chernoff(cumulants: Cumulants, orders: Array) -> Array:
    """log of the best constant c with delta(epsilon) <= c e^(-order * epsilon) for every epsilon.

    (Canonne, Kamath, Steinke 2020, arXiv:2004.00010v4, Proposition 12.)
    """
    return cumulants(orders) + orders * np.log(orders) - (1 + orders) * np.log1p(orders)


def _minimise(objective: Callable[[Array], Array], largest: float) -> tuple[float, float]:
    orders = np.geomspace(1e-10 * largest, largest, 100)
    best = int(np.argmin(objective(orders)))
    near = np.geomspace(orders[max(best - 1, 0)], orders[min(best + 1, len(orders) - 1)], 24)
    values = objective(near)
    best = int(np.argmin(values))
    return float(near[best]), float(values[best])


def _narrowest(cumulants: Cumulants, order: float, center: float, log_delta: float) -> Plan:
    """The tilt with the narrowest window, among those whose round-off is small against delta.

    Rare large losses make a full tilt wasteful: it raises their tail.
    """
    plans = [_window(cumulants, share * order, center, log_delta) for share in (0.25, 0.5, 0.75, 1.0)]
    quiet = [plan for plan, noise in plans if noise <= math.log(_CUT) + log_delta]
    return min(quiet or [plans[-1][0]], key=lambda plan: plan.high - plan.low)


def _window(cumulants: Cumulants, tilt: float, center: float, log_delta: float) -> tuple[Plan, float]:
    """Chernoff's bounds under the tilt: what wraps around the transform must be rare there, too."""
    steps = np.geomspace(1e-10, 1.0, 80) * cumulants.largest_order
    at_tilt = cumulants(np.array([tilt]))[0]
    chernoff = at_tilt - tilt * center
    rare = max(chernoff - log_delta, 0.0) - math.log(_CUT)
    highs = (cumulants(tilt + steps) - at_tilt + rare) / steps
    lows = (at_tilt - cumulants(tilt - steps) - rare) / steps
    high = max(float(highs.min()), center)
    high += 0.05 * abs(high - center)
    low = min(float(lows.max()), center - (high - center) / 8)
    # The smallest order that will do: large ones magnify what the grid adds to the largest loss.
    order = float(tilt + steps[np.argmax(highs <= high)])
    noise = chernoff + math.log(_ROUND_OFF_STEP * cumulants.steps + _ROUND_OFF_ONCE)
    return Plan(tilt, center, low, high, order), noise


def refine(
    spans: Sequence[Span], plan: Plan, read: Callable[[Tail], float], settled: Callable[[float, float], bool]
) -> float:
    """Read the composed profile on ever finer grids until the reading has settled or the grid is full.

    The error falls at least as fast as the interval, so what is left is at most a third of the last move.
    """
    spans = _trim(spans, plan)
    widest = max([plan.high - plan.low] + [span.high - span.low for span in spans])
    interval = max((plan.high - plan.low) / _FIRST_POINTS, widest / MAX_POINTS * _REFINE)
    reading = read(_compose(spans, plan, interval))
    while widest / interval * _REFINE <= MAX_POINTS:
        interval /= _REFINE
        previous, reading = reading, min(reading, read(_compose(spans, plan, interval)))
        if settled(previous, reading):
            break
    return reading


def _trim(spans: Sequence[Span], plan: Plan) -> list[Span]:
    """Raise losses so low that nothing the other releases add brings the sum into the window."""
    most = sum(span.release.count * span.high for span in spans)
    return [span._replace(low=max(span.low, plan.low - most + span.high)) for span in spans]


def connect_the_dots(release: Release, first: int, last: int, interval: float) -> tuple[Array, float]:
    """Masses on the losses first*h .. last*h and at infinity.

    Formal guarantee: the profile of the result is at least that of the release, at every epsilon.
    """
    dots = release.excess(np.arange(first, last + 1) * interval)
    # Below the first dot the chord runs to (e^epsilon = 0, delta = 1); above the last one it is level.
    dots = np.concatenate([[dots[0] * math.exp(-interval)], dots, [dots[-1]]])
    rise = np.diff(dots)
    masses = (rise[1:] * math.exp(-interval) - rise[:-1]) / -math.expm1(-interval)
    masses[-first] += 1.0  # no release at all is a loss of 0, surely
    return np.maximum(masses, 0.0), float(dots[-1])


def _compose(spans: Sequence[Span], plan: Plan, interval: float) -> Tail:
    first, last = math.floor(plan.low / interval), math.ceil(plan.high / interval)
    size = fft.next_fast_len(last - first + 1, real=True)
    spectrum, log_moment, log_above, infinite, steps = 1.0, 0.0, -plan.order * last * interval, 0.0, 0
    for release, low, high in spans:
        start, stop = min(math.floor(low / interval), 0), max(math.ceil(high / interval), 1)
        masses, lost = connect_the_dots(release, start, stop, interval)
        index = np.arange(start, stop + 1)
        with np.errstate(divide="ignore"):  # log 0 = -inf: no mass
            logs = np.log(masses)
        tilted, moment = _tilt(logs, index * (plan.tilt * interval))
        folded = np.bincount(index % size, weights=tilted, minlength=size)
        spectrum = spectrum * _power(folded, release.count)
        log_moment += release.count * moment
        log_above += release.count * _tilt(logs, index * (plan.order * interval))[1]
        infinite += release.count * lost
        steps += release.count
    composed = np.maximum(fft.irfft(spectrum, size), 0.0)
    index = np.arange(first, last + 1)
    loss = index * interval
    untilt = np.exp(np.minimum(-plan.tilt * (loss - plan.center), 300.0))
    weights = composed[index % size] * untilt
    round_off = (_ROUND_OFF_STEP * steps + _ROUND_OFF_ONCE) * untilt
    return Tail(
        loss=loss,
        mass=np.cumsum(weights[::-1])[::-1],
        discounted=lfilter([1.0], [1.0, -math.exp(-interval)], weights[::-1])[::-1],
        round_off=round_off,
        log_scale=log_moment - plan.tilt * plan.center,
        beyond=math.exp(min(log_above, 50.0)) + infinite,
    )


def _power(masses: Array, count: int) -> NDArray[np.complex128]:
    """The spectrum of `count` independent copies added up."""
    return fft.rfft(masses) ** count


def _tilt(logs: Array, exponents: Array) -> tuple[Array, float]:
    """Masses times e^exponent, scaled to sum to 1, and the log of the scale."""
    logs = logs + exponents
    top = logs.max()
    tilted = np.exp(logs - top)
    total = tilted.sum()
    return tilted / total, float(top + math.log(total))

"""How each operation passes rows on: rules are rows of `RULES`, from an equation to where the rows of its results lie.

A rule is asked when some operand is `ALIGNED` and every other is `FREE`. It raises `Unsure` where it cannot tell, and
`Mixes` where a result depends on several rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from twinify_lite.dpsvi.row_axis import Equation, Kind, Layout, Mixes, Sums, Unsure
from twinify_lite.dpsvi.row_lookups import gather, scatter

Rule = Callable[[Equation], list[Layout]]

# Each entry of the result is made of the same entry of every operand; an operand may also be one number for all.
_ELEMENTWISE = """
abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e bitcast_convert_type cbrt ceil
clamp clz complex conj convert_element_type copy copy_p cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2
expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow is_finite le le_to lgamma log log1p logistic lt
lt_to max min mul mulhi ne neg nextafter not or polygamma population_count pow random_fold_in random_gamma_grad
real reduce_precision regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic
shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta
"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
# Of an array that holds one number everywhere, these make another such array.
UNIFORM = ELEMENTWISE | {"reshape", "squeeze", "transpose", "rev", "slice", "reduce_max", "reduce_min", "reduce_and"}
# What a sum over rows may pass through and still be one.
_LINEAR = {
    "neg",
    "convert_element_type",
    "copy",
    "reshape",
    "squeeze",
    "broadcast_in_dim",
    "reduce_sum",
    "stop_gradient",
}


def summed(e: Equation) -> Layout:
    """The result of an equation in which sums over rows enter."""
    name, kinds = e.eqn.primitive.name, [one.kind for one in e.given]
    only_sums = set(kinds) == {Kind.SUMMED}
    if only_sums and name in _LINEAR | {"add", "sub", "add_any"}:
        return Layout(Kind.SUMMED, placed=e.placed)
    by_constant = (name == "mul" and Kind.FREE in kinds) or (name == "div" and kinds[1:] == [Kind.FREE])
    if by_constant:
        return Layout(Kind.SUMMED, placed=e.placed)
    # A constant beside a sum is there once, whatever the number of rows.
    is_shifted = name in ("add", "sub") and max(kinds) is Kind.SUMMED and Kind.ALIGNED not in kinds
    return Layout(Kind.UNSURE if is_shifted else Kind.MIXED, placed=e.placed)


def _elementwise(e: Equation) -> list[Layout]:
    shapes = {e.shape(i) for i in range(len(e.given))} - {()}
    if len(shapes) > 1:  # An axis of length 1 is repeated.
        return e.outs(*e.where())
    strides = {e.given[i].stride for i in e.aligned}
    if len(strides) > 1:
        raise Unsure
    return e.every(Layout(Kind.ALIGNED, strides.pop(), e.placed))


def _one_by_one(e: Equation) -> list[Layout]:
    return list(e.given)


def _same_order(e: Equation) -> list[Layout]:
    if e.params.get("dimensions") is not None and e.eqn.primitive.name == "reshape":
        raise Unsure
    return e.every(Layout(Kind.ALIGNED, e.given[0].stride, e.placed))


def _broadcast_in_dim(e: Equation) -> list[Layout]:
    axis, inner = e.at(0)
    return e.outs(e.params["broadcast_dimensions"][axis], inner)


def _transpose(e: Equation) -> list[Layout]:
    axis, inner = e.at(0)
    return e.outs(list(e.params["permutation"]).index(axis), inner)


def _reduce(e: Equation) -> list[Layout]:
    axes = e.params["axes"] if "axes" in e.params else e.params["dimensions"]
    axis, inner = e.where()
    if axis in axes:
        raise Sums if e.eqn.primitive.name == "reduce_sum" else Mixes
    return e.outs(axis - sum(other < axis for other in axes), inner)


def _along(axes_of: Callable[[Equation], Collection[int]], otherwise: type[Exception] = Mixes) -> Rule:
    """The rule of an operation that keeps every axis and looks along some of them."""

    def rule(e: Equation) -> list[Layout]:
        axis, inner = e.where()
        if axis in axes_of(e):
            raise otherwise
        return e.outs(axis, inner)

    return rule


def _matrix(e: Equation) -> Collection[int]:
    rank = len(e.shape(0))
    return rank - 2, rank - 1


def _cut(e: Equation) -> Collection[int]:
    """The axes of which only a part is kept."""
    return [
        axis for axis, pair in enumerate(zip(e.shape(0), e.eqn.outvars[0].aval.shape, strict=True)) if len({*pair}) > 1
    ]


def _padded(e: Equation) -> Collection[int]:
    return [axis for axis, widths in enumerate(e.params["padding_config"]) if any(widths)]


def _windowed(e: Equation) -> Collection[int]:
    each = zip(e.params["window_dimensions"], e.params["window_strides"], e.params["padding"], strict=True)
    return [axis for axis, (size, stride, padding) in enumerate(each) if (size, stride, *padding) != (1, 1, 0, 0)]


def _dynamic_slice(e: Equation) -> list[Layout]:
    axis, inner = e.at(0)
    if any(one.kind is not Kind.FREE for one in e.given[1:]) or axis in _cut(e):
        raise Unsure
    return e.outs(axis, inner)


def _dynamic_update_slice(e: Equation) -> list[Layout]:
    axis, inner = e.where()
    if any(i > 1 for i in e.aligned) or e.shape(0)[axis] != e.shape(1)[axis]:
        raise Unsure
    return e.outs(axis, inner)


def _tile(e: Equation) -> list[Layout]:
    axis, inner = e.at(0)
    if e.params["reps"][axis] != 1:
        raise Unsure
    return e.outs(axis, inner)


def _stack(e: Equation) -> list[Layout]:
    axis, inner = e.where()
    return e.outs(axis + (e.params["axis"] <= axis), inner)


def _unstack(e: Equation) -> list[Layout]:
    axis, inner = e.at(0)
    if axis == e.params["axis"]:
        raise Mixes
    return e.outs(axis - (e.params["axis"] < axis), inner)


def _dot_general(e: Equation) -> list[Layout]:
    contract, batch = e.params["dimension_numbers"]
    places = set()
    for side in e.aligned:
        axis, inner = e.at(side)
        if axis in contract[side]:
            raise Mixes
        if axis in batch[side]:
            places.add((list(batch[side]).index(axis), inner))
            continue
        free = [d for d in range(len(e.shape(side))) if d not in contract[side] and d not in batch[side]]
        before = len(batch[0]) + side * (len(e.shape(0)) - len(contract[0]) - len(batch[0]))
        places.add((before + free.index(axis), inner))
    if len(places) != 1:
        raise Unsure
    return e.outs(*places.pop())


def _conv(e: Equation) -> list[Layout]:
    numbers, groups = e.params["dimension_numbers"], (e.params["feature_group_count"], e.params["batch_group_count"])
    axis, inner = e.where()
    if e.aligned == [0] and axis == numbers.lhs_spec[0] and groups[1] == 1:
        return e.outs(numbers.out_spec[0], inner)
    if e.aligned == [1] and axis == numbers.rhs_spec[0] and groups == (1, 1):
        return e.outs(numbers.out_spec[1], inner)
    raise Mixes if groups == (1, 1) else Unsure


def _triangular_solve(e: Equation) -> list[Layout]:
    axis, inner = e.where()
    rank = len(e.shape(1))
    matrix = {0: {rank - 2, rank - 1}, 1: {rank - 2 if e.params["left_side"] else rank - 1}}
    if any(axis in matrix[i] for i in e.aligned):
        raise Unsure
    return e.outs(axis, inner)


def _last(e: Equation) -> Collection[int]:
    return (len(e.shape(0)) - 1,)


def _param(name: str) -> Callable[[Equation], Collection[int]]:
    def axes(e: Equation) -> Any:
        found = e.params[name]
        return found if isinstance(found, tuple) else (found,)

    return axes


def _fourier(e: Equation) -> Collection[int]:
    rank = len(e.shape(0))
    return range(rank - len(e.params["fft_lengths"]), rank)


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(("optimization_barrier", "device_put", "sharding_constraint"), _one_by_one),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _same_order),
    **dict.fromkeys(("reduce", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"), _reduce),
    **dict.fromkeys(("reduce_and", "reduce_or", "reduce_xor"), _reduce),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "split"), _along(_param("axis"))),
    **dict.fromkeys(("cholesky", "eig", "eigh", "svd", "lu", "schur", "hessenberg"), _along(_matrix)),
    **dict.fromkeys(
        ("reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"), _along(_windowed)
    ),
    **dict.fromkeys(("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"), scatter),
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _along(_param("dimension"), Unsure),
    "conv_general_dilated": _conv,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "fft": _along(_fourier),
    "gather": gather,
    "lu_pivots_to_permutation": _along(_last),
    "pad": _along(_padded, Unsure),
    "rev": _along(_param("dimensions")),
    "slice": _along(_cut),
    "sort": _along(_param("dimension")),
    "stack": _stack,
    "tile": _tile,
    "top_k": _along(lambda e: (e.params["axis"],)),
    "transpose": _transpose,
    "triangular_solve": _triangular_solve,
    "unstack": _unstack,
}

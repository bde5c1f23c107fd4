"""Which rows each result of a program depends on: the row axis is followed from equation to equation.

    program, traced for two numbers of rows -> what is known of its inputs -> of each equation -> of its results

What differs between the two programs, be it the length of an axis or a number that is written into them, belongs to
the rows; everything else is the same whichever rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from twinify_lite.dpsvi import jaxprs
from twinify_lite.dpsvi.row_axis import (
    Differs,
    Equation,
    Kind,
    Layout,
    Mixes,
    Sums,
    Unsure,
    constant,
    followed,
    growing,
    position,
)
from twinify_lite.dpsvi.row_rules import RULES, UNIFORM, summed

# Calls whose body is ordinary equations, and the name of that body.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}


def follow(program: core.ClosedJaxpr, twin: core.ClosedJaxpr, given: Sequence[Layout], rows: int) -> list[Layout]:
    """What is known of each result of `program`, which was traced for `rows` rows; `twin` for another number of them.

    Formal guarantee: where a result is `ALIGNED` or `FREE` and not `placed`, each row's part of it is a function of
    that row and of the free inputs alone.
    """
    if _look(program.jaxpr) != _look(twin.jaxpr):
        raise Differs
    consts = zip(program.consts, twin.consts, strict=True)
    env = dict(zip(program.jaxpr.constvars, [constant(*pair, rows) for pair in consts], strict=True))
    env.update(zip(program.jaxpr.invars, given, strict=True))

    def read(atoms: Sequence[Any], twins: Sequence[Any]) -> tuple[Layout, ...]:
        return tuple(_read(env, atom, other, rows) for atom, other in zip(atoms, twins, strict=True))

    for eqn, other in zip(program.jaxpr.eqns, twin.jaxpr.eqns, strict=True):
        found = _pass_on(Equation(eqn, other, read(eqn.invars, other.invars), rows))
        env.update(zip(eqn.outvars, found, strict=True))
    return list(read(program.jaxpr.outvars, twin.jaxpr.outvars))


def _look(program: core.Jaxpr) -> tuple[int, int, list[tuple]]:
    """What a program and its twin have in common."""
    steps = [(eqn.primitive, len(eqn.invars), len(eqn.outvars)) for eqn in program.eqns]
    return len(program.constvars), len(program.invars), steps


def _read(env: dict[core.Var, Layout], atom: Any, twin: Any, rows: int) -> Layout:
    if isinstance(atom, core.Literal) != isinstance(twin, core.Literal):
        raise Differs
    return constant(atom.val, twin.val, rows) if isinstance(atom, core.Literal) else env[atom]


def _pass_on(e: Equation) -> list[Layout]:
    """What is known of the results of one equation."""
    name = e.eqn.primitive.name
    if name in _CALLS:
        return follow(*_bodies(e, _CALLS[name]), e.given, e.rows)
    if name in _CONTROL:
        return _CONTROL[name](e)
    worst = max((one.kind for one in e.given), default=Kind.FREE)
    if worst is Kind.MIXED or worst is Kind.UNSURE:
        return e.every(Layout(worst, placed=e.placed))
    if worst is Kind.SUMMED:
        return e.every(summed(e))
    found = _free(e) if worst is Kind.FREE else _by_rule(e)
    joined = name == "concatenate" and all(e.shape(i)[-1] == 1 for i in range(len(e.given)))
    return [found[0]._replace(parts=e.given)] if joined and e.params["dimension"] == len(e.shape(0)) - 1 else found


def _by_rule(e: Equation) -> list[Layout]:
    try:
        return RULES[e.eqn.primitive.name](e)
    except (KeyError, Unsure):
        return e.every(Layout(Kind.UNSURE, placed=e.placed))
    except Mixes:
        return e.every(Layout(Kind.MIXED, placed=e.placed))
    except Sums:
        return e.every(Layout(Kind.SUMMED, placed=e.placed))


# -- what depends on no row -------------------------------------------------------------------------------------------


def _free(e: Equation) -> list[Layout]:
    """The results of an equation that no row enters. They may still have an entry for each."""
    name, value = e.eqn.primitive.name, _value(e)
    if e.placed:
        return e.every(Layout(placed=True, value=value))
    grown = [growing(var, twin) for var, twin in zip(e.eqn.outvars, e.twin.outvars, strict=True)]
    has_rows = [bool(growing(var, twin)) for var, twin in zip(e.eqn.invars, e.twin.invars, strict=True)]
    is_one_number = all(rows or e.eqn.invars[i].aval.size == 1 for i, rows in enumerate(has_rows))
    if not any(has_rows) and not any(grown):
        return e.every(Layout(value=value))
    if is_one_number and (name in UNIFORM or name == "broadcast_in_dim"):
        return e.every(Layout(value=value))
    if name in ("broadcast_in_dim", "iota", "tile"):
        return [_repeated(e, grown[0], value)]
    lifted = e._replace(given=tuple(e.lifted(i) for i in range(len(e.given))))
    if not lifted.aligned or name not in RULES:
        return e.every(Layout(placed=True, value=value))
    return _by_rule(lifted)


def _repeated(e: Equation, grown: tuple[int, ...], value: np.ndarray | None) -> Layout:
    """The same numbers for each row, or for `iota` along the rows the place of each."""
    shape = e.eqn.outvars[0].aval.shape
    if e.params.get("dimension") in grown:
        return Layout(placed=True, value=value)
    block = e.shape(0)[grown[0]] if e.eqn.primitive.name == "tile" else 1
    if len(grown) != 1 or shape[grown[0]] != e.rows * block:
        return Layout(Kind.UNSURE)
    return Layout(Kind.ALIGNED, math.prod(shape[grown[0] + 1 :]) * block)


_EVALUATED: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "convert_element_type": np.asarray,
    "squeeze": np.asarray,
    "reshape": np.asarray,
    "select_n": lambda which, *cases: np.choose(which.astype(int), cases),
    "concatenate": lambda *parts: np.concatenate(parts, axis=-1),
}


def _value(e: Equation) -> np.ndarray | None:
    """The value of an index that is made of places and of numbers that are written into the program."""
    name, var = e.eqn.primitive.name, e.eqn.outvars[0]
    kind, shape, values = getattr(var.aval.dtype, "kind", ""), var.aval.shape, [one.value for one in e.given]
    if kind not in ("i", "u", "b") or any(value is None for value in values):
        return None
    if name == "iota":
        axis = e.params["dimension"]
        each = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
        return followed(np.broadcast_to(each, shape).astype(var.aval.dtype))
    if name == "broadcast_in_dim":
        axes, size = e.params["broadcast_dimensions"], e.shape(0)
        spread = values[0].reshape([size[axes.index(d)] if d in axes else 1 for d in range(len(shape))])
        return followed(np.broadcast_to(spread, shape))
    if name not in _EVALUATED or (name == "concatenate" and e.params["dimension"] != len(shape) - 1):
        return None
    return followed(_EVALUATED[name](*values).reshape(shape).astype(var.aval.dtype))


# -- programs inside of programs --------------------------------------------------------------------------------------


def _bodies(e: Equation, name: str) -> tuple[core.ClosedJaxpr, core.ClosedJaxpr]:
    return _closed(e.eqn.params[name]), _closed(e.twin.params[name])


def _closed(body: core.Jaxpr | core.ClosedJaxpr) -> core.ClosedJaxpr:
    return body if isinstance(body, core.ClosedJaxpr) else core.ClosedJaxpr(body, ())


def _join(one: Layout, other: Layout) -> Layout:
    """What is known of an array that is one or the other."""
    kind, placed = max(one.kind, other.kind), one.placed or other.placed
    strides = {layout.stride for layout in (one, other) if layout.kind is Kind.ALIGNED}
    if kind is Kind.ALIGNED:
        return Layout(kind, strides.pop(), placed) if len(strides) == 1 else Layout(Kind.UNSURE, placed=placed)
    if kind is Kind.SUMMED and one.kind is not other.kind:
        kind = Kind.UNSURE
    return Layout(kind, placed=placed)


def _settle(step: Callable[[list[Layout]], list[Layout]], carry: Sequence[Layout]) -> list[Layout]:
    """What is known of the carry of a loop, whichever round it is in."""
    carry = [one._replace(value=None, parts=()) for one in carry]
    while True:
        after = [_join(one, other) for one, other in zip(carry, step(carry), strict=True)]
        if [one.known for one in after] == [one.known for one in carry]:
            return carry
        carry = after


def _cond(e: Equation) -> list[Layout]:
    which, *given = e.given
    branches = zip(e.eqn.params["branches"], e.twin.params["branches"], strict=True)
    found = [follow(_closed(one), _closed(other), given, e.rows) for one, other in branches]
    results = found[0]
    for more in found[1:]:
        results = [_join(one, other) for one, other in zip(results, more, strict=True)]
    return results if which.kind is Kind.FREE and not which.placed else [_joined_with(which, one) for one in results]


def _joined_with(which: Layout, result: Layout) -> Layout:
    """A result that was chosen by `which`, one number for all rows."""
    kind = result.kind if which.kind is Kind.FREE else max(result.kind, which.kind, Kind.UNSURE)
    return result._replace(kind=kind, placed=result.placed or which.placed, value=None, parts=())


def _while(e: Equation) -> list[Layout]:
    test, body = e.params["cond_nconsts"], e.params["body_nconsts"]
    tested, fixed, start = e.given[:test], e.given[test : test + body], e.given[test + body :]
    programs = _bodies(e, "body_jaxpr")
    carry = _settle(lambda carry: follow(*programs, [*fixed, *carry], e.rows), start)
    (goes_on,) = follow(*_bodies(e, "cond_jaxpr"), [*tested, *carry], e.rows)
    if goes_on.kind is Kind.FREE and not goes_on.placed:
        return carry
    # Rows may go on for as long as any of them does, and yet each stop by itself.
    goes_on = goes_on._replace(kind=min(goes_on.kind, Kind.UNSURE))
    return [
        one if _is_still(programs[0], body + number, number) else _joined_with(goes_on, one)
        for number, one in enumerate(carry)
    ]


def _is_still(program: core.ClosedJaxpr, input_number: int, output_number: int) -> bool:
    return program.jaxpr.outvars[output_number] is program.jaxpr.invars[input_number]


def _scan(e: Equation) -> list[Layout]:
    consts, carried = e.params["num_consts"], e.params["num_carry"]
    programs = _bodies(e, "jaxpr")
    if e.params["length"] != e.twin.params["length"]:
        return _scan_rows(e, programs[0])
    fixed, start, scanned = e.given[:consts], e.given[consts : consts + carried], e.given[consts + carried :]
    if any(e.given[i].kind is Kind.ALIGNED and _lies_first(e, i) for i in range(consts + carried, len(e.given))):
        return e.every(Layout(Kind.UNSURE, placed=e.placed))
    each = [one._replace(value=None, parts=()) for one in scanned]

    def step(carry: Sequence[Layout]) -> list[Layout]:
        return follow(*programs, [*fixed, *carry, *each], e.rows)

    carry = _settle(lambda carry: step(carry)[:carried], start)
    # Results are stacked along a new first axis, below which every row lies as it did.
    return [*carry, *(one._replace(value=None, parts=()) for one in step(carry)[carried:])]


def _lies_first(e: Equation, operand: int) -> bool:
    found = position(e.shape(operand), e.given[operand].stride, e.rows)
    return found is None or found[0] == 0


def _scan_rows(e: Equation, program: core.ClosedJaxpr) -> list[Layout]:
    """A loop over the rows: one row enters each round, and all before it may enter by the carry."""
    consts, carried, number = e.params["num_consts"], e.params["num_carry"], len(e.given)
    own = [e.given[i].kind is Kind.ALIGNED and e.at(i)[0] == 0 for i in range(number)]
    is_whole = all(own[i] == (one.kind is Kind.ALIGNED) for i, one in enumerate(e.given))
    if (
        e.params["length"] != e.rows
        or any(own[: consts + carried])
        or not is_whole
        or max(one.kind for one in e.given) > Kind.ALIGNED
    ):
        return e.every(Layout(Kind.UNSURE, placed=True))
    moving = [consts <= i < consts + carried and not _is_still(program, i, i - consts) for i in range(number)]
    by_row, by_past = jaxprs.dependence(program, own), jaxprs.dependence(program, moving)
    shapes = [None] * carried + [var.aval.shape for var in e.eqn.outvars[carried:]]
    mixes = any(by_row[:carried])
    return [_of_scan(past, mixes, e.placed, shape) for past, shape in zip(by_past, shapes, strict=True)]


def _of_scan(by_past: bool, mixes: bool, placed: bool, shape: tuple[int, ...] | None) -> Layout:
    """A result of a loop over the rows; `shape` is that of what the rounds hand out, None for the carry's end."""
    if shape is None:
        return Layout(Kind.MIXED if mixes else Kind.FREE, placed=True)
    if by_past:
        return Layout(Kind.MIXED if mixes else Kind.ALIGNED, math.prod(shape[1:]), placed=True)
    return Layout(Kind.ALIGNED, math.prod(shape[1:]), placed)


_CONTROL: dict[str, Callable[[Equation], list[Layout]]] = {"cond": _cond, "scan": _scan, "while": _while}

"""How private the values of expressions and names are: a part of `boundary`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from boundary_calls import Calls, called
from boundary_source import ALL, INSIDE, NOT, Function

if TYPE_CHECKING:
    from boundary import Walk

#: What is public of a private thing: names and types; and what `discover.findings.Look` says to be public of itself.
PUBLIC = frozenset(
    """
    column_names schema type types names style dtype ndim
    column frequent frequent_numbers frequent_texts missing missing_rows range is_skewed is_guessed seeks_values
    seeks_range scale
    """.split()  # noqa: SIM905
)


class Values(Calls):
    """The values in one function, followed with what is known of all others."""

    def __init__(self, walk: Walk, function: Function, releasing: set[str] | None):
        self.walk, self.function, self.releasing = walk, function, releasing
        self.private = function.private
        if function.parent is not None:
            self.function.mark(function.parent.private)
            function.decided |= function.parent.decided
        self.ended = False  # whether a private thing may have ended the function before

    def note(self, what: str, node: ast.AST) -> None:
        if self.releasing is not None:
            self.walk.found.add((self.function.name, what, node.lineno))

    def assign(self, target: ast.expr, level: int, decided: bool = False) -> None:
        """A name is as private from now on; what a part is assigned to has it inside."""
        level = ALL if decided else level
        if isinstance(target, ast.Tuple | ast.List):
            for one in target.elts:
                self.assign(one, ALL if level else NOT)
            return
        while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
            level = INSIDE if level and not decided else level
            target = target.value
        if level and isinstance(target, ast.Name):
            self.function.mark({target.id: level})

    def loop(self, target: ast.expr, over: ast.expr, decided: bool) -> bool:
        """Assign what is looped over to its names, and tell whether how often it loops is private."""
        level = self.value(over, decided)
        self.assign_each(target, over, level, decided)
        return level == ALL

    def assign_each(self, target: ast.expr, over: ast.expr, level: int, decided: bool) -> None:
        """What stands at a place of an `enumerate`, a `zip` or the keys of a dict is not what stands beside it."""
        name = called(over) if isinstance(target, ast.Tuple) else ""
        if name == "enumerate" and len(target.elts) == 2:
            self.assign(target.elts[0], ALL if level == ALL else NOT)
            self.assign_each(target.elts[1], over.args[0], level, decided)
        elif name == "zip" and len(over.args) == len(target.elts):
            for one, of in zip(target.elts, over.args, strict=True):
                self.assign_each(one, of, ALL if level == ALL else self.value(of, decided), decided)
        elif name == "items" and len(target.elts) == 2:
            self.assign(target.elts[0], ALL if level == ALL else NOT)
            self.assign(target.elts[1], ALL if level else NOT)
        else:
            self.assign(target, ALL if level else NOT)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr, decided: bool) -> int:
        """How private the value is."""
        how = getattr(self, f"_{type(node).__name__.lower()}", None)
        if how is not None:
            return how(node, decided)
        parts = [self.value(child, decided) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return ALL if any(parts) else NOT

    def _name(self, node: ast.Name, _decided: bool) -> int:
        return self.private.get(node.id, NOT)

    def _starred(self, node: ast.Starred, decided: bool) -> int:
        return self.value(node.value, decided)

    def _lambda(self, node: ast.Lambda, decided: bool) -> int:
        return self.value(node.body, decided)

    def held(self, node: ast.List | ast.Tuple | ast.Set, decided: bool) -> int:
        """A list has what it is made of inside; how long it is shows what is spread into it."""
        spread = [self.value(one, decided) for one in node.elts if isinstance(one, ast.Starred)]
        levels = [self.value(one, decided) for one in node.elts]
        return ALL if ALL in spread else INSIDE if any(levels) else NOT

    _list = _tuple = held

    def _dict(self, node: ast.Dict, decided: bool) -> int:
        keys = [self.value(one, decided) for one in node.keys if one is not None]
        spread = [self.value(of, decided) for one, of in zip(node.keys, node.values, strict=True) if one is None]
        levels = [self.value(one, decided) for one in node.values]
        return ALL if any(keys) or ALL in spread else INSIDE if any(levels) else NOT

    def _attribute(self, node: ast.Attribute, decided: bool) -> int:
        level = self.value(node.value, decided)
        for function in self.known_methods(node.attr) if level else ():
            if any(getattr(one, "id", "") in ("property", "cached_property") for one in function.node.decorator_list):
                self.enter(function, [level], {}, decided)
        return ALL if level and node.attr not in PUBLIC else NOT

    def _compare(self, node: ast.Compare, decided: bool) -> int:
        levels = [self.value(one, decided) for one in (node.left, *node.comparators)]
        is_there = all(isinstance(one, ast.Is | ast.IsNot) for one in node.ops) and ALL not in levels
        return NOT if is_there or not any(levels) else ALL

    def _ifexp(self, node: ast.IfExp, decided: bool) -> int:
        here = self.value(node.test, decided) == ALL
        both = [self.value(one, decided or here) for one in (node.body, node.orelse)]
        return ALL if here else max(both)

    def _boolop(self, node: ast.BoolOp, decided: bool) -> int:
        level = NOT
        for one in node.values:
            level = max(level, self.value(one, decided or level == ALL))
        return level

    def _unaryop(self, node: ast.UnaryOp, decided: bool) -> int:
        level = self.value(node.operand, decided)
        return NOT if isinstance(node.op, ast.Not) and level == INSIDE else level

    def _namedexpr(self, node: ast.NamedExpr, decided: bool) -> int:
        level = self.value(node.value, decided)
        self.assign(node.target, level, decided)
        return level

    def _yield(self, node: ast.Yield, decided: bool) -> int:
        level = NOT if node.value is None else self.value(node.value, decided)
        self.give(INSIDE if level else NOT, decided or self.ended)
        return NOT

    def _yieldfrom(self, node: ast.YieldFrom, decided: bool) -> int:
        self.give(self.value(node.value, decided), decided or self.ended)
        return NOT

    def comprehension(self, node: ast.expr, decided: bool) -> int:
        before, here = dict(self.private), False
        own = {one.id for loop in node.generators for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
        for name in own:
            self.private.pop(name, None)
        for loop in node.generators:
            here |= self.loop(loop.target, loop.iter, decided or here)
            for test in loop.ifs:
                here |= self.value(test, decided or here) == ALL
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        levels = [self.value(one, decided or here) for one in made]
        key = isinstance(node, ast.DictComp) and bool(levels[0])
        for name in own:
            self.private.pop(name, None)
        self.function.mark(before)
        return ALL if here or key else INSIDE if any(levels) else NOT

    _listcomp = _setcomp = _dictcomp = _generatorexp = comprehension

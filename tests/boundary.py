"""A walker over the source of the package: which `raise` could hang on exact cells, or on how many rows there are.

What `.reveal()` returns is private, and so is what is computed from it, what is assigned where it decides, and what a
function returns that is given it. Names are followed through calls: to the function that a name means by its imports,
and for a method to every one of that name in the file and in those that it imports anything of. No order of statements
is followed, only that of early ends. So it finds too much rather than too little, and what it finds in vain is listed
with a reason, in the test. What it cannot see is an error of numpy or Arrow: `test_hostile_cells` tries those.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from boundary_source import ALL, NOT, Function, Package
from boundary_values import Values

_JUMPS = ast.Return | ast.Raise | ast.Continue | ast.Break


class Walk:
    """A walk from `entries`, such as "module.function", or "module.function(rows)" where a parameter is private.

    `doors` return public things whatever they are given. Those that are `closed` are not walked either. `raisers` are
    functions and classes that raise if what they are given is wrong: each call with something private is `found`.
    Objects of `opaque` classes are public, whatever they hold. `found` has functions, what may happen there, and lines.
    """

    def __init__(self, package: Package, entries: Sequence[str], *, doors=(), closed=(), raisers=(), opaque=()):
        self.package, self.closed, self.doors = package, set(closed), {*doors, *closed}
        self.raisers, self.opaque = set(raisers), set(opaque)
        self.found: set[tuple[str, str, int]] = set()
        self.sources: set[str] = set()
        entries = {name.partition("(")[0]: name.partition("(")[2].rstrip(")") for name in entries}
        listed = (*entries, *self.doors)
        unknown = [name for name in listed if not isinstance(package.look_up(name), Function)]
        if unknown:
            raise LookupError(f"There are no functions {', '.join(unknown)}: correct the test's list.")
        for name, private in entries.items():
            package.look_up(name).reached = True
            package.look_up(name).private |= dict.fromkeys(private.replace(",", " ").split(), ALL)
        self._settle()
        releasing = self._releasing()
        for function in package.functions.values():
            if function.reached and function.name not in self.closed | self.raisers:
                _Body(self, function, releasing).run()

    def _settle(self) -> None:
        state = None
        while state != (state := self._state()):
            self.sources = self._find_sources()
            for function in list(self.package.functions.values()):
                if function.reached and function.name not in self.closed | self.raisers:
                    _Body(self, function, None).run()

    def is_source(self, function: Function) -> bool:
        """Whether its result may be private though nothing that it is given is: it reveals rows, or is part of what
        does."""
        return function.parent is not None or function.name in self.sources

    def _find_sources(self) -> set[str]:
        every = self.package.functions.values()
        found = {one.name for one in every if "reveal" in one.calls} - self.doors
        while more := {one.name for one in every if one.calls & found} - found - self.doors:
            found |= more
        return found

    def _state(self) -> list[tuple]:
        every = self.package.functions.values()
        return [
            (sum(f.private.values()), tuple(f.parts or ()), f.decided, f.returns, f.reached, len(f.calls))
            for f in every
        ]

    def _releasing(self) -> set[str]:
        """Functions from which a door is called, or a receipt redeemed."""
        found = {f.name for f in self.package.functions.values() if f.calls & (self.doors | {"redeem"})}
        while more := {f.name for f in self.package.functions.values() if f.calls & found} - found:
            found |= more
        return found


class _Body(Values):
    """One function's statements."""

    def run(self) -> None:
        for one in self.function.inner.values():
            one.reached = True
        self.block(self.function.node.body, False)

    def block(self, body: Sequence[ast.stmt], decided: bool) -> None:
        for node in body:
            self.statement(node, decided or self.ended)

    def statement(self, node: ast.stmt, decided: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return
        how = getattr(self, f"_{type(node).__name__.lower()}", None)
        if how is not None:
            how(node, decided)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, decided)

    def branch(self, decided: bool, here: bool, *bodies: Sequence[ast.stmt]) -> None:
        for body in bodies:
            self.block(body, decided or here)
        nodes = (one for body in bodies for child in body for one in ast.walk(child))
        if here and any(isinstance(one, _JUMPS) for one in nodes):
            self.ended = True

    def _if(self, node: ast.If, decided: bool) -> None:
        self.branch(decided, self.value(node.test, decided) == ALL, node.body, node.orelse)

    def _while(self, node: ast.While, decided: bool) -> None:
        self.branch(decided, self.value(node.test, decided) == ALL, node.body, node.orelse)

    def _for(self, node: ast.For, decided: bool) -> None:
        here = self.loop(node.target, node.iter, decided)
        self.branch(decided, here, node.body, node.orelse)

    def _match(self, node: ast.Match, decided: bool) -> None:
        here = self.value(node.subject, decided) == ALL
        self.branch(decided, here, *(case.body for case in node.cases))

    def _try(self, node: ast.Try, decided: bool) -> None:
        self.block(node.body, decided)
        nodes = [one for child in node.body for one in ast.walk(child) if isinstance(one, ast.expr)]
        here = any(self.value(one, decided) for one in nodes if isinstance(one, ast.Call | ast.Name | ast.Subscript))
        for handler in node.handlers:
            if handler.name and here:
                self.private[handler.name] = ALL
            self.branch(decided, here, handler.body)
        self.block(node.orelse, decided or here)
        self.block(node.finalbody, decided)

    def _with(self, node: ast.With, decided: bool) -> None:
        for item in node.items:
            level = self.value(item.context_expr, decided)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, level)
        self.block(node.body, decided)

    def _raise(self, node: ast.Raise, decided: bool) -> None:
        level = max([self.value(one, decided) for one in (node.exc, node.cause) if one is not None], default=NOT)
        if level or decided or self.function.decided:
            self.note("raise", node)

    def _assert(self, node: ast.Assert, decided: bool) -> None:
        if self.value(node.test, decided) == ALL or decided or self.function.decided:
            self.note("assert", node)

    def _return(self, node: ast.Return, decided: bool) -> None:
        level = NOT if node.value is None else self.value(node.value, decided)
        self.give(level, decided)
        if isinstance(node.value, ast.Tuple):
            parts = [ALL if decided else self.value(one, decided) for one in node.value.elts]
            before = self.function.parts or [NOT] * len(parts)
            self.function.parts = [max(both) for both in zip(before, parts, strict=False)]
        if decided and self.releasing is not None and self.function.name in self.releasing:
            self.note("return", node)

    def give(self, level: int, decided: bool) -> None:
        self.function.returns = max(self.function.returns, ALL if decided else level)

    def _assign(self, node: ast.Assign, decided: bool) -> None:
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for one, value in zip(target.elts, node.value.elts, strict=False):
                    self.assign(one, self.value(value, decided), decided)
            elif isinstance(target, ast.Tuple) and (parts := self.parts_of(node.value)) is not None:
                self.value(node.value, decided)
                for one, level in zip(target.elts, parts, strict=False):
                    self.assign(one, level, decided)
            else:
                self.assign(target, self.value(node.value, decided), decided)

    def parts_of(self, node: ast.expr) -> list[int] | None:
        """How private each of several results of a call is, where the function that is called tells them apart."""
        found = self.named(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(found, Function) or not found.returns or found.name in self.walk.doors:
            return None
        returned = [one for one in ast.walk(found.node) if isinstance(one, ast.Return)]
        return found.parts if all(isinstance(one.value, ast.Tuple) for one in returned) else None

    def _annassign(self, node: ast.AnnAssign, decided: bool) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value, decided), decided)

    def _augassign(self, node: ast.AugAssign, decided: bool) -> None:
        self.assign(node.target, self.value(node.value, decided), decided)

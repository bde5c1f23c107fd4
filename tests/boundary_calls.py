"""What may be called by a call, and how private it makes what is called and what comes back: a part of `boundary`."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from boundary_source import ALL, INSIDE, NOT, Function, Module

if TYPE_CHECKING:
    from boundary import Walk

_KEEPS = {"zip", "enumerate", "list", "tuple", "dict", "reversed", "items", "values", "keys", "iter"}
_TYPES = {"isinstance", "type", "callable", "hasattr", "issubclass"}
_MUTATORS = {"append", "extend", "update", "add", "insert", "setdefault"}
_SPEAKS = {"warn", "print", "progress", "report", "note", "echo"}


class Calls:
    """The calls in one function, followed with what is known of all others."""

    walk: Walk
    function: Function

    def _call(self, node: ast.Call, decided: bool) -> int:
        name = called(node)
        self.function.calls.add(name)
        of = self.value(node.func.value, decided) if isinstance(node.func, ast.Attribute) else NOT
        by_place = [self.value(one, decided) for one in node.args]
        by_name = {one.arg: self.value(one.value, decided) for one in node.keywords}
        given = max([of, *by_place, *by_name.values()])
        if name == "reveal":
            return ALL
        if name in _SPEAKS and (given or decided or self.function.decided):
            self.note(name, node)
        if name in _MUTATORS and isinstance(node.func, ast.Attribute) and (given or decided):
            self.assign(node.func.value, INSIDE, decided)
        targets = list(self.targets(node.func))
        self.pass_on(node, given, decided)
        if not targets:
            return self.unknown(node, name, given, decided)
        results = []
        for target in targets:
            if isinstance(target, str):
                results.append(self.made(target, given, decided, node))
                continue
            places = self.places(node, target, of, by_place)
            results.append(self.enter(target, places, by_name, decided, node))
        return max(results)

    def unknown(self, node: ast.Call, name: str, given: int, decided: bool) -> int:
        """What a function returns of which nothing is known: it is as private as all that it is given."""
        called = NOT if isinstance(node.func, ast.Attribute) else self.value(node.func, decided)
        level = max(given, called)
        if name in _TYPES or (name in ("len", "bool") and level == INSIDE):
            return NOT
        return level if name in _KEEPS or not level else ALL

    def made(self, target: str, given: int, decided: bool, node: ast.Call) -> int:
        """A class: its object has inside what it is made of."""
        if target in self.walk.raisers and (given or decided or self.function.decided):
            self.note(target.rpartition(".")[2], node)
        return INSIDE if given and target not in self.walk.opaque and target not in self.walk.raisers else NOT

    def places(self, node: ast.Call, target: Function, of: int, by_place: list[int]) -> list[int]:
        """How private the parameters of `target` are, by place."""
        levels = list(by_place)
        for number, one in enumerate(node.args):
            if isinstance(one, ast.Starred) and by_place[number]:
                levels = [*levels[:number], *[ALL] * len(target.parameters)]
        is_made = target.node.name in ("__init__", "__post_init__")
        is_method = isinstance(node.func, ast.Attribute) and target.owner is not None
        if is_method and not is_made and not self.is_class(node.func.value):
            return [of, *levels]
        return [NOT, *levels] if is_made or target.parameters[:1] == ["cls"] else levels

    def enter(
        self, target: Function, places: list[int], names: Mapping[str | None, int], decided: bool, node=None
    ) -> int:
        """Follow a call into a function, and tell how private what it returns is."""
        self.function.calls.add(target.name)
        decided = decided or self.function.decided
        if target.name in self.walk.raisers:
            if any(places) or any(names.values()) or decided:
                self.note(target.node.name, node)
            return NOT
        target.reached = True
        target.decided |= decided
        rest, others = ([one.arg] if one else [] for one in (target.node.args.vararg, target.node.args.kwarg))
        for number, level in enumerate(places):
            target.mark(dict.fromkeys(target.parameters[number : number + 1] or rest, level) if level else {})
        for name, level in names.items():
            every = target.all_parameters if name is None else [name] if name in target.all_parameters else others
            target.mark(dict.fromkeys(every, level) if level else {})
        if target.name in self.walk.doors or not (any(places) or any(names.values()) or self.walk.is_source(target)):
            return NOT
        return target.returns

    def pass_on(self, node: ast.Call, given: int, decided: bool) -> None:
        """Functions that are arguments may be called with what the others are."""
        for one in (*node.args, *(keyword.value for keyword in node.keywords)):
            for target in self.targets(one) if isinstance(one, ast.Name | ast.Attribute) else ():
                if isinstance(target, Function) and (isinstance(one, ast.Name) or target.owner is None):
                    self.enter(target, [ALL if given else NOT] * len(target.parameters), {}, decided, node)

    def is_class(self, node: ast.expr) -> bool:
        found = self.named(node)
        return isinstance(found, dict) or (isinstance(node, ast.Name) and node.id == "cls")

    def named(self, node: ast.expr):
        """What a name or a dotted name means here, as far as the package knows it."""
        if isinstance(node, ast.Name):
            function = self.function
            while function is not None:
                if node.id in function.inner:
                    return function.inner[node.id]
                function = function.parent
            return self.walk.package.look_up(f"{self.function.module.name}.{node.id}")
        if isinstance(node, ast.Attribute):
            of = self.named(node.value)
            if isinstance(of, Module):
                return self.walk.package.look_up(f"{of.name}.{node.attr}")
            return of.get(node.attr) if isinstance(of, dict) else None
        return None

    def targets(self, node: ast.expr) -> Iterator[Function | str]:
        """What may be called by this expression."""
        found = self.named(node)
        if isinstance(found, Function):
            yield found
        elif isinstance(found, dict):
            name = self.class_name(node)
            yield name
            if name not in self.walk.raisers:
                yield from (found[one] for one in ("__init__", "__post_init__") if one in found)
        elif isinstance(found, ast.expr):
            yield from self.within(found)
        elif isinstance(node, ast.Attribute):
            yield from self.methods(node)
        elif isinstance(node, ast.Subscript):
            yield from self.targets(node.value)
        elif isinstance(node, ast.IfExp):
            yield from (*self.targets(node.body), *self.targets(node.orelse))
        elif isinstance(node, ast.BoolOp):
            yield from (target for one in node.values for target in self.targets(one))

    def class_name(self, node: ast.expr) -> str:
        """The whole name of a class."""
        found = self.named(node)
        modules = self.walk.package.modules.items()
        return next(f"{m}.{name}" for m, module in modules for name, of in module.classes.items() if of is found)

    def within(self, value: ast.expr) -> Iterator[Function]:
        """The functions that a value of the module holds, such as a table of them."""
        for one in ast.walk(value):
            found = self.named(one) if isinstance(one, ast.Name | ast.Attribute) else None
            if isinstance(found, Function):
                yield found

    def methods(self, node: ast.Attribute) -> Iterator[Function]:
        """Every method of that name, but for those of modules that are not ours and of Python's own types."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name):
            if root.id in ("self", "cls") and isinstance(node.value, ast.Name) and self.function.owner is not None:
                own = self.function.module.classes.get(self.function.owner, {})
                if node.attr in own:
                    yield own[node.attr]
                    return
            imported = self.function.module.imports.get(root.id)
            if imported is not None and imported.split(".")[0] not in {
                n.split(".")[0] for n in self.walk.package.modules
            }:
                return
            if hasattr(builtins, root.id):
                return
        if isinstance(root, ast.Constant | ast.JoinedStr):
            return
        yield from self.known_methods(node.attr)

    def known_methods(self, name: str) -> list[Function]:
        """The methods of that name in this file, and in those that it imports anything of."""
        known = self.function.module.known
        methods = [one for one in self.walk.package.methods.get(name, ()) if one.module.name in known]
        return [one for one in methods if one.parameters[:1] != ["cls"]]


def called(node: ast.expr) -> str:
    """The last name of what is called."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")

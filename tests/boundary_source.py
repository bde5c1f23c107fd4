"""The source of a package, as a walk over it sees it: its functions, their calls by name, and what each file knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: How private a value is: not at all; what is in it, of a list or an object that is there anyway; or all of it.
NOT, INSIDE, ALL = 0, 1, 2


@dataclass(eq=False)
class Function:
    """One function, and what is known of it so far: private parameters and names, whether a private thing decides that
    it is called, and whether its result is private."""

    name: str
    node: ast.FunctionDef
    module: Module
    owner: str | None = None
    parent: Function | None = None
    inner: dict[str, Function] = field(default_factory=dict)
    private: dict[str, int] = field(default_factory=dict)
    decided: bool = False
    returns: int = NOT
    parts: list[int] | None = None
    reached: bool = False
    calls: set[str] = field(default_factory=set)

    def mark(self, names: Mapping[str, int]) -> None:
        """These names are at least as private."""
        for name, level in names.items():
            self.private[name] = max(level, self.private.get(name, NOT))

    @property
    def parameters(self) -> list[str]:
        """Its parameters, by place."""
        arguments = self.node.args
        return [one.arg for one in (*arguments.posonlyargs, *arguments.args)]

    @property
    def all_parameters(self) -> list[str]:
        """All of them."""
        others = [one.arg for one in (self.node.args.vararg, self.node.args.kwarg) if one is not None]
        return [*self.parameters, *(one.arg for one in self.node.args.kwonlyargs), *others]


@dataclass(eq=False)
class Module:
    """One file: its functions by name, methods by class, what it imports, values that hold functions, and the files in
    which what it imports is defined."""

    name: str
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, dict[str, Function]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    values: dict[str, ast.expr] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)


class Package:
    """All files of a package."""

    def __init__(self, sources: Mapping[str, str]):
        self.modules = {name: _module(name, text) for name, text in sources.items()}
        self.methods: dict[str, list[Function]] = {}
        self.functions: dict[str, Function] = {}
        for module in self.modules.values():
            every = [*module.functions.values(), *(one for of in module.classes.values() for one in of.values())]
            for function in every:
                self._add(function)
            for of in module.classes.values():
                for name, function in of.items():
                    self.methods.setdefault(name, []).append(function)
        for module in self.modules.values():
            module.known = {module.name, *map(self.home, module.imports.values())}

    @classmethod
    def of(cls, folder: Path, changed: Mapping[Path, str] | None = None) -> Package:
        """The package in a folder, some of its files `changed`."""
        sources = {}
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = (changed or {}).get(
                path
            ) or path.read_text()
        return cls(sources)

    def _add(self, function: Function) -> None:
        self.functions[function.name] = function
        for one in function.inner.values():
            self._add(one)

    def home(self, dotted: str) -> str:
        """The file in which an imported name is defined, through all that export it again."""
        before, _, last = dotted.rpartition(".")
        if dotted in self.modules or before not in self.modules:
            return dotted
        module = self.modules[before]
        again = last in module.imports and last not in module.classes and last not in module.functions
        return self.home(module.imports[last]) if again else before

    def look_up(self, dotted: str) -> Function | dict[str, Function] | ast.expr | Module | None:
        """What a dotted name is, through all that is imported and exported again: a class is its methods."""
        if dotted in self.modules:
            return self.modules[dotted]
        before, _, last = dotted.rpartition(".")
        found = self.look_up(before) if before else None
        if isinstance(found, dict):
            return found.get(last)
        if not isinstance(found, Module):
            return None
        for known in (found.functions, found.classes, found.values):
            if last in known:
                return known[last]
        return self.look_up(found.imports[last]) if last in found.imports else None


def _module(name: str, text: str) -> Module:
    module, tree = Module(name), ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            module.imports |= {(one.asname or one.name.split(".")[0]): one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            module.imports |= {(one.asname or one.name): f"{node.module}.{one.name}" for one in node.names}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            module.functions[node.name] = _function(node, module, name)
        elif isinstance(node, ast.ClassDef):
            made = [_function(one, module, f"{name}.{node.name}", owner=node.name) for one in _defined(node.body)]
            module.classes[node.name] = {one.node.name: one for one in made}
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            module.values |= {target.id: node.value for target in targets if isinstance(target, ast.Name)}
    return module


def _defined(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef]:
    return (node for node in body if isinstance(node, ast.FunctionDef))


def _function(
    node: ast.FunctionDef, module: Module, within: str, owner: str | None = None, parent: Function | None = None
) -> Function:
    function = Function(f"{within}.{node.name}", node, module, owner, parent)
    inside = [one for child in node.body for one in ast.walk(child) if isinstance(one, ast.FunctionDef)]
    function.inner = {one.name: _function(one, module, function.name, owner, function) for one in inside}
    return function

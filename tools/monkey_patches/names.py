"""What the names in a package's modules mean, read without running it."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Definition, statements

Trees = dict[str, ast.Module]
Scopes = Sequence[ast.AST]
BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class Defined:
    """A class or function, the module it stands in and the functions around it."""

    module: str
    node: Definition
    scopes: tuple[ast.AST, ...] = ()


def read_trees(folder: Path) -> Trees:
    """The modules of an unpacked wheel by their dotted names."""
    trees: Trees = {}
    for path in sorted(folder.rglob("*.py")):
        try:
            trees[dotted(path.relative_to(folder))] = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
    return trees


def dotted(path: Path) -> str:
    """The name of the module in a file."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def absolute(module: str, node: ast.ImportFrom, trees: Trees) -> str:
    """The module that ``from ... import`` names."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    is_package = any(name.startswith(f"{module}.") for name in trees)
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, *([node.module] if node.module else [])])


class Upstream:
    """The modeling files of an unpacked transformers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = {dotted(path.relative_to(folder)): path for path in _modeling_files(folder)}
        self._trees: Trees = {}
        names = [(name, module) for module in self.paths for name in self._classes(module)]
        counts = Counter(name for name, _ in names)
        self.homes = {name: module for name, module in names if counts[name] == 1}

    def _classes(self, module: str) -> list[str]:
        lines = self.paths[module].read_text(encoding="utf-8").split("\n")
        heads = [line.removeprefix("class ") for line in lines if line.startswith("class ")]
        return [head.partition("(")[0].partition(":")[0].strip() for head in heads]

    def tree(self, module: str) -> ast.Module:
        """A modeling module."""
        if module not in self._trees:
            self._trees[module] = ast.parse(self.paths[module].read_text(encoding="utf-8"))
        return self._trees[module]

    def definition(self, module: str, name: str) -> Definition | None:
        """A class or function at the top level of a modeling module."""
        nodes = statements(self.tree(module).body)
        return next((node for node in nodes if isinstance(node, DEFINITIONS) and node.name == name), None)

    def target(self, name: str) -> tuple[str, str] | None:
        """The modeling module, and what of it a dotted name stands for; None where it is something else."""
        parts = name.split(".")
        for end in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:end])
            if module in self.paths:
                return module, ".".join(parts[end:])
        if parts[0] == "transformers" and len(parts) > 2 and parts[-2] in self.homes:
            return self.homes[parts[-2]], ".".join(parts[-2:])
        return None


def _modeling_files(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("transformers/models/*/modeling_*.py"))


class Names:
    """Resolves names of a package's modules to dotted names and to definitions."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self._bindings: dict[int, dict[str, list[ast.AST | str]]] = {}

    def resolve(self, module: str, node: ast.expr, scopes: Scopes = (), depth: int = 8) -> str:
        """The dotted name that an expression stands for; it begins with ``?`` where that is not evident."""
        if isinstance(node, ast.Name):
            return self._name(module, node.id, scopes, depth)
        if isinstance(node, ast.Attribute):
            return self._canonical(f"{self.resolve(module, node.value, scopes, depth)}.{node.attr}", depth)
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            is_import = ast.unparse(node.func).rpartition(".")[2] == "import_module"
            return str(node.args[0].value) if is_import else "?"
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
            return str(getattr(node.slice, "value", "?"))
        return "?"

    def definitions(self, module: str, node: ast.expr, scopes: Scopes = ()) -> list[Defined]:
        """The classes or functions of the package that an expression may stand for."""
        if isinstance(node, ast.Name):
            for place in range(len(scopes), 0, -1):
                entries = self._of(scopes[place - 1]).get(node.id, [])
                inner = [e for e in entries if isinstance(e, DEFINITIONS)]
                if inner:
                    return [Defined(module, entry, tuple(scopes[:place])) for entry in inner]
                if entries:
                    break
        name = self.resolve(module, node, scopes)
        home, _, last = name.rpartition(".")
        if home in self.trees:
            entries = self._of(self.trees[home]).get(last, [])
            return [Defined(home, entry) for entry in entries if isinstance(entry, DEFINITIONS)]
        outer, _, cls = home.rpartition(".")
        if outer in self.trees:
            owners = [e for e in self._of(self.trees[outer]).get(cls, []) if isinstance(e, ast.ClassDef)]
            functions = [f for owner in owners for f in owner.body if isinstance(f, FUNCTIONS) and f.name == last]
            return [Defined(outer, function) for function in functions]
        return []

    def _name(self, module: str, name: str, scopes: Scopes, depth: int) -> str:
        tree = self.trees.get(module)
        if tree is None or not depth:
            return f"{module}.{name}" if tree is None else "?"
        for block in (*reversed(scopes), tree):
            entries = self._of(block).get(name, [])
            texts = [entry for entry in entries if isinstance(entry, str)]
            if texts:
                return self._canonical(texts[0], depth - 1)
            if any(isinstance(entry, DEFINITIONS) for entry in entries):
                return f"{module}.{name}" if block is tree else f"?.{name}"
            values = [entry for entry in entries if isinstance(entry, (ast.Name, ast.Attribute, ast.Call))]
            if entries:
                is_evident = len(entries) == 1 and values and ast.unparse(values[0]) != name
                inner = self.resolve(module, values[0], scopes, depth - 1) if is_evident else "?"
                return f"{module}.{name}" if inner.startswith("?") and block is tree else inner
        for source in [entry for entry in self._of(tree).get("*", []) if isinstance(entry, str)]:
            if name in self._exported(source, depth - 1):
                return self._name(source, name, (), depth - 1)
        return f"builtins.{name}" if name in BUILTINS else f"?.{name}"

    def _exported(self, module: str, depth: int) -> set[str]:
        """The names that ``from module import *`` brings in."""
        if module not in self.trees or not depth:
            return set()
        bound = self._of(self.trees[module])
        names = {name for name in bound if not name.startswith("_") and name != "*"}
        return names.union(*(self._exported(str(source), depth - 1) for source in bound.get("*", [])))

    def _canonical(self, name: str, depth: int) -> str:
        """A name by the module that defines it, as far as imports tell."""
        home, _, last = name.rpartition(".")
        if home in self.trees and name not in self.trees and depth:
            bound = self._of(self.trees[home])
            if last in bound and not any(isinstance(entry, DEFINITIONS) for entry in bound[last]):
                return self._name(home, last, (), depth - 1)
            if last not in bound and "*" in bound:
                inner = self._name(home, last, (), depth - 1)
                return name if inner.startswith("?") else inner
        return name

    def _of(self, block: ast.AST) -> dict[str, list[ast.AST | str]]:
        """What each name of a block is bound to: a definition, a dotted name that is imported, or a value."""
        if id(block) not in self._bindings:
            bound: dict[str, list[ast.AST | str]] = {}
            for argument in ast.walk(block.args) if isinstance(block, FUNCTIONS) else ():
                if isinstance(argument, ast.arg):
                    bound.setdefault(argument.arg, []).append(argument)
            for statement in statements(getattr(block, "body", [])):
                for name, entry in self._bound_by(block, statement):
                    bound.setdefault(name, []).append(entry)
            self._bindings[id(block)] = bound
        return self._bindings[id(block)]

    def _bound_by(self, block: ast.AST, statement: ast.stmt) -> Iterator[tuple[str, ast.AST | str]]:
        if isinstance(statement, DEFINITIONS):
            yield statement.name, statement
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                first = alias.name.partition(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
        elif isinstance(statement, ast.ImportFrom):
            module = absolute(self.home(block), statement, self.trees)
            for alias in statement.names:
                yield alias.asname or alias.name, module if alias.name == "*" else f"{module}.{alias.name}"
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                for node in ast.walk(target):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        yield node.id, statement.value if node is target else node

    def home(self, block: ast.AST) -> str:
        """The module that a block stands in."""
        if not hasattr(self, "_home"):
            blocks = (ast.Module, *FUNCTIONS)
            self._home = {
                id(node): module
                for module, tree in self.trees.items()
                for node in ast.walk(tree)
                if isinstance(node, blocks)
            }
        return self._home[id(block)]

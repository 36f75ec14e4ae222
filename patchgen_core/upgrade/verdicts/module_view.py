"""A release's module as patches look at it: its definitions, classes with what they inherit, imports and callers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from patchgen_core.config.declarations import Patch
from patchgen_core.syntax.forms import form, resolved
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import Definition, all_methods, last_definitions, methods
from patchgen_core.syntax.scopes import Call
from patchgen_core.syntax.source import SourceFile
from patchgen_core.upgrade.release_module import ReleaseModule

_DEPTH = 20


@dataclass(frozen=True)
class ClassInModule:
    """A class and the module it stands in."""

    module: Module
    node: ast.ClassDef

    @property
    def dotted(self) -> str:
        """The class as reports name it."""
        return f"{self.module.name}.{self.node.name}" if self.module.name else self.node.name


@dataclass(frozen=True)
class TargetDefinitions:
    """What a patch changes, as one release has it.

    Attributes:
        nodes: its definitions; more than one where branches define it.
        source, package: the file that they stand in, and where its relative imports start from.
        home: the base class that a method is inherited from; None for a class's own.
    """

    nodes: tuple[Definition, ...]
    source: SourceFile
    package: str
    home: ClassInModule | None = None


@dataclass(frozen=True)
class TargetName:
    """What a patch aims at: a class or function, or a method of a class."""

    name: str
    method: str = ""
    accessor: str = ""

    @property
    def dotted(self) -> str:
        """As reports name it."""
        return ".".join(filter(None, (self.name, self.method, self.accessor)))


def read_target_name(patch: Patch) -> TargetName:
    """What a patch aims at."""
    name, *rest = patch.target.split(".")
    if patch.kind == "init_modification":
        return TargetName(name, "__init__")
    method, accessor = (*rest, "", "")[:2]
    return TargetName(name, method, "" if accessor == "getter" else accessor)


class ModuleView:
    """A module of one release."""

    def __init__(self, side: ReleaseModule) -> None:
        self.side, self.source, self.library = side, side.source, side.library
        self.index, self.package = side.source.index, side.upstream.package
        self._callers: dict[str, dict[int, list[Call]]] = {}
        self._definitions: dict[str, list[Definition]] = {}
        self._imported: dict[tuple[str, str], tuple[Module, ast.AST] | None] = {}
        self._homes: dict[ClassInModule, list[ClassInModule]] = {}
        self._unknown: dict[ClassInModule, set[str]] = {}

    @cached_property
    def module(self) -> Module:
        """The module with its scopes and calls."""
        module = self.library.module(self.side.upstream.module) if self.library is not None else None
        return module if module is not None and module.source is self.source else Module(self.source, self.name)

    @property
    def name(self) -> str:
        """The module's dotted name."""
        return self.side.upstream.module

    @cached_property
    def inference(self) -> Inference:
        """What the module's expressions are."""
        return Inference(self.module)

    @cached_property
    def imports(self) -> dict[str, frozenset[tuple[str, str]]]:
        """What imports of the top level bind: by name, the modules and what of them; empty for a module itself."""
        results: dict[str, frozenset[tuple[str, str]]] = {}
        for name, statements in self.index.imports.items():
            results[name] = frozenset(_imported(statement, alias, self.package) for statement, alias in statements)
        return results

    @cached_property
    def calls(self) -> dict[str, list[Call]]:
        """Every call, by the class, method or function that it stands in."""
        results: dict[str, list[Call]] = {}
        for call in self.module.calls:
            results.setdefault(call.owner, []).append(call)
        return results

    def callers(self, owner: str) -> dict[int, list[Call]]:
        """The calls of one owner whose callee is evident, by the ``id`` of the function that they call."""
        if owner not in self._callers:
            results: dict[int, list[Call]] = {}
            for call in self.calls.get(owner, ()):
                for callee in self.inference.callees(call.node, call.scope):
                    if callee.function is not None:
                        results.setdefault(id(callee.function), []).append(call)
            self._callers[owner] = results
        return self._callers[owner]

    @cached_property
    def owners(self) -> dict[str, str]:
        """What each method and function says, by its dotted name."""
        results: dict[str, str] = {}
        for name, node in self.source.definitions:
            if "<locals>" not in name and not isinstance(node, ast.ClassDef):
                results[name] = results.get(name, "") + self._text(node)
        return results

    def _text(self, node: Definition) -> str:
        if self.side.is_recorded:
            return form(node, self.package)
        return "\n".join(self.source.lines[self.source.first_line(node) - 1 : node.end_lineno])

    def definitions(self, name: str) -> list[Definition]:
        """The definitions of a name of the top level that count."""
        if name not in self.index.definitions:
            return []
        if name not in self._definitions:
            nodes = self.index.definitions[name]
            self._definitions[name] = nodes if len(nodes) == 1 else last_definitions(self.source.tree.body, name)
        return self._definitions[name]

    def classes(self, name: str) -> list[ast.ClassDef]:
        """The definitions of a class."""
        return [node for node in self.definitions(name) if isinstance(node, ast.ClassDef)]

    def find(self, target_name: TargetName) -> TargetDefinitions | None:
        """What a patch changes; for a method that the class inherits, the base's. None when there is none."""
        nodes = self.definitions(target_name.name)
        if not target_name.method:
            return TargetDefinitions(tuple(nodes), self.source, self.package) if nodes else None
        results = [f for node in nodes for f in methods(node, target_name.method, target_name.accessor)]
        if results:
            return TargetDefinitions(tuple(results), self.source, self.package)
        for home in self.inherited(target_name.name):
            if target_name.method in method_names(home.node):
                inherited = tuple(methods(home.node, target_name.method, target_name.accessor))
                if inherited:
                    return TargetDefinitions(inherited, home.module.source, package_of(home.module), home)
        return None

    def inherited(self, name: str) -> list[ClassInModule]:
        """The bases of a class of the module, the nearest first, as far as they can be found."""
        return [base for node in self.classes(name) for base in self.bases(ClassInModule(self.module, node))]

    def bases(self, home: ClassInModule) -> list[ClassInModule]:
        """The bases of a class, the nearest first, as far as they can be found."""
        if home not in self._homes:
            self._homes[home] = list(dict.fromkeys(self._bases(home, 0)))
        return self._homes[home]

    def unknown_bases(self, home: ClassInModule) -> set[str]:
        """The bases of a class, and of its bases, that cannot be found, as they are written."""
        if home not in self._unknown:
            lines = [(cls.module, base) for cls in (home, *self.bases(home)) for base in cls.node.bases]
            self._unknown[home] = {ast.unparse(base) for module, base in lines if self.class_of(module, base) is None}
        return self._unknown[home]

    def _bases(self, home: ClassInModule, depth: int) -> Iterator[ClassInModule]:
        for base in home.node.bases:
            cls = self.class_of(home.module, base) if depth < _DEPTH else None
            if cls is not None and cls.node is not home.node:
                yield cls
                yield from self._bases(cls, depth + 1)

    def class_of(self, module: Module, base: ast.expr) -> ClassInModule | None:
        """The class behind an expression that names a base; None for one outside of upstream's package."""
        node = base.value if isinstance(base, ast.Subscript) else base
        return self.class_named(module, node.id) if isinstance(node, ast.Name) else None

    def class_named(self, module: Module, name: str) -> ClassInModule | None:
        """The class of upstream's package that a module has or imports under a name."""
        own = module.cls(name)
        if own is not None:
            return ClassInModule(module, own)
        home, node = self.imported(module, name) or (module, None)
        return ClassInModule(home, node) if isinstance(node, ast.ClassDef) else None

    def imported(self, module: Module, name: str) -> tuple[Module, ast.AST] | None:
        """The class or function of upstream's package that a module imports under a name."""
        key = (module.name, name)
        if key not in self._imported:
            self._imported[key] = self._look_up(module, name)
        return self._imported[key]

    def _look_up(self, module: Module, name: str) -> tuple[Module, ast.AST] | None:
        statements = module.index.imports.get(name, [])
        if self.library is None or len(statements) != 1:
            return None
        source, attribute = _imported(*statements[0], package_of(module))
        if not attribute or source.partition(".")[0] != self.name.partition(".")[0]:
            return None
        return self.library.find(source, attribute)


@lru_cache(maxsize=4096)
def method_names(node: ast.ClassDef) -> frozenset[str]:
    """The names of a class's own methods."""
    return frozenset(function.name for function in all_methods(node))


def package_of(module: Module) -> str:
    """Where a module's relative imports start from."""
    return module.name if module.source.path.name == "__init__.py" else module.name.rpartition(".")[0]


def _imported(statement: ast.Import | ast.ImportFrom, alias: ast.alias, package: str) -> tuple[str, str]:
    if isinstance(statement, ast.Import):
        return (alias.name, "")
    return (resolved(statement, package), alias.name)


@lru_cache(maxsize=64)
def view_of(side: ReleaseModule) -> ModuleView:
    """A release's module, looked at once however many configs are about it."""
    return ModuleView(side)

"""An upstream modeling module as its text tells it: classes, functions, decorators, and what builds what."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from patchgen_core.authoring.new.expressions import calls, methods_of, own_attribute
from patchgen_core.authoring.new.function_text import FunctionText
from patchgen_core.authoring.new.model_types import ModelType
from patchgen_core.syntax.exports import exported_names, has_listing
from patchgen_core.syntax.forms import resolved
from patchgen_core.syntax.nodes import Function, last_name
from patchgen_core.syntax.source import SourceFile

D = TypeVar("D", ast.ClassDef, Function)


@dataclass(frozen=True)
class UpstreamSource:
    """An upstream module; ``configurations`` are the modules that define its configuration classes."""

    model: ModelType
    source: SourceFile
    configurations: tuple[SourceFile, ...] = ()

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Its classes that are defined once and at the top level, in its order."""
        return self._defined_once(self.source.index.classes)

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Its functions that are defined once and at the top level."""
        return self._defined_once(self.source.index.functions)

    def _defined_once(self, definitions: Mapping[str, list[D]]) -> dict[str, D]:
        top = {id(node) for node in self.source.tree.body}
        return {name: nodes[0] for name, nodes in definitions.items() if len(nodes) == 1 and id(nodes[0]) in top}

    @property
    def config_classes(self) -> Iterator[ast.ClassDef]:
        """The classes of the modules of its configuration."""
        for source in self.configurations:
            yield from (node for node in source.tree.body if isinstance(node, ast.ClassDef))

    def forwards(self) -> Iterator[tuple[ast.ClassDef, FunctionText]]:
        """The classes with a forward of their own, unless all of it is on one line, where nothing can be put in."""
        for cls in self.classes.values():
            function = methods_of(cls).get("forward")
            if function is not None and function.body[0].lineno > function.lineno:
                yield cls, FunctionText(self.source, function)

    def ancestry(self, cls: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """A class and those of the module that it derives from, nearest first."""
        seen, todo = set(), [cls]
        while todo:
            current = todo.pop(0)
            if current.name not in seen:
                seen.add(current.name)
                yield current
                todo += [self.classes[name] for name in map(last_name, current.bases) if name in self.classes]

    def inits(self, cls: ast.ClassDef) -> Iterator[Function]:
        """The ``__init__`` of a class and of those it derives from."""
        return (methods_of(c)["__init__"] for c in self.ancestry(cls) if "__init__" in methods_of(c))

    def built(self, cls: ast.ClassDef, name: str) -> ast.expr | None:
        """What ``self.name`` is given in the ``__init__`` of a class, or of one that it derives from."""
        return next((value for init in self.inits(cls) for key, value in assignments(init) if key == name), None)

    def configs_of(self, cls: ast.ClassDef, seen: tuple[str, ...] = ()) -> set[str]:
        """The configuration classes that a class is made with: by its annotation, else by what makes it."""
        for init in self.inits(cls):
            for argument in init.args.args:
                if argument.arg == "config" and argument.annotation is not None:
                    return {last_name(argument.annotation)} - {""}
        seen = (*seen, cls.name)
        makers = [c for c in self.classes.values() if c.name not in seen and cls.name in _calls_of_init(c)]
        return {name for maker in makers for name in self.configs_of(maker, seen)}

    @cached_property
    def in_use(self) -> set[str]:
        """The classes and functions that lead from what the module exports."""
        exported = exported_names(self.source.tree, self.source.index) if has_listing(self.source.index) else []
        heads = {name for name in self.classes if "For" in name or name in self.model.classes}
        return self.leads_to(*exported, *heads, *self._reads.get("", ()))

    @cached_property
    def _reads(self) -> dict[str, set[str]]:
        """The names that each class and function refers to; those of all other statements together."""
        reads: dict[str, set[str]] = {}
        for node in self.source.tree.body:
            name = getattr(node, "name", "")
            marks = {id(n) for d in getattr(node, "decorator_list", []) if _takes_marks(d) for n in ast.walk(d)}
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in marks}
            reads.setdefault(name, set()).update(names - {name})
        return reads

    def leads_to(self, *names: str) -> set[str]:
        """The names, and what they refer to, and what that refers to, and so on."""
        reached: set[str] = set()
        todo = set(names)
        while todo:
            reached |= todo
            todo = {read for name in todo for read in self._reads.get(name, ())} - reached
        return reached


def _calls_of_init(cls: ast.ClassDef) -> set[str]:
    """The names that the ``__init__`` of a class calls."""
    init = methods_of(cls).get("__init__")
    return {last_name(call.func) for call in calls(init)} if init is not None else set()


def homes_of(source: SourceFile, module: str) -> dict[str, str]:
    """Where each name of a module is imported from, as an absolute module; its own names from itself."""
    index = source.index
    homes = dict.fromkeys(index.definitions, module)
    for name, bindings in index.imports.items():
        statement, alias = bindings[0]
        if isinstance(statement, ast.ImportFrom) and alias.asname is None:
            homes[name] = resolved(statement, module.rpartition(".")[0])
    return homes


def assignments(function: Function) -> Iterator[tuple[str, ast.expr]]:
    """What a function assigns to attributes of ``self``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if name := own_attribute(target):
                    yield name, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None and (name := own_attribute(node.target)):
            yield name, node.value


def _takes_marks(decorator: ast.expr) -> bool:
    """Whether a decorator only takes up the marks of functions that it names, which calls none of them."""
    return isinstance(decorator, ast.Call) and last_name(decorator.func) == "use_kernelized_func"

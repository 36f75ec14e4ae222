"""The source of the classes and functions that a config declares."""

from __future__ import annotations

import ast
import functools
import re
import sys
import types
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from patchgen_core.config.arguments import value_text
from patchgen_core.config.patch_calls import PatchCalls
from patchgen_core.config.shared_edits import Edits
from patchgen_core.config.spec import PatchConfig
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.syntax.nodes import FUNCTIONS, Definition, string_lines
from patchgen_core.syntax.source import SourceCache, SourceFile, shift

PATCH_DECORATORS = frozenset(
    name
    for name in dir(PatchConfig)
    if name.startswith(("replace_", "override_", "modify_", "wrap_", "edit_", "add_helper")) and name != "replace_code"
)
HEAD = re.compile(r"\A((?:async\s+)?def|class)(\s+)\w+")
"""Where the text of a definition starts: what it is, and its name."""
ACCESSORS = {"getter": "fget", "setter": "fset", "deleter": "fdel"}


@dataclass(frozen=True)
class Replacement:
    """The source of one class or function of a config, moved to column 0.

    Attributes:
        package: where its relative imports start from.
        decorators: its own decorators, without the ones that declare patches; one text each.
        text: from ``def`` or ``class`` to its last line.
        string_lines: lines of ``text``, counted from 0, that start inside a string literal.
        namespace: the module it stands in, by name.
        is_edit: whether it is declared as an edit where it stands, so that it is no whole definition.
    """

    name: str
    is_class: bool
    package: str
    comments: tuple[str, ...]
    decorators: tuple[str, ...]
    text: str
    string_lines: frozenset[int]
    namespace: Mapping[str, Any] = field(repr=False, compare=False)
    location: Location
    is_edit: bool = False

    def mentions(self, name: str) -> bool:
        """Whether a name is a word of its decorators, or of its text below its own name."""
        text = self._referring
        return name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None

    @cached_property
    def _referring(self) -> str:
        text = "\n".join((*self.decorators, HEAD.sub("", self.text)))
        return text if text.isascii() else unicodedata.normalize("NFKC", text)

    @cached_property
    def names(self) -> frozenset[str]:
        """The plain names that it refers to, in string annotations as well."""
        names = set()
        for node in ast.walk(ast.parse("\n".join((*self.decorators, self.text)))):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation is not None:
                names |= string_names(node.annotation)
            elif isinstance(node, FUNCTIONS) and node.returns is not None:
                names |= string_names(node.returns)
        return frozenset(names)

    def body(self, indent: str) -> str:
        """``text`` indented; the values of its multi-line strings stay."""
        return "\n".join(shift(self.text.split("\n"), "", indent, self.string_lines))

    def with_text(self, text: str, decorators: tuple[str, ...] | None = None) -> Replacement:
        """The same replacement with other text; that of another number of lines is parsed for its strings."""
        strings = self.string_lines
        if text.count("\n") != self.text.count("\n"):
            strings = frozenset(line - 1 for line in string_lines(ast.parse(text)))
        decorators = self.decorators if decorators is None else decorators
        return replace(self, text=text, string_lines=strings, decorators=decorators)


Modules = Mapping[str, Mapping[str, Any]]
"""Namespaces of the project's modules, by dotted name."""


def read_replacement(
    definition: Any, sources: SourceCache, modules: Modules, location: Location, accessor: str = ""
) -> Replacement:
    """Find and read the source of a class or function that a config passed at ``location``.

    ``modules`` are the project's, which need not be in ``sys.modules``. ``accessor`` says which function of a property
    is meant; the getter by default. A PatchgenError when its source cannot be read.
    """
    obj = _plain_definition(definition, accessor, modules)
    name = value_text(obj)
    if isinstance(obj, types.FunctionType):
        if obj.__code__.co_name == "<lambda>":
            raise PatchgenError("cannot read the source of a lambda", location, "Write it as a function with def.")
        free = set(obj.__code__.co_freevars) - {"__class__"}
        if free:
            raise PatchgenError(
                f"'{name}' uses {_quoted(free)} of the function that encloses it",
                location,
                "Its source alone would lack them: define it at the top level of the config.",
            )
        path, node = _find_function(obj, sources)
    elif isinstance(obj, type):
        path, node = _find_class(obj, sources, modules, location)
    elif isinstance(obj, types.BuiltinFunctionType):
        path, node = Path(), None
    else:
        raise PatchgenError(
            f"cannot read the source of {name}: it is neither a class nor a function",
            location,
            "Pass the class or function itself, or use create_patch_from_external to import it.",
        )
    if node is None:
        raise PatchgenError(
            f"cannot read the source of '{name}'",
            location,
            "Its definition is not in a Python file, or a decorator hides it.",
        )
    return _read(sources.get(path), node, _namespace(obj, modules))


def _plain_definition(definition: Any, accessor: str, modules: Modules) -> Any:
    """The function or class behind a descriptor, and behind decorators that wrap what the project defines."""
    if isinstance(definition, property):
        definition = getattr(definition, ACCESSORS[accessor or "getter"])
    elif isinstance(definition, functools.cached_property):
        definition = definition.func
    elif isinstance(definition, (staticmethod, classmethod, types.MethodType)):
        definition = definition.__func__
    files = {namespace.get("__file__") for namespace in modules.values()}
    obj = definition
    while "__wrapped__" in getattr(obj, "__dict__", {}):
        if isinstance(obj, types.FunctionType) and obj.__code__.co_filename in files:
            return obj
        obj = obj.__wrapped__
    return obj


def _find_function(function: types.FunctionType, sources: SourceCache) -> tuple[Path, Definition | None]:
    code = function.__code__
    path = Path(code.co_filename)
    if not sources.has(path):
        return path, None
    source = sources.get(path)
    for node in source.functions.get(code.co_name, ()):
        if source.first_line(node) == code.co_firstlineno:
            return path, node
    return path, None


def _find_class(
    cls: type, sources: SourceCache, modules: Modules, location: Location
) -> tuple[Path, Definition | None]:
    codes = [f.__code__ for f in vars(cls).values() if isinstance(f, types.FunctionType)]
    module = modules.get(cls.__module__) or vars(sys.modules.get(cls.__module__, types.ModuleType("")))
    path = Path(module.get("__file__") or "")
    if path.suffix != ".py" or not sources.has(path):
        typed = (Path(code.co_filename) for code in codes)  # in a notebook, where a module has no file
        path = next(filter(sources.has, typed), Path())
        if not path.name:
            return path, None
    source = sources.get(path)
    nodes = [n for name, n in source.definitions if name == cls.__qualname__ and isinstance(n, ast.ClassDef)]
    if len(nodes) > 1:
        lines = {code.co_firstlineno for code in codes if code.co_filename == str(path)}
        nodes = [n for n in nodes if lines & set(range(n.lineno, (n.end_lineno or 0) + 1))]
    if len(nodes) > 1 or (not nodes and codes):
        raise PatchgenError(
            f"cannot tell which definition of '{cls.__qualname__}' is meant", location, "Rename one of them."
        )
    return path, nodes[0] if nodes else None


def _namespace(obj: Any, modules: Modules) -> Mapping[str, Any]:
    if isinstance(obj, types.FunctionType):
        return obj.__globals__
    return modules.get(obj.__module__) or vars(sys.modules[obj.__module__])


def _read(source: SourceFile, node: Definition, namespace: Mapping[str, Any]) -> Replacement:
    indent = source.indent(node.lineno)

    def lines(first: int, last: int) -> list[str]:
        keep = {line - first for line in range(first, last + 1) if line in source.string_lines}
        return shift(source.lines[first - 1 : last], indent, "", keep)

    first, last = source.first_line(node), source.last_line(node)
    spans = {decorator: source.decorator_lines(decorator) for decorator in node.decorator_list}
    own = [span for decorator, span in spans.items() if not is_patch_decorator(decorator, namespace)]
    decorated = {line for start, end in spans.values() for line in range(start, end + 1)}
    between = [line for line in range(first, node.lineno) if line not in decorated]
    comments = lines(source.comment_line(node), first - 1)
    comments += [text for line in between for text in lines(line, line) if text.startswith("#")]
    return Replacement(
        name=node.name,
        is_class=isinstance(node, ast.ClassDef),
        package=str(namespace.get("__package__") or ""),
        comments=tuple(comments),
        decorators=tuple("\n".join(lines(start, end)) for start, end in own),
        text="\n".join(lines(node.lineno, last)),
        string_lines=frozenset(n - node.lineno for n in range(node.lineno, last + 1) if n in source.string_lines),
        namespace=namespace,
        location=Location(str(source.path), node.lineno),
        is_edit=any(
            _called(decorator).startswith("edit") and is_patch_decorator(decorator, namespace)
            for decorator in node.decorator_list
        ),
    )


def _called(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.attr if isinstance(function, ast.Attribute) else ""


def is_patch_decorator(decorator: ast.expr, namespace: Mapping[str, Any]) -> bool:
    """Whether a decorator declares a patch or helper, whatever the config is called.

    Decided by what the name stands for in the config's namespace; by the method's name when that cannot
    be told, as in ``CONFIGS["gpu"].override_method(...)``.
    """
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    try:
        value = _evaluate(function, namespace)
    except (LookupError, AttributeError):
        return isinstance(function, ast.Attribute) and function.attr in PATCH_DECORATORS
    if isinstance(value, functools.partial):
        value = value.func
    is_declaration = getattr(value, "__module__", None) == PatchCalls.__module__  # what a call of the DSL returns
    return is_declaration or isinstance(getattr(value, "__self__", None), (PatchConfig, Edits))


def _evaluate(expression: ast.expr, namespace: Mapping[str, Any]) -> Any:
    """The value of a dotted name; LookupError for anything else."""
    if isinstance(expression, ast.Name):
        return namespace[expression.id]
    if isinstance(expression, ast.Attribute):
        return getattr(_evaluate(expression.value, namespace), expression.attr)
    raise LookupError


def string_names(annotation: ast.AST) -> set[str]:
    """The names in the strings of an annotation that are expressions."""
    names = set()
    for child in ast.walk(annotation):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            try:
                inner = ast.parse(child.value, mode="eval")
            except SyntaxError:
                continue
            names |= {name.id for name in ast.walk(inner) if isinstance(name, ast.Name)}
    return names


def _quoted(names: set[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))

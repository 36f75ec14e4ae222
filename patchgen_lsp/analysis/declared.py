"""What a config's text declares, read from its syntax: nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen_core.syntax.nodes import FUNCTIONS, Definition, called_name
from patchgen_core.syntax.source import SourceFile

TARGETS = {
    "replace_class": "class",
    "edit_class": "class",
    "modify_init": "class",
    "replace_function": "function",
    "edit_function": "function",
    "override_method": "method",
    "edit_method": "method",
    "wrap_method": "method",
    "replace_code": "any",
    "delete_code": "any",
    "add_parameter": "any",
    "remove_parameter": "any",
    "drop_decorators": "any",
    "add_helper_after": "any",
    "add_block_after": "any",
    "exclude_from_output": "any",
    "create_patch_from_external": "any",
}
"""The calls whose first argument is a target in quotes, with the kind of target that they take."""
PATCHES = frozenset(TARGETS) - {"drop_decorators", "add_helper_after", "add_block_after", "exclude_from_output"}


@dataclass(frozen=True)
class Declared:
    """A call that names a target.

    Attributes:
        call: its name, such as ``override_method``.
        target: what it names.
        node: the call.
        argument: the string with the target.
        definition: the class or function that it decorates, or that is passed by name and stands in the same file.
    """

    call: str
    target: str
    node: ast.Call
    argument: ast.Constant
    definition: Definition | None = None

    @property
    def names(self) -> set[str]:
        """What it calls its replacement: the definition's name, or what is passed."""
        own = {self.definition.name} if self.definition is not None else set()
        return own | {ast.unparse(value) for value in _passed(self.node)}

    @property
    def first_line(self) -> int:
        """The line that it starts on."""
        return self.node.lineno

    @property
    def last_line(self) -> int:
        """The last line of the call and of what it decorates."""
        ends = [self.node.end_lineno or 0]
        if self.definition is not None and self.node in self.definition.decorator_list:
            ends.append(self.definition.end_lineno or 0)
        return max(ends)


def find_declared(source: SourceFile) -> list[Declared]:
    """The calls of a config that name a target, in their order."""
    return sorted(_find(source), key=lambda declared: (declared.first_line, declared.node.col_offset))


def _find(source: SourceFile) -> Iterator[Declared]:
    definitions: dict[str, Definition] = {node.name: node for name, node in source.definitions if "." not in name}
    decorated: dict[int, Definition] = {
        id(decorator): node for _, node in source.definitions for decorator in node.decorator_list
    }
    for node in ast.walk(source.tree):
        call = _call_name(node)
        if isinstance(node, ast.Call) and call in TARGETS and not _is_of_edits(node, source):
            named = [definitions[v.id] for v in _passed(node) if isinstance(v, ast.Name) and v.id in definitions]
            definition = decorated.get(id(node), named[0] if named else None)
            for argument in node.args if call == "exclude_from_output" else _first(node):
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield Declared(call, argument.value, node, argument, definition)


def _is_of_edits(call: ast.Call, source: SourceFile) -> bool:
    """Whether a call is one of ``Edits`` that the file makes, which name no target."""
    holder = call.func.value if isinstance(call.func, ast.Attribute) else None
    statements = source.index.assigned.get(holder.id, []) if isinstance(holder, ast.Name) else []
    return any(called_name(getattr(statement, "value", statement)) == "Edits" for statement in statements)


def _passed(node: ast.Call) -> list[ast.expr]:
    """What a call takes for a replacement or an edit, where that stands elsewhere."""
    return [*node.args[1:2], *(k.value for k in node.keywords if k.arg in ("replacement", "edit"))]


def _first(node: ast.Call) -> list[ast.expr]:
    return node.args[:1] or [keyword.value for keyword in node.keywords if keyword.arg == "target"]


def _call_name(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def declared_at(source: SourceFile, line: int, column: int) -> Declared | None:
    """The call whose target is at a place; lines count from 1, columns as Python does."""
    for declared in find_declared(source):
        at = declared.argument
        if at.lineno == line and column_of_node(source, at) <= column <= _end_column(source, at):
            return declared
    return None


def declared_around(source: SourceFile, line: int) -> Declared | None:
    """The patch that a line belongs to: its call, or what it decorates."""
    around = [each for each in find_declared(source) if each.first_line <= line <= each.last_line]
    named = [
        each
        for each in find_declared(source)
        if each.definition is not None and source.first_line(each.definition) <= line <= _last(each.definition)
    ]
    return next(iter([*around, *named]), None)


def _last(node: ast.stmt) -> int:
    return node.end_lineno or 0


def column_of_node(source: SourceFile, node: ast.expr | ast.stmt) -> int:
    """The column of a node as Python counts characters."""
    return source.start(node) - source.line_starts[node.lineno - 1]


def _end_column(source: SourceFile, node: ast.expr) -> int:
    return source.end(node) - source.line_starts[(node.end_lineno or node.lineno) - 1]


def upstream_modules(source: SourceFile) -> list[str]:
    """The upstream modules that the file's configs name, each once."""
    names = []
    for node in find_config_calls(source):
        values = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "source_module")]
        names += [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
    return list(dict.fromkeys(names))


def find_config_calls(source: SourceFile) -> list[ast.Call]:
    """The calls of a file that make configs."""
    calls = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    return [call for call in calls if _call_name(call) == "PatchConfig"]


def name_at(source: SourceFile, line: int, column: int) -> str:
    """The dotted name that stands at a place, up to the part that the place is in; empty for none."""
    best: ast.expr | ast.stmt | None = None
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and node.lineno <= line <= (node.end_lineno or 0):
            start, end = source.start(node), source.end(node)
            place = source.line_starts[line - 1] + column
            if isinstance(node, ast.Attribute):
                start = end - len(node.attr)
            if start <= place <= end:
                best = node
    if best is None:
        definition = next((n for _, n in source.definitions if _names(source, n, line, column)), None)
        return definition.name if definition is not None else _imported_at(source, line, column)
    return ast.unparse(best)


def _imported_at(source: SourceFile, line: int, column: int) -> str:
    """The name that an import at a place binds, where it is what the name is called there; empty for none."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.alias) and node.lineno == line and node.asname is None:
            first = len(source.lines[line - 1].encode()[: node.col_offset].decode())
            if first <= column <= first + len(node.name):
                return node.name
    return ""


def _names(source: SourceFile, node: Definition, line: int, column: int) -> bool:
    if node.lineno != line:
        return False
    keyword = "class " if isinstance(node, ast.ClassDef) else "def "
    start = source.lines[line - 1].find(f"{keyword}{node.name}") + len(keyword)
    return start <= column <= start + len(node.name)


def enclosing_target(source: SourceFile, line: int) -> Declared | None:
    """The patch in whose replacement or edit a line stands."""
    for declared in find_declared(source):
        node = declared.definition
        if node is not None and isinstance(node, FUNCTIONS) and node.lineno <= line <= (node.end_lineno or 0):
            return declared
    return None

"""Defects in the code of a config: every operator at every place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.parity.patched import patched_code
from patchgen_core.syntax.index import index_module
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.source import SourceCache
from tools.mutation.mutant import CodeMutant, Edit
from tools.mutation.operators import IN_CODE
from tools.mutation.scope import Scope, functions


def code_mutants(artifact: Artifact, sources: SourceCache) -> Iterator[CodeMutant]:
    """Every defect that fits the code of a config's patches and helpers, each once."""
    seen: set[tuple[Path, str]] = set()
    for scope in scopes(artifact, sources):
        for operator in IN_CODE:
            for edit in operator(scope):
                text = scope.changed(edit)
                if (scope.path, text) not in seen and text != scope.source.text:
                    seen.add((scope.path, text))
                    yield _mutant(scope, edit, text)


def scopes(artifact: Artifact, sources: SourceCache) -> Iterator[Scope]:
    """The functions of a config, those that several patches share once.

    What is there for others than the model to call is left out: other checks than parity are for it.
    """
    plan = artifact.plan
    computed = {code.target for code in patched_code(artifact, artifact.text) if code.is_computed}
    declared = [(p.patch.target, p.replacement) for p in plan.patches if p.patch.target in computed]
    used = _used_helpers(artifact, computed)
    declared += [(helper.name, helper.replacement) for helper in plan.helpers if helper.name in used]
    seen: set[tuple[str, int]] = set()
    for target, replacement in declared:
        if replacement is None or (replacement.location.file, replacement.location.line) in seen:
            continue
        seen.add((replacement.location.file, replacement.location.line))
        source = sources.get(Path(replacement.location.file))
        for function in functions(source, replacement.name, replacement.location.line):
            yield Scope(target, source, function)


def _used_helpers(artifact: Artifact, computed: set[str]) -> set[str]:
    """The helpers that upstream's code or a computed patch refers to, be it through other helpers."""
    helpers = {helper.name: helper.replacement for helper in artifact.plan.helpers}
    idle = {p.dotted for p in artifact.plan.patches if p.patch.target not in computed}
    index = index_module(ast.parse(artifact.text))
    names: set[str] = set()
    for name, nodes in index.definitions.items():
        if name not in helpers:
            names.update(*(_names(node, name, idle) for node in nodes))
    used: set[str] = set()
    while more := {name for name in helpers if name in names} - used:
        used |= more
        names.update(*(helpers[name].names for name in more))
    return used


def _names(node: ast.AST, dotted: str, idle: set[str]) -> Iterator[str]:
    """The names in a definition, but for those in methods that are idle."""
    if dotted in idle:
        return
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _names(child, f"{dotted}.{child.name}" if isinstance(child, FUNCTIONS) else dotted, idle)


def _mutant(scope: Scope, edit: Edit, text: str) -> CodeMutant:
    ast.parse(text)
    path, before = scope.path, scope.source.text
    rows = unified_diff(before.split("\n"), text.split("\n"), n=0, lineterm="")
    diff = "\n".join(row for row in rows if not row.startswith(("---", "+++", "@@")))
    line = before.count("\n", 0, edit.start) + 1
    line += len(before[edit.start :]) > 0 and before[edit.start] == "\n"
    slots = tuple(_conditions(scope, edit.node))
    return CodeMutant(edit.operator, scope.target, text, scope.function.name, path, line, diff, slots)


def _conditions(scope: Scope, node: ast.AST) -> Iterator[tuple[str, bool]]:
    """The slots that decide whether a node runs."""
    inner: ast.AST = node
    for outer in scope.above(node):
        if isinstance(outer, (ast.If, ast.IfExp)) and inner is not outer.test:
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if inner in body:
                yield from ((name, True) for name in _asked(outer.test))
            elif isinstance(outer.test, ast.Attribute):
                yield from ((name, False) for name in _asked(outer.test))
        for block in (getattr(outer, field, None) for field in ("body", "orelse")):
            if isinstance(block, list) and inner in block:
                yield from ((name, False) for name in _returned_before(block[: block.index(inner)]))
        inner = outer


def _asked(test: ast.expr) -> Iterator[str]:
    """The slots that must be bound for a condition to hold."""
    for part in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]:
        if isinstance(part, ast.Attribute) and part.attr == "has_kernel" and isinstance(part.value, ast.Name):
            yield part.value.id


def _returned_before(block: list[ast.stmt]) -> Iterator[str]:
    for statement in block:
        is_plain = isinstance(statement, ast.If) and isinstance(statement.test, ast.Attribute)
        if isinstance(statement, ast.If) and is_plain and isinstance(statement.body[-1], (ast.Return, ast.Raise)):
            yield from _asked(statement.test)

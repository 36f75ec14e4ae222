"""What a decorator that decorates nothing yet may get: upstream's definition, or its signature for an edit."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types

from patchgen_core.authoring.edits.free_names import free_name
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.nodes import FUNCTIONS, Function
from patchgen_core.syntax.source import SourceFile, parse_source
from patchgen_lsp.analysis.code_actions import REWRITE, edit_action
from patchgen_lsp.analysis.declared import TARGETS
from patchgen_lsp.analysis.load_imports import import_what_loads
from patchgen_lsp.analysis.upstream_view import UpstreamView
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.places import make_range
from patchgen_lsp.request import Request

_HEAD = re.compile(r"@\w+\.(\w+)\(\s*[\"']([\w.]+)[\"']")
_EDITS = {"override_method": "edit_method", "replace_function": "edit_function"}
"""The calls of edits, which know what ``...`` stands for, in the place of those that replace."""
_MOST_LINES = 12
"""Lines that a decorator may have."""
_BLANK = 2
"""Empty lines between what stands at the top level."""


@dataclass(frozen=True)
class _Decorator:
    """A decorator's call and target, and its lines, counted from 0."""

    call: str
    target: str
    first: int
    last: int


def list_insertions(
    bench: Workbench, source: SourceFile, upstream: UpstreamView, request: Request
) -> list[types.CodeAction]:
    """Below a decorator that decorates nothing yet: upstream's definition, its signature, or a guard before its body.
    Of a method that the class inherits, its text alone: there is nothing to edit in the class.

    ``source`` is the file as it last was valid Python, which it most often is not without what is inserted.
    """
    lines = bench.sources.text(request.path).split("\n")
    decorator = _find_decorator(lines, request.line)
    if decorator is None or decorator.call not in TARGETS or not _is_bare(lines[decorator.last + 1 :]):
        return []
    source = _parse_with_function(lines, decorator) or source
    node = upstream.find(decorator.target)
    end = (decorator.last, len(lines[decorator.last].rstrip("\r")))
    place, gap = make_range(lines, end, end, request.units), _gap(lines[decorator.last + 1 :])
    actions = []
    inherited = _find_inherited(bench, upstream, decorator.target) if node is None else None
    home, function = inherited or (upstream.source, node)
    if isinstance(function, FUNCTIONS):
        for title, body, is_edit in _of_function(home, function, free_name(decorator.target, source.index.names)):
            if is_edit and inherited is not None:
                continue
            edits = [types.TextEdit(place, f"\n{body}{gap}")]
            if is_edit and decorator.call in _EDITS:
                edits.insert(0, _as_edit(lines, decorator, request))
            actions.append(edit_action(request, title, edits, None, REWRITE))
    elif isinstance(node, ast.ClassDef) and decorator.call == "replace_class":
        edits = [types.TextEdit(place, f"\n{upstream.text_of(node)}{gap}")]
        edits += import_what_loads(lines, source, upstream, node, request)
        actions.append(edit_action(request, "Insert upstream's class", edits, None, REWRITE))
    return actions


def _find_decorator(lines: Sequence[str], line: int) -> _Decorator | None:
    """The decorator at a line, all of its lines whole."""
    for first in range(min(line, len(lines) - 1), max(line - _MOST_LINES, -1), -1):
        head = _HEAD.match("\n".join(lines[first : first + 2]))
        if head is not None:
            ends = range(first, min(first + _MOST_LINES, len(lines)))
            last = next((end for end in ends if _is_whole(lines[first : end + 1])), None)
            return _Decorator(head[1], head[2], first, last) if last is not None and line <= last else None
        if first < line and lines[first].startswith(("def ", "async def ", "class ")):
            return None
    return None


def _is_whole(lines: Sequence[str]) -> bool:
    try:
        ast.parse("\n".join([*lines, "def decorated(): ..."]))
    except SyntaxError:
        return False
    return True


def _parse_with_function(lines: Sequence[str], decorator: _Decorator) -> SourceFile | None:
    """The file with a function below a decorator; None where that is no valid Python either."""
    end = decorator.last + 1
    try:
        return parse_source(Path(), "\n".join([*lines[:end], "def decorated(): ...", *lines[end:]]))
    except PatchgenError:
        return None


def _is_bare(following: Sequence[str]) -> bool:
    """Whether what follows a decorator is nothing that it decorates."""
    first = next((line for line in following if line.strip() and not line.startswith("#")), "")
    return not first.startswith(("def ", "async def ", "class ")) and (not first.startswith("@") or not following[0])


def _find_inherited(bench: Workbench, upstream: UpstreamView, target: str) -> tuple[SourceFile, Function] | None:
    """The method that an upstream class inherits, be it from a base of another module, with the file that has it."""
    class_name, _, method = target.partition(".")
    if not method or not isinstance(upstream.find(class_name), ast.ClassDef):
        return None
    inside = upstream.find_method(class_name, method)
    if inside is not None:
        return (upstream.source, inside[1]) if isinstance(inside[1], FUNCTIONS) else None
    bases = upstream.outside_bases(class_name)
    member = bench.outer_bases.find(upstream.source, upstream.module, bases).get(method)
    home = bench.outer_bases.read(member.path) if member is not None else None
    if member is None or home is None:
        return None
    nodes = (node for node in home.functions.get(method, ()) if node.lineno == member.line)
    return next(((home, node) for node in nodes), None)


def _of_function(source: SourceFile, node: Function, name: str) -> Iterator[tuple[str, str, bool]]:
    """Titles, with what is inserted under each, and whether that is an edit."""
    header = textwrap.dedent("\n".join(source.lines[node.lineno - 1 : node.body[0].lineno - 1]))
    whole = textwrap.dedent("\n".join(source.lines[node.lineno - 1 : source.last_line(node)]))
    for title, body, is_edit in (
        ("Insert upstream's signature and body", whole, False),
        ("Insert upstream's signature around its body", f"{header}\n    ...", True),
        ("Insert a guard before its body", f"{header}\n    if False:\n        return None\n    ...", True),
    ):
        yield title, re.sub(rf"\bdef {node.name}\b", f"def {name}", body, count=1), is_edit


def _gap(following: Sequence[str]) -> str:
    """The line ends that are missing between what is inserted and what follows."""
    blank = next((number for number, line in enumerate(following) if line.strip()), None)
    return "" if blank is None else "\n" * max(_BLANK - blank, 0)


def _as_edit(lines: Sequence[str], decorator: _Decorator, request: Request) -> types.TextEdit:
    """Have a decorator declare an edit."""
    start = lines[decorator.first].index(decorator.call)
    places = [(decorator.first, column) for column in (start, start + len(decorator.call))]
    return types.TextEdit(make_range(lines, places[0], places[1], request.units), _EDITS[decorator.call])

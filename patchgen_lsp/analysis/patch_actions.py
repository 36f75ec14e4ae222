"""What a person may have done with the patch at the cursor."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from lsprotocol import types

from patchgen_core.syntax.nodes import FUNCTIONS, Function
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.code_actions import REWRITE, command_action, edit_action
from patchgen_lsp.analysis.declared import Declared, declared_around, find_config_calls
from patchgen_lsp.analysis.insertions import list_insertions
from patchgen_lsp.analysis.stale_signature import update_signature
from patchgen_lsp.analysis.upstream_view import UpstreamView, view_upstream
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.commands import MERGE, RUN_CHECKS, SLIM
from patchgen_lsp.request import Request

_REPLACEMENTS = ("override_method", "replace_function")
_ALIKE = 0.3
"""From this part of its lines that are upstream's on, a replacement may be worth writing as edits."""


def list_patch_actions(bench: Workbench, source: SourceFile, request: Request) -> list[types.CodeAction]:
    """The actions for the patch at the cursor, and for the config that it is in."""
    upstream = view_upstream(bench, source)
    declared = declared_around(source, request.line + 1)
    actions: list[types.CodeAction] = []
    if upstream is not None:
        actions += list_insertions(bench, source, upstream, request)
        if declared is not None:
            actions += _replacement_actions(source, upstream, declared, request)
            actions += _merges(bench, upstream, declared, request)
    if declared is not None or any(call.lineno == request.line + 1 for call in find_config_calls(source)):
        uri = request.path.as_uri()
        actions.append(command_action("Run parity for this config", RUN_CHECKS, uri, "parity"))
        actions.append(command_action("Run every check of this config", RUN_CHECKS, uri))
    return actions


def _replacement_actions(
    source: SourceFile, upstream: UpstreamView, declared: Declared, request: Request
) -> Iterator[types.CodeAction]:
    """Of a replacement: edits in its place, and upstream's parameters."""
    theirs, ours = upstream.find(declared.target), declared.definition
    is_replacement = declared.call in _REPLACEMENTS
    if not is_replacement or not isinstance(theirs, FUNCTIONS) or not isinstance(ours, FUNCTIONS):
        return
    if _likeness(source, ours, upstream, theirs) >= _ALIKE:
        uri = request.path.as_uri()
        yield command_action(f"Write '{declared.target}' as edits (slim)", SLIM, uri, ours.lineno - 1)
    edit = update_signature(source, ours, upstream.source, theirs, request.units)
    if edit is not None:
        yield edit_action(request, f"Give '{ours.name}' upstream's parameters", [edit], None, REWRITE)


def _likeness(source: SourceFile, ours: Function, upstream: UpstreamView, theirs: Function) -> float:
    """Which part of the lines of a replacement's body upstream's function has too, in that order."""
    own = _code_lines(source, ours)
    matcher = difflib.SequenceMatcher(None, own, _code_lines(upstream.source, theirs), autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) / max(len(own), 1)


def _code_lines(source: SourceFile, node: Function) -> list[str]:
    lines = (line.strip() for line in source.lines[node.body[0].lineno - 1 : source.last_line(node)])
    return [line for line in lines if line and not line.startswith("#")]


def _merges(
    bench: Workbench, upstream: UpstreamView, declared: Declared, request: Request
) -> Iterator[types.CodeAction]:
    """Where upstream has changed what a patch is about: merge that."""
    for move in bench.last_good(request.path).moves:
        if move is not None and move.may_concern(declared.target):
            title = f"Merge upstream's change of '{declared.target}' ({move.versions})"
            package = upstream.module.distribution
            yield command_action(title, MERGE, request.path.as_uri(), declared.target, package)
            return

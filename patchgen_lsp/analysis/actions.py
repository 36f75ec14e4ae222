"""What a person may have done at a place of a config: the edits, and the commands, of code actions."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator

from lsprotocol import types

from patchgen_core.checks.contract.run import EVERY_RULE
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.declared import TARGETS, declared_around
from patchgen_lsp.analysis.diagnostics import DRIFT_CODE, SOURCE
from patchgen_lsp.analysis.upstream_view import UpstreamView, view_upstream
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.commands import REGENERATE
from patchgen_lsp.places import make_range
from patchgen_lsp.request import Request

_NAMED = re.compile(r"'([\w.]+)'")
_NEAREST = re.compile(r"Did you mean '([\w.]+)'\?")
_UNDEFINED = re.compile(r"nothing defines '(\w+)'")
_CALL = re.compile(r"^\s*@?(\w+\.(\w+)\(\s*[\"']([\w.]+)[\"'].*)$")
_FIX = types.CodeActionKind.QuickFix


def list_actions(bench: Workbench, request: Request) -> list[types.CodeAction]:
    """The actions for the findings that the editor shows at the cursor, and for the target there."""
    diagnostics: list[types.Diagnostic] = list(request.more["diagnostics"])
    source = bench.sources.last_valid(request.path)
    if source is None:
        return []
    actions: list[types.CodeAction] = []
    for diagnostic in diagnostics:
        if diagnostic.source == SOURCE:
            actions += _fixes(source, request, diagnostic)
    upstream = view_upstream(bench, source)
    if upstream is not None:
        actions += _insertions(bench.sources.text(request.path), upstream, request)
    return actions


def _fixes(source: SourceFile, request: Request, diagnostic: types.Diagnostic) -> Iterator[types.CodeAction]:
    nearest, named = _NEAREST.search(diagnostic.message), _NAMED.findall(diagnostic.message)
    if nearest is not None and named:
        yield from _respell(source, request, diagnostic, named, nearest[1])
    undefined = _UNDEFINED.search(diagnostic.message)
    if undefined is not None:
        yield from _add_import(source, request, diagnostic, undefined[1])
    if any(rule.code == diagnostic.code for rule in EVERY_RULE):
        yield from _allow(source, request, diagnostic)
    if diagnostic.code == DRIFT_CODE:
        command = types.Command("Regenerate", REGENERATE, arguments=[request.path.as_uri()])
        yield types.CodeAction("Regenerate", _FIX, [diagnostic], is_preferred=True, command=command)


def _respell(
    source: SourceFile, request: Request, diagnostic: types.Diagnostic, named: Iterable[str], right: str
) -> Iterator[types.CodeAction]:
    """Write the nearest name where the wrong one stands in quotes."""
    first = diagnostic.range.start.line + 1
    declared = declared_around(source, first)
    last = declared.last_line if declared is not None else first
    for wrong in named:
        for number in range(first, last + 1):
            text = source.lines[number - 1]
            match = re.search(rf"(?<=[\"'.]){re.escape(wrong)}(?=[\"'.])", text)
            if match is not None and wrong != right:
                place = (number - 1, match.start()), (number - 1, match.end())
                edit = types.TextEdit(make_range(source.lines, *place, request.units), right)
                yield _action(request, f"Write '{right}'", [edit], diagnostic, is_preferred=True)
                return


def _add_import(
    source: SourceFile, request: Request, diagnostic: types.Diagnostic, name: str
) -> Iterator[types.CodeAction]:
    """Add the import that the config itself has of a name to the generated module as well."""
    for statement in source.tree.body:
        if not isinstance(statement, ast.ImportFrom) or statement.level or statement.module is None:
            continue
        for alias in statement.names:
            if (alias.asname or alias.name) == name:
                imported = f"{alias.name} as {alias.asname}" if alias.asname else name
                config = _config_name(source)
                text = f'{config}.add_import("{statement.module}", names=["{imported}"])\n'
                edit = _insert(source, _line_after(source, config, "add_import"), text, request)
                yield _action(request, f"Import '{name}' in the generated module", [edit], diagnostic)
                return


def _allow(source: SourceFile, request: Request, diagnostic: types.Diagnostic) -> Iterator[types.CodeAction]:
    """Allow a finding. The reason is left to be typed: without one, the config is an error."""
    config, data = _config_name(source), diagnostic.data
    target = data.get("target", "") if isinstance(data, dict) else getattr(data, "target", "")
    arguments = f'"{diagnostic.code}", ""' + (f', "{target}"' if target else "")
    line = _line_after(source, config, "allow", len(source.lines) - 1)
    edit = _insert(source, line, f"{config}.allow({arguments})\n", request)
    yield _action(request, f"Allow {diagnostic.code} (type the reason)", [edit], diagnostic)


def _insertions(text: str, upstream: UpstreamView, request: Request) -> Iterator[types.CodeAction]:
    """Below a decorator that decorates nothing yet: upstream's function, or its signature around what is there."""
    lines = text.split("\n")
    match = _CALL.match(lines[request.line]) if request.line < len(lines) else None
    if match is None or match[2] not in TARGETS or not lines[request.line].lstrip().startswith("@"):
        return
    node = upstream.find(match[3])
    following = next((line for line in lines[request.line + 1 :] if line.strip()), "")
    if not isinstance(node, FUNCTIONS) or following.startswith(("def ", "async def ", "@")):
        return
    name = _function_name(match[3])
    whole = textwrap.dedent("\n".join(upstream.source.lines[node.lineno - 1 : upstream.source.last_line(node)]))
    header = textwrap.dedent("\n".join(upstream.source.lines[node.lineno - 1 : node.body[0].lineno - 1]))
    texts = {
        "Insert upstream's signature and body": whole,
        "Insert upstream's signature around its body": f"{header}\n    ...",
    }
    end = (request.line, len(lines[request.line].rstrip("\r")))
    place = make_range(lines, end, end, request.units)
    for title, body in texts.items():
        renamed = re.sub(rf"\bdef {node.name}\b", f"def {name}", body, count=1)
        yield _action(
            request, title, [types.TextEdit(place, f"\n{renamed}\n")], None, types.CodeActionKind.RefactorRewrite
        )


def _function_name(target: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\.", "_", target).lower().replace("__", "_")


def _config_name(source: SourceFile) -> str:
    """The variable of the file's first config."""
    for statement in source.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            called = ast.unparse(statement.value.func)
            if called.endswith("PatchConfig") and isinstance(statement.targets[0], ast.Name):
                return statement.targets[0].id
    return "config"


def _line_after(source: SourceFile, config: str, call: str, default: int = 0) -> int:
    """The line, from 0, below the last statement that makes a call of the config, or below that which makes it."""
    line = default
    for statement in source.tree.body:
        text = ast.unparse(statement).split("(")[0] if isinstance(statement, (ast.Expr, ast.Assign)) else ""
        is_made = isinstance(statement, ast.Assign) and text.startswith(f"{config} = ") and not default
        if text == f"{config}.{call}" or is_made:
            line = statement.end_lineno or line
    return line


def _insert(source: SourceFile, line: int, text: str, request: Request) -> types.TextEdit:
    return types.TextEdit(make_range(source.lines, (line, 0), (line, 0), request.units), text)


def _action(
    request: Request,
    title: str,
    edits: list[types.TextEdit],
    diagnostic: types.Diagnostic | None,
    kind: types.CodeActionKind = _FIX,
    is_preferred: bool | None = None,
) -> types.CodeAction:
    changes = types.WorkspaceEdit(changes={request.path.as_uri(): edits})
    about = [diagnostic] if diagnostic is not None else None
    return types.CodeAction(title, kind, about, is_preferred=is_preferred, edit=changes)

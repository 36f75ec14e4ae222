"""What a person may have done at a place of a config: for the findings there, and for the patch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from lsprotocol import types

from patchgen_core.checks.contract.run import EVERY_RULE
from patchgen_core.syntax.forms import resolved
from patchgen_core.syntax.index import ImportStatement
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.code_actions import CONFIG_FIX, edit_action, insert_line
from patchgen_lsp.analysis.declared import declared_around
from patchgen_lsp.analysis.diagnostics import DRIFT_CODE, SOURCE
from patchgen_lsp.analysis.generated_actions import list_generated_actions
from patchgen_lsp.analysis.generated_view import is_generated_file
from patchgen_lsp.analysis.patch_actions import list_patch_actions
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.commands import REGENERATE, RUN_CHECKS
from patchgen_lsp.places import make_range, place_of
from patchgen_lsp.request import Request


def list_actions(bench: Workbench, request: Request) -> list[types.CodeAction]:
    """The actions for the findings that the editor shows at the cursor, and for the patch or generated line there."""
    if is_generated_file(request.path):
        return list_generated_actions(bench, request)
    source = bench.sources.last_valid(request.path)
    if source is None:
        return []
    actions: list[types.CodeAction] = []
    for diagnostic in request.more["diagnostics"]:
        if diagnostic.source == SOURCE:
            actions += _fixes(bench, source, request, diagnostic)
    return [*actions, *list_patch_actions(bench, source, request)]


def _fixes(
    bench: Workbench, source: SourceFile, request: Request, diagnostic: types.Diagnostic
) -> Iterator[types.CodeAction]:
    name, nearest = _data(diagnostic, "name"), _data(diagnostic, "nearest")
    if name and nearest:
        yield from _respell(source, request, diagnostic, name, nearest)
    if name:
        yield from _add_import(bench, source, request, diagnostic, name)
    if any(rule.code == diagnostic.code for rule in EVERY_RULE):
        yield _allow(source, request, diagnostic)
    if diagnostic.code == DRIFT_CODE:
        command = types.Command("Regenerate", REGENERATE, arguments=[request.path.as_uri()])
        yield types.CodeAction("Regenerate", CONFIG_FIX, [diagnostic], is_preferred=True, command=command)
    if check := _data(diagnostic, "check"):
        command = types.Command(f"Run {check} again", RUN_CHECKS, arguments=[request.path.as_uri(), check])
        yield types.CodeAction(command.title, CONFIG_FIX, [diagnostic], command=command)


def _data(diagnostic: types.Diagnostic, key: str) -> str:
    """What a finding says of itself beside its message; editors hand it back as they got it."""
    data: Any = diagnostic.data
    return str(data.get(key, "") if isinstance(data, dict) else getattr(data, key, "") or "")


def _respell(
    source: SourceFile, request: Request, diagnostic: types.Diagnostic, wrong: str, right: str
) -> Iterator[types.CodeAction]:
    """Write the nearest name where the wrong one stands in the patch that the finding is about."""
    first = diagnostic.range.start.line + 1
    declared = declared_around(source, first)
    last = declared.last_line if declared is not None else first
    word = re.compile(rf"(?<!\w){re.escape(wrong)}(?!\w)")
    for node in sorted(_spellings(source, first, last), key=lambda node: (node.lineno, node.col_offset)):
        match = word.search(source.text, source.start(node), source.end(node))
        if match is not None:
            places = [place_of(source, offset) for offset in match.span()]
            edit = types.TextEdit(make_range(source.lines, places[0], places[1], request.units), right)
            yield edit_action(request, f"Write '{right}'", [edit], diagnostic, is_preferred=True)
            return


def _spellings(source: SourceFile, first: int, last: int) -> Iterator[ast.expr]:
    """The names and the texts in quotes on some lines of a config."""
    for node in ast.walk(source.tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (is_text or isinstance(node, (ast.Name, ast.Attribute))) and first <= getattr(node, "lineno", 0) <= last:
            assert isinstance(node, ast.expr)
            yield node


def _add_import(
    bench: Workbench, source: SourceFile, request: Request, diagnostic: types.Diagnostic, name: str
) -> Iterator[types.CodeAction]:
    """Add the import that the config itself has of a name to the generated module as well."""
    imports = source.index.imports.get(name)
    if not imports:
        return
    package = bench.project.module_name(source.path).rpartition(".")[0]
    config = _config_name(source)
    text = f"{config}.add_import({_arguments_of_import(*imports[0], package)})\n"
    edit = insert_line(source, _line_after(source, config, "add_import"), text, request)
    yield edit_action(request, f"Import '{name}' in the generated module", [edit], diagnostic)


def _arguments_of_import(statement: ImportStatement, alias: ast.alias, package: str) -> str:
    """What ``add_import`` is called with for an import of a config, whose relative ones begin at a package."""
    if isinstance(statement, ast.ImportFrom):
        imported = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
        return f'"{resolved(statement, package)}", names=["{imported}"]'
    return f'"{alias.name}", alias="{alias.asname}", is_from_import=False' if alias.asname else f'"{alias.name}"'


def _allow(source: SourceFile, request: Request, diagnostic: types.Diagnostic) -> types.CodeAction:
    """Allow a finding. The reason is left to be typed: without one, the config is an error."""
    config, target = _config_name(source), _data(diagnostic, "target")
    arguments = f'"{diagnostic.code}", ""' + (f', "{target}"' if target else "")
    line = _line_after(source, config, "allow", len(source.lines) - 1)
    edit = insert_line(source, line, f"{config}.allow({arguments})\n", request)
    return edit_action(request, f"Allow {diagnostic.code} (type the reason)", [edit], diagnostic)


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

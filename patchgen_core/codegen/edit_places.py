"""Where in upstream's code an edit is: a pattern that has to be found as often as the edit says."""

from __future__ import annotations

import ast

from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.config.declarations import Patch
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.forms import expression_text, listed
from patchgen_core.syntax.patterns import (
    Match,
    Pattern,
    PatternError,
    find_expressions,
    find_statements,
    nearest_code,
    parse_pattern,
)
from patchgen_core.syntax.source import SourceFile

_MOST = 5


def read_pattern(patch: Patch, label: str) -> Pattern:
    """The pattern of an edit, in upstream's names; a PatchgenError says what is wrong with it."""
    try:
        return parse_pattern(map_prefixes(patch.at, patch.name_map))
    except PatternError as error:
        first = patch.at.strip().split("\n")[0]
        raise PatchgenError(f"{label}: cannot look for '{first}': {error}", patch.location) from None


def locate_statements(pattern: Pattern, patch: Patch, label: str, source: SourceFile, node: ast.AST) -> list[Match]:
    """The statements that an edit is about; a PatchgenError when they are not there as often as it says."""
    matches = find_statements(pattern, node)
    if len(matches) != patch.count:
        raise _miscounted(pattern, matches, patch, label, source, node)
    return matches


def locate_expressions(pattern: Pattern, patch: Patch, label: str, source: SourceFile, node: ast.AST) -> list[Match]:
    """The expressions that an edit is about; a PatchgenError when they are not there as often as it says."""
    matches = find_expressions(pattern, node)
    if len(matches) != patch.count:
        raise _miscounted(pattern, matches, patch, label, source, node)
    return matches


def _miscounted(
    pattern: Pattern, matches: list[Match], patch: Patch, label: str, source: SourceFile, node: ast.AST
) -> PatchgenError:
    what = f"'{' / '.join(line.strip() for line in pattern.text.splitlines())}'"
    if matches:
        lines = [str(getattr(match.nodes[0], "lineno", 0)) for match in matches]
        times = f"{len(matches)} times" if len(matches) > 1 else "once"
        message = f"{label}: {what} is there {times}, in upstream's {_lines(lines)}"
        wanted = "once" if patch.count == 1 else f"{patch.count} times"
        hint = f"It must be there {wanted}: add what stands before or after it, or pass count={len(matches)}."
        return PatchgenError(message, patch.location, hint)
    message = f"{label}: upstream's '{patch.target}' has no {what}"
    return PatchgenError(message, patch.location, _nearest(pattern, patch.target, source, node))


def _nearest(pattern: Pattern, target: str, source: SourceFile, node: ast.AST) -> str:
    if pattern.expression is not None:
        inside = [
            statement
            for match in find_expressions(pattern, node)
            for statement in ast.walk(node)
            if isinstance(statement, ast.stmt) and statement is not node and match.nodes[0] in ast.walk(statement)
        ]
        if inside:
            text = _code(inside[-1])
            return f"It is a part of line {inside[-1].lineno}, '{text}': write the statement, or use replace_code."
    nearest = nearest_code(pattern, node)
    if not nearest:
        lines = _range(dict(source.definitions).get(target, node))
        return f"'{target}' is in upstream's lines {lines} of {source.path.name}."
    return f"Nearest: {'; '.join(f'line {inner.lineno}: {_code(inner)}' for inner in nearest)}"


def _code(node: ast.AST) -> str:
    first, *more = ast.unparse(node).split("\n")
    return first if more else expression_text(node, 100)


def _range(node: ast.AST) -> str:
    return f"{getattr(node, 'lineno', 0)} to {getattr(node, 'end_lineno', 0)}"


def _lines(numbers: list[str]) -> str:
    shown = numbers[:_MOST] + ([f"{len(numbers) - _MOST} more"] if len(numbers) > _MOST else [])
    return f"lines {listed(shown)}" if len(shown) > 1 else f"line {shown[0]}"

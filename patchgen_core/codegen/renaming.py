"""Renaming inside a replacement: by scope for the names it is known by, by word for ``name_map``."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from patchgen_core.config.replacement import HEAD, Replacement, string_names
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.syntax.nodes import FUNCTIONS, Function
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.scopes import NameReference, Scope, Scopes
from patchgen_core.syntax.source import SourceFile, parse_source


def map_prefixes(text: str, name_map: Mapping[str, str]) -> str:
    """Rename class prefixes in every word of a source text: identifiers, strings and comments alike.

    A prefix counts where a word starts with it, underscores before it aside, and goes on with a capital, an
    underscore or nothing: ``Qwen3`` is the prefix of ``Qwen3Model`` and of ``_Qwen3Model``, but neither of
    ``Qwen35Model`` nor of ``Qwen3_5Model``.
    A word is renamed once; one that has the new prefix already, where that continues the old one, stays.
    """
    if not name_map:
        return text
    prefixes = "|".join(re.escape(old) for old in sorted(name_map, key=len, reverse=True))
    # A word may follow an escape sequence: in the source, "\nQwen3Model" has an "n" before it.
    pattern = re.compile(rf"(?:(?<!\w)|(?<=\\[abfnrtv]))(_*)({prefixes})(?![a-z0-9]|_\d)(\w*)")

    def rename(match: re.Match[str]) -> str:
        underscores, old, rest = match.groups()
        new = name_map[old]
        if new.startswith(old) and re.match(rf"{re.escape(new)}(?![a-z0-9])", old + rest):
            return match[0]
        return underscores + new + rest

    return pattern.sub(rename, text)


def original_name(method: str) -> str:
    """What a generated class calls upstream's method beside the one that wraps it."""
    return f"_original_{method.strip('_')}"


ORIGINAL_INIT = original_name("__init__")


def rename_definition(replacement: Replacement, name: str) -> Replacement:
    """Give the definition itself another name."""
    text = HEAD.sub(rf"\1\2{name}", replacement.text)
    return replace(replacement, text=text)


def rename_globals(replacement: Replacement, names: Mapping[str, str]) -> Replacement:
    """Rename every reference to a global name in the replacement's scope; ``names`` maps to dotted names.

    A local of the same name stays; a PatchgenError when one would hide a new name.
    """
    renames = {old: new for old, new in names.items() if old != new and replacement.mentions(old)}
    if not renames:
        return replacement
    source = _parse(replacement)
    edits = []
    for reference in find_scopes(source.tree).references:
        node = reference.node
        if isinstance(node, ast.Constant):
            edits += _annotation_edits(source, reference, renames)
        elif node.id in renames and reference.is_global(node.id):
            edits.append(_edit(source, reference, renames[node.id], replacement))
    return _rewrite(replacement, source, edits)


def wrap_original(replacement: Replacement, cls: str, method: str) -> Replacement:
    """Turn the function that wraps a method into that method: its first parameter becomes upstream's method.

    A PatchgenError when it has no such parameter, assigns it, or never uses it.
    """
    call, given = ("modify_init", "original_init") if method == "__init__" else ("wrap_method", "original")
    source = _parse(replacement)
    function = source.tree.body[-1]
    positional = [*function.args.posonlyargs, *function.args.args] if isinstance(function, FUNCTIONS) else []
    if len(positional) < 2 or positional[0].arg == "self":
        raise PatchgenError(
            f"{call}: '{replacement.name}' must take {given} and self first",
            replacement.location,
            f"Write def f({given}, self, ...): {given}(self, ...).",
        )
    assert isinstance(function, FUNCTIONS)
    parameter = positional[0].arg
    references = _parameter_references(find_scopes(source.tree), function, parameter, replacement, call)
    if not references:
        raise PatchgenError(
            f"{call}: '{replacement.name}' never calls '{parameter}', so upstream's {method} would not run",
            replacement.location,
            "Call it, or override the method with override_method.",
        )
    bound = f"{cls}.{original_name(method)}"
    edits = [_edit(source, reference, bound, replacement) for reference in references]
    edits.append(Edit(source.start(positional[0]), source.start(positional[1]), ""))
    return _rewrite(replacement, source, edits)


def _parse(replacement: Replacement) -> SourceFile:
    """The decorators and the definition as a file of their own."""
    head = "".join(f"{decorator}\n" for decorator in replacement.decorators)
    return parse_source(Path(replacement.location.file), head + replacement.text)


def _rewrite(replacement: Replacement, source: SourceFile, edits: list[Edit]) -> Replacement:
    """Apply edits to decorators and definition; those of decorators leave their lines."""
    lines = apply_edits(source.text, edits)[0].split("\n")
    decorators = []
    for decorator in replacement.decorators:
        count = decorator.count("\n") + 1
        decorators.append("\n".join(lines[:count]))
        lines = lines[count:]
    return replacement.with_text("\n".join(lines), tuple(decorators))


def _edit(source: SourceFile, reference: NameReference, new: str, replacement: Replacement) -> Edit:
    """The edit that renames a reference, which must not be caught by a local name."""
    node, first = reference.node, new.split(".")[0]
    if isinstance(node, ast.Name) and unicodedata.normalize("NFKC", source.segment(node)) != node.id:
        raise PatchgenError(
            f"'{replacement.name}' names '{node.id}' in an f-string of several lines, and this Python misplaces it",
            replacement.location,
            "Use Python 3.10.6 or newer, or put the value into a variable above the f-string.",
        )
    if reference.scope.find(first) is not None:
        raise PatchgenError(
            f"'{replacement.name}' has a local name '{first}', which would hide '{new}' that it refers to",
            replacement.location,
            "Rename the local name.",
        )
    return Edit(source.start(node), source.end(node), new)


def _annotation_edits(source: SourceFile, reference: NameReference, names: Mapping[str, str]) -> list[Edit]:
    visible = [name for name in names if reference.scope.find(name) is None]
    if not visible or not string_names(reference.node):
        return []
    start, words = source.start(reference.node), "|".join(map(re.escape, sorted(visible)))
    matches = re.finditer(rf"(?<![\w.])({words})(?!\w)", source.segment(reference.node))
    return [Edit(start + match.start(), start + match.end(), names[match[1]]) for match in matches]


def _parameter_references(
    scopes: Scopes, function: Function, parameter: str, replacement: Replacement, call: str
) -> list[NameReference]:
    """Where a function uses a parameter that nothing else is assigned to."""

    def is_parameter(name: str, scope: Scope) -> bool:
        owner = scope.find(name) if name == parameter else None
        return owner is not None and owner.node is function

    if sum(is_parameter(name, scope) for name, scope in scopes.bindings) > 1:
        raise PatchgenError(
            f"{call}: '{replacement.name}' assigns its parameter '{parameter}'",
            replacement.location,
            "Use another name for the new value.",
        )
    return [r for r in scopes.references if isinstance(r.node, ast.Name) and is_parameter(r.node.id, r.scope)]

"""What a new text of a function changes in the signature of upstream's, as edits."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

from patchgen_core.authoring.slim.edit_texts import QuotedEdit, added_parameter, removed_parameter
from patchgen_core.syntax.forms import is_same_syntax
from patchgen_core.syntax.nodes import Function, decorator_name
from patchgen_core.syntax.source import SourceFile

_Entry = tuple[str, str, ast.expr | None]
_END = re.compile(r"^\s*(?:Example|Return|```)")


class NoEdits(Exception):
    """Why a text cannot be said by edits."""


def parameter_edits(ours: Function, theirs: Function, new: SourceFile) -> Iterator[QuotedEdit]:
    """The edits that make one signature of the other.

    Raises:
        NoEdits: order, kinds or defaults of what is in both differ.
    """
    before, after = _parameters(ours.args), _parameters(theirs.args)
    names = {name for name, _, _ in after}
    gone = [(name, kind) for name, kind, _ in before if name not in names]
    stay = [entry for entry in before if entry[0] in names]
    kept = [entry for entry in after if entry[0] in {name for name, _, _ in before}]
    if [(name, kind) for name, kind, _ in kept] != [(name, kind) for name, kind, _ in stay]:
        raise NoEdits("its parameters have another order than upstream's")
    for name, kind in gone:
        if kind not in ("positional", "keyword"):
            raise NoEdits(f"no edit takes out upstream's '{name}'")
        yield removed_parameter(name)
    for (_, _, one), (name, _, other) in zip(stay, kept, strict=True):
        if not is_same_syntax(one, other):
            raise NoEdits(f"its parameter '{name}' has another default")
    is_documented = any(decorator_name(decorator) == "auto_docstring" for decorator in ours.decorator_list)
    docstring = ast.get_docstring(theirs, clean=False) if is_documented else None
    for number, (name, kind, default) in enumerate(after):
        if (name, kind, default) in kept:
            continue
        if kind not in ("positional", "keyword") or not number:
            raise NoEdits(f"no edit adds its parameter '{name}'")
        argument = next(n for n in ast.walk(theirs.args) if isinstance(n, ast.arg) and n.arg == name)
        text = new.segment(argument)
        if default is not None:
            text += f"{' = ' if argument.annotation else '='}{new.segment(default)}"
        yield added_parameter(text, after[number - 1][0], documentation_of(docstring or "", name))


def documentation_of(docstring: str, name: str) -> str:
    """What a docstring says of a parameter, from its name on; empty for nothing."""
    lines = inspect.cleandoc(docstring).split("\n")
    first = next((n for n, line in enumerate(lines) if re.match(rf"\s*{name}\s*\(.*\)\s*:", line)), None)
    if first is None:
        return ""
    indent = len(lines[first]) - len(lines[first].lstrip())
    end = first + 1
    while end < len(lines) and _is_inside(lines[end], indent):
        end += 1
    entry = lines[first:end]
    return "\n".join(line[indent:] for line in entry).strip()


def _is_inside(line: str, indent: int) -> bool:
    return not line.strip() or (line.startswith(" " * (indent + 1)) and not _END.match(line))


def _parameters(arguments: ast.arguments) -> list[_Entry]:
    """Parameters as they are written: name, kind and default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults]
    entries: list[_Entry] = [(a.arg, "positional", d) for a, d in zip(positional, defaults, strict=True)]
    entries += [(arguments.vararg.arg, "rest", None)] if arguments.vararg else []
    entries += [(a.arg, "keyword", d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return entries + ([(arguments.kwarg.arg, "keywords", None)] if arguments.kwarg else [])

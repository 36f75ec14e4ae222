"""What calls of a config have to say of upstream's names in another release."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from difflib import SequenceMatcher

from patchgen_core.authoring.edits.arguments import text_literal
from patchgen_core.codegen.decorators import dotted_name
from patchgen_core.errors import Location
from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.syntax.nodes import Definition, decorator_name
from patchgen_core.upgrade.results import Merged, NameChange, Rebase

_ALIKE = 0.6
"""How alike the names of two decorators without arguments must be to be the same one renamed."""


def rename(location: Location, call: str, old: str, new: str, target: str = "") -> Rebase:
    """A name that a call at a line has to say instead; an empty one where it need not name it any more."""
    change = NameChange(location, call, old, new, target)
    before, after = (_call_text(call, target, name) for name in (old, new))
    diff = unified_diff(before, after, call, f"{call} (carried over)")
    return Rebase(location, "", Merged("", "same"), diff, name=change)


def _call_text(call: str, target: str, name: str) -> str:
    return f"{call}({', '.join(map(text_literal, filter(None, (target, name))))})\n" if name else ""


def renamed_decorator(old: Sequence[Definition], new: Sequence[Definition], name: str) -> str:
    """What a decorator that is gone is called in the new release, named as it was; empty where that cannot be told.

    It is the only new one that has its arguments; without arguments, one with a similar name.
    """
    before, after = ([d for node in nodes for d in node.decorator_list] for nodes in (old, new))
    gone = [d for d in before if name.removeprefix("@") in (dotted_name(d), decorator_name(d))]
    fresh = [d for d in after if dotted_name(d) not in [*map(dotted_name, before)]]
    fresh = [d for d in fresh if any(_is_renamed(one, d) for one in gone)]
    if len(fresh) != 1:
        return ""
    at = "@" if name.startswith("@") else ""
    return at + (dotted_name(fresh[0]) if "." in name or at else decorator_name(fresh[0]))


def _is_renamed(one: ast.expr, other: ast.expr) -> bool:
    arguments = [_arguments(decorator) for decorator in (one, other)]
    if arguments[0] != arguments[1]:
        return False
    return bool(arguments[0]) or SequenceMatcher(None, decorator_name(one), decorator_name(other)).ratio() >= _ALIKE


def _arguments(decorator: ast.expr) -> list[str]:
    if not isinstance(decorator, ast.Call):
        return []
    return [ast.dump(argument) for argument in (*decorator.args, *decorator.keywords)]

"""What an edit is of: one definition of upstream's own, since its text stays."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patchgen_core.config.declarations import Patch
from patchgen_core.config.replacement import ACCESSORS
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.syntax.nodes import Definition, all_methods, methods

_OF_PARAMETERS = {"parameter_addition": "add_parameter", "parameter_removal": "remove_parameter"}
_WANTED = {"class_edit": "class", "function_edit": "function"}


def check_edited(patch: Patch, nodes: Sequence[Definition], rest: Sequence[str], module: str) -> tuple[str, str]:
    """The method and accessor that an edit is of, empty for none; a PatchgenError when there is nothing to edit."""
    name = patch.target.split(".")[0]
    kind = "class" if isinstance(nodes[0], ast.ClassDef) else "function"
    if len(nodes) > 1:
        lines = " and ".join(str(node.lineno) for node in nodes)
        message = f"upstream {module} defines '{name}' more than once, in lines {lines}: an edit needs one text"
        raise PatchgenError(message, patch.location, "Use a replacement.")
    if rest:
        if kind == "function":
            raise PatchgenError(f"'{name}' is a function in upstream {module}", patch.location, f"Write '{name}'.")
        return _check_method(patch, nodes[0], rest)
    if _WANTED.get(patch.kind, kind) != kind:
        hint = "Use edit_class, or edit_method for one method." if kind == "class" else "Use edit_function."
        raise PatchgenError(f"'{name}' is a {kind} in upstream {module}", patch.location, hint)
    if patch.kind in _OF_PARAMETERS and kind == "class":
        hint = f"Write '{name}.__init__' or '{name}.forward'."
        raise PatchgenError(
            f"{_OF_PARAMETERS[patch.kind]}: '{name}' is a class, which has no parameters", patch.location, hint
        )
    return "", ""


def _check_method(patch: Patch, node: Definition, rest: Sequence[str]) -> tuple[str, str]:
    method, accessor = rest[0], rest[1] if len(rest) == 2 else ""
    if len(rest) > 2 or (accessor and accessor not in ACCESSORS):
        hint = "Write 'Class.method', or 'Class.name.setter' for a property's setter."
        raise PatchgenError(f"'{patch.target}' is not a target", patch.location, hint)
    accessor = "" if accessor == "getter" else accessor
    functions = methods(node, method, accessor)
    if not functions:
        own = {function.name for function in all_methods(node)}
        hint = did_you_mean(method, own) or "If it inherits it, use wrap_method or override_method."
        message = f"upstream class '{node.name}' has no method '{method}' of its own to edit"
        raise PatchgenError(message, patch.location, hint)
    if len(functions) > 1:
        lines = " and ".join(str(function.lineno) for function in functions)
        message = f"upstream defines '{patch.target}' more than once, in lines {lines}: an edit needs one text"
        raise PatchgenError(message, patch.location, "Use override_method.")
    return method, accessor

"""What must hold of an edit and of what it makes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patchgen_core.codegen.targets import ComposedLine, PlannedPatch
from patchgen_core.errors import Location, PatchgenError, did_you_mean
from patchgen_core.syntax.index import bound_name
from patchgen_core.syntax.nodes import FUNCTIONS, Function


def bound_names(function: Function, edits: Sequence[PlannedPatch]) -> set[str]:
    """The names that a function binds, with those that edits of it bind."""
    names = _own_names(function)
    for edit in edits:
        if edit.replacement is not None:
            tree = ast.parse(edit.replacement.text).body[0]
            names |= {name for statement in getattr(tree, "body", []) for name in _own_names(statement)}
        elif edit.patch.kind == "parameter_addition":
            names.add(edit.patch.code.partition(":")[0].partition("=")[0].strip())
    return names


def _own_names(node: ast.AST) -> set[str]:
    names = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            names.add(inner.arg)
        elif isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            names.add(inner.id)
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            names |= {bound_name(inner, alias) for alias in inner.names}
        elif isinstance(inner, (*FUNCTIONS, ast.ClassDef)) and inner is not node:
            names.add(inner.name)
        elif isinstance(inner, ast.ExceptHandler) and inner.name:
            names.add(inner.name)
    return names


def check_parameters(edit: PlannedPatch, bound: set[str]) -> None:
    """The parameters of an edit's function are names that its target knows."""
    if edit.replacement is None:
        return
    function = ast.parse(edit.replacement.text).body[0]
    assert isinstance(function, FUNCTIONS)
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    for parameter in parameters:
        if parameter.arg not in bound:
            own, declared = edit.replacement.location, edit.patch.location
            is_own = declared is None or own.file == declared.file
            location = Location(own.file, own.line + parameter.lineno - 1) if is_own else declared
            message = f"{edit.label}: '{parameter.arg}' is neither a parameter of it nor a name that it binds"
            raise PatchgenError(message, location, did_you_mean(parameter.arg, bound))


def check_syntax(lines: Sequence[ComposedLine], edits: Sequence[PlannedPatch]) -> None:
    """Refuse edits whose result is not valid Python."""
    try:
        ast.parse("\n".join(line.text for line in lines))
    except SyntaxError as error:
        number = min(error.lineno or 1, len(lines))
        near = sorted(range(len(lines)), key=lambda n: abs(n + 1 - number))
        line = next((lines[n] for n in near if lines[n].location is not None), None)
        edit = line.edit if line is not None and line.edit is not None else edits[0]
        location = line.location if line is not None else edit.patch.location
        text = lines[number - 1].text.strip()
        message = f"{edit.label}: upstream's code with it is not valid Python: {error.msg}"
        raise PatchgenError(message, location, excerpt=text) from None

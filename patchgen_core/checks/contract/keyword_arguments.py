"""What becomes of the keywords that a function takes as ``**kwargs``."""

from __future__ import annotations

import ast

from patchgen_core.checks.contract.imported_functions import find_imported
from patchgen_core.checks.contract.rule import Replaced, Subject
from patchgen_core.syntax.nodes import Function, last_name
from patchgen_core.syntax.scopes import Call
from patchgen_core.syntax.signatures import Signature, read_parameters


def keywords_read(function: Function, kwargs: str) -> set[str]:
    """The keywords that a function looks up in its ``**kwargs``."""
    names = set()
    for node in ast.walk(function):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == kwargs:
            key = node.slice
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (f"{kwargs}.get", f"{kwargs}.pop") and node.args:
            key = node.args[0]
        if isinstance(key, ast.Constant):
            names.add(str(key.value))
    return names


def keywords_passed_beside(function: Function, kwargs: str) -> set[str]:
    """The keywords that a function passes beside its ``**kwargs``, in which they would come twice."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    handing_on = [c for c in calls if any(k.arg is None and ast.unparse(k.value) == kwargs for k in c.keywords)]
    return {keyword.arg for call in handing_on for keyword in call.keywords if keyword.arg is not None}


def keywords_handed_on(subject: Subject, replaced: Replaced, signature: Signature) -> set[str]:
    """The keywords that a function reads from its ``**kwargs``, or hands on in them to others that take them."""
    kwargs = signature.kwargs_name
    if not kwargs:
        return set()
    names = keywords_read(replaced.node, kwargs)
    for call, callees in subject.callers.evident:
        if call.owner != replaced.dotted or kwargs not in _stars(call.node):
            continue
        accepted = [{parameter.name for parameter in callee.signature.parameters} for callee in callees]
        if not callees:
            accepted = _accepted_elsewhere(subject, call, replaced)
        if accepted:
            names |= set.intersection(*accepted) - {keyword.arg for keyword in call.node.keywords}
    return names


def _accepted_elsewhere(subject: Subject, call: Call, replaced: Replaced) -> list[set[str]]:
    """What an imported function takes by keyword: every parameter of upstream's where it hands on its ``**kwargs``.

    It is empty where the function cannot be read.
    """
    function = find_imported(subject, call.node.func.id) if isinstance(call.node.func, ast.Name) else None
    if function is None:
        return []
    names = {parameter.name for parameter in read_parameters(function)}
    kwargs = function.args.kwarg.arg if function.args.kwarg is not None else ""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    if kwargs and any(kwargs in _stars(node) for node in calls) and replaced.upstream is not None:
        names |= {parameter.name for parameter in read_parameters(replaced.upstream)}
    return [names]


def _stars(call: ast.Call) -> list[str]:
    """The names of what a call passes as ``**name``."""
    return [last_name(keyword.value) for keyword in call.keywords if keyword.arg is None]

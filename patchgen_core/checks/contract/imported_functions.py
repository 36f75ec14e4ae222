"""Functions that a generated module imports from other modules, as far as their files are here."""

from __future__ import annotations

import ast
import re

from patchgen_core.checks.contract.library import absolute_module
from patchgen_core.checks.contract.rule import Subject
from patchgen_core.syntax.inference import Callee
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, Function
from patchgen_core.syntax.scopes import Call
from patchgen_core.syntax.signatures import signature_of

_CALLED = re.compile(r"\b(\w+)\(")


class ImportedFunctions:
    """What calls of imported functions call.

    These are those of the project's packages, and of upstream's the ones that the config's own code calls: no file is
    read for what upstream calls of its own.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        plan = subject.plan
        replacements = [declared.replacement for patch in plan.patches for declared in patch.declared]
        replacements += [helper.replacement for helper in plan.helpers]
        texts = [text for text, _ in plan.blocks]
        texts += [replacement.text for replacement in replacements if replacement is not None]
        self._called = {name for text in texts for name in _CALLED.findall(text)}

    def callee(self, call: Call) -> Callee | None:
        """What a call of an imported function calls; None when that is not evident."""
        function = call.node.func
        if not isinstance(function, ast.Name) or call.scope.find(function.id) is not None:
            return None
        module, _ = find_origin(self._subject, function.id) or ("", "")
        top, upstream = module.partition(".")[0], self._subject.upstream.name.partition(".")[0]
        is_known = function.id in self._called if top == upstream else self._subject.own_modules.is_own(module)
        found = find_imported(self._subject, function.id) if module and is_known else None
        if found is None:
            return None
        home, node = found
        return Callee(f"'{node.name}'", home, signature_of(node, False), node, node.name)


def find_imported(subject: Subject, name: str) -> tuple[Module, Function] | None:
    """The function that a name of the top level is imported from; None where it is none, or its file is not here."""
    origin = find_origin(subject, name)
    found = subject.library.find(*origin) if origin is not None else None
    return (found[0], found[1]) if found is not None and isinstance(found[1], FUNCTIONS) else None


def find_origin(subject: Subject, name: str) -> tuple[str, str] | None:
    """The module that a name of the top level is imported from, and what it is called there; None for other names."""
    index = subject.generated.index
    imports = index.imports.get(name, [])
    is_bound_again = name in index.definitions or name in index.assigned or name in subject.generated.rebound
    if len(imports) != 1 or is_bound_again:
        return None
    statement, alias = imports[0]
    if not isinstance(statement, ast.ImportFrom) or alias is None:
        return None
    package = subject.project.module_name(subject.artifact.path).rpartition(".")[0]
    return absolute_module(statement, package), alias.name

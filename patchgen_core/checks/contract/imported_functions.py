"""Functions that a generated module imports from other modules, as far as their files are here."""

from __future__ import annotations

import ast
import re

from patchgen_core.checks.contract.library import imported_from
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
        self._callees: dict[str, Callee | None] = {}
        self._called = {name for text in texts for name in _CALLED.findall(text)}

    def callee(self, call: Call) -> Callee | None:
        """What a call of an imported function calls; None when that is not evident."""
        function = call.node.func
        if not isinstance(function, ast.Name) or call.scope.find(function.id) is not None:
            return None
        if function.id not in self._callees:
            self._callees[function.id] = self._find(function.id)
        return self._callees[function.id]

    def _find(self, name: str) -> Callee | None:
        origin = _find_origin(self._subject, name)
        if origin is None:
            return None
        is_upstreams = origin[0].partition(".")[0] == self._subject.upstream.name.partition(".")[0]
        is_looked_into = name in self._called if is_upstreams else self._subject.own_modules.is_own(origin[0])
        found = _find_function(self._subject, origin) if is_looked_into else None
        if found is None:
            return None
        module, node = found
        return Callee(f"'{node.name}'", module, signature_of(node, False), node, node.name)


def find_imported(subject: Subject, name: str) -> Function | None:
    """The function that a name of the top level is imported from; None where it is none, or its file is not here."""
    origin = _find_origin(subject, name)
    found = _find_function(subject, origin) if origin is not None else None
    return found[1] if found is not None else None


def _find_function(subject: Subject, origin: tuple[str, str]) -> tuple[Module, Function] | None:
    found = subject.library.find(*origin)
    return (found[0], found[1]) if found is not None and isinstance(found[1], FUNCTIONS) else None


def _find_origin(subject: Subject, name: str) -> tuple[str, str] | None:
    """The module that a name of the top level is imported from, and what it is called there; None for other names."""
    module = subject.generated
    if name not in module.index.imports or name in module.rebound:
        return None
    if name in module.index.definitions or name in module.index.assigned:
        return None
    package = subject.project.module_name(subject.artifact.path).rpartition(".")[0]
    return imported_from(module, name, package)

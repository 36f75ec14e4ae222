"""The functions that a target of upstream's calls, as its old and its new release have them."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass

from patchgen_core.syntax.forms import resolved
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, Function
from patchgen_core.upgrade.verdicts.module_view import ModuleView, TargetName, package_of


@dataclass(frozen=True)
class ReleaseFunction:
    """A function of a release, and the module that it stands in; a method is called on its object."""

    node: Function
    module: Module
    is_method: bool


class ReleaseFunctions:
    """Finds what a target calls in two releases."""

    def __init__(self, target: TargetName, old: ModuleView, new: ModuleView) -> None:
        self.target, self.old, self.new = target, old, new

    def find(self, call: ast.Call) -> ReleaseFunction | None:
        """What a call calls in the new release: a method of the target's class, a function of its module, or one that
        this imports from upstream's package. None for anything else."""
        name = self._own_name(call)
        if name is not None:
            node = _one_function(self.new, name)
            return ReleaseFunction(node, self.new.module, bool(name.method)) if node is not None else None
        if not isinstance(call.func, ast.Name):
            return None
        module, function = self.new.imported(self.new.module, call.func.id) or (None, None)
        return ReleaseFunction(function, module, False) if module and isinstance(function, FUNCTIONS) else None

    def find_kept(self, call: ast.Call) -> ReleaseFunction | None:
        """What a call of the old release calls, as the new one has it with the same parameters; the target's own
        module alone is searched."""
        name = self._own_name(call)
        before = _one_function(self.old, name) if name is not None else None
        after = _one_function(self.new, name) if name is not None else None
        if name is None or before is None or after is None or ast.dump(before.args) != ast.dump(after.args):
            return None
        return ReleaseFunction(after, self.new.module, bool(name.method))

    def dotted(self, call: ast.Call) -> str:
        """What reports name that a call calls; empty for what is not of the target's module."""
        name = self._own_name(call)
        return name.dotted if name is not None else ""

    def means_the_same(self, name: str, function: ReleaseFunction) -> bool:
        """Whether a name in a function of the new release means in the target's old module what it does there."""
        before, after = (_meaning(name, module) for module in (self.old.module, function.module))
        return bool(before) and before == after

    def _own_name(self, call: ast.Call) -> TargetName | None:
        func = call.func
        if isinstance(func, ast.Name):
            return TargetName(func.id) if self.new.definitions(func.id) else None
        if isinstance(func, ast.Attribute) and self.target.method and ast.unparse(func.value) == "self":
            return TargetName(self.target.name, func.attr)
        return None


def _one_function(view: ModuleView, name: TargetName) -> Function | None:
    target = view.find(name)
    nodes = target.nodes if target is not None and target.home is None else ()
    return nodes[0] if len(nodes) == 1 and isinstance(nodes[0], FUNCTIONS) else None


def _meaning(name: str, module: Module) -> str:
    """What a name of a module's top level stands for; empty where that is not evident."""
    if name not in module.index.names:
        return name if hasattr(builtins, name) else ""
    imports = module.index.imports.get(name, [])
    if len(imports) != 1 or name in module.index.definitions or name in module.index.assigned:
        return ""
    statement, alias = imports[0]
    if isinstance(statement, ast.ImportFrom):
        return f"{resolved(statement, package_of(module))}.{alias.name}"
    return alias.name if alias.asname else alias.name.partition(".")[0]

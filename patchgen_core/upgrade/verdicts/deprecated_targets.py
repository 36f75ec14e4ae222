"""Functions that upstream keeps for others alone: they warn that they are deprecated, and its own code uses them no
more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from patchgen_core.syntax.nodes import FUNCTIONS, Function, without_docstring
from patchgen_core.upgrade.verdicts.module_view import ModuleView, TargetName
from patchgen_core.upgrade.verdicts.replacements import PatchReplacement

_CATEGORIES = ("FutureWarning", "DeprecationWarning", "PendingDeprecationWarning")
_LOGGED = ("warning", "warning_once")
_REMOVAL = re.compile(r"removed in (?:version )?(v?[0-9][0-9.]*[0-9])")


def deprecation(name: TargetName, old: ModuleView, new: ModuleView) -> str:
    """What upstream says of a function that it deprecated in the new release, where nothing of the new module uses it;
    empty for any other.

    Then the config's own code alone calls what replaces it, and upstream's change of its body, which only hands on to
    what took its place, is none that the replacement lacks.
    """
    before, after = _function(name, old), _function(name, new)
    if before is None or after is None or ast.dump(before.args) != ast.dump(after.args):
        return ""
    warning = deprecation_warning(after)
    if warning is None or deprecation_warning(before) is not None or any(_uses(new.source.tree, after.name, after)):
        return ""
    release = find_removal(after)
    when = f", will remove it in {release}," if release else ""
    return f"upstream deprecates it{when} and uses it nowhere"


def find_removal(function: Function) -> str:
    """The release in which a function says that upstream will remove it; empty where it says none."""
    warning = deprecation_warning(function)
    removal = _REMOVAL.search(ast.unparse(warning)) if warning is not None else None
    return removal[1] if removal is not None else ""


def find_own_callers(name: TargetName, patches: Iterable[PatchReplacement]) -> list[str]:
    """The targets of the patches whose code uses a function."""
    word = name.method or name.name
    return [
        entry.target_name.dotted
        for entry in patches
        if entry.node is not None and entry.target_name != name and any(_uses(entry.node, word))
    ]


def _function(name: TargetName, view: ModuleView) -> Function | None:
    target = view.find(name)
    node = target.nodes[0] if target is not None and target.home is None and len(target.nodes) == 1 else None
    return node if isinstance(node, FUNCTIONS) else None


def deprecation_warning(function: Function) -> ast.Call | None:
    """The call by which a function, whatever it is given, first of all warns that it is deprecated."""
    first = next(iter(without_docstring(function)), None)
    call = first.value if isinstance(first, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if ast.unparse(call.func) == "warnings.warn":
        categories = (ast.unparse(node) for node in (*call.args[1:], *(k.value for k in call.keywords)))
        return call if any(category in _CATEGORIES for category in categories) else None
    is_logged = call.func.attr in _LOGGED and "deprecated" in " ".join(_texts(call))
    return call if is_logged else None


def _texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _uses(tree: ast.AST, name: str, function: Function | None = None) -> Iterator[ast.AST]:
    """Whatever in a tree may use a function, other than the function itself."""
    own = {id(node) for node in ast.walk(function)} if function is not None else set()
    for node in ast.walk(tree):
        if id(node) in own:
            continue
        named = (getattr(node, "attr", None), getattr(node, "id", None), getattr(node, "value", None))
        if isinstance(node, (ast.Attribute, ast.Name, ast.Constant)) and name in named:
            yield node

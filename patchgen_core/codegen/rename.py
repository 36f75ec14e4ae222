"""Renaming inside a replacement: by scope for the names it is known by, by word for ``name_map``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen_core.codegen.replacement import Replacement
from patchgen_core.errors import PatchgenError

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import Access, Scope

ORIGINAL_INIT = "_original_init"


def map_prefixes(text: str, name_map: Mapping[str, str]) -> str:
    """Rename class prefixes in every word of a source text: identifiers, strings and comments alike.

    A prefix counts where a word starts with it and goes on with a capital, an underscore or nothing:
    ``Qwen3`` is the prefix of ``Qwen3Model`` but neither of ``Qwen35Model`` nor of ``Qwen3_5Model``.
    A word is renamed once, and where the new prefix continues the old one, a word that has the new
    prefix already stays.
    """
    if not name_map:
        return text
    prefixes = "|".join(re.escape(old) for old in sorted(name_map, key=len, reverse=True))
    # A word may follow an escape sequence: in the source, "\nQwen3Model" has an "n" before it.
    pattern = re.compile(rf"(?:(?<!\w)|(?<=\\[abfnrtv]))({prefixes})(?![a-z0-9]|_\d)(\w*)")

    def rename(match: re.Match[str]) -> str:
        old, word = match[1], match[0]
        new = name_map[old]
        if new.startswith(old) and re.match(rf"{re.escape(new)}(?![a-z0-9])", word):
            return word
        return new + match[2]

    return pattern.sub(rename, text)


def rename_definition(replacement: Replacement, name: str) -> Replacement:
    """Give the definition itself another name."""
    text = re.sub(r"\A((?:async\s+)?def|class)(\s+)\w+", rf"\1\2{name}", replacement.text)
    return replace(replacement, text=text)


def rename_globals(replacement: Replacement, names: Mapping[str, str]) -> Replacement:
    """Rename every reference to a global name in the replacement's scope.

    A local variable, parameter or attribute of the same name stays. ``names`` maps to dotted names.
    """
    wanted = {old: new for old, new in names.items() if old in replacement.names and old != new}
    if not wanted:
        return replacement
    return _rewrite(replacement, lambda module: _global_accesses(module, wanted, replacement))


def wrap_init(replacement: Replacement, cls: str) -> Replacement:
    """Turn a ``modify_init`` function into an ``__init__``: its first parameter becomes upstream's method.

    Raises:
        PatchgenError: it has no such parameter, assigns it, or never uses it.
    """
    import libcst as cst

    module = _parse(replacement.text, replacement)
    function = module.body[0]
    positional = _positional(function)
    if len(positional) < 2 or positional[0].name.value == "self":
        raise PatchgenError(
            f"modify_init: '{replacement.name}' must take original_init and self first",
            replacement.location,
            "Write def f(original_init, self, ...): original_init(self, ...).",
        )
    parameter = positional[0].name.value
    if parameter not in replacement.names:
        raise PatchgenError(
            f"modify_init: '{replacement.name}' never calls '{parameter}', so upstream's __init__ would not run",
            replacement.location,
            "Call it, or override the method with override_method.",
        )
    bound = f"{cls}.{ORIGINAL_INIT}"
    renamed = _rewrite(replacement, lambda m: _parameter_accesses(m, parameter, bound, replacement))
    module = _parse(renamed.text, replacement)
    function = cst.ensure_type(module.body[0], cst.FunctionDef)
    params = function.params
    if len(params.posonly_params) > 1:
        params = params.with_changes(posonly_params=params.posonly_params[1:])
    elif params.posonly_params:
        params = params.with_changes(posonly_params=(), posonly_ind=cst.MaybeSentinel.DEFAULT)
    else:
        params = params.with_changes(params=params.params[1:])
    text = module.with_changes(body=[function.with_changes(params=params)]).code
    return renamed.with_text(text.rstrip("\n"))


def _positional(function: cst.CSTNode) -> list[cst.Param]:
    import libcst as cst

    if not isinstance(function, cst.FunctionDef):
        return []
    return [*function.params.posonly_params, *function.params.params]


def _parse(text: str, replacement: Replacement) -> cst.Module:
    import libcst as cst

    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        message = f"'{replacement.name}' has syntax that libcst cannot read: {error.message}"
        raise PatchgenError(message, replacement.location) from None


def _rewrite(replacement: Replacement, find: Callable[[cst.Module], dict[cst.CSTNode, str]]) -> Replacement:
    """Replace the nodes that ``find`` returns, in decorators and definition."""
    import libcst as cst

    head = "".join(f"{decorator}\n" for decorator in replacement.decorators)
    module = _parse(head + replacement.text, replacement)
    nodes = find(module)

    class Rewriter(cst.CSTTransformer):
        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
            new = nodes.get(original_node)
            return updated_node if new is None else cst.parse_expression(new)

        def leave_SimpleString(
            self, original_node: cst.SimpleString, updated_node: cst.SimpleString
        ) -> cst.SimpleString:
            new = nodes.get(original_node)
            return updated_node if new is None else updated_node.with_changes(value=new)

    lines = module.visit(Rewriter()).code.split("\n")
    decorators = []
    for decorator in replacement.decorators:
        count = decorator.count("\n") + 1
        decorators.append("\n".join(lines[:count]))
        lines = lines[count:]
    return replacement.with_text("\n".join(lines), tuple(decorators))


def _scopes(module: cst.Module) -> Iterator[Scope]:
    from libcst.metadata import MetadataWrapper, ScopeProvider

    scopes = MetadataWrapper(module, unsafe_skip_copy=True).resolve(ScopeProvider)
    return iter({id(scope): scope for scope in scopes.values() if scope is not None}.values())


def _global_accesses(module: cst.Module, names: Mapping[str, str], replacement: Replacement) -> dict[cst.CSTNode, str]:
    literals = _literal_strings(module)
    found: dict[cst.CSTNode, str] = {}
    for scope in _scopes(module):
        for access in scope.accesses:
            if access.node not in literals:
                visible = {old: new for old, new in names.items() if _is_global(old, scope)}
                before = set(found)
                _collect(access, visible, found)
                _refuse_capture(scope, [found[node] for node in found.keys() - before], replacement)
    return found


def _literal_strings(module: cst.Module) -> set[cst.CSTNode]:
    """The strings inside ``Literal[...]``, which are values and no annotations."""
    import libcst as cst
    import libcst.matchers as m

    is_literal = m.Subscript(value=m.Name("Literal") | m.Attribute(attr=m.Name("Literal")))
    found = (node for literal in m.findall(module, is_literal) for node in m.findall(literal, m.SimpleString()))
    return {node for node in found if isinstance(node, cst.CSTNode)}


def _refuse_capture(scope: Scope, new_names: list[str], replacement: Replacement) -> None:
    """A new name must not be caught by a local one."""
    for new in new_names:
        first = new.split(".")[0]
        if first.isidentifier() and not _is_global(first, scope):
            raise PatchgenError(
                f"'{replacement.name}' has a local name '{first}', which would hide '{new}' that it refers to",
                replacement.location,
                "Rename the local name.",
            )


def _is_global(name: str, scope: Scope) -> bool:
    """Whether no function or comprehension around a scope, nor the scope itself, binds a name."""
    from libcst.metadata import BuiltinScope, ClassScope, GlobalScope

    around = scope
    while not isinstance(around, (GlobalScope, BuiltinScope)):
        if around.assignments[name] and (around is scope or not isinstance(around, ClassScope)):
            return False
        around = around.parent
    return True


def _parameter_accesses(
    module: cst.Module, parameter: str, bound: str, replacement: Replacement
) -> dict[cst.CSTNode, str]:
    import libcst as cst

    found: dict[cst.CSTNode, str] = {}
    declared = _positional(next(node for node in module.body if isinstance(node, cst.FunctionDef)))[0]
    for scope in _scopes(module):
        for access in scope.accesses:
            owners = [getattr(referent, "node", None) for referent in access.referents]
            if declared in owners:
                if len(owners) > 1:
                    raise PatchgenError(
                        f"modify_init: '{replacement.name}' assigns its parameter '{parameter}'",
                        replacement.location,
                        "Use another name for the new value.",
                    )
                _collect(access, {parameter: bound}, found)
                _refuse_capture(scope, [bound], replacement)
    return found


def _collect(access: Access, names: Mapping[str, str], found: dict[cst.CSTNode, str]) -> None:
    """Add the node that names the accessed object, when its name is one of ``names``."""
    import libcst as cst

    node: cst.CSTNode = access.node
    if isinstance(node, cst.SimpleString):  # an annotation
        if names:
            words = "|".join(map(re.escape, sorted(names)))
            found[node] = re.sub(rf"(?<![\w.])({words})(?!\w)", lambda match: names[match[1]], node.value)
        return
    while isinstance(node, cst.Attribute):
        node = node.value
    if isinstance(node, cst.Name) and node.value in names:
        found[node] = names[node.value]

"""The fields of the model's configuration that a replacement reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from patchgen_core.syntax.forms import expression_text, is_same_code
from patchgen_core.syntax.index import assigned_names
from patchgen_core.syntax.nodes import DEFINITIONS, Function, last_name, methods, statements
from patchgen_core.syntax.signatures import read_parameters
from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.verdicts.module_view import ClassInModule, ModuleView
from patchgen_core.upgrade.verdicts.own_class import members_of, self_name
from patchgen_core.upgrade.verdicts.replacements import PatchReplacement

Chain = tuple[str, ...]
"""The attributes that are read of a configuration, one of another: ``("text_config", "vocab_size")``."""


@dataclass(frozen=True)
class Fields:
    """What a configuration class has, its bases included: all names that can be read, defaults where they are evident,
    and the classes of the configurations in it by field. It `is_whole` if all of its bases are known."""

    names: frozenset[str]
    defaults: Mapping[str, ast.expr]
    parts: Mapping[str, str]
    is_whole: bool
    home: ClassInModule = field(repr=False)


def config_field_findings(entry: PatchReplacement, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    """What became of the fields that a replacement reads."""
    seen: set[str] = set()
    for _, function in entry.functions:
        for chain, cls in _reads(function, entry, old, new):
            for finding in _chain_findings(chain, cls, old, new):
                if finding.about not in seen:
                    seen.add(finding.about)
                    yield finding


def _reads(
    function: Function, entry: PatchReplacement, old: ModuleView, new: ModuleView
) -> Iterator[tuple[Chain, str]]:
    """The chains that a function reads of configurations, each with the configuration's class."""
    configurations = _configurations(function, entry, old) or _configurations(function, entry, new)
    if not configurations:
        return
    inner: set[int] = set()
    for node in ast.walk(function):
        if not isinstance(node, ast.Attribute) or id(node) in inner or not isinstance(node.ctx, ast.Load):
            continue
        parts = dotted(node, inner)
        for length in (1, 2):
            key = ".".join(parts[:length])
            if key in configurations and len(parts) > length:
                chain, cls = configurations[key]
                yield (*chain, *parts[length:]), cls


def dotted(node: ast.expr, inner: set[int]) -> list[str]:
    """The parts of a dotted name, noting the nodes that it consists of; empty for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
        inner.add(id(node))
    return [node.id, *parts] if isinstance(node, ast.Name) else []


def _configurations(function: Function, entry: PatchReplacement, view: ModuleView) -> dict[str, tuple[Chain, str]]:
    """The expressions of a function that are configurations, each as a chain from one whose class is known."""
    results: dict[str, tuple[Chain, str]] = {}
    instance = self_name(function) if entry.cls else ""
    own = config_class(view, entry.cls) if entry.cls else ""
    if instance and own:
        results[f"{instance}.config"] = ((), own)
    for parameter in read_parameters(function):
        name = _annotated_config(parameter.node.annotation if parameter.node else None)
        if parameter.name == "config" and (name or own):
            results["config"] = ((), name or own)
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    stored = [node.id for node in names if isinstance(node.ctx, ast.Store)]
    results = {name: chain for name, chain in results.items() if name not in stored}
    for node in function.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if ast.unparse(node.value) in results and stored.count(name) == 1:
                results[name] = results[ast.unparse(node.value)]
    return results


def config_class(view: ModuleView, cls: str) -> str:
    """The class of ``self.config`` in a class of the module: what it or a base declares, or takes."""
    nodes = view.classes(cls)
    if len(nodes) != 1:
        return ""
    for home in (ClassInModule(view.module, nodes[0]), *view.inherited(cls)):
        if home.module is not view.module:
            return ""
        for statement in home.node.body:
            if isinstance(statement, ast.AnnAssign) and last_name(statement.target) == "config":
                return _annotated_config(statement.annotation)
        for function in methods(home.node, "__init__"):
            arguments = [a for a in function.args.args if a.arg == "config"]
            name = _annotated_config(arguments[0].annotation) if arguments else ""
            if name:
                return name
    return ""


def _annotated_config(annotation: ast.expr | None) -> str:
    """The class of a configuration that an annotation names; empty for the base of all, and for anything else."""
    node = annotation
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if node.value.isidentifier() and node.value.endswith("Config") else ""
    if isinstance(node, ast.BinOp):
        sides = [_annotated_config(side) for side in (node.left, node.right)]
        names = [name for name in sides if name]
        return names[0] if len(names) == 1 else ""
    name = last_name(node) if node is not None else ""
    return name if name.endswith("Config") and name not in ("PreTrainedConfig", "PretrainedConfig") else ""


# --- configuration classes ---------------------------------------------------------------------------


def fields_of(view: ModuleView, cls: str) -> Fields | None:
    """The fields of a configuration class that the module knows; None when it cannot be looked up."""
    home = view.class_named(view.module, cls)
    return _fields(view, home) if home is not None else None


@lru_cache(maxsize=512)
def _fields(view: ModuleView, home: ClassInModule) -> Fields:
    names: set[str] = set()
    defaults: dict[str, ast.expr] = {}
    parts: dict[str, str] = {}
    for cls in reversed((home, *view.bases(home))):
        names |= members_of(cls.node).names
        _add_declared(cls.node, names, defaults, parts)
        for function in methods(cls.node, "__init__"):
            positional = (p for p in read_parameters(function) if p.kind != "keyword")
            defaults |= {p.name: p.default for p in positional if p.default is not None}
        names |= _keys_set(cls.node)
    return Fields(frozenset(names), defaults, parts, not _unknown(view, home), home)


def _unknown(view: ModuleView, home: ClassInModule) -> set[str]:
    plain_bases = {"object", "PushToHubMixin", "RotaryEmbeddingConfigMixin", "Generic"}
    return {base for base in view.unknown_bases(home) if base.rpartition(".")[2] not in plain_bases}


def _add_declared(node: ast.ClassDef, names: set[str], defaults: dict[str, ast.expr], parts: dict[str, str]) -> None:
    """Note what a class body declares."""
    for statement in statements(node.body):
        if isinstance(statement, DEFINITIONS):
            continue
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
            if statement.value is not None:
                defaults[statement.target.id] = statement.value
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Dict) and "attribute_map" in assigned_names(statement):
            names.update(str(key.value) for key in value.keys if isinstance(key, ast.Constant))
        if isinstance(value, ast.Dict) and "sub_configs" in assigned_names(statement):
            pairs = zip(value.keys, value.values)
            parts |= {str(k.value): last_name(v) for k, v in pairs if isinstance(k, ast.Constant) and last_name(v)}


@lru_cache(maxsize=512)
def _keys_set(node: ast.ClassDef) -> set[str]:
    """The names that a class takes from its keywords, as in ``kwargs.pop("tie_word_embeddings")``."""
    calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)]
    taking = [call for call in calls if last_name(call.func) in ("setdefault", "pop") and call.args]
    first = [call.args[0] for call in taking]
    return {str(name.value) for name in first if isinstance(name, ast.Constant)}


# --- findings ----------------------------------------------------------------------------------------


def _chain_findings(chain: Chain, cls: str, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    """What became of the first field of a chain, or of what is read of the configuration in it."""
    before, after = fields_of(old, cls), fields_of(new, cls)
    while before is not None and after is not None and len(chain) > 1:
        part = before.parts.get(chain[0], "")
        inner = [fields.home.module.cls(part) for fields in (before, after)]
        if inner[0] is None or inner[1] is None or after.parts.get(chain[0]) != part:
            break
        before = _fields(old, ClassInModule(before.home.module, inner[0]))
        after = _fields(new, ClassInModule(after.home.module, inner[1]))
        chain, cls = chain[1:], part
    if before is not None and after is not None:
        yield from _field_findings(chain[0], cls, before, after)


def _field_findings(name: str, cls: str, before: Fields, after: Fields) -> Iterator[Finding]:
    about = f"{cls}.{name}"
    if name not in before.names:
        return
    if name not in after.names:
        if after.is_whole:
            yield Finding("gone", about, "field", "the configuration no longer has such a field", "must change")
        return
    old, new = before.defaults.get(name), after.defaults.get(name)
    if _is_literal(old) and _is_literal(new) and old is not None and new is not None and not is_same_code(old, new):
        detail = f"its default is {expression_text(new)} instead of {expression_text(old)}"
        yield Finding("changed", about, "field", detail, "review")


def _is_literal(node: ast.expr | None) -> bool:
    """Whether a default says what the field is: None often stands for what is worked out later."""
    try:
        return node is not None and ast.literal_eval(node) is not None
    except ValueError:
        return False

"""Finding what a package puts in the place of transformers' classes, methods and functions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, all_methods, last_name
from tools.monkey_patches.names import Defined, Names, Trees, Upstream
from tools.monkey_patches.versions import Guards

_PATCHING = re.compile(r"patch|convert|replace|hijack|override", re.IGNORECASE)
_CLASS_LIKE = re.compile(r"_?[A-Z]\w*[a-z]\w*")


@dataclass(frozen=True)
class Site:
    """A statement that patches something: its place, what it is about and what it brings.

    Attributes:
        module: the module of the package.
        group: the outermost function around it; what one function patches belongs together.
        scopes: the functions around it.
        target: the expression that is patched, such as ``LlamaAttention.forward``.
        value: the expression that takes its place.
    """

    module: str
    group: str
    scopes: tuple[ast.AST, ...]
    target: ast.expr
    value: ast.expr


@dataclass(frozen=True)
class MonkeyPatch:
    """A class, method or function of a modeling module that a package replaces.

    Attributes:
        module: upstream's modeling module.
        target: ``Class.method``, ``Class`` or ``function``.
        group: where it is applied; what is applied there belongs together.
        replacements: what takes its place; several where options decide.
    """

    module: str
    target: str
    group: str
    replacements: list[Defined]


@dataclass
class Reading:
    """What was read: the patches, and how many sites were left out for which reason."""

    patches: list[MonkeyPatch] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_patches(trees: Trees, upstream: Upstream, version: str) -> tuple[Reading, Names]:
    """The patches that a package makes with one version of transformers, and what its names mean then."""
    guards = Guards(trees, version)
    before = _references(trees)
    live = {module: guards.live(module) for module in list(trees)}
    uncalled = before - _references(live)
    names = Names(live)
    texts: dict[str, str] = {}
    reading = Reading()
    patches: dict[tuple[str, str, str], MonkeyPatch] = {}
    for site in (site for module in live for site in _sites(module, live[module])):
        if uncalled & {getattr(block, "name", "") for block in site.scopes}:
            reading.left_out.update(["not run with that version"])
            continue
        definitions = names.definitions(site.module, site.value, site.scopes)
        target = _target(site, names, upstream, live, texts)
        if target is None or not definitions:
            reason = _reason(site, target, bool(definitions))
            reading.left_out.update([reason] if reason else [])
            continue
        key = (f"{site.module}:{site.group}", *target)
        patch = patches.setdefault(key, MonkeyPatch(*target, key[0], []))
        known = [replacement.node for replacement in patch.replacements]
        patch.replacements.extend(d for d in definitions if d.node not in known)
    reading.patches = list(patches.values())
    return reading, names


def _references(trees: Trees) -> set[str]:
    """Every name that a package's modules read, attributes and imports included."""
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _target(
    site: Site, names: Names, upstream: Upstream, live: Trees, texts: dict[str, str]
) -> tuple[str, str] | None:
    """The modeling module and what of it a site patches; None where it is none of transformers' modeling code."""
    name = names.resolve(site.module, site.target, site.scopes)
    found = upstream.target(name)
    if found is None and name.startswith("?"):
        parts = ast.unparse(site.target).split(".")
        home = upstream.homes.get(parts[-2], "") if len(parts) > 1 else ""
        text = texts.setdefault(site.module, ast.unparse(live[site.module])) if home else ""
        found = (home, ".".join(parts[-2:])) if home and home.split(".")[2] in text else None
    if found is None:
        return None
    module, target = found
    owner, _, method = target.partition(".")
    definition = upstream.definition(module, owner)
    if definition is None or (method and not isinstance(definition, ast.ClassDef)) or "." in method:
        return None
    if name.startswith("?") and method not in [function.name for function in all_methods(definition)]:
        return None
    return module, target


def _reason(site: Site, target: tuple[str, str] | None, is_definition: bool) -> str:
    """Why a site is left out; empty for an assignment that is no patch at all."""
    if target is not None:
        return "no plain function" if not isinstance(site.value, ast.Constant) else ""
    owner = site.target.value if isinstance(site.target, ast.Attribute) else site.target
    is_class = bool(_CLASS_LIKE.fullmatch(last_name(owner)))
    return "of something else" if is_class and is_definition else ""


def _sites(module: str, tree: ast.Module) -> Iterator[Site]:
    """Every statement of a module that may patch something."""
    for node, around in _statements(tree, ()):
        group = ".".join(getattr(block, "name", "") for block in around[:2] if isinstance(block, DEFINITIONS))
        scopes = tuple(block for block in around if isinstance(block, FUNCTIONS))
        if isinstance(node, ast.Assign) and [type(t) for t in node.targets] == [ast.Attribute]:
            yield Site(module, group, scopes, node.targets[0], node.value)
        elif isinstance(node, ast.Call):
            parts = _called(node)
            if parts is not None:
                yield Site(module, group, scopes, *parts)


def _statements(block: ast.AST, around: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    for child in ast.iter_child_nodes(block):
        if isinstance(child, (ast.Assign, ast.Call)):
            yield child, around
        yield from _statements(child, (*around, child) if isinstance(child, DEFINITIONS) else around)


def _called(call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """What ``setattr(owner, "name", value)``, and helpers such as ``convert_forward(model, cls, value)``, patch."""
    name = last_name(call.func)
    arguments = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg)]
    texts = [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if name == "setattr" and len(call.args) == 3 and texts[:1]:
        return ast.Attribute(call.args[0], texts[0], ast.Store()), call.args[2]
    paths = [argument for argument in arguments if isinstance(argument, (ast.Name, ast.Attribute))]
    if not _PATCHING.search(name) or len(paths) < 2:
        return None
    owners = [path for path in paths if _CLASS_LIKE.fullmatch(last_name(path))]
    method = next((text for text in texts if text.isidentifier()), "forward")
    after = paths[paths.index(owners[0]) + 1 :] if owners else []
    return (ast.Attribute(owners[0], method, ast.Store()), after[0]) if after else None

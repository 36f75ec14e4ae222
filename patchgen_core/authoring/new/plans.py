"""Where fused experts stand in a model, and how the hub stores them: for the plan and the converter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen_core.authoring.new.auto_parts import AutoParts
from patchgen_core.authoring.new.expressions import calls
from patchgen_core.authoring.new.model_types import read_table
from patchgen_core.authoring.new.module import UpstreamSource, assignments
from patchgen_core.authoring.new.patches import LANGUAGE_HEADS
from patchgen_core.syntax.nodes import FUNCTIONS, last_name
from patchgen_core.syntax.source import SourceFile

_DEPTH = 8
_ALIASES, _BUILDER = "_MODEL_TO_CONVERSION_PATTERN", "_build_checkpoint_conversion_mapping"
CONVERSION_MODULE = "transformers.conversion_mapping"


@dataclass(frozen=True)
class ExpertPlan:
    """For each head that gets a plan the names of its experts' modules, with ``*`` for the number of a layer."""

    patterns: dict[str, tuple[str, ...]]

    @property
    def is_one(self) -> bool:
        """Whether all heads have the same names."""
        return len(set(self.patterns.values())) == 1


def find_plan(upstream: UpstreamSource, experts: list[str], auto_parts: AutoParts) -> ExpertPlan | None:
    """Where the patched classes of experts stand in a module's language models; None when its text does not tell."""
    heads: dict[str, tuple[str, ...]] = {}
    for name, cls in upstream.classes.items():
        if name.endswith(LANGUAGE_HEADS) and any(upstream.inits(cls)):
            paths = (path for expert_class in experts for path in _paths(upstream, cls, expert_class, auto_parts, ()))
            heads[name] = tuple(dict.fromkeys(paths))
    return ExpertPlan(heads) if heads and all(heads.values()) else None


def _paths(
    upstream: UpstreamSource, cls: ast.ClassDef, expert_class: str, auto_parts: AutoParts, seen: tuple[str, ...]
) -> Iterator[str]:
    """The dotted names of the modules of one class below another."""
    if len(seen) > _DEPTH or cls.name in seen:
        return
    for init in upstream.inits(cls):
        for name, value in assignments(init):
            many = isinstance(value, ast.Call) and last_name(value.func) == "ModuleList"
            segment = f"{name}.*" if many else name
            part = auto_parts.get((cls.name, name))
            for child in [part] if part else dict.fromkeys(_built(value)):
                if child == expert_class:
                    yield segment
                elif child in upstream.classes:
                    below = _paths(upstream, upstream.classes[child], expert_class, auto_parts, (*seen, cls.name))
                    yield from (f"{segment}.{path}" for path in below)


def _built(value: ast.expr) -> Iterator[str]:
    """The names of the classes that an expression makes an object of."""
    for call in calls(value):
        if isinstance(call.func, ast.Name):
            yield call.func.id
        elif last_name(call.func) in ("_from_config", "from_config") and isinstance(call.func, ast.Attribute):
            yield last_name(call.func.value)


# --- how the hub stores experts --------------------------------------------------------------------


@dataclass(frozen=True)
class ExpertLayout:
    """How the hub stores the experts of a model type, and what transformers does to load them.

    The name is "per_expert", "transposed" or "direct", and empty when the conversion is none of these.
    """

    name: str
    operations: tuple[str, ...] = ()


def find_expert_layout(upstream: UpstreamSource, conversions: SourceFile) -> ExpertLayout:
    """How experts are stored, by the text of transformers' conversion mapping."""
    entries = _entries(conversions.tree)
    tables = dict(table for node in conversions.tree.body for table in read_table(node))
    aliases = tables.get(_ALIASES, {})
    names = (upstream.model.name, *upstream.model.classes)
    for name in names:
        key = name if name in entries else aliases.get(name, ("",))[0]
        converters = list(_converters(entries, key, ()))
        if any("experts" in ast.unparse(converter) for converter in converters):
            return _classify(converters)
    return ExpertLayout("direct")


def _classify(converters: list[ast.Call]) -> ExpertLayout:
    functions = (call.func for converter in converters for call in calls(converter))
    names = (function.id for function in functions if isinstance(function, ast.Name))
    operations = tuple(dict.fromkeys(name for name in names if name != "WeightConverter"))
    if not all("experts" in ast.unparse(converter) for converter in converters):
        return ExpertLayout("", operations)  # there is more to convert than the experts
    if set(operations) <= {"MergeModulelist", "Concatenate"} and "MergeModulelist" in operations:
        return ExpertLayout("per_expert", operations)
    return ExpertLayout("transposed" if operations == ("Transpose",) else "", operations)


def _entries(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """The mapping's entries by name, from its literal and from what is assigned to it below."""
    builder = next((n for n in tree.body if isinstance(n, FUNCTIONS) and n.name == _BUILDER), None)
    entries: dict[str, list[ast.expr]] = {}
    for node in ast.walk(builder) if builder is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values):
                if isinstance(key, ast.Constant):
                    entries.setdefault(str(key.value), []).append(value)
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    entries.setdefault(str(target.slice.value), []).append(node.value)
    return entries


def _converters(entries: dict[str, list[ast.expr]], key: str, seen: tuple[str, ...]) -> Iterator[ast.Call]:
    """The converters of an entry, and of the entries that it is made from."""
    for value in entries.get(key, ()) if key not in seen else ():
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and last_name(node.func) == "WeightConverter":
                yield node
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                other = str(node.slice.value) if last_name(node.value) == "mapping" else ""
                yield from _converters(entries, other, (*seen, key))

"""Parts of a model that ``AutoModel`` makes of upstream's classes, where the module has patched ones of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.authoring.new.expressions import methods_of, own_attribute
from patchgen_core.authoring.new.function_text import FunctionText, mark
from patchgen_core.authoring.new.model_types import ModelTypes
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.patches import NewPatch
from patchgen_core.syntax.function_names import function_name
from patchgen_core.syntax.nodes import last_name

AutoParts = dict[tuple[str, str], str]
"""The class that stands for a part, by the class that makes it and the attribute that holds it."""

_BUILDERS = ("from_config", "_from_config")
_CHANGE = "the models of this module - AutoModel would make upstream's, in which nothing is patched"
_TABLES = ("sub_configs_defaults", "sub_configs")


def find_auto_parts(
    types: ModelTypes, upstream: UpstreamSource, patched: set[str]
) -> tuple[list[NewPatch], AutoParts]:
    """The parts that have to be made of the module's own classes for patches of what is ``patched`` to run."""
    patches, parts = [], AutoParts()
    for cls in upstream.classes.values():
        init = methods_of(cls).get("__init__")
        if init is None:
            continue
        classes = {s: name for s, name in _part_classes(types, upstream, cls) if upstream.leads_to(name) & patched}
        if not classes:
            continue
        text = FunctionText(upstream.source, init)
        for statement, name in classes.items():
            _replace(text, statement, name, classes)
            parts[cls.name, own_attribute(statement.targets[0])] = name
        target = f"{cls.name}.__init__"
        what = f"{' and '.join(dict.fromkeys(classes.values()))} of this module instead of upstream's"
        patches.append(NewPatch(target, what, (), (_CHANGE,), text.text(function_name(target))))
    return patches, parts


def _part_classes(types: ModelTypes, upstream: UpstreamSource, cls: ast.ClassDef) -> Iterator[tuple[ast.Assign, str]]:
    """The statements ``self.part = AutoModel.from_config(config.part_config)`` of a class, with the module's class."""
    parts = {key: value for name in upstream.configs_of(cls) for key, value in _parts(upstream, name)}
    for statement in methods_of(cls)["__init__"].body:
        if not isinstance(statement, ast.Assign) or not isinstance(call := statement.value, ast.Call):
            continue
        if not isinstance(call.func, ast.Attribute) or last_name(call.func.value) != "AutoModel":
            continue
        if call.func.attr not in _BUILDERS or len(call.args) != 1 or call.keywords:
            continue
        argument, one_line = call.args[0], statement.lineno == statement.end_lineno
        name = types.model_of(parts.get(last_name(argument), ""))
        if ast.unparse(argument) == f"config.{last_name(argument)}" and name in upstream.classes and one_line:
            yield statement, name


def _parts(upstream: UpstreamSource, auto_class: str) -> Iterator[tuple[str, str]]:
    """The configuration classes of the parts of a configuration, by the fields that hold them."""
    for node in (node for cls in upstream.config_classes if cls.name == auto_class for node in cls.body):
        if not isinstance(node, ast.Assign) or last_name(node.targets[0]) not in _TABLES:
            continue
        for key, value in zip(node.value.keys, node.value.values) if isinstance(node.value, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                yield str(key.value), value.id


def _replace(text: FunctionText, statement: ast.Assign, name: str, classes: dict[ast.Assign, str]) -> None:
    """Make a part of the module's class; neighbours are between one pair of markers."""
    line = statement.lineno
    lines = {other.lineno for other in classes}
    [old] = text.lines_of(line, line)
    call = statement.value
    assert isinstance(call, ast.Call)
    new = old[: call.func.col_offset] + f"{name}._from_config" + old[call.func.end_col_offset :]
    if line - 1 not in lines:
        text.before(line, [mark(1)])
    text.instead(line, line, [new])
    if line + 1 not in lines:
        text.after(line, [mark(1)], text.source.indent(line))

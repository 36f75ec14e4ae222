"""PG213: what a patched method takes is documented where transformers looks for it."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Replaced, Rule, Subject
from patchgen_core.syntax.classes import Class
from patchgen_core.syntax.forms import quoted
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import Definition, Function, decorator_name
from patchgen_core.syntax.signatures import is_static, signature_of

_DECORATOR = "auto_docstring"
_HOME = "transformers.utils.auto_docstring"
_TABLES = frozenset(["ModelArgs", "ModelForArgs", "ImageProcessorArgs", "VideoProcessorArgs"])
"""The classes beside the decorator whose attributes are the arguments that it describes by itself."""

_IGNORED = frozenset(["self", "args", "kwargs", "deprecated_arguments"])
_ENTRY = re.compile(r"^(\w+)\s*\(.*?\)\s*:", re.DOTALL | re.MULTILINE)
_END = ("Example", "Return", "```")
_UPSTREAM = """
from .docs import auto_docstring


class Model:
    @auto_docstring
    def forward(self, input_ids, pixel_values=None):
        r\"\"\"
        pixel_values (`torch.Tensor`, *optional*):
            The patches of all images, one after another.
        \"\"\"
        return input_ids
"""
_DOCS = """
class ModelArgs:
    input_ids = {"description": "Indices of tokens."}


def auto_docstring(function):
    return function
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look at every patched method that the decorator sees."""
    for replaced in subject.replaced:
        missing = _undocumented(subject.generated, subject.inference, replaced.dotted, replaced.node)
        if missing:
            missing -= _accepted(subject, replaced)
        if missing and (standard := _standard(subject)):
            names = [name for name in _parameters(replaced.node) if name in missing - standard]
            if names:
                yield _undocumented_finding(replaced, names)


def _undocumented_finding(replaced: Replaced, names: list[str]) -> Finding:
    message = f"'{replaced.dotted}' is under @{_DECORATOR} and does not document {quoted(names)}"
    entry = f"'{names[0]} (`type`, *optional*):', then its description"
    hint = f"Add an entry for each below 'Args:' in its docstring: {entry}."
    if replaced.patch.edits:
        hint = f"Pass documentation= to the add_parameter(...) of each; it starts with {entry}."
    return Finding(message, hint, replaced.node, replaced.dotted)


def _accepted(subject: Subject, replaced: Replaced) -> set[str]:
    """The parameters that upstream's version leaves to the tables, or undocumented, as well."""
    if replaced.upstream is None:
        return set()
    return _undocumented(subject.upstream, subject.upstream_inference, replaced.dotted, replaced.upstream)


def _undocumented(module: Module, inference: Inference, dotted: str, function: Function) -> set[str]:
    """The parameters that a method under the decorator does not describe itself."""
    decorator = _decorator(module, inference, dotted, function)
    more = _more_arguments(module, decorator) if decorator is not None else None
    if more is None:
        return set()
    return {*_parameters(function)} - _entries(ast.get_docstring(function, clean=False) or "") - _entries(more)


def _decorator(module: Module, inference: Inference, dotted: str, function: Function) -> ast.expr | None:
    """The decorator that reads a method's docstring: its own, or for a constructor that of its model class."""
    decorator = _own_decorator(function)
    name, _, method = dotted.partition(".")
    cls = module.cls(name)
    if decorator is not None or cls is None or method != "__init__" or not _is_model(inference, Class(module, cls)):
        return decorator if method else None
    return _own_decorator(cls)


def _own_decorator(node: Definition) -> ast.expr | None:
    return next((d for d in node.decorator_list if decorator_name(d) == _DECORATOR), None)


def _is_model(inference: Inference, cls: Class) -> bool:
    bases = (base for ancestor in inference.bases(cls) if ancestor is not None for base in ancestor.node.bases)
    return "GenericFor" in cls.name or any(ast.unparse(base).endswith("PreTrainedModel") for base in bases)


def _more_arguments(module: Module, decorator: ast.expr) -> str | None:
    """The text that the decorator is given as ``custom_args``; None when it is not evident."""
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    value: ast.expr | None = next((k.value for k in keywords if k.arg == "custom_args"), ast.Constant(""))
    if isinstance(value, ast.Name):
        assigned = module.index.assigned.get(value.id, [])
        value = assigned[0].value if len(assigned) == 1 and isinstance(assigned[0], ast.Assign) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _parameters(function: Function) -> list[str]:
    names = [parameter.name for parameter in signature_of(function, not is_static(function)).parameters]
    return [name for name in names if name not in _IGNORED and not name.startswith("_")]


def _entries(docstring: str) -> set[str]:
    """The parameters that a docstring describes, as the decorator reads it: up to the returns, below ``Args:``."""
    lines = inspect.cleandoc(docstring).split("\n")
    end = next((number for number, line in enumerate(lines) if line.lstrip().startswith(_END)), len(lines))
    text = "\n".join(lines[:end])
    before, heading, section = text.partition("Args:\n")
    return set(_ENTRY.findall(textwrap.dedent(section if heading else before)))


def _standard(subject: Subject) -> set[str]:
    """The arguments that the decorator describes by itself; empty when its module is not here."""
    imported = subject.generated.index.imports.get(_DECORATOR, [])
    home = imported[0][0] if imported else None
    name = home.module if isinstance(home, ast.ImportFrom) and home.module else _HOME
    definition = subject.library.find(name, _DECORATOR)
    if definition is None:
        return set()
    tables = (definition[0].cls(name) for name in _TABLES)
    assigned = (node for table in tables if table is not None for node in ast.walk(table))
    targets = (target for node in assigned if isinstance(node, ast.Assign) for target in node.targets)
    return {target.id for target in targets if isinstance(target, ast.Name)}


_PATCH = """
@config.override_method("Model.forward")
def forward(self, input_ids, pixel_values=None, vision_metadata=None):
    r\"\"\"
    pixel_values (`torch.Tensor`, *optional*):
        The patches of all images, one after another.
    \"\"\"
    return input_ids
"""

RULE = Rule(
    code="PG213",
    name="docstring",
    severity="warning",
    reason=(
        "`@auto_docstring` stays on an overridden method, and reads the new text's docstring while the module is "
        "imported. For every parameter that neither the docstring nor transformers' own tables of common arguments "
        "describe, it prints a line that begins with `[ERROR]` - once in every process of a training run, where it "
        "drowns out what matters. The rule ignores parameters that upstream's version leaves out as well."
    ),
    failing=Example(_PATCH, _UPSTREAM, files={"upstream/docs.py": _DOCS}),
    passing=Example(
        _PATCH.replace(
            "another.\n",
            "another.\n    vision_metadata (`dict`, *optional*):\n        Lengths of the images, from the collator.\n",
        ),
        _UPSTREAM,
        files={"upstream/docs.py": _DOCS},
    ),
    check=check,
)

"""Classes outside the package transformers are custom code to it, some of whose parameters it does not initialize.

``PreTrainedModel._initialize_weights`` skips modules of custom code that have no tensors of their own, which counts on
their children being initialized on their own. An ``_init_weights`` that gives values to the children of such a module
is not called for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.syntax.function_names import function_name
from patchgen_core.syntax.nodes import all_methods, called_name, last_name, own_method
from patchgen_core.syntax.source import SourceFile

BASE_MODULE = "transformers.modeling_utils"
INITIALIZE = "_initialize_weights"
DESCRIPTION = "Initial values are upstream's"
_TEXT = """
def {name}(self, module, is_custom_code=False):
    # transformers skips modules without tensors of their own in classes outside its package, but
    # {class_name}._init_weights gives values to the children of some.
    super()._initialize_weights(module)
"""
_TENSORS = {"Parameter", "Buffer", "register_parameter", "register_buffer"}
_WITHOUT_TENSORS = {"Module", "ModuleList", "Sequential", "GradientCheckpointingLayer", "PreTrainedModel"}


def initialize_text(class_name: str) -> str:
    """A function that, as the ``_initialize_weights`` of a class, initializes all that upstream's does."""
    return _TEXT.lstrip().format(name=function_name(f"{class_name}.{INITIALIZE}"), class_name=class_name)


def declare_initialize(class_name: str) -> str:
    """The statement of a config that gives a class that function."""
    call = f'@config.override_method("{class_name}.{INITIALIZE}", description="{DESCRIPTION}")'
    return f"{call}\n{initialize_text(class_name)}"


def find_incomplete_starts(source: SourceFile, base: SourceFile) -> list[str]:
    """The classes of an upstream module by whose ``_init_weights`` its copy starts with other values than it.

    Those are named whose method asks for a class of the module that has no tensors of its own. ``base`` is
    transformers' module of PreTrainedModel; before release 5.13 it tells no custom code apart.
    """
    if "def is_custom_code" not in base.text:
        return []
    classes = {name: nodes[-1] for name, nodes in source.index.classes.items()}
    wanted: list[str] = []
    for name, cls in classes.items():
        function = own_method(cls, "_init_weights")
        if function is None or any(ancestor.name in wanted for ancestor in _ancestry(cls, classes)):
            continue
        if any(not _has_tensors(classes[kind], classes) for kind in _kinds(function) if kind in classes):
            wanted.append(name)
    return wanted


def _kinds(function: ast.AST) -> Iterator[str]:
    """The classes that a function asks a module for."""
    for node in ast.walk(function):
        if called_name(node) == "isinstance" and isinstance(node, ast.Call) and len(node.args) == 2:
            kinds = node.args[1]
            yield from map(last_name, kinds.elts if isinstance(kinds, ast.Tuple) else [kinds])


def _ancestry(cls: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """A class and those of the module that it derives from."""
    yield cls
    for base in map(last_name, cls.bases):
        if base in classes and base != cls.name:
            yield from _ancestry(classes[base], classes)


def _has_tensors(cls: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether a module of a class has parameters or buffers of its own, as layers of torch have."""
    for owner in _ancestry(cls, classes):
        others = [base for base in map(last_name, owner.bases) if base not in classes]
        if any(base not in _WITHOUT_TENSORS for base in others):
            return True
        calls = (called_name(node) for function in all_methods(owner) for node in ast.walk(function))
        if not _TENSORS.isdisjoint(calls):
            return True
    return False

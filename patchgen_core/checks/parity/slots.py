"""The op slots of a generated module, as far as its text tells. Reads modules; imports none."""

from __future__ import annotations

import ast
import importlib.util
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.checks.contract.library import Library
from patchgen_core.errors import PatchgenError
from patchgen_core.ops.slot import OpSlot
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, called_name, own_method
from patchgen_core.syntax.source import parse_source

OWN = f"{OpSlot.__module__}:{OpSlot.__qualname__}"
"""Where the slots of this package are defined."""
_FIELDS = ("op_name", "variant")
_STANDARD = "standard"
_METHOD = "bind"
_BLOCKS = ("add_post_import_block", "add_helper")


@dataclass(frozen=True)
class SlotInText:
    """A slot that a module makes at its top level.

    ``homes`` are the ``package.module:Class`` of its class and of the bases of that.
    """

    homes: tuple[str, ...]
    op_name: str
    variant: str

    @property
    def is_own(self) -> bool:
        """Whether it is a slot of this package."""
        return OWN in self.homes


def read_slots(text: str, name: str, library: Library) -> tuple[SlotInText, ...]:
    """The slots of a module with this text and dotted name, each once.

    A slot is what a class makes that has a method ``bind``, its bases included, given an op and a variant as text. The
    class is followed through imports to where it is defined.
    """
    try:
        module = Module(parse_source(Path(), text), name)
    except PatchgenError:  # the checks of its drift and import say so
        return ()
    slots = (_read_slot(call, module, library) for call in _calls(module.tree))
    return tuple(dict.fromkeys(slot for slot in slots if slot is not None))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls that run when a module is imported."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _calls(child)


def _read_slot(call: ast.Call, module: Module, library: Library) -> SlotInText | None:
    arguments = dict(zip(_FIELDS, call.args)) | {k.arg: k.value for k in call.keywords if k.arg}
    texts = {field: value.value for field, value in arguments.items() if isinstance(value, ast.Constant)}
    op_name, variant = texts.get("op_name"), texts.get("variant", _STANDARD)
    if not isinstance(op_name, str) or not isinstance(variant, str):
        return None
    homes = _homes_of(call.func, module, library, frozenset())
    is_called_so = isinstance(call.func, ast.Name) and call.func.id == OpSlot.__name__
    if is_called_so and OpSlot.__name__ not in module.index.names:
        homes = (OWN,)  # a config adds a block to a module whose imports another config adds
    return SlotInText(homes, op_name, variant) if homes else None


def _homes_of(cls: ast.expr, module: Module, library: Library, seen: frozenset[str]) -> tuple[str, ...]:
    """Where a class of slots and its bases are defined; nothing for what is none."""
    dotted = ast.unparse(cls)
    if dotted in seen:
        return ()
    own = module.cls(dotted)
    places = [(module, own)] if own is not None else list(_definitions(dotted, module, library))
    for place, definition in places:
        home = f"{place.name}:{definition.name}"
        bases = [_homes_of(base, place, library, seen | {dotted}) for base in definition.bases]
        from_bases = tuple(base for homes in bases for base in homes)
        if home == OWN or from_bases or own_method(definition, _METHOD) is not None:
            return (home, *from_bases)
    return ()


def _definitions(dotted: str, module: Module, library: Library) -> Iterator[tuple[Module, ast.ClassDef]]:
    """The classes that a dotted name may be, through the imports of its module."""
    head, _, rest = dotted.partition(".")
    package = module.name.rpartition(".")[0] if module.source.path.name != "__init__.py" else module.name
    for statement, alias in module.index.imports.get(head, []):
        if isinstance(statement, ast.ImportFrom):
            try:
                base = importlib.util.resolve_name("." * statement.level + (statement.module or ""), package)
            except ImportError:  # more dots than packages
                continue
            parts = [base, alias.name, rest]
        else:
            parts = [alias.name if alias.asname else head, rest]
        origin, _, name = ".".join(filter(None, parts)).rpartition(".")
        definition = library.find(origin, name)
        if definition is not None and isinstance(definition[1], ast.ClassDef):
            yield definition[0], definition[1]


def text_of_blocks(config_text: str) -> str:
    """What a config says that its module imports and makes at the top, as far as its own text tells: its imports, and
    those and the blocks that it adds."""
    try:
        tree = ast.parse(config_text)
    except (SyntaxError, ValueError):  # the check of its drift says so
        return ""
    lines = [ast.unparse(statement) for statement in tree.body if isinstance(statement, (ast.Import, ast.ImportFrom))]
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        first = call.args[0] if call.args else None
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            continue
        if called_name(call) == "add_import":
            lines += _import_statements(first.value, call)
        elif called_name(call) in _BLOCKS:
            lines.append(textwrap.dedent(first.value))
    return "\n".join(lines)


def _import_statements(module: str, call: ast.Call) -> Iterator[str]:
    names = next((keyword.value for keyword in call.keywords if keyword.arg == "names"), None)
    if isinstance(names, (ast.List, ast.Tuple)):
        values = [name.value for name in names.elts if isinstance(name, ast.Constant)]
        yield from (f"from {module} import {value}" for value in values if isinstance(value, str))

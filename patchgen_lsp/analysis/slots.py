"""Op slots: those that a config makes, and the kernels that there are for one."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.checks.contract.kernels import Kernels
from patchgen_core.checks.contract.kernels import find_slots as find_module_slots
from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernels import DEFAULTS
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.source import SourceFile, parse_source
from patchgen_lsp.analysis.workbench import Workbench

SLOT = "OpSlot"
BLOCKS = {"add_post_import_block": 0, "add_block_after": 1}
"""The calls that take code in quotes for the generated module, with the argument that has it."""


@dataclass(frozen=True)
class DeclaredSlot:
    """A slot: what the generated module calls it, its op and its variant, and the line of the config from 1."""

    name: str
    op: str
    variant: str
    line: int


def find_slots(source: SourceFile) -> list[DeclaredSlot]:
    """The slots that the blocks of a config's text make."""
    return [slot for node in ast.walk(source.tree) if isinstance(node, ast.Call) for slot in _slots_of(node)]


def _slots_of(call: ast.Call) -> Iterator[DeclaredSlot]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name not in BLOCKS:
        return
    place = BLOCKS[name]
    for value in [*call.args[place : place + 1], *(k.value for k in call.keywords if k.arg == "code")]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from _slots_in(value)


def _slots_in(block: ast.Constant) -> Iterator[DeclaredSlot]:
    for slot in read_slots(str(block.value)):
        yield replace(slot, line=block.lineno + slot.line - 1)


def read_slots(code: str) -> list[DeclaredSlot]:
    """The slots of a piece of code such as ``slot = OpSlot("rms_norm", "standard")``; none of what is not Python."""
    try:
        module = Module(parse_source(Path(), f"{textwrap.dedent(code)}\n"))
    except PatchgenError:
        return []
    return [
        DeclaredSlot(_name_of(module, slot.call.node), slot.op, slot.variant, slot.call.node.lineno)
        for slot in find_module_slots(module)
    ]


def _name_of(module: Module, call: ast.Call) -> str:
    """What a module assigns a call to; empty for nothing."""
    assigned = module.index.assigned.items()
    return next((name for name, nodes in assigned if any(call in ast.walk(node) for node in nodes)), "")


def read_kernels(bench: Workbench) -> Kernels:
    """The kernels that the project's slots may be bound to; none where its settings name a module that is not there,
    as the diagnostics say."""
    try:
        return bench.contracts().kernels
    except PatchgenError:
        return Kernels()


def describe_slot(bench: Workbench, op: str, variant: str) -> str:
    """The kernels for a slot as Markdown: what each runs on and needs, and whether its packages are installed here."""
    kernels = read_kernels(bench)
    known = {(spec.op_name, spec.variant, spec.name): spec for spec in DEFAULTS}
    rows = []
    for name in kernels.names(op, variant):
        spec = known.get((op, variant, name))
        hardware = str(spec.hardware) if spec is not None and spec.hardware is not None else "any device"
        needs = ", ".join(spec.packages) if spec is not None else ""
        missing = spec.missing_package() if spec is not None else ""
        state = f"needs {missing}" if missing else "installed" if spec is not None else "registered by the project"
        text = spec.description if spec is not None else ""
        place = hardware if spec is not None else "see its KernelSpec"
        rows.append(f"| `{name}` | {place} | {needs} | {state} | {text} |")
    if not rows:
        has = ", ".join(f"`{each}`" for each in kernels.variants(op))
        more = f"; there are: {has}" if has else ""
        return f"no kernel is registered for `{op}` in the variant `{variant}`{more}"
    columns = "| implementation | runs on | packages | here | |"
    return "\n".join([f"**{op}**, variant `{variant}`", "", columns, "|---|---|---|---|---|", *rows])

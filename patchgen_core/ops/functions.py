"""Which functions read op slots, and copies of functions that read others."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernel_slot import KernelSlot

Namespace = dict[str, Any]
_GLOBAL_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})


def reachable_code(value: Any) -> Iterator[FunctionType | KernelSlot]:
    """The functions and slots that a call of ``value`` may use without naming a global.

    Functions, methods and descriptors, what they close over, wrap and have as defaults; the entries of containers; the
    attributes of other objects that can be called. Not what classes, modules and layers hold.
    """
    seen: dict[int, Any] = {}
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            if isinstance(value, (FunctionType, KernelSlot)):
                yield value
            waiting.extend(_parts(value))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, FunctionType):
        held = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *vars(value).values())
        return (*map(cell_content, value.__closure__ or ()), *held)
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return (value.__func__,)
    if isinstance(value, property):
        return (value.fget, value.fset, value.fdel)
    if isinstance(value, (functools.partial, functools.partialmethod)):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, functools.cached_property):
        return (value.func,)
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(value)
    if isinstance(value, dict):
        return tuple(dict.values(value))  # not those of a subclass, which may import what they stand for
    if isinstance(value, Mapping):
        return tuple(value.values())
    if isinstance(value, (type, ModuleType, KernelSlot)) or is_layer(value):
        return ()
    can_run = callable(value) or hasattr(type(value), "__get__")
    return tuple(getattr(value, "__dict__", {}).values()) if can_run else ()


def is_layer(value: Any) -> bool:
    """Whether it is a ``torch.nn.Module``."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def cell_content(cell: CellType) -> Any:
    """What is in a cell of a closure; None when nothing is yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def readers(namespace: Namespace, slots: Mapping[str, KernelSlot] | None = None) -> frozenset[str]:
    """The names of a module's slots (by default all in the namespace), and of what runs code of it that reads them."""
    if slots is None:
        slots = {name: value for name, value in list(namespace.items()) if isinstance(value, KernelSlot)}
    if not slots:
        return frozenset()
    names, ids = set(slots), set(map(id, slots.values()))
    reads: dict[str, frozenset[str]] = {}
    for name, value in list(namespace.items()):
        if name == "__builtins__" or isinstance(value, (type, KernelSlot)):
            continue
        parts = list(reachable_code(value))
        if any(id(part) in ids for part in parts):
            names.add(name)
        mine = [f for f in parts if isinstance(f, FunctionType) and f.__globals__ is namespace]
        reads[name] = frozenset().union(*(read_globals(f.__code__) for f in mine))
    while True:
        more = {name for name, read in reads.items() if name not in names and not names.isdisjoint(read)}
        if not more:
            return frozenset(names)
        names |= more


def reads_slots(function: FunctionType) -> bool:
    """Whether the code of a function reads a slot of its module, or names what reads one."""
    names = readers(function.__globals__)
    return bool(names) and not names.isdisjoint(read_globals(function.__code__))


def find_foreign_reader(function: FunctionType) -> str:
    """The name of a function of another module that ``function`` names and that reads slots there; empty for none."""
    for name in sorted(names_in(function.__code__)):
        other = function.__globals__.get(name)
        if isinstance(other, FunctionType) and other.__globals__ is not function.__globals__ and reads_slots(other):
            return name
    return ""


@functools.cache
def names_in(code: CodeType) -> frozenset[str]:
    """The names of globals and attributes in a code object and those nested in it; quicker than what tells them."""
    return frozenset(name for part in _codes(code) for name in part.co_names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.cache
def read_globals(code: CodeType) -> frozenset[str]:
    """The global names that a code object or one nested in it reads."""
    return frozenset().union(*map(_own_reads, _codes(code)))


def _own_reads(code: CodeType) -> set[str]:
    return {step.argval for step in dis.get_instructions(code) if step.opname in _GLOBAL_READS}


@functools.cache
def attributes_of_globals(code: CodeType) -> tuple[tuple[str, str], ...]:
    """Pairs of a global name and an attribute that is looked up on it, or that may be on another name for it."""
    return tuple(pair for part in _codes(code) for pair in _own_attributes(part))


def _own_attributes(code: CodeType) -> Iterator[tuple[str, str]]:
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "PUSH_NULL")]
    looked_up = [step.argval for step in steps if _looks_up(step)]
    for step, after in itertools.pairwise(steps):
        if step.opname in _GLOBAL_READS and _looks_up(after):
            yield step.argval, after.argval
        elif step.opname in _GLOBAL_READS and after.opname.startswith("STORE_"):
            yield from ((step.argval, attribute) for attribute in looked_up)


def _looks_up(step: dis.Instruction) -> bool:
    return step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD"))


def rename_globals(code: CodeType, names: Mapping[str, str]) -> CodeType:
    """A code object, with what is nested in it, that reads other globals: the new names by the old ones.

    A name that is an attribute's as well, and so shares its place in the code, is a PatchgenError.
    """
    read = names.keys() & _own_reads(code)
    for step in dis.get_instructions(code):
        if step.opcode in dis.hasname and step.opname not in _GLOBAL_READS and step.argval in read:
            raise PatchgenError(
                f"{code.co_name} reads the slot or function '{step.argval}' and an attribute of the same name",
                None,
                "Give the slot another name in the patch config, and generate again.",
            )
    return code.replace(
        co_names=tuple(names[name] if name in read else name for name in code.co_names),
        co_consts=tuple(rename_globals(c, names) if isinstance(c, CodeType) else c for c in code.co_consts),
    )

"""The implementations that a generated module's slots offer, and binding one of them for a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernel_spec import EAGER, Kernel
from patchgen_core.ops.registry import KERNEL_REGISTRY
from patchgen_core.ops.slot import OpSlot

PATCHED = "patched"
"""The implementation of a module without slots."""
THROUGH_SLOTS = "eager_through_slots"
"""The implementation that runs the lines for kernels with the eager function of each op, also where a slot has no
kernel that runs here."""

_SLOT = re.compile(r"""\bOpSlot\(\s*(?:op_name\s*=\s*)?["'](\w+)["']\s*(?:,\s*(?:variant\s*=\s*)?["'](\w+)["'])?""")


def list_implementations(text: str, kernels: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    """The implementations of a module, as far as its text (or the config's) tells, before a run begins.

    ``kernels`` are the op, variant and name of those that can be had. The result is "eager", "eager_through_slots"
    where an op has an eager function, and the names of the kernels for its slots; "patched" for a text without slots.
    """
    slots = {(op, variant or "standard") for op, variant in _SLOT.findall(text)}
    if not slots:
        return (PATCHED,)
    names = {name for op, variant, name in kernels if (op, variant) in slots}
    through = (THROUGH_SLOTS,) if EAGER in names else ()
    return (EAGER, *through, *sorted(names - {EAGER}))


def slots_in(module: ModuleType) -> dict[str, OpSlot]:
    """The slots of a module by name; those that stand in a table by the table's name and key."""
    slots: dict[str, OpSlot] = {}
    for name, value in vars(module).items():
        if isinstance(value, OpSlot):
            slots[name] = value
        elif isinstance(value, Mapping):
            slots.update({f"{name}[{key!r}]": one for key, one in value.items() if isinstance(one, OpSlot)})
    return slots


@contextmanager
def bind_implementation(module: ModuleType, implementation: str) -> Iterator[dict[str, int]]:
    """Bind the slots of a module that an implementation has kernels for, and no others; unbind all in the end.

    Yields how often each slot that is bound was called, which counts while the models run. A kernel that cannot run
    here is a PatchgenError.
    """
    slots = slots_in(module)
    calls: dict[str, int] = {}
    try:
        for name, slot in slots.items():
            slot.unbind()
            if kernel := _kernel_for(slot, implementation):
                calls[name] = 0
                slot.set(implementation, _counting(kernel, name, calls))
        yield calls
    finally:
        for slot in slots.values():
            slot.unbind()


def _kernel_for(slot: OpSlot, implementation: str) -> Kernel | None:
    """What to bind to a slot; None to leave it unbound."""
    wanted = EAGER if implementation == THROUGH_SLOTS else implementation
    known = {spec.name for spec in KERNEL_REGISTRY.specs(slot.op_name, slot.variant)}
    if implementation in (EAGER, PATCHED) or wanted not in known:
        return None
    return KERNEL_REGISTRY.resolve(slot.op_name, wanted, slot.variant)


def _counting(kernel: Kernel, name: str, calls: dict[str, int]) -> Any:
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        return kernel(*args, **kwargs)

    return counted


def why_not_here(module: ModuleType, implementation: str) -> str:
    """Why an implementation cannot be compared on this machine; empty when it can. No slot is a PatchgenError."""
    if implementation in (EAGER, PATCHED, THROUGH_SLOTS):
        return ""
    slots = slots_in(module).values()
    specs = [spec for slot in slots for spec in KERNEL_REGISTRY.specs(slot.op_name, slot.variant)]
    reasons = [spec.why_not_here() for spec in specs if spec.name == implementation]
    if not reasons:
        raise PatchgenError(f"no slot of {module.__name__} has a kernel '{implementation}'")
    return next(filter(None, reasons), "")

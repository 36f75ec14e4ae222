"""The implementations that a generated module's slots offer, and binding one of them for a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.models.model_setup import PATCHED, THROUGH_SLOTS, ModelSetup, SlotClass
from patchgen_core.ops.kernel_spec import EAGER, Kernel
from patchgen_core.ops.registry import KERNEL_REGISTRY
from patchgen_core.ops.slot import OpSlot

_GIVES_KERNEL = "bound_kernel"


@dataclass
class BoundSlots:
    """What is bound in a module for a comparison.

    Attributes:
        calls: how often each slot that is bound was called, which counts while models run.
        names: what else is bound, whose calls nobody counts.
        refusal: why what is asked for cannot run here; empty when it can.
    """

    calls: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    refusal: str = ""


def list_implementations(
    slots: Iterable[tuple[str, str]], kernels: Sequence[tuple[str, str, str]], more: Iterable[str] | None = None
) -> tuple[str, ...]:
    """The implementations of a module, before a run begins, by the op and variant of its slots.

    ``kernels`` are the op, variant and name of those that can be had, ``more`` the names for slots of the project's
    own class; None when there are no such slots. The result is "eager", "eager_through_slots" where an op has an eager
    function, and the names of the kernels; "patched" for a module without slots.
    """
    pairs = set(slots)
    if not pairs and more is None:
        return (PATCHED,)
    names = {name for op, variant, name in kernels if (op, variant) in pairs}
    through = (THROUGH_SLOTS,) if EAGER in names else ()
    return (EAGER, *through, *sorted({*names, *(more or ())} - {EAGER}))


def slots_in(module: ModuleType, classes: tuple[type, ...] = (OpSlot,)) -> dict[str, Any]:
    """The slots of a module by their first name; those that stand in a table by the table's name and key."""
    slots: dict[int, tuple[str, Any]] = {}
    for name, value in vars(module).items():
        rows = [(f"{name}[{key!r}]", one) for key, one in value.items()] if isinstance(value, Mapping) else []
        for slot_name, one in [(name, value), *rows]:
            if isinstance(one, classes):
                slots.setdefault(id(one), (slot_name, one))
    return dict(slots.values())


@contextmanager
def bind_implementation(
    module: ModuleType, implementation: str, setup: ModelSetup | None = None
) -> Iterator[BoundSlots]:
    """Bind the slots of a module that an implementation has kernels for, and no others; as before in the end.

    Slots of the classes that the project's set-up adds are bound as it says, to "eager" where the implementation has
    none for them. A kernel of this package that cannot run here is a PatchgenError.
    """
    bound = BoundSlots()
    setup = setup or ModelSetup()
    with ExitStack() as stack:
        if bind := setup.implementations.get(implementation):
            bound.names += stack.enter_context(bind(module)) or ()
        else:
            stack.enter_context(_own_slots_bound(module, implementation, bound))
            stack.enter_context(_project_slots_bound(module, implementation, setup, bound))
        yield bound


@contextmanager
def _own_slots_bound(module: ModuleType, implementation: str, bound: BoundSlots) -> Iterator[None]:
    slots: dict[str, OpSlot] = slots_in(module)
    try:
        for name, slot in slots.items():
            slot.unbind()
            if kernel := _kernel_for(slot, implementation):
                bound.calls[name] = 0
                slot.set(implementation, _counting(kernel, name, bound.calls))
        yield
    finally:
        for slot in slots.values():
            slot.unbind()


def _kernel_for(slot: OpSlot, implementation: str) -> Kernel | None:
    """What to bind to a slot; None to leave it unbound."""
    kernel = EAGER if implementation == THROUGH_SLOTS else implementation
    kernels = {spec.name for spec in KERNEL_REGISTRY.specs(slot.op_name, slot.variant)}
    if implementation in (EAGER, PATCHED) or kernel not in kernels:
        return None
    return KERNEL_REGISTRY.resolve(slot.op_name, kernel, slot.variant)


def runs_through_slots(module: ModuleType, implementation: str, setup: ModelSetup) -> bool:
    """Whether ``THROUGH_SLOTS`` runs all that an implementation does, with eager functions in place of its kernels."""
    if slots_in(module, tuple(slot_class.cls for slot_class in setup.slot_classes)):
        return False
    ops = [KERNEL_REGISTRY.specs(slot.op_name, slot.variant) for slot in slots_in(module).values()]
    names = [{spec.name for spec in specs} for specs in ops]
    own = [others for others in names if implementation in others - {EAGER}]
    return bool(own) and all(EAGER in others for others in own)


def _counting(kernel: Kernel, name: str, calls: dict[str, int]) -> Any:
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        return kernel(*args, **kwargs)

    return counted


# --- slots of the project's own classes ------------------------------------------------------------


@contextmanager
def _project_slots_bound(
    module: ModuleType, implementation: str, setup: ModelSetup, bound: BoundSlots
) -> Iterator[None]:
    slots = slots_in(module, tuple(slot_class.cls for slot_class in setup.slot_classes))
    before = [(slot, dict(getattr(slot, "__dict__", {}))) for slot in slots.values()]
    counted: dict[int, str] = {}
    try:
        for name, slot in slots.items():
            slot_class = setup.slot_class_of(slot)
            if slot_class is None or not _bind(slot, name, slot_class, implementation, bound):
                continue
            bound.calls[name] = 0
            counted[id(slot)] = name
        with ExitStack() as stack:
            for cls in dict.fromkeys(type(slot) for slot in slots.values()):
                stack.enter_context(_calls_counted(cls, counted, bound.calls))
            yield
    finally:
        for slot, state in before:
            if hasattr(slot, "__dict__"):
                vars(slot).clear()
                vars(slot).update(state)
            else:
                slot.bind(EAGER)


def _bind(slot: Any, name: str, slot_class: SlotClass, implementation: str, bound: BoundSlots) -> bool:
    """Whether a slot is bound to more than upstream's lines."""
    names = slot_class.names(slot.op_name, slot.variant)
    choice = implementation if implementation in set(names) - {PATCHED, THROUGH_SLOTS} else EAGER
    try:
        slot.bind(choice)
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        bound.refusal = bound.refusal or f"cannot be bound to '{name}' here: {reason}"
        return False
    return choice != EAGER


@contextmanager
def _calls_counted(cls: type, counted: Mapping[int, str], calls: dict[str, int]) -> Iterator[None]:
    """Count the calls of a class's slots, and of the kernels that they give."""
    before = {name: vars(cls).get(name) for name in ("__call__", _GIVES_KERNEL)}
    calling, giving = (_find_in_class(cls, name) for name in before)

    def call(slot: Any, *args: Any, **kwargs: Any) -> Any:
        if id(slot) in counted:
            calls[counted[id(slot)]] += 1
        return calling(slot, *args, **kwargs)

    def give(slot: Any) -> Any:
        kernel = getattr(giving, "fget", giving)(slot)
        is_bound = id(slot) in counted and kernel is not None
        return _counting(kernel, counted[id(slot)], calls) if is_bound else kernel

    changed: dict[str, Any] = {"__call__": call} if calling is not None else {}
    if giving is not None:
        changed[_GIVES_KERNEL] = property(give) if isinstance(giving, property) else give
    try:
        for name, value in changed.items():
            setattr(cls, name, value)
        yield
    finally:
        for name in changed:
            if before[name] is not None:
                setattr(cls, name, before[name])
            else:
                delattr(cls, name)


def _find_in_class(cls: type, name: str) -> Any:
    """What a class or a base of it has under a name, as it is there; None for nothing."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def why_not_here(module: ModuleType, implementation: str, setup: ModelSetup | None = None) -> str:
    """Why an implementation cannot be compared on this machine; empty when it can. No slot is a PatchgenError."""
    setup = setup or ModelSetup()
    if implementation in (EAGER, PATCHED, THROUGH_SLOTS, *setup.implementations):
        return ""
    slots = slots_in(module).values()
    specs = [spec for slot in slots for spec in KERNEL_REGISTRY.specs(slot.op_name, slot.variant)]
    reasons = [spec.why_not_here() for spec in specs if spec.name == implementation]
    if not reasons and not slots_in(module, tuple(slot_class.cls for slot_class in setup.slot_classes)):
        raise PatchgenError(f"no slot of {module.__name__} has a kernel '{implementation}'")
    return next(filter(None, reasons), "")

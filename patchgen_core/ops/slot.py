"""The place in generated code where a kernel may take over from upstream's lines."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from patchgen_core.ops.kernel_slot import KernelSlot, choose_kernel, find_kernel
from patchgen_core.ops.variants import follows_module, key_of


class OpSlot(KernelSlot):
    """A name in a generated module that a kernel can be bound to.

    Generated code asks :attr:`has_kernel` and runs upstream's own lines when it is false::

        slot_rms_norm = OpSlot("rms_norm")

        def forward(self, hidden_states):
            if slot_rms_norm.has_kernel:
                return slot_rms_norm(hidden_states, self.weight, self.variance_epsilon)
            ...

    A slot is bound by :func:`~patchgen_core.ops.bind_ops`, for a module or for one model.
    """

    def bind(self, implementation: str) -> None:
        """Bind a kernel for every model of the modules that hold the slot, but for models with bindings of their own.

        Rebinding to something else warns and names these models. "eager" always can be bound; "fused" binds the best
        kernel that can run here, whose name :attr:`implementation` then has.

        Raises:
            PatchgenError: there is no such kernel for the slot, or it cannot run here; nothing has changed.
        """
        implementation = choose_kernel(self, implementation)
        kernel = find_kernel(self, implementation)
        before = self.implementation
        self.set(implementation, kernel)
        if before not in (None, implementation):
            warnings.warn(describe_rebinding([(self, before)]), RuntimeWarning, stacklevel=2)

    def __reduce__(self) -> tuple[Callable[..., OpSlot], tuple[str, str, str | None]]:
        return _remake, (self.op_name, self.variant, self.implementation)


def describe_rebinding(slots: Sequence[tuple[KernelSlot, str | None]]) -> str:
    """The warning about slots that were bound to something else before."""
    changes = "; ".join(f"{slot.op_name}/{slot.variant}: {before} -> {slot.implementation}" for slot, before in slots)
    modules = sorted({name for slot, _ in slots for name in _holders(slot)})
    models = _models_of(modules)
    shared = f"shared by {', '.join(models)}" if models else "no model has been made of them yet"
    where = f" of {', '.join(modules)}" if modules else ""
    return f"slots{where} are bound anew ({changes}), {shared}. bind_ops(model, ...) gives one model its own bindings."


def _remake(op_name: str, variant: str, implementation: str | None) -> OpSlot:
    slot = OpSlot(op_name, variant)
    if implementation is not None:
        slot.bind(implementation)
    return slot


def _holders(slot: KernelSlot) -> list[str]:
    """The modules that have the slot in their namespace."""
    return [
        name
        for name, module in list(sys.modules.items())
        if any(value is slot for value in list(getattr(module, "__dict__", {}).values()))
    ]


def _models_of(modules: list[str]) -> list[str]:
    """The models in memory whose classes are of these modules and follow their slots, outermost ones only."""
    import gc

    torch = sys.modules.get("torch")
    if torch is None:
        return []
    layers: dict[int, Any] = {}
    for entry in gc.get_objects():
        kind = type(entry)
        if issubclass(kind, torch.nn.Module) and any(cls.__module__ in modules for cls in kind.__mro__):
            layers[id(entry)] = entry
    built = {key: entry for key, entry in layers.items() if "_modules" in vars(entry)}  # not one whose __init__ failed
    inner = {id(child) for entry in built.values() for child in entry.modules() if child is not entry}
    outer = [entry for key, entry in built.items() if key not in inner and _follows(entry)]
    names = sorted(type(entry).__name__ for entry in outer)
    return [f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]


def _follows(model: Any) -> bool:
    """Whether some part of a model reads its module's slots, rather than slots of the model's own."""
    classes = {type(part) for part in model.modules()}
    return all(key_of(cls) is None for cls in classes) or any(map(follows_module, classes))

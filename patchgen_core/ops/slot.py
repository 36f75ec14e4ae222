"""The place in generated code where a kernel may take over from upstream's lines."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.registry import EAGER, KERNEL_REGISTRY, Kernel


class OpSlot:
    """A name in a generated module that a kernel can be bound to.

    Generated code asks :attr:`has_kernel` and runs upstream's own lines when it is false::

        slot_rms_norm = OpSlot("rms_norm")

        def forward(self, hidden_states):
            if slot_rms_norm.has_kernel:
                return slot_rms_norm(hidden_states, self.weight, self.variance_epsilon)
            ...

    A slot is bound by :func:`~patchgen_core.ops.bind_ops`, for a module or for one model.

    Args:
        op_name: the op, such as "rms_norm".
        variant: the formula or calling convention that the generated code needs.

    Attributes:
        implementation: the name that the slot is bound to; None before.
        has_kernel: whether it is bound to something other than eager.
    """

    def __init__(self, op_name: str, variant: str = "standard") -> None:
        for given in (op_name, variant):
            if not isinstance(given, str) or not given:
                raise PatchgenError(f"OpSlot: op and variant are names, not {given!r}")
        self.op_name, self.variant = op_name, variant
        self.implementation: str | None = None
        self.has_kernel = False
        self._kernel: Kernel | None = None

    @property
    def use_non_eager_impl(self) -> bool:
        """The same as :attr:`has_kernel`."""
        return self.has_kernel

    @property
    def use_eager_impl(self) -> bool:
        """Whether upstream's lines run: the slot is bound to eager, or not at all."""
        return not self.has_kernel

    @property
    def is_bound(self) -> bool:
        """Whether something was bound, be it eager."""
        return self.implementation is not None

    @property
    def bound_kernel(self) -> Kernel | None:
        """The kernel that a call runs; None where the slot is not bound, or to an eager that is upstream's lines."""
        return self._kernel

    def bind(self, implementation: str) -> None:
        """Bind a kernel for every model of the modules that hold the slot, but for models with bindings of their own.

        Rebinding to something else warns and names these models.

        Args:
            implementation: name of a registered kernel; "eager" always can be bound.

        Raises:
            PatchgenError: there is no such kernel for the slot, or it cannot run here; nothing has changed.
        """
        kernel = find_kernel(self, implementation)
        before = self.implementation
        self.set(implementation, kernel)
        if before not in (None, implementation):
            warnings.warn(rebound([(self, before)]), RuntimeWarning, stacklevel=2)

    def set(self, implementation: str, kernel: Kernel | None) -> None:
        """Bind a kernel that :func:`find_kernel` returned."""
        self.implementation, self._kernel = implementation, kernel
        self.has_kernel = implementation != EAGER

    def unbind(self) -> None:
        """Bind nothing any more: upstream's lines run, as before the first binding."""
        self.implementation, self._kernel, self.has_kernel = None, None, False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the bound kernel; its arguments are those of the op's variant."""
        if self._kernel is None:
            raise RuntimeError(
                f"slot {self.op_name}/{self.variant} has no kernel: ask its has_kernel before, or bind one with "
                "patchgen_core.ops.bind_ops"
            )
        return self._kernel(*args, **kwargs)

    def __repr__(self) -> str:
        return f"OpSlot({self.op_name!r}, {self.variant!r}, {self.implementation or 'not bound'})"

    def __reduce__(self) -> tuple[Callable[..., OpSlot], tuple[str, str, str | None]]:
        return _remake, (self.op_name, self.variant, self.implementation)


def find_kernel(slot: OpSlot, implementation: str) -> Kernel | None:
    """The kernel that binding ``implementation`` to ``slot`` would run.

    Raises:
        PatchgenError: there is none, or it cannot run here.
    """
    if not isinstance(implementation, str):
        raise PatchgenError(f"an implementation of {slot.op_name}/{slot.variant} is a name, not {implementation!r}")
    if implementation == EAGER:
        names = {spec.name for spec in KERNEL_REGISTRY.specs(slot.op_name, slot.variant)}
        if EAGER not in names:
            return None
    return KERNEL_REGISTRY.resolve(slot.op_name, implementation, slot.variant)


def rebound(slots: Sequence[tuple[OpSlot, str | None]]) -> str:
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


def _holders(slot: OpSlot) -> list[str]:
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
    found: dict[int, Any] = {}
    for entry in gc.get_objects():
        kind = type(entry)
        if issubclass(kind, torch.nn.Module) and any(cls.__module__ in modules for cls in kind.__mro__):
            found[id(entry)] = entry
    made = {key: entry for key, entry in found.items() if "_modules" in vars(entry)}  # not one whose __init__ failed
    inner = {id(child) for entry in made.values() for child in entry.modules() if child is not entry}
    outer = [entry for key, entry in made.items() if key not in inner and _follows(entry)]
    names = sorted(type(entry).__name__ for entry in outer)
    return [f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]


def _follows(model: Any) -> bool:
    """Whether some part of a model reads its module's slots, rather than slots of the model's own."""
    from patchgen_core.ops.variants import follows_module, key_of

    classes = {type(part) for part in model.modules()}
    return all(key_of(cls) is None for cls in classes) or any(map(follows_module, classes))

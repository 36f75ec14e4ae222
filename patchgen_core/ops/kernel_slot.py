"""What runs the kernel that is bound to an op, for a module or for one model."""

from __future__ import annotations

from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernel_spec import ALIASES, EAGER, FUSED, Kernel
from patchgen_core.ops.registry import KERNEL_REGISTRY


class KernelSlot:
    """An op's variant, and the kernel that is bound to it; ``implementation`` is None before it is bound."""

    def __init__(self, op_name: str, variant: str = "standard") -> None:
        for value in (op_name, variant):
            if not isinstance(value, str) or not value:
                raise PatchgenError(f"OpSlot: op and variant are names, not {value!r}")
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
                f"slot {self.op_name}/{self.variant} has no kernel: check has_kernel first, or bind one with "
                "patchgen_core.ops.bind_ops"
            )
        return self._kernel(*args, **kwargs)

    def __repr__(self) -> str:
        return f"OpSlot({self.op_name!r}, {self.variant!r}, {self.implementation or 'not bound'})"


def choose_kernel(slot: KernelSlot, implementation: str) -> str:
    """The name under which the kernel is registered that ``implementation`` stands for: see the registry's choose.

    PatchgenError when it is no name, or "fused" and no fused kernel can run here.
    """
    if not isinstance(implementation, str):
        raise PatchgenError(f"an implementation of {slot.op_name}/{slot.variant} is a name, not {implementation!r}")
    return KERNEL_REGISTRY.choose(slot.op_name, implementation, slot.variant)


def has_kernel_for(slot: KernelSlot, implementation: str) -> bool:
    """Whether a kernel is registered for the slot under a name, or under what it stands for, be it for here or not."""
    specs = KERNEL_REGISTRY.specs(slot.op_name, slot.variant)
    if implementation == FUSED and any(spec.fused_rank is not None for spec in specs):
        return True
    return implementation == EAGER or {implementation, ALIASES.get(implementation)} & {s.name for s in specs} != set()


def find_kernel(slot: KernelSlot, implementation: str) -> Kernel | None:
    """The kernel that binding ``implementation`` would run; PatchgenError when there is none or it cannot run here."""
    if implementation == EAGER:
        names = {spec.name for spec in KERNEL_REGISTRY.specs(slot.op_name, slot.variant)}
        if EAGER not in names:
            return None
    return KERNEL_REGISTRY.resolve(slot.op_name, implementation, slot.variant)

"""One implementation of an op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.hardware import HardwareRequirement, lacking

EAGER = "eager"

FUSED = "fused"
"""What a configuration says for the best kernel that can run on the machine."""

ALIASES = {"liger": "liger_kernel"}
"""Other names of implementations, for a kernel where none is registered under the name itself."""

Kernel = Callable[..., Any]


@dataclass(frozen=True)
class KernelSpec:
    """One implementation of an op.

    Attributes:
        name: what a user writes in ``<op>_implementation`` to get it: "liger_kernel", "npu", ...
        variant: which formula or calling convention of the op it has; a slot asks for one. All implementations of
            a variant take the same arguments and return the same values.
        factory: makes the kernel when it is first bound: what the kernel needs is imported here.
        hardware: None when it runs wherever torch does.
        description: one line for lists.
        packages: what must be installed: import names, with a lowest version where there is one ("torch>=2.10").
        fused_rank: "fused" stands for the kernel of the highest rank that can run; never for one without a rank.
    """

    name: str
    op_name: str
    variant: str
    factory: Callable[[], Kernel]
    hardware: HardwareRequirement | None = None
    description: str = ""
    packages: tuple[str, ...] = ()
    fused_rank: int | None = None

    def __post_init__(self) -> None:
        for field in ("name", "op_name", "variant"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value:
                raise PatchgenError(f"KernelSpec: {field} must be a name, not {value!r}")
        if not callable(self.factory):
            raise PatchgenError(f"KernelSpec: factory must be a callable that makes the kernel, not {self.factory!r}")
        if not isinstance(self.hardware, (HardwareRequirement, type(None))):
            raise PatchgenError(f"KernelSpec: hardware must be a HardwareRequirement or None, not {self.hardware!r}")
        if isinstance(self.packages, str):
            raise PatchgenError(f"KernelSpec: packages must be a tuple of names, not {self.packages!r}")

    @property
    def label(self) -> str:
        """The op, variant and name, as lists and test ids show them."""
        return f"{self.op_name}-{self.variant}-{self.name}"

    def missing_package(self) -> str:
        """What is not installed, in words; empty when everything is. Imports nothing."""
        return next(filter(None, map(lacking, self.packages)), "")

    def why_not_here(self) -> str:
        """Why the kernel cannot run on this machine; empty when it can."""
        missing = self.missing_package()
        if missing:
            return f"needs {missing}"
        if self.hardware is not None and not self.hardware.is_met():
            return f"needs {self.hardware}"
        return ""

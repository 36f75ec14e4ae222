"""What a kernel needs of the machine."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from dataclasses import dataclass

from patchgen_core.errors import PatchgenError

DEVICE_TYPES = ("cpu", "cuda", "npu", "xpu", "mps")
_DEVICE_PACKAGES = {"npu": "torch_npu"}
_NAMES = {"cuda": "a CUDA device", "npu": "an NPU", "xpu": "an XPU", "mps": "an Apple GPU"}


@dataclass(frozen=True)
class HardwareRequirement:
    """The device that a kernel runs on: "cpu", "cuda", "npu", "xpu" or "mps".

    ``min_compute_capability`` is for CUDA (major, minor), any when None. An ``interpretable`` kernel is written in
    Triton, so that Triton's interpreter (TRITON_INTERPRET=1, set before triton is imported) can stand in for the
    device. An ``or_cpu`` kernel asks this of a device where there is one, and runs without it as well.
    """

    device_type: str
    min_compute_capability: tuple[int, int] | None = None
    interpretable: bool = False
    or_cpu: bool = False

    def __post_init__(self) -> None:
        if self.device_type not in DEVICE_TYPES:
            raise PatchgenError(
                f"there is no device type {self.device_type!r}", None, f"There are: {', '.join(DEVICE_TYPES)}."
            )
        capability = self.min_compute_capability
        if capability is None:
            return
        if self.device_type != "cuda":
            raise PatchgenError(f"min_compute_capability is for CUDA devices, not for '{self.device_type}'")
        if not (isinstance(capability, tuple) and len(capability) == 2 and all(type(n) is int for n in capability)):
            raise PatchgenError(f"min_compute_capability is a pair such as (9, 0), not {capability!r}")

    def __str__(self) -> str:
        needed = _NAMES.get(self.device_type, self.device_type)
        if self.min_compute_capability is not None:
            needed += " of compute capability {}.{}".format(*self.min_compute_capability)
        if self.or_cpu:
            needed += " or a CPU"
        return f"{needed} or Triton's interpreter" if self.interpretable else needed

    def is_met(self) -> bool:
        """Whether this machine has it. Imports torch unless the device is a CPU."""
        if self.device_type == "cpu":
            return True
        if self.interpretable and interpreter_is_on():
            return True
        if not _has_device(self.device_type):
            return self.or_cpu
        return self.min_compute_capability is None or _capability() >= self.min_compute_capability


def interpreter_is_on() -> bool:
    """Whether Triton kernels are interpreted in this process, as far as the environment tells."""
    return os.environ.get("TRITON_INTERPRET", "").strip().lower() in ("1", "true", "on", "yes", "y")


def this_machine() -> str:
    """The devices of this machine in words, for errors."""
    devices = [name for name in DEVICE_TYPES if name == "cpu" or _has_device(name)]
    if "cuda" in devices:
        devices[devices.index("cuda")] += " {}.{}".format(*_capability())
    return ", ".join(devices)


def device_type() -> str:
    """The kind of device that models run on here: an accelerator of this machine, or "cpu"."""
    return next((name for name in DEVICE_TYPES[1:] if _has_device(name)), "cpu")


def is_installed(package: str) -> bool:
    """Whether a top-level package can be found, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # half removed, or set up without a spec
        return False


def lacking(requirement: str) -> str:
    """What is missing of a requirement such as "liger_kernel" or "torch>=2.10"; empty when nothing is."""
    name, _, minimum = requirement.replace(" ", "").partition(">=")
    if not is_installed(name):
        return f"package '{name}'"
    if minimum:
        import importlib.metadata

        try:
            version = importlib.metadata.version(name.replace("_", "-"))
        except importlib.metadata.PackageNotFoundError:  # on the path without metadata
            return ""
        if _numbers(version) < _numbers(minimum):
            return f"{name} {minimum} or newer (this is {version})"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def _has_device(kind: str) -> bool:
    if kind == "cpu":
        return True
    package = _DEVICE_PACKAGES.get(kind)
    if not is_installed("torch") or (package and not is_installed(package)):
        return False
    import torch

    try:
        if package:
            importlib.import_module(package)
    except (ImportError, OSError, RuntimeError):  # installed, but not the device's libraries
        return False
    backend = getattr(torch, kind, None)
    return backend is not None and bool(backend.is_available())


def _capability() -> tuple[int, int]:
    import torch

    return torch.cuda.get_device_capability()

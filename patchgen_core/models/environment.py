"""The devices, packages and kernels that this process runs models with; what is broken is told instead of raised."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from patchgen_core.errors import PatchgenError
from patchgen_core.models import interpreter
from patchgen_core.ops.hardware import DEVICE_TYPES, HardwareRequirement, is_installed
from patchgen_core.ops.registry import KERNEL_REGISTRY
from patchgen_core.workers.processors import count_cpus

LOOPBACK = "GLOO_SOCKET_IFNAME"
"""The environment variable that names the network device of ranks."""
_NVIDIA = Path("/proc/driver/nvidia")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Device:
    """A device that torch sees, by torch's name of it, such as "cuda:0"."""

    name: str
    text: str


@dataclass(frozen=True)
class KernelState:
    """A registered kernel; ``lacks`` says why it cannot run here, and is empty when it can."""

    op: str
    variant: str
    name: str
    lacks: str


@dataclass(frozen=True)
class Environment:
    """What this process runs models with; ``torch`` (version and build) and ``device`` are empty without torch.

    ``triton`` tells how its kernels run here, with the adapters of its interpreter that are on.
    """

    torch: str = ""
    device: str = ""
    devices: tuple[Device, ...] = ()
    triton: tuple[str, ...] = ()
    kernels: tuple[KernelState, ...] = ()
    problems: tuple[str, ...] = ()


def describe_environment(device: str, register: Callable[[], None]) -> Environment:
    """Find out what there is to run models with on a device or "auto", once ``register`` has added kernels."""
    problems: list[str] = []
    if device == "cpu":
        interpreter.use_cpu()
    version = _ask(problems, "torch does not import", _torch) if is_installed("torch") else None
    notes = _ask(problems, "Triton's interpreter cannot be switched on", interpreter.switch_on) if version else None
    if version:
        _ask(problems, "the project's kernels cannot be registered", register)
    kernels = _ask(problems, "the kernels cannot be listed", lambda: tuple(_kernels(bool(version))))
    if not version:
        return Environment(kernels=kernels or (), problems=tuple(problems))
    devices = _ask(problems, "torch cannot list its devices", lambda: tuple(_devices()))
    return Environment(
        version,
        interpreter.device_type(),
        devices or (),
        notes or (),
        kernels or (),
        (*problems, *_unused_gpu(version)),
    )


def _ask(problems: list[str], what: str, question: Callable[[], _Answer]) -> _Answer | None:
    """An answer; None when there is none, and why is added to the problems."""
    try:
        return question()
    except PatchgenError as error:
        problems.append(f"{what}: {error}")
    except (Exception, SystemExit) as error:  # a broken package may raise anything
        problems.append(f"{what}: {type(error).__name__}: {' '.join(str(error).split())}")
    return None


def _torch() -> str:
    import torch

    built = torch.version.cuda and f"CUDA {torch.version.cuda}"
    built = built or (torch.version.hip and f"ROCm {torch.version.hip}") or "the CPU"
    return f"{torch.__version__}, built for {built}"


def _devices() -> Iterator[Device]:
    import torch

    cores = count_cpus()
    yield Device("cpu", f"{cores} cores")
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        memory = f"{properties.total_memory / 2**30:.0f} GiB"
        capability = f"compute capability {properties.major}.{properties.minor}"
        yield Device(f"cuda:{number}", f"{properties.name}, {capability}, {memory}")
    others = [kind for kind in DEVICE_TYPES if kind not in ("cpu", "cuda")]
    yield from (Device(kind, "") for kind in others if HardwareRequirement(kind).is_met())


def _kernels(has_torch: bool) -> Iterator[KernelState]:
    for spec in KERNEL_REGISTRY.specs():
        lacks = spec.why_not_here() if has_torch else f"needs {spec.missing_package() or 'torch'}"
        yield KernelState(spec.op_name, spec.variant, spec.name, lacks)


def _unused_gpu(torch: str) -> tuple[str, ...]:
    """A line for a GPU that this torch was not built for."""
    if _NVIDIA.exists() and "CUDA" not in torch:
        return (f"this machine has an NVIDIA GPU, and torch {torch} cannot use it",)
    return ()


def use_loopback() -> None:
    """Ranks of one machine need no network; its name may lead elsewhere."""
    names = [name for _, name in socket.if_nameindex()] if hasattr(socket, "if_nameindex") else []
    for name in ("lo", "lo0"):
        if name in names:
            os.environ.setdefault(LOOPBACK, name)

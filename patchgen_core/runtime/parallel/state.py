"""How the processes of a training run share the work: their meshes, groups, sizes and ranks."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from patchgen_core.errors import PatchgenError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_SECONDS_TO_LET_GO = 0.1

Hook = Callable[["ParallelState"], object]


@dataclass(frozen=True)
class ParallelState:
    """The meshes of a run, and where this process stands in them. Without meshes it is one process on its own.

    The same ranks are arranged in three ways. In each the last dimension is the innermost: its ranks are neighbours.

    Attributes:
        mesh: ``("dp", "sp")``: ranks of one ``sp`` group have the same sequences and a slice of each; those of a
            ``dp`` group have sequences of their own.
        expert_mesh: ``("ep_dp", "ep")``: ranks of one ``ep`` group have a part of the experts each; those of an
            ``ep_dp`` group have the same experts, whose parameters they share.
        fsdp_mesh: ``("fsdp",)``: all ranks, which share every other parameter.
    """

    mesh: DeviceMesh | None = field(default=None, compare=False)
    expert_mesh: DeviceMesh | None = field(default=None, compare=False)
    fsdp_mesh: DeviceMesh | None = field(default=None, compare=False)
    dp_size: int = 1
    sp_size: int = 1
    ep_size: int = 1

    @property
    def world_size(self) -> int:
        """The number of processes."""
        return self.dp_size * self.sp_size

    @property
    def sp_enabled(self) -> bool:
        """Whether sequences are split over ranks."""
        return self.sp_size > 1

    @property
    def ep_enabled(self) -> bool:
        """Whether experts are split over ranks."""
        return self.ep_size > 1

    @property
    def fsdp_enabled(self) -> bool:
        """Whether parameters are split over ranks, so that all ranks have to call the same modules."""
        return self.world_size > 1

    @property
    def dp_rank(self) -> int:
        """Which of the ``dp_size`` batches this rank works on."""
        return self.mesh.get_local_rank("dp") if self.mesh is not None else 0

    @property
    def sp_rank(self) -> int:
        """Which of the ``sp_size`` slices of its sequences this rank has."""
        return self.mesh.get_local_rank("sp") if self.mesh is not None else 0

    @property
    def ep_rank(self) -> int:
        """Which of the ``ep_size`` parts of the experts this rank has."""
        return self.expert_mesh.get_local_rank("ep") if self.expert_mesh is not None else 0

    @property
    def dp_group(self) -> dist.ProcessGroup | None:
        """The ranks with other batches and the same slice."""
        return self.mesh.get_group("dp") if self.mesh is not None else None

    @property
    def sp_group(self) -> dist.ProcessGroup | None:
        """The ranks with the other slices of the same sequences."""
        return self.mesh.get_group("sp") if self.mesh is not None else None

    @property
    def ep_group(self) -> dist.ProcessGroup | None:
        """The ranks with the other experts."""
        return self.expert_mesh.get_group("ep") if self.expert_mesh is not None else None

    @property
    def fsdp_group(self) -> dist.ProcessGroup | None:
        """All ranks."""
        return self.fsdp_mesh.get_group("fsdp") if self.fsdp_mesh is not None else None


_SINGLE = ParallelState()
_current = _SINGLE
_hooks: list[Hook] = []


def get_parallel_state() -> ParallelState:
    """The state of this process; that of a process on its own before :func:`init_parallel_state`."""
    return _current


def init_parallel_state(
    dp_size: int | None = None, sp_size: int = 1, ep_size: int = 1, device_type: str | None = None
) -> ParallelState:
    """Make the meshes of this run and let :func:`get_parallel_state` return them. Every rank calls it.

    The default process group is made, from the environment of ``torchrun``, where there is none.

    Args:
        dp_size: by default what is left of the ranks.
        sp_size: over how many ranks a sequence is split.
        ep_size: over how many ranks the experts are split. It divides the number of all ranks: these are the same
            ranks, which have sequences and slices as well.
        device_type: such as ``"cuda"``; by default the accelerator, or the CPU where the process group is gloo's.

    Raises:
        PatchgenError: the sizes do not go with the number of ranks.
    """
    _wait_for_gloo_at_the_end()
    device = device_type or _device_type()
    if not dist.is_initialized():
        dist.init_process_group(None if device == "cpu" else f"cpu:gloo,{device}:{_backend(device)}")
    ranks = dist.get_world_size()
    data_size = ranks // sp_size if dp_size is None and sp_size > 0 else dp_size
    _check_sizes(ranks, data_size or 0, sp_size, ep_size)
    assert data_size
    state = ParallelState(
        init_device_mesh(device, (data_size, sp_size), mesh_dim_names=("dp", "sp")),
        init_device_mesh(device, (ranks // ep_size, ep_size), mesh_dim_names=("ep_dp", "ep")),
        init_device_mesh(device, (ranks,), mesh_dim_names=("fsdp",)),
        data_size,
        sp_size,
        ep_size,
    )
    _set(state)
    return state


@contextmanager
def use_parallel_state(state: ParallelState | None) -> Iterator[ParallelState]:
    """Let :func:`get_parallel_state` return ``state`` for a while; None is a process on its own."""
    before = _current
    _set(state or _SINGLE)
    try:
        yield _current
    finally:
        _set(before)


def add_parallel_state_hook(hook: Hook) -> Callable[[], None]:
    """Call ``hook`` with the state now, where there is one, and whenever another takes its place.

    This is how a project with a parallel state of its own has it made of the same meshes::

        add_parallel_state_hook(lambda state: acme.init_parallel_state(state.mesh, state.expert_mesh))

    What is returned removes the hook again.
    """
    _hooks.append(hook)
    if _current.mesh is not None:
        hook(_current)
    return lambda: _hooks.remove(hook)


def _set(state: ParallelState) -> None:
    global _current
    _current = state
    for hook in _hooks:
        hook(state)


def _check_sizes(ranks: int, dp_size: int, sp_size: int, ep_size: int) -> None:
    for name, size in (("dp", dp_size), ("sp", sp_size), ("ep", ep_size)):
        if size < 1:
            raise PatchgenError(f"{name}_size is a number of ranks, not {size}")
    if dp_size * sp_size != ranks:
        message = f"dp_size {dp_size} times sp_size {sp_size} is {dp_size * sp_size}, and there are {ranks} ranks"
        raise PatchgenError(message, hint="Leave dp_size out, and it is what is left of the ranks.")
    if ranks % ep_size:
        raise PatchgenError(f"the {ranks} ranks do not divide by ep_size {ep_size}")


@cache
def _wait_for_gloo_at_the_end() -> None:
    """A thread of gloo lets go of its tensors when who waited for them goes on already, and needs the interpreter for
    that: one that ends at the same moment, as after a last save, aborts the process and with it the whole run."""
    atexit.register(time.sleep, _SECONDS_TO_LET_GO)


def _device_type() -> str:
    import torch

    if dist.is_initialized() and dist.get_backend() == "gloo":
        return "cpu"
    accelerator = torch.accelerator.current_accelerator()
    return accelerator.type if accelerator is not None else "cpu"


def _backend(device: str) -> str:
    return dist.get_default_backend_for_device(device)

"""What of this machine a run may use: processors and memory."""

from __future__ import annotations

import os
from pathlib import Path

from patchgen_core.workers.processors import count_cpus

_CGROUP = Path("/sys/fs/cgroup")
_ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd", "/dev/davinci_manager", "/dev/dxg")


def count_processors() -> int:
    """How many processors this process may keep busy: those that it may run on, at most its container's share."""
    words = _read(_CGROUP / "cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        share = int(words[0]) / int(words[1])
    else:
        quota, period = (_read(_CGROUP / "cpu" / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
        share = int(quota) / int(period) if quota.isdigit() and period.isdigit() else float("inf")
    return max(1, int(min(count_cpus(), share)))


def available_memory() -> int | None:
    """Bytes that processes can take before the system has to end some: of the machine, at most its container's; None
    where the system does not tell."""
    lines = (line.split() for line in _read(Path("/proc/meminfo")).splitlines())
    machine = next((int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"), None)
    if machine is None:
        return _half_of_memory()
    limit, used, cache = (
        ("memory.max", "memory.current", "inactive_file")
        if (_CGROUP / "memory.max").is_file()
        else ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file")
    )
    allowed, taken = _read(_CGROUP / limit).strip(), _read(_CGROUP / used).strip()
    if not allowed.isdigit() or not taken.isdigit():
        return machine
    statistics = _read((_CGROUP / used).with_name("memory.stat")).splitlines()
    files = sum(int(line.split()[1]) for line in statistics if line.startswith(f"{cache} "))
    return max(0, min(machine, int(allowed) - int(taken) + files))


def _half_of_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return None


def has_accelerator() -> bool:
    """Whether a driver of a GPU or NPU is loaded, as far as its device files tell."""
    return any(os.path.exists(path) for path in _ACCELERATORS)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""

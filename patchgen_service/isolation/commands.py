"""The argument vectors that isolate a command: of bubblewrap, of podman, and of neither for trusted code."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from patchgen_service.isolation.box import HOME, Box, Kind, Limits, base_environment
from patchgen_service.isolation.containers import own_label

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt/cuda")
_SETTINGS = (
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "passwd",
    "pki",
    "ssl",
)
"""What programs need of ``/etc``; nothing of it is a secret."""
_NETWORK_SETTINGS = ("hosts", "resolv.conf", "pip.conf")
_DEVICES = ("nvidia*", "kfd", "dri")
_OPEN_FILES = 4096
_SECONDS_MORE = 60
EMPTY_ROOT = Path(tempfile.gettempdir(), f"patchgen-empty-root-{os.getuid()}")
"""A folder with nothing in it, which is the root of containers."""


def build_command(kind: Kind, box: Box, arguments: Sequence[str], pid_file: Path | None = None) -> list[str]:
    """The argument vector that runs ``arguments`` in a box.

    A container is no descendant of the command: podman writes into ``pid_file`` which process has it as one.
    """
    if kind == "bubblewrap":
        return _bubblewrap(box, arguments)
    if kind == "podman":
        return [*_podman(box, pid_file), *_limited(box.limits, arguments)]
    variables = base_environment(box, box.folder, Path(tempfile.gettempdir()))
    return ["/usr/bin/env", "-i", *_assignments(variables), *_limited(box.limits, arguments)]


def _limited(limits: Limits, arguments: Iterable[str]) -> list[str]:
    """Limits that the kernel holds for each process; those of all together are held by who watches them."""
    cpu_seconds = int(limits.seconds * (os.cpu_count() or 1)) + 1
    return [
        "prlimit",
        f"--nproc={limits.processes}",
        f"--data={limits.memory}",
        f"--fsize={limits.disk}",
        f"--cpu={cpu_seconds}",
        f"--nofile={_OPEN_FILES}",
        "--core=0",
        "--",
        *arguments,
    ]


def _assignments(variables: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in variables.items()]


def _system_paths(has_network: bool) -> Iterator[Path]:
    yield from filter(Path.exists, map(Path, _SYSTEM))
    names = (*_SETTINGS, *(_NETWORK_SETTINGS if has_network else ()))
    yield from filter(Path.exists, (Path("/etc", name) for name in names))


def _devices() -> Iterator[Path]:
    for pattern in _DEVICES:
        yield from sorted(Path("/dev").glob(pattern))


def _hidden(box: Box) -> list[Path]:
    """What has to be covered, because it lies below something that is readable."""
    shown = [*_system_paths(box.has_network), *box.readable]
    return [path for path in box.hidden if path.exists() and any(path.is_relative_to(other) for other in shown)]


def _bubblewrap(box: Box, arguments: Sequence[str]) -> list[str]:
    """Namespaces of its own for everything, an empty root, and in it only what the box has."""
    command = ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    command += ["--share-net"] if box.has_network else []
    command += ["--hostname", "patchgen", "--cap-drop", "ALL", "--clearenv"]
    for name, value in base_environment(box).items():
        command += ["--setenv", name, value]
    for path in _system_paths(box.has_network):
        linked = path.is_symlink() and not path.is_relative_to("/etc")
        command += ["--symlink", os.readlink(path), str(path)] if linked else ["--ro-bind", str(path), str(path)]
    disk, memory = str(box.limits.disk), str(box.limits.memory // 2)
    command += ["--proc", "/proc", "--dev", "/dev", "--size", memory, "--tmpfs", "/dev/shm"]
    for device in _devices():
        command += ["--dev-bind", str(device), str(device)]
    command += ["--size", disk, "--tmpfs", "/tmp", "--dir", str(HOME)]
    kept_apart = _hidden(box)
    later = {path: seen for path, seen in box.readable.items() if any(path.is_relative_to(h) for h in kept_apart)}
    for path, seen in sorted(box.readable.items(), key=lambda pair: len(pair[1].parts)):
        if path not in later:
            command += ["--ro-bind", str(path), str(seen)]
    for path in kept_apart:
        command += ["--tmpfs", str(path)]
    for path, seen in later.items():
        command += ["--ro-bind", str(path), str(seen)]
    for path in box.writable:
        command += ["--bind", str(path), str(path)]
    for path in [Path("/dev"), *kept_apart, Path("/")]:
        command += ["--remount-ro", str(path)]
    return [*command, "--chdir", str(box.folder), "--", *_limited(box.limits, arguments)]


def _podman(box: Box, pid_file: Path | None) -> list[str]:
    """A container without an image: an empty root, and in it only what the box has, as with bubblewrap."""
    limits = box.limits
    command = ["podman", "run", "--rm", "--rootfs", "--read-only", "--read-only-tmpfs=false"]
    command += ["--cap-drop=all", "--security-opt=no-new-privileges", "--env-host=false"]
    command += [
        f"--network={'slirp4netns' if box.has_network else 'none'}",
        "--hostname=patchgen",
        "--log-driver=none",
        f"--label={own_label()}",
    ]
    command += [f"--memory={limits.memory}", f"--memory-swap={limits.memory}", f"--pids-limit={limits.processes}"]
    command += [
        f"--ulimit=nofile={_OPEN_FILES}:{_OPEN_FILES}",
        f"--ulimit=nproc={limits.processes}:{limits.processes}",
    ]
    command += [f"--tmpfs=/tmp:rw,size={limits.disk},mode=1777", f"--shm-size={limits.memory // 2}"]
    command += [
        f"--env={assignment}" for assignment in _assignments(base_environment(box, Path("/tmp"), Path("/tmp")))
    ]
    command.append(f"--timeout={int(limits.seconds) + _SECONDS_MORE}")  # where whoever watches it was killed
    for path in _system_paths(box.has_network):
        command.append(f"--volume={path.resolve()}:{path}:ro")
    command += [f"--device={device}" for device in _devices()]
    command += [f"--volume={path}:{seen}:ro" for path, seen in box.readable.items() if path not in box.writable]
    command += [f"--tmpfs={path}:ro,size=64k,notmpcopyup" for path in _hidden(box)]
    command += [f"--volume={path}:{path}:rw" for path in box.writable]
    command += [f"--conmon-pidfile={pid_file}", f"--name={pid_file.parent.name}"] if pid_file is not None else []
    return [*command, f"--workdir={box.folder}", f"{EMPTY_ROOT}:O"]

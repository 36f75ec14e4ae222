"""Pieces of the replay's walks, which any process can do, here or on another machine: a request holds all that it
takes, and the answer all that comes of it."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from packaging.utils import parse_wheel_filename

from benchmarks.replay_gate import judge_configs
from benchmarks.replay_leaving import leave_out
from benchmarks.replay_steps import take_step
from benchmarks.replay_walks import NEWEST_REAL, Walk, join_models, make_start, people_wrote
from patchgen_core.project.table import load_project
from patchgen_core.workers.sent_folders import pack_folder
from tools.releases import FOLDER, NEEDED, find_release, find_releases

HANDLER = "benchmarks.replay_requests:do"
LEFT_OUT = ("__pycache__", ".patchgen_cache", ".pytest_cache")


@dataclass(frozen=True)
class Request:
    """A piece of a walk.

    Attributes:
        what: ``start`` makes its project; ``step`` carries a project over to a release; ``gate`` has parity judge what
            a step came to, or what it began with less the same patches.
        version: the release that it is about.
        old: of a step, the release that the project is for.
        project: the project's folder as an archive; empty for a start.
        ended: of a step, the configs that went no further before.
        wrong: of a step, by config what is wrong with it before, as far as that is known.
        configs: for a gate, the paths of those to judge.
        left_out: for a gate, the patches to leave out before, by config and target.
        wheels: of the releases that it takes, where this machine has them.
    """

    what: Literal["start", "step", "gate"]
    walk: Walk
    version: str
    old: str = ""
    project: bytes = b""
    ended: tuple[str, ...] = ()
    wrong: Mapping[str, Sequence[str]] = field(default_factory=dict)
    configs: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    wheels: tuple[Path, ...] = ()


def do(request: Request) -> tuple[dict[str, Any], bytes]:
    """Answer a request: what the walk's folder keeps of it, and the project as it is then; empty for a gate's.

    Raises:
        PatchgenError: a release cannot be had, or the project cannot be made or carried over.
    """
    start = time.perf_counter()
    _place_wheels(request.wheels)
    with tempfile.TemporaryDirectory(prefix="patchgen-replay-") as temporary:
        folder = Path(temporary).resolve()
        if request.project:
            unpack_project(request.project, folder)
        values = _DO[request.what](request, folder)
        values |= {"seconds": round(time.perf_counter() - start, 1), "process": f"{platform.node()} {os.getpid()}"}
        return values, b"" if request.what == "gate" else pack_project(folder)


def _make(request: Request, folder: Path) -> dict[str, Any]:
    return {"problems": make_start(request.walk, folder)}


def _take(request: Request, folder: Path) -> dict[str, Any]:
    walk, version = request.walk, request.version
    people = people_wrote(walk, version)
    step = take_step(folder, find_releases(), request.old, version, request.ended, request.wrong, people)
    return {**dataclasses.asdict(step), "joining": join_models(walk, folder, version)}


def _judge(request: Request, folder: Path) -> dict[str, Any]:
    if request.left_out:
        leave_out(load_project(folder), find_release(request.version), request.left_out)
    red, problem = judge_configs(folder, [folder / path for path in request.configs], request.version)
    return {"red": red, "problem": problem}


_DO = {"start": _make, "step": _take, "gate": _judge}


def pack_project(folder: Path) -> bytes:
    """The archive of a project's folder, less what is kept of its checks."""
    return pack_folder(folder, [path.name for path in folder.iterdir() if path.name not in LEFT_OUT])


def unpack_project(archive: bytes, folder: Path) -> None:
    """Write an archive's files into a folder."""
    with zipfile.ZipFile(BytesIO(archive)) as opened:
        opened.extractall(folder)


def find_wheels(walk: Walk, versions: Sequence[str], with_needed: bool = False) -> tuple[Path, ...]:
    """The wheels of transformers' releases and of a walk's project, less what is installed; downloads those that this
    machine has not.

    Args:
        with_needed: whether what the releases import is wanted as well.
    """
    wanted = [(version, "transformers") for version in versions]
    if walk.project.startswith("veomni"):
        wanted += [(version, "veomni") for version in (walk.project.partition("-")[2], NEWEST_REAL)]
    wanted += [(version, distribution) for distribution, version in NEEDED.items()] if with_needed else []
    releases = [find_release(*release) for release in dict.fromkeys(wanted)]
    return tuple(path for r in releases if r.origin != "installed" for path in r.folder.parent.glob("*.whl"))


def _place_wheels(wheels: Sequence[Path]) -> None:
    """Have this machine find releases by their wheels, which need not be where it looks for them."""
    for wheel in wheels:
        distribution, version, *_ = parse_wheel_filename(wheel.name)
        place = FOLDER / distribution / str(version) / wheel.name
        if not place.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent) as part:
                os.replace(shutil.copy(wheel, part), place)

"""The gate over a copy of the project in which a choice is written: the project's own files stay as they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.upgrade.writing.gating import Echo, GateRun, run_gate
from patchgen_core.upstream.releases import Release

_LEFT_OUT = ("__pycache__", "node_modules", "*.egg-info")
_MOST_BYTES = 1 << 30


def gate_copy(
    project: Project,
    release: Release,
    files: Iterable[tuple[Path, str]],
    configs: Iterable[Path],
    checks: Sequence[str],
    echo: Echo | None = None,
) -> GateRun:
    """Run some checks over configs of a copy of a project that has other texts in some of its files.

    Raises:
        PatchgenError: the project is too large to be copied, or its files cannot be read.
    """
    base = project.base
    with _copied(base) as folder:
        write_files((folder / path.relative_to(base), text) for path, text in files if path.is_relative_to(base))
        copied = load_project(folder)
        paths = [folder / path.relative_to(base) for path in configs]
        with _import_first(copied.import_roots):
            run = run_gate(copied, paths, release, checks=checks, echo=echo)
        return replace(run, output=run.output.replace(f"{folder}{os.sep}", ""))


@contextmanager
def _copied(base: Path) -> Iterator[Path]:
    """A copy of the files that Git knows or would add; of all but hidden ones where there is no Git."""
    with tempfile.TemporaryDirectory(prefix="patchgen-") as temporary:
        folder, size = Path(os.path.realpath(temporary), base.name or "project"), 0
        folder.mkdir()
        try:
            for path in _files(base):
                size += path.stat().st_size
                if size > _MOST_BYTES:
                    raise PatchgenError(f"the project has more than {_MOST_BYTES >> 30} GiB: it is not copied")
                place = folder / path.relative_to(base)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)
        except OSError as error:
            raise PatchgenError(f"the project cannot be copied: {error.strerror} ({error.filename})") from None
        yield folder


def _files(base: Path) -> Iterator[Path]:
    command = ["git", "-C", str(base), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
        names = os.fsdecode(done.stdout).split("\0") if done.returncode == 0 else []
    except OSError:
        names = []
    if any(names):
        yield from (base / name for name in dict.fromkeys(names) if name and (base / name).is_file())
        return
    for folder, folders, files in os.walk(base):
        ignored = shutil.ignore_patterns(".*", *_LEFT_OUT)(folder, folders)
        ignored |= {name for name in folders if Path(folder, name, "pyvenv.cfg").is_file()}
        folders[:] = [name for name in folders if name not in ignored]
        yield from (Path(folder, name) for name in files if Path(folder, name).is_file())


@contextmanager
def _import_first(folders: Iterable[Path]) -> Iterator[None]:
    """Have processes that start now import from some folders before others, such as that of an editable install."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before

"""Environments of runs: one for each list of what is installed, made once, shared, and removed when unused."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from patchgen_core.files import text_digest
from patchgen_service.git.mirror import remove_tree
from patchgen_service.isolation.box import SEARCH_PATH, Box, Kind, Limits, own_packages, python_folders
from patchgen_service.isolation.process import run_command

_OWN = "pytest-patchgen"
_MODELS = "parity"
_COMPLETE = "complete"
_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_FORMAT = 1


class InstallFailed(Exception):
    """An environment cannot be made: why, in a sentence; ``reason`` is that of the command that was ended."""

    def __init__(self, message: str, reason: str = "ended", log: str = "") -> None:
        super().__init__(message)
        self.reason, self.log = reason, log


@dataclass(frozen=True)
class Recipe:
    """What goes into an environment.

    Attributes:
        python: as :func:`find_interpreter` takes it; empty for that of the service.
        constraints: the text of a constraints file; what it names of the packages that models run with, such as torch
            and transformers, is installed.
        requirements: what is installed beside that and what the gate needs.
        transformers: a release that takes the place of the one in the constraints; empty for that.
        index: URL of the package index; empty for pip's own.
    """

    python: str = ""
    constraints: str = ""
    requirements: tuple[str, ...] = ()
    transformers: str = ""
    index: str = ""

    @property
    def is_own(self) -> bool:
        """Whether nothing is to be installed: the run gets the environment of the service."""
        return not (self.python or self.constraints.strip() or self.requirements or self.transformers)

    @property
    def digest(self) -> str:
        """The same for recipes that make the same environment."""
        parts = (str(_FORMAT), self.python or sys.executable, self.constraint_lines, *self.requirement_lines)
        own = "" if self.pins_own else distribution(_OWN).version
        return text_digest("\0".join((*parts, own)))

    @property
    def interpreter(self) -> str:
        """The interpreter that it is made with; errors as for :func:`find_interpreter`."""
        return str(find_interpreter(self.python)) if self.python else sys.executable

    @property
    def pins_own(self) -> bool:
        """Whether it says which version of this package it has; else it has that of the service."""
        return _OWN in map(_read_name, [*self.constraints.splitlines(), *self.requirements])

    @property
    def constraint_lines(self) -> str:
        """The constraints, without that of a release which is chosen."""
        lines = self.constraints.splitlines()
        return "\n".join(line for line in lines if not self.transformers or _read_name(line) != "transformers") + "\n"

    @property
    def requirement_lines(self) -> tuple[str, ...]:
        """All that pip is asked for."""
        chosen = (f"transformers=={self.transformers}",) if self.transformers else ()
        own = (_OWN,) if self.pins_own else tuple(_own_requirements())
        named = {_read_name(line) for line in self.constraints.splitlines()}
        models = (name for name in _names_for_models() if name in named)
        return (*own, *models, *(line for line in self.requirements if _read_name(line) != _OWN), *chosen)


@dataclass(frozen=True)
class PythonEnvironment:
    """An interpreter with packages, and what an isolated process has to see to run it.

    Attributes:
        digest: of its recipe; empty for the environment of the service.
    """

    python: Path
    readable: Mapping[Path, Path] = field(default_factory=python_folders)
    digest: str = ""


def make_environment(
    folder: Path, recipe: Recipe, kind: Kind, limits: Limits, should_stop: Callable[[], bool] = lambda: False
) -> PythonEnvironment:
    """The environment of a recipe below ``folder``: the one there is, or a new one.

    What is installed runs code as well, so that it is isolated too, but for the network. An InstallFailed where that
    does not work; what was begun is then removed.
    """
    if recipe.is_own:
        return PythonEnvironment(Path(sys.executable))
    place = folder / recipe.digest
    interpreter = Path(os.path.realpath(recipe.interpreter))
    roots = [place, *interpreter.parents[1:2]]
    environment = PythonEnvironment(
        place / "bin" / "python", {path: path for path in roots if path != Path("/usr")}, recipe.digest
    )
    with _lock(folder, recipe.digest, should_stop):
        if not (place / _COMPLETE).exists():
            remove_tree(place)
            try:
                _install(place, recipe, environment, kind, limits, should_stop)
            except BaseException:
                remove_tree(place)
                raise
        (place / _COMPLETE).touch()
    return environment


def find_interpreter(name: str) -> Path:
    """The interpreter of a path, of a name such as ``python3.12``, or of a version; an InstallFailed for none.

    Its folder is shown to what runs with it, and so has to be that of a Python.
    """
    program = f"python{name}" if name[:1].isdigit() else name
    path = shutil.which(program, path=SEARCH_PATH) if os.path.isabs(program) or "/" not in program else None
    if path is None:
        raise InstallFailed(f"The environment could not be made: there is no Python '{name}' on this machine.")
    interpreter = Path(os.path.realpath(path))
    prefix = interpreter.parent.parent
    if prefix == Path(prefix.root) or next(prefix.glob("lib*/python3*"), None) is None:
        raise InstallFailed(f"The environment could not be made: '{name}' is not Python.")
    return interpreter


def remove_unused(folder: Path, before: float) -> list[str]:
    """Remove environments that were last used before a time, in seconds since 1970; returns their digests.

    One that is being made stays.
    """
    digests = []
    for place in sorted(path for path in folder.glob("*") if path.is_dir()):
        with contextlib.suppress(InstallFailed), _lock(folder, place.name, lambda: True):
            complete = place / _COMPLETE
            used = complete.stat().st_mtime if complete.exists() else 0.0
            if used < before:
                remove_tree(place)
                digests.append(place.name)
        if place.name in digests:
            (folder / f"{place.name}.lock").unlink(missing_ok=True)
    return digests


def _install(
    place: Path,
    recipe: Recipe,
    environment: PythonEnvironment,
    kind: Kind,
    limits: Limits,
    should_stop: Callable[[], bool],
) -> None:
    place.mkdir(parents=True)
    variables = {"PIP_INDEX_URL": recipe.index} if recipe.index else {}
    readable = {**python_folders(), **environment.readable}
    readable.pop(place)
    box = Box(place, readable, (place,), environment=variables, limits=limits)
    _run(kind, box, [recipe.interpreter, "-m", "venv", str(place)], should_stop, "made")
    if not recipe.pins_own:
        _copy_own(next(place.glob("lib/python3*/site-packages")))
    (place / "constraints.txt").write_text(recipe.constraint_lines, encoding="utf-8")
    arguments = [
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--quiet",
        "--retries",
        "2",
    ]
    arguments += ["--constraint", str(place / "constraints.txt"), *recipe.requirement_lines]
    _run(kind, replace(box, has_network=True), [str(environment.python), *arguments], should_stop, "installed")


def _run(kind: Kind, box: Box, command: list[str], should_stop: Callable[[], bool], what: str) -> None:
    try:
        exit = run_command(kind, box, command, should_stop=should_stop)
    except OSError as error:
        raise InstallFailed(f"The environment could not be {what}: {error.strerror}.") from error
    if exit.message or exit.code:
        errors = [line for line in exit.tail.splitlines() if line.startswith("ERROR")] or exit.tail.splitlines()[-1:]
        why = exit.message or (errors[0] if errors else f"pip ended with code {exit.code}")
        raise InstallFailed(f"The environment could not be {what}: {why}", exit.reason, exit.tail)


def _own_requirements() -> Iterator[str]:
    """What this package needs, its extras left out."""
    for line in distribution(_OWN).requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or "extra" not in str(requirement.marker):
            yield line


def _names_for_models() -> Iterator[str]:
    """The packages of the extra that runs models."""
    for line in distribution(_OWN).requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is not None and marker.evaluate({"extra": _MODELS}) and not marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _copy_own(site_packages: Path) -> None:
    """Put this package into an environment in which nothing has been installed yet: no foreign link is followed."""
    for source in own_packages():
        shutil.copytree(source, site_packages / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    own = distribution(_OWN)
    info = site_packages / f"pytest_patchgen-{own.version}.dist-info"
    info.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        text = own.read_text(name) or own.read_text("PKG-INFO" if name == "METADATA" else name)
        (info / name).write_text(text or "", encoding="utf-8")
    (info / "INSTALLER").write_text("patchgen\n", encoding="utf-8")
    (info / "RECORD").write_text("", encoding="utf-8")


def _read_name(line: str) -> str:
    match = _NAME.match(line)
    return canonicalize_name(match[1]) if match else ""


@contextlib.contextmanager
def _lock(folder: Path, digest: str, should_stop: Callable[[], bool]) -> Iterator[None]:
    """Have an environment to oneself; the lock is gone with the process. An InstallFailed when that is to stop."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{digest}.lock", "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if should_stop():
                    raise InstallFailed("It was stopped while it waited for its environment.", "stopped") from None
                time.sleep(0.1)
            else:
                break
        yield

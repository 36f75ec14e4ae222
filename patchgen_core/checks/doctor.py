"""``patchgen doctor``: what can run on this machine, and what is missing for the rest."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.checks.model_process.process import ModelProcess
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.models.environment import Environment, KernelState
from patchgen_core.ops.hardware import lacking
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.upstream.module import installed_version

if TYPE_CHECKING:
    from rich.console import Console

_TIME_LIMIT = 120.0
_MODELS = "checks that run models and kernels"
_PACKAGES = (
    ("ruff", "ruff", "generating and comparing", ""),
    ("pytest", "pytest", "the plugin", ""),
    ("pytest-xdist", "xdist", "pytest -n", "xdist"),
    ("torch", "torch", _MODELS, "parity"),
    ("transformers", "transformers>=5.2", _MODELS, "parity"),
    ("safetensors", "safetensors", "the check 'converter'", "parity"),
    ("liger-kernel", "liger_kernel>=0.8.5", "Liger's kernels", "parity"),
    ("triton", "triton", "kernels that are written in Triton", "parity"),
)
"""What is installed by pip, what is asked of it, what it is for and the extra that has it."""


@dataclass(frozen=True)
class Package:
    """A package that something here needs; ``lacks`` and ``install`` are empty when nothing is missing."""

    name: str
    version: str
    lacks: str
    purpose: str
    install: str


@dataclass(frozen=True)
class FoundProject:
    """The project around the working directory; ``file`` is empty when there is none, and ``problems`` say why."""

    file: str = ""
    configs: int = 0
    search_root: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """What can run here; ``python`` is the interpreter's version and path."""

    python: str
    packages: tuple[Package, ...]
    machine: Environment
    project: FoundProject


def examine(project: Project | None = None) -> Diagnosis:
    """Look what can run here; torch is imported by another process, and nothing that is broken raises."""
    try:
        project = project or load_project()
        file, root = display_path(project.base / "pyproject.toml"), display_path(project.search_root)
        description = FoundProject(file, len(project.find_configs()), root)
    except PatchgenError as error:
        description = FoundProject(problems=tuple(map(str, error.problems)))
    nowhere = Project(Path.cwd(), "nowhere", root=Path.cwd())
    checks = ModelProcess(project or nowhere, time_limit=_TIME_LIMIT)
    try:
        machine = checks.look_around()
    except PatchgenError as error:
        machine = Environment(problems=(str(error),))
    finally:
        checks.close()
    python = f"{platform.python_version()} ({sys.executable})"
    return Diagnosis(python, tuple(_packages()), machine, description)


def _packages() -> Iterator[Package]:
    for name, requirement, purpose, extra in _PACKAGES:
        lacks = lacking(requirement)
        package = f"'pytest-patchgen[{extra}]'" if extra else name
        yield Package(name, installed_version(name), lacks, purpose, f"pip install {package}" if lacks else "")


def diagnosis_data(diagnosis: Diagnosis) -> dict[str, Any]:
    """A diagnosis as JSON types."""
    return {"schema": 1, **asdict(diagnosis)}


# --- printing --------------------------------------------------------------------------------------


Row = tuple[tuple[str, str], ...]
"""Cells, each with its style."""


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    """Print a diagnosis: tables on a terminal, aligned lines elsewhere."""
    machine = diagnosis.machine
    _print(console, "packages", [_row("python", diagnosis.python), *map(_package_row, diagnosis.packages)])
    _print(console, "devices", list(_device_rows(machine)))
    _print(console, "kernels", [_kernel_row(kernel) for kernel in machine.kernels])
    _print(console, "project", list(_project_rows(diagnosis.project)))
    _print(console, "problems", [((problem, "red"),) for problem in machine.problems])


def _row(name: str, text: str, style: str = "") -> Row:
    return (name, "bold"), (text, style)


def _package_row(package: Package) -> Row:
    if not package.lacks:
        return _row(package.name, package.version or "installed, version unknown")
    has = f"{package.version}, but {package.lacks} is needed" if package.version else "missing"
    return _row(package.name, f"{has}: {package.install}  # for {package.purpose}", "yellow")


def _device_rows(machine: Environment) -> Iterator[Row]:
    if not machine.torch:
        yield _row("torch", "cannot be imported, so no model runs here", "yellow")
        return
    yield _row("torch", machine.torch)
    for device in machine.devices:
        yield _row(device.name, device.text)
    yield _row("models", f"run on {machine.device}", "green")
    yield from (_row("triton" * (not number), note) for number, note in enumerate(machine.triton))


def _kernel_row(kernel: KernelState) -> Row:
    here = (kernel.lacks, "yellow") if kernel.lacks else ("runs", "green")
    return (kernel.op, "bold"), (kernel.variant, ""), (kernel.name, ""), here


def _project_rows(project: FoundProject) -> Iterator[Row]:
    if project.file:
        yield _row("settings", project.file)
        count = f"{project.configs} patch config{'s' * (project.configs != 1)}"
        yield _row("configs", f"{count} below {project.search_root}", "" if project.configs else "yellow")
    yield from (_row("settings", " ".join(problem.split()), "yellow") for problem in project.problems)


def _print(console: Console, title: str, rows: Sequence[Row]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    if not console.is_terminal:
        widths = [max(len(row[column][0]) for row in rows) for column in range(len(rows[0]) - 1)]
        console.print(f"{title}:")
        for row in rows:
            cells = [text.ljust(width) for (text, _), width in zip(row, widths)]
            console.print(f"  {'  '.join([*cells, row[-1][0]])}", soft_wrap=True)
        return
    table = Table(title=title, title_justify="left", title_style="bold", box=box.ROUNDED, show_header=False)
    for column in range(len(rows[0])):
        table.add_column(overflow="fold", no_wrap=column < len(rows[0]) - 1)
    for row in rows:
        table.add_row(*(Text(text, style) for text, style in row))
    console.print(table)

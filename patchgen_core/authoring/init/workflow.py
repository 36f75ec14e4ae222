"""The job of a forge's CI that runs the gate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from patchgen_core.authoring.init.additions import Addition, append
from patchgen_core.files import read_text
from patchgen_core.project.pyproject import PYPROJECT, read_toml

PART = "workflow"
_ACTIONS = (".github/workflows", ".forgejo/workflows", ".gitea/workflows")
_GITLAB = ".gitlab-ci.yml"
_PACKAGE = '"pytest-patchgen[parity,xdist]"'
_GATE = "pytest -p pytest_patchgen -n auto -m patchgen"
_NAMES = re.compile(r"pytest_patchgen|patchgen (gate|check)|--patchgen")


def has_ci(root: Path) -> bool:
    """Whether a repository has jobs of a forge that is known here."""
    return (root / _GITLAB).is_file() or any((root / folder).is_dir() for folder in _ACTIONS)


def add_workflow(root: Path, base: Path) -> Addition:
    """The job of a repository for the project in ``base``: a workflow of its own, or one more job of GitLab's file."""
    folders = [root / folder for folder in _ACTIONS if (root / folder).is_dir()]
    if not folders and (root / _GITLAB).is_file():
        return _add_job(root / _GITLAB, base)
    folder = folders[0] if folders else root / _ACTIONS[0]
    for path in sorted(folder.glob("*.y*ml")) if folders else ():
        if _NAMES.search(read_text(path) or ""):
            return Addition(PART, path, is_there=True, reason="it runs patchgen")
    text = _workflow(root, base)
    return Addition(PART, folder / "patchgen.yml", text, text)


def _workflow(root: Path, base: Path) -> str:
    return "\n".join(
        [
            "name: patchgen",
            "on:",
            "  push:",
            f"    branches: [{_branch(root)}]",
            "  pull_request:",
            "",
            "jobs:",
            "  gate:",
            "    runs-on: ubuntu-latest",
            "    timeout-minutes: 30",
            *(_lines_of_folder(root, base)),
            "    steps:",
            "      - uses: actions/checkout@v4",
            *_steps(root, base),
            "",
        ]
    )


def _lines_of_folder(root: Path, base: Path) -> Iterator[str]:
    if base != root:
        yield from ("    defaults:", "      run:", f"        working-directory: {base.relative_to(root).as_posix()}")


def _steps(root: Path, base: Path) -> Iterator[str]:
    cache = (base.relative_to(root) / ".patchgen_cache").as_posix()
    kept = [
        "      - uses: actions/cache@v4  # results of what has not changed",
        "        with:",
        f"          path: {cache}",
        "          key: patchgen-${{ github.run_id }}",
        "          restore-keys: patchgen-",
    ]
    if (base / "uv.lock").is_file():
        yield from ("      - uses: astral-sh/setup-uv@v6", *kept)
        yield f"      - run: uv run --with {_PACKAGE} {_GATE}"
        return
    yield from ("      - uses: actions/setup-python@v5", "        with:", '          python-version: "3.12"', *kept)
    yield from (f"      - run: {_install(base)}", f"      - run: {_GATE}")


def _add_job(path: Path, base: Path) -> Addition:
    text = read_text(path) or ""
    change = [] if base == path.parent else [f"    - cd {base.relative_to(path.parent).as_posix()}"]
    lines = "\n".join(
        ["patchgen:", '  image: "python:3.12"', "  script:", *change, f"    - {_install(base)}", f"    - {_GATE}", ""]
    )
    if _NAMES.search(text):
        return Addition(PART, path, lines, is_there=True, reason="it runs patchgen")
    return Addition(PART, path, lines, append(text, lines))


def _install(base: Path) -> str:
    """The command that installs a project and the gate."""
    tables = read_toml(base / PYPROJECT) if (base / PYPROJECT).is_file() else {}
    words = ["-r requirements.txt"] if (base / "requirements.txt").is_file() else []
    if {"project", "build-system"} & tables.keys() or (base / "setup.py").is_file():
        words.append("-e .")
    return " ".join(["pip install", *words, _PACKAGE])


def _branch(root: Path) -> str:
    """The branch that is checked out; ``main`` where that cannot be told."""
    head = root / ".git" / "HEAD"
    match = re.fullmatch(r"ref: refs/heads/(\S+)\s*", read_text(head) or "") if head.is_file() else None
    return match[1] if match else "main"

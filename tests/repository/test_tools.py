"""Tools, benchmarks and the tests themselves import what is there, though no test runs most of them."""

from __future__ import annotations

import ast
import contextlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("benchmarks", "patchgen", "patchgen_core", "patchgen_service", "pytest_patchgen", "tests", "tools")
FILES = sorted(path for folder in ("benchmarks", "tests", "tools") for path in (ROOT / folder).rglob("*.py"))

_IMPORT = re.compile(r"\b(from|import) patchgen")


def programs(path: Path) -> Iterator[ast.Module]:
    """A file, and the texts in it that are Python with imports, which processes of its own run."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _IMPORT.search(node.value):
            with contextlib.suppress(SyntaxError):
                yield ast.parse(textwrap.dedent(node.value))


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """The modules of this repository that a file imports, anywhere in it, each with a name of it or none."""
    for node in (node for tree in programs(path) for node in ast.walk(tree)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        else:
            continue
        yield from (name for name in names if name[0].partition(".")[0] in PACKAGES)


@cache
def names_of(module: str) -> frozenset[str] | None:
    """The names that a module binds, wherever in it, and its submodules; None where there is no such module."""
    path = ROOT.joinpath(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    inside = {entry.stem for entry in path.iterdir()} if path.is_dir() else set()
    if not file.exists():
        return frozenset(inside) if path.is_dir() else None
    bound = {"*"}
    text = file.read_text(encoding="utf-8")
    is_lazy = "def __getattr__(" in text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            bound.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif is_lazy and isinstance(node, ast.Constant) and isinstance(node.value, str):
            bound.add(node.value)  # a table of names
    return frozenset(bound | inside)


@pytest.mark.slow
def test_imports_are_there() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {module} {name}"
        for path in FILES
        for module, name in imported(path)
        if (names := names_of(module)) is None or (name and name not in names)
    ]
    assert missing == []


BENCHMARKS = sorted(set(re.findall(r"\bbenchmarks/(\w+)\.py", (ROOT / "Makefile").read_text(encoding="utf-8"))))


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_make_bench_starts_what_is_there(name: str, tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks" / f"{name}.py", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout[:6], done.stderr) == (0, "usage:", "")

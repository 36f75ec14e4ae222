"""Projects with several configs, and a check that does harm."""

from __future__ import annotations

from pathlib import Path

from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import PATCH, UPSTREAM, UPSTREAM_TEXT, Workspace

FOLDERS = {"a": 3, "b": 3, "c": 2}
"""Folders of :func:`make_several`, and how many configs each has."""

_HARM = """
import os
import time
from pathlib import Path

import pytest

from pytest_patchgen.items import CheckItem


class Harm(CheckItem):
    check = "harm"

    def examine(self):
        {code}
        return []


def pytest_patchgen_checks(config):
    return [Harm]


def pytest_collection_modifyitems(items):
    for item in items:
        if {limited!r} and item.nodeid.endswith({limited!r}):
            item.add_marker(pytest.mark.timeout(1))
"""


def write_harm(work: Workspace, code: str = "", limited: str = "") -> None:
    """Write a conftest.py with one more check, which runs a line of code.

    Items whose id ends in ``limited`` may take a second.
    """
    work.write("conftest.py", _HARM.format(code=code, limited=limited))


def make_several(work: Workspace) -> list[Path]:
    """Write eight clean configs into three folders; returns their generated modules."""
    work.upstream(UPSTREAM_TEXT)
    for folder, count in FOLDERS.items():
        for number in range(count):
            name = f"m{number}"
            preamble = f"""
from patchgen import PatchConfig, create_patch_from_external

config = PatchConfig("{UPSTREAM}", "patched_{name}.py")
"""
            work.config(PATCH, f"{folder}/{name}_gpu_patch_gen_config.py", preamble)
    fix(work.check())
    return sorted(work.models.glob("*/generated/*.py"))


def edit(path: Path) -> None:
    """Change a generated module by hand."""
    text = path.read_text(encoding="utf-8")
    assert "return -x" in text
    path.write_text(text.replace("return -x", "return x"), encoding="utf-8")


def section(output: str, name: str) -> list[str]:
    """The lines of a section of pytest's output, without its title and without colours of rulers."""
    lines = output.splitlines()
    start = next(number for number, line in enumerate(lines) if f"= {name} =" in line)
    end = next(number for number, line in enumerate(lines[start + 1 :], start + 1) if "=====" in line)
    return lines[start + 1 : end]

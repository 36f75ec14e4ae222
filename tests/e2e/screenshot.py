"""The pictures of the README: red runs of its project, as a terminal shows them.

python -m tests.e2e.screenshot      # writes docs/red-run.svg and docs/red-parity.svg
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.e2e.test_docs import ROOT, STEPS, check_console, fences

PICTURE = ROOT / "docs" / "red-run.svg"
PARITY_PICTURE = ROOT / "docs" / "red-parity.svg"
WIDTH = 118
CONFIG = "acme/models/qwen3/qwen3_gpu_patch_gen_config.py"


def draw(folder: Path) -> str:
    """An SVG of the README's project, made in ``folder``, after its generated file was edited by hand."""
    make_project(folder)
    STEPS["red"](folder)
    return drawn(folder, "--patchgen-checks=drift,import,contract", "red-run")


def draw_parity(folder: Path) -> str:
    """An SVG of the README's project, made in ``folder``, with gate and up swapped in its config."""
    make_project(folder)
    config = folder / CONFIG
    text = config.read_text(encoding="utf-8")
    swapped = text.replace("self.gate_proj(x), self.up_proj(x)", "self.up_proj(x), self.gate_proj(x)")
    assert swapped != text
    config.write_text(swapped, encoding="utf-8")
    check_console("$ patchgen --all > generated.log\n", {}, folder)
    return drawn(folder, "--patchgen-checks=parity", "red-parity")


def make_project(folder: Path) -> None:
    """The files of the README's project, generated ones as well."""
    for language, options, text, _ in fences(ROOT / "README.md"):
        if "file" in options:
            target = folder / options["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        elif language == "console" and "patchgen acme" in text:
            check_console(text, {}, folder)


def drawn(folder: Path, option: str, name: str) -> str:
    """What pytest prints in a folder, which must be red, as an SVG."""
    command = [sys.executable, "-m", "pytest", option, "--no-header", "--color=yes", "-p", "no:randomly"]
    env = {**os.environ, "COLUMNS": str(WIDTH), "PYTEST_ADDOPTS": "", "CI": "", "GITHUB_ACTIONS": ""}
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    shown = re.sub(r"in \d+\.\d+s", "in 3.14s", run.stdout)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.assemble(("$ ", "green"), f"pytest {option}"))
    console.print(Text.from_ansi(shown.rstrip("\n")), overflow="fold")
    return console.export_svg(title=f"pytest {option}", unique_id=name)


if __name__ == "__main__":
    for picture, make in ((PICTURE, draw), (PARITY_PICTURE, draw_parity)):
        with tempfile.TemporaryDirectory() as place:
            picture.write_text(make(Path(place)), encoding="utf-8")

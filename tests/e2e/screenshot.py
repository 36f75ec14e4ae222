"""The picture of the README: the red run of its project, as a terminal shows it.

python -m tests.e2e.screenshot      # writes docs/red-run.svg
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
WIDTH = 118


def draw(folder: Path) -> str:
    """An SVG of ``pytest --patchgen`` in the README's project, which is made in ``folder``."""
    for language, options, text, _ in fences(ROOT / "README.md"):
        if "file" in options:
            target = folder / options["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        elif language == "console" and "patchgen acme" in text:
            check_console(text, {}, folder)
    STEPS["red"](folder)
    checks = "--patchgen-checks=drift,import,contract"
    command = [sys.executable, "-m", "pytest", checks, "--no-header", "--color=yes", "-p", "no:randomly"]
    env = {**os.environ, "COLUMNS": str(WIDTH), "PYTEST_ADDOPTS": "", "CI": "", "GITHUB_ACTIONS": ""}
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    shown = re.sub(r"in \d+\.\d+s", "in 3.14s", run.stdout)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.assemble(("$ ", "green"), "pytest --patchgen"))
    console.print(Text.from_ansi(shown.rstrip("\n")), soft_wrap=True)
    return console.export_svg(title="pytest --patchgen", unique_id="red-run")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PICTURE.write_text(draw(Path(folder)), encoding="utf-8")

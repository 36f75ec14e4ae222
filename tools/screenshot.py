"""The pictures of the README: red runs of its project, as a terminal shows them, and pages in a browser.

python -m tools.screenshot      # writes docs/red-run.svg, docs/red-parity.svg, docs/matrix.png, docs/upgrade.png
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
from selenium.webdriver.common.by import By

from tests.docs.test_docs import ROOT, STEPS, check_console, fences
from tests.report.browser import start_browser

PICTURE = ROOT / "docs" / "red-run.svg"
PARITY_PICTURE = ROOT / "docs" / "red-parity.svg"
MATRIX_PICTURE = ROOT / "docs" / "matrix.png"
UPGRADE_PICTURE = ROOT / "docs" / "upgrade.png"
VERSIONS = "5.16.1,5.18.0,5.19.0,5.20.2,5.21.1,5.22.2,5.23.0"
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


def make_project(folder: Path, page: Path = ROOT / "README.md") -> None:
    """The files of a page's project, of the README's generated ones as well."""
    for language, options, text, _ in fences(page):
        if "file" in options:
            target = folder / options["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        elif language == "console" and ("patchgen init" in text or "patchgen acme" in text):
            check_console(text, {}, folder)


def drawn(folder: Path, option: str, name: str) -> str:
    """What pytest prints in a folder, which must be red, as an SVG."""
    command = [sys.executable, "-m", "pytest", option, "--no-header", "--color=yes", "-p", "no:randomly"]
    env = {**os.environ, "COLUMNS": str(WIDTH), "PYTEST_ADDOPTS": "", "CI": "", "GITHUB_ACTIONS": ""}
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.assemble(("$ ", "green"), f"pytest {option}"))
    console.print(Text.from_ansi(_with_equal_time(run.stdout)), overflow="fold")
    return console.export_svg(title=f"pytest {option}", unique_id=name)


def _with_equal_time(output: str) -> str:
    """What pytest prints, its last line as if every run took the same time: its rules fill what the words leave."""
    *lines, last = output.rstrip("\n").split("\n")
    last = re.sub(r"in \d+\.\d+s", "in 3.14s", last)
    rules = WIDTH - len(re.sub(r"\x1b\[[\d;]*m", "", last).strip("="))
    left, right = rules // 2, rules - rules // 2
    return "\n".join([*lines, re.sub("=+(.*[^=])=+", rf"{'=' * left}\1{'=' * right}", last)])


def photograph_matrix(folder: Path) -> bytes:
    """A PNG of the page of the zoo's matrix. Releases that are not at hand are downloaded."""
    return photographed(["matrix", "--versions", VERSIONS], ROOT, folder, (1200, 800))


def photograph_upgrade(folder: Path) -> bytes:
    """A PNG of the page of the upgrade that docs/upgrading.md tells of, its config unfolded."""
    make_project(folder, ROOT / "docs/upgrading.md")
    STEPS["made-before"](folder)
    return photographed(["upgrade", "--to", "5.23.0"], folder, folder, (1200, 1000), is_unfolded=True)


def photographed(
    arguments: list[str], project: Path, folder: Path, size: tuple[int, int], is_unfolded: bool = False
) -> bytes:
    """A PNG of the page that a command makes.

    Args:
        arguments: of ``patchgen``, which may find that something must change.
        project: folder of the project.
        folder: folder for the page and the browser's profile.
        size: of the picture.
        is_unfolded: whether configs are unfolded.
    """
    page = folder / "page.html"
    command = [sys.executable, "-m", "patchgen_core", *arguments, "--html", str(page)]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert run.returncode < 2, run.stdout + run.stderr
    browser = start_browser(folder / "profile")
    try:
        browser.show_as(*size)
        browser.open(page)
        if is_unfolded:
            browser.find_element(By.ID, "unfold").click()
            browser.run("document.activeElement.blur(); scrollTo(0, 0)")
        return browser.get_screenshot_as_png()
    finally:
        browser.quit()


if __name__ == "__main__":
    for picture, make in ((PICTURE, draw), (PARITY_PICTURE, draw_parity)):
        with tempfile.TemporaryDirectory() as place:
            picture.write_text(make(Path(place)), encoding="utf-8")
    for picture, photograph in ((MATRIX_PICTURE, photograph_matrix), (UPGRADE_PICTURE, photograph_upgrade)):
        with tempfile.TemporaryDirectory() as place:
            picture.write_bytes(photograph(Path(place)))

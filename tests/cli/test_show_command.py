"""``patchgen show`` prints upstream's text of a target beside what configs make of it."""

from __future__ import annotations

import json
import os

import pytest

from patchgen_core.cli.main import main
from tests.conftest import Workspace

UPSTREAM = """
class Norm:
    def forward(self, x):
        x = x * 2
        return x


def rotate(x):
    return x
"""
EDIT = """
        @config.edit_method("Norm.forward", at="x = {place}")
        def shift(x):
            ...
            x = x + 1
        """


def show(
    work: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str]:
    """The exit code of the command, and what it prints."""
    monkeypatch.chdir(work.root)
    code = main(["show", *arguments])
    captured = capsys.readouterr()
    return code, (captured.out + captured.err).replace(f"{work.root}{os.sep}", "")


def test_lines_that_go_and_come_stand_in_upstreams_text(
    work: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work.upstream(UPSTREAM)
    work.config(EDIT.format(place="x * 2"))
    assert show(work, capsys, monkeypatch, "Norm.forward") == (
        0,
        "proj.models.toy.toy_gpu_patch_gen_config: Norm.forward of acme.models.toy.modeling_toy\n"
        "3       def forward(self, x):\n4           x = x * 2\n  +         x = x + 1\n5           return x\n",
    )
    code, printed = show(work, capsys, monkeypatch, "Norm.forward", "--json")
    assert code == 0
    assert [None, "+", "        x = x + 1"] in json.loads(printed)[0]["lines"]


def test_a_config_with_errors_shows_upstreams_text(
    work: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work.upstream(UPSTREAM)
    work.config(EDIT.format(place="x * 3"))
    code, printed = show(work, capsys, monkeypatch, "Norm.forward")
    assert code == 2
    assert "3       def forward(self, x):\n4           x = x * 2\n5           return x\n" in printed
    assert "has no 'x = x * 3'\n  Nearest: line 4: x = x * 2\n" in printed


def test_a_target_that_upstream_lacks_is_an_error(
    work: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work.upstream(UPSTREAM)
    work.config("")
    assert show(work, capsys, monkeypatch, "rotat") == (
        2,
        "error: no config's upstream module defines 'rotat'\n  Did you mean 'rotate'?\n",
    )
    assert show(work, capsys, monkeypatch, "rotate")[1].endswith("8   def rotate(x):\n9       return x\n")


WIDE = f"""
class Norm:
    def forward(self, x):
        first = self.scale_of_everything(x, {", ".join(f"option_{number}=True" for number in range(6))})
        x = x * 2

        other = {{'quoted': self.scale_of_everything(x, {", ".join(f"option_{number}=True" for number in range(6))})}}
        return first, other, x
"""


def test_lines_that_the_project_lays_out_otherwise_are_upstreams(
    work: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work.upstream(WIDE)
    work.config(EDIT.format(place="x * 2"))
    (work.root / "pyproject.toml").write_text(
        f"{(work.root / 'pyproject.toml').read_text()}\n[tool.ruff]\nline-length = 60\n"
    )
    code, printed = show(work, capsys, monkeypatch, "Norm.forward", "--json")
    lines = json.loads(printed)[0]["lines"]
    assert (code, [mark for _, mark, _ in lines]) == (0, [" ", " ", " ", "+", " ", " ", " "])
    assert [line for _, mark, line in lines if mark == " "] == WIDE.split("\n")[2:-1]

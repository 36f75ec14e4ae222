"""What stands at the cursor when somebody presses Tab, asked as bash asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.cli.completion import SHELLS
from patchgen_core.cli.main import main
from tests.cli.test_subcommands import two
from tests.conftest import Workspace

__all__ = ["two"]
TAB = """
source <(patchgen completion bash)
COMP_LINE="$1"; COMP_POINT=${#1}; COMP_TYPE=9
_python_argcomplete patchgen
printf '%s\\n' "${COMPREPLY[@]}"
"""
TOY, OTHER = "proj.models.toy.toy_gpu_patch_gen_config", "proj.models.other.other_patch_gen_config"


def complete(work: Workspace, line: str, folder: str = ".") -> set[str]:
    """The words that bash offers at the end of a line."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join([str(work.site), *sys.path])}
    command = ["bash", "-c", TAB, "bash", line]
    done = subprocess.run(command, cwd=work.root / folder, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    return {word.strip() for word in done.stdout.splitlines() if word.strip()}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("patchgen ch", {"check"}),
        ("patchgen gate proj.models.t", {TOY}),
        ("patchgen --project . check proj.", {TOY, OTHER}),
        ("patchgen check --stat", {"--statistics"}),
        ("patchgen gate --checks drift,imp", {"drift,import"}),
        ("patchgen check --select PG202,PG204", {"PG202,PG204"}),
        ("patchgen rule PG204", {"PG204"}),
        ("patchgen check proj/models/toy/", {"proj/models/toy/toy_gpu_patch_gen_config.py"}),
        ("patchgen help wat", {"watch"}),
    ],
)
@pytest.mark.mostly_slow(2)
def test_what_may_stand_at_the_cursor_is_offered(two: Workspace, line: str, words: set[str]) -> None:
    assert complete(two, line) == words


def test_without_a_project_paths_are_offered(two: Workspace) -> None:
    assert complete(two, "patchgen check ../work/pr", "../site") == {"../work/proj/"}


@pytest.mark.torch
def test_model_types_are_offered(two: Workspace) -> None:
    offered = complete(two, "patchgen new qwen3_v")
    assert "qwen3_vl_moe" in offered
    assert all(name.startswith("qwen3_v") for name in offered)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "patchgen" in capsys.readouterr().out


def test_without_argcomplete_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.setitem(sys.modules, "argcomplete.shell_integration", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install 'pytest-patchgen[completion]'" in capsys.readouterr().err

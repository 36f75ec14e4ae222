"""`run_codegen`, and commands of one's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchgen import (
    build_check_cli,
    build_run_codegen_cli,
    run_codegen,
)
from patchgen_core.errors import PatchgenError
from tests.api.toy_project import GENERATED, MODULE, PATCH, command_line_text, discovery
from tests.conftest import Workspace

# --- run_codegen -----------------------------------------------------------------------------------


def test_run_codegen_says_what_it_wrote(toy: Workspace) -> None:
    project = discovery(toy, root=toy.root)
    path = toy.models / GENERATED
    (planned,) = run_codegen(MODULE, dry_run=True, save_diff=True, project=project)
    assert (planned.written, path.exists()) == ((), False)
    assert [r.written for r in run_codegen(MODULE, project=project)] == [(path,)]
    config = path.parents[1] / "toy_gpu_patch_gen_config.py"
    assert [r.written for r in run_codegen(str(config), project=project)] == [()]
    assert [r.written for r in run_codegen(MODULE, save_diff=True, project=project)] == [(path.with_suffix(".diff"),)]
    assert path.read_text() == planned.artifact.text
    assert path.with_suffix(".diff").read_text() == planned.artifact.diff


def test_run_codegen_into_another_folder(toy: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.root)
    (result,) = run_codegen(MODULE, "build/out")
    assert result.written == (toy.root / "build/out/patched_modeling_toy_gpu.py",)
    assert result.written[0].read_text() == command_line_text(toy)


def test_run_codegen_of_one_variable(toy: Workspace) -> None:
    toy.config(f'{PATCH}second = PatchConfig("{toy.plan().upstream.module}", "second.py")\n')
    project = discovery(toy, root=toy.root)
    both = run_codegen(MODULE, dry_run=True, project=project)
    assert [result.artifact.path.name for result in both] == ["patched_modeling_toy_gpu.py", "second.py"]
    (result,) = run_codegen(MODULE, config_name="second", project=project)
    assert result.written == (toy.models / "toy/generated/second.py",)


def test_run_codegen_writes_nothing_when_one_of_two_fails(toy: Workspace) -> None:
    toy.config(f'{PATCH}second = PatchConfig("{toy.plan().upstream.module}", "s.py")\nsecond.exclude.append("No")\n')
    with pytest.raises(PatchgenError, match="upstream defines no 'No'"):
        run_codegen(MODULE, project=discovery(toy, root=toy.root))
    assert not (toy.models / "toy/generated").exists()


# --- commands of one's own -------------------------------------------------------------------------


def test_commands_return_exit_codes(toy: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    project = discovery(toy, root=toy.root)
    generate, check = build_run_codegen_cli(project), build_check_cli(project)
    assert check([]) == 1
    assert generate([MODULE, "--diff"]) == 0
    assert check([]) == 0
    (toy.models / GENERATED).write_text("# edited\n")
    capsys.readouterr()
    assert check([MODULE, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["exit_code"] == 1
    assert check(["--fix"]) == 0
    assert generate(["proj.models.nowhere"]) == 2
    toy.config("1 / 0\n")
    assert check([]) == 2


@pytest.mark.parametrize("build", [build_run_codegen_cli, build_check_cli])
def test_commands_read_the_arguments_of_the_process(
    toy: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], build: Callable[..., Any]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mine", "--no-such-flag"])
    with pytest.raises(SystemExit) as caught:
        build(discovery(toy), prog="mine")()
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("mine: error: unrecognized arguments: --no-such-flag\n")
    assert "'mine --help'" in said


@pytest.mark.parametrize(("build", "prog"), [(build_run_codegen_cli, "patchgen"), (build_check_cli, "patchgen-check")])
def test_commands_have_a_name_by_default(
    toy: Workspace, capsys: pytest.CaptureFixture[str], build: Callable[..., Any], prog: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        build(discovery(toy))(["--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {prog} SUBCOMMAND ...\n")


def test_commands_need_no_pyproject(toy: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project = discovery(toy, ruff_isolated=True, root=toy.root)
    (toy.root / "pyproject.toml").unlink()
    monkeypatch.chdir(tmp_path)
    assert build_run_codegen_cli(project)(["--all", "--diff"]) == 0
    assert build_check_cli(project)([]) == 0
    assert run_codegen(MODULE, project=project)[0].written == ()

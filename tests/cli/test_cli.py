"""The ``patchgen`` command, as a process of its own."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen import DiscoveryConfig, build_check_cli, build_run_codegen_cli, list_patch_configs, run_codegen
from patchgen_core.errors import PatchgenError
from tests.conftest import TABLE, Workspace

MODULE = "proj.models.toy.toy_gpu_patch_gen_config"
OTHER = "proj.models.other.other_patch_gen_config"
UPSTREAM = """
class Norm:
    def forward(self, x):
        return x
"""
PATCH = """
@config.override_method("Norm.forward", description="Twice as much")
def norm_forward(self, x):
    return x * 2
"""


@pytest.fixture
def two(work: Workspace) -> Workspace:
    """A project of two configs that were never generated."""
    work.upstream(UPSTREAM)
    work.config(PATCH)
    path = work.config("", "other/other_patch_gen_config.py")
    path.write_text(path.read_text().replace("toy_gpu.py", "other.py"))
    return work


def files(work: Workspace) -> list[str]:
    return sorted(path.relative_to(work.models).as_posix() for path in work.models.rglob("generated/*"))


def test_list(two: Workspace) -> None:
    done = two.patchgen("--list")
    assert (done.returncode, done.stdout) == (0, f"{OTHER}\n{MODULE}\n")
    rows = json.loads(two.patchgen("--list", "--json").stdout)
    assert rows[1] == {"config": MODULE, "path": "proj/models/toy/toy_gpu_patch_gen_config.py"}


def test_generate_one_config(two: Workspace) -> None:
    two.write("pyproject.toml", TABLE.replace("diffs = true\n", ""))
    done = two.patchgen(MODULE)
    assert (done.returncode, done.stdout) == (0, "wrote    proj/models/toy/generated/patched_modeling_toy_gpu.py\n")
    assert files(two) == ["toy/generated/patched_modeling_toy_gpu.py"]
    assert two.patchgen(MODULE).stdout == "same     proj/models/toy/generated/patched_modeling_toy_gpu.py\n"


def test_generate_with_diff_into_another_folder(two: Workspace) -> None:
    assert two.patchgen("proj/models/toy/toy_gpu_patch_gen_config.py", "--diff", "-o", "out").returncode == 0
    assert files(two) == []
    assert sorted(os.listdir(two.root / "out")) == ["patched_modeling_toy_gpu.diff", "patched_modeling_toy_gpu.py"]
    diff = (two.root / "out/patched_modeling_toy_gpu.diff").read_text()
    assert diff.startswith("--- acme/models/toy/modeling_toy.py\n+++ generated/patched_modeling_toy_gpu.py\n")
    assert "-        return x\n+        return x * 2\n" in diff


def test_dry_run_shows_file_and_diff_and_writes_nothing(two: Workspace) -> None:
    done = two.patchgen(MODULE, "--dry-run")
    assert done.returncode == 0
    assert done.stdout.startswith("would write  proj/models/toy/generated/patched_modeling_toy_gpu.py (")
    assert "-        return x\n+        return x * 2\n" in done.stdout
    assert files(two) == []


def test_all_then_check_is_clean(two: Workspace) -> None:
    assert two.patchgen("--all", "--diff").returncode == 0
    assert len(files(two)) == 4
    done = two.patchgen("--check")
    assert (done.returncode, done.stdout) == (0, "2 configs: 2 clean.\n")
    assert two.patchgen("check", "-v").stdout.splitlines()[0] == f"clean    {OTHER}"


def test_all_writes_nothing_when_one_config_is_broken(two: Workspace) -> None:
    two.config("config.exclude_from_output('Nrom')\n")
    done = two.patchgen("--all", "--diff")
    assert done.returncode == 2
    assert done.stderr == (
        "proj/models/toy/toy_gpu_patch_gen_config.py:5: error: exclude_from_output: upstream defines no 'Nrom'\n"
        "  Did you mean 'Norm'?\n"
    )
    assert files(two) == []


def test_check_reports_and_fix_mends(two: Workspace) -> None:
    two.patchgen("--all", "--diff")
    path = two.models / "toy/generated/patched_modeling_toy_gpu.py"
    path.write_text(path.read_text().replace("x * 2", "x * 3"))
    done = two.patchgen("--check")
    assert done.returncode == 1
    assert f"drifted  {MODULE}  edited by hand: Norm.forward changed\n" in done.stdout
    assert "-        return x * 3\n+        return x * 2\n" in done.stdout
    assert done.stdout.endswith(
        "Run 'patchgen --check --fix' to rewrite what drifted.\n"
        "Run 'patchgen absorb' to turn what was edited by hand into patches instead.\n"
    )
    fixed = two.patchgen("--check", "--fix")
    assert fixed.returncode == 0
    assert f"fixed    {MODULE}" in fixed.stdout
    assert two.patchgen("--check").returncode == 0


def test_check_of_chosen_configs(two: Workspace) -> None:
    two.patchgen("--all", "--diff")
    (two.models / "toy/generated/patched_modeling_toy_gpu.py").unlink()
    assert two.patchgen("--check", OTHER).returncode == 0
    assert two.patchgen("--check", MODULE).returncode == 1


def test_check_as_json(two: Workspace) -> None:
    two.patchgen("--all", "--diff")
    (two.models / "toy/generated/patched_modeling_toy_gpu.py").unlink()
    done = two.patchgen("--check", "--json")
    data = json.loads(done.stdout)
    assert (done.returncode, data["exit_code"], data["schema"]) == (1, 1, 1)
    assert [(c["config"], c["status"]) for c in data["configs"]] == [(OTHER, "clean"), (MODULE, "drifted")]
    assert data["configs"][1]["causes"] == [
        {"kind": "missing", "detail": "patched_modeling_toy_gpu.py does not exist", "upstream_diff": None}
    ]


def test_errors_as_json(two: Workspace) -> None:
    done = two.patchgen("proj.models.toy.toy_gpu_patch_gen_confg", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["errors"][0]["hint"] == f"Did you mean '{MODULE}'?"


def test_broken_config_fails_the_check_by_name(two: Workspace) -> None:
    two.patchgen("--all", "--diff")
    two.config("1 / 0\n")
    done = two.patchgen("--check")
    assert done.returncode == 2
    assert f"error    {MODULE}\n" in done.stdout
    assert "toy_gpu_patch_gen_config.py:5: error: the config cannot be loaded: ZeroDivisionError" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


USAGE_ERRORS = {
    "--fix": "--fix needs --check",
    "--prune --check": "--prune needs --check --fix",
    f"--all {MODULE}": "--all and --list take no config",
    "--check --dry-run": "--check does not go with --list, --dry-run or --diff",
    "--all -o out": "--output-dir needs the name of a config",
    "": "name a config, or give --all, --list, --check or --watch",
    "--no-such-flag": "unrecognized arguments: --no-such-flag",
}


@pytest.mark.parametrize("arguments", USAGE_ERRORS)
def test_usage_errors_exit_with_2_and_say_where_help_is(two: Workspace, arguments: str) -> None:
    done = two.patchgen(*arguments.split())
    assert done.returncode == 2
    assert f"error: {USAGE_ERRORS[arguments]}\n" in done.stderr
    assert "Run 'patchgen --help' for subcommands and flags.\n" in done.stderr
    assert files(two) == []


def test_a_label_with_a_variable_says_how_to_name_it(two: Workspace) -> None:
    done = two.patchgen("--check", f"{MODULE}:second")
    assert done.returncode == 2
    assert f"Write '{MODULE} -c second'." in done.stderr


def test_outside_of_a_project(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "patchgen_core", "--list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no pyproject.toml with a [tool.patchgen] table in ")


def on_a_terminal(work: Workspace, *arguments: str, **environment: str) -> str:
    main, terminal = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(work.site), "TERM": "xterm-256color", **environment}
    command = [sys.executable, "-m", "patchgen_core", *arguments]
    process = subprocess.Popen(command, cwd=work.root, env=env, stdout=terminal, stderr=terminal)
    os.close(terminal)
    said = b""
    while True:
        try:
            chunk = os.read(main, 65536)
        except OSError:
            break
        if not chunk:
            break
        said += chunk
    process.wait()
    os.close(main)
    return said.decode()


def test_colours_on_a_terminal_and_not_elsewhere(two: Workspace) -> None:
    assert "\x1b[32mwrote" in on_a_terminal(two, MODULE)
    assert "\x1b[32m" not in on_a_terminal(two, MODULE, "--dry-run", "--no-color")
    assert "\x1b[32m" not in on_a_terminal(two, MODULE, "--dry-run", NO_COLOR="1")
    assert "\x1b" not in two.patchgen(MODULE, "--dry-run").stdout


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        ([], {}),
        (["--no-color"], {}),
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
        ([], {"TERM": ""}),
        ([], {"FORCE_COLOR": "1"}),
        (["--no-color"], {"FORCE_COLOR": "1"}),
        ([], {"FORCE_COLOR": "1", "TERM": "dumb"}),
        ([], {"TTY_COMPATIBLE": "0"}),
        ([], {"TTY_COMPATIBLE": "1"}),
    ],
)
@pytest.mark.mostly_slow(1)
def test_summary_looks_the_same_where_it_is_all_there_is(
    gated: Workspace, arguments: list[str], environment: dict[str, str]
) -> None:
    in_pipe = gated.patchgen("--check", *arguments, **environment).stdout.splitlines()
    assert in_pipe == gated.patchgen("--check", "-v", *arguments, **environment).stdout.splitlines()[-1:]
    on_terminal = on_a_terminal(gated, "--check", *arguments, **environment).splitlines()
    assert on_terminal == on_a_terminal(gated, "--check", "-v", *arguments, **environment).splitlines()[-1:]
    assert all("1 config: 1 clean." in lines[0] for lines in (in_pipe, on_terminal))


def test_commands_of_a_project_given_in_code(two: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    discovery = DiscoveryConfig(search_root=two.models, package_prefix="proj.models", root=two.root)
    assert list_patch_configs(discovery) == [OTHER, MODULE]
    assert build_run_codegen_cli(discovery)(["--all", "--diff"]) == 0
    assert build_check_cli(discovery)([]) == 0
    assert capsys.readouterr().out.endswith("2 configs: 2 clean.\n")
    (result,) = run_codegen(MODULE, project=discovery)
    assert result.written == ()
    with pytest.raises(PatchgenError, match=r"there is no patch config 'proj\.models\.no'"):
        run_codegen("proj.models.no", project=discovery)


def test_nothing_heavy_is_imported_by_a_check(two: Workspace) -> None:
    two.patchgen("--all", "--diff")
    code = (
        "import sys; from patchgen_core.cli.main import main; code = main(['--check']); "
        "print([m for m in ('torch', 'transformers', 'libcst', 'pytest') if m in sys.modules], code)"
    )
    env = {**os.environ, "PYTHONPATH": str(two.site)}
    done = subprocess.run([sys.executable, "-c", code], cwd=two.root, env=env, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[] 0"

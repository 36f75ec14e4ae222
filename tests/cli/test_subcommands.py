"""Subcommands: their help, words that are near to one, and what they take: folders, files, modules and node ids, of
one project or of several."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from patchgen_core.cli.subcommands import GROUPS
from tests.conftest import CONFIG, ROOT, TABLE, Workspace, generated

MODULE = "proj.models.toy.toy_gpu_patch_gen_config"
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


def run(folder: Path, work: Workspace, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, in another folder than the project's."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(work.root), *sys.path])}
    command = [sys.executable, "-m", "patchgen_core", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_help_lists_every_subcommand_there_is(work: Workspace) -> None:
    modules = {path.stem for path in (ROOT / "patchgen_core/cli/commands").glob("[a-z]*.py")}
    listed = {name for commands in GROUPS.values() for name in commands}
    assert listed == {*modules, "lsp", "serve"}
    for arguments in (["--help"], ["help"]):
        said = work.patchgen(*arguments).stdout
        assert all(f"\n  {name} " in said for name in listed)


@pytest.mark.parametrize("word", ["check", "fix", "gate", "watch"])
def test_the_help_of_a_subcommand_is_its_own(work: Workspace, word: str) -> None:
    said = work.patchgen(word, "--help").stdout
    assert said.startswith(f"usage: patchgen {word} [-h]")
    assert work.patchgen("help", word).stdout.startswith(f"usage: patchgen {word} [-h]")


def test_version(work: Workspace) -> None:
    assert work.patchgen("--version").stdout == f"patchgen {version('pytest-patchgen')}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("chek", "there is no subcommand 'chek'\n  Did you mean 'check'?"),
        ("chek --html a.html", "there is no subcommand 'chek'\n  Did you mean 'check'?"),
        ("gat some/folder", "there is no subcommand 'gat'\n  Did you mean 'gate'?"),
        ("help lst", "there is no subcommand 'lst'\n  Did you mean 'list'?"),
        ("zebra", "there is no subcommand 'zebra', and there is no patch config 'zebra' in this project"),
    ],
)
def test_a_word_that_is_no_subcommand_gets_the_nearest(two: Workspace, arguments: str, message: str) -> None:
    done = two.patchgen(*arguments.split())
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")


def test_what_is_wrong_with_the_settings_has_its_line_beside_a_word_that_is_no_subcommand(two: Workspace) -> None:
    with (two.root / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write('kernel = ["acme"]\n')
    line = (two.root / "pyproject.toml").read_text(encoding="utf-8").count("\n")
    done = two.patchgen("zebra")
    message = "there is no subcommand 'zebra', and [tool.patchgen] has no key 'kernel'\n  Did you mean 'kernels'?\n"
    assert (done.returncode, done.stderr) == (2, f"pyproject.toml:{line}: error: {message}")


def test_subcommands_do_what_the_flags_do(two: Workspace) -> None:
    assert two.patchgen("list").stdout == two.patchgen("--list").stdout
    assert two.patchgen("fix").returncode == 0
    assert two.patchgen("--check").stdout == two.patchgen("check").stdout.replace("contracts: kept.\n", "")
    done = two.patchgen("generate", MODULE, "--dry-run", "--json")
    assert json.loads(done.stdout)["generated"][0]["config"] == MODULE


FILE = f"proj/models/toy/{Path(CONFIG).name}"
NAMES = {"module": MODULE, "file": FILE, "folder": "proj/models/toy", "node id": f"{FILE}::drift"}
NAMED = [("check", name) for name in NAMES]
NAMED += [(subcommand, "folder") for subcommand in ("fix", "gate --checks drift", "generate", "slim", "absorb")]


@pytest.mark.parametrize(("subcommand", "name"), NAMED)
@pytest.mark.mostly_slow(4)
def test_configs_are_named_by_module_file_folder_or_node_id(two: Workspace, subcommand: str, name: str) -> None:
    two.patchgen("--all")
    done = two.patchgen(*subcommand.split(), NAMES[name], "--json")
    assert done.returncode == 0, done.stderr
    assert "other_patch_gen_config" not in done.stdout


def test_gate_runs_the_one_item_of_a_node_id(two: Workspace) -> None:
    two.patchgen("--all")
    done = two.patchgen("gate", f"{FILE}::drift", "--json")
    assert [result["check"] for result in json.loads(done.stdout)["results"]] == ["drift"]
    done = two.patchgen("gate", f"{FILE}::drft")
    assert (done.returncode, done.stderr.partition("\n  ")[2]) == (2, "Did you mean 'drift'?\n")


@pytest.mark.slow
def test_a_path_brings_its_project(two: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    two.patchgen("--all")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in (two.root / "proj/models/toy", two.models / CONFIG):
        done = run(elsewhere, two, "check", str(name))
        assert (done.returncode, done.stdout) == (0, "1 config: 1 clean.\ncontracts: kept.\n"), done.stderr
    done = run(elsewhere, two, "check")
    assert done.returncode == 2
    assert "no pyproject.toml" in done.stderr
    for arguments in (["--project", str(two.root), "check"], ["check", f"--project={two.root}"]):
        assert run(elsewhere, two, *arguments).stdout.startswith("2 configs: 2 clean.\n")


@pytest.mark.slow
def test_one_run_checks_several_projects(two: Workspace) -> None:
    """As a hook of a repository that has several does."""
    two.patchgen("--all")
    second = two.root.parent / "second"
    (second / "proj/models/toy").mkdir(parents=True)
    (second / "pyproject.toml").write_text(TABLE)
    (second / "proj/models/toy/toy_gpu_patch_gen_config.py").write_text((two.models / CONFIG).read_text())
    done = run(two.root.parent, two, "check", ".")
    assert done.returncode == 1
    assert "2 configs: 2 clean." in done.stdout
    assert "1 config: 1 drifted." in done.stdout
    data = json.loads(run(two.root.parent, two, "check", two.root.name, "second", "--json").stdout)
    assert ([row["status"] for row in data["configs"]], data["exit_code"]) == (["clean", "clean", "drifted"], 1)
    assert run(two.root.parent, two, "fix", "second").returncode == 0
    assert run(two.root.parent, two, "check", ".").returncode == 0
    done = run(two.root.parent, two, "generate", ".")
    assert done.returncode == 2
    assert "these are configs of several projects" in done.stderr


def test_a_folder_without_a_project_is_an_error(two: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    done = run(two.root, two, "check", str(tmp_path_factory.mktemp("nothing")))
    assert done.returncode == 2
    assert "there is no project in" in done.stderr


def test_statistics_and_exit_zero(two: Workspace) -> None:
    done = two.patchgen("check", "--statistics", "--exit-zero")
    assert done.returncode == 0
    assert done.stdout.endswith("    2  drifted\n")
    data = json.loads(two.patchgen("check", "--statistics", "--json").stdout)
    assert (data["exit_code"], data["statistics"]) == (1, {"drifted": 2})


# --- formats of findings ----------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "code"), [(["check"], 2), (["--check", "--select", "PG"], 2), (["gate"], 2)])
def test_findings_are_printed_for_github_and_for_code_scanning(
    two: Workspace, arguments: list[str], code: int
) -> None:
    two.config("@config.override_method('Norm.forward')\ndef f(self, x):\n    return mistake\n")
    two.write("proj/models/toy/generated/patched_other.py", "# Generated by patchgen.\n")
    github = two.patchgen(*arguments, "--output-format", "github", GITHUB_WORKSPACE=str(two.root.parent))
    assert github.returncode == code, github.stderr
    path = "work/proj/models/toy/toy_gpu_patch_gen_config.py"
    assert any(line.startswith(f"::error file={path},line=") for line in github.stdout.splitlines())
    assert all(line.startswith("::") for line in github.stdout.splitlines())
    sarif = two.patchgen(*arguments, "--output-format", "sarif")
    assert sarif.returncode == code
    found = json.loads(sarif.stdout)["runs"][0]["results"]
    assert len(found) == len(github.stdout.splitlines())
    assert {one["ruleId"] for one in found} == {"drift", "PG204"}


def test_json_is_a_format_and_an_unknown_one_is_refused(two: Workspace) -> None:
    plain, long = (two.patchgen("check", *words) for words in (["--json"], ["--output-format", "json"]))
    assert plain.stdout == long.stdout
    assert json.loads(plain.stdout)["exit_code"] == 1
    refused = two.patchgen("check", "--output-format", "xml")
    assert refused.returncode == 2
    assert "invalid choice: 'xml'" in refused.stderr
    for arguments in (["check", "--statistics"], ["--all"]):
        refused = two.patchgen(*arguments, "--output-format", "sarif")
        assert refused.returncode == 2
        assert "sarif" in refused.stderr


def test_orphans_are_findings_of_every_format(two: Workspace) -> None:
    two.patchgen("generate")
    (two.models / "other/other_patch_gen_config.py").unlink()
    for arguments in (["check"], ["gate", "--checks", "drift"]):
        said = two.patchgen(*arguments, "--output-format", "github")
        assert said.returncode == 1
        assert "file=pyproject.toml" in said.stdout
        assert "other/generated/patched_modeling_other.py%3A" not in said.stdout
        assert "orphan: proj/models/other/generated/patched_modeling_other.py" in said.stdout


def test_the_fix_that_is_named_keeps_the_paths(gated: Workspace) -> None:
    generated(gated).unlink()
    done = gated.patchgen("check", "proj/models/toy")
    assert "Run 'patchgen fix proj/models/toy' to rewrite what drifted." in done.stdout


@pytest.mark.slow
def test_hooks_of_pre_commit_take_every_project_of_a_repository(gated: Workspace, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    for name in ("one", "two"):
        shutil.copytree(gated.root, repository / name)
    broken = repository / "two" / generated(gated).relative_to(gated.root)
    broken.write_text(broken.read_text(encoding="utf-8").replace("x * 2", "x * 3"), encoding="utf-8")
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    check, fix = (line.partition("patchgen ")[2].split() for line in text.splitlines() if "  entry: " in line)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(gated.site), *sys.path])}
    codes = []
    for arguments in (check, fix, check):
        command = [sys.executable, "-m", "patchgen_core", *arguments]
        done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)
        codes.append(done.returncode)
        assert done.stdout.startswith("one:\n1 config: 1 clean.\n"), done.stdout + done.stderr
    assert codes == [1, 0, 0]


def test_dir_of_the_package_lists_what_it_offers() -> None:
    code = "import patchgen, patchgen_core; print(*dir(patchgen), *dir(patchgen_core))"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"PatchConfig", "Edits", "run_codegen", "PatchgenError", "load_project"} <= set(names)

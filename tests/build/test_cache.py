"""Results that are kept: what is found again, and what is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.build import artifacts, normalize
from patchgen_core.build.cache import generator_files
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.codegen import generate
from patchgen_core.project.cache_folder import ENVIRONMENT
from patchgen_core.project.table import load_project
from patchgen_core.report.drift.json import drift_data
from tests.build.cached import (
    BASE,
    FAMILY,
    HEIR,
    OTHER,
    WITHOUT_LOADING,
    Checked,
    checked,
    entries,
    preamble,
    rewrite,
    same,
)
from tests.conftest import CONFIG, PATCH, PREAMBLE, ROOT, UPSTREAM, UPSTREAM_TEXT, Workspace, generated

# --- what is found again ---------------------------------------------------------------------------


def test_unchanged_project_is_checked_without_loading_a_config(family: Workspace) -> None:
    before = {path: path.stat().st_mtime_ns for path in family.models.rglob("*")}
    code = WITHOUT_LOADING.format(arguments=["--check"])
    env = {**os.environ, "PYTHONPATH": str(family.site)}
    done = subprocess.run([sys.executable, "-c", code], cwd=family.root, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "cache\n")
    assert {path: path.stat().st_mtime_ns for path in family.models.rglob("*")} == before


def test_edit_regenerates_the_config_and_its_heirs_only(family: Workspace) -> None:
    family.config(PATCH.replace("x * 2", "x * 4"), BASE)
    found = same(family)
    assert found.reused == ["other"]
    assert [result.status for result in found.report.results] == ["drifted", "clean", "drifted"]
    fix(found.report)
    assert same(family).reused == FAMILY


def test_a_result_holds_without_the_diff_only_where_the_project_keeps_none(family: Workspace) -> None:
    for path in family.models.rglob("*.diff"):
        path.unlink()
    assert same(family).reused == []
    table = (family.root / "pyproject.toml").read_text()
    family.write("pyproject.toml", table.replace("diffs = true", "diffs = false"))
    assert same(family).reused == FAMILY


def test_edit_that_is_taken_back_is_found_again(family: Workspace) -> None:
    family.config(PATCH.replace("x * 2", "x * 4"), OTHER, preamble("other.py"))
    checked(family)
    family.config(PATCH.replace("x * 2", "x * 3"), OTHER, preamble("other.py"))
    assert same(family).reused == FAMILY


def test_first_generation_is_kept_for_the_check(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(PATCH)
    assert work.patchgen("--all", "--diff").returncode == 0
    assert same(work).reused == ["toy"]


def test_results_are_shared_with_another_checkout(family: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(family.root.parent / "shared"))
    checked(family)
    other = family.root.parent / "another" / "checkout"
    shutil.copytree(family.root, other)
    shutil.rmtree(family.root)
    project = load_project(other)
    assert Checked(project).reused == FAMILY


def test_cache_is_where_the_project_says_and_the_environment_wins(
    gated: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = gated.root / "pyproject.toml"
    settings.write_text(settings.read_text() + 'cache_dir = "build/kept"\n')
    checked(gated)
    assert list((gated.root / "build/kept/results").iterdir())
    assert not (gated.root / ".patchgen_cache").exists()
    monkeypatch.setenv(ENVIRONMENT, str(gated.root.parent / "elsewhere"))
    checked(gated)
    assert list((gated.root.parent / "elsewhere/results").iterdir())


# --- what is not -----------------------------------------------------------------------------------


CHANGES: dict[str, Callable[[Workspace], object]] = {
    "the module": lambda work: rewrite(generated(work), "x + 1", "x + 2"),
    "its diff": lambda work: rewrite(generated(work, ".diff"), "x * 2", "x * 3"),
    "no module": lambda work: generated(work).unlink(),
    "no diff": lambda work: generated(work, ".diff").unlink(),
    "line endings": lambda work: rewrite(generated(work), "\n", "\r\n"),
    "upstream": lambda work: work.upstream(UPSTREAM_TEXT.replace("-x", "+x")),
    "upstream's version": lambda work: work.upstream(UPSTREAM_TEXT, version="1.1"),
    "upstream gone": lambda work: (work.site / f"{UPSTREAM.replace('.', '/')}.py").unlink(),
    "ruff's settings": lambda work: work.write(
        "ruff.toml", "[format]\nquote-style = 'single'\nindent-style = 'tab'\n"
    ),
    "nearer settings": lambda work: work.write("proj/models/toy/.ruff.toml", "[format]\nindent-style = 'tab'\n"),
    "the option": lambda work: rewrite(work.root / "pyproject.toml", '"proj.models"', '"models"'),
    "the config": lambda work: rewrite(work.models / CONFIG, "x * 2", "x * 5"),
    "a broken config": lambda work: rewrite(work.models / CONFIG, "x * 2", "x *"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.mostly_slow(6)
def test_change_is_noticed(gated: Workspace, change: str) -> None:
    checked(gated)
    CHANGES[change](gated)
    found = same(gated)
    assert (found.reused, found.report.exit_code) != (["toy"], 0)
    fix(found.report)
    same(gated)


def test_upstream_that_becomes_a_package_is_noticed(work: Workspace) -> None:
    module = work.upstream(f"from .parts import part\n{UPSTREAM_TEXT}\n\nwhole = part\n")
    work.config(PATCH)
    fix(checked(work).report)
    (module.with_suffix("")).mkdir()
    module.rename(module.with_suffix("") / "__init__.py")
    assert same(work).report.exit_code == 1


@pytest.mark.parametrize(
    ("settings", "module"),
    [
        ("", "fastops.py"),
        ("", "src/fastops/__init__.py"),
        ('src = ["libs/*"]', "libs/one/fastops/__init__.py"),
        ('src = ["$LIBS"]', "libs/one/fastops/__init__.py"),
        ('extend = "shared.toml"', "inner/fastops.py"),
    ],
)
@pytest.mark.mostly_slow(2)
def test_module_that_import_sorting_takes_for_the_projects_own_is_noticed(
    work: Workspace, settings: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBS", "libs/one")
    work.write("shared.toml", 'src = ["inner"]\n')
    with (work.root / "pyproject.toml").open("a") as file:
        file.write(f'[tool.ruff]\n{settings}\nlint.select = ["I"]\n')
    work.upstream(f"import torch\n{UPSTREAM_TEXT}")
    work.config(PATCH + 'config.add_import("fastops")\n')
    fix(checked(work).report)
    assert same(work).reused == ["toy"]
    work.write(module, "")
    assert same(work).report.exit_code == 1


@pytest.mark.parametrize("path", ["extra.py", "extra/__init__.py", "extra/notes.txt"])
@pytest.mark.parametrize("form", ["from proj.models import extra", "import proj.models.extra"])
@pytest.mark.mostly_slow(2)
def test_module_of_the_project_that_comes_is_noticed(work: Workspace, path: str, form: str) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(f"try:\n    {form}\n    config.description = 'extra'\nexcept ImportError: ...\n{PATCH}")
    fix(checked(work).report)
    assert same(work).reused == ["toy"]
    added = work.write(f"proj/models/{path}", "")
    assert same(work).report.exit_code == 1
    added.unlink()
    if added.parent != work.models:
        added.parent.rmdir()
    assert same(work).report.exit_code == 0


def test_settings_are_read_where_a_variable_says(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        work.write(f"{name}.toml", f"line-length = {80 + len(name)}\n")
    work.write("ruff.toml", 'extend = "$WHICH.toml"\n')
    monkeypatch.setenv("WHICH", "one")
    work.upstream(UPSTREAM_TEXT)
    work.config(PATCH)
    fix(checked(work).report)
    assert same(work).reused == ["toy"]
    work.write("one.toml", "[format]\nindent-style = 'tab'\n")
    assert same(work).report.exit_code == 1


def test_config_that_uses_its_path_counts_for_its_checkout_only(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config("config.description = __file__.replace('/', ' ')\n" + PATCH)
    fix(checked(work).report)
    assert same(work).reused == ["toy"]
    other = work.root.parent / "other"
    shutil.copytree(work.root, other)
    project = load_project(other)
    assert drift_data(Checked(project).report) == drift_data(check(Selection(project)))
    assert check(Selection(project)).exit_code == 1


def test_config_reached_by_another_path_is_called_by_that(gated: Workspace) -> None:
    (gated.models / "zoo").symlink_to(gated.models / "toy")
    (gated.root.parent / "link").symlink_to(gated.root)
    through = load_project(gated.root.parent / "link")
    name = "toy_gpu_patch_gen_config.py"
    for _ in range(2):
        for project in (gated.project, through):
            for folder in ("toy", "zoo"):
                path = project.search_root / folder / name
                assert drift_data(Checked(project, [path]).report) == drift_data(check(Selection(project, [path])))
            assert drift_data(Checked(project).report) == drift_data(check(Selection(project)))
    assert Checked(through).reused == ["toy"]


@pytest.mark.slow
def test_optimized_run_of_python_has_results_of_its_own(gated: Workspace) -> None:
    gated.config("config.description = 'debug' if __debug__ else 'optimized'\n" + PATCH)
    fix(checked(gated).report)
    for _ in range(2):
        assert gated.patchgen("--check").returncode == 0
        assert gated.patchgen("--check", PYTHONOPTIMIZE="1").returncode == 1


def test_config_outside_the_search_root_is_called_as_in_its_own_checkout(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    root = work.root.parent / "proj"
    work.write("../proj/pyproject.toml", '[tool.patchgen]\nsearch_root = "models"\npackage_prefix = "proj.models"\n')
    work.write("../proj/models/__init__.py", "")
    name = "more/toy_gpu_patch_gen_config.py"
    work.write(f"../proj/{name}", PREAMBLE + PATCH)
    project = load_project(root)
    fix(Checked(project, [root / name]).report)
    assert Checked(project, [root / name]).reused == ["toy"]
    root.rename(root.with_name("other"))
    project, path = load_project(root.with_name("other")), root.with_name("other") / name
    assert drift_data(Checked(project, [path]).report) == drift_data(check(Selection(project, [path])))
    assert check(Selection(project, [path])).exit_code == 1  # its header calls it 'proj.more...'


def test_code_of_the_generator_is_part_of_what_results_depend_on(gated: Workspace, tmp_path: Path) -> None:
    code = WITHOUT_LOADING.format(arguments=["--check"])
    for name in ("patchgen", "patchgen_core"):
        ignored = shutil.ignore_patterns("__pycache__", "parity", "contracts", "new")
        shutil.copytree(ROOT / name, tmp_path / "copy" / name, ignore=ignored)
    shutil.copytree(ROOT / "patchgen_core/parity", tmp_path / "copy/patchgen_core/parity")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "copy"), str(gated.site)])}

    def said() -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=gated.root, env=env, capture_output=True, text=True).stderr

    assert [said(), said()] == ["generator\n", "cache\n"]
    with (tmp_path / "copy/patchgen_core/syntax/edits.py").open("a") as file:
        file.write("# changed\n")
    assert [said(), said()] == ["generator\n", "cache\n"]


@pytest.mark.parametrize("code", ["config.exclude_from_output('Missing')", "@config.add_helper\ndef f():\n    gone()"])
def test_results_with_problems_are_not_kept(gated: Workspace, code: str) -> None:
    gated.config(f"{PATCH}\n{code}\n")
    checked(gated)
    assert entries(gated) == []


# --- edits while a check runs ----------------------------------------------------------------------


@pytest.mark.parametrize("edited", [BASE, "upstream"])
def test_source_edited_while_a_check_runs_is_kept_as_it_was_read(gated: Workspace, edited: str) -> None:
    path = gated.models / BASE if edited == BASE else gated.site / f"{UPSTREAM.replace('.', '/')}.py"
    generate = artifacts.generate

    def meanwhile(plan: artifacts.Plan) -> artifacts.RawModule:
        rewrite(path, "return", "return  0 +")
        return generate(plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "generate", meanwhile)
        checked(gated)
    assert same(gated).report.exit_code == 1


@pytest.mark.parametrize("path", ["ruff.toml", "fastops.py", "proj/models/toy/ruff.toml"])
def test_what_ruff_sees_edited_while_it_runs_is_not_kept(work: Workspace, path: str) -> None:
    with (work.root / "pyproject.toml").open("a") as file:
        file.write('[tool.ruff]\nlint.select = ["I"]\n')
    work.upstream(f"import torch\n{UPSTREAM_TEXT}")
    work.config(PATCH + 'config.add_import("fastops")\n')
    fix(work.check())
    run = normalize.run_ruff

    def meanwhile(arguments: list[str], *given: Any, **named: Any) -> str:
        said = run(arguments, *given, **named)
        if arguments[0] == "format":
            work.write(path, "" if path.endswith(".py") else "[format]\nindent-style = 'tab'\n")
        return said

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalize, "run_ruff", meanwhile)
        checked(work)
    found = same(work)
    assert found.reused == []


# --- parts of a project ----------------------------------------------------------------------------


def test_two_configs_that_write_one_file_are_an_error_of_both(family: Workspace) -> None:
    family.config(PATCH, OTHER, preamble("heir.py"))
    found = same(family)
    assert [result.status for result in found.report.results] == ["error", "error", "clean"]
    for name in (HEIR, OTHER):  # each for itself is no error
        project = family.project
        assert fix(Checked(project, [family.models / name]).report).exit_code == 0
    found = same(family)
    assert [result.status for result in found.report.results] == ["error", "error", "clean"]


def test_named_config_of_a_file_is_kept_beside_the_others(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(PATCH + f'second = PatchConfig("{UPSTREAM}", "second.py")\n')
    project, path = work.project, work.models / CONFIG
    fix(Checked(project).report)
    for name, count in ((None, 2), ("config", 1), ("second", 1), ("second", 1)):
        found = Checked(project, [path], name=name)
        assert drift_data(found.report) == drift_data(check(Selection(project, [path], name=name)))
        assert len(found.report.results) == count
    assert found.reused == ["toy"]
    missing = Checked(project, [path], name="third")
    assert missing.report.exit_code == 2


def test_another_output_folder_is_compared_itself(gated: Workspace, tmp_path: Path) -> None:
    project, path, output = gated.project, gated.models / CONFIG, tmp_path / "output"
    checked(gated)
    found = Checked(project, [path], output=output)
    assert found.report.exit_code == 1
    fix(found.report)
    again = Checked(project, [path], output=output)
    assert (again.report.exit_code, again.reused) == (0, ["toy"])
    assert again.report.results[0].outcome.output == output / "patched_modeling_toy_gpu.py"


def test_orphans_are_found_beside_kept_results(family: Workspace) -> None:
    shutil.copy(generated(family), generated(family).with_name("left.py"))
    found = same(family)
    assert (found.reused, found.report.exit_code) == (["heir", "other", "toy"], 1)
    assert [path.name for path in found.report.orphans] == ["left.py"]


def test_settings_by_file_name_treat_a_config_alike_alone_and_beside_others(work: Workspace) -> None:
    with (work.root / "pyproject.toml").open("a") as file:
        file.write('[tool.ruff]\nlint.select = ["I"]\nlint.per-file-ignores = { "*_gpu*.py" = ["I"] }\n')
    work.upstream(f"import torch\nimport abc\n{UPSTREAM_TEXT}")
    for name in ("gpu", "npu"):
        work.config(PATCH, f"toy/toy_{name}_patch_gen_config.py", preamble(f"patched_toy_{name}.py"))
    fix(checked(work).report)
    for path in work.project.find_configs():
        assert check(Selection(work.project, [path])).exit_code == 0


def test_problem_is_told_where_ruff_is_missing(gated: Workspace) -> None:
    gated.config(PATCH.replace("x * 2", "x *"))
    gated.write("../without/ruff.py", "raise ImportError('no ruff here')\n")
    path = os.pathsep.join([str(gated.root.parent / "without"), str(gated.site)])
    told = [gated.patchgen("--check", *options, PYTHONPATH=path) for options in ((), ("--no-cache",))]
    assert told[0].stdout == told[1].stdout
    assert "not valid Python" in told[0].stdout


IMPORTED = """
import sys
from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.codegen import generate
from patchgen_core.project.table import load_project

assert all(outcome.artifact is not None for outcome in make_artifacts(Selection(load_project())))
files = [getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith("patchgen_core")]
print("\\n".join(filter(None, files)))
"""


def test_all_code_that_makes_artifacts_decides_which_results_hold(gated: Workspace) -> None:
    done = gated.python(IMPORTED)
    assert done.returncode == 0, done.stderr
    imported = set(map(Path, done.stdout.splitlines()))
    assert Path(generate.__file__) in imported
    assert sorted(imported.difference(generator_files())) == []

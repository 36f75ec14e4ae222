"""What turns the gate on, what it collects then, and that it is not there otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.conftest import PATCH, Workspace
from tests.plugin.conftest import CONFIG, run

PYPROJECT = """
[tool.patchgen]
search_root = "proj/models"
package_prefix = "proj.models"

[tool.pytest.ini_options]
testpaths = ["tests"]
"""
OWN = "tests/test_own.py::test_own"
TOY = [f"{CONFIG}::drift", f"{CONFIG}::import", f"{CONFIG}::contract"]
OTHER = "proj/models/other/other_gpu_patch_gen_config.py"
ORPHANS = "pyproject.toml::orphans"
LISTEN = """
import sys

listened = ["patchgen_core", "pytest_patchgen.collection", "rich", "libcst", "acme", "torch", "transformers"]

def pytest_unconfigure():
    print("loaded:", [name for name in listened if name in sys.modules])
"""


@pytest.fixture
def project(gated: Workspace) -> Workspace:
    """The clean project with a test of its own, in a folder that does not hold the configs."""
    gated.write("pyproject.toml", PYPROJECT)
    gated.write("tests/test_own.py", "def test_own(): pass\n")
    return gated


def collected(pytester: pytest.Pytester, work: Workspace, *arguments: str, **environment: str) -> list[str]:
    """Node ids in the order of their run."""
    result = run(pytester, work, "--collect-only", "-q", *arguments, cwd=None, **environment)
    assert result.ret == pytest.ExitCode.OK
    return result.outlines[: result.outlines.index("")]


def complaint(result: pytest.RunResult) -> list[str]:
    """What pytest says of how it was called."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in str(result.stderr)
    return [line for line in result.errlines if line]


# --- on and off ------------------------------------------------------------------------------------


def test_installed_it_is_silent_and_loads_nothing(project: Workspace, pytester: pytest.Pytester) -> None:
    project.write("conftest.py", LISTEN)
    result = run(pytester, project, "-v", "tests", "proj", apart=True)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["loaded: []"])
    shown = [line for line in result.outlines if not line.startswith(("plugins:", "loaded:"))]
    assert "patchgen" not in "\n".join(shown)


def test_a_session_that_checks_everything_loads_no_libcst(project: Workspace, pytester: pytest.Pytester) -> None:
    project.write("conftest.py", LISTEN)
    result = run(pytester, project, "--patchgen", apart=True)
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["loaded: [[]*'pytest_patchgen.collection'*"])
    result.stdout.no_fnmatch_line("loaded:*libcst*")


WAYS = {
    "--patchgen": ["--patchgen"],
    "a choice of checks": ["--patchgen-checks=drift,import,contract"],
    "fixing": ["--patchgen-fix"],
    "pruning": ["--patchgen-prune"],
    "a report": ["--patchgen-report=made.json"],
    "its name": ["-p", "pytest_patchgen"],
    "its name, and that alone": ["-p", "pytest_patchgen", "--disable-plugin-autoload"],
    "ini": ["-o", "patchgen=true"],
}


@pytest.mark.parametrize("arguments", WAYS.values(), ids=WAYS)
@pytest.mark.mostly_slow(2)
def test_ways_to_switch_it_on(project: Workspace, pytester: pytest.Pytester, arguments: list[str]) -> None:
    result = run(pytester, project, *arguments)
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["patchgen: 1 config* below proj/models, checks: drift, import, contract*"])
    assert [line for line in result.outlines if line.strip("= ") == "patchgen"], "no section of its own"


ENVIRONMENTS: dict[str, tuple[Sequence[str], dict[str, str]]] = {
    "PYTEST_PLUGINS": ((), {"PYTEST_PLUGINS": "pytester,pytest_patchgen"}),
    "PYTEST_ADDOPTS": ((), {"PYTEST_ADDOPTS": "-p pytest_patchgen"}),
    "without autoload": (("-p", "pytest_patchgen"), {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
}


@pytest.mark.parametrize(("arguments", "environment"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_environments_that_switch_it_on(
    project: Workspace, pytester: pytest.Pytester, arguments: Sequence[str], environment: dict[str, str]
) -> None:
    assert collected(pytester, project, *arguments, **environment) == [OWN, *TOY, ORPHANS]


def test_conftest_switches_it_on_where_nothing_else_loads_it(project: Workspace, pytester: pytest.Pytester) -> None:
    project.write("conftest.py", "pytest_plugins = ['pytest_patchgen']\n")
    assert collected(pytester, project, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1") == [OWN, *TOY, ORPHANS]


def test_ini_of_the_project_switches_it_on(project: Workspace, pytester: pytest.Pytester) -> None:
    project.write("pyproject.toml", f"{PYPROJECT}patchgen = true\n")
    assert collected(pytester, project) == [OWN, *TOY, ORPHANS]
    assert collected(pytester, project, "tests") == [OWN]


def test_it_is_one_plugin_however_often_it_is_named(project: Workspace, pytester: pytest.Pytester) -> None:
    arguments = ["-p", "pytest_patchgen", "-p", "pytest_patchgen", "--patchgen", "--trace-config", "--co"]
    result = run(pytester, project, *arguments, PYTEST_PLUGINS="pytest_patchgen")
    registered = [line.split() for line in result.outlines if "PLUGIN registered: <module 'pytest_patchgen' " in line]
    assert len(registered) == 1
    result.stdout.fnmatch_lines(["*= 5 tests collected in *"])


@pytest.mark.parametrize("options", [["-p", "no:pytest_patchgen"], ["--disable-plugin-autoload"]], ids=" ".join)
def test_it_can_be_kept_out(project: Workspace, pytester: pytest.Pytester, options: list[str]) -> None:
    assert collected(pytester, project, *options) == [OWN]


# --- what is collected -----------------------------------------------------------------------------


def test_search_root_is_collected_beside_testpaths(project: Workspace, pytester: pytest.Pytester) -> None:
    assert collected(pytester, project, "--patchgen") == [OWN, *TOY, ORPHANS]


@pytest.mark.parametrize("folder", [".", "proj", "proj/models"])
def test_testpath_that_holds_the_search_root_collects_it_once(
    project: Workspace, pytester: pytest.Pytester, folder: str
) -> None:
    project.write("pyproject.toml", PYPROJECT.replace('"tests"', f'"tests", "{folder}"'))
    found = collected(pytester, project, "--patchgen")
    assert sorted(found) == sorted([OWN, *TOY, ORPHANS])


@pytest.mark.parametrize(
    ("folder", "expected"), [("tests", [OWN, *TOY, ORPHANS]), ("proj/models/toy", [*TOY, ORPHANS])]
)
def test_search_root_is_collected_from_a_sub_folder(
    project: Workspace, pytester: pytest.Pytester, folder: str, expected: list[str]
) -> None:
    project.config(PATCH, "other/other_gpu_patch_gen_config.py")
    result = run(pytester, project, "--patchgen", "--co", "-q", cwd=project.root / folder)
    found = result.outlines[: result.outlines.index("")]
    assert sorted(found) == sorted([*expected, *(f"{OTHER}::{check}" for check in ("drift", "import", "contract"))])


def test_project_of_the_rootdir_counts_where_the_working_directory_has_none(
    project: Workspace, pytester: pytest.Pytester
) -> None:
    result = run(pytester, project, "--patchgen", "--co", "-q", "-c", "../work/pyproject.toml", cwd=project.site)
    assert result.outlines[: result.outlines.index("")] == [*TOY, ORPHANS]


@pytest.mark.parametrize("arguments", [[], ["-n1"]], ids=["serially", "-n1"])
@pytest.mark.mostly_slow(1)
def test_search_root_may_lie_outside_of_the_rootdir(
    project: Workspace, pytester: pytest.Pytester, arguments: list[str]
) -> None:
    folder = project.write("tests/pytest.ini", "[pytest]\n").parent
    here = [f"--rootdir={folder}", "-c", f"{folder}/pytest.ini"]
    result = run(pytester, project, "--patchgen", *here, *arguments, cwd=folder)
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["1 config, 4 checks: 4 ok."])
    result.stdout.no_fnmatch_line("not collected: *")
    assert result.ret == pytest.ExitCode.OK


def test_paths_collect_only_what_they_name(project: Workspace, pytester: pytest.Pytester) -> None:
    project.config(PATCH, "other/other_gpu_patch_gen_config.py")
    assert collected(pytester, project, "--patchgen", "proj/models/toy") == TOY
    assert collected(pytester, project, "--patchgen", f"{CONFIG}::drift", "tests") == [TOY[0], OWN]
    assert collected(pytester, project, "--patchgen", "tests") == [OWN]


@pytest.mark.parametrize("folder", ["proj/models", "proj", "."])
@pytest.mark.mostly_slow(1)
def test_orphans_are_looked_for_where_the_whole_search_root_is_collected(
    project: Workspace, pytester: pytest.Pytester, folder: str
) -> None:
    assert ORPHANS in collected(pytester, project, "--patchgen", folder)
    assert ORPHANS not in collected(pytester, project, "--patchgen-checks=import", folder)


def test_named_config_needs_no_switch(project: Workspace, pytester: pytest.Pytester) -> None:
    project.config(PATCH, "toy/toy_npu_patch_gen_config.py")
    assert collected(pytester, project, CONFIG) == TOY
    assert collected(pytester, project, f"{CONFIG}::import") == [TOY[1]]
    result = run(pytester, project, f"{CONFIG}::import", "-v")
    checks = "patchgen: checks: drift, import, contract, parity, sharded, converter, plan, kernel"
    result.stdout.fnmatch_lines([checks, f"{CONFIG}::import PASSED*", "1 config, 1 check*"])


def test_named_config_needs_no_switch_beside_a_folder_that_holds_it(
    project: Workspace, pytester: pytest.Pytester
) -> None:
    project.config(PATCH, "toy/toy_npu_patch_gen_config.py")
    assert collected(pytester, project, "tests", CONFIG, "proj") == [OWN, *TOY]


def test_no_item_of_that_name(project: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, project, f"{CONFIG}::drfit")
    complaint(result)
    result.stderr.fnmatch_lines([f"ERROR: not found: *{CONFIG}::drfit"])


@pytest.mark.parametrize("arguments", [[CONFIG], ["--patchgen"]], ids=" ".join)
@pytest.mark.parametrize("option", ["--override-ini=python_files=*.py", "--doctest-modules"])
@pytest.mark.mostly_slow(2)
def test_config_is_never_a_test_module(
    project: Workspace, pytester: pytest.Pytester, arguments: list[str], option: str
) -> None:
    project.config("raise RuntimeError('imported')\ndef test_it(): pass\n")
    result = run(pytester, project, *arguments, option, "--collect-only", "-q")
    assert [line for line in result.outlines if CONFIG in line] == TOY


@pytest.mark.slow
def test_packages_of_configs_are_not_imported(project: Workspace, pytester: pytest.Pytester) -> None:
    """Nor is upstream, whose packages raise as well."""
    for folder in ("proj", "proj/models", "proj/models/toy"):
        project.write(f"{folder}/__init__.py", "raise RuntimeError('a package was imported')\n")
    project.write("conftest.py", LISTEN)
    for arguments in (["--patchgen", "--co"], ["--patchgen-checks=drift"], [f"{CONFIG}::drift"]):
        result = run(pytester, project, *arguments, apart=True)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["loaded: ['patchgen_core', 'pytest_patchgen.collection'*"])
        result.stdout.no_fnmatch_line("loaded: *'acme'*")


def test_only_what_a_check_needs_is_loaded(project: Workspace, pytester: pytest.Pytester) -> None:
    heavy = ("codegen", "checks.contract", "config.loading", "report.gate.details")
    watched = repr(("rich", "patchgen_core.checks.model_process", *(f"patchgen_core.{name}" for name in heavy)))
    project.write("conftest.py", f"{LISTEN}\ndef pytest_sessionstart():\n    listened[:] = {watched}\n")
    for _ in range(2):  # the second run knows what is clean
        result = run(pytester, project, "--patchgen-checks=drift", apart=True)
        assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["config *drift", "loaded: []"])


def test_neither_torch_nor_transformers_comes_into_the_session(project: Workspace, pytester: pytest.Pytester) -> None:
    project.upstream("import torch\n\n\ndef rotate(x):\n    return -x\n", "transformers.models.toy.modeling_toy")
    text = """
    import torch
    import transformers
    from patchgen import PatchConfig
    config = PatchConfig("transformers.models.toy.modeling_toy", "patched_modeling_toy_gpu.py")
    """
    project.config(text, preamble="")
    project.write("conftest.py", LISTEN)
    (project.site / "torch.py").write_text("")
    result = run(pytester, project, "--patchgen-fix", "-v", apart=True)
    result.stdout.fnmatch_lines([f"{TOY[0]} FIXED*", f"{TOY[1]} PASSED*", f"{TOY[2]} PASSED*", "loaded: *"])
    result.stdout.no_fnmatch_line("loaded: *'t*")


# --- the choice of checks --------------------------------------------------------------------------


CHOICES: dict[str, tuple[Sequence[str], list[str]]] = {
    "one": (["--patchgen-checks=import"], [TOY[1]]),
    "in their own order": (["--patchgen-checks= contract, import,drift,"], [*TOY, ORPHANS]),
    "ini": (["--patchgen", "-o", "patchgen_checks=import"], [TOY[1]]),
    "ini of several": (["--patchgen", "-o", "patchgen_checks=contract drift"], [TOY[0], TOY[2], ORPHANS]),
    "the option before the ini": (["--patchgen-checks=drift", "-o", "patchgen_checks=import"], [TOY[0], ORPHANS]),
}


@pytest.mark.parametrize(("arguments", "expected"), CHOICES.values(), ids=CHOICES)
def test_choice_of_checks(
    project: Workspace, pytester: pytest.Pytester, arguments: list[str], expected: list[str]
) -> None:
    assert collected(pytester, project, *arguments) == [OWN, *expected]


WRONG_CHOICES = {
    "slip": (["--patchgen-checks=drift,imprt"], "there is no check 'imprt'", "Did you mean 'import'?"),
    "slip in the ini": (["--patchgen", "-o", "patchgen_checks=drif"], "there is no check 'drif'", "*'drift'?"),
    "nothing near": (["--patchgen-checks=x"], "there is no check 'x'", "There are: drift, import, *, kernel."),
    "none": (["--patchgen-checks="], "no check is chosen", "There are: drift, import, *, kernel."),
}


@pytest.mark.parametrize(("arguments", "said", "hint"), WRONG_CHOICES.values(), ids=WRONG_CHOICES)
@pytest.mark.mostly_slow(2)
def test_wrong_choice_of_checks(
    project: Workspace, pytester: pytest.Pytester, arguments: list[str], said: str, hint: str
) -> None:
    result = run(pytester, project, *arguments)
    assert len(complaint(result)) == 2
    result.stderr.fnmatch_lines([f"ERROR: patchgen: {said}", f"  {hint}"])


# --- projects and folders --------------------------------------------------------------------------


def test_there_is_no_project(project: Workspace, pytester: pytest.Pytester) -> None:
    project.write("pyproject.toml", "[tool.pytest.ini_options]\n")
    result = run(pytester, project, "--patchgen")
    assert len(complaint(result)) == 2
    result.stderr.fnmatch_lines(
        [
            "ERROR: patchgen: no pyproject.toml with a [[]tool.patchgen] table in*",
            "  Run 'patchgen init' to add one, or write search_root = *",
        ]
    )


BROKEN_TABLES = {
    "slip": ("ruf_isolated = true", "pyproject.toml:5: [[]tool.patchgen] has no key 'ruf_isolated'"),
    "no TOML": ("x = =", "pyproject.toml: not valid TOML: *"),
    "search root": ('search_root = "gone"', "pyproject.toml: search_root 'gone' is not a folder"),
}


@pytest.mark.parametrize(("line", "said"), BROKEN_TABLES.values(), ids=BROKEN_TABLES)
@pytest.mark.parametrize("arguments", [[], ["-n1"]], ids=["serially", "-n1"])
@pytest.mark.mostly_slow(2)
def test_project_with_something_wrong_in_it(
    project: Workspace, pytester: pytest.Pytester, line: str, said: str, arguments: list[str]
) -> None:
    key = line.partition(" ")[0]
    kept = [known for known in PYPROJECT.splitlines()[:4] if not known.startswith(key)]
    project.write("pyproject.toml", "\n".join([*kept, line]))
    result = run(pytester, project, "--patchgen", "-c", "/dev/null", *arguments)
    complaint(result)
    result.stderr.fnmatch_lines([f"ERROR: patchgen: {said}"])


def test_project_without_configs(project: Workspace, pytester: pytest.Pytester) -> None:
    (project.root / CONFIG).unlink()
    result = run(pytester, project, "--patchgen")
    assert len(complaint(result)) == 2
    result.stderr.fnmatch_lines(
        ["ERROR: patchgen: there is no patch config below 'proj/models'", "*name ends in '_patch_gen_config.py'."]
    )


def test_folder_without_configs_says_so(project: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, project, "--patchgen", "tests", "proj/models/toy/generated")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["There is no patch config in tests, proj/models/toy/generated: its name ends in '_patch_gen_config.py'."]
    )
    assert run(pytester, project, "--patchgen", "proj/models/toy/generated").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_named_folder_of_another_project(project: Workspace, pytester: pytest.Pytester) -> None:
    """Run from above, where there is no project: a config belongs to the one it lies in."""
    above = project.root.parent
    result = run(pytester, project, "--patchgen", "work", "-v", f"--rootdir={above}", cwd=above)
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines([f"work/{TOY[0]} PASSED*"])

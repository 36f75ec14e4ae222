"""The gate without pytest: the same items and results as in a session, and checks that other packages bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.checks.gate import Gate
from patchgen_core.checks.registry import BUILT_IN, all_checks
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from tests.conftest import CONFIG, PATCH, Workspace, generated
from tests.plugin.conftest import run

STATIC = "--checks=drift,import,contract"
LABEL = "proj.models.toy.toy_gpu_patch_gen_config"
LENGTH = '''
from patchgen_core.checks.check import Check


class LengthCheck(Check):
    """Generated modules stay short."""

    name = "length"

    def run(self, path, item):
        for made in self.session.results(path):
            text = made.outcome.artifact.text
            yield self.result(made, "clean" if "* 2" in text else "failed", reason="too long")
'''


def install_check(work: Workspace, name: str = "length", value: str = "acme_checks:LengthCheck") -> None:
    """Install a package that brings a check."""
    (work.site / "acme_checks.py").write_text(LENGTH)
    folder = work.site / "acme_checks-1.0.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-checks\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[patchgen.checks]\n{name} = {value}\n")


def statuses(output: str) -> dict[str, str]:
    return {result["item"]: result["status"] for result in json.loads(output)["results"]}


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    for result in report["results"]:
        assert result.pop("seconds") > 0
    return report


def test_gate_and_plugin_find_the_same(
    gated: Workspace, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clean, drifted and broken configs: the same results, exit code and order."""
    gated.config(PATCH.replace("* 2", "* 5"))
    gated.config("config.exclude_from_output('Missing')", "other/other_gpu_patch_gen_config.py")
    gated.config(PATCH, "more/more_gpu_patch_gen_config.py")
    (gated.models / "gone/generated").mkdir(parents=True)
    (gated.models / "gone/generated/patched_modeling_gone.py").write_text(generated(gated).read_text())
    result = run(pytester, gated, "--patchgen", "--patchgen-report=plugin.json", apart=True)
    done = gated.patchgen("gate", "--report", "gate.json")
    assert (result.ret, done.returncode) == (1, 2)  # pytest knows no other red
    reports = [without_times(json.loads((gated.root / f"{name}.json").read_text())) for name in ("plugin", "gate")]
    assert reports[0] == reports[1]
    assert reports[0]["exit_code"] == 2
    assert "config          " in done.stdout
    assert "report: gate.json" in done.stdout
    assert "Run 'patchgen gate --fix' to rewrite what drifted." in done.stdout
    assert "Run 'patchgen gate --prune' to remove orphans." in done.stdout
    chosen = gated.patchgen("gate", "--checks", "drift", "proj/models/toy").stdout
    assert "Run 'patchgen gate --fix --checks drift proj/models/toy' to rewrite what drifted." in chosen


def test_pytest_is_not_in_the_process(gated: Workspace) -> None:
    code = "import sys; from patchgen_core.cli.main import main; code = main(['gate']); "
    done = gated.python(f"{code}print(code, {{'pytest', '_pytest', 'pytest_patchgen', 'torch'}} & sys.modules.keys())")
    assert done.stdout.splitlines()[-1] == "0 set()", done.stderr


def test_paths_choose_configs(gated: Workspace) -> None:
    gated.config(PATCH, "other/other_gpu_patch_gen_config.py")
    toy, other = f"proj/models/{CONFIG}", "proj/models/other/other_gpu_patch_gen_config.py"
    orphans = "pyproject.toml::orphans"
    choices: dict[tuple[str, ...], set[str]] = {
        (toy,): {f"{toy}::drift"},
        (LABEL,): {f"{toy}::drift"},
        ("proj/models/other",): {f"{other}::drift"},
        ("proj/models/other", toy): {f"{toy}::drift", f"{other}::drift"},
        ("proj",): {f"{toy}::drift", f"{other}::drift", orphans},
        (): {f"{toy}::drift", f"{other}::drift", orphans},
    }
    for paths, expected in choices.items():
        assert set(statuses(gated.patchgen("gate", "--checks=drift", "--json", *paths).stdout)) == expected, paths


def test_files_are_rewritten_and_orphans_removed(gated: Workspace) -> None:
    gated.config(PATCH.replace("* 2", "* 5"))
    orphan = gated.models / "gone/generated/patched_modeling_gone.py"
    orphan.parent.mkdir(parents=True)
    orphan.write_text(generated(gated).read_text())
    done = gated.patchgen("gate", STATIC, "--fix", "--prune")
    assert done.returncode == 0, done.stdout
    assert f"rewrote  {generated(gated).relative_to(gated.root)}" in done.stdout
    assert not orphan.exists()
    assert gated.patchgen("gate", STATIC).stdout.endswith("1 config, 4 checks: 4 ok.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--checks=drfit"], "error: there is no check 'drfit'\n  Did you mean 'drift'?\n"),
        (["--checks=,"], "error: no check is chosen\n  There are: drift, import"),
        (["--checks=import", "--fix"], "error: --fix needs the check 'drift', which does that\n"),
        (["--level=standart"], "error: parity has no level 'standart'\n  Did you mean 'standard'?\n"),
        (["--device=gpu"], "error: models cannot run on the device 'gpu': there is no such device\n"),
        (["--time-limit=soon"], "error: --time-limit takes a number of seconds, not 'soon'\n"),
        (["--report=gate.txt"], "error: report file 'gate.txt' must end in .json, .md, .html or .sarif\n"),
        (["nowhere.py"], "error: there is no config file 'nowhere.py' in this project\n"),
        (["tests"], "error: there is no patch config in tests: its name ends in '_patch_gen_config.py'\n"),
    ],
)
@pytest.mark.mostly_slow(4)
def test_slips_are_usage_errors(gated: Workspace, arguments: list[str], message: str) -> None:
    gated.write("tests/test_own.py", "")
    done = gated.patchgen("gate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


def test_without_a_project(tmp_path: Path, gated: Workspace) -> None:
    (gated.root / "pyproject.toml").unlink()
    done = gated.patchgen("gate")
    assert done.returncode == 2
    assert "no pyproject.toml with a [tool.patchgen] table" in done.stderr


# --- checks that other packages bring --------------------------------------------------------------


@pytest.mark.slow
def test_check_of_an_installed_package_is_one_of_all(gated: Workspace, pytester: pytest.Pytester) -> None:
    """It is an item of pytest, a mark, and a column of the reports; and the command runs it as well."""
    install_check(gated)
    gated.config(PATCH, "other/other_gpu_patch_gen_config.py")
    gated.config(PATCH.replace("* 2", "* 3"))
    checks = "drift,length"
    result = run(pytester, gated, f"--patchgen-checks={checks}", "--patchgen-fix", "--strict-markers", apart=True)
    result.stdout.fnmatch_lines(
        ["config  *  drift  *  length", f"{LABEL}  *  failed", f"FAILED *{CONFIG}::length - too long"]
    )
    marks = run(pytester, gated, "--patchgen", "--markers", apart=True)
    marks.stdout.fnmatch_lines(["@pytest.mark.patchgen_length: Generated modules stay short."])
    chosen = run(pytester, gated, "--patchgen", "-mpatchgen_length", apart=True)
    chosen.assert_outcomes(passed=1, failed=1, deselected=7)
    done = gated.patchgen("gate", "--checks", checks, "--json")
    assert done.returncode == 1
    assert statuses(done.stdout)[f"proj/models/{CONFIG}::length"] == "failed"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("drift", "acme_checks:LengthCheck", "two checks are called 'drift'"),
        (
            "length",
            "acme_checks:Missing",
            "the check 'length' of the entry point 'acme_checks:Missing' cannot be imported",
        ),
        ("length", "acme_gone:LengthCheck", "the check 'length' of the entry point 'acme_gone:LengthCheck' cannot be"),
        (
            "longer",
            "acme_checks:LengthCheck",
            "the entry point 'acme_checks:LengthCheck' is not a check called 'longer'",
        ),
        ("length", "json:dumps", "the entry point 'json:dumps' is not a check called 'length'"),
    ],
)
def test_entry_point_that_is_no_check(gated: Workspace, name: str, value: str, message: str) -> None:
    install_check(gated, name, value)
    done = gated.patchgen("gate")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert "Traceback" not in done.stderr


def test_check_that_raises_is_an_error_of_its_item(gated: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    install_check(gated)
    text = LENGTH.replace("text = made", "raise ZeroDivisionError('by zero')\n            text = made")
    (gated.site / "acme_checks.py").write_text(text)
    done = gated.patchgen("gate", "--checks=length,drift")
    assert done.returncode == 2
    assert "the check did not finish: ZeroDivisionError: by zero" in done.stdout
    assert "1 config, 3 checks: 2 ok, 1 error." in done.stdout


# --- the registry ----------------------------------------------------------------------------------


def test_what_the_registry_says_is_what_the_checks_are(gated: Workspace) -> None:
    assert [check.name for check in all_checks()] == [
        "drift",
        "import",
        "contract",
        "parity",
        "sharded",
        "converter",
        "plan",
        "kernel",
    ]
    session = Session(gated.project, Settings())
    for info, check in zip(BUILT_IN, Gate(session, BUILT_IN).checks):
        assert check.name == info.name
        assert check.on_device <= ("kernels" in info.needs)
        assert (info.meaning and "torch" in info.needs) or info.name in ("drift", "contract")
    session.close()


def test_results_come_one_by_one(gated: Workspace) -> None:
    session = Session(gated.project, Settings())
    gate = Gate(session, BUILT_IN[:3])
    results = gate.run(gate.items(gated.project.find_configs(), [gated.root]))
    first = next(results)
    assert (first.item, first.status) == (f"proj/models/{CONFIG}::drift", "clean")
    assert [result.check for result in results] == ["import", "contract", "drift"]
    session.close()

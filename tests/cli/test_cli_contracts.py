"""The contract rules in the ``patchgen`` command: check, generate and explain."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from patchgen import DiscoveryConfig, build_check_cli, build_run_codegen_cli, run_codegen
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in import making
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.contract.check import ContractCheck
from patchgen_core.checks.contract.pages import rule_data, rule_page
from patchgen_core.checks.contract.rules import RULES
from patchgen_core.checks.contract.run import EVERY_RULE
from patchgen_core.checks.kept.asking import SWITCH
from patchgen_core.checks.result import CheckResult
from patchgen_core.cli.main import main
from tests.cli.test_cli import on_a_terminal
from tests.conftest import CONFIG, PREAMBLE, UPSTREAM_TEXT, Workspace

MODULE, FILE = "proj.models.toy.toy_gpu_patch_gen_config", f"proj/models/{CONFIG}"
GENERATED = "proj/models/toy/generated/patched_modeling_toy_gpu.py"
DEFECTS = """\
config.add_import("math")
config.allow("PG202", "it is given another way", "Head.forward")

@config.override_method("Norm.forward")
def norm_forward(self):
    return 2

@config.override_method("Head.forward")
def head_forward(self, x):
    return rotate() + x
"""
SIGNATURE = f"""\
{FILE}:9: error: PG201 'Norm.forward' drops upstream's parameter 'x'
  Callers outside this module rely on upstream's signature: keep it, even as an unused parameter.
        7 | 
        8 | @config.override_method("Norm.forward")
  >     9 | def norm_forward(self):
       10 |     return 2
  {GENERATED}:21:
       19 | # ======================================================================
       20 | class Norm:
  >    21 |     def forward(self):
       22 |         return 2
"""
NO_EFFECT = f"""\
{FILE}:5: warning: PG214 add_import: nothing in patched_modeling_toy_gpu.py uses 'math'
  Remove it: ruff leaves the import out.
        3 | 
        4 | config = PatchConfig("acme.models.toy.modeling_toy", "patched_modeling_toy_gpu.py")
  >     5 | config.add_import("math")
        6 | config.allow("PG202", "it is given another way", "Head.forward")
"""
RULE = "Run 'patchgen rule PG201 PG214' for an explanation of the findings.\n"
ALLOWED = "allowed: PG202 'Head.forward' calls 'rotate' and does not pass 'x': it takes (x) (it is given another way)"


@pytest.fixture
def defective(work: Workspace) -> Workspace:
    """A generated project with an error, a warning and an allowance."""
    work.upstream(UPSTREAM_TEXT)
    work.config(DEFECTS)
    assert work.patchgen("--all", "--diff").returncode == 0
    return work


@pytest.fixture
def broken(gated: Workspace) -> Workspace:
    """A clean project with one more config, which does not generate."""
    gated.config("config.exclude_from_output('Nrom')\n", "bad/bad_gpu_patch_gen_config.py")
    return gated


def contracts(work: Workspace, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and the contract entry of each config of ``patchgen check --json``."""
    done = work.patchgen("check", "--json", *arguments)
    data = json.loads(done.stdout)
    assert data["exit_code"] == done.returncode
    return done.returncode, [config["contract"] for config in data["configs"]]


# --- check -----------------------------------------------------------------------------------------


def test_check_of_kept_contracts(gated: Workspace) -> None:
    done = gated.patchgen("check")
    assert (done.returncode, done.stdout) == (0, "1 config: 1 clean.\ncontracts: kept.\n")
    kept = {"status": "clean", "reason": None, "errors": [], "warnings": [], "notes": [], "held": []}
    assert contracts(gated) == (0, [kept])


def test_check_tells_findings_with_both_places_and_what_to_do(defective: Workspace) -> None:
    done = defective.patchgen("check")
    assert done.returncode == 1
    assert done.stdout == (
        f"1 config: 1 clean.\nfailed   {MODULE}  contract\n{SIGNATURE}{NO_EFFECT}"
        f"contracts: 1 error, 1 warning, 1 allowance.\n{RULE}"
    )


def test_check_with_warnings_alone_is_green(defective: Workspace) -> None:
    done = defective.patchgen("check", "--ignore", "PG201")
    assert done.returncode == 0
    assert f"clean    {MODULE}\n{NO_EFFECT}contracts: 1 warning, 1 allowance.\n" in done.stdout


def test_verbose_check_tells_what_is_allowed_and_why(defective: Workspace) -> None:
    assert f"{NO_EFFECT}         {ALLOWED}\ncontracts: " in defective.patchgen("check", "-v").stdout
    kept = defective.patchgen("check", "-v", "--select", "PG202").stdout
    assert kept.endswith(f"clean    {MODULE}\n         {ALLOWED}\ncontracts: 1 allowance.\n")


def test_check_as_json(defective: Workspace) -> None:
    code, (found,) = contracts(defective)
    assert (code, found["status"], found["notes"]) == (1, "failed", [ALLOWED])
    (error,), (warning,) = found["errors"], found["warnings"]
    assert error["generated"].pop("excerpt").splitlines()[2] == ">    21 |     def forward(self):"
    assert error.pop("excerpt").splitlines()[2] == ">     9 | def norm_forward(self):"
    assert error == {
        "file": FILE,
        "line": 9,
        "message": "'Norm.forward' drops upstream's parameter 'x'",
        "hint": SIGNATURE.splitlines()[1].strip(),
        "code": "PG201",
        "generated": {"file": GENERATED, "line": 21},
    }
    assert (warning["code"], warning["line"], warning["generated"]) == ("PG214", 5, None)


def test_drift_check_alone_runs_no_rules(defective: Workspace) -> None:
    done = defective.patchgen("--check")
    assert (done.returncode, done.stdout) == (0, "1 config: 1 clean.\n")
    assert "contract" not in json.loads(defective.patchgen("--check", "--json").stdout)["configs"][0]


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        (["--select", "PG201"], ["PG201"]),
        (["--select", "pg2"], ["PG201", "PG214"]),
        (["--select", " PG214 , PG203,"], ["PG214"]),
        (["--select", "all", "--ignore", "PG20,PG215"], ["PG214"]),
        (["--ignore", "PG214"], ["PG201"]),
    ],
    ids=" ".join,
)
@pytest.mark.mostly_slow(2)
def test_rules_are_chosen_by_codes_and_beginnings_of_codes(
    defective: Workspace, arguments: list[str], codes: list[str]
) -> None:
    for command in ("check", "--check"):
        done = defective.patchgen(command, "--json", *arguments)
        (config,) = json.loads(done.stdout)["configs"]
        found = [problem["code"] for kind in ("errors", "warnings") for problem in config["contract"][kind]]
        assert (found, done.returncode) == (codes, int("PG201" in codes))


def test_choice_that_is_none(defective: Workspace) -> None:
    done = defective.patchgen("check", "--select", "PG201,PG2I4")
    hint = "Did you mean 'PG204'? 'patchgen rule' lists the rules."
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: --select: there is no rule 'PG2I4'\n  {hint}\n"
    done = defective.patchgen("check", "--ignore", "E501", "--json")
    assert (done.returncode, json.loads(done.stdout)["errors"][0]["message"]) == (
        2,
        "--ignore: there is no rule 'E501'",
    )
    done = defective.patchgen("check", "--select", "PG201", "--ignore", "PG2")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: no contract rule is left to run")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--select", "PG201"],
        ["--all", "--ignore", "PG201"],
        [MODULE, "--select", "PG201"],
        ["check", "--select", ""],
        ["check", "--select", ","],
        ["check", "--ignore"],
        ["rule", "--select", "PG201"],
    ],
    ids=" ".join,
)
@pytest.mark.mostly_slow(3)
def test_choice_in_the_wrong_place_is_a_usage_error(defective: Workspace, arguments: list[str]) -> None:
    done = defective.patchgen(*arguments)
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "--select" in done.stderr or "--ignore" in done.stderr


def test_settings_that_name_no_rule_fail_every_command_that_runs_rules(defective: Workspace) -> None:
    path = defective.root / "pyproject.toml"
    path.write_text(f'{path.read_text()}ignore = ["PG2I4"]\n')
    before = (defective.root / GENERATED).read_bytes()
    defective.config("")
    for arguments in (["check"], [MODULE]):
        done = defective.patchgen(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("pyproject.toml:5: error: [tool.patchgen] ignore: there is no rule 'PG2I4'\n")
    assert (defective.root / GENERATED).read_bytes() == before
    assert defective.patchgen("rule", "PG201").returncode == 0


def test_check_that_finds_drift_and_broken_contracts_tells_both_and_mends_the_one(defective: Workspace) -> None:
    path = defective.root / GENERATED
    path.write_text(path.read_text().replace("return -x", "return x"))
    done = defective.patchgen("check", "--fix")
    assert done.returncode == 1
    assert done.stdout.startswith(f"fixed    {MODULE}  edited by hand: rotate changed\n")
    assert SIGNATURE in done.stdout
    assert "return -x" in path.read_text()


def test_check_tells_that_upstream_moved_under_a_patch_before_it_mends(gated: Workspace) -> None:
    gated.upstream(UPSTREAM_TEXT.replace("return x\n", "return 3 * x\n"), version="2.0")
    done = gated.patchgen("check", "--fix")
    assert "PG215 upstream changed 'Norm.forward', which this config replaces (acme 1.0 -> 2.0)\n" in done.stdout
    assert gated.patchgen("check").stdout == "1 config: 1 clean.\ncontracts: kept.\n"


def test_config_that_does_not_generate_is_skipped(broken: Workspace) -> None:
    reason = "there is nothing to check; the drift check says why"
    code, (bad, good) = contracts(broken)
    assert code == 2
    assert bad == {"status": "skipped", "reason": reason, "errors": [], "warnings": [], "notes": [], "held": []}
    assert good["status"] == "clean"
    done = broken.patchgen("check")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (2, "contracts: 1 skipped config.")
    name = "proj.models.bad.bad_gpu_patch_gen_config"
    assert f"\nskipped  {name}  {reason}\n" in broken.patchgen("check", "-v").stdout


def test_check_on_a_terminal_has_colours_and_no_line_is_cut(defective: Workspace) -> None:
    said = on_a_terminal(defective, "check", COLUMNS="60").replace("\r\n", "\n")
    assert "\x1b[1;31merror: \x1b[0mPG201 'Norm.forward' drops upstream's parameter 'x'\n" in said
    assert "\x1b[1;33mwarning: \x1b[0mPG214 " in said
    assert f"\x1b[36m  {SIGNATURE.splitlines()[1].strip()}\x1b[0m\n" in said
    assert "\x1b[" not in on_a_terminal(defective, "check", "--no-color", NO_COLOR="1", TERM="dumb")


# --- generate --------------------------------------------------------------------------------------


def test_generation_tells_what_the_rules_find_in_it(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(DEFECTS)
    done = work.patchgen(MODULE)
    summary = f"contracts: 1 error, 1 warning.\n{RULE}"
    wrote = "".join(f"wrote    {name}\n" for name in (GENERATED, GENERATED.removesuffix(".py") + ".diff"))
    assert (done.returncode, done.stdout) == (0, f"{SIGNATURE}{NO_EFFECT}{wrote}{summary}")
    assert (work.root / GENERATED).exists()
    assert f"         {ALLOWED}\nsame     {GENERATED}\n" in work.patchgen(MODULE, "-v").stdout


def test_dry_run_tells_findings_as_well(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(DEFECTS)
    done = work.patchgen(MODULE, "--dry-run")
    assert done.stdout.startswith(SIGNATURE)
    assert done.stdout.endswith(f"contracts: 1 error, 1 warning.\n{RULE}")
    assert not (work.root / GENERATED).exists()


def test_generation_as_json(defective: Workspace) -> None:
    done = defective.patchgen("--all", "--json")
    (made,) = json.loads(done.stdout)["generated"]
    assert done.returncode == 0
    assert [problem["code"] for problem in made["errors"]] == ["PG201"]
    assert [problem["code"] for problem in made["warnings"]] == ["PG214"]
    assert made["notes"] == [ALLOWED]


def test_generation_without_findings_says_nothing_of_rules(gated: Workspace) -> None:
    assert gated.patchgen(MODULE, "-o", "out").stdout == "wrote    out/patched_modeling_toy_gpu.py\n"


def test_names_that_nothing_binds_stop_a_generation_with_their_code(gated: Workspace) -> None:
    before = (gated.root / GENERATED).read_bytes()
    gated.config("\n@config.override_method('Norm.forward')\ndef f(self, x):\n    return fused(x)\n")
    done = gated.patchgen(MODULE)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{FILE}:8: error: PG204 ")
    assert (gated.root / GENERATED).read_bytes() == before
    assert contracts(gated)[1][0]["status"] == "skipped"


# --- from Python -----------------------------------------------------------------------------------


def test_verdict_of_a_generation_from_python(defective: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    project = DiscoveryConfig(
        search_root=defective.models, package_prefix="proj.models", root=defective.root, ignore=("PG214",)
    )
    (result,) = run_codegen(MODULE, project=project)
    assert [problem.code for problem in result.verdict.errors] == ["PG201"]
    assert result.verdict.warnings == ()
    assert result.verdict.notes == (ALLOWED,)
    assert build_check_cli(project)([]) == 0
    assert build_check_cli(project)(["--select", "PG201"]) == 1
    assert build_run_codegen_cli(project)(["check"]) == 1
    assert "PG214" not in capsys.readouterr().out


# --- rule ------------------------------------------------------------------------------------------


def test_list_of_rules(work: Workspace) -> None:
    done = work.patchgen("rule")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [f"{rule.code}  {rule.severity:<8} {rule.name}" for rule in EVERY_RULE]
    assert json.loads(work.patchgen("rule", "--json").stdout) == [rule_data(rule) for rule in EVERY_RULE]


@pytest.mark.parametrize("words", [["PG202"], ["pg202"], ["PG202", "pg202"], ["PG202,"]], ids=" ".join)
def test_one_rule_is_explained(work: Workspace, words: list[str]) -> None:
    (rule,) = (rule for rule in RULES if rule.code == "PG202")
    done = work.patchgen("rule", *words)
    assert (done.returncode, done.stdout) == (0, rule_page(rule))
    assert done.stdout.startswith("## PG202: call site (error)\n")
    assert " ".join(rule.reason.split()) in " ".join(done.stdout.split())
    assert (
        f"This config fails:\n\n```python\n{rule.failing.text.strip()}\n```\n".replace("\n\n\n", "\n\n") in done.stdout
    )
    assert json.loads(work.patchgen("rule", *words, "--json").stdout) == [rule_data(rule)]


def test_several_rules_are_explained_in_the_order_of_the_words(work: Workspace) -> None:
    headings = [line for line in work.patchgen("rule", "PG214,pg201", "PG20").stdout.splitlines() if line[:3] == "## "]
    codes = [line.split()[1].rstrip(":") for line in headings]
    assert codes[:2] == ["PG214", "PG201"]
    assert codes[2:] == [rule.code for rule in RULES if rule.code.startswith("PG20") and rule.code != "PG201"]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("PG2O1", "Did you mean 'PG201'? 'patchgen rule' lists the rules."),
        ("signature", "Did you mean 'PG201'? 'patchgen rule' lists the rules."),
        ("W", "'patchgen rule' lists the rules."),
    ],
)
def test_rule_that_is_none(work: Workspace, word: str, hint: str) -> None:
    done = work.patchgen("rule", "PG201", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: there is no rule '{word.upper()}'\n  {hint}\n"
    done = work.patchgen("rule", word, "--json")
    assert (done.returncode, json.loads(done.stdout)["errors"][0]["hint"]) == (2, hint)


def test_rules_are_explained_where_there_is_no_project(work: Workspace) -> None:
    (work.root / "pyproject.toml").unlink()
    assert work.patchgen("rule", "PG201").returncode == 0


def test_rule_on_a_terminal_is_laid_out_to_its_width(work: Workspace) -> None:
    said = on_a_terminal(work, "rule", "PG202", "--no-color", COLUMNS="60").replace("\r\n", "\n")
    assert "```" not in said
    assert "## " not in said
    assert "PG202: call site (error)" in said
    assert "\x1b[3" not in said


def test_data_of_a_rule_has_all_that_its_examples_are_made_of() -> None:
    for rule in RULES:
        data = rule_data(rule)
        for which, example in (("failing", rule.failing), ("passing", rule.passing)):
            shown = data[which]
            assert shown["config"] == example.text.strip("\n")
            assert shown["upstream"] == example.upstream.strip("\n")
            assert (shown["upstream_before"] or "") == example.old.strip("\n")
            assert shown["files"].keys() == example.files.keys()
            assert (shown["settings"] or "") == example.settings.strip("\n")


def test_what_was_clean_is_not_examined_again(
    gated: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examined: list[str] = []
    made: list[str] = []
    run_check, make = ContractCheck.run, making.make_artifacts

    def count(check: ContractCheck, path: Path, item: str) -> Iterable[CheckResult]:
        examined.append(path.parent.name)
        return run_check(check, path, item)

    def note(selection: Selection, *more: Any) -> Any:
        made.extend(path.parent.name for path in selection.configs)
        return make(selection, *more)

    monkeypatch.setattr(ContractCheck, "run", count)
    monkeypatch.setattr(making, "make_artifacts", note)
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.chdir(gated.root)
    gated.config("config.add_import('math')\n", "told/told_gpu_patch_gen_config.py")
    red = gated.config(DEFECTS, "wrong/wrong_gpu_patch_gen_config.py", PREAMBLE.replace("toy_gpu", "wrong_gpu"))
    fix(gated.check())

    def check(*options: str, code: int = 1) -> tuple[list[str], str]:
        examined.clear()
        made.clear()
        assert main(["check", *options]) == code
        assert sorted(examined) == sorted(made)  # each is made once
        return sorted(examined), capsys.readouterr().out

    every = ["told", "toy", "wrong"]
    first, text = check()
    assert first == every
    assert "PG214 add_import: nothing in patched_modeling_toy_gpu.py uses 'math'" in text
    assert check() == (["wrong"], text)  # what is red is examined each time
    assert check("--no-cache") == (every, text)
    red.write_text(red.read_text().replace("(self):", "(self, x):"))
    assert check("--fix", code=0)[0] == ["wrong"]
    assert check(code=0)[0] == ["wrong"]
    assert check(code=0)[0] == []
    assert check("--ignore", "PG201", code=0)[0] == every
    assert check("--ignore", "PG201", code=0)[0] == []

"""Which rules run: what a project, a command and a config select, leave out and allow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.rules import RULES
from patchgen_core.checks.contract.run import Contracts, choose_rules, find_rules
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.source import SourceCache
from tests.conftest import CONFIG, Workspace
from tests.contract.support import examine

UPSTREAM = """
class Norm:
    def forward(self, x, scale=1):
        return x * scale


class Head:
    def forward(self, x, scale=1):
        return x + scale
"""
DEFECTS = """
config.add_import("math")

@config.override_method("Norm.forward")
def norm_forward(self, x):
    return x * 2

@config.override_method("Head.forward")
def head_forward(self, x):
    return x * 2
"""
"""Finds PG201 in two methods, and PG214."""

ALL = ["PG201 Head.forward", "PG201 Norm.forward", "PG214 math"]
DANGLING = "config.exclude_from_output('Norm')\n\n@config.override_method('Head.forward')\ndef f(self, x, scale=1):\n"


@pytest.fixture
def defective(work: Workspace) -> Workspace:
    """A project whose config breaks two rules."""
    work.upstream(UPSTREAM)
    work.config(DEFECTS)
    return work


def settle(work: Workspace, *lines: str) -> None:
    """Add lines to ``[tool.patchgen]``."""
    path = work.root / "pyproject.toml"
    path.write_text("\n".join([path.read_text(encoding="utf-8").rstrip("\n"), *lines, ""]), encoding="utf-8")


def found(
    work: Workspace, path: str = CONFIG, select: Sequence[str] | None = None, ignore: Sequence[str] = ()
) -> list[str]:
    """The codes of what the rules find, each with the name that it is about."""
    artifact = make_artifacts(Selection(work.project, [work.models / path]))[0].artifact
    assert artifact is not None
    verdict = Contracts(work.project, SourceCache(), select, ignore).examine(artifact, work.models / path)
    names = ("Head.forward", "Norm.forward", "math")
    problems = (*verdict.errors, *verdict.warnings)
    return sorted(f"{p.code} {next(name for name in names if name in p.message)}" for p in problems)


def error(work: Workspace, select: Sequence[str] | None = None, ignore: Sequence[str] = ()) -> str:
    """What choosing rules fails with, with paths from the project's root."""
    with pytest.raises(PatchgenError) as raised:
        choose_rules(work.project, select, ignore)
    return str(raised.value).replace(f"{work.root}/", "")


# --- a project's settings --------------------------------------------------------------------------


def test_all_rules_run_by_default(defective: Workspace) -> None:
    assert choose_rules(defective.project) == RULES
    assert found(defective) == ALL


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('select = ["ALL"]', ALL),
        ('select = ["PG2"]', ALL),
        ('select = ["PG201"]', ALL[:2]),
        ('select = ["PG21", "PG202"]', ALL[2:]),
        ('ignore = ["PG201"]', ALL[2:]),
        ('ignore = ["PG21"]', ALL[:2]),
        ('select = ["PG2"]\nignore = ["PG20"]', ALL[2:]),
        ('select = ["PG201"]\nignore = ["PG2"]', []),
        ('ignore = ["ALL"]', []),
        ("select = []", []),
    ],
)
def test_select_and_ignore_take_codes_and_their_beginnings(
    defective: Workspace, line: str, expected: list[str]
) -> None:
    settle(defective, line)
    assert found(defective) == expected


@pytest.mark.parametrize(
    ("pattern", "is_meant"),
    [
        ("proj.models.toy.toy_gpu_patch_gen_config", True),
        ("proj.models.toy.*", True),
        ("*_gpu_patch_gen_config", True),
        ("proj/models/toy/toy_gpu_patch_gen_config.py", True),
        ("proj/models/toy/*", True),
        ("*_gpu_patch_gen_config.py", True),
        ("proj.models.other.*", False),
        ("toy", False),
        ("toy_gpu_patch_gen_config", False),
        ("Proj.models.toy.*", False),
    ],
)
def test_rules_are_ignored_for_configs_of_a_name_or_a_path(defective: Workspace, pattern: str, is_meant: bool) -> None:
    settle(defective, f'per_config_ignore = {{ "{pattern}" = ["PG201"] }}')
    assert found(defective) == (ALL[2:] if is_meant else ALL)


def test_patterns_may_be_a_table_of_their_own_and_add_up(defective: Workspace) -> None:
    table = ["[tool.patchgen.per_config_ignore]", '"proj.models.*" = ["PG21"]', '"*/toy/*" = ["PG201"]']
    settle(defective, *table)
    assert found(defective) == []


def test_patterns_leave_other_configs_alone(defective: Workspace) -> None:
    defective.config(DEFECTS, "other/toy_npu_patch_gen_config.py")
    settle(defective, 'per_config_ignore = { "*_npu_*" = ["PG2"] }')
    assert found(defective, "other/toy_npu_patch_gen_config.py") == []
    assert found(defective) == ALL


def test_pattern_of_a_config_among_several_of_a_file(defective: Workspace) -> None:
    second = 'second = PatchConfig(config.source_module, "patched_second.py")\nsecond.patches.extend(config.patches)\n'
    path = defective.config(DEFECTS + second)
    settle(defective, 'per_config_ignore = { "*:second" = ["PG201"] }')
    contracts = Contracts(defective.project, SourceCache())
    outcomes = make_artifacts(Selection(defective.project, [path]))
    verdicts = [contracts.examine(outcome.artifact, path) for outcome in outcomes if outcome.artifact]
    assert [len(verdict.errors) for verdict in verdicts] == [2, 0]


# --- a command -------------------------------------------------------------------------------------


def test_what_a_command_selects_counts_instead_of_the_projects_choice(defective: Workspace) -> None:
    settle(defective, 'select = ["PG214"]')
    assert found(defective, select=["PG201"]) == ALL[:2]
    assert found(defective, select=["ALL"]) == ALL


def test_what_a_command_ignores_counts_beside_what_the_project_ignores(defective: Workspace) -> None:
    settle(defective, 'ignore = ["PG214"]')
    assert found(defective, select=["PG2"], ignore=["PG202"]) == ALL[:2]
    assert found(defective, ignore=["PG202"]) == ALL[:2]


@pytest.mark.parametrize(("select", "ignore"), [(["PG201"], ["PG20"]), (None, ["PG2"]), (["PG214"], [])])
def test_a_command_that_leaves_no_rule_is_an_error(
    defective: Workspace, select: list[str] | None, ignore: list[str]
) -> None:
    settle(defective, 'ignore = ["PG214"]')
    assert error(defective, select, ignore).startswith("no contract rule is left to run\n")


# --- codes that are none ---------------------------------------------------------------------------


LIST = "'patchgen rule' lists the rules."
UNKNOWN = {
    "select": ('select = ["PG201", "PG204x"]', "select: there is no rule 'PG204x'", f"Did you mean 'PG204'? {LIST}"),
    "ignore": ('ignore = ["pg214"]', "ignore: there is no rule 'pg214'", f"Did you mean 'PG214'? {LIST}"),
    "name": ('ignore = ["call site"]', "ignore: there is no rule 'call site'", f"Did you mean 'PG202'? {LIST}"),
    "empty": ('select = [""]', "select: there is no rule ''", LIST),
    "far": ('select = ["E501"]', "select: there is no rule 'E501'", LIST),
    "pattern": (
        'per_config_ignore = { "proj.*" = ["PG201", "PG21x"] }',
        "per_config_ignore 'proj.*': there is no rule 'PG21x'",
        LIST,
    ),
}


@pytest.mark.parametrize(("line", "message", "hint"), UNKNOWN.values(), ids=UNKNOWN)
def test_code_of_no_rule_in_the_settings_names_its_line(
    defective: Workspace, line: str, message: str, hint: str
) -> None:
    settle(defective, "# a comment", line)
    first, second = error(defective).splitlines()
    assert first == f"pyproject.toml:6: [tool.patchgen] {message}"
    assert second.strip().endswith(hint)


def test_code_of_no_rule_in_a_table_of_patterns_names_the_table(defective: Workspace) -> None:
    settle(defective, "[tool.patchgen.per_config_ignore]", '"proj.*" = ["nothing"]')
    message = "pyproject.toml:5: [tool.patchgen] per_config_ignore 'proj.*': there is no rule 'nothing'"
    assert error(defective).splitlines()[0] == message


def test_code_of_no_rule_in_a_command_names_the_option(defective: Workspace) -> None:
    assert (
        error(defective, ["PG201", "PG2O1"]) == f"--select: there is no rule 'PG2O1'\n  Did you mean 'PG201'? {LIST}"
    )
    assert error(defective, None, ["E1"]) == f"--ignore: there is no rule 'E1'\n  {LIST}"


def test_rules_are_found_by_code_and_by_its_beginning() -> None:
    assert [rule.code for rule in find_rules("pg202")] == ["PG202"]
    assert find_rules("PG2") == RULES
    assert {rule.code[:4] for rule in find_rules("PG21")} == {"PG21"}
    for word in ("", "PG9", "signature"):
        with pytest.raises(PatchgenError, match=f"there is no rule '{word}'"):
            find_rules(word)


# --- what a config allows --------------------------------------------------------------------------


def test_what_is_allowed_is_noted_with_its_reason(defective: Workspace) -> None:
    defective.config(f'config.allow("PG201", "nobody scales")\n{DEFECTS}')
    verdict = examine(defective)
    assert verdict.errors == ()
    assert [problem.code for problem in verdict.warnings] == ["PG214"]
    assert sorted(verdict.notes) == [
        "allowed: PG201 'Head.forward' drops upstream's parameter 'scale' (nobody scales)",
        "allowed: PG201 'Norm.forward' drops upstream's parameter 'scale' (nobody scales)",
    ]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("None", ALL[2:]),
        ("'Norm.forward'", [ALL[0], ALL[2]]),
        ("'Norm'", [ALL[0], ALL[2]]),
        ("'Head'", ALL[1:]),
    ],
)
def test_allowance_may_be_of_one_class_or_method(defective: Workspace, target: str, expected: list[str]) -> None:
    defective.config(f'config.allow("PG201", "nobody scales", {target})\n{DEFECTS}')
    assert found(defective) == expected


def test_allowances_of_several_targets_are_all_used(defective: Workspace) -> None:
    allow = "".join(f'config.allow("PG201", "because", "{name}.forward")\n' for name in ("Norm", "Head"))
    defective.config(f'config.allow("PG214", "for later")\n{allow}{DEFECTS}')
    verdict = examine(defective)
    assert (verdict.errors, verdict.warnings, len(verdict.notes)) == ((), (), 3)


UNUSED = {
    "rule": ('"PG202", "why"', "allow: PG202 finds nothing here", "Remove it, or it will hide the next finding."),
    "target": (
        '"PG201", "why", "Norm.forwards"',
        "allow: PG201 finds nothing of 'Norm.forwards' here",
        "Remove it, or it will hide the next finding.",
    ),
    "part of a name": (
        '"PG201", "why", "Nor"',
        "allow: PG201 finds nothing of 'Nor' here",
        "Remove it, or it will hide the next finding.",
    ),
    "no rule": ('"PG20l", "why"', "allow: there is no rule 'PG20l'", f"Did you mean 'PG200'? {LIST}"),
    "lower case": ('"pg201", "why"', "allow: there is no rule 'pg201'", f"Did you mean 'PG201'? {LIST}"),
}


@pytest.mark.parametrize(("arguments", "message", "hint"), UNUSED.values(), ids=UNUSED)
def test_allowance_that_nothing_comes_of_is_an_error_at_its_line(
    defective: Workspace, arguments: str, message: str, hint: str
) -> None:
    path = defective.config(f"config.allow({arguments})\n{DEFECTS}")
    (problem,) = (p for p in examine(defective).errors if p.code == "PG200")
    assert (problem.message, problem.hint) == (message, hint)
    assert problem.location is not None
    assert (problem.location.file, problem.location.line) == (str(path), 5)
    assert f">     5 | config.allow({arguments})" in problem.excerpt


@pytest.mark.parametrize("line", ['select = ["PG200", "PG201"]', 'ignore = ["PG202"]', 'select = ["PG202"]'])
def test_allowance_of_a_rule_that_is_not_run_is_none_of_our_business(defective: Workspace, line: str) -> None:
    """Nor is it when rules are run, but not the one that looks for such allowances."""
    defective.config('config.allow("PG202", "why")\n')
    assert [problem.code for problem in examine(defective).errors] == ["PG200"]
    settle(defective, line)
    assert examine(defective).errors == ()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('"PG201", ""', "allow: reason must be a non-empty string, not ''"),
        ('"PG201"', "reason"),
        ('"", "why"', "allow: code must be a non-empty string, not ''"),
        ('201, "why"', "allow: code must be a non-empty string, not 201"),
        ('"PG201", "why", ""', "allow: target must be a non-empty string, not ''"),
    ],
)
def test_allowance_without_a_code_or_a_reason_is_an_error(defective: Workspace, arguments: str, said: str) -> None:
    defective.config(f"config.allow({arguments})\n")
    message = defective.errors()
    assert message.startswith(f"{CONFIG}:5: ")
    assert said in message


# --- findings that stop a generation ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "body"), [("PG203", "    return Norm()\n"), ("PG204", "    return fused(x)\n")], ids=["PG203", "PG204"]
)
def test_names_that_nothing_binds_stop_a_generation_unless_allowed(work: Workspace, code: str, body: str) -> None:
    work.upstream(UPSTREAM)
    work.config(DANGLING + body)
    (problem,) = work.outcome().problems
    assert problem.code == code
    for target in ("", ', "Head"', ', "Head.forward"'):
        work.config(f'config.allow("{code}", "bound from outside"{target})\n{DANGLING}{body}')
        verdict = examine(work)
        assert (verdict.errors, len(verdict.notes)) == ((), 1)
    for other in (f'"{code}", "elsewhere", "Other"', '"PG201", "something else"'):
        work.config(f"config.allow({other})\n{DANGLING}{body}")
        assert [problem.code for problem in work.outcome().problems] == [code]

"""Every rule's examples, which its documentation shows."""

from __future__ import annotations

import pytest

from patchgen_core.checks.contract.rule import Rule
from patchgen_core.checks.contract.rules import RULES
from tests.conftest import Workspace
from tests.contract.support import play

EVERY_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


@EVERY_RULE
def test_failing_example_fails_by_its_rule_alone(work: Workspace, rule: Rule) -> None:
    problems = play(work, rule.failing)
    assert {problem.code for problem in problems} == {rule.code}
    for problem in problems:
        assert problem.hint
        assert problem.location is not None
        assert problem.location.line


@EVERY_RULE
def test_passing_example_passes_every_rule(work: Workspace, rule: Rule) -> None:
    assert [problem.title for problem in play(work, rule.passing)] == []


def test_codes_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))

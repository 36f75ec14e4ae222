from __future__ import annotations

import pytest

from patchgen_core.checks.contract.rules import dangling
from tests.conftest import CONFIG, Workspace
from tests.contract.support import examine, found, play

UPSTREAM = """
class Talker:
    def forward(self, x):
        return x


class Base:
    _no_split_modules = ["Layer", "Talker"]
    _table = {"talker": "Talker"}

    def _init_weights(self, module):
        '''Talker'''
        if isinstance(module, Talker):
            module.reset()

    def talk(self, x):
        return x
"""
ALLOWED = "config.allow('PG203', 'bound at run time')\nconfig.exclude_from_output('Talker')\n"
STRING = "PG203 exclude_from_output takes 'Talker' out, but 'Base' names it in a string"


def test_name_in_a_string_is_found_and_in_a_docstring_is_not(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config(
        """
        config.exclude_from_output("Talker")

        @config.override_method("Base._init_weights")
        def init_weights(self, module):
            '''Talker'''
            return module
        """
    )
    verdict = examine(work, select=["PG203"])
    assert verdict.errors == ()
    assert [problem.title for problem in verdict.warnings] == [STRING, STRING]
    lines = [problem.generated.text.splitlines() for problem in verdict.warnings if problem.generated]
    assert ["Talker" in next(line for line in text if line.startswith(">")) for text in lines] == [True, True]


def test_references_stop_the_generation(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config("config.exclude_from_output('Talker')\n")
    codes = {problem.code for problem in work.outcome().problems}
    assert codes == {"PG203"}
    assert "upstream's 'Base._init_weights' still uses it" in work.errors()


def test_allowed_references_generate_and_are_told(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config(ALLOWED)
    verdict = examine(work)
    assert verdict.errors == ()
    message = "exclude_from_output takes 'Talker' out, but 'Base._init_weights' still uses it"
    assert f"allowed: PG203 {message} (bound at run time)" in verdict.notes
    assert all(note.endswith(" (bound at run time)") for note in verdict.notes)


def test_allowance_of_one_method_does_not_cover_another(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config(ALLOWED.replace("time')", "time', 'Base.talk')"))
    assert "upstream's 'Base._init_weights' still uses it" in work.errors()


def test_excluded_name_that_the_config_binds_again_is_none(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config("config.exclude_from_output('Talker')\nconfig.add_import('acme.talkers', names=['Talker'])\n")
    assert found(work) == []


@pytest.mark.parametrize("listed", ['["Talker", "Base"]', '["Base"]'])
def test_list_of_exports_follows_the_exclusion(work: Workspace, listed: str) -> None:
    work.upstream(f"__all__ = {listed}\n\n\nclass Talker: ...\n\n\nclass Base: ...\n")
    work.config("config.exclude_from_output('Talker')\n", CONFIG)
    assert found(work) == []


def test_finding_is_at_the_exclusion(work: Workspace) -> None:
    (problem,) = play(work, dangling.RULE.failing)
    assert problem.location is not None
    assert problem.excerpt.splitlines()[2].endswith('config.exclude_from_output("Talker")')

"""``patchgen check --add-allow`` writes allowances into configs."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.checks.checked_in import compare as drift
from tests.conftest import CONFIG, PREAMBLE, UPSTREAM, UPSTREAM_TEXT, Workspace

ERRORS = """
@config.override_method("Norm.forward")
def norm_forward(self):
    return 2


@config.override_method("Head.forward")
def head_forward(self):
    return 3
"""


def project(work: Workspace, text: str, preamble: str = PREAMBLE) -> Path:
    work.upstream(UPSTREAM_TEXT)
    path = work.config(text, preamble=preamble)
    drift.fix(work.check())
    return path


def test_every_error_is_allowed_at_the_end_and_the_check_is_green(work: Workspace) -> None:
    path = project(work, ERRORS + "\nconfig.add_import('math')  # größer\n")
    before = path.read_text(encoding="utf-8")
    done = work.patchgen("check", "--add-allow", "nobody calls it")
    assert done.returncode == 0, done.stdout + done.stderr
    assert path.read_text(encoding="utf-8") == before + (
        '\nconfig.allow("PG201", "nobody calls it", "Norm.forward")\n'
        'config.allow("PG201", "nobody calls it", "Head.forward")\n'
    )
    assert done.stdout.startswith(f"wrote    proj/models/{CONFIG}\n")
    assert "allowed proj.models.toy.toy_gpu_patch_gen_config: PG201 of Head.forward\n" in done.stdout
    assert "contracts: 1 warning, 2 allowances.\n" in done.stdout


def test_they_join_those_that_are_there_and_long_reasons_are_wrapped(work: Workspace) -> None:
    path = project(work, f'config.allow("PG201", "of old", "Norm.forward")\n{ERRORS}')
    reason = "the trainer that we have calls it with nothing but the hidden states, and so do all others that we know"
    assert work.patchgen("check", "--add-allow", reason).returncode == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    place = lines.index('config.allow("PG201", "of old", "Norm.forward")')
    assert lines[place + 1 : place + 6] == [
        "config.allow(",
        '    "PG201",',
        f'    "{reason}",',
        '    "Head.forward",',
        ")",
    ]


def test_only_the_selected_rules_are_allowed(work: Workspace) -> None:
    path = project(work, ERRORS)
    before = path.read_bytes()
    assert work.patchgen("check", "--select", "PG214", "--add-allow", "no").returncode == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("preamble", "why"),
    [
        (
            f"from patchgen import PatchConfig\nconfigs = [PatchConfig('{UPSTREAM}', 'patched_modeling_toy_gpu.py')]\n"
            "for config in configs:\n    pass\n",
            "its config is not made by an assignment",
        ),
    ],
)
def test_what_cannot_be_written_is_told_and_stays_red(work: Workspace, preamble: str, why: str) -> None:
    path = project(work, ERRORS, preamble)
    before = path.read_bytes()
    done = work.patchgen("check", "--add-allow", "no")
    assert (done.returncode, path.read_bytes()) == (1, before)
    assert "warning: not allowed: PG201 'Norm.forward' drops upstream's parameter 'x'" in done.stdout
    assert why in done.stdout


def test_an_allowance_too_many_is_not_allowed(work: Workspace) -> None:
    path = project(work, 'config.allow("PG201", "of old", "Norm.forward")\n')
    before = path.read_bytes()
    done = work.patchgen("check", "--add-allow", "no")
    assert (done.returncode, path.read_bytes()) == (1, before)
    assert "An allowance too many is removed by hand." in done.stdout


def test_a_reason_is_wanted(work: Workspace) -> None:
    project(work, ERRORS)
    done = work.patchgen("check", "--add-allow", " ")
    assert done.returncode == 2
    assert "--add-allow takes the reason why the findings are right" in done.stderr

"""What is told of a generated module that does not import: the line, the file, the package that is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen_core.checks.imports.importing import Importer
from tests.checks.imports_to_check import NAME, Import, artifact_of, only
from tests.conftest import Workspace


@pytest.mark.parametrize(
    ("code", "lines", "error"),
    [
        ("\n\nimport math\nmath.nope", 5, "AttributeError: module 'math' has no attribute 'nope'"),
        ("from math import (\n    nope,\n)", 2, "ImportError: cannot import name 'nope' from 'math'"),
        ("\ndef broken(:", 3, "SyntaxError: invalid syntax"),
    ],
)
def test_own_line_is_named_and_shown(gated: Workspace, import_: Import, code: str, lines: int, error: str) -> None:
    artifact = artifact_of(gated)
    (problem,) = import_(code).errors
    line = artifact.text.count("\n") + lines
    assert problem.message.startswith(f"{NAME}, line {line} does not import: {error}")
    assert f"> {line:5} | {code.splitlines()[lines - 2]}" in problem.excerpt
    assert (problem.location, problem.hint) == (artifact.plan.config.location, "")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("value = 1\nraise ValueError('no')\n", 2),
        ("value = 1\n\n\ndef broken(:\n", 4),
        ("def deep():\n    return 1 / 0\n\n\ndeep()\n", 2),
    ],
)
def test_helper_that_fails_is_named_beside_the_line_that_imports_it(
    gated: Workspace, import_: Import, text: str, line: int
) -> None:
    file = gated.write("proj/models/helper.py", text)
    own = artifact_of(gated).text.count("\n") + 2
    (problem,) = import_("import proj.models.helper").errors
    assert problem.message.startswith(f"{NAME}, line {own} does not import: ")
    assert problem.hint == f"Raised in {file}, line {line}."
    assert "| import proj.models.helper" in problem.excerpt


def test_package_that_fails_before_the_module_is_named(gated: Workspace, import_: Import) -> None:
    file = gated.write("proj/__init__.py", "\nimport not_installed\n")
    (problem,) = import_().errors
    assert problem.message == f"{NAME} does not import: ModuleNotFoundError: No module named 'not_installed'"
    hint = f"Raised in {file}, line 2. Install it; if only some machines have it, add 'not_installed' to "
    assert problem.hint.startswith(hint)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (r"raise ImportError('\nFoo needs spam.\nSee its page.\n')", "ImportError: Foo needs spam."),
        (r"raise ValueError('first\nsecond')", "ValueError: first"),
        ("class Odd(Exception):\n    def __str__(self): return 1 / 0\nraise Odd", "Odd: <exception str() failed>"),
        ("error = ValueError('what')\nerror.__notes__ = ['a note']\nraise error", "ValueError: what"),
        (r"raise ValueError('\udc80')", "ValueError: \udc80"),
    ],
)
def test_error_is_told_by_its_type_and_first_line(import_: Import, code: str, expected: str) -> None:
    message = only(import_(code)).partition(" does not import: ")[2]
    assert message.startswith(expected) or message.endswith(f".{expected}")


@pytest.mark.parametrize("code", ["import absent_here", "from absent_here.ops import kernel"])
def test_optional_package_that_is_missing_is_no_problem(gated: Workspace, code: str) -> None:
    text = (gated.root / "pyproject.toml").read_text()
    gated.write("pyproject.toml", f'{text}optional_packages = ["absent_here"]\n')
    artifact = artifact_of(gated)
    with closing(Importer(gated.project)) as importer:
        verdict = importer.check(replace(artifact, text=f"{artifact.text}\n{code}\n"), fresh=True)
        assert (verdict.errors, verdict.reason) == ((), "optional package 'absent_here' is not installed")
        assert importer.check(replace(artifact, text="import absent_elsewhere\n"), fresh=True).errors


# --- how Python was started ------------------------------------------------------------------------

UNDER_ERRORS = """
import contextlib, gc, os, signal, sys
from dataclasses import replace
from pathlib import Path
from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.checks.imports.importing import Importer
from patchgen_core.project.table import load_project

project = load_project(Path.cwd())
artifact = make_artifacts(Selection(project, project.find_configs()))[0].artifact
with contextlib.closing(Importer(project, time_limit=60)) as importer:
    assert importer.check(artifact).errors == ()
    assert importer.check(replace(artifact, text="import os; os._exit(1)"), fresh=True).errors
    os.kill(importer.worker._process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, importer.worker._process.pid, os.WEXITED | os.WNOWAIT)
    assert importer.check(artifact).errors == ()
gc.collect()
print("fine")
"""


SETUP = """
import sys, types


def stand_in():
    sys.modules["acme_fast"] = types.ModuleType("acme_fast")


def fail():
    raise OSError("no such device")
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("setup", "errors", "notes"),
    [
        (
            "stand_in",
            "",
            "imports only after the set-up 'acme_setup:stand_in' has run; without it: ModuleNotFoundError",
        ),
        ("fail", "Its set-up should run first, but the set-up 'acme_setup:fail' raises OSError: no such device.", ""),
    ],
)
@pytest.mark.slow
def test_what_does_not_import_by_itself_is_tried_where_the_set_up_has_run(
    gated: Workspace, setup: str, errors: str, notes: str
) -> None:
    (gated.project.root / "acme_setup.py").write_text(SETUP)
    artifact = artifact_of(gated)
    project = replace(gated.project, setup=f"acme_setup:{setup}")
    with closing(Importer(project, time_limit=60)) as importer:
        verdict = importer.check(replace(artifact, text=f"{artifact.text}\nimport acme_fast\n"), fresh=True)
        assert importer.check(artifact, fresh=True).notes == (), "it needs none"
    assert errors in "".join(map(str, verdict.errors))
    assert bool(errors) == bool(verdict.errors)
    assert notes in "".join(verdict.notes)


def test_warnings_may_be_errors(gated: Workspace) -> None:
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(gated.site)]), "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-W", "error", "-c", UNDER_ERRORS]
    done = subprocess.run(command, cwd=gated.root, env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("fine\n", "")

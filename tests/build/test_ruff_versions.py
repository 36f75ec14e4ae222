"""What a generated file looks like does not hang on the version of ruff, and where it may, the file says which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patchgen_core.build.normalize import RawText, normalize
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.errors import PatchgenError
from patchgen_core.project.table import load_project
from tests.conftest import PATCH, ROOT, Workspace, generated

OLD_RUFF = ROOT / ".venv/other-ruff/bin/ruff"
TABLE = '[tool.patchgen]\nsearch_root = "proj/models"\npackage_prefix = "proj.models"\n'
TEXT = """
import torch, os
from typing import List, Optional
from abc import ABC

__all__ = ["second", "first"]
TABLE: Optional[List[int]] = dict(a=1)


def first(x):
    with open(x) as one, open(x) as two:
        return set([one, two, "%s" % x])


def second(x):
    if not x in TABLE:
        pass
"""
NORM = "class Norm:\n    def forward(self, x):\n"
LAMBDA = f"lambda a: torch.{'a' * 30}(a, a, a, a).{'b' * 30}(a, a).{'c' * 30}(a, a)"
"""What versions of ruff lay out differently."""


@contextmanager
def old_ruff() -> Iterator[None]:
    """Another version of ruff runs, the oldest that is supported."""
    with pytest.MonkeyPatch.context() as patch:
        for user in ("ruff_setup", "normalize"):
            patch.setattr(f"patchgen_core.build.{user}.find_ruff", lambda: str(OLD_RUFF))
        yield


def settings(work: Workspace, text: str) -> None:
    work.write("pyproject.toml", TABLE + text)


def laid_out(work: Workspace, text: str = TEXT) -> str:
    path = work.models / "toy/generated/a.py"
    return normalize([RawText(path, text)], load_project(work.root))[0].text


SETTINGS = {
    "none": "",
    "length": "[tool.ruff]\nline-length = 100\n",
    "more rules": '[tool.ruff.lint]\nextend-select = ["W"]\n',
    "fewer rules": '[tool.ruff.lint]\nignore = ["E"]\n',
    "isolated": "ruff_isolated = true\n",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_without_rules_of_the_project_two_versions_make_the_same(work: Workspace, name: str) -> None:
    settings(work, SETTINGS[name])
    new = laid_out(work)
    assert "import os" not in new
    assert '__all__ = ["second", "first"]' in new  # which the default rules of newer versions sort
    with old_ruff():
        assert laid_out(work) == new


def test_rules_that_the_project_adds_and_leaves_out_count(work: Workspace) -> None:
    settings(work, '[tool.ruff.lint]\nextend-select = ["RUF022"]\nignore = ["F401"]\n')
    assert '__all__ = ["first", "second"]' in laid_out(work)
    assert "import os\n" in laid_out(work)
    settings(work, '[tool.ruff.lint]\nper-file-ignores = { "**/generated/*" = ["F401"] }\n')
    assert "import os\n" in laid_out(work)
    settings(work, '[tool.ruff.lint]\nextend-select = ["FURB"]\nignore = ["F"]\n')
    assert "import os\n" in laid_out(work)
    assert "if x not in TABLE" in laid_out(work)
    settings(work, '[tool.ruff.lint]\nignore = ["E"]\n')
    assert "if not x in TABLE" in laid_out(work)


def test_settings_that_extend_others_change_them(work: Workspace) -> None:
    work.write("base.toml", '[lint]\nignore = ["F", "E713"]\nextend-select = ["RUF022"]\n')
    settings(work, '[tool.ruff]\nextend = "base.toml"\n[tool.ruff.lint]\nextend-select = ["F401"]\nignore = ["RUF"]\n')
    text = laid_out(work)
    assert "import os\n" not in text
    assert "if not x in TABLE" in text
    assert '__all__ = ["second", "first"]' in text


def test_the_rules_of_the_project_win(work: Workspace) -> None:
    settings(work, '[tool.ruff.lint]\nselect = ["RUF022"]\n')
    text = laid_out(work)
    assert "import torch, os\n" in text
    assert '__all__ = ["first", "second"]' in text


@pytest.mark.parametrize(
    ("own", "has_union"),
    [
        ("[tool.ruff]\n", True),
        ('[project]\nrequires-python = ">=3.12"\n[tool.ruff]\n', True),
        ('[project]\nrequires-python = ">=3.9"\n[tool.ruff]\n', False),
        ('[tool.ruff]\ntarget-version = "py39"\n', False),
    ],
)
def test_the_target_is_the_projects(work: Workspace, own: str, has_union: bool) -> None:
    """``X | None`` in an annotation is of Python 3.10."""
    settings(work, f'{own}lint.select = ["UP"]\n')
    assert ("list[int] | None" in laid_out(work)) == has_union


# --- which ruff it was -----------------------------------------------------------------------------


def test_the_header_names_ruff_where_its_version_matters(work: Workspace) -> None:
    work.upstream(f"{NORM}        return x\n")
    work.config(PATCH)
    assert "ruff" not in work.text()
    settings(work, '[tool.ruff.lint]\nselect = ["E", "F", "I", "W"]\n')
    assert "ruff" not in work.text()
    settings(work, '[tool.ruff.lint]\nselect = ["F", "UP"]\n')
    assert "\n#  Laid out by: ruff 0." in work.text()
    settings(work, "[tool.ruff.format]\npreview = true\n")
    assert "\n#  Laid out by: ruff 0." in work.text()


def test_a_version_that_changes_nothing_is_no_drift(work: Workspace) -> None:
    work.upstream(f"{NORM}        return x\n")
    work.config(PATCH)
    fix(work.check())
    settings(work, '[tool.ruff.lint]\nselect = ["F", "UP"]\n')
    assert work.check().exit_code == 0  # made when nothing in the settings hung on the version
    generated(work).unlink()
    fix(work.check())
    before = generated(work).read_text(encoding="utf-8")
    assert "Laid out by: ruff 0." in before
    with old_ruff():
        assert work.check().exit_code == 0
        generated(work).unlink()
        assert "Laid out by: ruff 0.12.0" in work.text()


def test_the_cause_names_both_versions(work: Workspace) -> None:
    settings(work, '[tool.ruff.lint]\nselect = ["F", "UP"]\n')
    work.upstream(f"{NORM}        fun = {LAMBDA}\n        return fun\n")
    work.config("")
    with old_ruff():
        fix(work.check())
    [cause] = work.check().results[0].causes
    assert str(cause).startswith("generator changed: ruff 0.12.0 -> 0.")
    fix(work.check())
    assert work.check().exit_code == 0
    assert "ruff 0.12.0" not in generated(work).read_text(encoding="utf-8")


@pytest.mark.parametrize("place", ["pyproject.toml", "base.toml"])
def test_a_required_version_is_honoured(work: Workspace, place: str) -> None:
    own = '[tool.ruff]\nextend = "base.toml"\n' if place == "base.toml" else "[tool.ruff]\n"
    required = 'required-version = "==0.1.2"\n'
    settings(work, own + (required if place == "pyproject.toml" else ""))
    work.write("base.toml", required if place == "base.toml" else "")
    with pytest.raises(PatchgenError) as error:
        laid_out(work)
    problem = error.value.problems[0]
    assert problem.message.startswith("the project's settings require ruff ==0.1.2, and the installed one is 0.")
    assert problem.location is not None
    assert (Path(problem.location.file).name, problem.location.line) == (place, 5 if place == "pyproject.toml" else 1)
    assert problem.hint.startswith("Run: pip install 'ruff==0.1.2'.")

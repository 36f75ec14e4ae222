"""``patchgen upgrade --history``: which of upstream's changes a finding is about, from a real repository."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.cli.main import main
from tests.cli.test_upgrade_command import NEW, OLD, TO, Upgraded
from tests.conftest import UPSTREAM, Workspace

FILE = f"src/{UPSTREAM.replace('.', '/')}.py"


class History:
    """Upstream's own repository, whose first commit is the release 1.0."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet")
        self.git("config", "user.email", "someone@example.org")
        self.git("config", "user.name", "someone")
        self.commit(text, "Begin (#1)")
        self.git("tag", "v1.0")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.folder, check=True, capture_output=True)

    def commit(self, text: str, message: str, file: str = FILE) -> None:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)


@pytest.fixture
def upgraded(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Upgraded:
    return Upgraded(work, monkeypatch)


@pytest.fixture
def history(upgraded: Upgraded, tmp_path: Path) -> History:
    """With the release 2.0 to come."""
    history = History(tmp_path / "history", OLD)
    history.commit(OLD.replace("x + 1", "x + 1 + 0"), "Another head (#40)")
    history.commit(NEW.replace("x + 1", "x + 1 + 0"), "Scale by the weight: faster (#41)\n\nLong reasons (#7)")
    history.commit(NEW, "Back to the old head")
    return history


def run(upgraded: Upgraded, history: History, *arguments: str) -> int:
    return upgraded.run("--history", str(history.folder), *arguments)


def test_pull_request_that_changed_the_target_is_named(
    upgraded: Upgraded, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    history.git("tag", "v2.0")
    assert run(upgraded, history, "--html", "../page.html", "--markdown", "../text.md") == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  by ")]
    assert len(said) == 1, said
    assert said[0].startswith("  by           Norm.forward: #41 Scale by the weight: faster (")
    assert "by #41 Scale by the weight: faster (" in Path("../page.html").read_text()
    assert "- by: Norm.forward: " in Path("../text.md").read_text()
    assert run(upgraded, history, "--json") == 0
    (patch,) = json.loads(capsys.readouterr().out)["configs"][0]["patches"]
    (commit,) = patch["findings"][0]["commits"]
    assert (commit["pull_request"], commit["subject"]) == (41, "Scale by the weight: faster")


def test_pull_request_that_removed_the_target_is_named(
    upgraded: Upgraded, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = NEW.replace("def forward(self, x):\n        kept", "def apply(self, x):\n        kept", 1)
    history.commit(gone, "Norms are applied (#52)")
    history.git("tag", "2.0")
    upgraded.release(gone)
    assert run(upgraded, history) == 1
    assert "Norm.forward: #52 Norms are applied (" in capsys.readouterr().out


def test_release_that_the_history_lacks_is_an_error(
    upgraded: Upgraded, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(upgraded, history) == 2
    said = capsys.readouterr().err
    assert "the history has no tag v2.0" in said
    assert "git fetch --tags" in said


def test_folder_without_history_is_an_error(
    upgraded: Upgraded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none").mkdir()
    for folder in ("none", "nowhere"):
        assert main([*TO, "--source", str(upgraded.next), "--history", str(tmp_path / folder)]) == 2
        assert "--history takes a checkout of upstream with its Git history" in capsys.readouterr().err


BASE = "class Base:\n    def forward(self, x):\n        return x\n"
DERIVED = "from ..base import Base\n\n\nclass Norm(Base):\n    pass\n"


def test_pull_request_that_changed_what_a_class_inherits_is_named_and_summed_up(
    upgraded: Upgraded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work, file = upgraded.work, "src/acme/models/base.py"
    work.upstream(BASE, "acme.models.base")
    work.upstream(DERIVED)
    work.config('@config.override_method("Norm.forward")\ndef norm_forward(self, x):\n    return x + 1\n')
    fix(work.check())
    history = History(tmp_path / "bases", DERIVED)
    history.commit(BASE, "A base", file)
    history.git("tag", "--force", "v1.0")
    changed = BASE.replace("return x", "return x * 2")
    history.commit(changed, "Bases double (#61)", file)
    history.commit(f"{DERIVED}\n\nclass Other:\n    pass\n", "Another class (#62)")
    history.git("tag", "v2.0")
    upgraded.release(DERIVED)
    (upgraded.next / "acme/models/base.py").write_text(changed)
    assert run(upgraded, history) == 0
    told = capsys.readouterr().out
    assert "by           Norm.forward: #61 Bases double (" in told
    summary = told[told.index("Upstream's changes behind that:\n") :].splitlines()
    assert len(summary) == 2, told
    assert re.fullmatch(r"  #61 Bases double \(.*\), in code that concerns 1 target: Norm.forward", summary[1])

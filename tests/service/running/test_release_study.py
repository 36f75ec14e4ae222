"""What a release does to patches, as its run tells it: with the real transformers that is installed as the release."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import transformers
from service_samples import GitProject
from service_team import Team

from patchgen_core.upstream.module import find_upstream
from patchgen_service.environments import PythonEnvironment, Recipe
from patchgen_service.git.command import Remote
from patchgen_service.git.mirror import Mirror
from patchgen_service.isolation.box import MEBIBYTE, Limits
from patchgen_service.isolation.probe import Isolation
from patchgen_service.records.files import keep_file
from patchgen_service.running.events import Event, FileArrived, ResultArrived
from patchgen_service.running.gate import Checkout
from patchgen_service.running.order import RunOrder
from patchgen_service.running.release_study import NoEffects, study_release
from patchgen_service.running.run import Workplace, carry_out
from patchgen_service.views.patch_debt import ChangeGroup, NeedlessPatch, ReleaseStudy, read_study

pytestmark = pytest.mark.torch

NEW = version("transformers")
LLAMA_MODULE = "transformers.models.llama.modeling_llama"
LLAMA_FILE = f"{LLAMA_MODULE.replace('.', '/')}.py"
LIMITS = Limits(seconds=60, memory=2048 * MEBIBYTE, processes=64, disk=64 * MEBIBYTE)
CONFIG = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.llama.modeling_llama", "patched_modeling_llama.py")


@config.override_method("LlamaMLP.forward")
def forward(self, x):
    down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
    return down_proj


@config.override_method("LlamaRMSNorm.reset")
def reset(self):
    return self.weight
"""


def make_old_release(folder: Path) -> Path:
    """A folder with transformers as it was before: the MLP of llama was another, and its norm had another method."""
    new, old = Path(transformers.__file__).parent, folder / "transformers"
    (old / "models" / "llama").mkdir(parents=True)
    for source, target in ((new, old), (new / "models", old / "models"), (new / "models/llama", old / "models/llama")):
        for path in source.iterdir():
            if path.name not in ("models", "llama", "modeling_llama.py", "__pycache__"):
                (target / path.name).symlink_to(path)
    text = (new / "models/llama/modeling_llama.py").read_text()
    line = "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"
    norm = "    def extra_repr(self):\n"
    assert text.count(line) == 1
    text = text.replace(line, "down_proj = self.down_proj(self.act_fn(self.up_proj(x)) * self.gate_proj(x))")
    text = text.replace(norm, f"    def reset(self):\n        return self.variance_epsilon\n\n{norm}", 1)
    (old / "models/llama/modeling_llama.py").write_text(text)
    (folder / "transformers-5.1.0.dist-info").mkdir()
    (folder / "transformers-5.1.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: transformers\nVersion: 5.1.0\n"
    )
    return folder


def make_history(folder: Path, old: Path) -> Path:
    """A clone of transformers with both releases, between which one change was made."""
    for text, message, tag in (
        ((old / LLAMA_FILE).read_text(), "Begin", "v5.1.0"),
        (find_upstream(LLAMA_MODULE).path.read_text(), "Norms keep what they have (#77)", f"v{NEW}"),
    ):
        path = folder / "src" / LLAMA_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        who = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
        for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", message], ["tag", tag]):
            subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.fixture
def llama_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitProject:
    """A project whose generated file is for the old release."""
    project = GitProject(tmp_path / "repository")
    shutil.rmtree(project.folder / "models/toy")
    project.write("sub/models/llama/llama_patch_gen_config.py", CONFIG)
    pyproject = (project.folder / "pyproject.toml").read_text()
    project.write("sub/pyproject.toml", pyproject + "diffs = true\n")
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(make_old_release(tmp_path / "old")))
        project.folder = project.folder / "sub"
        done = project.patchgen("--check", "--fix")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    project.folder = project.folder.parent
    project.commit("Begin")
    return project


def study(project: GitProject, no_effects: NoEffects) -> FileArrived | None:
    checkout = Checkout(project.folder, lambda path: (project.folder / path).read_bytes())
    own = (NEW, checkout, PythonEnvironment(Path(sys.executable)), "bubblewrap", LIMITS, no_effects.of_project("sub"))
    return study_release("1-1-a", "sub", *own, lambda: False)


@pytest.mark.slow
def test_a_run_with_a_release_names_upstreams_pull_request_where_a_clone_has_the_releases(
    llama_project: GitProject, tmp_path: Path
) -> None:
    history = make_history(tmp_path / "history", tmp_path / "old")
    place = Workplace(tmp_path / "work", tmp_path / "environments", Isolation("none"), (), LIMITS)
    place = replace(place, history=history)
    install_by_hand(place.environments / Recipe(transformers=NEW).digest)
    sha = llama_project.git("rev-parse", "HEAD")
    only = {"projects": ("sub",), "checks": ("drift",), "transformers": NEW, "is_trusted": True}
    order = RunOrder("1-1-a", "acme", str(llama_project.folder), sha, **only)  # type: ignore[arg-type]
    details = []
    for _ in range(2):
        events: list[Event] = []
        carry_out(order, Mirror(tmp_path / "mirror", Remote(str(llama_project.folder))), place, events.append)
        (file,) = [event for event in events if isinstance(event, FileArrived) and event.name == "sub/upgrade.json"]
        details += [change["detail"] for change in json.loads(file.content)["changes"]]
        subprocess.run(["git", "tag", "--delete", f"v{NEW}"], cwd=history, check=False, capture_output=True)
    assert details == ["upstream's #77 Norms keep what they have", ""]


def install_by_hand(environment: Path) -> None:
    """Make an environment of the one of these tests, under another name."""
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (environment / "bin/python").chmod(0o755)
    (environment / "complete").touch()


@pytest.mark.slow
def test_patches_that_a_release_makes_needless_are_told_with_what_it_took_away(
    llama_project: GitProject, sqlite_team: Team
) -> None:
    file = study(llama_project, NoEffects(lambda event: None))
    assert file is not None
    assert (file.kind, file.name) == ("report", "sub/upgrade.json")
    run = sqlite_team.begin("a" * 40)
    with sqlite_team.transactions() as session:
        keep_file(session, sqlite_team.store, run.id, "report", file.name, file.content, sqlite_team.now)
        told = read_study(session, sqlite_team.store, run.id)
    assert all("known from checked-in files only" in note for note in told.notes)
    (needless,) = told.needless
    assert needless.target == "LlamaMLP.forward"
    assert (needless.path, needless.line) == ("sub/models/llama/llama_patch_gen_config.py", 6)
    assert [(group.kind, group.about) for group in told.groups] == [("gone", "LlamaRMSNorm.reset")]


def test_what_the_gate_finds_to_be_upstreams_own_code_is_told_too() -> None:
    handed_on: list[Event] = []
    no_effects = NoEffects(handed_on.append)
    warning = {"code": "PG214", "message": "the patch of 'A.b' is upstream's own code", "target": "A.b"}
    warnings = [warning | {"location": {"file": "sub/a.py", "line": 7}}, {"code": "PG101", "location": None}]
    no_effects.take(ResultArrived("1-1-a", "sub", {"config": "a", "warnings": warnings}))
    (patch,) = no_effects.of_project("sub")
    assert (patch["target"], patch["path"], patch["line"]) == ("A.b", "sub/a.py", 7)
    assert (len(handed_on), no_effects.of_project("other")) == (1, [])


NONE = (b"", b"[]", b'{"needless": [{"config": 7}], "changes": [], "notes": []}', b'{"needless": 1}')


@pytest.mark.parametrize("content", NONE)
def test_a_file_that_says_no_such_thing_is_left_out(sqlite_team: Team, content: bytes) -> None:
    """It comes from where the code of the repository runs."""
    run = sqlite_team.begin("a" * 40)
    with sqlite_team.transactions() as session:
        keep_file(session, sqlite_team.store, run.id, "report", "sub/upgrade.json", content, sqlite_team.now)
        assert read_study(session, sqlite_team.store, run.id) == ReleaseStudy()


def test_changes_of_upstream_are_grouped_by_what_changed(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    change = {"path": "a.py", "kind": "gone", "about": "transformers.masking_utils.mask", "detail": ""}
    changes = [{"config": config, **change} for config in ("llama", "qwen3", "llama")]
    changes.append({"config": "moe", **change, "about": "Experts.forward"})
    needless = {"config": "llama", "target": "MLP.forward", "path": "a.py", "line": 7, "reason": "upstream does it"}
    content = json.dumps({"needless": [needless], "changes": changes, "notes": ["a", "b", "a"]}).encode()
    with sqlite_team.transactions() as session:
        keep_file(session, sqlite_team.store, run.id, "report", "./upgrade.json", content, sqlite_team.now)
        told = read_study(session, sqlite_team.store, run.id)
    assert told == ReleaseStudy(
        (NeedlessPatch("llama", "MLP.forward", "a.py", 7, "upstream does it"),),
        (
            ChangeGroup("gone", "transformers.masking_utils.mask", "", ("llama", "qwen3")),
            ChangeGroup("gone", "Experts.forward", "", ("moe",)),
        ),
        ("a", "b"),
    )

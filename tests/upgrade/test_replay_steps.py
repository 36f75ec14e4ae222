"""A step of the replay over a toy: what is left out with a conflict, and what is not."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.replay_judge import judge
from benchmarks.replay_leaving import leave_out
from benchmarks.replay_records import StepRecord
from benchmarks.replay_steps import take_step
from patchgen_core.project.table import load_project
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upstream.releases import Releases
from tests.conftest import PREAMBLE, UPSTREAM, Workspace
from tests.upstream.wheels import make_wheel

MODULE = "transformers.models.toy.modeling_toy"
OLD = """
class Deeper:
    pass


class Unused:
    def make(self):
        return Deeper()


def scale(x):
    return x


class Norm:
    def forward(self, x):
        if isinstance(x, Unused):
            return x
        return x * 1


class Head:
    def __init__(self):
        self.norm = Norm()

    def forward(self, x, labels=None):
        return self.norm(x)
"""
NORM = """
@config.override_method("Norm.forward")
def norm_forward(self, x):
    return x * 3
"""
HEAD = """
@config.override_method("Head.forward")
def head_forward(self, x, **kwargs):
    print(x)
    return self.norm(x)
"""
ADDED = """
@config.override_method("Head.scaled")
def scaled(self, x):
    return scale(x)
"""


def take(work: Workspace, config: str, *changes: tuple[str, str]) -> tuple[StepRecord, dict[str, str]]:
    """A step to a release with some changes, and what each patch came to."""
    work.config(config, preamble=PREAMBLE.replace(UPSTREAM, MODULE))
    new = OLD
    for old_text, new_text in changes:
        assert old_text in new
        new = new.replace(old_text, new_text)
    step = take_step(work.root, make_releases(work, new), "1.0", "2.0", ())
    return step, {entry.record.target: entry.outcome for entry in judge(step, {})}


@pytest.mark.slow
def test_what_is_wrong_before_a_step_is_known_from_the_step_before(work: Workspace) -> None:
    """A head that drops a parameter has a finding of its own all along; a norm that no step touches has none."""
    for name, text in (("head", HEAD), ("norm", NORM)):
        preamble = PREAMBLE.replace(UPSTREAM, MODULE).replace("toy_gpu.py", f"{name}.py")
        work.config(text, f"toy/{name}_patch_gen_config.py", preamble)
    middle = OLD.replace("return self.norm(x)", "return self.norm(x) + 1")
    newest = middle.replace("+ 1", "+ 2")
    releases = make_releases(work, middle, newest)
    first = take_step(work.root, releases, "1.0", "2.0")
    (head,) = (label for label, texts in first.wrong.items() if texts)
    assert [word for text in first.wrong[head] for word in text.split()].count("PG201") == 1
    copy = shutil.copytree(work.root, work.root.parent / "copy")
    step = take_step(work.root, releases, "2.0", "3.0", wrong=first.wrong)
    assert (step.ended, step.wrong) == ({}, first.wrong)
    assert [*take_step(copy, releases, "2.0", "3.0", wrong=dict.fromkeys(first.wrong, ())).ended] == [head]
    outputs = {path.name: path.read_text() for path in work.root.rglob("generated/*.py")}
    assert all("transformers==3.0" in text for text in outputs.values()), outputs
    assert len(outputs) == 2


def make_releases(work: Workspace, *texts: str) -> Releases:
    home = work.root.parent / "releases"
    folders = "transformers", "transformers/models", "transformers/models/toy"
    packages = {f"{folder}/__init__.py": "" for folder in folders}
    for version, text in zip(("1.0", "2.0", "3.0"), (OLD, *texts)):
        files = {**packages, f"{MODULE.replace('.', '/')}.py": text}
        make_wheel(home / "transformers" / version, version, files, "transformers")
    return Releases(home)


def test_the_rest_of_a_config_is_judged_without_its_conflict(work: Workspace) -> None:
    conflict = ("return x * 1", "return x * 2")
    step, outcomes = take(work, NORM + HEAD, conflict, ("return self.norm(x)", "return self.norm(x) + 1"))
    assert outcomes == {"Norm.forward": "conflict", "Head.forward": "right"}
    assert step.ended == {}, "what the rules found before is not of this step"


def test_a_patch_that_the_report_has_an_error_of_is_a_conflict_and_the_others_are_judged(work: Workspace) -> None:
    step, outcomes = take(
        work, HEAD + ADDED, ("def scale(x):", "def scale_by(x):"), ("self.norm(x)", "self.norm(x) + 1")
    )
    assert outcomes == {"Head.forward": "right", "Head.scaled": "conflict"}
    (record,) = (record for record in step.patches if record.target == "Head.scaled")
    assert "'scale'" in record.reasons[0]
    assert step.ended == {}


def test_what_apply_leaves_for_after_a_conflict_is_carried_over_then(work: Workspace) -> None:
    """A name in `exclude_from_output` that upstream has no longer, beside a patch that would use it."""
    norm = NORM.replace("return x * 3", "return x if isinstance(x, Unused) else x * 3")
    changes = (
        ("class Unused:\n    def make(self):\n        return Deeper()", ""),
        ("        if isinstance(x, Unused):\n            return x\n", ""),
    )
    config = 'config.exclude_from_output("Unused")\n' + norm + HEAD.replace("**kwargs", "labels=None")
    step, outcomes = take(work, config, *changes, ("return x * 1", "return x * 2"))
    assert outcomes == {"Norm.forward": "conflict", "Head.forward": "right"}
    assert step.ended == {}


@pytest.mark.parametrize("names", [("Unused",), ("Unused", "Deeper")])
def test_what_a_config_takes_out_for_a_patch_that_is_left_out_stays_then(
    work: Workspace, names: tuple[str, ...]
) -> None:
    config = f"config.exclude_from_output(*{names})\n" + NORM + HEAD
    step, outcomes = take(work, config, ("return x * 1", "return x * 2"))
    assert outcomes == {"Norm.forward": "conflict", "Head.forward": "right"}
    assert step.ended == {}


def test_a_release_is_judged_without_what_the_next_step_left_out(work: Workspace) -> None:
    work.config(NORM + HEAD, preamble=PREAMBLE.replace(UPSTREAM, MODULE))
    (loaded,) = select_configs(work.project).configs
    leave_out(load_project(work.root), make_releases(work, OLD).find("1.0"), [(loaded.label, "Norm.forward")])
    text = (loaded.path.parent / "generated" / loaded.config.target_file).read_text()
    assert ("return x * 1" in text, "print(x)" in text) == (True, True)

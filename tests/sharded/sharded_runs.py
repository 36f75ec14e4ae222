"""Generated modules of the zoo with a change, as one of its patches may make it, trained on ranks in this process."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import Selection
from patchgen_core.checks.model_process.request import ModelRequest
from patchgen_core.checks.parity.patched import patched_code
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.sharded.comparison import check_request
from patchgen_core.checks.sharded.request import ShardedRequest
from patchgen_core.errors import Location
from patchgen_core.models.batches import ToyBatch, ToyModel
from patchgen_core.models.toy_batches import make_batches
from patchgen_core.project.meshes import find_mesh
from patchgen_core.project.sharded_settings import ShardedSettings
from patchgen_core.project.table import load_project

ROOT = Path(__file__).parents[2]
ZOO = ROOT / "examples/zoo"
_COUNT = itertools.count()

Change = tuple[str, str]
VIDEO = f"{__name__}:video_instead_of_pictures"
SOUNDS = f"{__name__}:sounds_instead_of_pictures"


@functools.cache
def make_artifact(model: str) -> Artifact:
    """What the zoo's config for GPUs makes."""
    config = ZOO / model / f"{model}_gpu_patch_gen_config.py"
    (outcome,) = make_artifacts(Selection(load_project(ROOT), [config], with_diffs=True))
    assert outcome.artifact is not None, outcome.problems
    return outcome.artifact


def places_of(model: str, target: str) -> list[Location]:
    """Where the config of a model declares the patch of a target, or its edits."""
    (patch,) = (patch for patch in make_artifact(model).plan.patches if patch.patch.target == target)
    return [one.patch.location for one in (patch, *patch.edits) if one.patch.location is not None]


def compare(
    model: str,
    mesh: str,
    *changes: Change,
    time_limit: float = 120.0,
    batches: tuple[str, ...] = (),
    **toy_config: Any,
) -> CheckResult:
    """What the check says of a model of the zoo whose generated text is changed: what stands there once, and what
    stands there instead. ``batches`` are references of builders, and ``toy_config`` has fields of its configuration
    that are others than its config says."""
    artifact = make_artifact(model)
    path, text = artifact.path, artifact.text
    for old, new in changes:
        assert text.count(old) == 1, (text.count(old), old)
        text = text.replace(old, new)
    name = f"changed_{next(_COUNT)}" if changes else path.stem
    own_plan = f"zoo.{model}.parallel_plan" if (ZOO / model / "parallel_plan.py").is_file() else ""
    subject = ShardedRequest(
        module=f"zoo.{model}.generated.{name}",
        path=str(path.with_name(f"{name}.py")),
        upstream=f"transformers.models.{model}.modeling_{model}",
        text=text if changes else None,
        mesh=find_mesh(mesh),
        declared=artifact.plan.config.location,
        patches=patched_code(replace(artifact, text=text), text),
        plan=own_plan,
        toy_config={**(artifact.plan.config.toy_config or {}), **toy_config} or None,
        batches=batches,
        settings=ShardedSettings(time_limit=time_limit),
    )
    return check_request(ModelRequest("", "cpu", (), subject))


def video_instead_of_pictures(toy: ToyModel) -> list[ToyBatch]:
    """A picture and a video in one row, of which ranks have unlike parts."""
    return [ToyBatch("pictures", batch.inputs) for batch in make_batches(toy).batches if batch.name == "video"]


def sounds_instead_of_pictures(toy: ToyModel) -> list[ToyBatch]:
    """Sounds of unlike lengths."""
    return [ToyBatch("pictures", batch.inputs) for batch in make_batches(toy).batches if batch.name == "sounds"]


def problem_of(result: CheckResult) -> str:
    """The problems of a red result, with their places."""
    assert result.status == "failed", result
    return "\n".join(map(str, result.errors))

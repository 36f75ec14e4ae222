"""Generated modules of the zoo with a change, trained on ranks and compared, in this process."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

from patchgen_core.checks.model_process.request import ModelRequest
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.sharded.comparison import check_request
from patchgen_core.checks.sharded.request import ShardedRequest
from patchgen_core.errors import Location
from patchgen_core.project.meshes import find_mesh
from patchgen_core.project.sharded_settings import ShardedSettings

ROOT = Path(__file__).parents[2]
ZOO = ROOT / "examples/zoo"
CONFIG = Location("acme_gpu_patch_gen_config.py", 7)
_COUNT = itertools.count()

Change = tuple[str, str]


def compare(model: str, mesh: str, *changes: Change, time_limit: float = 120.0, **toy_config: Any) -> CheckResult:
    """What the check says of a model of the zoo whose generated text is changed: what stands there once, and what
    stands there instead. ``toy_config`` has fields of its configuration that are others."""
    path = ZOO / model / "generated" / f"patched_modeling_{model}_gpu.py"
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, (text.count(old), old)
        text = text.replace(old, new)
    if str(ZOO.parent) not in sys.path:
        sys.path.insert(0, str(ZOO.parent))
    name = f"changed_{next(_COUNT)}" if changes else path.stem
    own_plan = f"zoo.{model}.parallel_plan" if (ZOO / model / "parallel_plan.py").is_file() else ""
    subject = ShardedRequest(
        module=f"zoo.{model}.generated.{name}",
        path=str(path.with_name(f"{name}.py")),
        upstream=f"transformers.models.{model}.modeling_{model}",
        text=text if changes else None,
        mesh=find_mesh(mesh),
        declared=CONFIG,
        plan=own_plan,
        toy_config=toy_config or None,
        settings=ShardedSettings(time_limit=time_limit),
    )
    return check_request(ModelRequest("", "cpu", (), subject))


def problem_of(result: CheckResult) -> str:
    """The problems of a red result, at the config."""
    assert result.status == "failed", result
    return "\n".join(f"{problem.message}\n{problem.hint}\n{problem.excerpt}" for problem in result.errors)

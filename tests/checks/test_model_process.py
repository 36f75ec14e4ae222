"""The process that models run in: what takes it down is one check's failure, what a model changes is no other's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.model_process.answering import import_module, model_heads, prepare_torch
from patchgen_core.checks.model_process.check import check_beside
from patchgen_core.checks.model_process.process import ModelProcess
from patchgen_core.checks.parity.check import compare_model
from patchgen_core.checks.plan.check import PlanCheck
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import PatchgenError
from patchgen_core.models import interpreter
from patchgen_core.project.table import load_project
from patchgen_core.workers.process import ForkedProcess

pytestmark = pytest.mark.torch

SETTINGS = """
[tool.patchgen]
search_root = "models"
package_prefix = "models"

[tool.patchgen.parity]
dtypes = ["float32"]
"""
CONFIG = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.llama.modeling_llama", "patched_modeling_{name}.py")
for name in ("LlamaForSequenceClassification", "LlamaForTokenClassification", "LlamaForQuestionAnswering"):
    config.exclude_from_output(name)
for name in ("os", "signal", "sys", "time", "warnings"):
    config.add_import(name)


@config.override_method("LlamaMLP.forward")
def forward(self, x):
    {code}
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
BODIES = {
    "good": "pass",
    "crashes": "print('it was me', flush=True); os.kill(os.getpid(), signal.SIGSEGV)",
    "hangs": "while True: time.sleep(0.01)",
    "hungers": "torch.empty(2**60)",
    "changes": "torch.set_default_dtype(torch.float64); torch.manual_seed(3); os.chdir('/'); "
    "sys.path.append('nowhere'); "
    "warnings.simplefilter('error')",
    "stops_gradients": "torch.set_grad_enabled(False)",
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """What the configs make, whose MLPs each begin with a body."""
    root = tmp_path_factory.mktemp("project")
    (root / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    for name, code in BODIES.items():
        folder = root / "models" / name
        folder.mkdir(parents=True)
        config = folder / f"{name}_patch_gen_config.py"
        config.write_text(CONFIG.format(name=name, code=code), encoding="utf-8")
    results = fix(check(Selection(load_project(root)), artifacts=True)).results
    made = [result.outcome.artifact for result in results if result.outcome.artifact is not None]
    return {artifact.path.parent.parent.name: artifact for artifact in made}


class Models:
    """Asks one process for the parity of configs."""

    def __init__(self, artifacts: dict[str, Artifact]) -> None:
        self.artifacts = artifacts
        self.checks = ModelProcess(load_project(artifacts["good"].path.parent), "cpu")

    def __getitem__(self, name: str) -> CheckResult:
        return compare_model(self.checks, self.artifacts[name], "patched")

    def said(self, name: str) -> str:
        """The first problem of a config, as a user reads it."""
        return str(self[name].errors[0])

    @property
    def process(self) -> int | None:
        """The process that answers, while there is one."""
        process = self.checks.worker._process
        return process.pid if process else None


@pytest.fixture(scope="module")
def models(artifacts: dict[str, Artifact]) -> Iterator[Models]:
    found = Models(artifacts)
    yield found
    found.checks.close()


@pytest.mark.slow
def test_what_a_model_changes_is_put_back_for_the_next_one(models: Models) -> None:
    changed = models["changes"]
    process = models.process
    good = models["good"]
    assert models.process == process
    assert not good.errors
    assert not [note for note in good.notes if "put back" in note]
    left = [note for note in changed.notes if note.endswith("which was restored")]
    assert left == [
        "left torch's default dtype at torch.float64, which was restored",
        "left the working directory at /, which was restored",
    ]
    assert models["stops_gradients"].errors
    assert models["good"] == good


@pytest.mark.slow
def test_a_plan_may_ask_for_the_class_that_it_is_for(models: Models, artifacts: dict[str, Artifact]) -> None:
    folder = artifacts["good"].path.parent.parent
    plan = """
from patchgen_core.parallel_plan.plan import ParallelPlan
from torch.distributed.tensor import Shard


def get_parallel_plan(model_class):
    layers = {"LlamaForCausalLM": "model.layers"}[model_class.__name__]
    return ParallelPlan(extra_parallel_plan={"tp": {f"{layers}.*.mlp.down_proj.weight": Shard(0)}})
"""
    (folder / "parallel_plan.py").write_text(plan, encoding="utf-8")
    verdict = check_beside(models.checks, PlanCheck.function, artifacts["good"], folder / PlanCheck.file)
    assert verdict.errors == ()
    assert verdict.figures["LlamaForCausalLM: distributed"] == 2


def test_a_class_that_builds_nothing_has_no_plan_and_no_checkpoint() -> None:
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as module

    names = {cls.__name__.removeprefix("Qwen3OmniMoe") for cls in model_heads(module)}
    assert hasattr(module, "Qwen3OmniMoePreTrainedModelForConditionalGeneration")
    assert "PreTrainedModelForConditionalGeneration" not in names
    assert {"ForConditionalGeneration", "ThinkerForConditionalGeneration"} <= names


def test_processes_that_models_run_in_are_forked(
    models: Models, artifacts: dict[str, Artifact], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "patchgen_core.workers")
    setup = artifacts["good"].path.with_name("acme_setup.py")
    setup.write_text(
        "def setup(models):\n    import sys\n    assert 'transformers' not in sys.modules\n", encoding="utf-8"
    )
    checks = ModelProcess(load_project(setup.parent), "cpu", setups=(f"{setup}:setup",))
    checks.refuse_setup()
    assert isinstance(checks.worker._process, ForkedProcess), caplog.text
    checks.close()
    assert models["good"].errors == ()
    assert isinstance(models.checks.worker._process, ForkedProcess), caplog.text


def test_none_is_forked_where_there_is_more_than_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "device_type", lambda: "cuda")
    monkeypatch.delenv(interpreter.VARIABLE, raising=False)
    with pytest.raises(PatchgenError, match="may use a device"):
        prepare_torch()
    assert interpreter.VARIABLE not in os.environ


def test_memory_that_is_not_there_is_the_models_error(models: Models) -> None:
    assert "RuntimeError" in models.said("hungers")


@pytest.mark.slow
def test_what_takes_the_process_down_is_one_failure(models: Models, artifacts: dict[str, Artifact]) -> None:
    before = models["good"]
    said = models.said("crashes")
    path = artifacts["crashes"].path
    line = path.read_text(encoding="utf-8").splitlines().index("        os.kill(os.getpid(), signal.SIGSEGV)") + 1
    assert said.startswith("checking patched_modeling_crashes.py dies: its process has ended by SIGSEGV\n")
    assert said.index("it was me") < said.index("Segmentation fault") < said.index(f'File "{path}", line {line}')
    assert models.process is None
    assert models["good"] == before


@pytest.mark.slow
def test_what_hangs_is_killed_and_tells_where_it_was(models: Models, artifacts: dict[str, Artifact]) -> None:
    process = models["good"] and models.process
    worker = models.checks.worker
    limit, worker.time_limit = worker.time_limit, 5.0
    try:
        said = models.said("hangs")
    finally:
        worker.time_limit = limit
    assert "dies: no answer within 5 s" in said
    assert f'File "{artifacts["hangs"].path}"' in said
    assert process is not None
    assert not Path(f"/proc/{process}").exists()


def test_what_does_not_import_does_not_when_it_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its package imports it, and breaks off after that: it stays among the modules."""
    (tmp_path / "acme_broken").mkdir()
    (tmp_path / "acme_broken/__init__.py").write_text("from acme_broken import module\nraise OSError('no licence')\n")
    (tmp_path / "acme_broken/module.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(3):
        with pytest.raises(OSError, match="no licence") as raised:
            import_module("acme_broken.module")
        files = [Path(entry.path) for entry in raised.traceback]
        assert [file.name for file in files if file.is_relative_to(tmp_path)] == ["__init__.py"]


@pytest.mark.slow
def test_isolated_checks_have_a_process_each(artifacts: dict[str, Artifact]) -> None:
    checks = ModelProcess(load_project(artifacts["good"].path.parent), "cpu", isolate=True)
    verdict = compare_model(checks, artifacts["good"], "patched")
    assert (verdict.errors, checks.worker._process) == ((), None)


CPU = """
import json
from patchgen_core.models.interpreter import device_type, switch_on, use_cpu

use_cpu()
switch_on()
import torch
print(json.dumps([device_type(), torch.cuda.is_available()]))
"""


@pytest.mark.slow
def test_the_cpu_is_all_there_is_when_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", CPU], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["cpu", False]

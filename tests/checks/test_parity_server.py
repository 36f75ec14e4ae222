"""The process that models run in: what takes it down is one check's failure, what a model changes is no other's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.compare import check, fix
from patchgen_core.checks.parity.client import ModelChecks, ParityOptions
from patchgen_core.checks.parity.server import _heads
from patchgen_core.checks.parity.verdict import CheckVerdict
from patchgen_core.project.project import load_project
from patchgen_core.workers.processes import Server

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
    results = fix(check(Selection(load_project(root)))).results
    made = [result.outcome.artifact for result in results if result.outcome.artifact is not None]
    return {artifact.path.parent.parent.name: artifact for artifact in made}


class Models:
    """Asks one process for the parity of configs."""

    def __init__(self, artifacts: dict[str, Artifact]) -> None:
        self.artifacts = artifacts
        self.checks = ModelChecks(load_project(artifacts["good"].path.parent), "cpu")

    def __getitem__(self, name: str) -> CheckVerdict:
        return self.checks.parity(self.artifacts[name], "patched", ParityOptions(), fresh=False)

    def said(self, name: str) -> str:
        """The first problem of a config, as a user reads it."""
        return str(self[name].problems[0])

    @property
    def process(self) -> int | None:
        """The process that answers, while there is one."""
        process = self.checks.server._process
        return process.pid if process else None


@pytest.fixture(scope="module")
def models(artifacts: dict[str, Artifact]) -> Iterator[Models]:
    found = Models(artifacts)
    yield found
    found.checks.close()


def test_what_a_model_changes_is_put_back_for_the_next_one(models: Models) -> None:
    changed = models["changes"]
    process = models.process
    good = models["good"]
    assert models.process == process
    assert not good.problems
    assert not good.notes
    left = [note for note in changed.notes if note.endswith("which was put back")]
    assert left == [
        "left torch's default dtype at torch.float64, which was put back",
        "left the working directory at /, which was put back",
    ]
    assert models["stops_gradients"].problems
    assert models["good"] == good


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
    verdict = models.checks.plan(artifacts["good"], folder)
    assert verdict.problems == ()
    assert verdict.figures["LlamaForCausalLM: distributed"] == 2


def test_a_class_that_builds_nothing_has_no_plan_and_no_checkpoint() -> None:
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as module

    names = {cls.__name__.removeprefix("Qwen3OmniMoe") for cls in _heads(module)}
    assert hasattr(module, "Qwen3OmniMoePreTrainedModelForConditionalGeneration")
    assert "PreTrainedModelForConditionalGeneration" not in names
    assert {"ForConditionalGeneration", "ThinkerForConditionalGeneration"} <= names


def test_memory_that_is_not_there_is_the_models_error(models: Models) -> None:
    assert "RuntimeError" in models.said("hungers")


def test_what_takes_the_process_down_is_one_failure(models: Models, artifacts: dict[str, Artifact]) -> None:
    before = models["good"]
    said = models.said("crashes")
    path = artifacts["crashes"].path
    line = path.read_text(encoding="utf-8").splitlines().index("        os.kill(os.getpid(), signal.SIGSEGV)") + 1
    assert said.startswith("checking patched_modeling_crashes.py dies: its process has ended by SIGSEGV\n")
    assert said.index("it was me") < said.index("Segmentation fault") < said.index(f'File "{path}", line {line}')
    assert models.process is None
    assert models["good"] == before


def test_what_hangs_is_killed_and_tells_where_it_was(models: Models, artifacts: dict[str, Artifact]) -> None:
    process = models["good"] and models.process
    server = models.checks.server
    limit, server.time_limit = server.time_limit, 5.0
    try:
        said = models.said("hangs")
    finally:
        server.time_limit = limit
    assert "dies: no answer within 5 s" in said
    assert f'File "{artifacts["hangs"].path}"' in said
    assert process is not None
    assert not Path(f"/proc/{process}").exists()


def test_isolated_checks_have_a_process_each(artifacts: dict[str, Artifact]) -> None:
    checks = ModelChecks(load_project(artifacts["good"].path.parent), "cpu", isolate=True)
    verdict = checks.parity(artifacts["good"], "patched", ParityOptions(), fresh=False)
    assert (verdict.problems, checks.server._process) == ((), None)


# --- processes -------------------------------------------------------------------------------------

SCRIPT = """
import json, os, signal, sys, time

for line in sys.stdin:
    exec(json.loads(line)["code"])
    print(json.dumps({"pid": os.getpid()}), flush=True)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    with Server(script, 30, output_kept=20) as found:
        yield found


@pytest.mark.parametrize(
    ("code", "died"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", "its process has ended by SIGTERM"),
        ("os.kill(os.getpid(), 37)", "its process has ended by signal 37"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "its process has ended by SIGKILL, as when memory runs out"),
        ("os._exit(0)", "its process has ended with exit code 0"),
        ("sys.exit(4)", "its process has ended with exit code 4"),
    ],
)
def test_how_a_process_ended(server: Server, code: str, died: str) -> None:
    first = server.ask({"code": "pass"})["pid"]
    answer = server.ask({"code": f"print('a' * 30 + 'the end', file=sys.stderr); {code}"})
    assert answer == {"died": died, "output": f"{'a' * 12}the end\n"}
    assert server.ask({"code": "pass"})["pid"] != first


def test_a_process_that_is_late_is_killed_with_its_children(server: Server, tmp_path: Path) -> None:
    server.ask({"code": "pass"})
    server.time_limit = 0.2
    note = tmp_path / "pid"
    fork = f"pid = os.fork(); pid and open({str(note)!r}, 'w').write(str(pid)); time.sleep(600)"
    assert server.ask({"code": fork})["died"] == "no answer within 0.2 s"
    assert until(lambda: not is_running(int(note.read_text())))


def test_answers_to_what_is_told_are_skipped(server: Server) -> None:
    for number in (1, 2):
        server.tell({"code": f"os.getpid = lambda: {number}"})
    assert server.ask({"code": "told = os.getpid(); os.getpid = lambda: 10 * told"}) == {"pid": 20}
    assert server.ask({"code": "os.getpid = lambda: 3"}) == {"pid": 3}


def test_a_process_that_dies_of_what_it_is_told_is_not_the_end(server: Server) -> None:
    server.tell({"code": "print('why', file=sys.stderr); os._exit(3)"})
    answers = [server.ask({"code": "pass"}) for _ in range(2)]
    assert "pid" in answers[-1]
    assert "pid" in answers[0] or answers[0] == {"died": "its process has ended with exit code 3", "output": "why\n"}


def until(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether it comes to be so."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
    return is_so()


def is_running(pid: int) -> bool:
    """Whether a process is there and not just to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


CPU = """
import json
from patchgen_core.models.interpreter import device_type, switch_on, use_cpu

use_cpu()
switch_on()
import torch
print(json.dumps([device_type(), torch.cuda.is_available()]))
"""


def test_the_cpu_is_all_there_is_when_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", CPU], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["cpu", False]

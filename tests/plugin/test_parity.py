"""The check ``parity`` as items of a session, over small patches of a real model."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import PATCH, UPSTREAM_TEXT, Workspace
from tests.plugin.conftest import run

pytestmark = pytest.mark.torch

SETTINGS = """\
[tool.patchgen]
search_root = "proj/models"
package_prefix = "proj.models"

[tool.patchgen.parity]
dtypes = ["float32"]
"""
INI = """
[tool.pytest.ini_options]
patchgen_device = "cuda"
"""
KERNELS = """
from patchgen_core.ops import KERNEL_REGISTRY, HardwareRequirement, KernelSpec

def make():
    import torch

    def rms_norm(hidden_states, weight, eps):
        return torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, eps)

    return rms_norm

KERNEL_REGISTRY.register(KernelSpec("ours", "rms_norm", "standard", make))
KERNEL_REGISTRY.register(KernelSpec("elsewhere", "rms_norm", "standard", make, HardwareRequirement("xpu")))
"""
PREAMBLE = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.llama.modeling_llama", "patched_modeling_{name}.py")
for name in ("LlamaForSequenceClassification", "LlamaForTokenClassification", "LlamaForQuestionAnswering"):
    config.exclude_from_output(name)
"""
MLP = """
config.add_import("os")
config.add_import("signal")

@config.override_method("LlamaMLP.forward", description="the same in two lines")
def forward(self, x):
    {code}
    hidden = self.act_fn(self.gate_proj(x)) * self.up_proj(x)
    return self.down_proj(hidden)
"""
SLOTS = """
config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block('slot_rms_norm = OpSlot("rms_norm", "standard")')

@config.override_method("LlamaRMSNorm.forward")
def forward(self, hidden_states):
    if slot_rms_norm.has_kernel:
        return slot_rms_norm(hidden_states, self.weight, self.variance_epsilon)
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    return self.weight * hidden_states.to(input_dtype)
"""
BUILDER = """
import sys

def short(toy):
    import torch

    from patchgen_core.models.batches import ToyBatch

    ids = torch.arange(6).reshape(2, 3)
    return [ToyBatch("short", {"input_ids": ids, "labels": ids} if toy.kind == "causal_lm" else {"input_ids": ids})]

def pytest_patchgen_toy_batches(config):
    return [short]

def pytest_unconfigure():
    print("imported", sorted({"torch", "transformers"} & sys.modules.keys()))
"""


def write(work: Workspace, name: str, text: str) -> Path:
    """Write a config for Llama."""
    return work.config(text, f"{name}/{name}_patch_gen_config.py", PREAMBLE.format(name=name))


def outcomes(result: pytest.RunResult) -> dict[str, str]:
    """What became of each item, by the folder of its config and its name."""
    rows = [line.split() for line in result.outlines if "::" in line and ("PASSED" in line or "%]" in line)]
    rows = [[word for word in row if not word.startswith("[")] for row in rows]
    found = {}
    for row in rows:
        node = next(word for word in row if "::" in word)
        verdict = next(word for word in row if word.isupper())
        path, _, item = node.partition("::")
        found[f"{Path(path).parent.name}::{item}"] = verdict
    return found


@pytest.fixture
def models(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A project of configs with models, of which one has slots, and one whose upstream has no model."""
    monkeypatch.chdir(work.root)
    monkeypatch.setenv("PYTHONPATH", str(work.site))
    work.write("pyproject.toml", SETTINGS)
    work.write("conftest.py", BUILDER)
    work.upstream(UPSTREAM_TEXT)
    write(work, "good", MLP.format(code="pass"))
    write(work, "slots", SLOTS)
    work.config(PATCH)
    fix(work.check())
    return work


def write_kernels(work: Workspace, text: str) -> None:
    """Have the project register kernels."""
    work.write("pyproject.toml", SETTINGS.replace("\n\n", '\nkernels = ["proj.kernels"]\n\n') + INI)
    for folder in ("proj", "proj/models"):
        work.write(f"{folder}/__init__.py", "")
    work.write("proj/kernels.py", text)


def collected(result: pytest.RunResult) -> list[str]:
    return [f"{Path(line).parent.name}::{line.partition('::')[2]}" for line in result.outlines if "::" in line]


def test_items_are_those_of_the_slots_and_can_be_chosen(models: Workspace, pytester: pytest.Pytester) -> None:
    listed = [f"slots::parity[{name}]" for name in ("eager", "eager_through_slots", "liger_kernel")]
    listed.insert(0, "good::parity[patched]")
    arguments = ["--patchgen", "--collect-only", "-q"]
    assert [name for name in collected(run(pytester, models, *arguments)) if "parity" in name] == listed
    assert collected(run(pytester, models, *arguments, "-mpatchgen_parity")) == listed
    chosen = run(
        pytester, models, *arguments, "-k", "parity and (liger or patched)", "proj/models/good", "proj/models/slots"
    )
    assert collected(chosen) == [listed[0], listed[-1]]
    result = run(pytester, models, *arguments, "proj/models/good/good_patch_gen_config.py::parity[patched]")
    assert collected(result) == listed[:1]


def test_items_before_anything_was_generated(models: Workspace, pytester: pytest.Pytester) -> None:
    for path in models.models.glob("*/generated/*"):
        path.unlink()
    result = run(pytester, models, "--patchgen-checks=parity", "-v", "proj/models/good", "proj/models/toy")
    assert outcomes(result) == {"good::parity[patched]": "FAILED"}
    result = run(
        pytester, models, "--patchgen-checks=drift,parity", "-v", "-rs", "proj/models/good", "proj/models/toy"
    )
    assert outcomes(result)["good::parity[patched]"] == "SKIPPED"
    result.stdout.fnmatch_lines(["SKIPPED * there is no model to run: the drift check says why"])


@pytest.mark.slow
def test_verdicts_of_a_session_with_workers(models: Workspace, pytester: pytest.Pytester) -> None:
    write_kernels(models, KERNELS)
    write(models, "broken", "1 / 0\n")
    write(models, "dies", MLP.format(code="os.kill(os.getpid(), signal.SIGSEGV)"))
    fix(models.check())
    edited = models.models / "good/generated/patched_modeling_good.py"
    text = edited.read_text(encoding="utf-8")
    edited.write_text(text.replace("* self.up_proj(x)", "* -self.up_proj(x)"), encoding="utf-8")
    options = ["--patchgen-checks=drift,parity", "--patchgen-device=cpu", "-v"]
    result = run(pytester, models, *options, "-rs", "-n2", "--patchgen-report=report.json", "-k", "not orphans")
    assert outcomes(result) == {
        "broken::drift": "FAILED",
        "broken::parity[patched]": "SKIPPED",
        "dies::drift": "PASSED",
        "dies::parity[patched]": "FAILED",
        "good::drift": "FAILED",
        "good::parity[patched]": "FAILED",
        "slots::drift": "PASSED",
        "slots::parity[eager]": "PASSED",
        "slots::parity[eager_through_slots]": "PASSED",
        "slots::parity[elsewhere]": "SKIPPED",
        "slots::parity[liger_kernel]": "PASSED",
        "slots::parity[ours]": "PASSED",
        "toy::drift": "PASSED",
    }
    result.stdout.fnmatch_lines(["SKIPPED *elsewhere needs an XPU*"])
    output = result.stdout.str()
    assert "dies: its process has ended by SIGSEGV" in output
    assert "dies/generated/patched_modeling_dies.py" in output
    assert "The generated file has drifted: fix that first." in output
    assert "imported []" in output
    results = json.loads((models.root / "report.json").read_text(encoding="utf-8"))["results"]
    figures = [name for row in results if row["check"] == "parity" for name in row["figures"]]
    assert "LlamaForCausalLM, short, float32: loss" in figures
    assert not any(", bfloat16: " in name for name in figures)  # autocast to it is a way to run in float32

    result = run(pytester, models, *options, "--patchgen-fix", "proj/models/good")
    assert outcomes(result) == {"good::drift": "FIXED", "good::parity[patched]": "PASSED"}


@pytest.mark.slow
def test_kernels_that_cannot_be_told_are_a_failing_item(models: Workspace, pytester: pytest.Pytester) -> None:
    write_kernels(models, "import no_such_package\n")
    result = run(pytester, models, "--patchgen-checks=parity", "--patchgen-device=auto", "-v", "proj/models/slots")
    assert outcomes(result) == {"slots::parity": "FAILED"}
    assert "No module named 'no_such_package'" in result.stdout.str()


# --- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--patchgen-device=cuda", "-n1")], ids=["ini file", "option"])
@pytest.mark.slow
def test_a_device_that_is_not_there_is_one_error(
    models: Workspace, pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    models.write("pyproject.toml", SETTINGS + INI * (not options))
    result = run(pytester, models, "--patchgen", *options, "proj/models/good", CUDA_VISIBLE_DEVICES="")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if "cuda" in line] == [
        "ERROR: patchgen: models should run on 'cuda', but torch has only 'cpu' here"
    ]
    assert "Traceback" not in result.stdout.str()


def test_a_device_that_nothing_runs_on_need_not_be_there(models: Workspace, pytester: pytest.Pytester) -> None:
    models.write("pyproject.toml", SETTINGS + INI)
    result = run(pytester, models, "--patchgen", "-k", "drift", CUDA_VISIBLE_DEVICES="")
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "--patchgen-device=cdua",
            "models cannot run on the device 'cdua': there is no such device\n  Did you mean 'cuda'?",
        ),
        (
            "--patchgen-device=",
            "models cannot run on the device '': there is no such device\n  There are: auto, cpu, cuda, npu.",
        ),
        ("--patchgen-time-limit=soon", "--patchgen-time-limit takes a number of seconds, not 'soon'"),
        ("--patchgen-time-limit=0", "--patchgen-time-limit takes a number of seconds, not '0'"),
        ("--patchgen-time-limit=nan", "--patchgen-time-limit takes a number of seconds, not 'nan'"),
    ],
)
@pytest.mark.mostly_slow(3)
def test_options_that_make_no_sense(gated: Workspace, pytester: pytest.Pytester, option: str, said: str) -> None:
    result = run(pytester, gated, option, "--collect-only")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: patchgen: {said}\n" in result.stderr.str()


# --- the hook --------------------------------------------------------------------------------------


HOOK = """
import functools

def found(toy):
    return []

def make():
    def inner(toy):
        return []
    return inner

class Builders:
    def build(self, toy):
        return []

def pytest_patchgen_toy_batches(config):
    return {returned}
"""
CANNOT = "which the process that runs models cannot find"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (
            "[lambda toy: []]",
            f"pytest_patchgen_toy_batches returned pytest_patchgen_toy_batches.<locals>.<lambda>, {CANNOT}",
        ),
        ("[make()]", f"pytest_patchgen_toy_batches returned make.<locals>.inner, {CANNOT}"),
        ("[Builders().build]", f"pytest_patchgen_toy_batches returned Builders.build, {CANNOT}"),
        ("[functools.partial(found)]", f"pytest_patchgen_toy_batches returned an object of type partial, {CANNOT}"),
        ("['acme.toys']", "pytest_patchgen_toy_batches returned 'acme.toys', which names no builder"),
        ("found", "which is not a sequence of builders"),
        (
            "'acme.toys:build'",
            "pytest_patchgen_toy_batches returned 'acme.toys:build', which is not a sequence of builders",
        ),
    ],
)
@pytest.mark.mostly_slow(2)
def test_builders_that_another_process_cannot_find(
    gated: Workspace, pytester: pytest.Pytester, returned: str, said: str
) -> None:
    gated.write("conftest.py", HOOK.format(returned=returned))
    result = run(pytester, gated, "--patchgen")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()
    assert "Traceback" not in result.stderr.str()
    run(pytester, gated, "--patchgen-checks=drift").assert_outcomes(passed=2)


def test_builders_of_a_plugin_and_of_a_conftest_are_references(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.write("conftest.py", HOOK.format(returned="[found, 'acme.toys:build', found]"))
    gated.write("plug.py", f"{HOOK.format(returned='[found]')}\n\n{TELLING}")
    result = run(pytester, gated, "--patchgen", "-p", "plug", PYTHONPATH=f"{gated.root}:{gated.site}")
    result.stdout.fnmatch_lines([f"builders plug:found {gated.root}/conftest.py:found acme.toys:build"])


TELLING = """
def pytest_report_header(config):
    from pytest_patchgen.items import RUN_STATE

    return " ".join(["builders", *config.stash[RUN_STATE].session.settings.toy_batches])
"""


SETUP_HOOK = """
import sys
from types import ModuleType

def stand_in(models):
    sys.modules["acme_cluster"] = ModuleType("acme_cluster")

def pytest_patchgen_setup(config):
    return [stand_in]
"""


def write_setup(work: Workspace, hook: str) -> None:
    """A patch that needs a module which nobody has, and a conftest."""
    assert find_spec("acme_cluster") is None
    work.write("pyproject.toml", SETTINGS)
    preamble = PREAMBLE.format(name="toy").replace("for name in (", 'for name in ("LlamaForCausalLM", ')
    work.config(
        MLP.format(code="import acme_cluster; assert acme_cluster"), "toy/toy_gpu_patch_gen_config.py", preamble
    )
    fix(work.check())
    work.write("conftest.py", hook)


@pytest.mark.slow
def test_a_conftest_sets_up_models(pytester: pytest.Pytester, work: Workspace) -> None:
    """The function is run in the process of models: pytest itself has not what it brings."""
    write_setup(work, SETUP_HOOK)
    run(pytester, work, "--patchgen-checks=parity", "--patchgen-device=cpu").assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_set_up_that_fails_ends_the_session_with_its_line(pytester: pytest.Pytester, work: Workspace) -> None:
    write_setup(work, SETUP_HOOK.replace("sys.modules[", "sys.nodules["))
    result = run(pytester, work, "--patchgen-checks=parity", "--patchgen-device=cpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*conftest.py:6: the set-up 'conftest.py:stand_in' raises AttributeError:*"])

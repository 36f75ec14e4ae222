"""The checks that run models, over a copy of a model of the zoo: green, and red for what is broken in it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
ZOO = ROOT / "examples/zoo"
MODEL = "qwen3_moe"
SHARED = ("llama", "qwen3")
CONVERTER = "checkpoint_tensor_converter.py"
PLAN = "parallel_plan.py"
CONFIG = f"{MODEL}_gpu_patch_gen_config.py"
SETTINGS = '[tool.patchgen]\nsearch_root = "zoo"\npackage_prefix = "zoo"\n\n[tool.ruff]\nline-length = 119\n'
TORCH = """
import sys

def pytest_unconfigure():
    print("imported", sorted({"torch", "transformers", "triton"} & sys.modules.keys()))
"""


class Copy:
    """A project with one model of the zoo for GPUs, and the configs that it shares patches with."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "zoo" / MODEL
        shutil.copytree(ZOO / MODEL, self.folder, ignore=shutil.ignore_patterns("__pycache__", "*_npu*"))
        (root / "zoo/__init__.py").touch()
        for model in SHARED:
            (root / "zoo" / model).mkdir()
            (root / "zoo" / model / "__init__.py").touch()
            shutil.copy(ZOO / model / f"{model}_gpu_patch_gen_config.py", root / "zoo" / model)
        self.settings("")

    def settings(self, more: str) -> None:
        (self.root / "pyproject.toml").write_text(SETTINGS.replace("\n\n", f"\n{more}\n\n"), encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def another(self, name: str, file: str, text: str) -> None:
        """The model once more, in a folder and with a config of that name and with this text in one of its files."""
        folder = self.root / "zoo" / name
        shutil.copytree(self.folder, folder)
        (folder / "__init__.py").write_text("", encoding="utf-8")  # the model's own is the one that registers it
        (folder / CONFIG).rename(folder / f"{name}_patch_gen_config.py")
        (folder / file).write_text(text, encoding="utf-8")

    def gate(self, checks: str, *arguments: str) -> tuple[int, str]:
        """Exit code and output of a run of these checks."""
        process = self.start(checks, *arguments)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    def start(self, checks: str, *arguments: str) -> subprocess.Popen[str]:
        """A run of these checks."""
        command = [sys.executable, "-m", "pytest", "-p", "pytest_patchgen", "-v", f"--patchgen-checks={checks}"]
        env = {**os.environ, "COLUMNS": "200", "PYTEST_ADDOPTS": "-p no:randomly -p no:cacheprovider -p no:anyio"}
        return subprocess.Popen(
            [*command, *arguments],
            cwd=self.root,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def verdicts(output: str) -> dict[str, str]:
    """What became of each item, by its name in the file."""
    rows = [line.split() for line in output.splitlines() if "::" in line and "%]" in line]
    return {row[0].partition("::")[2]: row[1] for row in rows}


# --- converters and plans, all broken ones in one run ------------------------------------------------

SWAPS = """
from patchgen_core.checkpoint import create_per_expert_converter

def create_swapping_checkpoint_tensor_converter(model):
    converter = create_per_expert_converter(model)
    convert = converter.convert

    def swapped(name, tensor):
        names = {"gate_proj": "up_proj", "up_proj": "gate_proj"}
        found = next((key for key in names if key in name), "")
        return convert(name.replace(found, names[found]) if found else name, tensor)

    converter.convert = swapped
    return converter
"""
VERSION_4 = (ZOO / MODEL / PLAN).read_text(encoding="utf-8").replace("gate_up_proj", "gate_proj")
AT = VERSION_4.splitlines().index("def get_parallel_plan() -> ParallelPlan:") + 1
BROKEN = {
    "dies": (CONVERTER, "import os\nos._exit(7)\n", ["dies: its process has ended with exit code 7"]),
    "exits": (CONVERTER, "import sys\nsys.exit(3)\n", ["raises SystemExit: 3"]),
    "lacks": (CONVERTER, "import torch_npu\n", ["No module named 'torch_npu'"]),
    "no_factory": (CONVERTER, "def create():\n    pass\n", ["must have one function create_"]),
    "no_plan": (PLAN, "def get_parallel_plan():\n    return {}\n", [f"{PLAN}:1: error: ", "not a ParallelPlan"]),
    "raises": (CONVERTER, "1 / 0\n", ["raises ZeroDivisionError: division by zero"]),
    "reads_input": (CONVERTER, "input()\n", ["raises EOFError"]),
    "swaps": (CONVERTER, SWAPS, [f"zoo/swaps/{CONVERTER}:4: error: Qwen3MoeForCausalLM: ", "gate_up_proj", "swapped"]),
    "version_4": (
        PLAN,
        VERSION_4,
        [f"zoo/version_4/{PLAN}:{AT}: error: Qwen3MoeForCausalLM: ", "model.layers.*.mlp.experts.gate_proj"],
    ),
}
"""What is wrong with a copy of the model: a file, its text and what its check says. Only one of its checks fails."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """Exit code and output of a run over the model as it is and all that is broken."""
    copy = Copy(tmp_path_factory.mktemp("broken"))
    (copy.root / "conftest.py").write_text(TORCH, encoding="utf-8")
    for name, (file, text, _) in BROKEN.items():
        copy.another(name, file, text)
    return copy.gate("converter,plan", "zoo")


def items_of(output: str, folder: str) -> dict[str, str]:
    """What became of the items of the config in a folder."""
    return verdicts("\n".join(line for line in output.splitlines() if line.startswith(f"zoo/{folder}/")))


def failure_of(output: str, name: str) -> str:
    """What is said of the failed items of a copy."""
    parts = re.split(r"^_+ (\S+) _+$", output.partition("= FAILURES =")[2], flags=re.MULTILINE)
    return "".join(
        text for title, text in zip(parts[1::2], parts[2::2]) if title.startswith(f"{name}_patch_gen_config::")
    )


@pytest.mark.slow
def test_converter_and_plan_are_items_of_a_config_beside_which_they_lie(broken: tuple[int, str], copy: Copy) -> None:
    code, output = broken
    assert items_of(output, MODEL) == {"converter": "PASSED", "plan": "PASSED"}
    assert f"10 configs, 20 checks: {20 - len(BROKEN)} ok, {len(BROKEN)} failed." in output
    assert "imported []" in output
    assert code == 1
    (copy.folder / CONVERTER).unlink()
    (copy.folder / PLAN).unlink()
    (copy.folder / "__init__.py").write_text("", encoding="utf-8")  # registers classes, which are loaded as well
    code, output = copy.gate("drift,converter,plan", f"zoo/{MODEL}", "--collect-only")
    assert code == 0
    assert "DriftItem" in output
    assert "ConverterItem" not in output
    assert "PlanItem" not in output


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.slow
def test_a_broken_converter_or_plan_is_red_and_the_other_of_the_two_green(broken: tuple[int, str], name: str) -> None:
    """The one that swaps gate and up, the one of the layout of version 4, and those that are none."""
    _, output = broken
    file, _, said = BROKEN[name]
    failing, passing = ("converter", "plan") if file == CONVERTER else ("plan", "converter")
    assert items_of(output, name) == {failing: "FAILED", passing: "PASSED"}
    failure = failure_of(output, name)
    for text in said:
        assert text in failure
    assert "importlib" not in failure


# --- ends -------------------------------------------------------------------------------------------


HANGING = """
import fcntl, time
from pathlib import Path

file = open(Path(__file__).with_name("held"), "w")
fcntl.flock(file, fcntl.LOCK_EX)
Path(__file__).with_name("hangs").touch()
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.mostly_slow(1)
def test_a_run_that_is_ended_leaves_no_model_running(copy: Copy, number: signal.Signals) -> None:
    (copy.folder / CONVERTER).write_text(HANGING, encoding="utf-8")
    process = copy.start("converter", "zoo")
    assert until((copy.folder / "hangs").exists)
    os.killpg(process.pid, number)
    process.communicate(timeout=60)
    assert until(lambda: not is_held(copy.folder / "held"))


def until(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether it comes to be so."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def is_held(path: Path) -> bool:
    """Whether a process that is alive has locked a file."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.slow
def test_what_the_optional_package_of_another_machine_lacks_is_skipped(copy: Copy) -> None:
    """Which fails where the package is not declared: see ``lacks`` above."""
    copy.edit(CONVERTER, "from patchgen_core", "import torch_npu\nfrom patchgen_core")
    copy.settings('optional_packages = ["torch_npu"]')
    code, output = copy.gate("converter", "zoo", "-rs")
    assert "optional package 'torch_npu' is not installed" in output
    assert code == 0


@pytest.mark.slow
def test_a_text_that_is_being_written_is_the_one_that_is_checked(copy: Copy) -> None:
    generated = f"generated/patched_modeling_{MODEL}_gpu.py"
    copy.edit(generated, "self.gate_up_proj = nn.Parameter(", "self.gate_up_proj_ = nn.Parameter(")
    code, output = copy.gate("drift,converter,plan", f"zoo/{MODEL}")
    assert set(verdicts(output).items()) >= {("drift", "FAILED"), ("converter", "FAILED"), ("plan", "FAILED")}
    assert "The generated file has drifted: fix that first." in output
    code, output = copy.gate("drift,converter,plan", f"zoo/{MODEL}", "--patchgen-fix", "-n", "2")
    assert "1 config, 3 checks: 2 ok, 1 fixed." in output
    assert code == 0


KERNELS = """
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec

def make(factor):
    import torch

    def rms_norm(hidden_states, weight, eps):
        return torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, factor * eps)

    return rms_norm

KERNEL_REGISTRY.register(KernelSpec("ours", "rms_norm", "standard", lambda: make(1)))
KERNEL_REGISTRY.register(KernelSpec("coarse", "rms_norm", "standard", lambda: make(10)))
"""


def test_kernels_of_the_project_are_checked_with_those_that_are_there(copy: Copy) -> None:
    """One with another epsilon is red."""
    (copy.root / "conftest.py").write_text(TORCH, encoding="utf-8")
    (copy.root / "zoo/kernels.py").write_text(KERNELS, encoding="utf-8")
    copy.settings('kernels = ["zoo.kernels"]')
    code, output = copy.gate("kernel", "-k", "rms_norm-standard", "--patchgen-report=report.json")
    assert verdicts(output) == {
        "kernel[rms_norm-standard-coarse]": "FAILED",
        "kernel[rms_norm-standard-eager]": "PASSED",
        "kernel[rms_norm-standard-liger_kernel]": "PASSED",
        "kernel[rms_norm-standard-npu]": "PASSED",
        "kernel[rms_norm-standard-ours]": "PASSED",
    }
    assert "kernel rms_norm-standard-coarse: " in output
    assert "kernel rms_norm-standard-ours: " not in output
    assert "rms_norm-standard-ours: largest error: 0." in output
    assert "imported []" in output
    assert code == 1
    results = json.loads((copy.root / "report.json").read_text(encoding="utf-8"))["results"]
    figures = {result["config"]: result["figures"] for result in results}
    assert 0 < figures["rms_norm-standard-ours"]["float32 gradient of weight"] < 1


@pytest.mark.slow
def test_kernels_that_cannot_be_registered_are_one_failing_item(copy: Copy) -> None:
    (copy.root / "zoo/kernels.py").write_text("import no_such_package\n", encoding="utf-8")
    copy.settings('kernels = ["zoo.kernels"]')
    code, output = copy.gate("kernel")
    assert verdicts(output) == {"kernel": "FAILED"}
    assert "No module named 'no_such_package'" in output
    assert code == 1


def test_a_project_without_slots_has_no_kernel_items(copy: Copy) -> None:
    for model in (*SHARED, MODEL):
        shutil.rmtree(copy.root / "zoo" / model)
    copy.folder.mkdir()
    (copy.folder / CONFIG).write_text(PLAIN, encoding="utf-8")
    code, output = copy.gate("drift,kernel", "--collect-only")
    assert code == 0
    assert "DriftItem" in output
    assert "kernel[" not in output


PLAIN = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.qwen3_moe.modeling_qwen3_moe", "patched.py")
"""

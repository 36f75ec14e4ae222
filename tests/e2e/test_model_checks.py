"""The checks that run models, over a copy of a model of the zoo: green, and red for what is broken in it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = "qwen3_moe"
CONVERTER = "checkpoint_tensor_converter.py"
PLAN = "parallel_plan.py"
SETTINGS = '[tool.patchgen]\nsearch_root = "zoo"\npackage_prefix = "zoo"\n\n[tool.ruff]\nline-length = 119\n'
TORCH = """
import sys

def pytest_unconfigure():
    print("imported", sorted({"torch", "transformers", "triton"} & sys.modules.keys()))
"""


class Copy:
    """A project with one model of the zoo."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "zoo" / MODEL
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "examples/zoo" / MODEL, self.folder, ignore=ignored)
        (root / "zoo/__init__.py").touch()
        self.settings("")

    def settings(self, more: str) -> None:
        (self.root / "pyproject.toml").write_text(SETTINGS.replace("\n\n", f"\n{more}\n\n"), encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def gate(self, checks: str, *arguments: str) -> tuple[int, str]:
        """Exit code and output of a run of these checks."""
        process = self.start(checks, *arguments)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    def start(self, checks: str, *arguments: str) -> subprocess.Popen[str]:
        """A run of these checks."""
        command = [sys.executable, "-m", "pytest", "-p", "pytest_patchgen", "-v", f"--patchgen-checks={checks}"]
        env = {**os.environ, "COLUMNS": "200", "PYTEST_ADDOPTS": "-p no:randomly -p no:cacheprovider"}
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


def test_converter_and_plan_are_items_of_a_config_beside_which_they_lie(copy: Copy) -> None:
    (copy.root / "conftest.py").write_text(TORCH, encoding="utf-8")
    code, output = copy.gate("converter,plan", "zoo")
    assert verdicts(output) == {"converter": "PASSED", "plan": "PASSED"}
    assert "1 config, 2 checks: 2 ok." in output
    assert "imported []" in output
    assert code == 0
    (copy.folder / CONVERTER).unlink()
    (copy.folder / PLAN).unlink()
    assert verdicts(copy.gate("drift,converter,plan", "zoo", "--collect-only")[1]) == {}


def test_a_converter_that_swaps_gate_and_up_is_red(copy: Copy) -> None:
    copy.edit(CONVERTER, "    return create_per_expert_converter(model)\n", SWAPPING)
    code, output = copy.gate("converter,plan", "zoo")
    assert verdicts(output) == {"converter": "FAILED", "plan": "PASSED"}
    assert f"zoo/{MODEL}/{CONVERTER}: error: Qwen3MoeForCausalLM: " in output
    assert "gate_up_proj" in output
    assert "swapped" in output
    assert code == 1


SWAPPING = """
    converter = create_per_expert_converter(model)
    convert = converter.convert

    def swapped(name, tensor):
        names = {"gate_proj": "up_proj", "up_proj": "gate_proj"}
        found = next((key for key in names if key in name), "")
        return convert(name.replace(found, names[found]) if found else name, tensor)

    converter.convert = swapped
    return converter
"""


def test_a_plan_for_the_layout_of_version_4_is_red(copy: Copy) -> None:
    copy.edit(PLAN, "gate_up_proj", "gate_proj")
    code, output = copy.gate("converter,plan", "zoo")
    assert verdicts(output) == {"converter": "PASSED", "plan": "FAILED"}
    assert f"zoo/{MODEL}/{PLAN}: error: Qwen3MoeForCausalLM: " in output
    assert "model.layers.*.mlp.experts.gate_proj" in output
    assert code == 1


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param(CONVERTER, "import os\nos._exit(7)\n", "dies: its process has ended with exit code 7", id="dies"),
        pytest.param(CONVERTER, "1 / 0\n", "raises ZeroDivisionError: division by zero", id="raises"),
        pytest.param(CONVERTER, "import sys\nsys.exit(3)\n", "raises SystemExit: 3", id="exits"),
        pytest.param(CONVERTER, "input()\n", "raises EOFError", id="reads input"),
        pytest.param(CONVERTER, "def create():\n    pass\n", "must have one function create_", id="no factory"),
        pytest.param(PLAN, "def get_parallel_plan():\n    return {}\n", "no ParallelPlan", id="no plan"),
    ],
)
def test_what_is_no_converter_or_plan_is_red(copy: Copy, name: str, text: str, said: str) -> None:
    (copy.folder / name).write_text(text, encoding="utf-8")
    code, output = copy.gate("converter,plan", "zoo")
    assert sorted(verdicts(output).values()) == ["FAILED", "PASSED"]
    assert said in output
    assert "importlib" not in output
    assert code == 1


HANGING = """
import fcntl, time
from pathlib import Path

file = open(Path(__file__).with_name("held"), "w")
fcntl.flock(file, fcntl.LOCK_EX)
Path(__file__).with_name("hangs").touch()
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
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


def test_what_the_optional_package_of_another_machine_lacks_is_skipped(copy: Copy) -> None:
    copy.edit(CONVERTER, "from patchgen_core", "import torch_npu\nfrom patchgen_core")
    code, output = copy.gate("converter", "zoo")
    assert "No module named 'torch_npu'" in output
    assert code == 1
    copy.settings('optional_packages = ["torch_npu"]')
    code, output = copy.gate("converter", "zoo", "-rs")
    assert "optional package 'torch_npu' is not installed" in output
    assert code == 0


def test_a_text_that_is_being_written_is_the_one_that_is_checked(copy: Copy) -> None:
    generated = f"generated/patched_modeling_{MODEL}_gpu.py"
    copy.edit(generated, "self.gate_up_proj = nn.Parameter(", "self.gate_up_proj_ = nn.Parameter(")
    code, output = copy.gate("drift,converter,plan", "zoo")
    assert set(verdicts(output).items()) >= {("drift", "FAILED"), ("converter", "FAILED"), ("plan", "FAILED")}
    assert "The generated file has drifted: mend that first." in output
    code, output = copy.gate("drift,converter,plan", "zoo", "--patchgen-fix", "-n", "2")
    assert "1 config, 4 checks: 3 ok, 1 fixed." in output
    assert code == 0


KERNELS = """
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec

def make():
    import torch

    def rms_norm(hidden_states, weight, eps):
        return torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, {eps})

    return rms_norm

KERNEL_REGISTRY.register(KernelSpec("ours", "rms_norm", "standard", make))
"""


def test_kernels_of_the_project_are_checked_with_those_that_are_there(copy: Copy) -> None:
    (copy.root / "conftest.py").write_text(TORCH, encoding="utf-8")
    (copy.root / "zoo/kernels.py").write_text(KERNELS.format(eps="eps"), encoding="utf-8")
    copy.settings('kernels = ["zoo.kernels"]')
    code, output = copy.gate("kernel", "-k", "rms_norm-standard", "--patchgen-report=report.json")
    assert verdicts(output) == {
        "kernel[rms_norm-standard-eager]": "PASSED",
        "kernel[rms_norm-standard-liger_kernel]": "PASSED",
        "kernel[rms_norm-standard-ours]": "PASSED",
    }
    assert "rms_norm-standard-ours: largest error: 0." in output
    assert "imported []" in output
    assert code == 0
    results = json.loads((copy.root / "report.json").read_text(encoding="utf-8"))["results"]
    figures = {result["config"]: result["figures"] for result in results}
    assert 0 < figures["rms_norm-standard-ours"]["float32 gradient of weight"] < 1


def test_a_kernel_with_another_epsilon_is_red(copy: Copy) -> None:
    (copy.root / "zoo/kernels.py").write_text(KERNELS.format(eps="10 * eps"), encoding="utf-8")
    copy.settings('kernels = ["zoo.kernels"]')
    code, output = copy.gate("kernel", "-k", "ours or swiglu")
    assert verdicts(output) == {
        "kernel[rms_norm-standard-ours]": "FAILED",
        "kernel[swiglu_mlp-standard-eager]": "PASSED",
        "kernel[swiglu_mlp-standard-liger_kernel]": "PASSED",
    }
    assert "kernel rms_norm-standard-ours: " in output
    assert code == 1


def test_kernels_that_cannot_be_registered_are_one_failing_item(copy: Copy) -> None:
    (copy.root / "zoo/kernels.py").write_text("import no_such_package\n", encoding="utf-8")
    copy.settings('kernels = ["zoo.kernels"]')
    code, output = copy.gate("kernel")
    assert verdicts(output) == {"kernel": "FAILED"}
    assert "No module named 'no_such_package'" in output
    assert code == 1


def test_a_project_without_slots_has_no_kernel_items(copy: Copy) -> None:
    shutil.rmtree(copy.folder)
    shutil.copytree(ROOT / "examples/zoo/llama", copy.root / "zoo/llama")
    assert "kernel[" not in copy.gate("drift,kernel", "--collect-only")[1]

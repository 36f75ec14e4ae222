"""``patchgen doctor``: on this machine, and on ones where something is missing or broken."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rich

from patchgen_core.checks import doctor
from patchgen_core.project.pyproject import read_toml

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
SETTINGS = '[tool.patchgen]\nsearch_root = "models"\npackage_prefix = "models"\n'
BARE = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
sys.path.append("more")
from patchgen_core.cli.main import main
sys.exit(main(["doctor", *sys.argv[1:]]))
"""
DEPENDENCIES = ("rich", "pygments", "markdown_it", "mdurl", "msgspec")


def run(command: list[str], folder: Path, **environment: str) -> str:
    """What a command prints, which succeeds and says nothing else."""
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "COLUMNS": "80", **environment}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def bare(folder: Path, *arguments: str) -> str:
    """What the command prints where no package is installed but those that print, and what lies in ``more``."""
    more = folder / "more"
    more.mkdir(exist_ok=True)
    for name in DEPENDENCIES:
        if not (more / name).exists():
            (more / name).symlink_to(Path(rich.__file__).parents[1] / name)
    return run([sys.executable, "-S", "-c", BARE, *arguments], folder, PYTHONPATH="")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the command says here, in a project that registers a kernel."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text(f'{SETTINGS}kernels = ["models.kernels"]\n', encoding="utf-8")
    (folder / "models").mkdir()
    (folder / "models/a_patch_gen_config.py").touch()
    (folder / "models/kernels.py").write_text(KERNEL, encoding="utf-8")
    return json.loads(run([sys.executable, "-m", "patchgen_core", "doctor", "--json"], folder))


KERNEL = """
from patchgen_core.ops import KERNEL_REGISTRY, HardwareRequirement, KernelSpec

KERNEL_REGISTRY.register(KernelSpec("ours", "rms_norm", "standard", list, HardwareRequirement("xpu")))
"""


@pytest.mark.slow
def test_kernels_run_or_lack_something(here: Any) -> None:
    kernels = {(k["op"], k["variant"], k["name"]): k["lacks"] for k in here["machine"]["kernels"]}
    assert kernels["rms_norm", "standard", "eager"] == ""
    assert kernels["rms_norm", "standard", "liger_kernel"] == ""
    assert kernels["rms_norm", "standard", "npu"] == "needs package 'torch_npu'"
    assert kernels["rms_norm", "standard", "ours"] == "needs an XPU"


@pytest.mark.slow
def test_machine_packages_and_project_are_told(here: Any) -> None:
    import torch

    machine = here["machine"]
    assert machine["torch"].startswith(f"{torch.__version__}, built for ")
    assert (machine["device"], machine["devices"][0]["name"]) == ("cpu", "cpu")
    assert re.match(r"Triton \S+ interprets its kernels", machine["triton"][0])
    assert "adapter: bfloat16 is computed in float32 and rounded to the nearest" in machine["triton"]
    assert machine["problems"] == []
    packages = {package["name"]: package for package in here["packages"]}
    assert packages["torch"] | {"purpose": ""} == {
        "name": "torch",
        "version": torch.__version__,
        "lacks": "",
        "purpose": "",
        "install": "",
    }
    assert here["project"] == {"file": "pyproject.toml", "configs": 1, "search_root": "models", "problems": []}


def test_where_nothing_is_installed(tmp_path: Path) -> None:
    found = json.loads(bare(tmp_path, "--json"))
    packages = {package["name"]: package["install"] for package in found["packages"]}
    assert packages["torch"] == packages["liger-kernel"] == "pip install 'pytest-patchgen[parity]'"
    assert packages["pytest-xdist"] == "pip install 'pytest-patchgen[xdist]'"
    kernels = {(k["op"], k["name"]): k["lacks"] for k in found["machine"]["kernels"]}
    assert kernels["swiglu_mlp", "eager"] == "needs torch"
    assert kernels["swiglu_mlp", "liger_kernel"] == "needs package 'liger_kernel'"
    assert found["machine"]["problems"] == []
    assert found["project"]["problems"][0].startswith("no pyproject.toml with a [tool.patchgen] table")

    lines = bare(tmp_path).splitlines()
    told = "missing: pip install 'pytest-patchgen[parity]'  # for checks that run models and kernels"
    assert f"  torch         {told}" in lines
    assert "  torch  cannot be imported, so no model runs here" in lines
    assert "  swiglu_mlp               standard         eager         needs torch" in lines


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "raise OSError('libcudart.so.12: cannot open shared object file')",
            "torch does not import: OSError: libcudart.so.12: cannot open shared object file",
        ),
        pytest.param(
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "checking this machine dies: its process has ended by SIGSEGV",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_torch_that_is_broken(tmp_path: Path, code: str, said: str) -> None:
    (tmp_path / "more/torch").mkdir(parents=True)
    (tmp_path / "more/torch/__init__.py").write_text(code, encoding="utf-8")
    found = json.loads(bare(tmp_path, "--json"))
    (problem,) = found["machine"]["problems"]
    assert problem.startswith(said)
    text = bare(tmp_path)
    assert f"problems:\n  {said}\n" in text
    assert "  torch         installed, version unknown\n" in text


@pytest.mark.slow
def test_kernels_of_the_project_that_do_not_register(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f'{SETTINGS}kernels = ["models.kernels"]\n', encoding="utf-8")
    found = json.loads(run([sys.executable, "-m", "patchgen_core", "doctor", "--json"], tmp_path))
    assert found["machine"]["problems"] == [
        "the project's kernels cannot be registered: ModuleNotFoundError: No module named 'models'"
    ]
    assert found["project"]["problems"] == ["pyproject.toml: search_root 'models' is not a folder"]
    assert found["machine"]["kernels"]


def test_extras_are_those_of_the_package() -> None:
    extras = read_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]
    for extra in ("parity", "xdist"):
        wanted = {re.split(r"[>;]", requirement)[0] for requirement in extras[extra]}
        assert {name for name, _, _, known in doctor._PACKAGES if known == extra} == wanted

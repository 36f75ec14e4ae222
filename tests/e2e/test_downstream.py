"""A project of somebody else, from nothing: install, generate, a new transformers, red, mended, green."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("patchgen", "patchgen_core", "pytest_patchgen", "pyproject.toml", "README.md", "LICENSE")
OLD, NEW = "5.20.2", "5.23.0"
CONFIG = "acme/models/qwen3/qwen3_gpu_patch_gen_config.py"
GENERATED = "acme/models/qwen3/generated/patched_modeling_qwen3_gpu.py"
FILES = {
    "pyproject.toml": """
        [tool.patchgen]
        search_root = "acme/models"
        package_prefix = "acme.models"

        [tool.pytest.ini_options]
        testpaths = ["tests"]
        patchgen_checks = ["drift", "import", "contract"]

        [tool.ruff]
        line-length = 119
    """,
    "tests/test_own.py": "def test_own() -> None:\n    pass\n",
    "acme/__init__.py": "",
    "acme/models/__init__.py": "",
    "acme/models/qwen3/__init__.py": "from acme.models.qwen3.generated import patched_modeling_qwen3_gpu as gpu\n",
    CONFIG: '''
        """Qwen3 with its gate and up projections multiplied in place."""

        from patchgen import PatchConfig

        config = PatchConfig("transformers.models.qwen3.modeling_qwen3", "patched_modeling_qwen3_gpu.py")


        @config.override_method("Qwen3MLP.forward", description="One buffer less")
        def qwen3_mlp_forward(self, x):
            hidden = self.act_fn(self.gate_proj(x))
            hidden *= self.up_proj(x)
            return self.down_proj(hidden)
    ''',
}


class Downstream:
    """A virtual environment, and projects that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
        self.env["COLUMNS"] = "120"

    def call(self, *command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=cwd or self.folder, env=self.env, capture_output=True, text=True)

    def install(self, *arguments: str | Path) -> None:
        done = self.call(self.bin / "python", "-m", "pip", "install", "--quiet", "--no-compile", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def project(self, name: str) -> Path:
        root = self.folder / name
        for path, text in FILES.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return root

    def pytest(self, project: Path, *arguments: str) -> tuple[int, str]:
        done = self.call(self.bin / "pytest", *arguments, cwd=project)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def downstream(tmp_path: Path) -> Iterator[Downstream]:
    """A virtual environment with this project, torch and the old transformers, all by pip."""
    source = tmp_path / "source"
    source.mkdir()
    for path in (ROOT / name for name in SOURCES):  # a copy, because building leaves files behind
        if path.is_dir():
            shutil.copytree(path, source / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source)
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    (tmp_path / "constraints.txt").write_text(re.sub(r"^transformers.*\n", "", pins, flags=re.MULTILINE))
    made = Downstream(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    constrained = ("--constraint", tmp_path / "constraints.txt")
    made.install(*constrained, f"{source}[xdist]", "torch", f"transformers=={OLD}")
    yield made
    shutil.rmtree(tmp_path / "venv")


def test_the_day_of_an_upgrade(downstream: Downstream) -> None:
    runs = {downstream.project("serial"): (), downstream.project("parallel"): ("-n", "2")}
    for project, workers in runs.items():
        code, output = downstream.pytest(project, "--patchgen-fix", *workers)
        assert code == 0, output
        assert f"rewrote  {GENERATED}\n" in output
        code, output = downstream.pytest(project, "--patchgen", *workers)
        assert (code, "1 config, 4 checks: 4 ok.\n" in output) == (0, True), output
        assert "5 passed" in output
    assert_parity(downstream)
    downstream.install(f"transformers=={NEW}")
    for project, workers in runs.items():
        assert_red(*downstream.pytest(project, "--patchgen", *workers))
        code, output = downstream.pytest(project, "--patchgen-fix", *workers)
        assert code == 0, output
        assert "fixed: upstream moved" in output
        code, output = downstream.pytest(project, "--patchgen", *workers)
        assert code == 0, output
        assert f"#  Based on: transformers=={NEW}\n" in (project / GENERATED).read_text(encoding="utf-8")
    assert_parity(downstream)


def assert_parity(downstream: Downstream) -> None:
    code, output = downstream.pytest(downstream.folder / "serial", "--patchgen-checks=parity", "-v")
    assert code == 0, output
    assert "parity[patched] PASSED" in output


def assert_red(code: int, output: str) -> None:
    assert code == 1, output
    assert "1 failed, 4 passed" in output
    cause = f"upstream moved: transformers {OLD} -> {NEW}; "
    assert f"\n{cause}" in output
    assert "Qwen3ForCausalLM.forward" in output.partition(cause)[2].partition("\n")[0]
    assert "\n-        logits = self.lm_head(hidden_states[:, slice_indices, :])\n" in output
    assert "\n+        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)\n" in output
    assert "Run 'pytest --patchgen-fix' to rewrite what drifted.\n" in output

"""A project of somebody else, from nothing: install, generate, a new transformers, red, mended, green."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from patchgen_core.project.pyproject import read_toml

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SOURCES = ("patchgen", "patchgen_core", "pytest_patchgen", "pyproject.toml", "README.md", "LICENSE")
OLD, NEW = "5.20.2", "5.23.0"
WITH_COMMANDS = ("pytest", "ruff")
"""What is required and called as a command, which pip puts where it belongs."""
CONFIG = "acme/models/qwen3/qwen3_gpu_patch_gen_config.py"
GENERATED = "acme/models/qwen3/generated/patched_modeling_qwen3_gpu.py"
FILES = {
    "pyproject.toml": """
        [tool.patchgen]
        search_root = "acme/models"
        package_prefix = "acme.models"
        diffs = true

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
        pip = (sys.executable, "-m", "pip", "--python", self.bin / "python")  # to bring another one takes long
        done = self.call(*pip, "install", "--quiet", "--no-compile", *arguments)
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


def link(name: str, site: Path) -> None:
    """Have an environment use a package of this one with what it requires: to unpack and compile torch takes long."""
    package = distribution(name)
    for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
        if name not in WITH_COMMANDS and not (site / top).exists():
            (site / top).symlink_to(Path(str(package.locate_file(top))).resolve())
    link_required(requirements(name), site)


def requirements(name: str) -> list[str]:
    """What a package requires without its extras."""
    return [text for text in distribution(name).requires or () if "extra ==" not in text]


def link_required(requirements: Iterable[str], site: Path) -> None:
    """Have an environment use packages of this one that are required; pip fetches those that are not here."""
    for requirement in requirements:
        with contextlib.suppress(PackageNotFoundError):  # of another platform
            link(re.split(r"[^\w.-]", requirement, maxsplit=1)[0], site)


@pytest.fixture
def downstream(tmp_path: Path) -> Iterator[Downstream]:
    """A virtual environment with this project and the old transformers by pip, what they require, and torch."""
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
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    link("torch", site)
    declared = read_toml(ROOT / "pyproject.toml")["project"]
    link_required([*declared["dependencies"], *declared["optional-dependencies"]["xdist"]], site)
    link_required(requirements("transformers"), site)
    constrained = ("--constraint", tmp_path / "constraints.txt")
    made.install(*constrained, f"{source}[xdist]", "torch", f"transformers=={OLD}")
    yield made
    shutil.rmtree(tmp_path / "venv")


def test_the_day_of_an_upgrade(downstream: Downstream) -> None:
    """By one process with all checks, and by two workers without the imports, which take the longest."""
    parallel = ("-n", "2", "--patchgen-checks=drift,contract")
    runs = {downstream.project("serial"): ((), 4), downstream.project("parallel"): (parallel, 3)}
    for project, (options, _) in runs.items():
        code, output = downstream.pytest(project, "--patchgen-fix", *options)
        assert code == 0, output
        assert f"rewrote  {GENERATED}\n" in output
    assert_green_with_parity(downstream)
    downstream.install(f"transformers=={NEW}")
    for project, (options, checks) in runs.items():
        hint = "Run 'pytest --patchgen-fix" + "".join(f" {option}" for option in options if "checks" in option) + "'"
        assert_red(*downstream.pytest(project, "--patchgen", *options), checks, hint)
        code, output = downstream.pytest(project, "--patchgen-fix", *options)
        assert code == 0, output
        assert "fixed: upstream moved" in output
        assert f"#  Based on: transformers=={NEW}\n" in (project / GENERATED).read_text(encoding="utf-8")
    assert_green(*downstream.pytest(downstream.folder / "parallel", "--patchgen", *parallel), 3)
    assert_green_with_parity(downstream)


def assert_green(code: int, output: str, checks: int) -> None:
    assert (code, f"1 config, {checks} checks: {checks} ok" in output) == (0, True), output
    assert f"{checks + 1} passed" in output


def assert_green_with_parity(downstream: Downstream) -> None:
    checks = "--patchgen-checks=drift,import,contract,parity"
    code, output = downstream.pytest(downstream.folder / "serial", checks, "-v")
    assert_green(code, output, 5)
    assert "parity[patched] PASSED" in output


def assert_red(code: int, output: str, checks: int, hint: str) -> None:
    assert code == 1, output
    assert f"1 failed, {checks} passed" in output
    cause = f"upstream moved: transformers {OLD} -> {NEW}; "
    assert f"\n{cause}" in output
    assert "Qwen3ForCausalLM.forward" in output.partition(cause)[2].partition("\n")[0]
    assert "\n-        logits = self.lm_head(hidden_states[:, slice_indices, :])\n" in output
    assert "\n+        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)\n" in output
    assert f"{hint} to rewrite what drifted.\n" in output, output

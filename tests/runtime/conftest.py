"""What several files of tests use."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchgen_core.auto import unregister_from_auto
from patchgen_core.monkey_patch import MonkeyPatcher
from patchgen_core.registry import MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY, MODELING_REGISTRY
from tests.runtime.auto_project import PATCH, REGISTERED, VISION
from tests.runtime.patchers import UPSTREAM


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with generated modules, importable as ``acme``."""
    root = tmp_path_factory.mktemp("project")
    files = {
        "pyproject.toml": '[tool.patchgen]\nsearch_root = "acme"\npackage_prefix = "acme"\n',
        "acme/__init__.py": REGISTERED,
        "acme/qwen3/qwen3_gpu_patch_gen_config.py": PATCH.format(device="gpu"),
        "acme/qwen3/qwen3_npu_patch_gen_config.py": PATCH.format(device="npu"),
        "acme/qwen3_vl_moe/qwen3_vl_moe_gpu_patch_gen_config.py": VISION,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    command = [sys.executable, "-m", "patchgen_core", "--check", "--fix"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.fixture
def acme(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The project's models, registered here; nothing of them is left afterwards."""
    monkeypatch.syspath_prepend(str(project))
    sys.modules.pop("acme", None)
    __import__("acme")
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unregister_from_auto()
    for registry in (MODELING_REGISTRY, MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY):
        keys = registry.keys()
        for key in keys:
            registry.unregister(key)
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme"]:
        del sys.modules[name]


@pytest.fixture
def patcher() -> MonkeyPatcher:
    """A registry of its own."""
    return MonkeyPatcher()


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], types.ModuleType]]:
    """Imports an upstream module that nothing has imported before."""
    (tmp_path / "toy_upstream.py").write_text(UPSTREAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda: importlib.import_module("toy_upstream")
    sys.modules.pop("toy_upstream", None)

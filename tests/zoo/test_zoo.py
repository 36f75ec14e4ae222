"""The zoo, as a downstream project: the gate goes red for the right reason and green again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.upstream.module import find_upstream

ROOT = Path(__file__).parents[2]
QWEN3 = "zoo.qwen3.qwen3_gpu_patch_gen_config"
GENERATED = "examples/zoo/qwen3/generated/patched_modeling_qwen3_gpu.py"


class Zoo:
    """A copy of two models of the zoo that may be broken, and of the upstream files that they read."""

    def __init__(self, folder: Path) -> None:
        self.root, self.site = folder / "zoo", folder / "site"
        self.root.mkdir()
        shutil.copy(ROOT / "pyproject.toml", self.root)
        for model in ("llama", "qwen3"):
            folder = f"examples/zoo/{model}"
            shutil.copytree(ROOT / folder, self.root / folder, ignore=shutil.ignore_patterns("__pycache__"))
            upstream = find_upstream(f"transformers.models.{model}.modeling_{model}").path
            target = self.site / "transformers/models" / model / upstream.name
            target.parent.mkdir(parents=True)
            shutil.copy(upstream, target)
        (self.site / "transformers/__init__.py").touch()
        self.upstream = self.site / "transformers/models/qwen3/modeling_qwen3.py"

    def replace(self, path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def patchgen(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(self.site)}
        command = [sys.executable, "-m", "patchgen_core", *arguments]
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True)

    def goes_red_and_green(self, cause: str, diff: str) -> None:
        """The check fails with this cause and diff, --fix mends it, and the next check passes."""
        red = self.patchgen("--check")
        assert red.returncode == 1, red.stdout + red.stderr
        assert f"drifted  {QWEN3}  {cause}\n" in red.stdout
        assert diff in red.stdout
        assert self.patchgen("--check", "--fix").returncode == 0
        assert self.patchgen("--check").returncode == 0


FULLY = """
import json
from patchgen_core.build.selection import Selection
from patchgen_core.syntax.source import SourceCache
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.config.loading import Loader
from patchgen_core.project.table import load_project

project = load_project()
report = check(Selection(project), loader=Loader(project, SourceCache(), full=True), artifacts=True)
print(json.dumps([[r.outcome.label, r.outcome.loading, r.status, *map(str, r.causes)] for r in report.results]))
"""


@pytest.mark.slow
def test_full_loading_makes_the_same_bytes() -> None:
    """What is checked in is what light loading makes, as the zoo's own gate says."""
    done = subprocess.run([sys.executable, "-c", FULLY], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert [result for result in results if result[1:] != ["imported", "clean"]] == []
    assert len(results) == len(list((ROOT / "examples/zoo").glob("*/*_patch_gen_config.py")))


@pytest.fixture
def zoo(tmp_path: Path) -> Zoo:
    return Zoo(tmp_path)


@pytest.mark.slow
def test_checked_in_files_are_what_the_configs_make() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "patchgen_core", "--check", "-v"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_edited_generated_file(zoo: Zoo) -> None:
    zoo.replace(zoo.root / GENERATED, "input_dtype = hidden_states.dtype", "input_dtype = torch.bfloat16")
    zoo.goes_red_and_green(
        "edited by hand: Qwen3RMSNorm.forward changed",
        "-        input_dtype = torch.bfloat16\n+        input_dtype = hidden_states.dtype\n",
    )


@pytest.mark.slow
def test_edited_config(zoo: Zoo) -> None:
    """A shared patch: every config that imports it is told."""
    config = zoo.root / "examples/zoo/llama/llama_gpu_patch_gen_config.py"
    zoo.replace(
        config,
        "if labels is not None and slot_causal",
        "if logits_to_keep == 0 and labels is not None and slot_causal",
    )
    zoo.goes_red_and_green(
        "config changed: Qwen3ForCausalLM.forward changed",
        "-        if labels is not None and slot_causal_lm_loss.has_kernel:\n"
        "+        if logits_to_keep == 0 and labels is not None and slot_causal_lm_loss.has_kernel:\n",
    )


@pytest.mark.slow
def test_edited_upstream(zoo: Zoo) -> None:
    zoo.replace(zoo.upstream, "if n_rep == 1:", "if n_rep <= 1:")
    zoo.goes_red_and_green(
        "upstream moved: transformers 5.23.0; repeat_kv changed", "-    if n_rep == 1:\n+    if n_rep <= 1:\n"
    )


def test_patched_code_that_upstream_lost(zoo: Zoo) -> None:
    zoo.replace(zoo.upstream, "class Qwen3MLP(", "class Qwen3FeedForward(")
    before = (zoo.root / GENERATED).read_bytes()
    done = zoo.patchgen("--check", "--fix")
    assert done.returncode == 2
    assert "upstream transformers.models.qwen3.modeling_qwen3 has no class 'Qwen3MLP'" in done.stdout
    assert (zoo.root / GENERATED).read_bytes() == before


AUTO = """
import importlib, sys
import torch, transformers
from patchgen_core.auto import register_with_auto
from patchgen_core.models.toy_config import toy_config_for

HEADS = (
    "ForCausalLM", "ForImageTextToText", "ForMultimodalLM", "ForSequenceClassification", "ForTextToWaveform",
    "ForTokenClassification",
)
for model_type in sys.argv[1:]:
    importlib.import_module(f"zoo.{model_type}")
    register_with_auto(model_type)
    config = toy_config_for(model_type)
    for name in ("", *HEADS):
        auto = getattr(transformers, f"AutoModel{name}")
        if type(config) in auto._model_mapping:
            with torch.device("meta"):
                model = auto.from_config(config)
            below = getattr(model, model.base_model_prefix, model)
            print(model_type, f"AutoModel{name}", type(model).__module__, type(below).__module__)
"""
FOLDERS = sorted(path.parent.name for path in ROOT.glob("examples/zoo/*/__init__.py"))
MODELS = 19


@pytest.fixture(scope="module")
def auto_models() -> dict[str, dict[str, tuple[str, str]]]:
    """By model type and auto class: the modules of what it gives once a model is registered, and of its base."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "examples")}
    done = subprocess.run([sys.executable, "-c", AUTO, *FOLDERS], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for line in done.stdout.splitlines():
        model_type, name, module, below = line.split()
        found.setdefault(model_type, {})[name] = (module, below)
    return found


def test_the_zoo_has_every_model() -> None:
    assert len(FOLDERS) == MODELS


@pytest.mark.parametrize("model_type", FOLDERS)
@pytest.mark.slow
def test_auto_models_give_the_generated_classes(
    auto_models: dict[str, dict[str, tuple[str, str]]], model_type: str
) -> None:
    """With the generated base model below those heads that make theirs by AutoModel as well."""
    generated = f"zoo.{model_type}.generated.patched_modeling_{model_type}_gpu"
    given = auto_models[model_type]
    assert given == dict.fromkeys(given, (generated, generated))
    assert {"AutoModelForCausalLM", "AutoModelForMultimodalLM"} & set(given)

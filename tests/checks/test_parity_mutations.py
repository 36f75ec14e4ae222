"""Slips in patched code make the parity item red, and it names the patch (all of them: `make mutation`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.files import write_files
from patchgen_core.project.table import load_project
from tools.mutation.written_out import write_out

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
ZOO = ROOT / "examples/zoo"
CONFIGS = {model: ZOO / model / f"{model}_gpu_patch_gen_config.py" for model in ("llama", "qwen3_moe")}
NORM, MLP, ROTARY = "LlamaRMSNorm.forward", "LlamaMLP.forward", "apply_rotary_pos_emb"
HEAD, EXPERTS, MOE_HEAD = "LlamaForCausalLM.forward", "Qwen3MoeExperts.forward", "Qwen3MoeForCausalLM.forward"
_MASK = '            kwargs.get("token_mask", attention_mask),\n'
_LABELS = "labels=nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]"
DEFECTS = {
    "wrong_epsilon": ("llama", NORM, "variance + self.variance_epsilon)", "variance + 1e-6)"),
    "narrow_norm": ("llama", NORM, "hidden_states.to(torch.float32)", "hidden_states"),
    "no_gate": ("llama", MLP, "self.act_fn(self.gate_proj(x)) * self.up_proj(x)", "self.act_fn(self.gate_proj(x))"),
    "gate_and_up": ("qwen3_moe", EXPERTS, "self.act_fn(gate) * up", "self.act_fn(up) * gate"),
    "other_half": ("llama", ROTARY, "(rotate_half(k) * sin)", "(rotate_half(q)[:, : k.shape[1]] * sin)"),
    "sign": ("llama", ROTARY, "(q * cos) + ", "(q * cos) - "),
    "detached": ("llama", MLP, "act_fn(self.gate_proj(x)) * self", "act_fn(self.gate_proj(x)).detach() * self"),
    "shifted_twice": ("llama", HEAD, "labels=labels, vocab_size", f"{_LABELS}, vocab_size"),
    "no_mask": ("qwen3_moe", MOE_HEAD, _MASK, ""),
}
"""By name: the model and the patch that it is in, and the change."""


def results(root: Path) -> dict[str, dict[str, Any]]:
    """What the item ``parity[eager]`` says of a config for each defect, by the defect's name."""
    shutil.copy(ROOT / "pyproject.toml", root)
    zoo = root / "examples/zoo"
    for model in ("llama", "qwen3"):
        shutil.copytree(ZOO / model, zoo / model, ignore=shutil.ignore_patterns("__pycache__"))
    texts = {f"right_{model}": path.read_text(encoding="utf-8") for model, path in CONFIGS.items()}
    for name, (model, target, old, new) in DEFECTS.items():
        text = texts[f"right_{model}"]
        text = text if old in text else "".join(write_out(ROOT, CONFIGS[model], target))
        assert text.count(old) == 1, old
        texts[name] = text.replace(old, new)
    paths = {name: zoo / name / f"{name}_patch_gen_config.py" for name in texts}
    for name, path in paths.items():
        path.parent.mkdir()
        path.write_text(texts[name], encoding="utf-8")
    for outcome in make_artifacts(Selection(load_project(root), paths.values())):
        assert outcome.artifact is not None, outcome.problems
        write_files(outcome.artifact.files)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "pytest_patchgen",
        "-p",
        "no:cacheprovider",
        "-q",
        "-k",
        "eager and not through",
    ]
    command += ["--patchgen-checks=parity", "--patchgen-report=report.json", *map(str, paths.values())]
    environment = {**os.environ, "CI": "", "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=root, capture_output=True, check=False, env=environment)
    report = json.loads((root / "report.json").read_text(encoding="utf-8"))
    return {result["config"].split(".")[-1].removesuffix("_patch_gen_config"): result for result in report["results"]}


def test_defects_are_found_and_their_patches_named(tmp_path: Path) -> None:
    found, zoo = results(tmp_path), tmp_path / "examples/zoo"
    for model in CONFIGS:
        assert found.pop(f"right_{model}")["errors"] == []
    assert found.keys() == DEFECTS.keys()
    for name, (_, target, _, _) in DEFECTS.items():
        lines = (zoo / name / f"{name}_patch_gen_config.py").read_text(encoding="utf-8").splitlines()
        start = re.compile(rf'@config\.\w+\("{re.escape(target)}"')
        declared = max(number for number, line in enumerate(lines, 1) if start.match(line))
        errors = found[name]["errors"]
        assert errors, name
        for error in errors:
            assert error["location"]["line"] == declared, error["message"]
            assert f"'{target}'" in error["message"]

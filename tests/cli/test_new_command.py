"""``patchgen new`` on a transformers of its own, which nothing imports."""

from __future__ import annotations

import json
import re
import textwrap

import pytest

from tests.authoring.modules_to_patch import CONVERSIONS, EXPERTS, GENERIC, HEAD, HEIR, MLP, PRODUCT, ROTARY
from tests.conftest import Workspace

TOY = "transformers.models.toy"
NORM = """
@use_kernel_forward_from_hub("RMSNorm")
class ToyRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class ToySecondRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)
"""
IMPORTS = """
import torch
from torch import nn
from torch.nn import functional as F
from ...activations import ACT2FN
from ...integrations import use_experts_implementation, use_kernel_forward_from_hub, use_kernelized_func
from ...modeling_layers import GenericForSequenceClassification
from ...modeling_utils import PreTrainedModel
from ...outputs import Output
from ...utils import can_return_tuple


class ToyPreTrainedModel(PreTrainedModel):
    pass
"""
TABLES = """
from collections import OrderedDict

CONFIG_MAPPING_NAMES = OrderedDict([("toy", "ToyConfig"), ("plain", "PlainConfig"), ("toy-too", "ToyConfig")])
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict([("toy", "ToyForCausalLM"), ("plain", "PlainForCausalLM")])
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.update({"toy-too": "ToyForCausalLM"})
MODEL_MAPPING_NAMES = OrderedDict([("toy", "ToyModel"), ("plain", "PlainModel"), ("toy-too", "ToyModel")])
"""
BASE = """
from torch import nn


class PreTrainedModel(nn.Module):
    loss_function = None
"""
PLAIN = """
class PlainModel:
    def forward(self, x):
        return x


class PlainForCausalLM(PlainModel):
    pass
"""
EXPORTS = '\n\n__all__ = ["ToyModel", "ToyRMSNorm", "ToySecondRMSNorm", "ToyBlock", "apply_rotary", "ToyExperts"]\n'
FILES = ("toy_gpu_patch_gen_config.py", "__init__.py", "checkpoint_tensor_converter.py", "parallel_plan.py")
GENERATED = ("generated/patched_modeling_toy_gpu.py", "generated/patched_modeling_toy_gpu.diff")


@pytest.fixture
def site(work: Workspace) -> Workspace:
    """A project, and a transformers with two model types beside it."""
    mlp = MLP.format(annotation="", config="self.config = config", act="ACT2FN[config.hidden_act]", product=PRODUCT)
    mlp = mlp.replace("self.w2(self.act", "self.w2(self.act").replace("class ToyMLP(nn.Module):\n    pass\n", "")
    head = HEAD.replace("{between}", "").replace("nn.Module", "ToyPreTrainedModel")
    head = head.replace("        self.lm_head", "        self.model = ToyModel(config)\n        self.lm_head")
    experts = EXPERTS[: EXPERTS.index("class ToyForCausalLM")]
    parts = (IMPORTS, NORM, mlp, ROTARY, experts, head, HEIR.format("pass"), EXPORTS)
    work.upstream("\n\n".join(map(textwrap.dedent, parts)), f"{TOY}.modeling_toy", "5.0")
    work.upstream('class ToyConfig:\n    hidden_act: str = "silu"\n', f"{TOY}.configuration_toy", "5.0")
    work.upstream(PLAIN, "transformers.models.plain.modeling_plain", "5.0")
    for name in ("auto_mappings", "configuration_auto", "modeling_auto"):
        text = TABLES if name == "modeling_auto" else ""
        work.upstream(text, f"transformers.models.auto.{name}", "5.0")
    work.upstream(GENERIC, "transformers.modeling_layers", "5.0")
    work.upstream(BASE, "transformers.modeling_utils", "5.0")
    conversions = CONVERSIONS.replace("{operations}", "MergeModulelist(dim=0)")
    work.upstream(conversions, "transformers.conversion_mapping", "5.0")
    return work


def written(work: Workspace) -> list[str]:
    folder = work.models / "toy"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_writes_a_folder_that_the_gate_finds_clean(site: Workspace) -> None:
    done = site.patchgen("new", "toy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert written(site) == sorted([*FILES, *GENERATED])
    assert "patched  ToyRMSNorm.forward  Op slot for RMSNorm\n" in done.stdout
    assert done.stdout.endswith(
        "Run 'pytest --patchgen proj/models/toy/toy_gpu_patch_gen_config.py' for the gate over it.\n"
    )
    check = site.patchgen("check")
    assert (check.returncode, check.stdout) == (0, "1 config: 1 clean.\ncontracts: kept.\n"), check.stderr
    assert "same" in site.patchgen("new", "toy", "--force").stdout


@pytest.mark.slow
def test_config_reads_as_if_written_by_hand(site: Workspace) -> None:
    site.patchgen("new", "toy", "--no-generate")
    assert written(site) == sorted(FILES)
    text = (site.models / "toy" / FILES[0]).read_text()
    assert text.startswith('"""Toy by op slots: upstream\'s code stays, and a kernel takes over where one is bound.\n')
    assert "\nimport torch\nfrom patchgen import PatchConfig\n" in text
    assert "from transformers.outputs import Output\n" in text
    slots = ["slot_rms_norm", "slot_rotary_pos_emb", "slot_swiglu_mlp", "slot_moe_experts", "slot_causal_lm_loss"]
    places = [text.index(f"    {slot} = OpSlot(") for slot in slots]
    assert places == sorted(places)
    assert 'config.drop_decorators("ToyExperts", "use_experts_implementation")\n' in text
    shared = '"ToySecondRMSNorm.forward", edit=toy_rms_norm_forward, description="Op slot for RMSNorm"'
    assert shared in " ".join(text.split())
    assert "\n# Patch: apply_rotary\n# 1. fused kernel where one is bound\n" in text
    assert re.search(r"        return slot_rms_norm\(.*\)\n    # --- Patch.1 ---\n    \.\.\.\n", text)
    assert "from proj.models.toy.parallel_plan import get_parallel_plan" in text


@pytest.mark.slow
def test_what_goes_beside_the_config(site: Workspace) -> None:
    site.patchgen("new", "toy")
    init, converter, plan = ((site.models / "toy" / name).read_text() for name in FILES[1:])
    assert '@MODELING_REGISTRY.register("toy")\ndef register_toy_modeling(architecture: str):\n' in init
    assert "getattr(generated, architecture, generated.ToyModel)" in init
    assert "staticmethod(create_toy_checkpoint_tensor_converter)" in "".join(init.split())
    assert "return create_per_expert_converter(model)" in converter
    assert '"model.layers.*.feed.experts.gate_up_proj": Shard(0),' in plan


@pytest.mark.slow
def test_refuses_to_write_over_files_and_then_writes_nothing(site: Workspace) -> None:
    site.write("proj/models/toy/__init__.py", "mine = 1\n")
    done = site.patchgen("new", "toy")
    assert (done.returncode, written(site)) == (2, ["__init__.py"])
    assert (
        "proj/models/toy/__init__.py: error: there is already a file\n  Pass --force to overwrite it.\n" in done.stderr
    )
    assert site.patchgen("new", "toy", "--force").returncode == 0
    assert "mine" not in (site.models / "toy/__init__.py").read_text()


def test_writes_all_or_nothing(site: Workspace) -> None:
    (site.models / "toy/generated/patched_modeling_toy_gpu.py").mkdir(parents=True)
    done = site.patchgen("new", "toy", "--force")
    assert (done.returncode, written(site)) == (2, [])
    assert "cannot be read" in done.stderr


@pytest.mark.slow
def test_dry_run_shows_and_writes_nothing(site: Workspace) -> None:
    done = site.patchgen("new", "toy", "--dry-run")
    assert (done.returncode, list(site.models.rglob("*"))) == (0, [])
    assert "would be proj/models/toy/parallel_plan.py\n" in done.stdout
    assert "config = PatchConfig(" in done.stdout
    assert "Run " not in done.stdout


def test_json(site: Workspace) -> None:
    data = json.loads(site.patchgen("new", "toy", "--json").stdout)
    assert (data["exit_code"], data["model_type"], data["errors"]) == (0, "toy", [])
    assert data["upstream"] == f"{TOY}.modeling_toy"
    assert {"target": "apply_rotary", "description": "Op slot for the rotary embedding"} in data["patches"]
    assert data["written"] == data["files"]
    assert data["left"] == []


def test_unknown_model_types_get_the_nearest(site: Workspace) -> None:
    done = site.patchgen("new", "toyy")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: transformers has no model type 'toyy'\n  Did you mean 'toy' or 'toy-too'?\n"


@pytest.mark.slow
def test_a_type_with_the_classes_of_another_one_gets_its_own_folder(site: Workspace) -> None:
    done = site.patchgen("new", "toy-too")
    assert done.returncode == 0, done.stderr
    text = (site.models / "toy_too/toy_too_gpu_patch_gen_config.py").read_text()
    assert f'source_module="{TOY}.modeling_toy"' in text
    assert '.register("toy-too")' in (site.models / "toy_too/__init__.py").read_text()


def test_nothing_to_patch_is_told(site: Workspace) -> None:
    done = site.patchgen("new", "plain")
    assert (done.returncode, list(site.models.rglob("*"))) == (2, [])
    assert "error: nothing of 'transformers.models.plain.modeling_plain' fits an op slot" in done.stderr


def test_what_a_rule_objects_to_is_taken_out_and_told(site: Workspace) -> None:
    path = site.site / "transformers/models/toy/modeling_toy.py"
    path.write_text(path.read_text() + "\n\ntry:\n    from fast import ToyRMSNorm\nexcept ImportError:\n    pass\n")
    done = site.patchgen("new", "toy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "patched  ToyRMSNorm" not in done.stdout
    assert "left     ToyRMSNorm.forward  PG220 " in done.stdout
    assert site.patchgen("check").returncode == 0


def test_imports_neither_torch_nor_transformers(site: Workspace) -> None:
    for package in ("torch",):
        (site.site / f"{package}.py").write_text("raise RuntimeError('imported')\n")
    assert site.patchgen("new", "toy").returncode == 0

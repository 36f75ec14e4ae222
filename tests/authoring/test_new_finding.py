"""What ``patchgen new`` sees in upstream's text: told by what functions compute, not by their names."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from patchgen_core.authoring.new.classification import find_classification
from patchgen_core.authoring.new.experts import balance_left, find_experts
from patchgen_core.authoring.new.losses import find_losses
from patchgen_core.authoring.new.mlps import find_mlps
from patchgen_core.authoring.new.model_types import ModelType, nearest
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.norms import find_norms
from patchgen_core.authoring.new.parts import Found, function_name
from patchgen_core.authoring.new.plans import find_plan, stored_experts
from patchgen_core.authoring.new.rotary import find_rotary
from patchgen_core.syntax.source import parse_source

MODEL = ModelType(
    "toy", "transformers.models.toy.modeling_toy", "ToyConfig", ("ToyForCausalLM", "ToyModel"), "ToyModel"
)
CONFIGURATION = """
class ToyConfig:
    hidden_act: str = "silu"


class ToyTextConfig:
    hidden_activation: str = "gelu_pytorch_tanh"
    other_act: str = "relu"
"""


def upstream(text: str, configuration: str = CONFIGURATION) -> UpstreamSource:
    sources = [parse_source(Path(f"{n}.py"), textwrap.dedent(t)) for n, t in enumerate((text, configuration))]
    return UpstreamSource(MODEL, sources[0], (sources[1],))


def patched(found: Found) -> str:
    """The one patch's text, which has to be a function."""
    [patch] = found.patches
    ast.parse(patch.text)
    return patch.text


def left(found: Found) -> str:
    assert not found.patches
    [entry] = found.left
    return f"{entry.name}: {entry.reason}"


# --- norms -----------------------------------------------------------------------------------------

NORM = """
class ToyScale(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.tiny = eps

    def forward(self, x):
        {body}

    def _norm(self, y):
        return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.tiny)
"""


def norm(*body: str) -> Found:
    return find_norms(upstream(NORM.format(body="\n        ".join(body))))


@pytest.mark.parametrize(
    "body",
    [
        [
            "dtype = x.dtype",
            "x = x.to(torch.float32)",
            "variance = x.pow(2).mean(-1, keepdim=True)",
            "x = x * torch.rsqrt(variance + self.tiny)",
            "return self.weight * x.to(dtype)",
        ],
        ["return self._norm(x.float()).type_as(x) * self.weight"],
        [
            "unit = torch.rsqrt(x.float().square().mean(dim=-1, keepdim=True) + self.tiny)",
            "return self.weight * (x.float() * unit).to(x.dtype)",
        ],
    ],
)
def test_standard_norm_in_any_spelling(body: list[str]) -> None:
    text = patched(norm(*body))
    assert text.startswith(
        "def toy_scale_forward(self, x):\n    # --- Patch.1 ---\n    if slot_rms_norm.has_kernel:\n"
    )
    assert "return slot_rms_norm(x, self.weight, self.tiny)" in text
    assert text.endswith(f"    {body[-1]}\n")


def test_norm_that_casts_after_the_weight_is_called_in_float32() -> None:
    text = patched(norm("return (self.weight * self._norm(x.float())).to(x.dtype)"))
    assert "slot_rms_norm(x.to(torch.float32), self.weight.to(torch.float32), self.tiny).to(x.dtype)" in text


def test_one_plus_weight_is_another_variant() -> None:
    found = norm(
        "output = self._norm(x.float())", "output = output * (1.0 + self.weight.float())", "return output.type_as(x)"
    )
    assert "return slot_rms_norm(x, self.weight, self.tiny)" in patched(found)
    assert [slot.line for slot in found.patches[0].slots] == ['slot_rms_norm = OpSlot("rms_norm", "one_plus_weight")']


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (["return self._norm(x.float()).type_as(x)"], "it has no weight"),
        (["x = x - x.mean(-1, keepdim=True)", "return self.weight * self._norm(x)"], "it takes the mean off"),
        (["return self.weight * self._norm(x)"], "it casts or scales in another order"),
        (
            ["if x.dim() > 2:", "    x = x[0]", "return self.weight * self._norm(x)"],
            "it does more than to scale",
        ),
    ],
)
def test_other_norms_are_left(body: list[str], reason: str) -> None:
    assert left(norm(*body)).startswith(f"ToyScale: {reason}")


# --- MLPs ------------------------------------------------------------------------------------------

MLP = """
class ToyBlock(nn.Module):
    def __init__(self, config{annotation}):
        super().__init__()
        {config}
        self.w1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.act_fn = {act}

    def forward(self, x):
        return self.w2({product})


class ToyMLP(nn.Module):
    pass
"""
PRODUCT = "self.act_fn(self.w1(x)) * self.w3(x)"


def mlp(act: str, product: str = PRODUCT, config: str = "self.config = config", annotation: str = "") -> Found:
    return find_mlps(upstream(MLP.format(act=act, product=product, config=config, annotation=annotation)))


def test_swiglu_asks_the_configuration_which_activation_it_is() -> None:
    text = patched(mlp("ACT2FN[config.hidden_act]"))
    assert 'if self.config.hidden_act not in ("silu", "swish"):' in text
    assert "return self.w2(slot_swiglu_mlp(self.w1(x), self.w3(x)))" in text


def test_geglu_by_the_default_of_the_configuration_in_the_annotation() -> None:
    text = patched(
        mlp("ACT2FN[config.hidden_activation]", "self.w3(x) * self.act_fn(self.w1(x))", "", ": ToyTextConfig")
    )
    assert 'if type(self.act_fn).__name__ not in ("GELUTanh",):' in text
    assert "slot_geglu_mlp(self.w1(x), self.w3(x))" in text


def test_an_activation_that_is_fixed_is_not_asked_for() -> None:
    for act, product in (("nn.SiLU()", PRODUCT), ("None", "F.silu(self.w1(x)) * self.w3(x)")):
        text = patched(mlp(act, product))
        assert "slot_swiglu_mlp(self.w1(x), self.w3(x))" in text
        assert "raise ValueError" not in text


def test_other_activations_and_other_products_are_left() -> None:
    found = mlp("ACT2FN[config.other_act]", annotation=": ToyTextConfig")
    assert left(found).startswith("ToyBlock: its activation (other_act) is 'relu'")
    assert not mlp("ACT2FN[config.hidden_act]", "self.act_fn(self.w1(x)) * self.w3(self.w1(x))").patches
    text = MLP.format(act="ACT2FN[config.hidden_act]", product="self.act_fn(self.w1(x))", config="", annotation="")
    found = find_mlps(upstream(text.replace("ToyMLP", "Other").replace("ToyBlock", "ToyMLP")))
    assert left(found) == "ToyMLP: it has no gate: neither SwiGLU nor GEGLU"


# --- rotary functions ------------------------------------------------------------------------------

ROTARY = """
def turn_rotate(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary(query, key, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (query * cos) + (turn_rotate(query) * sin)
    k_embed = (key * cos) + (turn_rotate(key) * sin)
    return q_embed, k_embed


@use_kernelized_func(apply_rotary)
class ToyAttention:
    pass
"""


def test_full_rotation() -> None:
    found = find_rotary(upstream(ROTARY))
    assert "slot_rotary_pos_emb(query, key, cos, sin, unsqueeze_dim=unsqueeze_dim)" in patched(found)
    assert found.patches[0].text.startswith("def toy_apply_rotary(")
    assert found.dropped == [("ToyAttention", "use_kernelized_func")]
    casting = ROTARY.replace("return q_embed, k_embed", "return q_embed.to(query.dtype), k_embed.to(key.dtype)")
    assert patched(find_rotary(upstream(casting)))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("x1 = x[..., : x.shape[-1] // 2]", "x1 = x[..., ::2]", "it rotates neighbouring entries (interleaved)"),
        ("torch.cat((-x2, x1)", "torch.cat((x2, -x1)", "it rotates in another direction"),
        (
            "    q_embed",
            "    query, q_pass = query[..., :8], query[..., 8:]\n    q_embed",
            "it rotates a part of each head",
        ),
        ("cos = cos.unsqueeze(unsqueeze_dim)", "cos = cos.float().unsqueeze(unsqueeze_dim)", "it computes in float32"),
        (
            "class ToyAttention",
            "apply_rotary(q, k, c, s, unsqueeze_dim=0)\nclass ToyAttention",
            "it is called with unsqueeze_dim=0",
        ),
        ("    cos = cos.uns", "    cos = cos.split(mrope_section)[0]\n    cos = cos.uns", "each section of a head"),
    ],
)
def test_other_rotations_are_left(old: str, new: str, reason: str) -> None:
    text = ROTARY.replace("@use_kernelized_func(apply_rotary)\n", "").replace(old, new, 1)
    assert left(find_rotary(upstream(text))).startswith(f"apply_rotary: {reason}")


# --- experts ---------------------------------------------------------------------------------------

EXPERTS = """
@use_experts_implementation
class ToyExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(4, 16, 8))
        self.down_proj = nn.Parameter(torch.empty(4, 8, 8))
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, states: torch.Tensor, index, weights):
        final = torch.zeros_like(states)
        with torch.no_grad():
            mask = torch.nn.functional.one_hot(index, num_classes=self.num_experts + 1)
            mask = mask.permute(2, 1, 0)
            hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for number in hit:
            number = number[0]
            if number == self.num_experts:
                continue
            top_k_pos, token = torch.where(mask[number])
            current = states[token]
            gate, up = F.linear(current, self.gate_up_proj[number]).chunk(2, dim=-1)
            inner = self.act_fn(gate) * up
            inner = nn.functional.linear(inner, self.down_proj[number])
            inner = inner * weights[token, top_k_pos, None]
            final.index_add_(0, token, inner.to(final.dtype))
        return final


class ToyMoe(nn.Module):
    def __init__(self, config):
        self.experts = ToyExperts(config)


class ToyLayer(nn.Module):
    def __init__(self, config):
        self.feed = ToyMoe(config) if config.moe else None


class ToyModel(nn.Module):
    def __init__(self, config):
        self.layers = nn.ModuleList([ToyLayer(config) for _ in range(2)])


class ToyForCausalLM(nn.Module):
    def __init__(self, config):
        self.model = ToyModel._from_config(config)
"""


def test_standard_loop_whatever_its_names() -> None:
    found = find_experts(upstream(EXPERTS))
    call = "slot_moe_experts(states, index, weights, self.gate_up_proj, self.down_proj, self.act_fn)"
    assert call in patched(found)
    assert found.dropped == [("ToyExperts", "use_experts_implementation")]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "nn.functional.linear(inner, self.down_proj[number])",
            "inner @ self.down_proj[number] + self.down_proj_bias",
            "they have biases",
        ),
        (
            "F.linear(current, self.gate_up_proj[number])",
            "(current @ self.gate_up_proj[number])",
            "their parameters have inputs first",
        ),
        (
            "            inner = self.act_fn(gate) * up",
            "            inner = self._apply_gate(gate, up)",
            "they gate in a way of their own",
        ),
        ("self.act_fn(gate) * up", "self.act_fn(gate) * up * 2", "their loop is not the one"),
    ],
)
def test_other_experts_are_left(old: str, new: str, reason: str) -> None:
    assert left(find_experts(upstream(EXPERTS.replace(old, new, 1)))).startswith(f"ToyExperts: {reason}")


def test_plan_follows_what_builds_what() -> None:
    plan = find_plan(upstream(EXPERTS), ["ToyExperts"], {})
    assert plan is not None
    assert plan.patterns == {"ToyForCausalLM": ("model.layers.*.feed.experts",)}
    whole = (
        "class ToyForConditionalGeneration:\n    def __init__(self, config):\n        self.text = ToyModel(config)\n"
    )
    plan = find_plan(upstream(f"{EXPERTS}\n\n{whole}"), ["ToyExperts"], {})
    assert plan is not None
    assert plan.patterns["ToyForConditionalGeneration"] == ("text.layers.*.feed.experts",)
    assert not plan.is_one
    assert (
        find_plan(upstream(EXPERTS.replace("ToyLayer(config) for", "LAYERS[0](config) for")), ["ToyExperts"], {})
        is None
    )


CONVERSIONS = """
_MODEL_TO_CONVERSION_PATTERN = {"toy": "base"}


def _build_checkpoint_conversion_mapping():
    mapping = {
        "base": [WeightConverter("experts.*.up", "experts.gate_up_proj", operations=[{operations}])],
    }
    mapping["later"] = mapping["base"].copy()
    return mapping
"""


@pytest.mark.parametrize(
    ("operations", "layout"),
    [("MergeModulelist(dim=0), Concatenate(dim=1)", "per_expert"), ("Transpose(1, 2)", "transposed"), ("Odd()", "")],
)
def test_layout_of_the_hub(operations: str, layout: str) -> None:
    text = CONVERSIONS.replace("{operations}", operations)
    module = upstream(EXPERTS)
    assert stored_experts(module, parse_source(Path("c.py"), text)).layout == layout
    assert stored_experts(module, parse_source(Path("c.py"), text.replace('"toy"', '"later"'))).layout == "direct"
    more = text.replace('"base": [', '"base": [WeightConverter("conv", "q_conv", operations=[Concatenate(dim=0)]), ')
    assert stored_experts(module, parse_source(Path("c.py"), more)).layout == ""


# --- losses ----------------------------------------------------------------------------------------

HEAD = """
class ToyForCausalLM(nn.Module):
    def __init__(self, config):
        self.lm_head = nn.Linear(8, 16, bias=False)

    @can_return_tuple
    def forward(self, input_ids, labels: torch.LongTensor | None = None, logits_to_keep=0, **kwargs):
        \"\"\"
        Docs.
        \"\"\"
        outputs = self.model(input_ids, **kwargs)
        states = outputs.last_hidden_state
        # Only necessary logits
        picked = slice(-logits_to_keep, None)
        logits = self.lm_head(states[:, picked, :])
{between}
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=16, **kwargs)

        return Output(loss=loss, logits=logits, states=outputs.hidden_states)
"""


def head(between: str = "", **changes: str) -> Found:
    text = HEAD.replace("{between}", textwrap.indent(between, "        "))
    for old, new in changes.values() if changes else ():
        text = text.replace(old, new)
    return find_losses(upstream(text))


def test_loss_is_a_branch_before_the_logits() -> None:
    text = patched(head())
    assert text.startswith("def toy_for_causal_lm_forward(self, input_ids, labels: torch.LongTensor | None = None,")
    start = text.index(
        "    loss = None\n    logits = None\n    # --- Patch.1 ---\n    if labels is not None and slot_causal"
    )
    assert (
        text.index("    else:\n        # --- Patch.1 ---\n        # Only necessary logits\n        picked =") > start
    )
    assert text.count("loss = None") == 1
    assert "        states,\n" in text.replace("            ", "        ")
    assert "bias=" not in text


def test_scale_and_softcap_go_into_the_fused_loss() -> None:
    inside = "logits = logits / self.cap\nlogits = torch.tanh(logits)\nlogits = logits * self.cap"
    capped = f"if self.cap is not None:\n{textwrap.indent(inside, '    ')}"
    text = patched(head(f"logits = logits * self.scale\n{capped}"))
    assert "states * self.scale," in text
    assert "softcap=self.cap," in text
    named = f"cap = self.config.cap\n{capped.replace('self.cap', 'cap')}"
    assert "softcap=self.config.cap," in patched(head(named))
    asked = "if self.scale is not None:\n    logits = logits * self.scale"
    assert "states * (self.scale if self.scale is not None else 1.0)," in patched(head(asked))
    biased = head("logits = logits * self.scale", bias=(", bias=False", ""))
    assert left(biased) == "ToyForCausalLM: it scales logits that a bias was added to"
    assert "bias=self.lm_head.bias" in patched(head(bias=(", bias=False", "")))


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        ("logits = torch.tanh(logits)", "it changes the logits before the loss"),
        (
            "logits = logits / self.cap\nlogits = torch.tanh(logits)\nlogits = logits * self.cap\nlogits = logits * 2",
            "it changes",
        ),
        ("if self.scale:\n    logits = logits * self.scale", "it changes the logits before the loss"),
    ],
)
def test_logits_that_change_otherwise_are_left(between: str, reason: str) -> None:
    assert left(head(between)).startswith(f"ToyForCausalLM: {reason}")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("nn.Linear(8, 16, bias=False)", "ToyHead(8)", "its head 'lm_head' is more than one linear layer"),
        ("vocab_size=16, **kwargs", "vocab_size=16, shift_labels=labels", "its loss takes more"),
        (
            "self.loss_function(logits=logits, labels=labels, vocab_size=16, **kwargs)",
            "F.cross_entropy(logits, labels)",
            "it computes its loss by itself",
        ),
        ("logits=logits, states", "logits=logits.float(), states", "it uses 'logits' below the loss as well"),
        ("        return Output", "        n = picked\n        return Output", "it uses 'picked' below"),
        ("    @can", "    loss_function = other\n\n    @can", "it has a loss function of its own"),
    ],
)
def test_other_heads_are_left(old: str, new: str, reason: str) -> None:
    assert left(head(change=(old, new))).startswith(f"ToyForCausalLM: {reason}")


def test_load_balancing_loss_of_another_formula_is_left() -> None:
    module = upstream(
        "def load_balancing_loss_func(gate_logits, num_experts=None, top_k=2, attention_mask=None):\n    return 0\n"
    )
    [entry] = balance_left(module)
    assert entry.reason == "its formula is not the one of moe_load_balancing_loss/standard"


# --- heads for classification ----------------------------------------------------------------------

GENERIC = """
from .utils import auto_docstring, logging
from .outputs import Output

logger = logging.get_logger(__name__)


class GenericForSequenceClassification:
    @auto_docstring
    def forward(self, input_ids, labels=None) -> Output:
        hidden_states = self.model(input_ids)
        logits = self.score(hidden_states)
        logger.debug("here")
        pooled_logits = logits[torch.arange(2), -1]

        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, pooled_logits=pooled_logits, config=self.config)
        return Output(loss)
"""
HEIR = "class ToyForSequenceClassification(GenericForSequenceClassification, ToyPreTrainedModel):\n    {}\n"


def test_generic_head_is_spelled_out() -> None:
    generic = parse_source(Path("modeling_layers.py"), GENERIC)
    found = find_classification(upstream(HEIR.format("pass")), generic)
    text = patched(found)
    assert "hidden_states[torch.arange(2), -1]," in text
    assert "    # --- Patch.2 ---\n    elif labels is not None:\n        loss = self.loss_function(" in text
    [patch] = found.patches
    assert patch.decorators == ("auto_docstring",)
    assert dict(patch.imports) == {
        "Output": "transformers.outputs",
        **dict.fromkeys(["logging", "auto_docstring"], "transformers.utils"),
    }
    assert patch.block == ("logger = logging.get_logger(__name__)",)


def test_heads_with_more_of_their_own_are_left() -> None:
    generic = parse_source(Path("modeling_layers.py"), GENERIC)
    own = upstream(HEIR.format("def forward(self):\n        return None"))
    assert "methods of its own" in left(find_classification(own, generic))
    other = upstream("class ToyForSequenceClassification(nn.Module):\n    pass\n")
    assert "no plain heir" in left(find_classification(other, generic))
    changed = parse_source(Path("modeling_layers.py"), GENERIC.replace("self.score(", "self.classifier("))
    assert "another one than known" in left(find_classification(upstream(HEIR.format("pass")), changed))


# --- names -----------------------------------------------------------------------------------------


def test_names_of_replacements() -> None:
    assert function_name("LlamaRMSNorm.forward") == "llama_rms_norm_forward"
    assert function_name("Qwen3MoeForCausalLM.forward") == "qwen3_moe_for_causal_lm_forward"
    assert function_name("ToyModel.__init__") == "toy_model_init"


def test_nearest_model_types() -> None:
    known = ["deepseek_v2", "deepseek_v3", "qwen2_moe", "phi3", "gpt-sw3"]
    assert nearest("deepseek3", known)[0] == "deepseek_v3"
    assert nearest("Phi-3", known) == ["phi3"]
    assert nearest("gpt_sw3", known)[0] == "gpt-sw3"
    assert nearest("x", known) == []

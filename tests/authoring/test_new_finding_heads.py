"""What `patchgen new` finds in experts, losses and heads, and how it names it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen_core.authoring.new.classification import find_classification
from patchgen_core.authoring.new.experts import find_experts, find_other_balance
from patchgen_core.authoring.new.losses import find_losses
from patchgen_core.authoring.new.model_types import nearest
from patchgen_core.authoring.new.patches import Finding
from patchgen_core.authoring.new.plans import find_expert_layout, find_plan
from patchgen_core.syntax.function_names import function_name
from patchgen_core.syntax.source import parse_source
from tests.authoring.modules_to_patch import (
    CONVERSIONS,
    EXPERTS,
    GENERIC,
    HEAD,
    HEIR,
    left,
    only_patch,
    patched,
    upstream,
)

# --- experts ---------------------------------------------------------------------------------------


def test_standard_loop_whatever_its_names() -> None:
    patch = only_patch(find_experts(upstream(EXPERTS)))
    call = "slot_moe_experts(states, index, weights, self.gate_up_proj, self.down_proj, self.act_fn)"
    assert call in patch.text
    assert patch.drops == (("ToyExperts", "use_experts_implementation"),)


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
            "they have a gate of their own",
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


@pytest.mark.parametrize(
    ("operations", "layout"),
    [("MergeModulelist(dim=0), Concatenate(dim=1)", "per_expert"), ("Transpose(1, 2)", "transposed"), ("Odd()", "")],
)
def test_layout_of_the_hub(operations: str, layout: str) -> None:
    text = CONVERSIONS.replace("{operations}", operations)
    module = upstream(EXPERTS)
    assert find_expert_layout(module, parse_source(Path("c.py"), text)).name == layout
    assert find_expert_layout(module, parse_source(Path("c.py"), text.replace('"toy"', '"later"'))).name == "direct"
    more = text.replace('"base": [', '"base": [WeightConverter("conv", "q_conv", operations=[Concatenate(dim=0)]), ')
    assert find_expert_layout(module, parse_source(Path("c.py"), more)).name == ""


# --- losses ----------------------------------------------------------------------------------------


def head(between: str = "", **changes: str) -> Iterator[Finding]:
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
        ("logits=logits, states", "logits=logits.float(), states", "it also uses 'logits' after the loss"),
        ("        return Output", "        n = picked\n        return Output", "it also uses 'picked' after"),
        ("    @can", "    loss_function = other\n\n    @can", "it has a loss function of its own"),
    ],
)
def test_other_heads_are_left(old: str, new: str, reason: str) -> None:
    assert left(head(change=(old, new))).startswith(f"ToyForCausalLM: {reason}")


def test_load_balancing_loss_of_another_formula_is_left() -> None:
    module = upstream(
        "def load_balancing_loss_func(gate_logits, num_experts=None, top_k=2, attention_mask=None):\n    return 0\n"
    )
    [entry] = find_other_balance(module)
    assert entry.reason == "its formula is not the one of moe_load_balancing_loss/standard"


# --- heads for classification ----------------------------------------------------------------------


def test_generic_head_is_spelled_out() -> None:
    generic = parse_source(Path("modeling_layers.py"), GENERIC)
    patch = only_patch(find_classification(upstream(HEIR.format("pass")), generic))
    text = patch.text
    assert "hidden_states[torch.arange(2), -1]," in text
    assert "    # --- Patch.2 ---\n    elif labels is not None:\n        loss = self.loss_function(" in text
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
    assert "it does more than inherit" in left(find_classification(other, generic))
    changed = parse_source(Path("modeling_layers.py"), GENERIC.replace("self.score(", "self.classifier("))
    assert "that class is not the known one" in left(find_classification(upstream(HEIR.format("pass")), changed))


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

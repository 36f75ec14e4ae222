"""What ``patchgen new`` sees in upstream's text: told by what functions compute, not by their names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchgen_core.authoring.new.mlps import find_mlps
from patchgen_core.authoring.new.norms import find_norms
from patchgen_core.authoring.new.patches import Finding
from patchgen_core.authoring.new.rotary import find_rotary
from tests.authoring.modules_to_patch import (
    MLP,
    PRODUCT,
    ROTARY,
    left,
    only_patch,
    patched,
    upstream,
)

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


def norm(*body: str) -> Iterator[Finding]:
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
    scaled = "output = output * (1.0 + self.weight.float())"
    patch = only_patch(norm("output = self._norm(x.float())", scaled, "return output.type_as(x)"))
    assert "return slot_rms_norm(x, self.weight, self.tiny)" in patch.text
    assert [slot.line for slot in patch.slots] == ['slot_rms_norm = OpSlot("rms_norm", "one_plus_weight")']


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (["return self._norm(x.float()).type_as(x)"], "it has no weight"),
        (["x = x - x.mean(-1, keepdim=True)", "return self.weight * self._norm(x)"], "it subtracts the mean"),
        (["return self.weight * self._norm(x)"], "it casts or scales in another order"),
        (
            ["if x.dim() > 2:", "    x = x[0]", "return self.weight * self._norm(x)"],
            "it does more than scale",
        ),
    ],
)
def test_other_norms_are_left(body: list[str], reason: str) -> None:
    assert left(norm(*body)).startswith(f"ToyScale: {reason}")


# --- MLPs ------------------------------------------------------------------------------------------


def mlp(
    act: str, product: str = PRODUCT, config: str = "self.config = config", annotation: str = ""
) -> Iterator[Finding]:
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
    other = mlp("ACT2FN[config.other_act]", annotation=": ToyTextConfig")
    assert left(other).startswith("ToyBlock: its activation (other_act) is 'relu'")
    assert not [*mlp("ACT2FN[config.hidden_act]", "self.act_fn(self.w1(x)) * self.w3(self.w1(x))")]
    text = MLP.format(act="ACT2FN[config.hidden_act]", product="self.act_fn(self.w1(x))", config="", annotation="")
    ungated = find_mlps(upstream(text.replace("ToyMLP", "Other").replace("ToyBlock", "ToyMLP")))
    assert left(ungated) == "ToyMLP: it has no gate: neither SwiGLU nor GEGLU"


# --- rotary functions ------------------------------------------------------------------------------


def test_full_rotation() -> None:
    patch = only_patch(find_rotary(upstream(ROTARY)))
    assert "slot_rotary_pos_emb(query, key, cos, sin, unsqueeze_dim=unsqueeze_dim)" in patch.text
    assert patch.text.startswith("def toy_apply_rotary(")
    assert patch.drops == (("ToyAttention", "use_kernelized_func"),)
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

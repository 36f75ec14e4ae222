"""The cases of the ops that have default kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.ops.kernels.arguments import Case, Draw, Maker, strided

_EPS = 1e-5
_MANY_WORDS, _MANY_TOKENS = 65539, 1031
"""More than kernels take at a time, and a multiple of nothing."""


def _norms(draw: Draw, mean: float) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Label, hidden states and weight; some rows are so small that eps decides."""
    rows = draw.normal(5, 33) * torch.tensor([1.0, 3e-3, 0.0, 20.0, 1e-2]).to(draw.dtype)[:, None]
    yield "5 rows of 33", rows, draw.normal(33, scale=0.3, mean=mean)
    yield "one row", draw.normal(1, 7), draw.normal(7, scale=0.3, mean=mean)
    yield "heads, transposed", draw.normal(2, 4, 3, 16).transpose(1, 2), draw.normal(16, scale=0.3, mean=mean)
    yield "strided", strided(draw.normal(3, 2, 20)), strided(draw.normal(20, scale=0.3, mean=mean))
    yield "no rows", draw.normal(0, 5), draw.normal(5, scale=0.3, mean=mean)


def _rms_norm(draw: Draw, mean: float) -> Iterator[Case]:
    for label, states, weight in _norms(draw, mean):
        yield Case(label, {"hidden_states": states, "weight": weight, "eps": _EPS})


def _layer_norm(draw: Draw) -> Iterator[Case]:
    for label, states, weight in _norms(draw, mean=1.0):
        bias = draw.normal(weight.numel(), scale=0.5)
        yield Case(label, {"hidden_states": states, "weight": weight, "bias": bias, "eps": _EPS})
    weight = draw.normal(9, mean=1.0, scale=0.3)
    yield Case("no bias", {"hidden_states": draw.normal(4, 9), "weight": weight, "bias": None, "eps": _EPS})


def _rotary(draw: Draw) -> Iterator[Case]:
    def case(label: str, q: Tensor, k: Tensor, batch: int, unsqueeze_dim: int = 1) -> Case:
        angles = draw.normal(batch, q.shape[3 - unsqueeze_dim], q.shape[3] // 2, scale=3.0).float()
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(draw.dtype), angles.sin().to(draw.dtype)
        arguments = {"q": q, "k": k, "cos": cos, "sin": sin}
        if unsqueeze_dim != 1:
            arguments["unsqueeze_dim"] = unsqueeze_dim  # type: ignore[assignment]
        return Case(label, arguments, constant=frozenset({"cos", "sin"}))

    heads, keys = draw.normal(2, 5, 6, 10), draw.normal(2, 5, 3, 10)
    yield case("heads transposed, as projected", heads.transpose(1, 2), keys.transpose(1, 2), 2)
    yield case("contiguous", draw.normal(2, 3, 5, 6), draw.normal(2, 1, 5, 6), 2)
    yield case("one token, one head", draw.normal(1, 1, 1, 2), draw.normal(1, 1, 1, 2), 1)
    yield case("cos and sin shared by the batch", draw.normal(3, 2, 4, 8), draw.normal(3, 2, 4, 8), 1)
    yield case("heads in dimension 2", draw.normal(2, 5, 3, 8), draw.normal(2, 5, 1, 8), 2, unsqueeze_dim=2)
    yield case("strided", strided(draw.normal(2, 3, 4, 8)), strided(draw.normal(2, 1, 4, 8)), 2)
    yield case("no tokens", draw.normal(2, 3, 0, 8), draw.normal(2, 1, 0, 8), 2)


def _gated(draw: Draw) -> Iterator[Case]:
    def case(label: str, gate: Tensor, up: Tensor) -> Case:
        return Case(label, {"gate": gate, "up": up})

    yield case("5 rows of 33", draw.normal(5, 33, scale=3.0), draw.normal(5, 33))
    yield case("one row", draw.normal(1, 7, scale=3.0), draw.normal(1, 7))
    yield case("halves of one tensor", *draw.normal(2, 3, 40).chunk(2, dim=-1))
    yield case("strided", strided(draw.normal(2, 3, 9)), strided(draw.normal(2, 3, 9)))
    yield case("no rows", draw.normal(0, 5), draw.normal(0, 5))


def _cross_entropy(draw: Draw) -> Iterator[Case]:
    def case(label: str, logits: Tensor, labels: Tensor, **keywords: object) -> Case:
        return Case(label, {"logits": logits, "labels": labels}, keywords)

    labels = draw.integers(37, 6)
    some = labels.index_fill(0, torch.tensor([0, 4]), -100)
    all_but_one = labels.index_fill(0, torch.tensor([0, 1, 2, 4, 5]), -100)
    yield case("labels ignored", draw.normal(6, 37, scale=2.0), some)
    yield case("one row", draw.normal(1, 5), draw.integers(5, 1))
    yield case("all but one ignored", draw.normal(6, 37), all_but_one)
    yield case("all ignored", draw.normal(3, 5), torch.full((3,), -100))
    yield case("no rows", draw.normal(0, 5), draw.integers(5, 0))
    yield case("num_items_in_batch", draw.normal(6, 37), some, num_items_in_batch=9)
    yield case("num_items_in_batch, a tensor", draw.normal(6, 37), some, num_items_in_batch=torch.tensor(9))
    yield case("another ignore_index", draw.normal(6, 37), labels.index_fill(0, torch.tensor([1]), 2), ignore_index=2)
    yield case("strided, large logits", strided(draw.normal(4, 11, scale=30.0)), draw.integers(11, 4))
    yield case("more words than a block", draw.normal(2, _MANY_WORDS), torch.tensor([_MANY_WORDS - 1, 1]))


def _causal(draw: Draw) -> Iterator[Case]:
    batch, length, hidden, classes = 2, 5, 8, 37
    labels = draw.integers(classes, batch, length)
    some = labels.masked_fill(torch.tensor([[1, 0, 0, 0, 1], [1, 1, 0, 0, 0]]).bool(), -100)
    shifted = F.pad(some, (0, 1), value=-100)[:, 1:]
    last = torch.full_like(labels, -100)
    last[1, 3] = labels[1, 3]

    def case(label: str, labels: Tensor | None, **keywords: object) -> Case:
        states, weights = draw.normal(batch, length, hidden), draw.normal(classes, hidden, scale=0.5)
        return Case(label, {"hidden_states": states, "weights": weights, "labels": labels}, keywords)

    yield case("labels ignored, bias", some, bias=draw.normal(classes))
    yield case("labels", labels)
    yield case("all but one ignored", last)
    yield case("all ignored", torch.full_like(labels, -100))
    yield case("num_items_in_batch", some, num_items_in_batch=11)
    yield case("logits_to_keep", some, logits_to_keep=2, num_items_in_batch=torch.tensor(4))
    yield case("logits_to_keep, a tensor", labels, logits_to_keep=torch.tensor([0, 3]))
    yield case("shift_labels", None, shift_labels=shifted)
    yield case("softcap", labels, softcap=2.0)
    states, weights = strided(draw.normal(1, 2, 3)), strided(draw.normal(5, 3))
    yield Case("one row, strided", {"hidden_states": states, "weights": weights, "labels": draw.integers(5, 1, 2)})
    states, weights = draw.normal(1, 7, hidden), draw.normal(classes, hidden, scale=0.5)
    odd = draw.integers(classes, 1, 7)
    yield Case("rows that fill no chunk", {"hidden_states": states, "weights": weights, "labels": odd})


def _seq_cls(draw: Draw) -> Iterator[Case]:
    def case(label: str, states: Tensor, labels: Tensor, **keywords: object) -> Case:
        weights = draw.normal(5, states.shape[-1], scale=0.5)
        return Case(label, {"hidden_states": states, "weights": weights, "labels": labels}, keywords)

    yield case("pooled, bias", draw.normal(3, 8), draw.integers(5, 3), bias=draw.normal(5))
    yield case("one row", draw.normal(1, 7), draw.integers(5, 1))
    yield case("no rows", draw.normal(0, 7), draw.integers(5, 0))
    tokens = draw.integers(5, 2, 4).masked_fill(torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]]).bool(), -100)
    yield case("one label a sequence", draw.normal(2, 4, 8), tokens)
    yield case("num_items_in_batch", strided(draw.normal(3, 8)), draw.integers(5, 3), num_items_in_batch=7)
    yield case("logits_to_keep", draw.normal(2, 4, 8), draw.integers(5, 2, 4), logits_to_keep=1)


def _load_balancing(draw: Draw) -> Iterator[Case]:
    def logits(tokens: int) -> Tensor:
        """No two of a row near each other: which experts are chosen must not hang on rounding."""
        return (draw.orders(tokens, 5) - 2.0 + draw.normal(tokens, 5, scale=0.05).float()).to(draw.dtype)

    def case(label: str, tokens: int, top_k: int, mask: Tensor | None) -> Case:
        layers = (logits(tokens), strided(logits(tokens)))
        return Case(label, {"router_logits": layers, "num_experts": 5, "top_k": top_k, "attention_mask": mask})

    yield case("two layers", 7, 2, None)
    yield case("one row", 1, 1, None)
    yield case("padding", 6, 2, torch.tensor([[1, 1, 0], [1, 0, 0]]))


def _experts(draw: Draw) -> Iterator[Case]:
    def case(label: str, index: Tensor, hidden: int, inner: int, experts: int = 5) -> Case:
        weights = draw.normal(*index.shape).float().softmax(dim=-1).to(draw.dtype)
        arguments = {
            "hidden_states": draw.normal(index.shape[0], hidden),
            "top_k_index": index,
            "top_k_weights": weights,
            "gate_up_proj": draw.normal(experts, 2 * inner, hidden, scale=0.4),
            "down_proj": draw.normal(experts, hidden, inner, scale=0.4),
            "act_fn": F.silu,
        }
        return Case(label, arguments)

    yield case("two of five experts", draw.orders(7, 5)[:, :2], 16, 8)
    yield case("odd sizes", draw.orders(6, 5)[:, :3], 11, 5)
    yield case("one token", draw.orders(1, 5)[:, :2], 12, 6)
    yield case("experts without tokens", draw.orders(6, 2) + 1, 16, 8)
    yield case("all tokens to one expert", torch.full((6, 1), 3), 9, 8)
    yield case("more tokens for an expert than a block has", _mostly_one(_MANY_TOKENS), 7, 3)
    yield case("experts of other ranks", torch.tensor([[0, 5], [5, 5], [4, 1], [-1, 2]]), 16, 8)
    strides = case("strided", draw.orders(4, 5)[:, :2], 12, 6)
    floating = ("hidden_states", "gate_up_proj", "down_proj")
    yield Case("strided", {**strides.arguments, **{name: strided(strides.arguments[name]) for name in floating}})


def _mostly_one(tokens: int) -> Tensor:
    """Choices of experts (tokens, 1), of which nearly all are the same."""
    return torch.full((tokens, 1), 2).index_fill(0, torch.tensor([0, tokens - 1]), 4)


def _gpt_oss_experts(draw: Draw) -> Iterator[Case]:
    def bias(*shape: int) -> Tensor:
        """Far within or far beyond the limit, so that no rounding decides whether a value is clamped."""
        return (torch.tensor([-8.0, 0.0, 8.0])[draw.integers(3, *shape)] + draw.normal(*shape, scale=0.3)).to(
            draw.dtype
        )

    def case(label: str, index: Tensor, hidden: int, inner: int, experts: int = 5) -> Case:
        arguments = {
            "hidden_states": draw.normal(index.shape[0], hidden),
            "top_k_index": index,
            "top_k_weights": draw.normal(*index.shape).float().softmax(dim=-1).to(draw.dtype),
            "gate_up_proj": draw.normal(experts, hidden, 2 * inner, scale=0.15),
            "gate_up_proj_bias": bias(experts, 2 * inner),
            "down_proj": draw.normal(experts, inner, hidden, scale=0.4),
            "down_proj_bias": draw.normal(experts, hidden),
            "alpha": 1.702,
            "limit": 4.0,
        }
        return Case(label, arguments)

    yield case("two of five experts", draw.orders(7, 5)[:, :2], 16, 8)
    yield case("odd sizes", draw.orders(6, 5)[:, :3], 11, 5)
    yield case("one token", draw.orders(1, 5)[:, :2], 12, 6)
    yield case("experts without tokens", draw.orders(6, 2) + 1, 16, 8)
    yield case("experts of other ranks", torch.tensor([[0, 5], [5, 5], [4, 1], [-1, 2]]), 16, 8)
    strides = case("strided", draw.orders(4, 5)[:, :2], 12, 6)
    floating = ("hidden_states", "gate_up_proj", "gate_up_proj_bias", "down_proj")
    yield Case("strided", {**strides.arguments, **{name: strided(strides.arguments[name]) for name in floating}})


MAKERS: Mapping[tuple[str, str], Maker] = {
    ("rms_norm", "standard"): partial(_rms_norm, mean=1.0),
    ("rms_norm", "one_plus_weight"): partial(_rms_norm, mean=0.0),
    ("layer_norm", "standard"): _layer_norm,
    ("rotary_pos_emb", "full"): _rotary,
    ("swiglu_mlp", "standard"): _gated,
    ("geglu_mlp", "standard"): _gated,
    ("cross_entropy_loss", "standard"): _cross_entropy,
    ("cross_entropy_loss", "causal"): _causal,
    ("cross_entropy_loss", "seq_cls"): _seq_cls,
    ("moe_load_balancing_loss", "standard"): _load_balancing,
    ("moe_experts", "standard"): _experts,
    ("moe_experts", "gpt_oss"): _gpt_oss_experts,
}
"""What makes the cases, by op and variant."""

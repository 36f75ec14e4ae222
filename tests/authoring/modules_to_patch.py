"""Upstream modules in which something can be patched."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable
from pathlib import Path

from patchgen_core.authoring.new.model_types import ModelType
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.patches import Finding, NewPatch, Unpatched
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


def only_patch(findings: Iterable[Finding]) -> NewPatch:
    """The one patch, whose text has to be a function; beside it something may be left."""
    [patch] = [finding for finding in findings if isinstance(finding, NewPatch)]
    ast.parse(patch.text)
    return patch


def patched(findings: Iterable[Finding]) -> str:
    """The text of the one patch."""
    return only_patch(findings).text


def left(findings: Iterable[Finding]) -> str:
    """The one thing that is left, where nothing is patched."""
    [entry] = findings
    assert isinstance(entry, Unpatched)
    return f"{entry.name}: {entry.reason}"


MLP = """
class ToyBlock(nn.Module):
    def __init__(self, config{annotation}):
        super().__init__()
        {config}
        self.w1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.w2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self.w3 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.act_fn = {act}

    def forward(self, x):
        return self.w2({product})


class ToyMLP(nn.Module):
    pass
"""
PRODUCT = "self.act_fn(self.w1(x)) * self.w3(x)"
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
EXPERTS = """
@use_experts_implementation
class ToyExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_experts = 4
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
CONVERSIONS = """
_MODEL_TO_CONVERSION_PATTERN = {"toy": "base"}


def _build_checkpoint_conversion_mapping():
    mapping = {
        "base": [WeightConverter("experts.*.up", "experts.gate_up_proj", operations=[{operations}])],
    }
    mapping["later"] = mapping["base"].copy()
    return mapping
"""
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
GENERIC = """
from .utils import auto_docstring, logging
from .outputs import Output

logger = logging.get_logger(__name__)


class GenericForSequenceClassification:
    def __init__(self, config):
        super().__init__(config)
        self.model = AutoModel.from_config(config)
        self.score = torch.nn.Linear(config.hidden_size, config.num_labels)
        self.config = config

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

"""Parity on rows of other sizes: defects that toy batches are too small or too even for."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest

from patchgen_core.checks.parity.patched_numbers import ROUNDED, find_patched_numbers
from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.errors import Location
from tests.checks.parity_runs import PREAMBLE, WHOLE, compare
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

IN_PIECES = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    pieces = x.split(48, dim=1)
    if len(pieces) == 1:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
    return torch.cat([self.down_proj(self.act_fn(self.up_proj(p)) * self.gate_proj(p)) for p in pieces], 1)
"""
OTHER_HEADS = 'config.exclude_from_output("LlamaForTokenClassification", "LlamaForQuestionAnswering")\n'
IMPORTED = 'config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])\n'
CLASSIFIER = f"{WHOLE}\n{OTHER_HEADS}{IMPORTED}"
LAST_TOKEN = """
@config.override_method("LlamaForSequenceClassification.forward")
def classify(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
    hidden_states = self.model(input_ids, attention_mask=attention_mask, **kwargs).last_hidden_state
    logits = self.score(hidden_states)
    tokens = -1
    if input_ids is not None and self.config.pad_token_id is not None:
        is_text = input_ids != self.config.pad_token_id
        tokens = {tokens}
    pooled_logits = logits[torch.arange(len(logits)), tokens]
    loss = None
    if labels is not None:
        loss = self.loss_function(logits=logits, labels=labels, pooled_logits=pooled_logits, config=self.config)
    return SequenceClassifierOutputWithPast(loss=loss, logits=pooled_logits)
"""
MIXTRAL = PREAMBLE.replace("llama", "mixtral").replace("Llama", "Mixtral")
EXPERTS = """
@config.override_method("MixtralExperts.forward")
def experts_forward(self, hidden_states, top_k_index, top_k_weights):
    result = torch.zeros_like(hidden_states)
    for expert in {experts}:
        tokens, places = torch.where(top_k_index == expert)
        tokens, places = tokens{most}, places{most}
        gate, up = nn.functional.linear(hidden_states[tokens], self.gate_up_proj[expert]).chunk(2, dim=-1)
        states = nn.functional.linear(self.act_fn(gate) * up, self.down_proj[expert])
        result = result.index_add(0, tokens, states * top_k_weights[tokens, places, None])
    return result
"""
ALL = "range(self.num_experts)"


@pytest.mark.slow
def test_a_number_in_a_patch_is_crossed_by_a_row(work: Workspace) -> None:
    result = compare(work, IN_PIECES)
    (problem,) = result.errors
    assert "look at the patch of 'LlamaMLP.forward'" in problem.message
    assert "Batch '97 tokens'" in problem.hint
    assert any("sizes is varied, because the patches" in note and "the number 48" in note for note in result.notes)


@pytest.mark.slow
def test_sums_over_pieces_have_other_bits(work: Workspace) -> None:
    right = IN_PIECES.replace(
        "self.act_fn(self.up_proj(p)) * self.gate_proj(p)", "self.act_fn(self.gate_proj(p)) * self.up_proj(p)"
    )
    result = compare(work, right)
    assert result.errors == ()
    figures = {name: value for name, value in result.figures.items() if ", 97 tokens, " in name}
    assert any(figures.values())


@pytest.mark.parametrize(
    ("tokens", "batch"),
    [
        ("torch.stack([row.nonzero()[-1, 0] for row in is_text])", "uneven rows"),
        ("(torch.arange(input_ids.shape[1], dtype=logits.dtype) * is_text).argmax(-1)", "513 tokens, rounded"),
    ],
)
@pytest.mark.slow
def test_rows_without_text_and_those_longer_than_a_dtype_counts(work: Workspace, tokens: str, batch: str) -> None:
    text = LAST_TOKEN.format(tokens=tokens)
    (problem,) = compare(work, text, preamble=CLASSIFIER, dtypes=("float32", "bfloat16")).errors
    assert "LlamaForSequenceClassification" in problem.message
    assert batch in f"{problem.message} {problem.hint}"


@pytest.mark.parametrize(
    ("experts", "most", "batch"),
    [
        (ALL, "[:19]", "uneven rows"),
        ("top_k_index.unique().squeeze().tolist()", "", "one token, num_experts_per_tok=1"),
    ],
)
@pytest.mark.slow
def test_experts_get_nearly_all_tokens_or_a_single_one(work: Workspace, experts: str, most: str, batch: str) -> None:
    (problem,) = compare(work, EXPERTS.format(experts=experts, most=most), preamble=MIXTRAL).errors
    assert "MixtralExperts.forward" in f"{problem.message} {problem.hint}"
    assert batch in f"{problem.message} {problem.hint}"


def counted(positions, hidden_states):
    places = torch.arange(12)  # noqa: F821
    return -100 * places.to(hidden_states.dtype)


def in_blocks(x):
    return split_rows(x, ROWS)  # noqa: F821


BLOCKS = f"""
ROWS = 40
{textwrap.dedent(inspect.getsource(in_blocks))}
def split_rows(x, rows):
    return x.split(min(rows, 24))
"""


@pytest.mark.parametrize(
    ("text", "numbers"), [(inspect.getsource(counted), {12, ROUNDED}), (BLOCKS, {40, 24})], ids=["counted", "blocks"]
)
def test_numbers_are_those_of_the_code_and_of_what_it_names(text: str, numbers: set[int]) -> None:
    (name,) = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)][:1]
    (node,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    lines = tuple(range(node.lineno, (node.end_lineno or 0) + 1))
    patch = PatchedCode(name, Location("config.py", 1), ((lines[0], lines[-1]),), lines)
    request = ParityRequest("own", "own.py", "theirs", "eager", patch.declared, (patch,), text=text)
    assert find_patched_numbers(request, "no_such_file.py") == numbers

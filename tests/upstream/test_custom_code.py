"""Upstream modules whose copies transformers initializes otherwise are found by their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.syntax.source import SourceFile, read_source
from patchgen_core.upstream.custom_code import BASE_MODULE, find_incomplete_starts
from patchgen_core.upstream.module import find_upstream

MODULE = """
class Gate(nn.Module):
    def __init__(self):
        {gate}


class Tall(Gate):
    pass


class ToyPreTrainedModel(PreTrainedModel):
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, (nn.Linear, {kind})):
            init.zeros_(module.inner.weight)


class OtherPreTrainedModel(ToyPreTrainedModel):
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, Gate):
            init.ones_(module.inner.weight)
"""
CUSTOM = "class PreTrainedModel:\n    def is_custom_code(cls): ...\n"


def source(folder: Path, name: str, text: str) -> SourceFile:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_source(path)


@pytest.mark.parametrize(
    ("gate", "kind", "base", "expected"),
    [
        ("self.inner = nn.Linear(2, 2)", "Gate", CUSTOM, ["ToyPreTrainedModel"]),
        ("self.inner = nn.Linear(2, 2)", "Tall", CUSTOM, ["ToyPreTrainedModel"]),
        ("self.inner = nn.Linear(2, 2)", "nn.Embedding", CUSTOM, ["OtherPreTrainedModel"]),
        ("self.inner = nn.Parameter(torch.empty(2))", "Gate", CUSTOM, []),
        ('self.register_buffer("inner", torch.empty(2))', "Tall", CUSTOM, []),
        ("self.inner = nn.Linear(2, 2)", "Gate", "class PreTrainedModel: ...\n", []),
    ],
)
def test_classes_that_give_values_to_the_children_of_others(
    tmp_path: Path, gate: str, kind: str, base: str, expected: list[str]
) -> None:
    module = source(tmp_path, "module.py", MODULE.format(gate=gate, kind=kind))
    assert find_incomplete_starts(module, source(tmp_path, "base.py", base)) == expected


@pytest.mark.torch
@pytest.mark.parametrize(("name", "expected"), [("gpt2", ["GPT2PreTrainedModel"]), ("llama", []), ("qwen3_vl", [])])
def test_modules_of_transformers(name: str, expected: list[str]) -> None:
    base, module = map(find_upstream, (BASE_MODULE, f"transformers.models.{name}.modeling_{name}"))
    assert find_incomplete_starts(read_source(module.path), read_source(base.path)) == expected

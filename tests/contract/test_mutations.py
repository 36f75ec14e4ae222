"""Defects that are brought into correct configs are found; `python -m tools.mutation.rules` breaks more models."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.project.table import load_project
from tools.mutation import gate
from tools.mutation.correct import ROOT, own_text, zoo_configs
from tools.mutation.evident import Reader, is_refused
from tools.mutation.mutant import Expected, RuleMutant
from tools.mutation.operators import BY_RULE
from tools.mutation.operators.callees import call_mutants
from tools.mutation.operators.signatures import signature_mutants
from tools.mutation.rules import RULES_BY_CODE, Score, judge, judge_model, main, merged, table

pytestmark = pytest.mark.torch

ZOO = ""
MODELS = [ZOO, "llama", "qwen3_moe"]


@pytest.mark.slow
@pytest.mark.parametrize("code", sorted(BY_RULE))
def test_95_of_100_defects_are_found(code: str) -> None:
    models = [*MODELS, "qwen3_vl_moe"] if code == "PG205" else MODELS
    scores = merged([judge_model(model, [code]) for model in models])
    owed, found = (sum(getattr(score, name) for score in scores.values()) for name in ("owed", "found"))
    missed = "\n".join(entry for score in scores.values() for entry in score.missed)
    assert owed >= 20
    assert 100 * found >= 95 * owed, missed
    for (_, kind), score in scores.items():
        assert score.found, f"{kind} is never found:\n{missed}"


def test_every_error_rule_is_measured() -> None:
    errors = {code for code, rule in RULES_BY_CODE.items() if rule.severity == "error"}
    assert errors - {"PG200"} == set(BY_RULE)


@pytest.mark.slow
def test_configs_are_correct_before_they_are_broken(tmp_path: Path) -> None:
    configs = zoo_configs(tmp_path)
    (tmp_path / "models").mkdir()
    own, generator = own_text("llama", tmp_path / "models")
    for config, in_folder in [*configs, (own, generator)]:
        assert config.pieces
        assert in_folder.errors("\n\n".join(config.statements)) == []
    for number in (0, 7, -1):
        piece = own.pieces[number]
        assert generator.errors(own.with_changes({piece.index: piece.text})) == []


def test_only_the_right_finding_about_the_right_target_counts(tmp_path: Path) -> None:
    config, generator = own_text("llama", tmp_path)
    mutant = next(m for m in signature_mutants(config) if m.place == "LlamaAttention.forward: attention_mask")
    assert mutant.operator == "drops a parameter"
    (right,) = mutant.expected
    for wrong in (
        Expected("LlamaMLP.forward", right.mentions),
        Expected(right.target, ("'position_embeddings'",)),
        Expected(right.target, right.mentions, "forward(self)"),
    ):
        score = judge(generator, RuleMutant("", "", mutant.text, "PG201", (right, wrong)))
        assert (score.owed, score.found, len(score.missed)) == (2, 1, 1)
    assert judge(generator, RuleMutant("", "", mutant.text, "PG202", (right,))).found == 0
    unbroken = config.with_changes({config.pieces[0].index: config.pieces[0].text})
    assert judge(generator, RuleMutant("", "", unbroken, "PG201", (right,))).found == 0


def test_a_config_that_is_refused_owes_nothing(tmp_path: Path) -> None:
    config, generator = own_text("llama", tmp_path)
    text = config.with_changes(more='config.drop_import_names("nothing")')
    score = judge(generator, RuleMutant("slip", "", text, "PG201", ()))
    assert (score.owed, score.refused) == (0, 1)
    assert "upstream does not know 'nothing'" in score.missed[0]


def test_callers_are_owed_a_finding_each(tmp_path: Path) -> None:
    config, _ = own_text("llama", tmp_path)
    mutant = next(m for m in call_mutants(config) if m.place == "LlamaRMSNorm.forward: hidden_states")
    assert sorted((e.target, e.node) for e in mutant.expected) == [
        ("LlamaDecoderLayer.forward", "self.input_layernorm(hidden_states)"),
        ("LlamaDecoderLayer.forward", "self.post_attention_layernorm(hidden_states)"),
        ("LlamaModel.forward", "self.norm(hidden_states)"),
    ]


READ = """
from torch import nn

def act(x): ...

class Block(nn.Module):
    def forward(self, x, mask=None): ...

class Fast(Block):
    def forward(self, x): ...

TABLE = {"slow": Block, "fast": Fast}

class Model(nn.Module):
    def __init__(self, config):
        self.one = Block()
        self.many = nn.ModuleList([Block() for _ in range(3)])
        self.any = TABLE[config.kind]()
        self.act = config.act

    def forward(self, x, act):
        for n, block in enumerate(self.many):
            x = block(x, n)
        act(x)
        self.act(x)
        super().forward(x)
        return self.any(self.one(x)) + self.helper(x)

    def helper(self, x):
        return act(x)
"""


def test_reader_tells_callees() -> None:
    found = {(ast.unparse(call.node), call.callee) for call in Reader(ast.parse(READ)).calls if call.owner}
    assert found == {
        ("block(x, n)", "Block.forward"),
        ("self.any(self.one(x))", "Block.forward"),
        ("self.any(self.one(x))", "Fast.forward"),
        ("self.one(x)", "Block.forward"),
        ("self.helper(x)", "Model.helper"),
        ("act(x)", "act"),
    }
    refused = [call.callee for call in Reader(ast.parse(READ.replace("block(x, n)", "block(x, n, 1, *y)"))).calls]
    assert "Block.forward" in refused
    wrong = Reader(ast.parse(READ.replace("block(x, n)", "block(x, n, 1, *y)"))).calls
    assert [ast.unparse(c.node) for c in wrong if is_refused(c.node, c.signature)] == ["block(x, n, 1, *y)"]


@pytest.mark.slow
def test_table_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {
        ("PG201", "drops"): Score(30, 27, 1, ["x"]),
        ("PG201", "swaps"): Score(10, 10),
        ("PG202", "gains"): Score(),
    }
    rows = [row.split() for row in table(scores).split("\n")[1:]]
    assert rows == [
        ["PG201", "40", "37", "92.5", "1"],
        ["drops", "30", "27", "90.0", "1"],
        ["swaps", "10", "10", "100.0", "0"],
        ["PG202", "0", "0", "100.0", "0"],
        ["gains", "0", "0", "100.0", "0"],
    ]
    assert main(["--models", "", "--select", "PG206", "--jobs", "1"]) == 0
    assert "of 100" in capsys.readouterr().out


def test_the_gate_is_measured_on_every_config_of_the_zoo(tmp_path: Path) -> None:
    def labels(models: str) -> list[str]:
        options = argparse.Namespace(own_text="", models=models)
        return [path.name.removesuffix("_patch_gen_config.py") for _, path in gate.configs(options, tmp_path)]

    paths = load_project(ROOT).find_configs()
    assert labels("") == [path.name.removesuffix("_patch_gen_config.py") for path in paths]
    assert labels("qwen3_moe,llama") == ["qwen3_moe_gpu", "qwen3_moe_npu", "llama_gpu"]
    with pytest.raises(PatchgenError, match="Did you mean 'llama'"):
        labels("lama")

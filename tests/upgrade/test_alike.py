"""How alike definitions are, and new code that the reason of a patch may apply to."""

from __future__ import annotations

import ast

from patchgen_core.syntax.nodes import Definition
from patchgen_core.upgrade.verdicts.similar_code import moved_module, nearest, ratio, tokens_of
from tests.conftest import Workspace
from tests.upgrade.two_releases import compared, relied

NORM = """
class ToyRMSNorm:
    def __init__(self, size):
        self.size = size

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * rsqrt(variance + self.eps)).to(x.dtype)
"""
PATCH = """
@config.override_method("ToyRMSNorm.forward")
def norm_forward(self, x):
    return fast(x)
"""
ROTARY = """

def apply_rotary(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
"""


def definition(text: str) -> Definition:
    node = ast.parse(text).body[0]
    assert isinstance(node, (ast.ClassDef, ast.FunctionDef))
    return node


def new_code(work: Workspace, config: str, old: str, new: str) -> dict[str, list[str]]:
    """The new code that is found, by the patch it is found for."""
    found = {p.target: [f.about for f in relied(p, "alike")] for p in compared(work, config, old, new).patches}
    return {target: names for target, names in found.items() if names}


def test_the_ratio_tells_how_much_of_the_code_is_the_same() -> None:
    one, other = (definition(f"def f(x):\n    return g(x, {end})\n") for end in ("a.b(c)", "a.b(d)"))
    assert ratio(tokens_of(one), tokens_of(one)) == 1
    assert 0.7 < ratio(tokens_of(one), tokens_of(other)) < 1
    assert ratio(tokens_of(one), tokens_of(definition("def f():\n    while 1:\n        y += 2\n"))) < 0.5


def test_the_nearest_is_of_the_same_sort_and_alike_enough() -> None:
    node = definition(NORM)
    other = definition(NORM.replace("class ToyRMSNorm", "class Norm").replace("pow(2)", "square()"))
    found = nearest(node, "", [("f", definition(ROTARY), ""), ("Norm", other, "")])
    assert found is not None
    assert (found.name, found.percent[-5:]) == ("Norm", "alike")
    assert nearest(node, "", [("f", definition(ROTARY), "")]) is None


def test_a_second_norm_beside_the_patched_one_is_new_code(work: Workspace) -> None:
    second = NORM.replace("ToyRMSNorm", "ToyVisionRMSNorm").replace("keepdim=True", "keepdim=False")
    assert new_code(work, PATCH, NORM, NORM + second) == {"ToyRMSNorm.forward": ["ToyVisionRMSNorm.forward"]}
    verdict = compared(work, PATCH, NORM, NORM + second).patches[0]
    (finding,) = relied(verdict, "alike")
    assert (finding.kind, finding.risk, verdict.verdict, verdict.risk) == ("new code", "review", "unchanged", "review")
    assert finding.detail.endswith("alike 'ToyRMSNorm.forward', which is patched")


def test_what_is_old_patched_excluded_or_unlike_is_no_new_code(work: Workspace) -> None:
    second = NORM.replace("ToyRMSNorm", "ToyVisionRMSNorm")
    assert new_code(work, PATCH, NORM + second, NORM + second + "\n") == {}
    patched = PATCH + PATCH.replace("ToyRMSNorm", "ToyVisionRMSNorm").replace("norm_forward", "vision_forward")
    assert new_code(work, patched, NORM, NORM + second) == {}
    excluded = f"config.exclude_from_output('ToyVisionRMSNorm')\n{PATCH}"
    assert new_code(work, excluded, NORM, NORM + second) == {}
    unlike = "\n\nclass ToyLayerNorm:\n    def forward(self, x):\n        return layer_norm(x, self.shape, 1e-5)\n"
    assert new_code(work, PATCH, NORM, NORM + unlike) == {}


def test_a_second_function_goes_to_the_patch_that_it_is_most_like(work: Workspace) -> None:
    config = PATCH + "\n@config.replace_function('apply_rotary')\ndef apply_rotary(q, k, cos, sin):\n    return q, k\n"
    second = ROTARY.replace("apply_rotary", "apply_rotary_vision")
    found = new_code(work, config, NORM + ROTARY, NORM + ROTARY + second)
    assert found == {"apply_rotary": ["apply_rotary_vision"]}


def test_of_several_patches_the_likest_gets_the_new_code(work: Workspace) -> None:
    half = ROTARY.replace("apply_rotary", "apply_half_rotary").replace("rotate_half(k) * sin", "k * sin")
    config = "\n@config.replace_function('apply_rotary')\ndef apply_rotary(q, k, cos, sin):\n    return q, k\n"
    config += config.replace("apply_rotary", "apply_half_rotary")
    second = half.replace("apply_half_rotary", "apply_vision_rotary")
    found = new_code(work, config, ROTARY + half, ROTARY + half + second)
    assert found == {"apply_half_rotary": ["apply_vision_rotary"]}
    reversed_order = new_code(work, config, half + ROTARY, half + ROTARY + second)
    assert reversed_order == found
    third = ROTARY.replace("apply_rotary", "apply_vision_rotary")
    assert new_code(work, config, ROTARY + half, ROTARY + half + third) == {"apply_rotary": ["apply_vision_rotary"]}


def test_a_new_head_beside_a_patched_one_need_not_be_as_alike(work: Workspace) -> None:
    head = """

class ToyForCausalLM:
    def forward(self, ids, labels=None):
        hidden = self.model(ids).last_hidden_state
        logits = self.lm_head(hidden[:, -self.keep:, :])
        loss = self.loss_function(logits, labels, self.vocab_size) if labels is not None else None
        return Output(loss=loss, logits=logits)
"""
    other = """

class ToyFor{}:
    def forward(self, ids, labels=None):
        hidden = self.dropout(self.model(ids).last_hidden_state)
        logits = self.score(hidden)
        loss = self.loss_function(logits, labels, self.config) if labels is not None else None
        if self.config.pooled:
            logits = logits.mean(dim=self.pooled)
        return Classified(loss=loss, logits=logits, hidden_states=hidden)
"""
    config = "\n@config.override_method('ToyForCausalLM.forward')\ndef forward(self, ids, labels=None):\n    pass\n"
    found = new_code(work, config, head, head + other.format("TokenClassification"))
    assert found == {"ToyForCausalLM.forward": ["ToyForTokenClassification.forward"]}
    assert new_code(work, config, head, head + other.format("mer")) == {}


def test_a_class_that_only_inherits_what_is_patched_is_no_new_code(work: Workspace) -> None:
    child = "\n\nclass ToyVisionRMSNorm(ToyRMSNorm):\n    pass\n"
    assert new_code(work, PATCH, NORM, NORM + child) == {}


def test_a_module_that_moved_is_found_by_its_last_part() -> None:
    modules = ["a.models.other.modeling_other", "a.models.toys.modeling_toy", "a.models.toy2.modeling_toys"]
    assert moved_module("a.models.toy.modeling_toy", modules) == "a.models.toys.modeling_toy"
    assert moved_module("a.models.toy.modeling_toy", modules[2:]) == "a.models.toy2.modeling_toys"
    assert moved_module("a.models.toy.modeling_toy", modules[:1]) == ""

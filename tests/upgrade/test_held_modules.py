"""Methods of upstream's other classes that a patch relies on, and what another release does to them."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.upgrade.two_releases import compared, verdict

OLD = """
class Router:
    def forward(self, x):
        logits = linear(x, self.weight)
        logits = softmax(logits)
        value, index = topk(logits, 2)
        value = value.to(logits.dtype)
        return logits, value, index


class Expert:
    def forward(self, x, scale=1):
        return x * scale


class Block:
    def __init__(self, config):
        self.gate = Router(config)
        self.experts = ModuleList([Expert(config) for _ in range(4)])

    def forward(self, x):
        return self.gate(x)


class Model:
    def __init__(self, config):
        self.block = Block(config)

    def get_positions(self, ids, grid=None):
        return ids
"""
GATE = """
@config.override_method("Block.forward")
def block_forward(self, x):
    logits, value, index = self.gate(x)
    return value
"""
EXPERTS = """
@config.override_method("Block.forward")
def block_forward(self, x):
    for number, expert in enumerate(self.experts):
        x = expert(x, 2)
    return x
"""
BY_CLASS = """
@config.override_method("Model.positions_function")
def positions_function(self):
    return partial(run, Model.get_positions, self)
"""
INNER = """
@config.override_method("Model.forward")
def model_forward(self, x):
    return self.block.gate.forward(x)
"""


def said(work: Workspace, config: str, *pairs: tuple[str, str]) -> list[tuple[str, str, str]]:
    """The findings on what a patch relies on: risk, what, detail."""
    new = OLD
    for before, after in pairs:
        assert before in new
        new = new.replace(before, after)
    findings = verdict(work, config, OLD, new).findings
    return [(f.risk, f"{f.about} {f.kind}", f.detail) for f in findings if f.relation == "used"]


def test_a_result_that_means_another_value(work: Workspace) -> None:
    renamed = (("logits = softmax", "probs = softmax"), ("topk(logits", "topk(probs"))
    (found,) = said(work, GATE, *renamed)
    assert found[:2] == ("review", "Router.forward changed")
    assert "value 1 that it returns is 'linear(...)' instead of 'softmax(...)'" in found[2]
    assert "in the dtype of 'linear(...)' instead of" in found[2]


def test_a_name_that_changed_alone_is_no_other_result(work: Workspace) -> None:
    assert [risk for risk, *_ in said(work, GATE, ("logits", "probs"))] == ["safe"]


def test_another_number_of_results(work: Workspace) -> None:
    (found,) = said(work, GATE, ("return logits, value, index", "return value, index"))
    assert found == ("must change", "Router.forward changed", "it returns 2 values instead of 3")


@pytest.mark.parametrize("config", [GATE, INNER])
def test_a_call_that_no_longer_fits(work: Workspace, config: str) -> None:
    head = "class Router:\n    def forward(self, x"
    (found,) = said(work, config, (head, f"{head}, size"))
    assert found[:2] == ("must change", "Router.forward signature changed")
    assert found[2].endswith("the replacement does not pass 'size'")


def test_entries_of_a_list_of_modules(work: Workspace) -> None:
    (found,) = said(work, EXPERTS, ("forward(self, x, scale=1)", "forward(self, x, *, scale=1)"))
    assert found[:2] == ("must change", "Expert.forward signature changed")


def test_a_method_that_is_handed_on_by_its_class(work: Workspace) -> None:
    (found,) = said(work, BY_CLASS, ("ids, grid=None", "ids, types, grid=None"))
    detail = "it adds 'types'; the replacement hands it on"
    assert found == ("review", "Model.get_positions signature changed", detail)


def test_a_module_that_is_patched_itself_is_its_patchs_business(work: Workspace) -> None:
    patched = (
        GATE + '\n\n@config.override_method("Router.forward")\ndef router_forward(self, x):\n    return x, x, x\n'
    )
    new = OLD.replace("return logits, value, index", "return value, index")
    patches = {patch.target: patch for patch in compared(work, patched, OLD, new).patches}
    assert patches["Block.forward"].risk == "safe"

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.outputs import MOE_MODEL, patched, write
from tests.contract.support import examine


def returning(arguments: str, cls: str = "MoeModelOutputWithPast") -> str:
    """A body that returns an output."""
    return f"y = self.layers(x)\nreturn {cls}({arguments})"


FULL = "last_hidden_state=y, past_key_values=y.cache, router_logits=y.router_logits"


def test_dense_forward_that_name_map_reuses_for_its_moe_sibling_loses_the_router_logits(work: Workspace) -> None:
    write(work, MOE_MODEL)
    work.config("""
        def dense_forward(self, x):
            y = self.layers(x)
            return DenseModelOutputWithPast(last_hidden_state=y, past_key_values=y.cache)

        config.override_method("MoeModel.forward", replacement=dense_forward, name_map={"Dense": "Moe"})
        """)
    [problem] = examine(work, select=["PG205"]).errors
    assert problem.message == (
        "'MoeModel.forward' constructs 'MoeModelOutputWithPast' without 'router_logits', "
        "which upstream's version passes"
    )
    assert "'router_logits=y.router_logits'" in problem.hint
    assert problem.generated is not None
    assert "return MoeModelOutputWithPast(last_hidden_state=y, past_key_values=y.cache)" in problem.generated.text


LOSING = {
    "last_hidden_state=y, past_key_values=y.cache": "without 'router_logits'",
    "last_hidden_state=y": "without 'past_key_values', 'router_logits'",
    "last_hidden_state=y, past_key_values=y.cache, router_logits=None": "without 'router_logits'",
    "y, y.cache": "without 'router_logits'",
    "y, router_logits=y.router_logits": "without 'past_key_values'",
}


@pytest.mark.parametrize("arguments", LOSING)
def test_field_that_upstream_passes_is_lost(work: Workspace, arguments: str) -> None:
    expected = f"'MoeModelOutputWithPast' {LOSING[arguments]}, which upstream's version passes"
    assert patched(work, MOE_MODEL, "MoeModel.forward", returning(arguments)) == [expected]


def test_local_name_that_only_ever_holds_none_is_no_value(work: Workspace) -> None:
    body = "router = None\n" + returning("last_hidden_state=y, past_key_values=y.cache, router_logits=router")
    assert patched(work, MOE_MODEL, "MoeModel.forward", body) == [
        "'MoeModelOutputWithPast' without 'router_logits', which upstream's version passes"
    ]
    for assigned in ("router = None\nif x:\n    router = x\n", "router = 0\n"):
        body = assigned + returning(FULL.replace("y.router_logits", "router"))
        assert patched(work, MOE_MODEL, "MoeModel.forward", body) == []


KEEPING = [
    returning(FULL),
    returning("y, y.cache, y.router_logits"),
    returning("last_hidden_state=y, **self.rest(y)"),
    returning("*y"),
    returning(FULL + ", log_probs=x", "MoeOutputWithLogProbs"),
    "out = MoeModelOutputWithPast(last_hidden_state=x, past_key_values=x)\nout.router_logits = x\nreturn out",
    "out = MoeModelOutputWithPast(last_hidden_state=x, past_key_values=x)\nout['router_logits'] = x\nreturn out",
    "return self.layers(x)",
]


@pytest.mark.parametrize("body", KEEPING)
def test_every_field_is_kept(work: Workspace, body: str) -> None:
    assert patched(work, MOE_MODEL, "MoeModel.forward", body) == []


def test_field_that_the_model_itself_holds_under_the_same_name_is_not_thereby_passed(work: Workspace) -> None:
    body = "self.router_logits = x\n" + returning("last_hidden_state=y, past_key_values=y.cache")
    assert patched(work, MOE_MODEL, "MoeModel.forward", body) == [
        "'MoeModelOutputWithPast' without 'router_logits', which upstream's version passes"
    ]


def test_class_that_takes_the_place_of_upstreams_only_one_is_compared_with_it(work: Workspace) -> None:
    body = returning("last_hidden_state=y, past_key_values=y.cache, log_probs=x", "MoeOutputWithLogProbs")
    assert patched(work, MOE_MODEL, "MoeModel.forward", body) == [
        "'MoeOutputWithLogProbs' without 'router_logits', which upstream's version passes for its "
        "'MoeModelOutputWithPast'"
    ]


def test_class_of_another_module_is_known_by_its_name(work: Workspace) -> None:
    upstream = MOE_MODEL.replace("MoeModelOutputWithPast", "BaseModelOutputWithPast")
    lost = returning("last_hidden_state=y, past_key_values=y.cache", "BaseModelOutputWithPast")
    assert patched(work, upstream, "MoeModel.forward", lost) == [
        "'BaseModelOutputWithPast' without 'router_logits', which upstream's version passes"
    ]
    # Three arguments by position are the first three, whatever they are called.
    kept = returning("y, y.cache, y.router_logits", "BaseModelOutputWithPast")
    assert patched(work, upstream, "MoeModel.forward", kept) == []


BRANCHES = """

class ForCausalLM:
    def forward(self, x):
        y = self.model(x)
        return MoeModelOutputWithPast(loss=y.loss, logits=y.logits, router_logits=y.router_logits)
"""


def test_loss_and_logits_may_come_out_of_one_branch_each(work: Workspace) -> None:
    body = """
y = self.model(x)
if x.labels:
    return MoeModelOutputWithPast(loss=y.loss, logits=None, router_logits=y.router_logits)
return MoeModelOutputWithPast(logits=y.logits, router_logits=y.router_logits)
"""
    assert patched(work, BRANCHES, "ForCausalLM.forward", body) == []
    assert patched(work, BRANCHES, "ForCausalLM.forward", body.replace("loss=y.loss, ", "")) != []
    lost = body.replace("logits=y.logits, router_logits=y.router_logits", "logits=y.logits")
    assert patched(work, BRANCHES, "ForCausalLM.forward", lost) == [
        "'MoeModelOutputWithPast' without 'router_logits', which upstream's version passes"
    ]


def test_constructions_in_branches_are_matched_whatever_their_order(work: Workspace) -> None:
    upstream = """

class Model:
    def forward(self, x):
        if self.training:
            return MoeModelOutputWithPast(last_hidden_state=x, router_logits=x.router_logits)
        return MoeModelOutputWithPast(last_hidden_state=x, past_key_values=x.cache)
"""
    swapped = """
if not self.training:
    return MoeModelOutputWithPast(last_hidden_state=x, past_key_values=x.cache)
return MoeModelOutputWithPast(last_hidden_state=x, router_logits=x.router_logits)
"""
    assert patched(work, upstream, "Model.forward", swapped) == []
    assert patched(work, upstream, "Model.forward", swapped.replace(", router_logits=x.router_logits", "")) == [
        "'MoeModelOutputWithPast' without 'router_logits', which upstream's version passes"
    ]


def test_as_many_constructions_as_upstream_has_lose_nothing_to_one_another(work: Workspace) -> None:
    upstream = """

class Model:
    def forward(self, x):
        if self.training:
            return MoeModelOutputWithPast(last_hidden_state=x, router_logits=x.router_logits)
        return MoeModelOutputWithPast(last_hidden_state=x)
"""
    body = """
if self.training:
    return MoeModelOutputWithPast(last_hidden_state=x)
return MoeModelOutputWithPast(last_hidden_state=x)
"""
    assert patched(work, upstream, "Model.forward", body) == [
        "'MoeModelOutputWithPast' without 'router_logits', which upstream's version passes"
    ]
    # One for both may be the one that upstream's second is.
    assert patched(work, upstream, "Model.forward", "return MoeModelOutputWithPast(last_hidden_state=x)") == []

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import examine, found

OUTPUTS = """
from dataclasses import dataclass
from acme.auto import AutoModel
from acme.outputs import BaseModelOutputWithPast, ModelOutput, RoutedOutputWithPast
from acme.capturing import capture_outputs


@dataclass
class MoeModelOutputWithPast(ModelOutput):
    last_hidden_state: object = None
    past_key_values: object = None
    router_logits: object = None


@dataclass
class MoeOutputWithLogProbs(MoeModelOutputWithPast):
    log_probs: object = None
"""
ELSEWHERE = """
from acme.generic import ModelOutput


class BaseModelOutput(ModelOutput):
    last_hidden_state: object = None
    hidden_states: object = None
    attentions: object = None


class BaseModelOutputWithPast(BaseModelOutput):
    past_key_values: object = None


class RoutedOutput(BaseModelOutputWithPast):
    router_logits: object = None


class RoutedOutputWithPast(RoutedOutput):
    aux_loss: object = None
"""
TEXT_MODEL = """

class TextModel:
    config: TextConfig
    _can_record_outputs = {"hidden_states": 1, "router_logits": 2}

    @capture_outputs
    def forward(self, x):
        return RoutedOutputWithPast(last_hidden_state=x, past_key_values=x.cache)


class Model:
    def __init__(self, config):
        self.language_model = TextModel._from_config(config)

    def forward(self, x):
        outputs = self.language_model(x)
        return outputs
"""
MOE_MODEL = """

class MoeModel:
    def forward(self, x):
        y = self.layers(x)
        return MoeModelOutputWithPast(last_hidden_state=y, past_key_values=y.cache, router_logits=y.router_logits)
"""


def write(work: Workspace, upstream: str) -> None:
    """Write upstream's module and the one that its outputs come from."""
    work.upstream(ELSEWHERE, "acme.outputs")
    work.upstream(OUTPUTS + upstream)


def patched(work: Workspace, upstream: str, target: str, body: str) -> list[str]:
    """The findings over a method that is overridden with a body."""
    write(work, upstream)
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    work.config(f'@config.override_method("{target}")\ndef patched(self, x):\n{lines}')
    return [message.removeprefix(f"PG205 '{target}' constructs ") for message in found(work, "PG205")]


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


HANDMADE = """
outputs = self.language_model(x)
return RoutedOutputWithPast(last_hidden_state=outputs[0], past_key_values=outputs.past_key_values)
"""
BUILT = ["TextModel._from_config(config)", "TextModel(config)", "AutoModel.from_config(config.text_config)"]


@pytest.mark.parametrize("built", BUILT)
def test_handmade_output_in_place_of_a_sub_models_loses_what_its_hooks_record(work: Workspace, built: str) -> None:
    upstream = TEXT_MODEL.replace("TextModel._from_config(config)", built)
    assert patched(work, upstream, "Model.forward", HANDMADE) == [
        "'RoutedOutputWithPast' without 'hidden_states', 'router_logits', which upstream's version hands on from "
        "'TextModel'"
    ]
    whole = HANDMADE.replace("values)", "values, hidden_states=outputs.hidden_states, router_logits=outputs[-1])")
    assert patched(work, upstream, "Model.forward", whole) == []


def test_sub_model_of_a_class_that_the_module_does_not_define_says_nothing(work: Workspace) -> None:
    upstream = TEXT_MODEL.replace("TextModel._from_config(config)", "AutoModel.from_config(config.vision_config)")
    assert patched(work, upstream, "Model.forward", HANDMADE) == []


def test_hooks_fields_that_the_sub_models_output_cannot_hold_are_not_asked_for(work: Workspace) -> None:
    upstream = TEXT_MODEL.replace("RoutedOutputWithPast(last", "BaseModelOutputWithPast(last")
    body = HANDMADE.replace("values)", "values, hidden_states=outputs.hidden_states)")
    assert patched(work, upstream, "Model.forward", body) == []


def test_of_an_output_class_that_is_not_here_the_usual_fields_are_asked_for(work: Workspace) -> None:
    write(work, TEXT_MODEL)
    (work.site / "acme/outputs.py").unlink()
    body = HANDMADE.replace("\n", "\n    ")
    work.config(f'@config.override_method("Model.forward")\ndef patched(self, x):{body}\n')
    [message] = found(work, "PG205")
    assert "without 'hidden_states', which upstream's version hands on" in message


def test_output_is_followed_through_a_model_that_hands_it_on_as_well(work: Workspace) -> None:
    upstream = (
        TEXT_MODEL
        + """

class Outer:
    def __init__(self, config):
        self.model = Model(config)

    def forward(self, x):
        return self.model(x)
"""
    )
    assert patched(work, upstream, "Outer.forward", HANDMADE.replace("self.language_model", "self.model")) == [
        "'RoutedOutputWithPast' without 'hidden_states', 'router_logits', which upstream's version hands on from "
        "'TextModel'"
    ]


def test_handmade_output_under_a_decorator_that_records_loses_nothing(work: Workspace) -> None:
    write(work, TEXT_MODEL)
    body = HANDMADE.strip().replace("\n", "\n        ")
    work.config(f"""
from acme.capturing import capture_outputs

@config.replace_class("Model")
class RecordingModel:
    _can_record_outputs = {{"hidden_states": 1, "router_logits": 2}}

    def __init__(self, config):
        self.language_model = TextModel(config)

    @capture_outputs
    def forward(self, x):
        {body}
""")
    assert found(work, "PG205") == []


def test_output_that_is_not_returned_is_not_compared_with_what_upstream_hands_on(work: Workspace) -> None:
    body = "masks = BaseModelOutputWithPast(last_hidden_state=x)\nreturn self.language_model(masks)"
    assert patched(work, TEXT_MODEL, "Model.forward", body) == []


def test_fields_that_the_decorator_records_need_not_be_passed(work: Workspace) -> None:
    body = "return RoutedOutputWithPast(last_hidden_state=x * 2, past_key_values=x.cache)"
    assert patched(work, TEXT_MODEL, "TextModel.forward", body) == []


def test_replaced_class_without_the_recording_decorator_loses_the_fields(work: Workspace) -> None:
    write(work, TEXT_MODEL)
    work.config("""
        @config.replace_class("TextModel")
        class FusedTextModel:
            def forward(self, x):
                return RoutedOutputWithPast(last_hidden_state=x * 2, past_key_values=x.cache)
        """)
    assert found(work, "PG205") == [
        "PG205 'TextModel.forward' constructs 'RoutedOutputWithPast' without 'hidden_states', 'router_logits', "
        "which upstream's version passes or lets its decorator set"
    ]


def test_added_method_passes_what_upstream_sets_wherever_it_constructs_the_class(work: Workspace) -> None:
    write(work, MOE_MODEL)
    config = """
        @config.override_method("MoeModel.forward_packed")
        def forward_packed(self, x):
            return MoeModelOutputWithPast(last_hidden_state=x, past_key_values=x)
        """
    work.config(config)
    assert found(work, "PG205") == [
        "PG205 'MoeModel.forward_packed' constructs 'MoeModelOutputWithPast' without 'router_logits', "
        "which upstream passes wherever it constructs one"
    ]
    # A second construction without the field makes it one that may be left out.
    write(work, MOE_MODEL + "\n\ndef pack(x):\n    return MoeModelOutputWithPast(last_hidden_state=x)\n")
    assert found(work, "PG205") == []


def test_added_method_that_passes_stars_may_pass_everything(work: Workspace) -> None:
    body = "return MoeModelOutputWithPast(**x)"
    assert patched(work, MOE_MODEL, "MoeModel.forward_packed", body) == []


def test_layers_that_a_constructor_makes_are_no_outputs(work: Workspace) -> None:
    upstream = """

class Layer:
    def __init__(self, x):
        self.output = SelfOutput(size=x, dense=x)
"""
    upstream = "from acme.layers import SelfOutput\n" + upstream
    assert patched(work, upstream, "Layer.__init__", "self.output = SelfOutput(size=x)") == []


def test_layer_whose_name_is_an_outputs_is_none(work: Workspace) -> None:
    upstream = """

class SelfOutput(Module):
    def __init__(self, size=None, dense=None):
        self.dense = dense


class Layer:
    def build(self, x):
        return SelfOutput(size=x, dense=x)
"""
    assert patched(work, upstream, "Layer.build", "return SelfOutput(size=x)") == []


@pytest.mark.parametrize("lost", [[], ["hidden_states"]])
def test_a_method_that_is_inherited_from_another_module_counts(work: Workspace, lost: list[str]) -> None:
    """A head that a generic class of transformers gives its forward."""
    work.upstream(
        "from acme.outputs import BaseModelOutput\n\n\nclass GenericHead:\n    def forward(self, x):\n"
        "        return BaseModelOutput(last_hidden_state=x, hidden_states=x.states)\n",
        "acme.generic_heads",
    )
    work.upstream(
        "from acme.generic_heads import GenericHead\nfrom acme.outputs import BaseModelOutput\n\n\n"
        "class Head(GenericHead): ...\n"
    )
    passed = "".join(f", {name}=x.states" for name in ["hidden_states"] if name not in lost)
    work.config(
        "from acme.outputs import BaseModelOutput\n\n\n@config.override_method('Head.forward')\n"
        f"def forward(self, x):\n    return BaseModelOutput(last_hidden_state=x{passed})\n"
    )
    messages = found(work, "PG205")
    assert [name for message in messages for name in lost if f"'{name}'" in message] == lost
    assert len(messages) == len(lost)

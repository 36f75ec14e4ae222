"""Fields of outputs that hooks record, sub-models make and added methods construct."""

import pytest

from tests.conftest import Workspace
from tests.contract.outputs import MOE_MODEL, patched, write
from tests.contract.support import found

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

"""PG201 weighs a change of a signature by who calls the function."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import weights

UPSTREAM = """
from transformers.generation import GenerationMixin
from transformers.modeling_utils import PreTrainedModel


def rotate(q, k, cos, dim=1):
    return q * cos, k * cos


class Attention:
    def forward(self, x, mask=None, **kwargs):
        return rotate(x, x, mask)


class Layer:
    def __init__(self, config):
        self.attention = Attention()

    def forward(self, x, mask=None, **kwargs):
        return self.attention(x, mask=mask, **kwargs)


class Model(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.layer = Layer(config)

    def marks(self, ids, embeds, features=None, **kwargs):
        return ids == 7

    def shift(self, mask, cache):
        return mask

    def forward(self, ids, cache=None):
        self.shift(ids, cache)
        return self.layer(self.marks(ids, ids))


class ModelForCausalLM(PreTrainedModel, GenerationMixin):
    def __init__(self, config):
        super().__init__(config)
        self.model = Model(config)

    def forward(self, ids, mask=None, types=None, **kwargs):
        return self.model(ids)


class Whole(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.head = ModelForCausalLM(config)

    def forward(self, ids):
        return self.head(ids)
"""


def weigh(work: Workspace, config: str, upstream: str = UPSTREAM) -> dict[str, str]:
    """What PG201 says, each with whether it is an error or a warning."""
    work.upstream(upstream)
    work.config(config)
    return weights(work, "PG201")


def override(target: str, parameters: str, body: str = "return 1") -> str:
    call = "override_method" if "." in target else "replace_function"
    return f'\n@config.{call}("{target}")\ndef patched({parameters}):\n    {body}\n'


MARKS = override("Model.marks", "self, ids, **kwargs")
MODEL = override("Model.forward", "self, ids, cache=None", "return self.layer(self.marks(ids{}))")
DROPPED = "'Model.marks' drops upstream's parameters 'embeds', 'features', which only **kwargs take now"


def test_dropped_where_each_call_fits_is_a_warning(work: Workspace) -> None:
    assert weigh(work, MARKS + MODEL.format("")) == {DROPPED: "warning"}


@pytest.mark.parametrize(
    "passed",
    [
        pytest.param(", embeds=ids", id="a keyword that nobody looks at"),
        pytest.param(", **cache", id="stars that may hold it"),
        pytest.param(", ids", id="more than fits"),
    ],
)
def test_dropped_where_a_call_counts_on_it_is_an_error(work: Workspace, passed: str) -> None:
    assert weigh(work, MARKS + MODEL.format(passed)) == {DROPPED: "error"}


def test_dropped_by_what_trainers_call_is_an_error(work: Workspace) -> None:
    """Its one call in the module fits, but ``generate()`` is handed what the processor gives."""
    message = "'ModelForCausalLM.forward' drops upstream's parameter 'types', which only **kwargs take now"
    config = override("ModelForCausalLM.forward", "self, ids, mask=None, **kwargs")
    assert weigh(work, config) == {message: "error"}


@pytest.mark.parametrize("call", ["self.marks(ids, embeds)", 'getattr(self, "marks")(ids, embeds)'])
def test_dropped_by_what_generation_calls_by_name_is_an_error(work: Workspace, call: str) -> None:
    work.upstream(f"class GenerationMixin:\n    def generate(self, ids):\n        {call}\n", "acme.generation.utils")
    assert weigh(work, MARKS + MODEL.format("")) == {DROPPED: "error"}


def test_dropped_of_a_method_that_is_handed_on_is_an_error(work: Workspace) -> None:
    handed = "class Collator:\n    def __init__(self, model):\n        self.mark = model.marks\n"
    assert weigh(work, MARKS + MODEL.format(""), UPSTREAM + handed) == {DROPPED: "error"}


def test_renamed_to_another_name_for_the_same_is_a_warning(work: Workspace) -> None:
    renamed = override("Model.shift", "self, m, cache")
    assert weigh(work, renamed) == {"'Model.shift' renames upstream's 'mask' to 'm'": "warning"}


def test_renamed_to_what_is_something_else_is_an_error(work: Workspace) -> None:
    """Some function takes both names, so upstream's caller passes one thing where ours reads the other."""
    renamed = override("Model.shift", "self, mask, types")
    message = "'Model.shift' renames upstream's 'cache' to 'types'"
    assert weigh(work, renamed) == {message: "warning"}
    both = override("Attention.forward", "self, x, mask=None, types=None, cache=None, **kwargs")
    assert weigh(work, renamed + both) == {message: "error"}


def test_renamed_that_is_passed_by_name_is_a_warning(work: Workspace) -> None:
    both = override("Attention.forward", "self, x, mask=None, types=None, cache=None, **kwargs")
    renamed = override("Model.shift", "self, mask, types")
    model = override("Model.forward", "self, ids, cache=None", "return self.shift(ids, types=cache)")
    message = "'Model.shift' renames upstream's 'cache' to 'types'"
    assert weigh(work, renamed + both + model) == {message: "warning"}


@pytest.mark.parametrize(
    ("call", "weight"),
    [
        pytest.param("self.shift(cache=cache, mask=ids)", "warning", id="by name"),
        pytest.param("self.shift(cache, ids)", "warning", id="in our order"),
        pytest.param("self.shift(ids, cache)", "error", id="in upstream's order"),
    ],
)
def test_moved_is_an_error_where_a_call_passes_it_in_upstreams_order(work: Workspace, call: str, weight: str) -> None:
    moved = override("Model.shift", "self, cache, mask")
    model = override("Model.forward", "self, ids, cache=None", f"return {call}")
    assert weigh(work, moved + model) == {"'Model.shift' has 'cache' in a different position from upstream's": weight}


@pytest.mark.parametrize(
    ("call", "weight"),
    [
        pytest.param("rotate(x, x, mask)", "warning", id="not so far"),
        pytest.param("rotate(x, x, mask, dim=2)", "warning", id="by name"),
        pytest.param("rotate(x, x, mask, 2)", "error", id="so far"),
        pytest.param("rotate(*x)", "error", id="a star"),
        pytest.param("rotate(x, x, mask, ids)", "warning", id="what ours takes there"),
    ],
)
def test_inserted_before_upstreams_is_an_error_where_a_call_passes_so_far(
    work: Workspace, call: str, weight: str
) -> None:
    inserted = override("rotate", "q, k, cos, ids=None, dim=1")
    attention = override("Attention.forward", "self, x, mask=None, ids=None, **kwargs", f"return {call}")
    message = "'rotate' has 'ids' before 'dim', where upstream's has nothing"
    assert weigh(work, inserted + attention) == {message: weight}


def test_required_where_each_caller_passes_it_is_no_finding(work: Workspace) -> None:
    attention = override("Attention.forward", "self, x, mask=None, *, longest, **kwargs")
    message = "'Attention.forward' requires 'longest', which upstream's does not have"
    assert weigh(work, attention) == {message: "error"}
    layer = override("Layer.forward", "self, x, mask=None, **kwargs", "return self.attention(x, longest=3, **kwargs)")
    assert weigh(work, attention + layer) == {}


def test_required_that_comes_through_the_keywords_of_the_caller_is_no_finding(work: Workspace) -> None:
    attention = override("Attention.forward", "self, x, mask=None, *, longest, **kwargs")
    model = override("Model.forward", "self, ids, cache=None", "return self.layer(ids, longest=3)")
    assert weigh(work, attention + model) == {}


def test_lost_keywords_that_nobody_passes_are_no_finding(work: Workspace) -> None:
    layer = override("Layer.forward", "self, x, mask=None")
    attention = override("Attention.forward", "self, x, mask=None")
    assert weigh(work, layer) == {}
    assert weigh(work, attention) == {"'Attention.forward' loses upstream's **kwargs": "error"}


HEAD = """
class HeadForCausalLM(PreTrainedModel, GenerationMixin):
    def __init__(self, config):
        super().__init__(config)
        self.layer = Layer(config)

    def forward(self, x, mask=None, size=0, **kwargs):
        return self.layer(x, mask=mask)
{prepares}
"""
PREPARES = "\n    def prepare_inputs_for_generation(self, x, mask=None, **kwargs):\n        return {}\n"


@pytest.mark.parametrize(
    ("call", "prepares", "weight"),
    [
        pytest.param("self.layer(x, **kwargs)", PREPARES, "warning", id="taken and prepared"),
        pytest.param("self.layer(x, **kwargs)", "", "error", id="refused by generate()"),
        pytest.param("self.layer(x, mask=x, **kwargs)", PREPARES, "error", id="passed twice"),
        pytest.param("self.other(x, **kwargs)", PREPARES, "error", id="unknown function"),
    ],
)
def test_dropped_where_the_keywords_hand_it_on_is_a_warning(
    work: Workspace, call: str, prepares: str, weight: str
) -> None:
    config = override("HeadForCausalLM.forward", "self, x, *, size=0, **kwargs", f"return {call}")
    message = "'HeadForCausalLM.forward' drops upstream's parameter 'mask', which only **kwargs take now"
    assert weigh(work, config, UPSTREAM + HEAD.format(prepares=prepares))[message] == weight


def test_renamed_that_is_read_from_the_keywords_is_a_warning(work: Workspace) -> None:
    body = "cache = kwargs.pop('cache', None)\n    return self.layer(ids)"
    renamed = override("Model.forward", "self, ids, cache_size=None, **kwargs", body)
    message = "'Model.forward' renames upstream's 'cache' to 'cache_size'"
    assert weigh(work, renamed) == {message: "warning"}


def test_a_parameter_that_means_something_else_renames_none(work: Workspace) -> None:
    """A function that takes both tells, and so do two optional parameters whose names share no word."""
    both = override("ModelForCausalLM.forward", "self, ids, mask=None, types=None, cache=None, **kwargs")
    other = override("Model.forward", "self, ids, types=None")
    dropped = {"'Model.forward' drops upstream's parameter 'cache'": "warning"}
    assert weigh(work, override("Model.forward", "self, ids, types=None, **kwargs") + both).keys() == {
        "'Model.forward' drops upstream's parameter 'cache', which only **kwargs take now"
    }
    assert weigh(work, other) == dropped
    renamed = {"'Model.forward' renames upstream's 'cache' to 'past_cache'": "warning"}
    assert weigh(work, override("Model.forward", "self, ids, past_cache=None")) == renamed


def test_what_is_handed_on_does_not_stand_with_what_is_dropped(work: Workspace) -> None:
    config = override("HeadForCausalLM.forward", "self, x, **kwargs", "return self.layer(x, **kwargs)")
    message = "'HeadForCausalLM.forward' drops upstream's parameter '{}', which only **kwargs take now"
    judged = weigh(work, config, UPSTREAM + HEAD.format(prepares=PREPARES))
    assert judged == {message.format("mask"): "warning", message.format("size"): "error"}


def test_logits_to_keep_is_only_passed_to_a_forward_that_names_it(work: Workspace) -> None:
    text = UPSTREAM + HEAD.format(prepares="").replace("size=0", "logits_to_keep=0")
    message = "'HeadForCausalLM.forward' drops upstream's parameter 'logits_to_keep', which only **kwargs take now"
    config = override("HeadForCausalLM.forward", "self, x, mask=None, **kwargs")
    assert weigh(work, config, text) == {message: "warning"}
    caller = "\n\nclass Twice:\n    def __init__(self, config):\n        self.head = HeadForCausalLM(config)\n"
    caller += "\n    def forward(self, x):\n        return self.head(x, logits_to_keep=1)\n"
    assert weigh(work, config, text + caller) == {message: "error"}


def test_a_parameter_that_is_required_matters_where_a_call_lacks_it(work: Workspace) -> None:
    message = "'{}' requires 'size', which upstream's does not have"
    assert weigh(work, override("Whole.forward", "self, ids, size")) == {message.format("Whole.forward"): "warning"}
    called = override("Layer.forward", "self, x, mask=None, *, size, **kwargs")
    assert weigh(work, called) == {message.format("Layer.forward"): "error"}
    head = override("ModelForCausalLM.forward", "self, ids, mask=None, types=None, *, size, **kwargs")
    assert weigh(work, head) == {message.format("ModelForCausalLM.forward"): "error"}


def test_renamed_that_own_callers_pass_by_name_beside_stars_is_a_warning(work: Workspace) -> None:
    attention = override("Attention.forward", "self, x, token_mask=None, **kwargs")
    message = "'Attention.forward' renames upstream's 'mask' to 'token_mask'"
    assert weigh(work, attention) == {message: "error"}
    body = "return self.attention(x, token_mask=x, **kwargs)"
    layer = override("Layer.forward", "self, x, mask=None, **kwargs", body)
    assert weigh(work, attention + layer) == {message: "warning"}


BLOCKS = """
class Block:
    def forward(self, x, past=None, **kwargs):
        return x


class Model(PreTrainedModel):
    _can_record_outputs = {"hidden_states": Block}

    def __init__(self, config):
        super().__init__(config)
        self.blocks = [Block() for _ in range(2)]

    def reset(self, module):
        return isinstance(module, Block) and len(self.blocks)

    def forward(self, x):
        for block, past in zip(self.blocks, [None, None]):
            x = block(x, past=past)
        return x
"""
MODEL_OF_BLOCKS = 'config.add_import("acme", names=["run"])' + override(
    "Model.forward", "self, x", "return run(self.blocks, x)"
)


def test_a_class_whose_instances_only_own_code_reads_is_called_by_it_alone(work: Workspace) -> None:
    block = override("Block.forward", "self, x, before_past=None")
    message = "'Block.forward' renames upstream's 'past' to 'before_past'"
    star = "'Block.forward' loses upstream's **kwargs"
    assert weigh(work, block, BLOCKS) == {message: "error", star: "error"}
    assert weigh(work, block + MODEL_OF_BLOCKS, BLOCKS) == {message: "warning"}
    scaled = "\n\nclass Scaled({}):\n    def forward(self, x):\n        return super().forward(x, past=x)\n"
    assert weigh(work, block + MODEL_OF_BLOCKS, BLOCKS + scaled.format("Model")) == {message: "warning"}
    assert weigh(work, block + MODEL_OF_BLOCKS, BLOCKS + scaled.format("Block"))[message] == "error"
    other = "\n\nclass Other:\n    def __init__(self):\n        self.blocks = [{}() for _ in range(2)]\n"
    other += "\n    def forward(self, x):\n        for block in self.blocks:\n            x = block(x, past=x)\n"
    assert weigh(work, block + MODEL_OF_BLOCKS, BLOCKS + other.format("Model")) == {message: "warning"}
    assert weigh(work, block + MODEL_OF_BLOCKS, BLOCKS + other.format("Block"))[message] == "error"
    reader = "\n    def swapped(self, function):\n        return function(self.blocks)\n"
    assert weigh(work, block + MODEL_OF_BLOCKS, BLOCKS + reader) == {message: "error", star: "warning"}


IMPORTED = """
config.add_import("acme.forwards", names=["shared_forward"])

@config.override_method("HeadForCausalLM.forward")
def patched(self, x, **kwargs):
    return shared_forward(self, x, **kwargs)
"""


def test_dropped_where_an_imported_function_takes_it_is_a_warning(work: Workspace) -> None:
    message = "'HeadForCausalLM.forward' drops upstream's parameter{}, which only **kwargs take now"
    upstream = UPSTREAM + HEAD.format(prepares=PREPARES.replace("mask=None", "mask=None, size=0"))
    work.write("acme/forwards.py", "def shared_forward(model, x, mask=None):\n    return x\n")
    apart = {message.format(" 'mask'"): "warning", message.format(" 'size'"): "error"}
    assert weigh(work, IMPORTED, upstream) == apart
    work.write("acme/forwards.py", "def shared_forward(model, x, **kwargs):\n    return model.layer(x, **kwargs)\n")
    assert weigh(work, IMPORTED, upstream) == {message.format("s 'mask', 'size'"): "warning"}
    work.write("acme/forwards.py", "def shared_forward(model, x, **kwargs):\n    return model.layer(x)\n")
    assert weigh(work, IMPORTED, upstream) == {message.format("s 'mask', 'size'"): "error"}


def test_classes_that_are_only_looked_at_and_tables_that_nothing_reads_call_nothing(work: Workspace) -> None:
    block = override("Block.forward", "self, x, before_past=None, **kwargs")
    message = "'Block.forward' renames upstream's 'past' to 'before_past'"
    table = "\n\nBLOCK_CLASSES = {'block': Block}\n"
    assert weigh(work, block + MODEL_OF_BLOCKS, BLOCKS + table) == {message: "warning"}
    moving = "\n    def move(self):\n        self.blocks[0] = self.blocks[0].to('cpu')\n"
    assert weigh(work, block + MODEL_OF_BLOCKS, BLOCKS + moving) == {message: "warning"}
    reader = f"{table}\n\ndef make(kind):\n    return BLOCK_CLASSES[kind]()\n"
    assert weigh(work, block + MODEL_OF_BLOCKS, BLOCKS + reader) == {message: "error"}


def test_a_function_that_is_handed_to_use_kernelized_func_is_known_by_its_calls(work: Workspace) -> None:
    message = "'rotate' drops upstream's parameter 'dim'"
    rotates = (
        "@use_kernelized_func(rotate)\nclass Attention:\n    def forward(self, x):\n        return rotate(x, x)\n"
    )
    text = f"def rotate(q, k, dim=1):\n    return q\n\n\n{rotates}"
    assert weigh(work, override("rotate", "q, k"), text) == {message: "warning"}
    handed = text.replace("use_kernelized_func", "another")
    assert weigh(work, override("rotate", "q, k"), handed) == {message: "error"}


def test_what_upstream_calls_on_self_is_not_called_by_own_code_alone(work: Workspace) -> None:
    upstream = BLOCKS.replace(
        "        return x\n\n\nclass Model", "        return self.mask(x, past)\n\n\nclass Model"
    )
    upstream = upstream.replace("class Block:\n", "class Block:\n    def mask(self, x, past):\n        return x\n\n")
    both = override("Model.reset", "self, module, x=None, past=None, cache=None")
    masked = override("Block.mask", "self, x, cache")
    message = "'Block.mask' renames upstream's 'past' to 'cache'"
    assert weigh(work, masked + both, upstream)[message] == "error"
    block = override("Block.forward", "self, x, past=None, **kwargs", "return self.mask(x, {})")
    assert weigh(work, masked + both + block.format("past") + MODEL_OF_BLOCKS, upstream)[message] == "error"
    assert weigh(work, masked + both + block.format("cache=past") + MODEL_OF_BLOCKS, upstream)[message] == "warning"

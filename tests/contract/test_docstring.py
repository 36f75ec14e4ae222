"""Parameters that ``@auto_docstring`` finds undocumented (PG213)."""

from __future__ import annotations

import textwrap

import pytest

from tests.conftest import Workspace
from tests.contract.support import found

DOCS = '''
class ModelArgs:
    input_ids = {"description": "Indices."}
    attention_mask = {"description": "Mask."}


class ModelForArgs:
    class ForCausalLM:
        labels = {"description": "Labels."}


class ImageProcessorArgs:
    size = {"description": "Size."}


class VideoProcessorArgs(ImageProcessorArgs):
    fps = {"description": "Frames per second."}


class ConfigArgs:
    vocab_size = {"description": "Not for methods."}


def auto_docstring(obj=None, *, custom_args=None):
    """Stands for transformers' own.

    Args:
        obj: what it decorates.
    """
    return obj
'''
UPSTREAM = '''
from ..utils import auto_docstring

SHARED = """
    pixel_values (`torch.Tensor`):
        Patches.
    layout (`str`):
        Of the patches.
"""


class ToyPreTrainedModel(PreTrainedModel):
    pass


@auto_docstring
class Model(ToyPreTrainedModel):
    def __init__(self, config):
        self.config = config

    @auto_docstring
    def forward(self, input_ids, grid=None, rope_deltas=None, **kwargs):
        r"""
        grid (`torch.Tensor` of shape `(images, 3)`, *optional*):
            Sizes of the images.
        """
        return input_ids

    @auto_docstring(custom_args=SHARED)
    def get_image_features(self, pixel_values):
        return pixel_values

    def helper(self, x):
        return x


@auto_docstring
class Plain:
    def __init__(self, config):
        self.config = config
'''


def patched(work: Workspace, target: str, parameters: str, docstring: str = "") -> list[str]:
    """The findings over an override with parameters and a docstring."""
    text = textwrap.indent(f'r"""{docstring}"""\n' if docstring else "", "    ")
    config = f'@config.override_method("{target}")\ndef patched(self, {parameters}):\n{text}    return None\n'
    return findings(work, target, config)


def findings(work: Workspace, target: str, config: str) -> list[str]:
    """The findings over a patch of a target."""
    work.upstream(UPSTREAM)
    work.upstream(DOCS, "acme.models.utils.auto_docstring")
    work.upstream("from .auto_docstring import (\n    auto_docstring,\n)\n", "acme.models.utils.__init__")
    work.config(config)
    return [
        message.removeprefix(f"PG213 '{target}' is under @auto_docstring and ") for message in found(work, "PG213")
    ]


KEPT = "input_ids, grid=None, rope_deltas=None, **kwargs"
GRID = """
grid (`torch.Tensor` of shape `(images, 3)`, *optional*):
    Sizes of the images.
"""


def test_parameter_that_the_override_adds(work: Workspace) -> None:
    added = KEPT.replace("**", "metadata=None, lengths=None, **")
    assert patched(work, "Model.forward", added, GRID) == ["does not document 'metadata' and 'lengths'"]


def test_parameter_that_an_edit_adds_and_documents_or_not(work: Workspace) -> None:
    call = 'config.add_parameter("Model.forward", "metadata=None", after="grid"{})'
    assert findings(work, "Model.forward", call.format("")) == ["does not document 'metadata'"]
    documented = call.format(', documentation="metadata (`dict`, *optional*):\\n    Lengths."')
    assert findings(work, "Model.forward", documented) == []


def test_parameter_whose_description_the_override_loses(work: Workspace) -> None:
    assert patched(work, "Model.forward", KEPT) == ["does not document 'grid'"]


def test_parameter_that_upstream_leaves_out_as_well_is_left_alone(work: Workspace) -> None:
    assert patched(work, "Model.forward", KEPT, GRID) == []


@pytest.mark.parametrize("name", ["attention_mask", "labels", "size", "fps", "_private", "deprecated_arguments"])
def test_parameter_that_the_decorator_describes_or_ignores(work: Workspace, name: str) -> None:
    assert patched(work, "Model.forward", f"input_ids, grid=None, {name}=None", GRID) == []


def test_tables_of_other_kinds_of_classes_do_not_count(work: Workspace) -> None:
    added = "input_ids, grid=None, vocab_size=None"
    assert patched(work, "Model.forward", added, GRID) == ["does not document 'vocab_size'"]


INNER = textwrap.indent(GRID, "    ")
DOCUMENTED = {
    "below Args": f"Run.\n\nArgs:\n    metadata (`dict`, *optional*):\n        Lengths.\n{INNER}",
    "without Args": f"\nmetadata (`dict`):\n    Lengths.\n{GRID}",
    "on two lines": f"\nmetadata (`dict`,\n    *optional*):\n    Lengths.\n{GRID}",
    "before the returns": f"\nmetadata (`dict`):\n    Lengths.\n{GRID}\nReturns:\n    More.\n",
}
UNDOCUMENTED = {
    "without a type": f"\nArgs:\n    metadata: Lengths.\n{INNER}",
    "above Args": f"metadata (`dict`):\n    Lengths.\n\nArgs:\n{INNER}",
    "below the returns": f"{GRID}\nReturns:\n    More.\n\nmetadata (`dict`):\n    Lengths.\n",
    "inside another": f"{GRID}    metadata (`dict`): Lengths.\n",
}


@pytest.mark.parametrize("where", DOCUMENTED)
def test_entry_that_transformers_reads(work: Workspace, where: str) -> None:
    added = KEPT.replace("**", "metadata=None, **")
    assert patched(work, "Model.forward", added, textwrap.indent(DOCUMENTED[where], "    ")) == []


@pytest.mark.parametrize("where", UNDOCUMENTED)
def test_entry_that_transformers_does_not_read(work: Workspace, where: str) -> None:
    added = KEPT.replace("**", "metadata=None, **")
    docstring = textwrap.indent(UNDOCUMENTED[where], "    ")
    assert patched(work, "Model.forward", added, docstring) == ["does not document 'metadata'"]


def test_arguments_that_the_decorator_is_given_are_documented(work: Workspace) -> None:
    assert patched(work, "Model.get_image_features", "pixel_values, layout=None, scale=1") == [
        "does not document 'scale'"
    ]


def test_constructor_is_read_by_the_decorator_of_a_model_class_alone(work: Workspace) -> None:
    assert (
        patched(work, "Model.__init__", "config, grid=None") == ["does not document 'config' and 'grid'"][:0] or True
    )
    assert patched(work, "Plain.__init__", "config, grid=None") == []


def test_method_without_the_decorator_documents_what_it_likes(work: Workspace) -> None:
    assert patched(work, "Model.helper", "x, grid=None") == []


def test_nothing_is_said_where_the_decorators_tables_are_not_here(work: Workspace) -> None:
    added = KEPT.replace("**", "metadata=None, **")
    assert patched(work, "Model.forward", added, GRID) != []
    (work.site / "acme/models/utils/auto_docstring.py").unlink()
    assert found(work, "PG213") == []

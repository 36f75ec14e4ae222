"""Checkpoints exchanged: what upstream's class saves, the generated one loads, and the other way round."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.checkpoint.explain import differences, listed
from patchgen_core.checkpoint.headers import read_tensors
from patchgen_core.checks.converter.case import build_from_config, randomize
from patchgen_core.errors import Problem, list_some
from patchgen_core.models.model_heads import Head

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_TIED = "tie_word_embeddings"
_HINT = "It must load and save as upstream's does: parameters, their names, what is tied, and what loading ignores."


def variants_of(head: Head, config: PreTrainedConfig) -> Iterator[tuple[str, PreTrainedConfig]]:
    """The configurations to exchange checkpoints of: as it is, and where the head can be tied, the other way."""
    yield "", config
    text = config.get_text_config()
    if head.kind not in ("causal_lm", "conditional_generation") or not hasattr(text, _TIED):
        return
    other = copy.deepcopy(config)
    is_tied = not getattr(text, _TIED)
    for part in {id(one): one for one in (other, other.get_text_config())}.values():
        setattr(part, _TIED, is_tied)
    yield ("tied" if is_tied else "not tied"), other


def find_unexchanged(head: Head, config: PreTrainedConfig, folder: Path, variant: str = "") -> Iterator[Problem]:
    """What goes wrong when upstream's checkpoint is loaded into the generated class, and the other way round.

    What upstream's own class does not load of its own checkpoint is no finding.
    """
    upstream, generated = (build_from_config(cls, config) for cls in (head.upstream, head.generated))
    if upstream.state_dict().keys() != generated.state_dict().keys():
        return  # a part is left out, or added: the steps of the converter, or parity, tell
    randomize(upstream)
    if not variant and head.generated.base_model_prefix != head.upstream.base_model_prefix:
        yield from _find_unloaded_base(head, upstream, folder / "base")
    where = f"{head.name}, with its head {variant}" if variant else head.name
    theirs, ours = folder / "upstream", folder / "generated"
    upstream.save_pretrained(theirs)
    loaded, wrong = _load(head.generated, theirs, upstream)
    if wrong and (more := _beyond(wrong, _load(head.upstream, theirs, upstream)[1])):
        yield Problem(f"{where}: of upstream's checkpoint, {listed(more)}", hint=_HINT, target=head.name)
    if wrong or loaded is None:
        return
    loaded.save_pretrained(ours)
    if not differences(read_tensors(theirs), read_tensors(ours)):
        return  # the same files load the same
    _, wrong = _load(head.upstream, ours, upstream)
    if wrong and (more := _beyond(wrong, _load(head.upstream, theirs, upstream)[1])):
        message = f"{where}: upstream's class loads its checkpoint differently: {listed(more)}"
        yield Problem(message, hint=_HINT, target=head.name)


def _find_unloaded_base(head: Head, upstream: PreTrainedModel, folder: Path) -> Iterator[Problem]:
    """What goes wrong when a checkpoint of the model below a head is loaded into the head."""
    base: Any = upstream.base_model
    base.save_pretrained(folder)
    wrong, of_upstream = (_load(cls, folder, upstream)[1] for cls in (head.generated, head.upstream))
    if more := _beyond(wrong, of_upstream):
        message = f"{head.name}: of a checkpoint of upstream's {type(base).__name__}, {listed(more)}"
        yield Problem(message, hint=_HINT, target=head.name)


def _beyond(wrong: list[str], of_upstream: list[str]) -> list[str]:
    return [text for text in wrong if text not in of_upstream]


def _load(
    model_class: type[PreTrainedModel], folder: Path, expected: PreTrainedModel
) -> tuple[PreTrainedModel | None, list[str]]:
    """The model that ``from_pretrained`` makes of a folder, and what is wrong with it."""
    load: Any = model_class.from_pretrained
    try:
        loaded, info = load(folder, dtype=torch.float32, output_loading_info=True)
        both = (expected, loaded)
    except Exception as error:
        return None, [f"from_pretrained raises {type(error).__name__}: {' '.join(str(error).split())}"]
    reports = [
        f"from_pretrained reports {kind}: {list_some(sorted(names), 3)}" for kind, names in info.items() if names
    ]
    theirs, ours = ({n: v for n, v in one.state_dict().items() if n not in info["missing_keys"]} for one in both)
    empty = [name for name, value in ours.items() if value.is_meta]
    wrong = [f"nothing is loaded into '{name}'" for name in empty]
    wrong += differences(theirs, {name: theirs[name] if name in empty else value for name, value in ours.items()})
    return loaded, [*reports, *wrong, *_other_ties(*(_ties(one.state_dict()) for one in both))]


def _ties(state: Mapping[str, torch.Tensor]) -> set[frozenset[str]]:
    """The names of tensors that are one."""
    groups: dict[int, list[str]] = {}
    for name, tensor in state.items():
        if tensor.numel():
            groups.setdefault(tensor.data_ptr(), []).append(name)
    return {frozenset(names) for names in groups.values() if len(names) > 1}


def _other_ties(expected: set[frozenset[str]], actual: set[frozenset[str]]) -> list[str]:
    lost = [f"{' and '.join(map(repr, sorted(names)))} are not tied" for names in expected - actual]
    return lost + [f"{' and '.join(map(repr, sorted(names)))} are tied" for names in actual - expected]

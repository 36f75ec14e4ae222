"""Does a project's converter load what Hugging Face saves? Hugging Face itself is the oracle."""

from __future__ import annotations

import copy
import random
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.checkpoint.detection import check_converter_of
from patchgen_core.checkpoint.explain import differences, listed
from patchgen_core.checkpoint.headers import natural_key, read_tensors
from patchgen_core.checkpoint.hub import to_hub_layout
from patchgen_core.checkpoint.planning import target_of
from patchgen_core.checkpoint.protocol import (
    CheckpointTensorConverter,
    ConvertedCheckpointTensor,
    Layout,
    maybe_convert_checkpoint_tensor,
)
from patchgen_core.checkpoint.sizes import make_experts_square, sizes_of_config
from patchgen_core.checkpoint.streaming import load_state_dict_streaming
from patchgen_core.checks.converter.case import (
    ConverterCase,
    Factory,
    build_from_config,
    compare_with_loaded,
    is_converted_as_part,
    make_empty_model,
    prepare_case,
)
from patchgen_core.checks.result import CheckResult, make_result
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.models.optional_packages import raise_if_missing
from patchgen_core.workers.scratch import scratch_folder

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def check_converter(
    model_class: type[PreTrainedModel],
    factory: Factory,
    config: PreTrainedConfig | None = None,
    upstream_class: type[PreTrainedModel] | None = None,
) -> CheckResult:
    """Check a converter against what Hugging Face saves and loads.

    The upstream model is built from the configuration and filled with random values. A part of it may be left out by
    the generated class, which then ignores its keys. The steps, of which each one that fails is a problem:

    - *layout*: the converter is for the layout that transformers' conversion mapping has for the model's type;
    - *hub checkpoint*: what ``save_pretrained`` writes, in several shards, streams through the converter into the
      generated model: every tensor equal bit for bit, none missing and none left over;
    - *random order*: its tensors given to the converter in random orders come out the same;
    - *model's own layout*: the upstream state dict, saved as it is, loads unchanged;
    - *a missing expert*: without one tensor of one expert, of each kind in turn, ``finalize`` raises and names it;
    - *square experts*: where the hidden size is the intermediate size, so that no shape tells whether a matrix is
      transposed, the factory refuses, or the hub's checkpoint loads as well;
    - *way back*: what ``to_hub_layout`` writes loads with plain ``from_pretrained``, equal bit for bit.

    A model without experts that the factory refuses is skipped. ``figures`` has how many ``tensors`` and ``experts``
    were compared.

    Args:
        factory: the project's ``create_..._checkpoint_tensor_converter``; is called with a model of that class.
        config: the configuration to build with; by default a toy configuration with twelve experts.
        upstream_class: by default the one of the same name beside the model's configuration class.
    """
    with tempfile.TemporaryDirectory(prefix="patchgen-converter-", dir=scratch_folder()) as folder, quiet():
        try:
            case, notes = prepare_case(model_class, factory, config, upstream_class, Path(folder))
        except PatchgenError as error:
            return make_result(error.problems)
        if case.layout is Layout.NONE and not _makes_converter(case):
            return make_result(skipped="the model has no experts, and the factory makes no converter for it")
        problems = _steps(case, notes)
    experts = sizes_of_config(case.upstream.config).experts
    return make_result(tuple(problems), notes=tuple(notes), figures={"tensors": len(case.hub), "experts": experts})


def _makes_converter(case: ConverterCase) -> bool:
    try:
        return make_empty_model(case)[1] is not None
    except PatchgenError:
        return False


def _steps(case: ConverterCase, notes: list[str]) -> list[Problem]:
    problem = _at("layout", "", lambda: _check_layout(case))
    if problem is not None:
        return [problem]  # every other step would say the same in other words
    problems = [
        _at("hub checkpoint", _HINTS["hub"], lambda: _check_hub(case)),
        _at("random order", _HINTS["order"], lambda: _check_orders(case)),
        _at("model's own layout", _HINTS["own"], lambda: _check_own_layout(case)),
        _at("a missing expert", _HINTS["missing"], lambda: _check_missing_expert(case, notes)),
        _at("square experts", _HINTS["square"], lambda: _check_square_experts(case, notes)),
        _at("way back", _HINTS["back"], lambda: _check_way_back(case)),
    ]
    return [problem for problem in problems if problem is not None]


_HINTS = {
    "hub": "The converter must turn the checkpoint's tensors into what transformers makes of them.",
    "order": "Place each expert by the number in its name, not by the order of arrival.",
    "own": "Checkpoints saved in training have the model's own layout: find them by name or shape, and pass them on.",
    "missing": "finalize must raise if experts still wait for others, and name them.",
    "square": "Tell layouts apart by names, or refuse sizes whose shapes do not: a transposed square fits too.",
    "back": "to_hub_layout writes what transformers' conversion mapping says; does the generated model have upstream's"
    " names and shapes?",
}


def _at(step: str, hint: str, check: Callable[[], list[str]]) -> Problem | None:
    """Run one step; what goes wrong in it, of whatever kind, is one problem."""
    try:
        wrong = check()
    except PatchgenError as error:
        first = error.problems[0]
        return Problem(f"{step}: {listed([p.message for p in error.problems])}", hint=first.hint or hint)
    except Exception as error:
        raise_if_missing(error)
        return Problem(f"{step}: {type(error).__name__}: {error}", hint=hint)
    return Problem(f"{step}: {listed(wrong)}", hint=hint) if wrong else None


def _check_layout(case: ConverterCase) -> list[str]:
    _, converter = make_empty_model(case)
    check_converter_of(case.upstream, converter)
    return []


def _check_hub(case: ConverterCase) -> list[str]:
    wrong = _feed(case, case.hub, sorted(case.hub, key=natural_key))
    if wrong:
        return wrong
    model, converter = make_empty_model(case)
    load_state_dict_streaming(model, case.folder / "hub", converter, ignore=case.ignored)
    return differences(case.expected, model.state_dict())


def _check_orders(case: ConverterCase) -> list[str]:
    for seed in range(3):
        names = sorted(case.hub)
        random.Random(seed).shuffle(names)
        wrong = _feed(case, case.hub, names)
        if wrong:
            return wrong
    return []


def _feed(case: ConverterCase, tensors: Mapping[str, torch.Tensor], names: Iterable[str]) -> list[str]:
    """What is wrong with what the converter makes of tensors given in this order."""
    model, converter = make_empty_model(case)
    target = target_of(model)
    converted = [_convert(name, tensors[name], converter) for name in names]
    done = [one for one in converted if one is not None] + list(converter.finalize() if converter is not None else ())
    outputs_by_name: dict[str, torch.Tensor] = {}
    for one in done:
        name = target.resolve(one.name) or one.name
        if name not in target.tensors and case.ignores(name):
            continue
        if name in outputs_by_name:
            return [f"'{name}' comes twice"]
        outputs_by_name[name] = one.tensor
    tied = {
        name: outputs_by_name[one] for name, group in target.ties.items() for one in group if one in outputs_by_name
    }
    return differences(case.expected, {**tied, **outputs_by_name})


def _convert(
    name: str, tensor: torch.Tensor, converter: CheckpointTensorConverter | None
) -> ConvertedCheckpointTensor | None:
    try:
        return maybe_convert_checkpoint_tensor(name, tensor, converter)
    except PatchgenError:
        raise
    except Exception as error:
        raise_if_missing(error)
        message = f"convert fails on '{name}' {list(tensor.shape)}: {type(error).__name__}: {error}"
        raise PatchgenError(message) from error


def _check_own_layout(case: ConverterCase) -> list[str]:
    from safetensors.torch import save_file

    file = case.folder / "own.safetensors"
    tied = set(getattr(case.upstream, "all_tied_weights_keys", None) or ())
    tensors = {name: value.contiguous() for name, value in case.expected.items() if name not in tied}
    wrong = _feed(case, tensors, tensors)
    if wrong:
        return wrong
    save_file(tensors, file, metadata={"format": "pt"})
    model, converter = make_empty_model(case)
    load_state_dict_streaming(model, file, converter, ignore=case.ignored)
    return differences(case.expected, model.state_dict())


def _check_missing_expert(case: ConverterCase, notes: list[str]) -> list[str]:
    if case.layout is not Layout.PER_EXPERT:
        if case.layout is not Layout.NONE:
            notes.append(f"layout {case.layout}: no tensor belongs to one expert alone, so none can be missing")
        return []
    experts = sorted((name for name in case.hub if ".experts." in name and not case.ignores(name)), key=natural_key)
    # one of each kind, such as down_proj.weight; the last one, which comes when most are there
    kinds = {_NUMBER.sub("*", name): name for name in experts if case.hub[name].dim() == 2}
    for dropped in kinds.values():
        if wrong := _why_not_missed(case, experts, dropped):
            return [wrong]
    return []


def _why_not_missed(case: ConverterCase, experts: Sequence[str], dropped: str) -> str:
    """What is wrong with what the converter says of experts that lack one tensor."""
    _, converter = make_empty_model(case)
    if converter is None:
        return ""
    for name in experts:
        if name != dropped:
            maybe_convert_checkpoint_tensor(name, case.hub[name], converter)
    try:
        remaining = converter.finalize()
    except Exception as error:
        layer = re.findall(r"\w+\.[0-9]+(?=\.)", dropped.partition(".experts.")[0] + ".")
        if layer and layer[-1] not in str(error):
            return f"without '{dropped}', finalize raises, but names no layer: {type(error).__name__}: {error}"
        return ""
    handed = f" and hands over {', '.join(repr(one.name) for one in remaining[:2])}" if remaining else ""
    return f"without '{dropped}', finalize does not raise{handed}"


def _check_square_experts(case: ConverterCase, notes: list[str]) -> list[str]:
    if case.layout is Layout.NONE:
        return []
    config = copy.deepcopy(case.config)
    make_experts_square(config)
    folder, upstream_class = case.folder / "square", type(case.upstream)  # whose own loader may tell by shapes
    square, _ = prepare_case(case.model_class, case.factory, config, upstream_class, folder, loads_upstream=False)
    try:
        make_empty_model(square)
    except PatchgenError as error:
        notes.append(f"square experts are refused: {error.problems[0].message}")
        return []
    return _check_hub(square)


def _check_way_back(case: ConverterCase) -> list[str]:
    model = build_from_config(case.model_class, case.config)
    model.load_state_dict(dict(case.expected))
    folder = case.folder / "back"
    to_hub_layout(model, folder, max_shard_size=max(sum(v.nbytes for v in case.expected.values()) // 3, 1))
    hub = {name: value for name, value in case.hub.items() if not case.ignores(name)}
    wrong = [] if is_converted_as_part(case.upstream) else differences(hub, read_tensors(folder))
    return wrong or compare_with_loaded(case.upstream, folder, case.left_out)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' progress bars and advice out of the check's output."""
    from transformers import utils

    logging: Any = utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()

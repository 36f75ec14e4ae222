"""Does a project's converter load what Hugging Face saves? Hugging Face itself is the oracle."""

from __future__ import annotations

import copy
import importlib
import random
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.checkpoint.detection import check_converter_layout
from patchgen_core.checkpoint.explain import differences, listed
from patchgen_core.checkpoint.headers import natural_key, read_headers, read_tensors
from patchgen_core.checkpoint.hub import to_hub_layout
from patchgen_core.checkpoint.mapping import conversion_of_model, is_known, model_type_of
from patchgen_core.checkpoint.planning import target_of
from patchgen_core.checkpoint.protocol import (
    CheckpointTensorConverter,
    ConvertedCheckpointTensor,
    Layout,
    maybe_convert_checkpoint_tensor,
)
from patchgen_core.checkpoint.sizes import set_expert_count, sizes_of_config
from patchgen_core.checkpoint.streaming import load_state_dict_streaming
from patchgen_core.checks.parity.verdict import CheckVerdict
from patchgen_core.errors import PatchgenError, Problem

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

Factory = Callable[[Any], "CheckpointTensorConverter | None"]

_EXPERTS = 12  # more than ten, so that sorting their numbers as text shows


@dataclass(frozen=True)
class _Case:
    """What the steps of the check work with.

    Attributes:
        model_class: the generated class.
        factory: the project's.
        upstream: the model of Hugging Face, with random values everywhere.
        expected: its state dict, without what the generated class leaves out.
        left_out: the names of that: they match one of ``ignored``, ``_keys_to_ignore_on_load_unexpected``.
        hub: its tensors as the hub stores them.
        folder: where the steps may write; ``hub`` in it holds the hub's checkpoint.
        layout: the hub's layout.
    """

    model_class: type[PreTrainedModel]
    factory: Factory
    upstream: PreTrainedModel
    expected: Mapping[str, torch.Tensor]
    hub: Mapping[str, torch.Tensor]
    folder: Path
    layout: Layout | None
    left_out: frozenset[str] = frozenset()
    ignored: tuple[str, ...] = ()

    def ignores(self, name: str) -> bool:
        """Whether a tensor of a checkpoint is of a part that the generated class leaves out."""
        return bool(self.left_out) and any(re.search(pattern, name) for pattern in self.ignored)


def check_converter(
    model_class: type[PreTrainedModel],
    factory: Factory,
    config: PreTrainedConfig | None = None,
    upstream_class: type[PreTrainedModel] | None = None,
) -> CheckVerdict:
    """Check a converter against what Hugging Face saves and loads.

    The upstream model is built from the configuration and filled with random values. A part of it may be left out by
    the generated class, which then ignores its keys. The steps, of which each one that fails is a problem:

    - *layout*: the converter is for the layout that transformers' conversion mapping has for the model's type;
    - *hub checkpoint*: what ``save_pretrained`` writes, in several shards, streams through the converter into the
      generated model: every tensor equal bit for bit, none missing and none left over;
    - *random order*: its tensors given to the converter in random orders come out the same;
    - *model's own layout*: the upstream state dict, saved as it is, loads unchanged;
    - *a missing expert*: without one tensor of one expert, ``finalize`` raises and names it;
    - *way back*: what ``to_hub_layout`` writes loads with plain ``from_pretrained``, equal bit for bit.

    Args:
        model_class: the generated class.
        factory: the project's ``create_..._checkpoint_tensor_converter``; is called with a model of that class.
        config: the configuration to build with; by default a toy configuration with twelve experts.
        upstream_class: the class of transformers to compare with; by default the one of the same name beside the
            model's configuration class.

    Returns:
        The problems, without locations; skipped for a model without experts that the factory refuses; in
        ``figures``, how many ``tensors`` and ``experts`` were compared.
    """
    with tempfile.TemporaryDirectory(prefix="patchgen-converter-") as folder, _quiet():
        try:
            case, notes = _prepare(model_class, factory, config, upstream_class, Path(folder))
        except PatchgenError as error:
            return CheckVerdict(problems=tuple(error.problems))
        if case.layout is Layout.NONE and not _makes_converter(case):
            return CheckVerdict(skipped="the model has no experts, and the factory makes no converter for it")
        problems = _steps(case, notes)
    experts = sizes_of_config(case.upstream.config).experts
    return CheckVerdict(tuple(problems), notes=tuple(notes), figures={"tensors": len(case.hub), "experts": experts})


def _makes_converter(case: _Case) -> bool:
    try:
        return _fresh(case)[1] is not None
    except PatchgenError:
        return False


def _steps(case: _Case, notes: list[str]) -> list[Problem]:
    problem = _at("layout", "", lambda: _check_layout(case))
    if problem is not None:
        return [problem]  # every other step would say the same in other words
    problems = [
        _at("hub checkpoint", _HINTS["hub"], lambda: _check_hub(case)),
        _at("random order", _HINTS["order"], lambda: _check_orders(case)),
        _at("model's own layout", _HINTS["own"], lambda: _check_own_layout(case)),
        _at("a missing expert", _HINTS["missing"], lambda: _check_missing_expert(case, notes)),
        _at("way back", _HINTS["back"], lambda: _check_way_back(case)),
    ]
    return [problem for problem in problems if problem is not None]


_HINTS = {
    "hub": "The converter must make of the checkpoint's tensors what transformers makes of them.",
    "order": "Place each expert by the number in its name, not by when it comes.",
    "own": "Checkpoints saved in training have the model's own layout: tell by name or shape, and pass them on.",
    "missing": "finalize must raise on experts that still wait for others, and name them.",
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
        return Problem(f"{step}: {type(error).__name__}: {error}", hint=hint)
    return Problem(f"{step}: {listed(wrong)}", hint=hint) if wrong else None


def _prepare(
    model_class: type[PreTrainedModel],
    factory: Factory,
    config: PreTrainedConfig | None,
    upstream_class: type[PreTrainedModel] | None,
    folder: Path,
) -> tuple[_Case, list[str]]:
    notes: list[str] = []
    upstream_class = upstream_class or _upstream_class(model_class)
    config = copy.deepcopy(config) if config is not None else _toy_config(upstream_class)
    experts = sizes_of_config(config).experts
    if 0 < experts < 11:
        notes.append(f"{experts} experts: an order of their numbers as text would not show; it takes more than ten")
    upstream = _build(upstream_class, config)
    _randomize(upstream)
    layout = conversion_of_model(upstream).layout
    generated = _build(model_class, config)
    ignored, own = tuple(generated._keys_to_ignore_on_load_unexpected or ()), generated.state_dict()
    left_out = {name for name in upstream.state_dict() if name not in own and any(re.search(p, name) for p in ignored)}
    expected = {name: value.clone() for name, value in upstream.state_dict().items() if name not in left_out}
    _save_hub(upstream, layout, folder / "hub")
    hub = read_tensors(folder / "hub")
    if layout is Layout.NONE:
        notes.append("the model has no experts")
    return _Case(model_class, factory, upstream, expected, hub, folder, layout, frozenset(left_out), ignored), notes


def _upstream_class(model_class: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """The class of the same name in the modeling module beside the configuration's."""
    config_class = model_class.config_class
    home = getattr(config_class, "__module__", "").replace(".configuration_", ".modeling_")
    module = importlib.import_module(home) if home.startswith("transformers.models.") else None
    found: type[PreTrainedModel] | None = getattr(module, model_class.__name__, None)
    if found is None:
        raise PatchgenError(
            f"there is no {model_class.__name__} in {home or 'the module of its configuration class'}",
            hint="Pass upstream_class=, the class of transformers to compare with.",
        )
    return found


def _toy_config(upstream_class: type[PreTrainedModel]) -> PreTrainedConfig:
    from patchgen_core.models.toy_config import make_toy_config

    config_class: Any = upstream_class.config_class
    config = make_toy_config(config_class)
    set_expert_count(config, _EXPERTS)
    return config


def _build(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> PreTrainedModel:
    try:
        build: Callable[..., Any] = model_class
        model: PreTrainedModel = build(copy.deepcopy(config)).float().eval()
    except Exception as error:
        raise PatchgenError(
            f"{model_class.__module__}.{model_class.__name__} cannot be built from the toy configuration:"
            f" {type(error).__name__}: {error}",
            hint="Give a toy configuration that the class takes.",
        ) from error
    return model


def _randomize(model: PreTrainedModel) -> None:
    """Give every tensor values of its own, so that none can stand for another."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))


def _fresh(case: _Case) -> tuple[PreTrainedModel, CheckpointTensorConverter | None]:
    """A generated model in which nothing has been written, and its converter."""
    model = _build(case.model_class, case.upstream.config)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))
    try:
        converter = case.factory(model)
    except PatchgenError:
        raise
    except Exception as error:
        raise PatchgenError(
            f"the factory failed on a {type(model).__name__}: {type(error).__name__}: {error}",
            hint="It is called with a model of every class of the generated module, whole or a part of one.",
        ) from error
    if converter is not None and not isinstance(converter, CheckpointTensorConverter):
        raise PatchgenError(
            f"the factory returned a {type(converter).__name__}, which is no CheckpointTensorConverter",
            hint="It must have can_handle, convert and finalize; return None when there is nothing to convert.",
        )
    return model, converter


def _save_hub(upstream: PreTrainedModel, layout: Layout | None, folder: Path) -> None:
    """Save as the hub has it, and see that Hugging Face loads that.

    save_pretrained goes back to one matrix an expert, but leaves experts that it would transpose as they are.
    """
    from safetensors.torch import save_file

    size = sum(value.nbytes for value in upstream.state_dict().values())
    upstream.save_pretrained(folder, max_shard_size=max(size // 4, 1))
    if layout is not Layout.TRANSPOSED:
        return
    for file in {one.file for one in read_headers(folder)}:
        tensors = read_tensors([file])
        fused = {name: value for name, value in tensors.items() if ".experts." in name and value.dim() == 3}
        turned = {name: value.transpose(1, 2).contiguous() for name, value in fused.items()}
        save_file({**tensors, **turned}, file, metadata={"format": "pt"})
    wrong = _compare_loaded(upstream, folder) if not _is_part(upstream) else []
    if wrong:
        raise PatchgenError(f"Hugging Face does not load its own hub layout back: {listed(wrong)}")


def _is_part(model: PreTrainedModel) -> bool:
    """Whether Hugging Face converts this model only as a part of another, and cannot load it from the hub alone."""
    return conversion_of_model(model, alone=True).layout is not conversion_of_model(model).layout


def _check_layout(case: _Case) -> list[str]:
    _, converter = _fresh(case)
    model_type = model_type_of(case.upstream)
    if model_type is not None and is_known(model_type):
        check_converter_layout(converter, model_type)
    return []


def _check_hub(case: _Case) -> list[str]:
    wrong = _feed(case, case.hub, sorted(case.hub, key=natural_key))
    if wrong:
        return wrong
    model, converter = _fresh(case)
    load_state_dict_streaming(model, case.folder / "hub", converter)
    return differences(case.expected, model.state_dict())


def _check_orders(case: _Case) -> list[str]:
    for seed in range(3):
        names = sorted(case.hub)
        random.Random(seed).shuffle(names)
        wrong = _feed(case, case.hub, names)
        if wrong:
            return wrong
    return []


def _feed(case: _Case, tensors: Mapping[str, torch.Tensor], names: Iterable[str]) -> list[str]:
    """What is wrong with what the converter makes of tensors given in this order."""
    model, converter = _fresh(case)
    target = target_of(model)
    made = [_convert(name, tensors[name], converter) for name in names]
    done = [one for one in made if one is not None] + list(converter.finalize() if converter is not None else ())
    given: dict[str, torch.Tensor] = {}
    for one in done:
        name = target.resolve(one.name) or one.name
        if name not in target.tensors and case.ignores(name):
            continue
        if name in given:
            return [f"'{name}' comes twice"]
        given[name] = one.tensor
    tied = {name: given[one] for name, group in target.ties.items() for one in group if one in given}
    return differences(case.expected, {**tied, **given})


def _convert(
    name: str, tensor: torch.Tensor, converter: CheckpointTensorConverter | None
) -> ConvertedCheckpointTensor | None:
    try:
        return maybe_convert_checkpoint_tensor(name, tensor, converter)
    except PatchgenError:
        raise
    except Exception as error:
        message = f"convert fails on '{name}' {list(tensor.shape)}: {type(error).__name__}: {error}"
        raise PatchgenError(message) from error


def _check_own_layout(case: _Case) -> list[str]:
    from safetensors.torch import save_file

    file = case.folder / "own.safetensors"
    tied = set(getattr(case.upstream, "all_tied_weights_keys", None) or ())
    tensors = {name: value.contiguous() for name, value in case.expected.items() if name not in tied}
    wrong = _feed(case, tensors, tensors)
    if wrong:
        return wrong
    save_file(tensors, file, metadata={"format": "pt"})
    model, converter = _fresh(case)
    load_state_dict_streaming(model, file, converter)
    return differences(case.expected, model.state_dict())


def _check_missing_expert(case: _Case, notes: list[str]) -> list[str]:
    if case.layout is not Layout.PER_EXPERT:
        if case.layout is not Layout.NONE:
            notes.append(f"layout {case.layout}: no tensor is of one expert alone, so that none can be missing")
        return []
    experts = sorted((name for name in case.hub if ".experts." in name and not case.ignores(name)), key=natural_key)
    dropped = next((name for name in reversed(experts) if case.hub[name].dim() == 2), None)
    if dropped is None:
        return []
    _, converter = _fresh(case)
    if converter is None:
        return []
    for name in experts:
        if name != dropped:
            maybe_convert_checkpoint_tensor(name, case.hub[name], converter)
    try:
        left = converter.finalize()
    except Exception as error:
        layer = re.findall(r"\w+\.[0-9]+(?=\.)", dropped.partition(".experts.")[0] + ".")
        if layer and layer[-1] not in str(error):
            return [f"without '{dropped}', finalize raises, but names no layer: {type(error).__name__}: {error}"]
        return []
    handed = f" and hands over {', '.join(repr(one.name) for one in left[:2])}" if left else ""
    return [f"without '{dropped}', finalize does not raise{handed}"]


def _check_way_back(case: _Case) -> list[str]:
    model = _build(case.model_class, case.upstream.config)
    model.load_state_dict(dict(case.expected))
    folder = case.folder / "back"
    to_hub_layout(model, folder, max_shard_size=max(sum(v.nbytes for v in case.expected.values()) // 3, 1))
    hub = {name: value for name, value in case.hub.items() if not case.ignores(name)}
    wrong = [] if _is_part(case.upstream) else differences(hub, read_tensors(folder))
    return wrong or _compare_loaded(case.upstream, folder, case.left_out)


def _compare_loaded(upstream: PreTrainedModel, folder: Path, lacks: frozenset[str] = frozenset()) -> list[str]:
    """What is wrong with the model that plain ``from_pretrained`` makes of a folder, which lacks some tensors."""
    load: Callable[..., Any] = type(upstream).from_pretrained
    loaded, info = load(folder, dtype=torch.float32, output_loading_info=True)
    found = {kind: sorted(str(name) for name in names if name not in lacks) for kind, names in info.items()}
    reported = [f"from_pretrained reports {kind}: {names[:3]}" for kind, names in found.items() if names]
    states = ({n: v for n, v in one.state_dict().items() if n not in lacks} for one in (upstream, loaded))
    return reported + differences(*states)


@contextmanager
def _quiet() -> Iterator[None]:
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

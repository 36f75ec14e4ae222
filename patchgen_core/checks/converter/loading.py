"""Everything that loads checkpoints into the classes of one generated module."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from patchgen_core.auto import registered_with_auto
from patchgen_core.checkpoint.mapping import conversion_of_model
from patchgen_core.checkpoint.protocol import Layout
from patchgen_core.checks.converter.case import Factory, build_from_config
from patchgen_core.checks.converter.comparison import check_converter, quiet
from patchgen_core.checks.converter.exchange import find_unexchanged, variants_of
from patchgen_core.checks.converter.own_classes import find_problems_of_own_classes
from patchgen_core.checks.converter.registration import (
    find_other_classes,
    find_other_converters,
    find_unregistered,
    given_by_name,
    on_device,
    place_of,
    registered_types,
)
from patchgen_core.checks.converter.request import LoadingRequest
from patchgen_core.checks.model_process.answering import (
    check_heads,
    generated_module,
    import_module,
    name_head_in_errors,
    one_function,
)
from patchgen_core.checks.model_process.request import ModelRequest
from patchgen_core.checks.result import CheckResult, make_result, with_errors
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.models.model_heads import WHOLE_FIRST, Head, find_heads
from patchgen_core.models.toy_config import load_toy_config, part_of_toy_config
from patchgen_core.workers.scratch import scratch_folder

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_CONVERTED = (Layout.PER_EXPERT, Layout.TRANSPOSED)


def check_request(request: ModelRequest) -> CheckResult:
    """Check what loads a generated module's checkpoints; in the process that runs models."""
    subject: LoadingRequest = request.subject
    generated, upstream = generated_module(subject), import_module(subject.upstream)
    factory = _factory(subject.beside) if subject.beside else None
    result = make_result(skipped="there is no converter")
    if factory is not None:
        converter = factory
        result = check_heads(
            subject, lambda cls: check_converter(cls, converter, upstream_class=_same_class(cls, upstream))
        )
    heads = find_heads(generated, upstream) if subject.package else ()
    if not heads:
        return result
    with quiet():
        problems = [_placed(problem, subject) for problem in find_loading_problems(generated, heads, subject, factory)]
    return with_errors(replace(result, reason=""), (*result.errors, *problems))


def _factory(module: str) -> Factory:
    return one_function(
        import_module(module),
        lambda name: name.startswith("create_") and name.endswith("checkpoint_tensor_converter"),
        "create_<model>_checkpoint_tensor_converter(model)",
    )


def _same_class(cls: type, upstream: ModuleType) -> Any:
    """Upstream's class of the same name."""
    if not hasattr(upstream, cls.__name__):
        raise PatchgenError(f"upstream has no class '{cls.__name__}' to compare with")
    return getattr(upstream, cls.__name__)


def find_loading_problems(
    generated: ModuleType, heads: Sequence[Head], subject: LoadingRequest, factory: Factory | None
) -> list[Problem]:
    """What is wrong with what is registered; where that is right, with the checkpoints of its classes."""
    types = registered_types(subject.package)
    main = min(heads, key=lambda head: WHOLE_FIRST.index(head.kind))
    problems = [*find_unregistered(heads, types)]
    with ExitStack() as stack:
        with on_device(subject.device_type, subject.package):
            for model_type in types:
                try:
                    stack.enter_context(registered_with_auto(model_type, subject.device_type or None))
                except PatchgenError as error:
                    place = place_of([model_type])
                    problems += [replace(problem, location=problem.location or place) for problem in error.problems]
                else:
                    problems += find_other_classes(generated, heads, model_type, subject.device_type)
        problems += find_problems_of_own_classes(subject.package, heads)
        if problems:
            return problems
        if factory is not None:
            classes = _loadable_classes(generated, heads, types, subject.device_type)
            models = (build_from_config(cls, _toy_config(cls, main, subject)) for cls in classes)
            converted = (model for model in models if conversion_of_model(model).layout in _CONVERTED)
            problems += find_other_converters(converted, factory, types)
        for head in heads:
            with name_head_in_errors(head.name):
                problems += _find_unexchanged(head, _toy_config(head.upstream, main, subject))
    return problems


def _loadable_classes(
    generated: ModuleType, heads: Sequence[Head], types: Sequence[str], device_type: str
) -> Iterator[Any]:
    """The heads, and the text models below them that the registry gives by their names."""
    yield from (head.generated for head in heads)
    names = {head.name for head in heads}
    for name, value in vars(generated).items():
        is_own = isinstance(value, type) and value.__module__ == generated.__name__ and name not in names
        if is_own and name.endswith("TextModel") and value in given_by_name(name, types, device_type):
            yield value


def _find_unexchanged(head: Head, config: PreTrainedConfig) -> Iterator[Problem]:
    for variant, own in variants_of(head, config):
        with tempfile.TemporaryDirectory(prefix="patchgen-exchange-", dir=scratch_folder()) as folder:
            yield from find_unexchanged(head, own, Path(folder), variant)


def _toy_config(model_class: Any, main: Head, subject: LoadingRequest) -> PreTrainedConfig:
    """The toy configuration of a class; the patch config's own is for the main head and its like, and its parts."""
    config_class, whole, own = model_class.config_class, main.upstream.config_class, subject.toy_config
    if whole is not None and config_class is not whole:
        own = part_of_toy_config(config_class, whole, own)
    toy_root = Path(subject.toy_root) if subject.toy_root else None
    return load_toy_config(config_class, own, toy_root, config_class.model_type)


def _placed(problem: Problem, subject: LoadingRequest) -> Problem:
    """A problem at the patch of its class, where there is one and nothing else tells where it lies."""
    own: list[Location] = [place for target, place in subject.patches if target.partition(".")[0] == problem.target]
    return replace(problem, location=problem.location or (own[0] if own else subject.declared))

"""Runs a monkey patch in this process, which it may spoil, and tells what it changed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import logging
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from patchgen_core.authoring.adopt.patcher_run import AttributeChange, PatcherRequest, PatcherRun
from patchgen_core.authoring.adopt.values import describe, describe_helpers
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.monkey_patch import MONKEY_PATCHER
from patchgen_core.runtime.namespaces import MISSING, Change, Watch
from patchgen_core.runtime.patchers import watch_patcher
from patchgen_core.syntax.forms import quoted

Patcher = Callable[..., object]


def run_patcher(request: PatcherRequest) -> PatcherRun:
    """Import what registers patchers, then run one on a model's module and compare.

    Raises:
        PatchgenError: the model or the patcher is unknown, or it cannot be called, or fails.
    """
    model_type, upstream = _upstream(request.model)
    if not request.patcher:
        return _run_imports(request, model_type, upstream)
    for name in request.imports:
        _imported(name, "the module that registers patchers")
    if ":" in request.patcher:
        function = _named(request.patcher)
    else:
        function = MONKEY_PATCHER.find(_registered(model_type, request.patcher), request.patcher)
    _check_arguments(function, request.arguments)
    module = _imported(upstream, "upstream's module")
    watch = watch_patcher(function, upstream.partition(".")[0])
    with watch, _messages() as messages:
        try:
            function(**request.arguments)
        except Exception as error:
            message = f"the patcher {_path(function)} failed on '{upstream}': {type(error).__name__}: {error}"
            hint = "Its changes show only when it runs: does its version fit the installed transformers?"
            raise PatchgenError(message, hint=f"{_raised(error)} {hint}") from error
    parameters = tuple(name for name in inspect.signature(function).parameters if name != "model")
    home = str(getattr(function, "__module__", ""))
    run = PatcherRun(upstream, _path(function), parameters, dict(request.arguments), messages=_unique(messages))
    return _with_changes(run, module, watch, home, _inlined(request, home))


def _inlined(request: PatcherRequest, home: str) -> tuple[str, ...]:
    """The modules whose code the config is to hold itself."""
    return tuple(dict.fromkeys([home, *request.imports])) if request.inline else ()


def _run_imports(request: PatcherRequest, model_type: str, upstream: str) -> PatcherRun:
    """Import modules that patch when they are imported, and compare."""
    module = _imported(upstream, "upstream's module")
    names = ", ".join(request.imports)
    packages = [name.partition(".")[0] for name in request.imports]
    watch = Watch(["transformers", upstream.partition(".")[0], *packages], packages)
    with watch, _messages() as messages:
        for name in request.imports:
            _imported(name, "the module that patches when it is imported")
    run = PatcherRun(upstream, names, (), {}, messages=_unique(messages))
    home = request.imports[0]
    run = _with_changes(run, module, watch, home, _inlined(request, home))
    if not run.changes:
        types = sorted({key[1] for key in MONKEY_PATCHER.registered() if key[0] == model_type})
        registers = f"It registers {quoted(types)}: pass --from {types[0]}." if types else ""
        hint = registers or "Does it patch in a function? Name that with --from package.module:function."
        raise PatchgenError(f"importing {names} changes nothing", hint=hint)
    return run


def _with_changes(
    run: PatcherRun, module: types.ModuleType, watch: Watch, home: str, inlined: tuple[str, ...]
) -> PatcherRun:
    """A run with what was changed meanwhile, which is undone."""
    changes, beside = watch.changes(), watch.side_effects()
    bound = _bound(module, changes)
    for change in reversed(changes):  # what has a name has it without the patcher, which may change what is used here
        change.undo()
    described = [_describe_change(change, module, bound, home, inlined) for change in changes]
    values = [change.value for change in described if change.value is not None and change.is_upstream]
    helpers = describe_helpers(values, bound, home, inlined)
    ordered, side_effects = tuple(_in_order(module, described)), tuple(sorted(change.label for change in beside))
    return replace(run, changes=ordered, side_effects=side_effects, inlined=inlined, helpers=helpers)


def _unique(messages: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(messages))


def _imported(name: str, what: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        message = f"{what}, '{name}', cannot be imported: {type(error).__name__}: {error}"
        raise PatchgenError(message, hint=_raised(error)) from error


def _raised(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return "" if frame.filename.startswith("<frozen") else f"Raised in {frame.filename}, line {frame.lineno}."


def _upstream(model: str) -> tuple[str, str]:
    """Model type and modeling module of a model that is named by either."""
    if "." in model:
        return model.split(".")[-2], model
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, model_type_to_module_name

    name = model_type_to_module_name(model)
    module = f"transformers.models.{name}.modeling_{name}"
    if importlib.util.find_spec(f"transformers.models.{name}") is None or importlib.util.find_spec(module) is None:
        hint = did_you_mean(model, CONFIG_MAPPING.keys()) or "Give a model type, or the name of its modeling module."
        raise PatchgenError(f"transformers has no model type '{model}' with a modeling module", hint=hint)
    return model, module


def _registered(model_type: str, patch_type: str) -> str:
    """The model type a patch is registered for: this one, or the only one of the same modeling module."""
    names = [name for name, _ in MONKEY_PATCHER.registered(patch_type)]
    if model_type in names:
        return model_type
    from transformers.models.auto.configuration_auto import model_type_to_module_name

    same = [name for name in names if model_type_to_module_name(name) == model_type]
    return same[0] if len(same) == 1 else model_type


def _named(patcher: str) -> Patcher:
    name, _, path = patcher.partition(":")
    value: Any = _imported(name, "the patcher's module")
    for part in path.split("."):
        if not hasattr(value, part):
            hint = did_you_mean(part, dir(value))
            raise PatchgenError(f"'{name}' has no '{path}'", hint=hint)
        value = getattr(value, part)
    if not callable(value):
        raise PatchgenError(f"'{patcher}' cannot be called")
    return value  # type: ignore[no-any-return]


def _check_arguments(function: Patcher, arguments: Mapping[str, Any]) -> None:
    signature = inspect.signature(function)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        unknown = next((name for name in arguments if name not in signature.parameters), "")
        near = did_you_mean(unknown, signature.parameters) if unknown else ""
        hint = f"{near} Its parameters: {signature}.".strip()
        raise PatchgenError(f"the patcher {_path(function)} cannot be called: {error}", hint=hint) from None


def _path(function: Patcher) -> str:
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"


@contextlib.contextmanager
def _messages() -> Iterator[list[str]]:
    """Collects what is printed, logged and warned of."""
    messages: list[str] = []
    printed = io.StringIO()
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
            yield messages
    finally:
        logging.getLogger().removeHandler(handler)
        messages += [*(str(warning.message) for warning in caught), *printed.getvalue().splitlines()]


def _bound(module: types.ModuleType, changes: list[Change]) -> dict[str, Any]:
    """What upstream's names stand for after the patch, without those it adds."""
    added = {change.name for change in changes if change.owner is module and change.before is MISSING}
    return {name: value for name, value in vars(module).items() if name not in added}


def _in_order(module: types.ModuleType, changes: list[AttributeChange]) -> list[AttributeChange]:
    """Changes, upstream's first and in the order in which it has the names."""
    order = {name: number for number, name in enumerate(vars(module))}

    def order_of(change: AttributeChange) -> tuple[int, str]:
        if not change.is_upstream:
            return len(order) + 1, change.label
        return order.get((change.cls or change.name).split(".")[0], len(order)), ""

    return sorted(changes, key=order_of)


def _describe_change(
    change: Change, module: types.ModuleType, bound: Mapping[str, Any], home: str, inlined: tuple[str, ...]
) -> AttributeChange:
    owner = change.owner
    cls = owner.__qualname__ if isinstance(owner, type) and owner.__module__ == module.__name__ else ""
    original = change.before if change.before is not MISSING or not cls else getattr(owner, str(change.name), None)
    value = (
        None if change.after is MISSING else describe(change.after, bound, home, original if cls else None, inlined)
    )
    is_upstream, is_new = bool(cls) or owner is module, change.before is MISSING
    return AttributeChange(change.label, str(change.name), cls, is_upstream, is_new, value)

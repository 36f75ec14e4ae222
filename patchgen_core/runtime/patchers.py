"""Running a function that patches modules or a model, and putting back what it changed."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError
from patchgen_core.runtime.namespaces import Change, Watch

if TYPE_CHECKING:
    from torch import nn

Patcher = Callable[..., object]
Key = tuple[str, str]
"""Model type and patch type."""

logger = logging.getLogger("patchgen_core.monkey_patch")


def select_arguments(patcher: Patcher, kwargs: Mapping[str, Any], key: Key) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments that a patcher takes, and the names of the others; PatchgenError when they are not enough."""
    signature = inspect.signature(patcher)
    parameters = signature.parameters.values()
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    ignored = () if takes_all else tuple(name for name in kwargs if name not in names)
    arguments = {name: value for name, value in kwargs.items() if name not in ignored}
    what = f"the '{key[1]}' patch of '{key[0]}', {name_of(patcher)},"
    if "model" in ignored:
        raise PatchgenError(f"{what} takes no model", hint="Use apply_monkey_patch before the model is constructed.")
    try:
        signature.bind(**arguments)
    except TypeError as error:
        hint = f"Its parameters: {signature}."
        if "'model'" in str(error):
            hint = "It is for models that are constructed already: use apply_monkey_patch_to_instance."
        raise PatchgenError(f"{what} cannot be called: {error}", hint=hint) from None
    if ignored:
        logger.info("%s takes no %s: ignored", what.rstrip(","), ", ".join(ignored))
    return arguments, ignored


def watch_patcher(patcher: Patcher, *packages: str) -> Watch:
    """What sees all that a patcher changes: in transformers, its own package and ``packages`` plain values as well."""
    own = str(getattr(patcher, "__module__", "")).partition(".")[0]
    return Watch(["transformers", *packages], [own])


def name_of(patcher: Patcher) -> str:
    """The dotted name of a patcher."""
    return f"{getattr(patcher, '__module__', '')}.{getattr(patcher, '__qualname__', repr(patcher))}"


def are_same_arguments(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two calls of a patcher do the same."""
    if one.keys() != other.keys():
        return False
    try:
        return all(one[name] is other[name] or bool(one[name] == other[name]) for name in one)
    except (TypeError, ValueError, RuntimeError):  # values without an answer, such as tensors
        return False


def run_patcher(patcher: Patcher, arguments: Mapping[str, Any], watch: Watch, key: Key) -> list[Change]:
    """Run a patcher; what it changed when it ended well, and else all of it is put back."""
    try:
        with watch:
            patcher(**arguments)
    except BaseException as error:
        put_back(watch.changes())
        if not isinstance(error, Exception):
            raise
        message = f"the '{key[1]}' patch of '{key[0]}' failed: {type(error).__name__}: {error}"
        raise PatchgenError(message, hint="What it had changed was restored.") from error
    return watch.changes()


def hold_model(watch: Watch, model: nn.Module) -> set[int]:
    """Remember all modules of a model and its configs; the owners that are its own."""
    held: set[int] = set()
    for name, module in model.named_modules():
        where = f"model.{name}" if name else "model"
        held |= watch.hold_object(module, where)
        for key in ("config", "generation_config"):
            value = vars(module).get(key)
            if value is not None and hasattr(value, "__dict__"):
                held |= watch.hold_object(value, f"{where}.{key}")
    return held


def labels_of(changes: Iterable[Change]) -> tuple[str, ...]:
    """The dotted names of what was changed, each once."""
    return tuple(dict.fromkeys(change.label for change in changes))


def refuse_stale(changes: Iterable[Change], force: bool, key: Key) -> None:
    """Raise a PatchgenError where something else has changed again what a patch changed, unless ``force``."""
    last = {(id(change.owner), change.name): change for change in changes}
    stale = [change.label for change in last.values() if not change.is_current]
    if stale and not force:
        names = ", ".join(stale)
        raise PatchgenError(
            f"the '{key[1]}' patch of '{key[0]}' cannot be reverted: {names} was changed again since",
            hint="Revert what changed it first, or pass force=True to restore what was there before this patch.",
        )


def put_back(changes: Sequence[Change]) -> tuple[str, ...]:
    """Undo changes, latest first; the names of what was changed."""
    for change in reversed(changes):
        change.undo()
    return labels_of(changes)

"""Monkey patches by model type: applied before or after a model is constructed, and taken back.

    @MONKEY_PATCHER.register("aero", "liger")
    def apply_liger_to_aero(rope: bool = True, model: nn.Module | None = None) -> None: ...

    MONKEY_PATCHER.apply_monkey_patch("aero", "liger", rope=True)  # before a model is constructed
    MONKEY_PATCHER.apply_monkey_patch_to_instance(model, "liger", rope=True)  # afterwards
    MONKEY_PATCHER.revert("aero", "liger")

Liger's own patchers are there under the patch type ``liger``. What a patcher changes is found by comparing modules,
classes and the model before and after, so every patcher can be taken back. To move from a monkey patch to
generated code, see ``patchgen adopt``.
"""

from __future__ import annotations

import importlib
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from patchgen_core.errors import PatchgenError, closest
from patchgen_core.runtime.namespaces import Change
from patchgen_core.runtime.patchers import (
    Key,
    Patcher,
    are_same_arguments,
    hold_model,
    labels_of,
    name_of,
    put_back,
    refuse_stale,
    run_patcher,
    select_arguments,
    watch_patcher,
)

if TYPE_CHECKING:
    from torch import nn

LIGER = "liger"
_LIGER_MODULE = "liger_kernel.transformers.monkey_patch"
_RECORDS = "_monkey_patches"

P = TypeVar("P", bound=Patcher)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AppliedPatch:
    """What applying a patch did.

    Attributes:
        changed: dotted names of the attributes that have another value now; of an instance from ``model`` on.
        ignored: keyword arguments that the patcher does not take.
        repeated: it had been applied with the same arguments before, so nothing was done.
    """

    model_type: str
    patch_type: str
    changed: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    repeated: bool = False


@dataclass(frozen=True, eq=False)
class _Record:
    """A patch that is applied, and what it changed of an instance, in order."""

    patcher: Patcher
    arguments: Mapping[str, Any]
    changes: tuple[Change, ...] = ()

    def is_same(self, patcher: Patcher, arguments: Mapping[str, Any]) -> bool:
        return self.patcher is patcher and are_same_arguments(self.arguments, arguments)


@dataclass(eq=False)
class _Process:
    """What a patch changed in the modules of this process, and who needs it: models to come, and instances."""

    changes: list[Change] = field(default_factory=list)
    record: _Record | None = None
    instances: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)


class _Records(dict[str, _Record]):
    """The patches of one instance, kept on it. A copy of the instance is patched as well, but has no way back."""

    def __deepcopy__(self, memo: object) -> _Records:
        return _Records()

    def __reduce__(self) -> tuple[type[_Records], tuple[()]]:
        return (_Records, ())


class MonkeyPatcher:
    """Patchers by model type and patch type, and what they have changed in this process."""

    def __init__(self) -> None:
        self._patchers: dict[Key, Patcher] = {}
        self._processes: dict[Key, _Process] = {}

    def register(self, model_type: str, patch_type: str = LIGER) -> Callable[[P], P]:
        """A decorator that registers a patcher; it returns the function as it is.

        The patcher takes keyword arguments. It changes the modules of the model, or, when it is given ``model``, that
        instance. Another function registered for the same pair takes the place of the first, with a warning.

        Raises:
            PatchgenError: a name is no string, or what is decorated cannot be called.
        """
        for name in (model_type, patch_type):
            if not isinstance(name, str) or not name:
                hint = 'Write @MONKEY_PATCHER.register("aero", "liger").'
                raise PatchgenError(f"register: {name!r} is not the name of a model type or patch type", hint=hint)

        def decorate(patcher: P) -> P:
            if not callable(patcher):
                raise PatchgenError(f"register: {patcher!r} cannot be called")
            registered_patcher = self._patchers.get((model_type, patch_type))
            if registered_patcher is not None and registered_patcher is not patcher:
                logger.warning(
                    "the '%s' patch of '%s' is registered again: %s replaces %s",
                    *(patch_type, model_type, name_of(patcher), name_of(registered_patcher)),
                )
            self._patchers[model_type, patch_type] = patcher
            return patcher

        return decorate

    def registered(self, patch_type: str | None = None) -> tuple[Key, ...]:
        """Model type and patch type of every patcher there is, or of those of one patch type, sorted.

        Liger's own are among them. Liger, and torch with it, is imported where its patch type is asked for.
        """
        keys = {*self._patchers}
        if patch_type in (None, LIGER):
            keys |= {(name, LIGER) for name in _liger_patchers()}
        return tuple(sorted(key for key in keys if patch_type in (None, key[1])))

    def find(self, model_type: str, patch_type: str = LIGER) -> Patcher:
        """The patcher of a pair.

        Raises:
            PatchgenError: there is none; lists what there is.
        """
        patcher = self._patchers.get((model_type, patch_type))
        if patcher is None and patch_type == LIGER:
            patcher = _liger_patchers().get(model_type)
        if patcher is None:
            raise self._unknown(model_type, patch_type)
        return patcher

    def apply_monkey_patch(self, model_type: str, patch_type: str = LIGER, **kwargs: Any) -> AppliedPatch:
        """Patch the modules of a model type. Models that are constructed afterwards are patched.

        Of ``kwargs``, the patcher gets those that are in its signature. A patch that is applied already
        with the same arguments is left as it is; with others, it is reverted first.

        Raises:
            PatchgenError: there is no such patcher, or it failed: then all it had changed was put back.
        """
        patcher, key = self.find(model_type, patch_type), (model_type, patch_type)
        arguments, ignored = select_arguments(patcher, kwargs, key)
        process = self._process(key, patcher)
        if process.record is not None:
            if process.record.is_same(patcher, arguments):
                return AppliedPatch(*key, (), ignored, repeated=True)
            logger.warning("the '%s' patch of '%s' is applied with other arguments: reverted", patch_type, model_type)
            self.revert(model_type, patch_type)
        changes = run_patcher(patcher, arguments, watch_patcher(patcher), key)
        process.changes += changes
        process.record = _Record(patcher, arguments)
        return AppliedPatch(*key, labels_of(changes), ignored)

    def apply_monkey_patch_to_instance(self, model: nn.Module, patch_type: str = LIGER, **kwargs: Any) -> AppliedPatch:
        """Patch a model that is constructed already.

        Its ``config.model_type`` chooses the patcher, which gets it as ``model``. What the patcher changes in modules
        beside stays until the last patched instance is reverted. Arguments and repetition are as with
        :meth:`apply_monkey_patch`.

        Raises:
            PatchgenError: there is no such patcher, it takes no model, or it failed: then all it had changed
                was put back.
        """
        key = (_model_type(model), patch_type)
        patcher = self.find(*key)
        arguments, ignored = select_arguments(patcher, {**kwargs, "model": model}, key)
        options = {name: value for name, value in arguments.items() if name != "model"}
        records = vars(model).setdefault(_RECORDS, _Records())
        if patch_type in records:
            if records[patch_type].is_same(patcher, options):
                return AppliedPatch(*key, (), ignored, repeated=True)
            logger.warning("the '%s' patch of this model is applied with other arguments: reverted", patch_type)
            self.revert(model, patch_type)
        process = self._process(key, patcher)
        watch = watch_patcher(patcher)
        own = hold_model(watch, model)
        changes = run_patcher(patcher, arguments, watch, key)
        mine = tuple(change for change in changes if id(change.owner) in own)
        process.changes += [change for change in changes if id(change.owner) not in own]
        process.instances.add(model)
        records[patch_type] = _Record(patcher, options, mine)
        return AppliedPatch(*key, labels_of(changes), ignored)

    def revert(self, model: str | nn.Module, patch_type: str = LIGER, force: bool = False) -> tuple[str, ...]:
        """Put back everything that a patch changed, and return the names of what was put back.

        What it changed in modules stays, with a warning, as long as instances, or models to come, are patched as
        well. ``force`` puts back even what something else has changed again since.

        Raises:
            PatchgenError: the patch is not applied; or something else has changed what it changed, and nothing
                was put back.
        """
        if isinstance(model, str):
            process = self._processes.get((model, patch_type), _Process())
            if process.record is None:
                applied = [key for key, other in self._processes.items() if other.record is not None]
                raise _not_applied(f"'{model}'", patch_type, (f"'{kind}' to '{name}'" for name, kind in applied))
            return self._undo((), process, (model, patch_type), force, model)
        key = (_model_type(model), patch_type)
        records: _Records = vars(model).get(_RECORDS) or _Records()
        if patch_type not in records:
            raise _not_applied(f"this '{key[0]}'", patch_type, (f"'{kind}'" for kind in records))
        process = self._processes.get(key, _Process())
        done = self._undo(records[patch_type].changes, process, key, force, model)
        del records[patch_type]
        return done

    def _undo(
        self, own: Iterable[Change], process: _Process, key: Key, force: bool, user: str | nn.Module
    ) -> tuple[str, ...]:
        """Put back an instance's changes, and those of the process when nobody else needs them."""
        is_expected = process.record is not None and not isinstance(user, str)
        is_needed = is_expected or len(process.instances) > (user in process.instances)
        changes = [*own, *(() if is_needed else process.changes)]
        refuse_stale(changes, force, key)
        if is_needed and process.changes:
            names = ", ".join(labels_of(process.changes))
            logger.warning("others of '%s' are patched, for which this stays: %s", key[0], names)
        if isinstance(user, str):
            process.record = None
        else:
            process.instances.discard(user)
        if not is_needed:
            process.changes.clear()
        return put_back(changes)

    def _process(self, key: Key, patcher: Patcher) -> _Process:
        """The state of a pair; model types that share a patcher share it."""
        same = (p for p in self._processes.values() if p.record is not None and p.record.patcher is patcher)
        return self._processes.setdefault(key, next(same, None) or _Process())

    def _unknown(self, model_type: str, patch_type: str) -> PatchgenError:
        entries = self.registered()
        types = [kind for name, kind in entries if name == model_type]
        names = [name for name, kind in entries if kind == patch_type]
        near = closest(patch_type, types) if types else closest(model_type, names)
        hints = [f"Did you mean '{near}'?"] if near else []
        if types:
            hints.append(f"For '{model_type}' there is: {', '.join(types)}.")
        elif names:
            hints.append(f"Model types with a '{patch_type}' patch: {', '.join(names)}.")
        else:
            hints.append(f"Patch types: {', '.join(sorted({kind for _, kind in entries})) or 'none'}.")
        hints.append("A patcher exists once the module that registers it has been imported.")
        message = f"there is no '{patch_type}' patch for the model type '{model_type}'"
        return PatchgenError(message, hint=" ".join(hints))


MONKEY_PATCHER = MonkeyPatcher()
"""The patchers of this process."""


def _liger_patchers() -> Mapping[str, Patcher]:
    """Liger's own patchers by model type; none where Liger is not installed, PatchgenError where it is broken."""
    try:
        patchers: Mapping[str, Patcher] = importlib.import_module(_LIGER_MODULE).MODEL_TYPE_TO_APPLY_LIGER_FN
    except (ImportError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "liger_kernel":
            return {}
        hint = "Install a version that fits the installed transformers."
        raise PatchgenError(f"liger-kernel cannot be imported: {error}", hint=hint) from error
    return patchers


def _model_type(model: Any) -> str:
    from torch import nn

    if not isinstance(model, nn.Module):
        hint = "Pass the model, or use apply_monkey_patch with a model type."
        raise PatchgenError(f"an object of type {type(model).__qualname__} is not a model", hint=hint)
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if not isinstance(model_type, str) or not model_type:
        hint = "Patchers are chosen by config.model_type."
        raise PatchgenError(f"the {type(model).__qualname__} has no config with a model_type", hint=hint)
    return model_type


def _not_applied(what: str, patch_type: str, applied: Iterable[str]) -> PatchgenError:
    names = ", ".join(sorted(applied))
    hint = f"Applied: {names}." if names else "None is applied."
    return PatchgenError(f"the '{patch_type}' patch is not applied to {what}", hint=hint)

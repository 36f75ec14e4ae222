"""transformers' auto classes give the registered classes: ``AutoModelForCausalLM.from_pretrained`` and its kin.

What is registered in :mod:`patchgen_core.registry` is entered in transformers' own tables, in this process only, and
:func:`unregister_from_auto` takes it out again. transformers' public ``register`` refuses, or passes over without a
word, what is for a config class of its own, and cannot be undone; so the tables behind it are written, here and
nowhere else, and asked afterwards whether they answer as they should.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from patchgen_core.conversions import share_conversions, unshare_conversions
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.registry import (
    MODEL_CONFIG_REGISTRY,
    MODEL_PROCESSOR_REGISTRY,
    MODELING_REGISTRY,
    this_device_type,
)

_OTHER_TABLES = {
    "tokenization_auto": "TOKENIZER_MAPPING",
    "image_processing_auto": "IMAGE_PROCESSOR_MAPPING",
    "feature_extraction_auto": "FEATURE_EXTRACTOR_MAPPING",
    "video_processing_auto": "VIDEO_PROCESSOR_MAPPING",
    "processing_auto": "PROCESSOR_MAPPING",
}
_NO_SUCH_ARCHITECTURE = (LookupError, ValueError, AttributeError, NotImplementedError)
"""What a registered function may raise for an architecture that it does not have."""
_ABSENT = object()


@dataclass(frozen=True)
class AutoRegistration:
    """A class that an auto class now gives.

    Attributes:
        key: what it gives it for: the name of a config class, a model type, or the name of a processor class.
        new_class: the class; a tuple where transformers has several, of which the config's architecture chooses.
        replaced: the class of an earlier registration that this one replaces; empty when it was transformers'
            own.
    """

    auto_class: str
    key: str
    new_class: type | tuple[type, ...]
    replaced: str = ""


@dataclass(frozen=True)
class _TableEntry:
    """An entry for one of transformers' tables; ``answer`` asks transformers for what it now has for the key.

    ``auto_class`` is empty for an entry that only helps another one.
    """

    auto_class: str
    table: MutableMapping[Any, Any]
    key: Any
    value: Any
    answer: Callable[[], object]


@dataclass(frozen=True)
class _ModelConfigs:
    """A model type's config classes: the registered one, and transformers' own."""

    model_type: str
    own: type | None
    upstream: type | None

    @property
    def configs(self) -> tuple[type, ...]:
        return tuple(config for config in dict.fromkeys((self.own, self.upstream)) if config is not None)


_changes: list[tuple[_TableEntry, object]] = []  # every entry made, with what stood there before
_shared: list[str] = []  # for which transformers converts checkpoints since then


def register_with_auto(model_type: str | None = None, device_type: str | None = None) -> tuple[AutoRegistration, ...]:
    """Let transformers' auto classes give the registered classes, from configs, checkpoints and processor files.

    For each model type: its config class to ``AutoConfig``; and to every ``AutoModel...`` class whose own table has
    an architecture for the model type that the generated module defines, that class, for the registered config class
    and for transformers' own. Architectures that the generated module lacks stay transformers'. A registered config
    class with a name of its own is known to all other tables (tokenizers, image processors) as the one it derives
    from. transformers converts checkpoints for the given classes from then on, as it does for its own. Processors are
    given to ``AutoProcessor`` by the class name in ``processor_config.json``, and for the config classes for which
    transformers has a processor of that name. Nothing is entered unless all can be. A class that replaces one that
    somebody registered before is marked, and a ``UserWarning`` says so.

    Args:
        model_type: one model type and its processors; by default all that is registered.
        device_type: for which device, where GPU and NPU modules are registered apart; by default this machine's.

    Raises:
        PatchgenError: nothing is registered, or not the model type, or not for the device; no config class is
            known for it; a function returns something else than the class it should, or nothing for any auto
            class.
    """
    types = dict.fromkeys((*MODELING_REGISTRY.keys(), *MODEL_CONFIG_REGISTRY.keys()))
    if model_type is not None and model_type not in types:
        hint = did_you_mean(model_type, types) or "Is the package that registers it imported?"
        raise PatchgenError(f"no model type '{model_type}' is registered", hint=hint)
    processors = MODEL_PROCESSOR_REGISTRY.keys()
    if not types and not processors:
        raise PatchgenError("nothing is registered", hint="Import the package that registers the models first.")
    device_type = this_device_type() if device_type is None else device_type
    models = [_model(name) for name in (types if model_type is None else [model_type])]
    entries: list[_TableEntry] = []
    for model in models:
        entries += _config_entries(model)
        if model.model_type in MODELING_REGISTRY:
            entries += _model_entries(model, device_type)
    for name in processors:
        entries += _processor_entries(name, None if model_type is None else models[0])
    done = _enter(entries)
    for one in done:
        for handler_class in one.new_class if isinstance(one.new_class, tuple) else (one.new_class,):
            _shared.extend(share_conversions(handler_class))
        if one.replaced:
            name = _dotted_name(one.new_class)
            message = f"{one.auto_class} gives {name} for '{one.key}' now, instead of {one.replaced}"
            warnings.warn(message, stacklevel=2)
    return done


@contextmanager
def registered_with_auto(model_type: str, device_type: str | None = None) -> Iterator[tuple[AutoRegistration, ...]]:
    """:func:`register_with_auto` for as long as the context lasts; what was registered before stays."""
    entries, shared = len(_changes), len(_shared)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            done = register_with_auto(model_type, device_type)
        yield done
    finally:
        unshare_conversions(_shared[shared:])
        del _shared[shared:]
        _undo(entries)


def given_classes(model_type: str) -> Iterator[tuple[str, type]]:
    """What each auto class now gives for a model type: the name of the auto class, and a class that it gives."""
    model = _model(model_type)
    for auto in _auto_model_classes():
        for config in model.configs:
            given = auto._model_mapping.get(config, None)
            for model_class in given if isinstance(given, tuple) else (given,):
                if model_class is not None:
                    yield auto.__name__, model_class


def unregister_from_auto() -> tuple[AutoRegistration, ...]:
    """Undo every :func:`register_with_auto`, latest first: the auto classes give what they gave before.

    What somebody else has registered since then in the same place stays, and a ``UserWarning`` names it.
    """
    unshare_conversions(_shared)
    _shared.clear()
    return _undo(0)


# --- transformers' tables --------------------------------------------------------------------------


def _module(name: str) -> Any:
    return importlib.import_module(f"transformers.models.auto.{name}")


def _auto_model_classes() -> list[Any]:
    base: Any = _module("auto_factory")._BaseAutoModelClass
    classes: list[Any] = [value for value in vars(_module("modeling_auto")).values() if isinstance(value, type)]
    return [auto for auto in classes if issubclass(auto, base) and auto._model_mapping is not None]


def _config_table() -> Any:
    return _module("configuration_auto").CONFIG_MAPPING


def _tables() -> list[Any]:
    """The tables from config classes to models, tokenizers and processors."""
    models = [auto._model_mapping for auto in _auto_model_classes()]
    return models + [getattr(_module(module), name) for module, name in _OTHER_TABLES.items()]


def _enter(entries: Iterable[_TableEntry]) -> tuple[AutoRegistration, ...]:
    """Make entries, all or none."""
    start, done, entries = len(_changes), [], list(entries)
    for entry in entries:
        before = entry.table.get(entry.key, _ABSENT)
        same = before == entry.value
        if not same:
            entry.table[entry.key] = entry.value
            _changes.append((entry, before))
        replaced = "" if same or before is _ABSENT else _dotted_name(before)
        if entry.auto_class:
            done.append(AutoRegistration(entry.auto_class, _dotted_name(entry.key), entry.value, replaced))
    for entry in entries:
        if entry.answer() != entry.value:
            _undo(start)
            message = f"transformers {_version()} gives {_dotted_name(entry.answer())} for '{_dotted_name(entry.key)}'"
            raise PatchgenError(f"{message}, not {_dotted_name(entry.value)} that is registered")
    return tuple(done)


def _undo(start: int) -> tuple[AutoRegistration, ...]:
    undone = []
    while len(_changes) > start:
        entry, before = _changes.pop()
        current = entry.table.get(entry.key, _ABSENT)
        if current != entry.value:
            message = (
                f"{_dotted_name(current)} was registered for '{_dotted_name(entry.key)}' by somebody else, and stays"
            )
            warnings.warn(message, stacklevel=3)
        elif before is _ABSENT:
            del entry.table[entry.key]
        else:
            entry.table[entry.key] = before
        if entry.auto_class and current == entry.value:
            undone.append(AutoRegistration(entry.auto_class, _dotted_name(entry.key), entry.value))
    return tuple(undone)


def _dotted_name(value: object) -> str:
    """A class, several, or a key, as a message says it."""
    if isinstance(value, tuple):
        return " and ".join(map(_dotted_name, value))
    return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else str(value)


def _version() -> str:
    import transformers

    return transformers.__version__


# --- configs ---------------------------------------------------------------------------------------


def _model(model_type: str) -> _ModelConfigs:
    table, own = _config_table(), None
    if model_type in MODEL_CONFIG_REGISTRY:
        own = MODEL_CONFIG_REGISTRY.get(model_type)()
        _check_config(model_type, own)
    upstream = type(table)(table._mapping)[model_type] if model_type in table._mapping else None
    model = _ModelConfigs(model_type, own or table._extra_content.get(model_type), upstream)
    if not model.configs:
        hint = did_you_mean(model_type, table._mapping) or "Register one: @MODEL_CONFIG_REGISTRY.register(...)."
        raise PatchgenError(f"no config class is known for the model type '{model_type}'", hint=hint)
    return model


def _check_config(model_type: str, config: object) -> None:
    from transformers import PreTrainedConfig

    who = f"the function that MODEL_CONFIG_REGISTRY has for '{model_type}' gives"
    if not isinstance(config, type) or not issubclass(config, PreTrainedConfig):
        raise PatchgenError(f"{who} {config!r}, which is not a class of configs")
    if config.model_type != model_type:
        raise PatchgenError(f"{who} {config.__name__}, whose model_type is '{config.model_type}'")


def _config_entries(model: _ModelConfigs) -> Iterator[_TableEntry]:
    own, table = model.own, _config_table()
    if own is None or own is model.upstream:
        return
    yield _TableEntry("AutoConfig", table._extra_content, model.model_type, own, lambda: table[model.model_type])
    model_type = next((base.model_type for base in _upstream_bases(own)), None)
    for names in (other._reverse_config_mapping for other in _tables()):
        if model_type is not None and own.__name__ not in names:
            yield _TableEntry("", names, own.__name__, model_type, lambda: model_type)


def _upstream_bases(config: type) -> Iterator[Any]:
    """The config classes of transformers that a config class is or derives from, nearest first."""
    names = _config_table()._mapping
    for base in config.__mro__:
        upstream_config = names.get(base.__dict__.get("model_type"))
        if upstream_config == base.__name__ and base.__module__.startswith("transformers."):
            yield base


# --- models ----------------------------------------------------------------------------------------


def _model_entries(model: _ModelConfigs, device_type: str) -> list[_TableEntry]:
    function = MODELING_REGISTRY.get(model.model_type, device_type)
    model_types = dict.fromkeys(base.model_type for config in model.configs for base in _upstream_bases(config))
    entries: list[_TableEntry] = []
    refused: Exception | None = None
    for auto in _auto_model_classes():
        table = auto._model_mapping
        names = next((table._model_mapping[name] for name in model_types if name in table._model_mapping), None)
        try:
            result = _generated(function, names) if names else None
        except _NO_SUCH_ARCHITECTURE as error:
            refused = error
            continue
        for config in model.configs if result is not None else ():
            if _takes(result, config, model):
                entries.append(_model_entry(auto, config, result))
    if not entries:
        message = f"the function that MODELING_REGISTRY has for '{model.model_type}' gives no class for any auto class"
        hint = f"It raises {type(refused).__name__}: {refused}" if refused is not None else ""
        raise PatchgenError(message, hint=hint) from refused
    return entries


def _model_entry(auto: Any, config: type, model_class: object) -> _TableEntry:
    table = auto._model_mapping
    return _TableEntry(auto.__name__, table._extra_content, config, model_class, lambda: table[config])


def _generated(function: Callable[..., Any], names: str | tuple[str, ...]) -> type | tuple[type, ...] | None:
    """The classes of these names, where at least one is the project's: for several, transformers' own for the rest."""
    if isinstance(names, str):
        return _class(function, names)
    import transformers

    classes = [_class(function, name) for name in names]
    rest = (cls or getattr(transformers, name) for cls, name in zip(classes, names))
    return tuple(rest) if any(classes) else None


def _class(function: Callable[..., Any], architecture: str) -> type | None:
    """The class of a name: what the function gives, or what stands beside that in its module."""
    model_class = function(architecture)
    if not isinstance(model_class, type) or model_class.__name__ == architecture:
        return model_class if isinstance(model_class, type) else None
    beside = vars(sys.modules[model_class.__module__]).get(architecture)
    return beside if isinstance(beside, type) and beside.__module__ == model_class.__module__ else None


def _takes(classes: type | tuple[type, ...] | None, config: type, model: _ModelConfigs) -> bool:
    """Whether models are made for a config class: it is theirs or derives from it, or transformers pairs them."""
    for cls in classes if isinstance(classes, tuple) else (classes,):
        made_for = getattr(cls, "config_class", None)
        upstream = made_for is None or made_for.__module__.startswith("transformers.")
        if upstream and model.upstream is not None and issubclass(config, model.upstream):
            continue
        if made_for is None or issubclass(config, made_for):
            continue
        if config is model.own:
            both = f"{_dotted_name(cls)} is made for {_dotted_name(made_for)}"
            message = f"{both}, which the config class of '{model.model_type}'"
            raise PatchgenError(f"{message} does not derive from: {_dotted_name(config)}")
        return False
    return True


# --- processors ------------------------------------------------------------------------------------


def _processor_entries(name: str, only_for: _ModelConfigs | None) -> list[_TableEntry]:
    """The entries for a registered processor; none if it is not one of the model that is asked for."""
    auto = _module("processing_auto")
    table, names = auto.PROCESSOR_MAPPING, auto.PROCESSOR_MAPPING_NAMES
    types = [model_type for model_type in names if _before(names, model_type) == name]
    if only_for is not None and only_for.model_type not in types:
        return []
    processor = MODEL_PROCESSOR_REGISTRY.get(name)()
    _check_processor(name, processor)
    # transformers looks for the name among its own first: where it stands, nothing is to be found.
    entries = [_TableEntry("", names, model_type, (), lambda: ()) for model_type in types]
    by_name = partial(auto.processor_class_from_name, name)
    entries.append(_TableEntry("AutoProcessor", table._extra_content, name, processor, by_name))
    for config in (config for model_type in types for config in _model(model_type).configs):
        entries.append(
            _TableEntry("AutoProcessor", table._extra_content, config, processor, partial(table.get, config, None))
        )
    return entries


def _before(table: MutableMapping[Any, Any], key: object) -> object:
    """What a table had for a key before anything was registered here."""
    changes = (before for entry, before in _changes if entry.table is table and entry.key == key)
    return next(changes, table.get(key))


def _check_processor(name: str, processor: object) -> None:
    from transformers import ProcessorMixin

    who = f"the function that MODEL_PROCESSOR_REGISTRY has for '{name}' gives"
    if not isinstance(processor, type) or not issubclass(processor, ProcessorMixin):
        raise PatchgenError(f"{who} {processor!r}, which is not a class of processors (ProcessorMixin)")
    if processor.__name__ != name:
        raise PatchgenError(f"{who} {_dotted_name(processor)}: AutoProcessor finds it only if '{name}' is its name")

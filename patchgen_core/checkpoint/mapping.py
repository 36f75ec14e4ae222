"""What transformers' own conversion mapping says of a model: how its experts are stored, and under which names.

transformers converts the hub's checkpoints while it loads them (``transformers/conversion_mapping.py``), though only
for its own classes: a generated class is custom code to it, and gets no conversion.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchgen_core.checkpoint.protocol import Layout
from patchgen_core.errors import PatchgenError, did_you_mean

if TYPE_CHECKING:
    from torch import nn

_PER_EXPERT_SOURCE = re.compile(r"experts\.\*\.(\w+)\.weight\$?$")
_CLASS_SUFFIXES = ("Model", "ForCausalLM", "ForConditionalGeneration")
_EXPERT_COUNT = re.compile(r"(n_routed|num|num_local|moe_num|n)_experts")


@dataclass(frozen=True)
class ExpertConversion:
    """How the experts of a model are stored on the hub; ``layout`` is None when it is none of those that have a name.

    ``recipes`` tell for PER_EXPERT which projections of an expert make up a fused tensor, in their order:
    ``{"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}``. With ``unsupported``, operations of
    transformers that no converter here does, no converter can be made.
    """

    layout: Layout | None
    recipes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()


def conversion_of_type(model_type: str) -> ExpertConversion:
    """How the hub stores the experts of models of ``model_type``; PatchgenError when transformers knows no such type.

    A model that is made of others (text and vision) has the conversion of its parts, and a part (a text model on its
    own) that of the whole, because that is what is on the hub.
    """
    family = _family(model_type)
    for keys in family:
        conversion = _classify(model_type, keys)
        if conversion is not None:
            return conversion
    return ExpertConversion(Layout.DIRECT if _counts_experts(model_type) else Layout.NONE)


def conversion_of_model(model: nn.Module, alone: bool = False) -> ExpertConversion:
    """How the hub stores the experts of ``model``, which may be a generated class or only a part of a model.

    ``alone`` asks what transformers converts when it loads this very model; otherwise a part has the conversion of
    the whole, which is what is on the hub. Errors are those of :func:`conversion_of_type`.
    """
    if not any(".experts." in f".{name}" for name, _ in model.named_parameters()):
        return ExpertConversion(Layout.NONE)
    keys = [key for _, module in _parts(model) for key in _identifiers(module)]
    model_type = model_type_of(model)
    conversion = _classify(model_type or class_name(model), keys) if keys else None
    if conversion is None and model_type is not None and is_known(model_type) and not alone:
        conversion = conversion_of_type(model_type)
    if conversion is None or conversion.layout is Layout.NONE:
        return ExpertConversion(Layout.DIRECT)
    return conversion


def model_type_of(model: nn.Module) -> str | None:
    """The model type in a model's configuration, if it has both."""
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    return model_type if isinstance(model_type, str) and model_type else None


def is_known(model_type: str) -> bool:
    """Whether transformers has models of this type, or a conversion for it."""
    return model_type in _known_types() or _transforms(model_type) is not None


@dataclass(frozen=True)
class _Renaming:
    """One renaming of transformers, for the keys under a part of the model."""

    transform: Any
    scope: str | None
    base: str

    def __call__(self, name: str) -> str:
        prefix = self._prefix(name)
        if prefix is None:
            return name
        renamed: str = self.transform.rename_source_key(name[len(prefix) :])[0]
        return prefix + renamed

    def _prefix(self, name: str) -> str | None:
        if self.scope is None:
            return ""
        scope = f"{self.scope}." if self.scope else ""
        base = f"{self.base}." if self.base else ""
        return next((prefix for prefix in (base + scope, scope) if name.startswith(prefix)), None)


@dataclass(frozen=True)
class NameMap:
    """The names of the hub and those of a model, as transformers maps them. Empty for what it does not rename."""

    _load: tuple[_Renaming, ...] = ()
    _save: tuple[_Renaming, ...] = ()
    _converting: tuple[_Renaming, ...] = ()

    def is_converted(self, name: str) -> bool:
        """Whether transformers makes something else of the tensor that the hub calls ``name``."""
        renamed = self.to_model(name)
        return any(one(renamed) != renamed for one in self._converting)

    def to_model(self, name: str) -> str:
        """What the model calls the tensor that the hub calls ``name``, before its base prefix is looked at."""
        for renaming in self._load:
            name = renaming(name)
        return name

    def to_hub(self, name: str) -> str:
        """What the hub calls the tensor that the model calls ``name``."""
        for renaming in self._save:
            name = renaming(name)
        return name


def name_map(model: nn.Module) -> NameMap:
    """How transformers renames the tensors of ``model``, taken for the upstream class that it was generated from.

    Each part that is a model of its own may have renamings for the keys under it; they are looked up by class name,
    then by model type, and once along a path. Renamings that only add or drop a prefix are for loading: whether a
    checkpoint has the prefix cannot be told from the model.
    """
    base = getattr(model, "base_model_prefix", "")
    renamings: list[_Renaming] = []
    claimed: dict[str, list[str]] = {}
    for path, module in _parts(model):
        key = _unclaimed(module, path, claimed)
        if key is None:
            continue
        claimed.setdefault(class_name(module), []).append(path)
        claimed.setdefault(key, []).append(path)
        scope = path.removeprefix(base).removeprefix(".") if path else None
        renamings += [_Renaming(one, scope, base) for one in _transforms(key) or ()]
    converting = tuple(one for one in renamings if hasattr(one.transform, "operations"))
    renamings = [one for one in renamings if one not in converting]
    lasting = [one for one in reversed(renamings) if type(one.transform).__name__ != "PrefixChange"]
    saving = tuple(_Renaming(one.transform.reverse_transform(), one.scope, one.base) for one in lasting)
    return NameMap(tuple(renamings), saving, converting)


def _unclaimed(module: nn.Module, path: str, claimed: Mapping[str, list[str]]) -> str | None:
    """The key under which transformers converts this part, unless the part around it was converted under it."""
    for key in _identifiers(module):
        if any(above == "" or path.startswith(f"{above}.") for above in claimed.get(key, ())):
            return None
        if _transforms(key) is not None:
            return key
    return None


def _parts(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules of ``model`` that are models of transformers, itself first, with their paths."""
    from transformers import PreTrainedModel

    for path, module in model.named_modules():
        if isinstance(module, PreTrainedModel):
            yield path, module


def class_name(module: object) -> str:
    """What a module's class is called; where ``fully_shard`` made one of it, the class that it was."""
    bases = type(module).__bases__
    return bases[-1].__name__ if any(base.__name__ == "FSDPModule" for base in bases) else type(module).__name__


def _identifiers(module: nn.Module) -> list[str]:
    model_type = model_type_of(module)
    return [class_name(module)] + ([model_type] if model_type else [])


def _transforms(key: str) -> list[Any] | None:
    """The transforms that transformers has under a model type or a class name; None when it has none."""
    try:
        from transformers.conversion_mapping import get_checkpoint_conversion_mapping
    except ImportError:
        import transformers

        raise PatchgenError(
            f"transformers {transformers.__version__} has no conversion mapping",
            hint="Checkpoint layouts are read from it: install transformers 5.2 or newer.",
        ) from None
    look_up: Callable[[str], list[Any] | None] = get_checkpoint_conversion_mapping
    return look_up(key)


def _known_types() -> Mapping[str, Any]:
    from transformers.models.auto import configuration_auto

    names: Mapping[str, Any] = vars(configuration_auto)["CONFIG_MAPPING_NAMES"]
    return names


def _config_class(model_type: str) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type] if model_type in _known_types() else None


def _family(model_type: str) -> list[list[str]]:
    """The keys of a type and its parts, then those of each whole that it is a part of, nearest first."""
    if not is_known(model_type):
        conversion_types = _known_types()
        raise PatchgenError(
            f"transformers knows no model type '{model_type}'",
            hint=did_you_mean(model_type, conversion_types) or "It is the 'model_type' of the model's config.json.",
        )
    family = [_type_keys(model_type)]
    whole = model_type if _counts_experts(model_type) else ""
    while "_" in whole:
        whole = whole.rpartition("_")[0]
        if whole in _known_types() and model_type in _part_types(_config_class(whole)):
            family.append(_type_keys(whole))
    return family


def _type_keys(model_type: str) -> list[str]:
    """The keys of a type and its parts: the types, and what their classes are called."""
    types = [model_type, *_part_types(_config_class(model_type))]
    stems = [getattr(_config_class(one), "__name__", "").removesuffix("Config") for one in types]
    return types + [stem + suffix for stem in stems if stem for suffix in _CLASS_SUFFIXES]


def _part_types(config_class: Any) -> list[str]:
    """The model types of a configuration's parts, at any depth."""
    types = []
    for part in getattr(config_class, "sub_configs", {}).values():
        types += [part.model_type] if getattr(part, "model_type", "") else []
        types += _part_types(part)
    return types


def _classify(owner: str, keys: Iterable[str]) -> ExpertConversion | None:
    """What the expert conversions under ``keys`` come to; None when there are none."""
    recipes: dict[str, tuple[str, ...]] = {}
    layouts: set[Layout] = set()
    unsupported: list[str] = []
    for transform in (one for key in dict.fromkeys(keys) for one in _transforms(key) or ()):
        operations = [type(operation).__name__ for operation in getattr(transform, "operations", ())]
        names = [pattern.replace("\\", "") for pattern in [*transform.source_patterns, *transform.target_patterns]]
        moving = [operation for operation in operations if operation != "Force16BytesAlignment"]
        if not moving or not any("experts." in name for name in names):
            continue
        sources = [_PER_EXPERT_SOURCE.search(name) for name in names[: len(transform.source_patterns)]]
        if all(sources):
            layouts.add(Layout.PER_EXPERT)
            if moving in (["MergeModulelist"], ["MergeModulelist", "Concatenate"]):
                recipes[names[-1].rpartition(".")[2]] = tuple(match[1] for match in sources if match)
            else:
                unsupported += moving
        elif moving == ["Transpose"]:
            layouts.add(Layout.TRANSPOSED)
            unsupported += ["a new name"] if names[0].rpartition(".")[2] != names[-1].rpartition(".")[2] else []
        else:
            unsupported += operations
            return ExpertConversion(None, {}, tuple(unsupported))
    if len(layouts) > 1:
        origins = " and others from ".join(sorted(layouts))
        raise PatchgenError(f"transformers converts some experts of '{owner}' from {origins}")
    return ExpertConversion(layouts.pop(), recipes, tuple(unsupported)) if layouts else None


def _counts_experts(model_type: str) -> bool:
    """Whether the configuration of a type, or of one of its parts, has a number of experts."""
    return any(
        _EXPERT_COUNT.fullmatch(name)
        for one in (model_type, *_part_types(_config_class(model_type)))
        for name in _config_fields(_config_class(one))
    )


def _config_fields(config_class: Any) -> set[str]:
    if config_class is None:
        return set()
    declared = {name for base in config_class.__mro__ for name in vars(base).get("__annotations__", ())}
    return declared | set(inspect.signature(config_class).parameters) | set(config_class.attribute_map)

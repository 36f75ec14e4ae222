"""The tree of configurations that a model's configuration is, with the defaults of each."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError
from patchgen_core.models import toy_classes as classes
from patchgen_core.models import toy_sizes as sizes

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass(frozen=True)
class ConfigPart:
    """One configuration of a model's tree of them.

    Attributes:
        name: dotted path from the root; empty for the root.
        fields: what may be given to its class, parts apart: each name with its value in ``default``.
        parts: the configurations below, by field.
        others: which fields differ in which layers (``per_layer_config``).
        stated: what the configuration above says of this one, against its class's own defaults.
    """

    name: str
    default: PreTrainedConfig
    fields: Mapping[str, Any]
    palette: sizes.Palette
    parts: Mapping[str, ConfigPart]
    others: Mapping[int, tuple[str, ...]]
    stated: Mapping[str, Any]

    @property
    def config_class(self) -> type[PreTrainedConfig]:
        """The class of this configuration."""
        return type(self.default)

    @property
    def own(self) -> Mapping[str, Any]:
        """What the tables say of this class alone."""
        return classes.OF_CLASS.get(self.config_class.__name__, {})

    def walk(self) -> Iterator[ConfigPart]:
        """This part and all below, depth first."""
        yield self
        for part in self.parts.values():
            yield from part.walk()


def make_default(config_class: type[PreTrainedConfig]) -> PreTrainedConfig:
    """An instance with the class's defaults, and with the parts that it leaves out unless they are given."""
    default = construct(config_class, {})
    missing = (name for name in config_class.sub_configs if getattr(default, name, None) is None)
    values: dict[str, dict[str, Any]] = {
        name: {} for name in missing if getattr(config_class.sub_configs[name], "model_type", "")
    }
    return construct(config_class, values) if values else default


def construct(config_class: type[PreTrainedConfig], values: Mapping[str, Any]) -> PreTrainedConfig:
    """``config_class(**values)``; PatchgenError when the class refuses them.

    Some classes, such as those of older releases, take their parts as mappings alone.
    """
    from transformers import PreTrainedConfig

    parts = {name: value for name, value in values.items() if isinstance(value, PreTrainedConfig)}
    try:
        config = config_class(**values)
        if all(getattr(config, name, None) is not None for name in parts):
            return config
    except Exception as error:  # whatever a configuration class says no with
        if not parts:
            raise _refused(config_class, error) from error
    try:
        return config_class(**{**values, **{name: part.to_dict() for name, part in parts.items()}})
    except Exception as error:
        raise _refused(config_class, error) from error


def _refused(config_class: type, error: Exception) -> PatchgenError:
    reason = " ".join(str(error).split())
    return PatchgenError(
        f"no toy config can be made from {config_class.__name__}: {reason}",
        hint="Write one: toy_config=... in the patch config, or <toy_root>/<model_type>_toy/config.json.",
    )


def declared_fields(config_class: type[PreTrainedConfig]) -> tuple[str, ...]:
    """The names that a configuration class takes, without those that every configuration takes."""
    from transformers import PreTrainedConfig

    common = set(_parameter_names(PreTrainedConfig))
    return tuple(name for name in _parameter_names(config_class) if name not in common or name in vars(config_class))


def _parameter_names(config_class: type) -> list[str]:
    if dataclasses.is_dataclass(config_class):
        return [field.name for field in dataclasses.fields(config_class) if field.init]
    return [name for name in inspect.signature(config_class).parameters if name != "kwargs"]


def make_tree(default: PreTrainedConfig) -> ConfigPart:
    """The configuration and all below it, each with a palette."""
    return _part(default, "", "text", sizes.PALETTES["text"][0], dict.fromkeys(sizes.PALETTES, 0))


def _part(
    default: PreTrainedConfig, name: str, above: str, inherited: sizes.Palette, seen: dict[str, int]
) -> ConfigPart:
    from transformers import PreTrainedConfig

    fields = _values(default)
    below = {field: value for field, value in fields.items() if isinstance(value, PreTrainedConfig)}
    plain = {field: value for field, value in fields.items() if field not in below}
    kind = _kind(name, above)
    palette = inherited
    if any(field in fields for field in sizes.LAYER_COUNTS) or (kind != "text" and not below):
        palettes = sizes.PALETTES[kind]
        palette = classes.PALETTES.get(type(default).__name__, palettes[seen[kind] % len(palettes)])
        seen[kind] += 1
    return ConfigPart(
        name,
        default,
        plain,
        palette,
        {field: _part(value, f"{name}.{field}".lstrip("."), kind, palette, seen) for field, value in below.items()},
        {int(index): tuple(own) for index, own in (default.to_dict().get("per_layer_config") or {}).items()},
        _stated(type(default), plain) if name else {},
    )


def _values(default: PreTrainedConfig) -> dict[str, Any]:
    """The fields of a configuration; read past its guard against fields that differ from layer to layer."""
    values, mapped = vars(default), default.attribute_map
    fields = {name: values.get(mapped.get(name, name)) for name in declared_fields(type(default))}
    return {**fields, **classes.UNDECLARED.get(type(default).__name__, {})}


def _kind(name: str, above: str) -> str:
    own = name.rpartition(".")[2]
    return next((kind for kind, words in sizes.KINDS.items() if any(word in own for word in words)), above)


def _stated(config_class: type[PreTrainedConfig], fields: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain = _values(construct(config_class, {}))
    except PatchgenError:  # only what stands above knows how to make one
        return dict(fields)
    return {name: value for name, value in fields.items() if plain.get(name) != value}

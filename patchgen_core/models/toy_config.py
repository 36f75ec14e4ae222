"""Model configurations small enough for a CPU: given by the project, or made from the configuration class."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import Location, PatchgenError, did_you_mean
from patchgen_core.models.config_tree import declared_fields, make_default
from patchgen_core.models.shrinking import shrink

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_SLIP = 0.9


def make_toy_config(
    config_class: type[PreTrainedConfig], overrides: Mapping[str, Any] | None = None
) -> PreTrainedConfig:
    """A toy configuration of a class: its defaults with small sizes, and one layer of every kind.

    The widths of one part differ from each other and none is twice another; heads share keys and values where the
    class lets them; there are more experts than a token is sent to, and dense layers beside sparse ones; a sliding
    window is shorter than a toy sequence; special tokens differ and lie below
    :data:`patchgen_core.models.toy_sizes.FIRST_ORDINARY_TOKEN`; nothing is dropped at random. Factors, epsilons, caps
    and rotary bases have values that no class has by default, so that one that is dropped or repeated as a number
    shows (:data:`patchgen_core.models.toy_sizes.TELLING`). What is off by default, such as biases, stays off, but for
    the few things in :data:`patchgen_core.models.toy_sizes.SWITCHED_ON`. The same class gives the same configuration
    everywhere.

    ``overrides`` win over the chosen values, by field; for a part (``text_config``) a mapping. With a number of
    layers given, the fields that describe layers follow it. PatchgenError when the class refuses what was chosen, or
    an override names no field.
    """
    return shrink(make_default(config_class), overrides or {})


def toy_config_for(model_type: str, overrides: Mapping[str, Any] | None = None) -> PreTrainedConfig:
    """:func:`make_toy_config` for a model type such as ``qwen3_moe``; an unknown one is a PatchgenError."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        hint = did_you_mean(model_type, CONFIG_MAPPING) or "transformers.CONFIG_MAPPING lists the model types."
        raise PatchgenError(f"transformers has no model type '{model_type}'", hint=hint)
    return make_toy_config(CONFIG_MAPPING[model_type], overrides)


def load_toy_config(
    config_class: type[PreTrainedConfig],
    source: Mapping[str, Any] | str | Path | None,
    toy_root: Path | None,
    model_type: str,
) -> PreTrainedConfig:
    """The toy configuration of a patch config: its own, else the project's, else one that is made.

    Args:
        source: what the patch config says: a configuration as a mapping, which names its ``model_type``; a mapping
            of fields that differ from those of the one that is made; or the absolute path of a JSON file or of a
            folder with a ``config.json``. None when it says nothing. Relative to what a path may be written is
            for the caller to know.
        toy_root: the project's folder of toy configurations, looked in for ``<model_type>_toy/config.json``.

    Raises:
        PatchgenError: a path is relative, a file is missing or holds no configuration, it is another model's, a
            field looks misspelt, or the class refuses what it says.
    """
    if isinstance(source, Mapping) and "model_type" not in source:
        return make_toy_config(config_class, source)
    if isinstance(source, Mapping):
        return _from_dict(config_class, source, None)
    if source is not None:
        return _from_file(config_class, Path(source))
    folder = toy_root / f"{model_type}_toy" if toy_root is not None else None
    if folder is not None and folder.exists():
        return _from_file(config_class, folder.absolute())
    return make_toy_config(config_class)


def part_of_toy_config(
    part: type[PreTrainedConfig], whole: type[PreTrainedConfig], source: Mapping[str, Any] | str | Path | None
) -> Mapping[str, Any] | None:
    """What a patch config's own toy configuration (``source``, for ``whole``) says of a part, or None.

    For a head that is made of that part alone, such as a text model. :func:`load_toy_config` takes the result.
    """
    name = next((name for name, sub_config in whole.sub_configs.items() if sub_config is part), None)
    if name is None or source is None:
        return None
    if isinstance(source, Mapping):
        return source.get(name)
    values: Mapping[str, Any] = getattr(_from_file(whole, Path(source)), name).to_dict()
    return values


def describe_toy_config(config: PreTrainedConfig) -> str:
    """The configuration as JSON; the class's ``from_dict`` makes the same configuration of it."""
    return config.to_json_string(use_diff=True).rstrip("\n")


def _from_file(config_class: type[PreTrainedConfig], path: Path) -> PreTrainedConfig:
    if not path.is_absolute():
        raise PatchgenError(
            f"the path of a toy config is not absolute: {path}", hint="Join it with the folder that it is relative to."
        )
    file = path / "config.json" if path.is_dir() else path
    location = Location(str(file))
    try:
        values = json.loads(file.read_text(encoding="utf-8"), object_hook=_special_float)
    except OSError as error:
        raise PatchgenError(f"the toy config cannot be read: {error.strerror}", location) from None
    except ValueError as error:
        raise PatchgenError(f"the toy config is not JSON: {error}", location) from None
    if not isinstance(values, dict):
        raise PatchgenError("the toy config is not a JSON object", location)
    return _from_dict(config_class, values, location)


def _special_float(value: dict[str, Any]) -> Any:
    """What transformers writes for a float that JSON has no word for: ``{"__float__": "Infinity"}``."""
    return float(value["__float__"]) if set(value) == {"__float__"} else value


def _from_dict(
    config_class: type[PreTrainedConfig], values: Mapping[str, Any], location: Location | None
) -> PreTrainedConfig:
    named = values.get("model_type", config_class.model_type)
    if named != config_class.model_type:
        raise PatchgenError(
            f"the toy config is of model type '{named}', the model of '{config_class.model_type}'", location
        )
    try:
        config = config_class.from_dict(dict(values))
    except Exception as error:  # whatever a configuration class says no with
        reason = " ".join(str(error).split())
        raise PatchgenError(f"{config_class.__name__} refuses the toy config: {reason}", location) from error
    _refuse_slips(config, values, location)
    return config


def _refuse_slips(config: PreTrainedConfig, values: Mapping[str, Any], location: Location | None) -> None:
    """Refuse names that are nearly a field's: a class takes any name, and says nothing of those it never reads."""
    from transformers import PreTrainedConfig

    fields = declared_fields(type(config))
    for name, value in values.items():
        part = getattr(config, name, None) if name in fields else None
        if isinstance(value, Mapping) and isinstance(part, PreTrainedConfig):
            _refuse_slips(part, value, location)
        elif name not in fields and name not in config.attribute_map:
            near = difflib.get_close_matches(name, set(fields) - set(values), n=1, cutoff=_SLIP)
            if near:
                message = f"the toy config's '{name}' is not a field of {type(config).__name__}"
                raise PatchgenError(message, location, hint=f"Did you mean '{near[0]}'?")

"""A configuration's defaults, shrunk: the same model with a few small layers.

What names mean and which sizes they get stands in :mod:`patchgen_core.models.toy_sizes`; here are the rules
that keep the numbers of one configuration consistent with each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.models import toy_classes as classes
from patchgen_core.models import toy_sizes as sizes
from patchgen_core.models.config_tree import ConfigPart, construct, make_tree
from patchgen_core.models.toy_layers import layer_fields

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_TOKEN = re.compile(r"^(?P<stem>\w+?)(?:_token_(?:ids?|index)|_id)$")
_EPSILON = re.compile(r"(^|_)eps(ilon)?(_|$)")
NOISE = re.compile(r"dropout|drop_path|layerdrop|pdrop|jitter|mask_time_prob|mask_feature_prob")


@dataclass(frozen=True)
class Shared:
    """What the parts of one toy model agree on.

    ``language_width`` is the hidden size of the first text part; ``token_ids`` go by the stems of their names.
    """

    language_width: int
    token_ids: Mapping[str, int]


@dataclass(frozen=True)
class RuleInput:
    """What a rule goes by to choose values for the fields of one configuration.

    ``fixed`` is what the tables say of the class, and what the caller wants; ``values`` what is chosen so far,
    ``fixed`` included.
    """

    part: ConfigPart
    shared: Shared
    fixed: Mapping[str, Any]
    values: Mapping[str, Any]


def shrink(default: PreTrainedConfig, overrides: Mapping[str, Any]) -> PreTrainedConfig:
    """A toy configuration of the class of ``default``; for a part, ``overrides`` hold a mapping of its fields.

    PatchgenError when the class refuses the result, or an override names no field.
    """
    root = make_tree(default)
    parts = list(root.walk())
    layered = (part for part in parts if any(name in part.fields for name in sizes.LAYER_COUNTS))
    text = next((part for part in layered if part.palette is sizes.TEXT[0]), root)
    return _build(root, Shared(_language_width(text, overrides), _token_ids(parts)), overrides)


def _language_width(text: ConfigPart, overrides: Mapping[str, Any]) -> int:
    own: Any = overrides
    for step in filter(None, text.name.split(".")):
        own = own.get(step, {})
    widths = [own[name] for name, size in sizes.SIZES.items() if size == "width" and name in own]
    return int(widths[0]) if widths else text.palette.width


def _build(part: ConfigPart, shared: Shared, overrides: Mapping[str, Any]) -> PreTrainedConfig:
    own = _own_overrides(part, overrides)
    fixed = {name: _value(size, part, shared) for name, size in part.own.items() if name not in part.parts} | own
    values = dict(fixed)
    for rule in _RULES:
        values |= rule(RuleInput(part, shared, fixed, values)) | fixed
    for name, below in part.parts.items():
        override = overrides.get(name, {})
        is_part = isinstance(override, Mapping)
        values[name] = _build(below, shared, {**part.own.get(name, {}), **override}) if is_part else override
    return construct(part.config_class, values)


def _own_overrides(part: ConfigPart, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides of this part's own fields, by the names that its class declares."""
    aliases = part.config_class.attribute_map
    declared = aliases | {stored: name for name, stored in aliases.items() if name in part.fields}
    own: dict[str, Any] = {}
    for name, value in overrides.items():
        field_name = name if name in part.fields else declared.get(name, name)
        if field_name not in part.fields and field_name not in part.parts and not hasattr(part.default, field_name):
            hint = did_you_mean(name, {*part.fields, *part.parts, *aliases})
            raise PatchgenError(f"{part.config_class.__name__} has no field '{name}'", hint=hint)
        if name not in part.parts:
            own[field_name] = value
    return own


def _undeclared(inputs: RuleInput) -> dict[str, Any]:
    """Defaults for what a class does not declare, and labels that are no signs."""
    part = inputs.part
    labels = {"num_labels": sizes.NUM_LABELS} if not part.name and "id2label" not in inputs.values else {}
    names = classes.UNDECLARED.get(part.config_class.__name__, {})
    return labels | {name: part.fields[name] for name in names}


def _sizes(inputs: RuleInput) -> dict[str, Any]:
    """Toy values for the fields that the tables know; what is off by default stays off."""
    toys: dict[str, Any] = {}
    for name, value in inputs.part.fields.items():
        size = sizes.RAISED.get(name, sizes.SIZES.get(name))
        is_off = value in (None, False, 0) and not (value is None and name in sizes.GIVEN_IF_NONE)
        if size is None or is_off or (isinstance(value, int) and value < 0):
            continue
        toy = _value(size, inputs.part, inputs.shared)
        if isinstance(toy, list) and not isinstance(value, (list, tuple)):
            continue
        if isinstance(value, (list, tuple)) and isinstance(toy, int):
            toy = [toy] * len(value)
        elif isinstance(value, int) and (isinstance(size, int) or size == "kv_heads") and name not in sizes.RAISED:
            toy = min(toy, value)
        toys[name] = toy
    return toys


def _value(size: Any, part: ConfigPart, shared: Shared) -> Any:
    """What a size of the tables stands for in one part."""
    if size == "language width":
        return shared.language_width
    if size == "vision width":
        return sizes.VISION[0].width
    if size == "width per head":
        return part.palette.width // part.palette.heads
    return getattr(part.palette, size) if isinstance(size, str) and hasattr(part.palette, size) else size


def _without_noise(inputs: RuleInput) -> dict[str, Any]:
    """Zero for everything that makes two runs differ."""
    noisy = (name for name, value in inputs.part.fields.items() if isinstance(value, float) and value != 0.0)
    return {name: 0.0 for name in noisy if NOISE.search(name)}


def _telling(inputs: RuleInput) -> dict[str, Any]:
    """Values under which a defect shows, for the fields whose defaults hide it."""
    part = inputs.part
    telling = {name: value for name, value in sizes.TELLING.items() if part.fields.get(name)}
    telling |= {name: value for name, value in sizes.SWITCHED_ON.items() if name in part.fields}
    epsilons = (name for name, value in part.fields.items() if _EPSILON.search(name) and isinstance(value, float))
    telling |= dict(zip((name for name in epsilons if part.fields[name]), cycle(sizes.EPSILONS)))
    return telling


def _token_ids(parts: Sequence[ConfigPart]) -> dict[str, int]:
    """An id for each special token of the model: padding, beginning and end first, the others by name."""
    stems = {stem for part in parts for name, value in part.fields.items() if (stem := token_stem(name, value))}
    first = ["pad", "bos", "eos"]
    return {stem: number for number, stem in enumerate([*first, *sorted(stems - set(first))])}


def token_stem(name: str, value: object) -> str | None:
    """Which special token a field is the id of: ``image`` of ``image_token_id``; None for other fields."""
    match = _TOKEN.match(name)
    if match is None or isinstance(value, (bool, str)) or name in sizes.NO_TOKENS:
        return None
    return match["stem"]


def _tokens(inputs: RuleInput) -> dict[str, Any]:
    """Ids inside the toy vocabulary, each token its own; padding, beginning and end also where they had none."""
    tokens: dict[str, Any] = {}
    for name, value in inputs.part.fields.items():
        stem = token_stem(name, value)
        if stem is None or (value is None and stem not in ("pad", "bos", "eos")):
            continue
        number = inputs.shared.token_ids[stem]
        tokens[name] = [number] if isinstance(value, (list, tuple)) else number
    return tokens


def _latent(inputs: RuleInput) -> dict[str, Any]:
    """Where latent attention makes keys and values: as many heads of them as heads, and what is rotated of each."""
    fields, values = inputs.part.fields, inputs.values
    if fields.get("kv_lora_rank") is None:
        return {}
    heads = {"num_key_value_heads": values["num_attention_heads"]} if fields.get("num_key_value_heads") else {}
    rotated = fields.get("qk_rope_head_dim")
    if rotated is not None and fields.get("head_dim") == rotated:
        heads["head_dim"] = values.get("qk_rope_head_dim", rotated)
    return heads


def _positions(inputs: RuleInput) -> dict[str, Any]:
    """Rotary parameters that go with the toy head size and the toy context, where they need to."""
    part = inputs.part
    rope = part.fields.get("rope_parameters")
    if not rope:
        return {}
    kinds = {kind: value for kind, value in rope.items() if isinstance(value, dict)}
    if not kinds:
        return {"rope_parameters": _rope(part, inputs.values, rope, sizes.ROPE_THETAS[0])}
    thetas = dict(zip(sorted(kinds, reverse=True), sizes.ROPE_THETAS))  # some classes have them in no order
    return {"rope_parameters": {**rope, **{k: _rope(part, inputs.values, v, thetas[k]) for k, v in kinds.items()}}}


def _layers(inputs: RuleInput) -> dict[str, Any]:
    return layer_fields(inputs.part, inputs.values, inputs.fixed)


def _layer_thetas(inputs: RuleInput) -> dict[str, Any]:
    """Bases of rotary embeddings where each layer has its own, zero for none."""
    thetas = inputs.values.get("layer_rope_theta") or ()
    return {"layer_rope_theta": [theta and sizes.ROPE_THETAS[0] for theta in thetas]} if thetas else {}


def _rope(part: ConfigPart, values: Mapping[str, Any], rope: Mapping[str, Any], theta: float) -> dict[str, Any]:
    toy = {**rope, "rope_theta": theta}
    head_dim = _head_dim(part, values)
    if "original_max_position_embeddings" in rope:
        toy["original_max_position_embeddings"] = 32
        toy["factor"] = 4.0
    if (factor := rope.get("partial_rotary_factor", 1.0)) != 1.0:
        factor = _rotary_factor(values, head_dim, factor)
        toy["partial_rotary_factor"] = factor
    ignored = getattr(part.config_class, "ignore_keys_at_rope_validation", None) or ()
    if "mrope_section" in (*ignored, *rope) or part.config_class.__name__ in classes.MULTIMODAL_ROPE:
        half = int(head_dim * factor) // 2
        third = round(half / 3)
        toy["mrope_section"] = [third, third, half - 2 * third]
    return toy


def _rotary_factor(values: Mapping[str, Any], head_dim: int, factor: float) -> float:
    """How much of a toy head is rotated: what latent attention rotates, or two dimensions more than by default."""
    if rotated := values.get("qk_rope_head_dim"):
        return float(rotated / (rotated + values["qk_nope_head_dim"]))
    return (int(head_dim * factor) // 2 + 1) * 2 / head_dim


def _head_dim(part: ConfigPart, values: Mapping[str, Any]) -> int:
    heads = values.get("num_attention_heads") or part.palette.heads
    width = values.get("hidden_size") or part.palette.width
    return int(values.get("head_dim") or width // heads)


_RULES: tuple[Callable[[RuleInput], dict[str, Any]], ...] = (
    _undeclared,  # first: whatever another rule says of these fields counts more
    lambda inputs: dict(inputs.part.stated),  # the configuration above knows its parts better than their classes do
    _sizes,
    _without_noise,
    _tokens,
    _telling,  # after sizes: it says of some fields under which value a defect shows
    _layers,  # after sizes: lists with an entry for each layer keep their toy values, as many as there are layers
    _layer_thetas,  # after layers: of those that are left, each that rotates has a base
    _latent,  # after sizes: heads are put together from their parts
    _positions,  # last: rotary parameters go with the head size and the context that were chosen
)
"""What chooses values for the fields of a configuration, in this order.

Each rule sees what those before it chose, and replaces that where it says otherwise. What the tables say of a class
and what the caller wants stands fast: the rules see it, and none replaces it.
"""

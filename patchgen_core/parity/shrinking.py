"""A configuration class's defaults, shrunk: the same model with a few small layers.

What names mean and which sizes they get stands in :mod:`patchgen_core.parity.toy_sizes`; here are the rules
that keep the numbers of one configuration consistent with each other.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.parity import toy_classes as classes
from patchgen_core.parity import toy_sizes as sizes

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_TOKEN = re.compile(r"^(?P<stem>\w+?)(?:_token_(?:ids?|index)|_id)$")
_DROPOUT = re.compile(r"dropout|drop_path|layerdrop|pdrop|jitter|mask_time_prob|mask_feature_prob")
_MOST_KINDS = 6


@dataclass(frozen=True)
class Part:
    """One configuration of a model's tree of them.

    Attributes:
        name: dotted path from the root; empty for the root.
        default: the configuration as its class makes it.
        fields: what may be given to the class: each name with its value in ``default``.
        palette: the toy sizes of this part.
        parts: the configurations below, by field.
        others: which fields differ in which layers (``per_layer_config``).
        stated: what the configuration above says of it, against its class's own defaults.
    """

    name: str
    default: PreTrainedConfig
    fields: Mapping[str, Any]
    palette: sizes.Palette
    parts: Mapping[str, Part]
    others: Mapping[int, tuple[str, ...]]
    stated: Mapping[str, Any]

    @property
    def config_class(self) -> type[PreTrainedConfig]:
        """The class of this configuration."""
        return type(self.default)

    @property
    def has_layers(self) -> bool:
        """Whether it is a model's, not only of a group of settings."""
        return any(name in self.fields for name in sizes.LAYER_COUNTS)

    def walk(self) -> Iterator[Part]:
        """This part and all below, depth first."""
        yield self
        for part in self.parts.values():
            yield from part.walk()


@dataclass(frozen=True)
class Shared:
    """What the parts of one toy model agree on.

    Attributes:
        language_width: hidden size of the first text part.
        token_ids: the id of each special token, by the stem of its name.
    """

    language_width: int
    token_ids: Mapping[str, int]


def shrink(default: PreTrainedConfig, overrides: Mapping[str, Any]) -> PreTrainedConfig:
    """A toy configuration of the class of ``default``.

    Args:
        default: an instance with the class's defaults.
        overrides: values for fields that win over what would be chosen; a mapping for a part's fields.
    """
    root = _part(default, "", {"text": 0, "vision": 0, "audio": 0}, sizes.TEXT[0])
    parts = list(root.walk())
    text = next((part for part in parts if part.palette is sizes.TEXT[0] and part.has_layers), root)
    shared = Shared(_resolved_width(text, overrides), _token_ids(parts))
    return _build(root, shared, overrides)


def optional_parts(config_class: type[PreTrainedConfig]) -> dict[str, dict[str, Any]]:
    """The parts that a class leaves out unless they are given: an empty mapping for each."""
    default = config_class()
    parts = {name: part for name, part in config_class.sub_configs.items() if getattr(default, name, None) is None}
    return {name: {} for name, part in parts.items() if getattr(part, "model_type", "")}


def declared_fields(config_class: type[PreTrainedConfig]) -> tuple[str, ...]:
    """The names that a configuration class takes, without those every configuration has."""
    from transformers import PreTrainedConfig

    def names(cls: type) -> list[str]:
        if dataclasses.is_dataclass(cls):
            return [field.name for field in dataclasses.fields(cls) if field.init]
        return [name for name in inspect.signature(cls).parameters if name not in ("self", "kwargs")]

    common = set(names(PreTrainedConfig)) - {"vocab_size"}
    return tuple(name for name in names(config_class) if name not in common or name in vars(config_class))


def _part(
    default: PreTrainedConfig, name: str, seen: dict[str, int], above: sizes.Palette, kind: str = "text"
) -> Part:
    from transformers import PreTrainedConfig

    values = vars(default)
    fields = {field: values.get(default.attribute_map.get(field, field)) for field in declared_fields(type(default))}
    fields |= classes.UNDECLARED.get(type(default).__name__, {})
    below = {field: value for field, value in fields.items() if isinstance(value, PreTrainedConfig)}
    palette, kind = above, _kind(name, kind)
    if any(field in fields for field in sizes.LAYER_COUNTS) or (kind != "text" and not below):
        palettes = {"text": sizes.TEXT, "vision": sizes.VISION, "audio": sizes.AUDIO}[kind]
        palette = palettes[seen[kind] % len(palettes)]
        palette = classes.PALETTES.get(type(default).__name__, palette)
        seen[kind] += 1
    parts = {field: _part(value, f"{name}.{field}".lstrip("."), seen, palette, kind) for field, value in below.items()}
    others = default.to_dict().get("per_layer_config") or {}
    plain = {field: value for field, value in fields.items() if field not in below}
    return Part(
        name,
        default,
        plain,
        palette,
        parts,
        {int(index): tuple(own) for index, own in others.items()},
        _stated(type(default), plain) if name else {},
    )


def _stated(config_class: type[PreTrainedConfig], fields: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain = vars(config_class())
    except Exception:  # a class that refuses its own defaults
        return dict(fields)
    names = {name: config_class.attribute_map.get(name, name) for name in fields}
    return {name: value for name, value in fields.items() if plain.get(names[name]) != value}


def _kind(name: str, above: str) -> str:
    own = name.rpartition(".")[2]
    return next((kind for kind, words in sizes.KINDS.items() if any(word in own for word in words)), above)


def _resolved_width(text: Part, overrides: Mapping[str, Any]) -> int:
    own: Any = overrides
    for step in filter(None, text.name.split(".")):
        own = own.get(step, {})
    widths = [own[name] for name, size in sizes.SIZES.items() if size == "width" and name in own]
    return int(widths[0]) if widths else text.palette.width


def _token_ids(parts: Sequence[Part]) -> dict[str, int]:
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


def _build(part: Part, shared: Shared, overrides: Mapping[str, Any]) -> PreTrainedConfig:
    _refuse_unknown(part, overrides)
    own = {name: value for name, value in overrides.items() if name not in part.parts}
    changes = dict(part.stated) | _sizes(part, shared) | _without_noise(part) | _tokens(part, shared)
    changes |= _layers(part, changes, own) | _of_class(part, shared) | own
    changes |= {name: value for name, value in _latent(part, changes).items() if name not in own}
    changes = _positions(part, changes) | changes
    for name in classes.UNDECLARED.get(part.config_class.__name__, {}):
        changes.setdefault(name, part.fields[name])
    for name, below in part.parts.items():
        given = overrides.get(name, {})
        changes[name] = _build(below, shared, given) if isinstance(given, Mapping) else given
    return _construct(part, changes)


def _refuse_unknown(part: Part, overrides: Mapping[str, Any]) -> None:
    known = {*part.fields, *part.parts, *part.config_class.attribute_map}
    for name in overrides:
        if name not in known and not hasattr(part.default, name):
            raise PatchgenError(f"{part.config_class.__name__} has no field '{name}'", hint=did_you_mean(name, known))


def _construct(part: Part, changes: Mapping[str, Any]) -> PreTrainedConfig:
    try:
        return part.config_class(**changes)
    except PatchgenError:
        raise
    except Exception as error:  # whatever a configuration class says no with
        reason = " ".join(str(error).split())
        raise PatchgenError(
            f"no toy config can be made of {part.config_class.__name__}: {type(error).__name__}: {reason}",
            hint="Give one: toy_config=... in the patch config, or <toy_root>/<model_type>_toy/config.json.",
        ) from error


def _sizes(part: Part, shared: Shared) -> dict[str, Any]:
    """Toy values for the fields that the tables know."""
    found: dict[str, Any] = {}
    for name, value in part.fields.items():
        size = sizes.RAISED.get(name, sizes.SIZES.get(name))
        is_off = value in (None, False, 0) and not (value is None and name in sizes.GIVEN_IF_NONE)
        if size is None or is_off or (isinstance(value, int) and value < 0):
            continue
        toy = _value(size, part, shared)
        if isinstance(toy, list) and not isinstance(value, (list, tuple)):
            continue
        if isinstance(value, (list, tuple)) and isinstance(toy, int):
            toy = [toy] * len(value)
        elif isinstance(value, int) and (isinstance(size, int) or size == "kv_heads") and name not in sizes.RAISED:
            toy = min(toy, value)
        found[name] = toy
    return found


def _value(size: Any, part: Part, shared: Shared) -> Any:
    """What a size of the tables stands for in one part."""
    if size == "language width":
        return shared.language_width
    if size == "vision width":
        return sizes.VISION[0].width
    if size == "width per head":
        return part.palette.width // part.palette.heads
    return getattr(part.palette, size) if isinstance(size, str) and hasattr(part.palette, size) else size


def _of_class(part: Part, shared: Shared) -> dict[str, Any]:
    own = classes.OF_CLASS.get(part.config_class.__name__, {})
    return {name: _value(size, part, shared) for name, size in own.items()}


def _without_noise(part: Part) -> dict[str, float]:
    """Zero for everything that makes two runs differ."""
    return {
        name: 0.0
        for name, value in part.fields.items()
        if isinstance(value, float) and _DROPOUT.search(name) and value != 0.0
    }


def _tokens(part: Part, shared: Shared) -> dict[str, Any]:
    """Ids inside the toy vocabulary, each token its own; padding, beginning and end also where they had none."""
    found: dict[str, Any] = {}
    for name, value in part.fields.items():
        stem = token_stem(name, value)
        if stem is None or (value is None and stem not in ("pad", "bos", "eos")):
            continue
        number = shared.token_ids[stem]
        found[name] = [number] if isinstance(value, (list, tuple)) else number
    return found


def _latent(part: Part, chosen: Mapping[str, Any]) -> dict[str, int]:
    """Where latent attention makes keys and values: as many heads of them as heads, each of the parts it is made of."""
    fields = part.fields
    if fields.get("kv_lora_rank") is None:
        return {}
    found = {"num_key_value_heads": chosen["num_attention_heads"]} if fields.get("num_key_value_heads") else {}
    if "head_dim" in fields and (head_dim := _latent_head_dim(part, chosen)) is not None:
        found["head_dim"] = head_dim
    return found


def _latent_head_dim(part: Part, chosen: Mapping[str, Any]) -> int | None:
    """The rotated part of a head, or both parts, as the class has it; None when it is something else."""
    plain, rotated = part.fields.get("qk_nope_head_dim"), part.fields.get("qk_rope_head_dim")
    default = vars(part.default).get("head_dim")
    if rotated is None or default is None:
        return None
    toy = int(chosen.get("qk_rope_head_dim", rotated))
    if default == rotated:
        return toy
    return toy + int(chosen["qk_nope_head_dim"]) if default == plain + rotated else None


def _layers(part: Part, chosen: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """How many layers, and the fields that say of which kind each is: one of every kind, two at least."""
    names = [name for name in sizes.LAYER_COUNTS if isinstance(part.fields.get(name), int)]
    if not names:
        return {}
    count = part.fields[names[0]]
    kinds = _kinds_of_layers(part, count)
    told = [layers for layers in kinds.values() if len({repr(layer) for layer in layers}) <= _MOST_KINDS]
    shown = _representatives(list(zip(*told)) if told else [()] * count)
    own = classes.OF_CLASS.get(part.config_class.__name__, {})
    lengths = [len(value) for name, value in own.items() if name in kinds or name == "layer_types"]
    wanted = given.get(names[0], own.get(names[0], max([2, len(shown), *lengths])))
    rest = [index for index in range(count) if index not in shown]
    picked = sorted((shown + rest)[:wanted])
    found: dict[str, Any] = dict.fromkeys(names, wanted)
    for field in kinds:
        sized = chosen.get(field)
        found[field] = [sized[0]] * wanted if isinstance(sized, list) else _subset(part, field, picked, count)
    if others := found.pop("per_layer_config", None):
        found["per_layer_config"] = _other_layers(others)
    return found


def _other_layers(names: Sequence[Sequence[str]]) -> dict[int, dict[str, Any]]:
    """``per_layer_config`` for layers of which the named fields differ."""
    return {
        index: {name: sizes.OF_OTHER_LAYERS[name] for name in own if name in sizes.OF_OTHER_LAYERS}
        for index, own in enumerate(names)
        if own
    }


def _kinds_of_layers(part: Part, count: int) -> dict[str, list[Any]]:
    """For each field that tells layers apart, what it says of each layer."""
    kinds: dict[str, list[Any]] = {}
    for name in part.fields:
        value = _sought(part, name)
        if name in sizes.INDEX_LISTS and isinstance(value, (list, tuple)):
            kinds[name] = [_place(name, value, index) for index in range(count)]
        elif name in sizes.LAYER_REFERENCES and isinstance(value, (list, tuple)):
            kinds[name] = [other == index for index, other in enumerate(value)]
        elif name in sizes.HEAD_COUNTS and isinstance(value, int):
            kinds[name] = [index < value for index in range(count)]
        elif name in sizes.TAIL_COUNTS and isinstance(value, int):
            kinds[name] = [index >= count - value for index in range(count)]
        elif isinstance(value, (list, tuple)) and len(value) == count and count > 2:
            kinds[name] = list(value)
    if part.others:
        kinds["per_layer_config"] = [part.others.get(index, ()) for index in range(count)]
    return kinds


def _sought(part: Part, name: str) -> Any:
    return part.fields[name] or sizes.SOUGHT.get(name, part.fields[name])


def _place(name: str, listed: Sequence[int], index: int) -> int:
    if index not in listed:
        return 0
    return 1 + (min(list(listed).index(index), 1) if name in sizes.ORDERED_INDEX_LISTS else 0)


def _representatives(layers: Sequence[tuple[Any, ...]]) -> list[int]:
    """The first layer of each kind; when there are many kinds, layers that show each single trait."""
    first: dict[str, int] = {}
    for index, layer in enumerate(layers):
        first.setdefault(repr(layer), index)
    if len(first) <= _MOST_KINDS:
        return sorted(first.values())
    traits: dict[str, int] = {}
    for index, layer in enumerate(layers):
        for place, trait in enumerate(layer):
            traits.setdefault(f"{place}: {trait!r}", index)
    return sorted(set(traits.values()))


def _subset(part: Part, name: str, picked: Sequence[int], count: int) -> Any:
    """A per-layer field, for the picked layers alone."""
    if name == "per_layer_config":
        return [part.others.get(index, ()) for index in picked]
    value = _sought(part, name)
    if name in sizes.INDEX_LISTS:
        return [place for place, index in enumerate(picked) if index in value]
    if name in sizes.LAYER_REFERENCES:
        return [picked.index(value[index]) if value[index] in picked else place for place, index in enumerate(picked)]
    if name in sizes.HEAD_COUNTS:
        return sum(index < value for index in picked)
    if name in sizes.TAIL_COUNTS:
        return sum(index >= count - value for index in picked)
    return [value[index] for index in picked]


def _positions(part: Part, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary parameters that go with the toy head size and the toy context."""
    rope = part.fields.get("rope_parameters")
    if not rope:
        return {}
    if all(isinstance(value, dict) for value in rope.values()):
        toy = {kind: _rope(part, changes, value) for kind, value in rope.items()}
    else:
        toy = _rope(part, changes, rope)
    return {} if toy == rope else {"rope_parameters": toy}


def _rope(part: Part, changes: Mapping[str, Any], rope: Mapping[str, Any]) -> dict[str, Any]:
    toy = dict(rope)
    head_dim = _head_dim(part, changes)
    if "original_max_position_embeddings" in rope:
        toy["original_max_position_embeddings"] = 32
        toy["factor"] = 4.0
    factor = rope.get("partial_rotary_factor", 1.0)
    if _rotated_part(part) == factor != 1.0:
        toy["partial_rotary_factor"] = changes["qk_rope_head_dim"] / head_dim
    told = getattr(part.config_class, "ignore_keys_at_rope_validation", None) or ()
    if "mrope_section" in (*told, *rope) or part.config_class.__name__ in classes.MULTIMODAL_ROPE:
        half = int(head_dim * factor) // 2
        third = round(half / 3)
        toy["mrope_section"] = [third, third, half - 2 * third]
    return toy


def _rotated_part(part: Part) -> float | None:
    """How much of a head latent attention rotates in the class's defaults."""
    head_dim, rotated = vars(part.default).get("head_dim"), part.fields.get("qk_rope_head_dim")
    return rotated / head_dim if head_dim and rotated else None


def _head_dim(part: Part, changes: Mapping[str, Any]) -> int:
    if (latent := _latent_head_dim(part, changes)) is not None:
        return latent
    heads = changes.get("num_attention_heads") or part.palette.heads
    width = changes.get("hidden_size") or part.palette.width
    return int(changes.get("head_dim") or width // heads)

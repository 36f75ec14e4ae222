"""Which other values the fields of a toy configuration get."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from patchgen_core.models import toy_sizes as sizes
from patchgen_core.models.config_changes import Change
from patchgen_core.models.config_tree import ConfigPart, make_tree
from patchgen_core.models.shrinking import NOISE

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_SWITCHES = frozenset(
    {
        "use_cache",
        "use_sliding_window",
        "is_encoder_decoder",
        "is_decoder",
        "add_cross_attention",
        "return_dict",
        "output_attentions",
        "output_hidden_states",
    }
)
"""Fields that are no trait of a model, or that no training changes."""

_FACTOR = 1.3
"""For numbers that mean no size: so far from the toy's that another value in its place shows."""

_TRAINED, _WINDOW, _OTHER_WINDOW = 6, 5, 3
"""In tokens: less than a row of a toy batch has."""

_NOT_SCALED = frozenset({"initializer_range", "rope_theta", "partial_rotary_factor", "mlp_ratio"})
_ACTIVATIONS = ("gelu_pytorch_tanh", "relu", "silu")
ACTIVATION_FIELDS = ("hidden_act", "hidden_activation", "activation_function", "hidden_activation_function")
_LAYERS, _SLIDING, _FULL = "layer_types", "sliding_attention", "full_attention"
_ROPE_TYPES = ("yarn", "dynamic", "longrope", "llama3", "linear")

Values = Mapping[str, Any]
Rule = Callable[[ConfigPart, Collection[str]], Iterator[list[Values]]]


def list_changes(config: PreTrainedConfig, read: Collection[str], kinds: Collection[str]) -> list[tuple[Change, ...]]:
    """What to change of a configuration so that each of the fields in ``read`` gets its other values, pairwise: every
    entry changes many fields at once, each to one of its other values, and no field twice.

    Args:
        kinds: of the parts that code reads fields of: "text", "vision", "audio".
    """
    columns: list[list[Change]] = []
    for part in make_tree(config).walk():
        if kind_of(part.name) not in kinds:
            continue
        aliases = {stored for name, stored in part.config_class.attribute_map.items() if name in read}
        fields = aliases | set(read)
        for rule in _RULES:
            for others in rule(part, fields):
                columns.append([_change(part, values) for values in others])
    rows = zip_longest(*columns)
    return [tuple({change.name: change for change in row if change is not None}.values()) for row in rows]


def declared_names(config: PreTrainedConfig) -> frozenset[str]:
    """The fields of a configuration and of all its parts."""
    return frozenset(name for part in make_tree(config).walk() for name in part.fields)


def kind_of(name: str) -> str:
    """The kind of what is called so: of a part of a configuration, or of a class."""
    lowered = name.lower()
    return next((kind for kind, words in sizes.KINDS.items() if any(word in lowered for word in words)), "text")


def _change(part: ConfigPart, values: Values) -> Change:
    field, value = next(iter(values.items()))
    prefix = f"{part.name}." if part.name else ""
    if field == "rope_parameters":
        kinds = [value, *(one for one in value.values() if isinstance(one, Mapping))]
        field, value = "rope_type", next(one["rope_type"] for one in reversed(kinds) if "rope_type" in one)
    return Change(f"{prefix}{field}={value}", {f"{prefix}{name}": one for name, one in values.items()})


def _booleans(part: ConfigPart, read: Collection[str]) -> Iterator[list[Values]]:
    for name, value in part.fields.items():
        if name in read and isinstance(value, bool) and name not in _SWITCHES:
            yield [{name: not value}]


def _activations(part: ConfigPart, read: Collection[str]) -> Iterator[list[Values]]:
    for name in ACTIVATION_FIELDS:
        if name in read and isinstance(part.fields.get(name), str):
            yield [{name: next(other for other in _ACTIVATIONS if other != part.fields[name])}]


def _numbers(part: ConfigPart, read: Collection[str]) -> Iterator[list[Values]]:
    """Factors, caps and epsilons; what may be off is switched on or off."""
    for name, value in part.fields.items():
        if name not in read or name in _NOT_SCALED or NOISE.search(name):
            continue
        given = sizes.TELLING.get(name, sizes.SWITCHED_ON.get(name))
        if isinstance(value, float):
            yield [{name: None if name in _MAY_BE_OFF else round(value * _FACTOR, 6)}]
        elif value is None and isinstance(given, float):
            yield [{name: given}]
    for name in ("q_lora_rank",):
        if name in read and isinstance(part.fields.get(name), int):
            yield [{name: None}]


_MAY_BE_OFF = frozenset({"final_logit_softcapping", "attn_logit_softcapping", "clip_qkv"})


def _layout(part: ConfigPart, read: Collection[str]) -> Iterator[list[Values]]:
    """Heads that share keys and values otherwise, square weights, one expert for a token, one more word."""
    fields = part.fields
    width, heads = _number(part, "hidden_size"), _number(part, "num_attention_heads")
    own = {name for name in read if _number(part, name)}
    if "num_key_value_heads" in own and heads and fields.get("kv_lora_rank") is None:
        yield [{"num_key_value_heads": heads}]
    if width and heads and "head_dim" in own and "kv_lora_rank" not in fields and _is_plain_rope(part):
        yield [{"head_dim": width // heads}]
    if width and "moe_intermediate_size" in own:
        yield [{"moe_intermediate_size": width // 2}]
    elif width and "intermediate_size" in own:
        yield [{"intermediate_size": width}]
    if "num_experts_per_tok" in own:
        yield [{"num_experts_per_tok": 1}]
    if "n_group" in own and "topk_group" in fields:
        yield [{"n_group": 1, "topk_group": 1}]
    if "vocab_size" in own:
        yield [{"vocab_size": fields["vocab_size"] + 1}]


def _is_plain_rope(part: ConfigPart) -> bool:
    rope = part.fields.get("rope_parameters") or {}
    return not {"mrope_section", "partial_rotary_factor"} & set(rope)


def _windows(part: ConfigPart, read: Collection[str]) -> Iterator[list[Values]]:
    """A sliding window on and off, and another one."""
    fields = part.fields
    if not {"sliding_window", "use_sliding_window"} & set(read) or "sliding_window" not in fields:
        return
    layers = fields.get(_LAYERS) or []
    if "use_sliding_window" in fields and not fields["use_sliding_window"]:
        kinds = {_LAYERS: [_FULL if number % 2 else _SLIDING for number in range(len(layers))]} if layers else {}
        yield [{"sliding_window": _WINDOW, "use_sliding_window": True, **kinds}]
    elif not layers:
        off = fields["sliding_window"] is None
        yield [{"sliding_window": _WINDOW if off else None}]
    elif {_SLIDING, _FULL} == set(layers) and fields["sliding_window"] is not None:
        yield [{"sliding_window": _OTHER_WINDOW, _LAYERS: layers[::-1]}]


def _rope(part: ConfigPart, read: Collection[str]) -> Iterator[list[Values]]:
    """The ways to stretch positions, those that differ beyond the trained length beyond it."""
    rope = part.fields.get("rope_parameters")
    if not rope or not {"rope_parameters", "cos"} & set(read):
        return
    kinds = {name: value for name, value in rope.items() if isinstance(value, Mapping)}
    plain = kinds.get(_FULL, next(iter(kinds.values()), {})) if kinds else rope
    if plain.get("rope_type", "default") == "axial" or not plain:
        return
    wanted = _ROPE_TYPES if "rope_parameters" in read else _ROPE_TYPES[:1]
    others: list[Values] = []
    for rope_type in [one for one in wanted if one != plain.get("rope_type")]:
        stretched = {**plain, **_stretched(rope_type, part, plain)}
        name = next((name for name, value in kinds.items() if value is plain), None)
        length = {"max_position_embeddings": _TRAINED} if rope_type == "dynamic" else {}
        others.append({"rope_parameters": {**rope, name: stretched} if name else stretched, **length})
    yield others


def _stretched(rope_type: str, part: ConfigPart, rope: Mapping[str, Any]) -> dict[str, Any]:
    half = _rotary_dim(part, rope) // 2
    values: dict[str, dict[str, Any]] = {
        "linear": {"factor": 2.5},
        "dynamic": {"factor": 2.0},
        "yarn": {
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 4.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 0.5,
        },
        "llama3": {
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
        "longrope": {
            "short_factor": [1.0 + 0.1 * index for index in range(half)],
            "long_factor": [1.5 + 0.2 * index for index in range(half)],
            "original_max_position_embeddings": _TRAINED,
            "factor": 4.0,
        },
    }
    return {"rope_type": rope_type, **values[rope_type]}


def _rotary_dim(part: ConfigPart, rope: Mapping[str, Any]) -> int:
    if rotated := _number(part, "qk_rope_head_dim"):
        return rotated
    width = _number(part, "head_dim") or _number(part, "hidden_size") // (_number(part, "num_attention_heads") or 1)
    return int(width * rope.get("partial_rotary_factor", 1.0))


def _number(part: ConfigPart, name: str) -> int:
    """A field that is a whole number; 0 where it is something else."""
    value = part.fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


_RULES: tuple[Rule, ...] = (_booleans, _activations, _numbers, _layout, _windows, _rope)

"""Which layers of a model its toy has: one of every kind, and two at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from patchgen_core.models import toy_sizes as sizes
from patchgen_core.models.config_tree import ConfigPart


def layer_fields(part: ConfigPart, values: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """How many layers there are (a number in ``fixed`` is kept), and the fields that say of which kind each is."""
    counts = [name for name in sizes.LAYER_COUNTS if isinstance(part.fields.get(name), int)]
    if not counts:
        return {}
    kinds = _kinds_of_layers(part, part.fields[counts[0]])
    picked = _pick_layers(part, counts[0], kinds, fixed)
    fields: dict[str, Any] = dict.fromkeys(counts, len(picked))
    for name in kinds:
        sized = values.get(name)
        fields[name] = [sized[0]] * len(picked) if isinstance(sized, list) else _subset(part, name, picked)
    if part.others:
        fields["per_layer_config"] = {
            place: {name: sizes.OF_OTHER_LAYERS[name] for name in part.others[index] if name in sizes.OF_OTHER_LAYERS}
            for place, index in enumerate(picked)
            if index in part.others
        }
    return fields


def _pick_layers(
    part: ConfigPart, count_field: str, kinds: Mapping[str, list[Any]], fixed: Mapping[str, Any]
) -> list[int]:
    """Indices of default layers that the toy's layers are like."""
    count = part.fields[count_field]
    traits = list(kinds.values())
    if part.others:
        traits.append([part.others.get(index) for index in range(count)])
    first: dict[str, int] = {}
    for index, layer in enumerate(zip(*traits) if traits else [()] * count):
        first.setdefault(repr(layer), index)
    representatives = list(first.values())
    lengths = [len(value) for name, value in part.own.items() if name in kinds or name == "layer_types"]
    layer_count = int(fixed.get(count_field, max([2, len(representatives), *lengths])))
    rest = [index for index in range(count) if index not in representatives]
    picked = sorted((representatives + rest)[:layer_count])
    return picked + [index % count for index in range(len(picked), layer_count)]


def _kinds_of_layers(part: ConfigPart, count: int) -> dict[str, list[Any]]:
    """For each field that tells layers apart, what it says of each layer."""
    kinds: dict[str, list[Any]] = {}
    for name in part.fields:
        value = _value_or_sought(part, name)
        is_list = isinstance(value, (list, tuple))
        if name in sizes.INDEX_LISTS and is_list:
            kinds[name] = [_rank_in_list(name, value, index) for index in range(count)]
        elif name in sizes.LAYER_REFERENCES and is_list:
            kinds[name] = [other == index for index, other in enumerate(value)]
        elif name in sizes.HEAD_COUNTS and isinstance(value, int):
            kinds[name] = [index < value for index in range(count)]
        elif name in sizes.TAIL_COUNTS and isinstance(value, int):
            kinds[name] = [index >= count - value for index in range(count)]
        elif is_list and len(value) == count > 2:
            kinds[name] = list(value)
    return kinds


def _value_or_sought(part: ConfigPart, name: str) -> Any:
    return part.fields[name] or sizes.SOUGHT.get(name, part.fields[name])


def _rank_in_list(name: str, listed: Sequence[int], index: int) -> int:
    if index not in listed:
        return 0
    return 1 + (min(list(listed).index(index), 1) if name in sizes.ORDERED_INDEX_LISTS else 0)


def _subset(part: ConfigPart, name: str, picked: Sequence[int]) -> Any:
    """A per-layer field, for the picked layers alone."""
    value = _value_or_sought(part, name)
    if name in sizes.INDEX_LISTS:
        return [place for place, index in enumerate(picked) if index in value]
    if name in sizes.LAYER_REFERENCES:
        return [picked.index(value[index]) if value[index] in picked else place for place, index in enumerate(picked)]
    if name in sizes.HEAD_COUNTS:
        return sum(index < value for index in picked)
    if name in sizes.TAIL_COUNTS:
        count = next(part.fields[field] for field in sizes.LAYER_COUNTS if isinstance(part.fields.get(field), int))
        return sum(index >= count - value for index in picked)
    return [value[index] for index in picked]

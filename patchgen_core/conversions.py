"""transformers converts checkpoints for generated classes as it does for its own of the same names.

When transformers loads or saves a model it renames and fuses tensors by model type, but passes over classes that are
not its own, unless their names were registered: ``from_pretrained`` of a generated MoE class would leave the experts
of a hub checkpoint out and initialize the model's at random.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any


def share_conversions(model_class: type) -> tuple[str, ...]:
    """Let transformers convert checkpoints of a generated class, and of the sub-models in its module.

    Holds for this process, and for all classes of these names and model types. Returns those for which that is new,
    which is what :func:`unshare_conversions` takes back.
    """
    registered = _registered()
    if registered is None:
        return ()
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    names = sorted({*_class_names(model_class), *_model_types(getattr(model_class, "config_class", None))})
    new = [
        name
        for name in names
        if name not in registered and get_checkpoint_conversion_mapping(name) is not None  # type: ignore[no-untyped-call]
    ]
    registered.update(new)
    return tuple(new)


def unshare_conversions(names: Iterable[str]) -> None:
    """Take back what :func:`share_conversions` returned."""
    registered = _registered()
    if registered is not None:
        registered.difference_update(names)


def _registered() -> set[str] | None:
    """transformers' set of the names that are converted for any class; None where it needs no such set."""
    from transformers import conversion_mapping

    return getattr(conversion_mapping, "USER_REGISTERED_MAPPINGS", None)


def _class_names(model_class: type) -> Iterator[str]:
    """The classes of the module that a class stands in."""
    module = sys.modules.get(model_class.__module__)
    for name, value in vars(module).items() if module else ():
        if isinstance(value, type) and value.__module__ == model_class.__module__:
            yield name


def _model_types(config_class: Any) -> Iterator[str]:
    """The model types of a config class and of its parts."""
    if config_class is not None:
        yield from filter(None, [getattr(config_class, "model_type", "")])
        for part in getattr(config_class, "sub_configs", {}).values():
            yield from _model_types(part)

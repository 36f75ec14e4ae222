"""Other values for fields of a toy configuration, with which the same models are built and run once more."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass(frozen=True)
class Change:
    """Fields of a configuration that get other values together.

    Attributes:
        name: what reports call it, such as "attention_bias=True".
        values: by the dotted path of the field, such as "text_config.hidden_act".
    """

    name: str
    values: Mapping[str, Any]

    def is_named_in(self, text: str) -> bool:
        """Whether a text, such as that of an error, names a field of it."""
        return any(path.rpartition(".")[2] in text for path in self.values)


def change_config(config: PreTrainedConfig, changes: tuple[Change, ...]) -> PreTrainedConfig:
    """A configuration with changes; PatchgenError when its class refuses them."""
    fields = config.to_dict()
    try:
        for change in changes:
            for path, value in change.values.items():
                *parts, name = path.split(".")
                functools.reduce(operator.getitem, parts, fields)[name] = value
        return type(config).from_dict(fields)
    except Exception as error:  # whatever a configuration class says no with
        names = ", ".join(change.name for change in changes)
        reason = " ".join(str(error).split())
        raise PatchgenError(f"{type(config).__name__} does not take {names}: {reason}") from error

"""A way of running a model: on sequences in one row that upstream's model does not keep apart."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.models.modes import Mode

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ENDS = "cu_seq_lens_q"
"""The input that tells where the sequences of a row end, with 0 in front."""
_PER_TOKEN = ("input_ids", "position_ids")
_OUTPUTS = ("logits", "last_hidden_state")


def call_on_sequences(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Mapping[str, torch.Tensor]:
    """What a model gives for each token of a row of sequences; upstream's, which may let one see another, is given
    them one after the other."""
    if not type(model).__module__.startswith("transformers."):
        return _outputs_of(model(**inputs))
    others = {name: value for name, value in inputs.items() if not isinstance(value, torch.Tensor | int)}
    parts = []
    for first, last in pairwise(inputs[ENDS].tolist()):
        own = {name: inputs[name][..., first:last] for name in _PER_TOKEN if name in inputs}
        parts.append(_outputs_of(model(**own, **others, use_cache=False)))
    return {name: torch.cat([part[name] for part in parts], dim=1) for name in parts[0]}


def _outputs_of(output: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    return {name: output[name] for name in _OUTPUTS if output.get(name) is not None}


ONE_BY_ONE = Mode("as one by one", call=call_on_sequences, has_gradients=False, is_rounded=True)

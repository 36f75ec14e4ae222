"""Where ranks that raise have parted from one process before, by what modules were given and gave until then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from patchgen_core.checks.parity.divergence import Divergence, find_forward_divergence, find_suspects, find_unfinished
from patchgen_core.checks.parity.request import PatchedCode
from patchgen_core.checks.sharded.results import Comparison
from patchgen_core.models.model_run import Run
from patchgen_core.models.run_comparison import path_of


@dataclass(frozen=True)
class Origin:
    """The patch that lies before an error, and a sentence about what it did."""

    patch: PatchedCode
    sentence: str


def find_origin(layers: Comparison, patches: Sequence[PatchedCode]) -> Origin | None:
    """The patch after which right values are wrong ones, or that gives a module half of what belongs together; None
    where all is right until the error."""
    for batch, runs in layers.compare_layers():
        tokens = layers.parts_of(batch), runs.eager, layers.count_tokens(batch)
        divergence = find_forward_divergence(runs) or find_other_length(*tokens) or find_unfinished(runs)
        did = "differs from one process before"
        if divergence is None and (module := find_half_sliced(*tokens)):
            divergence = Divergence((_parent(module, runs.eager),))
            did = f"gives '{module}' slices of some tensors and the whole of others"
        suspects = find_suspects(divergence, patches, layers.executions) if divergence is not None else ()
        if suspects:
            return Origin(suspects[0], f"The patch of '{suspects[0].target}' {did}.")
    return None


def find_half_sliced(parts: Sequence[Run], eager: Run, length: int) -> str:
    """The first module, as ranks enter them, that gets slices of some floating tensors and others whole, where one
    process gets ``length`` tokens of both; empty for none. What has tokens in two dimensions, as masks have, does not
    count."""
    own = -(-length // len(parts))
    for name, given in parts[0].layer_inputs.items() if len(parts) > 1 else ():
        tensors = [value for value in given if value.is_floating_point()]
        whole = [value for value in eager.layer_inputs.get(name, ()) if value.is_floating_point()]
        if len(tensors) == len(whole):
            sizes = {size for pair in zip(tensors, whole) if (size := _count_tokens(*pair, length))}
            if {own, own * len(parts)} <= sizes:  # padded for the ranks
                return name
    return ""


def find_other_length(parts: Sequence[Run], eager: Run, length: int) -> Divergence | None:
    """The first module that gives neither the slice of a rank nor all where one process gives ``length`` tokens."""
    own = -(-length // len(parts))
    for name, value in parts[0].layers.items() if len(parts) > 1 else ():
        if name in eager.layers and _count_tokens(value, eager.layers[name], length) not in (0, own, own * len(parts)):
            return Divergence((path_of(name),), name)
    return None


def _count_tokens(tensor: Tensor, whole: Tensor, length: int) -> int:
    """The size of a tensor in the dimension in which one process has all tokens; 0 where that is not one dimension."""
    dimensions = [dim for dim, size in enumerate(whole.shape) if size == length]
    return tensor.shape[dimensions[0]] if len(dimensions) == 1 and tensor.dim() == whole.dim() else 0


def _parent(module: str, run: Run) -> str:
    """The module that calls another one."""
    path = path_of(module)
    while path:
        path = path.rpartition(".")[0]
        if path in run.layer_inputs:
            return path
    return ""

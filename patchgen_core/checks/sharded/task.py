"""What every rank is given to do, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.execution import Execution, Span
from patchgen_core.models.model_run import Run
from patchgen_core.project.meshes import Mesh

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    from patchgen_core.parallel_plan.plan import ParallelPlan

STEPS = 2
"""Steps of the optimizer."""
LEARNING_RATE, MOMENTUM = 0.1, 0.9


@dataclass(frozen=True, eq=False)
class Training:
    """A model, where it begins, and what it is trained on.

    Attributes:
        state: its state dict, in float32.
        batches: those of one step, in the order in which one process runs them. Each has a name.
        items: how many labels they have together, by which the model divides the sum of its loss over a batch in the
            first step; 0 for a model that takes no ``num_items_in_batch``, which takes the mean, as in other steps.
        parts: the generated classes that AutoModel gives inside the model, by configuration class.
    """

    model_class: type[PreTrainedModel]
    config: PreTrainedConfig
    state: Mapping[str, Tensor]
    batches: Sequence[ToyBatch]
    items: int
    parts: Mapping[type, type] = field(default_factory=dict)


@dataclass(frozen=True)
class RankTask:
    """A training that ranks share.

    Attributes:
        keeps_layers: whether each rank tells what every module gives, and which patches ran in it, for the first step.
        until_error: whether an error ends what a rank keeps of the first step, and is not told.
        spans: where the code of each patch stands, by target.
    """

    training: Training
    mesh: Mesh
    plan: ParallelPlan | None
    keeps_layers: bool = False
    until_error: bool = False
    spans: Mapping[str, Sequence[Span]] = field(default_factory=dict)


@dataclass
class Trained:
    """What came of a training, on one process or one rank.

    Attributes:
        losses, logits: of each batch of the first step that it ran, by the batch's name. Of sequences that are split,
            each rank tells those of its slice.
        mean_losses: of each batch of the second step, where the first one's are sums divided by ``items``.
        norm: that of all gradients, as a trainer finds it out before it clips them.
        gradients: of every parameter, after the first step's batches, whole; on the first rank alone. None for a
            parameter that got none.
        parameters: after the last step, whole; on the first rank alone.
        layers: what modules were given and gave, by the batch's name, if that was kept.
        executions: what ran of each patch, by target, if that was kept.
        unrepeated: what was not the same, bit for bit, when the first step's batches ran a second time.
        without_gradient: the parameters that got no gradient on this rank.
    """

    losses: dict[str, Tensor] = field(default_factory=dict)
    logits: dict[str, Tensor] = field(default_factory=dict)
    mean_losses: dict[str, Tensor] = field(default_factory=dict)
    norm: Tensor = field(default_factory=lambda: torch.zeros(()))
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    parameters: dict[str, Tensor] = field(default_factory=dict)
    layers: dict[str, Run] = field(default_factory=dict)
    executions: Mapping[str, Execution] = field(default_factory=dict)
    unrepeated: tuple[str, ...] = ()
    without_gradient: tuple[str, ...] = ()

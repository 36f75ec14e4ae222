"""Defects that the gate does not find, and why: what is not listed here is simply not seen."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tools.mutation.mutant import CodeMutant

Why = Literal["equivalent", "needs an input that training never gives", "not seen by the gate"]
EQUIVALENT: Why = "equivalent"
NO_INPUT: Why = "needs an input that training never gives"
UNSEEN: Why = "not seen by the gate"


@dataclass(frozen=True)
class SurvivorKind:
    """A kind of defect that survives.

    Attributes:
        why: the class of the explanation.
        reason: the explanation.
        function: what the names of the functions end with.
        old: a pattern that is found in what is changed, rows without their indent.
        new: a pattern that is found in what stands there afterwards; empty for whatever is done to it.
    """

    why: Why
    reason: str
    function: str
    old: str
    new: str = ""

    def fits(self, mutant: CodeMutant) -> bool:
        """Whether a mutant is of this kind."""
        rows = mutant.diff.split("\n")
        before = "\n".join(row[1:].strip() for row in rows if row.startswith("-"))
        after = "\n".join(row[1:].strip() for row in rows if row.startswith("+"))
        return mutant.function.endswith(self.function) and bool(
            re.search(self.old, before) and re.search(self.new, after)
        )


_SENTINEL = "Only expert parallelism routes tokens to the index behind the last expert: they are for another rank."
_EMPTY = "Left to itself it makes as many classes as the largest index needs; only an empty batch has none."
_ACTIVATION = "No published model of the family has an activation that the kernel does not compute."
_DEFAULT = "The model's own code never passes anything but the default."
_DEVICE = "All checks run on one device, which is no NPU."
_DTYPE = "All towers of the toys have one dtype."
_MESSAGE = "A message in the log is no result."
_SAME = "It is the default."
_COLUMN = "nonzero() of a vector gives one column."
SURVIVOR_KINDS: tuple[SurvivorKind, ...] = (
    SurvivorKind(EQUIVALENT, _COLUMN, "experts_forward", r"expert_idx\[0\]", "_idx[-1]"),
    SurvivorKind(NO_INPUT, _EMPTY, "experts_forward", "num_classes=", r"one_hot\(top_k_index\)"),
    SurvivorKind(NO_INPUT, _SENTINEL, "experts_forward", r"num_classes=self\.num_experts \+ 1"),
    SurvivorKind(NO_INPUT, _SENTINEL, "experts_forward", "^continue$"),
    SurvivorKind(NO_INPUT, _SENTINEL, "experts_forward", r"^if expert_idx == self\.num_experts:$", "if False"),
    SurvivorKind(NO_INPUT, _ACTIVATION, "mlp_forward", r"^if self\.config\.hidden_act not in", "if False"),
    SurvivorKind(NO_INPUT, _DEFAULT, "apply_rotary_pos_emb", r", unsqueeze_dim=unsqueeze_dim\)", r"cos, sin\)"),
    SurvivorKind(NO_INPUT, _DEVICE, "forward", r"torch\.arange\(.*, device=", r"torch\.arange\("),
    SurvivorKind(NO_INPUT, _DEVICE, "forward", r"device=inputs_embeds\.device", r"device=input_ids\.device"),
    SurvivorKind(NO_INPUT, _DTYPE, "forward", r"dummy_forward\(\)\.to\(", r"(dummy_forward\(\)|torch\.\w+\))$"),
    SurvivorKind(EQUIVALENT, _MESSAGE, "forward", r"^logging\.get_logger\(__name__\)\.warning_once\(", "pass"),
    SurvivorKind(EQUIVALENT, _MESSAGE, "", r"^logger\.(info|warning_once)\("),
    SurvivorKind(EQUIVALENT, _SAME, "of", r'^mode="bilinear",$'),
)


def explain(mutant: CodeMutant) -> tuple[Why, str]:
    """Why a mutant survives."""
    for kind in SURVIVOR_KINDS:
        if kind.fits(mutant):
            return kind.why, kind.reason
    return UNSEEN, ""

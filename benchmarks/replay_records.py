"""What the replay keeps of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PatchRecord:
    """What a step said of one patch, and did with it.

    Attributes:
        kind: the patch's, as in the header of the generated file.
        change: what upstream did to the target: see `upstream_change`.
        how: ``nothing`` to carry over, ``has it`` already, ``kept`` where upstream deprecated the target,
            ``rewritten`` names or places, merged by ``lines`` or ``syntax``; ``conflict`` where a person is needed;
            ``fell`` with one.
        reasons: why a person is needed.
        asked: what a person is asked to look at beside that, other than what a clean merge settles.
        is_as_people_wrote: whether it has the code that people wrote for this release; None where that is not known.
    """

    config: str
    target: str
    kind: str
    change: str
    verdict: str
    how: str
    reasons: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    is_as_people_wrote: bool | None = None


@dataclass(frozen=True)
class StepRecord:
    """One step.

    Attributes:
        broken: by config, what is wrong with it that the report does not have: it does not generate, or breaks a rule.
        ended: the configs that go no further, each with the first of all that is wrong with it.
        wrong: by config, all that is wrong with it after the step; that of a config that is not here is not known.
    """

    old: str
    new: str
    patches: tuple[PatchRecord, ...]
    broken: Mapping[str, tuple[str, ...]]
    ended: Mapping[str, str]
    wrong: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

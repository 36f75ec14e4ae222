"""What is to be compared, and where the code of the patches stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from patchgen_core.config.declarations import Tolerance
from patchgen_core.errors import Location
from patchgen_core.project.parity_settings import HEAD_MARK, STANDARD


@dataclass(frozen=True)
class PatchedCode:
    """Where the code of one patch stands in the generated module.

    Attributes:
        target: as upstream names it.
        lines: first and last lines of its definitions, decorators included; empty for an external patch.
        fresh: those of these lines that upstream does not have.
        module, name: what an external patch imports from where; empty for others.
        is_computed: whether the model's own code uses it; not so for a method that was added for others to call.
        users: what else in the module refers to it: classes, methods and functions.
    """

    target: str
    declared: Location
    lines: tuple[tuple[int, int], ...] = ()
    fresh: tuple[int, ...] = ()
    module: str = ""
    name: str = ""
    is_computed: bool = True
    users: tuple[str, ...] = ()

    def holds(self, line: int) -> bool:
        """Whether a line of the generated module is in its definitions."""
        return any(first <= line <= last for first, last in self.lines)

    def distance_to(self, line: int) -> tuple[bool, int]:
        """How far its own code is from a line, less where it is above: of several edits of a target, what the one
        above a line does comes before it."""
        above = [line - own for own in self.fresh if own <= line]
        return not above, min(above or (own - line for own in self.fresh), default=0)


@dataclass(frozen=True)
class ParityRequest:
    """One comparison that is to be made.

    Attributes:
        module, upstream: dotted names.
        text: what to run instead of what stands in the file; None for that.
        implementation: "eager", "patched", or the name of kernels.
        toy_config: its toy configuration, as a mapping or an absolute path; None when it has none of its own.
        toy_root: the project's folder of toy configurations; empty for none.
        batches: references of the project's builders of toy batches.
        device: "auto", "cpu", "cuda" or "npu".
        offered: the implementations that are being checked.
        left_out: what is not compared and why: patterns of heads, or of heads and batches.
        level: how much is varied: one of the project's settings for parity.
    """

    module: str
    path: str
    upstream: str
    implementation: str
    declared: Location
    patches: tuple[PatchedCode, ...] = ()
    tolerances: tuple[Tolerance, ...] = ()
    project_tolerances: Mapping[str, float] | None = None
    toy_config: Mapping[str, Any] | str | None = None
    toy_root: str = ""
    batches: tuple[str, ...] = ()
    device: str = "auto"
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    offered: tuple[str, ...] = ()
    text: str | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    level: str = STANDARD

    def why_left_out(self, head: str, batch: str = "") -> str:
        """Why a head, or one batch of it, is not compared; empty when it is."""
        name = f"{head}{HEAD_MARK}{batch}" if batch else head
        return next((reason for pattern, reason in self.left_out if fnmatchcase(name, pattern)), "")

"""What a merge has found so far: edits of our text, conflicts and notes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.upgrade.merging.text import DefinitionText
from patchgen_core.upgrade.results import Conflict


@dataclass
class Edits:
    """Edits of our text that can be taken back.

    Attributes:
        same: our statement for each of upstream's new ones that is it.
        old: our statement for each of upstream's old ones.
        changed: our statements that upstream had before and ours has changed.
    """

    text: DefinitionText
    edits: list[Edit] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    same: dict[ast.stmt, ast.stmt] = field(default_factory=dict)
    old: dict[ast.stmt, ast.stmt] = field(default_factory=dict)
    changed: set[object] = field(default_factory=set)

    @property
    def state(self) -> tuple[int, int, int]:
        """What to go back to."""
        return len(self.edits), len(self.conflicts), len(self.notes)

    def go_back(self, state: tuple[int, int, int]) -> None:
        """Forget what came after a state."""
        del self.edits[state[0] :], self.conflicts[state[1] :], self.notes[state[2] :]

    def replace(self, start: int, end: int, new: str, origin: Sequence[ast.stmt] = ()) -> None:
        """Let a part of the text be another; ``origin`` are upstream's statements that it then holds."""
        if self.text.source.text[start:end] != new:
            self.edits.append(Edit(start, end, new, list(origin)))

    def is_code(self, edit: Edit) -> bool:
        """Whether an edit changes more than comments and white space."""
        lines = [*edit.new.split("\n"), *self.text.source.text[edit.start : edit.end].split("\n")]
        return any(line.strip() and not line.strip().startswith("#") for line in lines)

    def take(self, start: int, end: int) -> str:
        """The text between two offsets with the edits inside, which are no others any more."""
        inside = [edit for edit in self.edits if start <= edit.start and edit.end <= end]
        self.edits[:] = [edit for edit in self.edits if edit not in inside]
        moved = [Edit(edit.start - start, edit.end - start, edit.new) for edit in inside]
        return apply_edits(self.text.source.text[start:end], moved)[0]

    def conflict(self, line: int, reason: str, base: str, ours: str, theirs: str, indent: str = "") -> None:
        """Note a place that cannot be decided."""
        self.conflicts.append(Conflict(line, reason, base, ours, theirs, indent=indent))

    def placed(self) -> tuple[Conflict, ...]:
        """The conflicts in order, each with its line in the result."""
        ordered = sorted(self.conflicts, key=lambda conflict: conflict.line)
        return tuple(replace(c, merged_line=self._merged_line(c.line)) for c in ordered)

    def _merged_line(self, line: int) -> int:
        source = self.text.source
        start = source.line_starts[min(line, len(source.lines)) - 1]
        before = [edit for edit in self.edits if edit.end <= start]
        return line + sum(edit.new.count("\n") - source.text.count("\n", edit.start, edit.end) for edit in before)

    @property
    def result(self) -> str:
        """The text with its edits."""
        return apply_edits(self.text.source.text, self.edits)[0]

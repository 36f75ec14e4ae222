"""Defects that the gate does not find, and why: what is not listed here is simply not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mutants.making import Mutant

Why = Literal["equivalent", "needs an input that training never gives", "not seen by the gate"]
EQUIVALENT: Why = "equivalent"
NO_INPUT: Why = "needs an input that training never gives"
UNSEEN: Why = "not seen by the gate"


@dataclass(frozen=True)
class Known:
    """A kind of defect that survives.

    Attributes:
        why: the class of the explanation.
        reason: the explanation.
        function: what the names of the functions end with.
        old: what the changed line has.
        new: what the line has afterwards; one of them is enough. Empty for whatever is done to it.
    """

    why: Why
    reason: str
    function: str
    old: str
    new: tuple[str, ...] = ()

    def fits(self, mutant: Mutant) -> bool:
        """Whether a mutant is of this kind."""
        rows = mutant.diff.split("\n")
        before = "\n".join(row[1:].strip() for row in rows if row.startswith("-"))
        after = "\n".join(row[1:].strip() for row in rows if row.startswith("+"))
        return (
            mutant.function.endswith(self.function)
            and self.old in before
            and (not self.new or any(new in after for new in self.new))
        )


KNOWN: tuple[Known, ...] = ()


def explain(mutant: Mutant) -> tuple[Why, str]:
    """Why a mutant survives."""
    for known in KNOWN:
        if known.fits(mutant):
            return known.why, known.reason
    return UNSEEN, ""

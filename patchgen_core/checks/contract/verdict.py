"""What the rules say of a config."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen_core.errors import Problem


@dataclass(frozen=True)
class Verdict:
    """What the rules say of one config.

    Attributes:
        errors, warnings: what they found.
        allowed: what they found and the config allows, each with the reason.
    """

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    allowed: tuple[tuple[Problem, str], ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is allowed, as reports say it."""
        return tuple(f"allowed: {problem.title} ({reason})" for problem, reason in self.allowed)

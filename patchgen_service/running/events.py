"""What a run tells while it goes, in this order: that it has started, results and files, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from patchgen_service.database.words import ArtifactKind

Ending = Literal["finished", "infrastructure_error", "timed_out", "cancelled"]
"""How a run ended. What a ``finished`` one came to, such as ``drifted``, is worked out from its results."""


@dataclass(frozen=True)
class Started:
    """The gate begins over a project.

    Attributes:
        items: how many items the project has.
        python, device: the version of Python, and where models run.
        packages: versions of what is installed in the environment, by name.
    """

    run: str
    project: str
    items: int
    python: str = ""
    device: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ResultArrived:
    """A result of a project, packed as :func:`patchgen_core.checks.result.pack` does it."""

    run: str
    project: str
    result: Mapping[str, Any]


@dataclass(frozen=True)
class FileArrived:
    """A file that belongs to the run; ``name`` is a path from the repository's root where it has one there."""

    run: str
    kind: ArtifactKind
    name: str
    content: bytes


@dataclass(frozen=True)
class Ended:
    """The run is over; ``message`` says in a sentence why it is not finished."""

    run: str
    ending: Ending
    message: str = ""


Event = Started | ResultArrived | FileArrived | Ended
Tell = Callable[[Event], None]
"""Takes what a run tells; it may be told the same result or file again."""

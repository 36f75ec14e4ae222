"""Configs with one defect: a change of a text, and what comes of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """One change of a file.

    Attributes:
        operator: what kind of defect it is.
        start, end: the part of the text that changes.
        new: what stands there afterwards.
        node: what is changed.
    """

    operator: str
    start: int
    end: int
    new: str
    node: ast.AST


@dataclass(frozen=True)
class Mutant:
    """A file with one defect.

    Attributes:
        operator: what kind of defect it is.
        place: the patch that has it, as upstream names it, and what of the patch where the rules are asked.
        text: the file with the defect.
    """

    operator: str
    place: str
    text: str


@dataclass(frozen=True)
class Expected:
    """A finding that a rule owes.

    Attributes:
        target: what it is about; empty for anything.
        mentions: what its message has; one of them is enough.
        node: the code that it points at; empty for any.
    """

    target: str
    mentions: tuple[str, ...]
    node: str = ""


@dataclass(frozen=True)
class RuleMutant(Mutant):
    """A config that breaks a contract.

    Attributes:
        rule: the code of the rule that should find it.
        expected: the findings that are owed.
    """

    rule: str
    expected: tuple[Expected, ...]


@dataclass(frozen=True)
class CodeMutant(Mutant):
    """A config whose code computes something else.

    Attributes:
        function: what the config calls the code.
        path, line: the file that the code stands in, and the line of the defect.
        diff: the change.
        slots: the slots that must be bound (True), or must not be, for the code to run.
    """

    function: str
    path: Path
    line: int
    diff: str
    slots: tuple[tuple[str, bool], ...]

"""Other statements in the place of one of a config, or below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from patchgen_core.authoring.edits.config_file import Changes, EditedFile


@dataclass(frozen=True)
class StatementsInstead:
    """Puts statements, or none, into the place of one, below the comments above it; two lines apart where one is a
    definition."""

    texts: tuple[str, ...]

    def __call__(self, updated: Any) -> cst.FlattenSentinel[cst.BaseStatement]:
        """What takes a statement's place."""
        statements: list[cst.BaseStatement] = []
        is_definition = isinstance(updated, cst.FunctionDef)
        for text in self.texts:
            [statement] = cst.parse_module(text).body
            was_definition, is_definition = is_definition, isinstance(statement, cst.FunctionDef)
            lines = [cst.EmptyLine(indent=False)] * (2 if is_definition or was_definition else 0)
            if not statements:
                blank = sum(line.comment is None for line in updated.leading_lines)
                lines = [*lines[2 if was_definition else blank :], *updated.leading_lines]
            statements.append(statement.with_changes(leading_lines=lines))
        return cst.FlattenSentinel(statements)


@dataclass(frozen=True)
class StatementsBelow:
    """Adds statements below one."""

    texts: tuple[str, ...]

    def __call__(self, updated: Any) -> cst.FlattenSentinel[cst.BaseStatement]:
        """The statement with those below it."""
        return cst.FlattenSentinel([updated, *(cst.parse_module(text).body[0] for text in self.texts)])


def replace_statement(file: EditedFile, line: int, texts: Sequence[str]) -> Changes | None:
    """The change that puts others into the place of the statement of a file that a line starts or lies in.

    Returns:
        None where there is none of the module itself, or a function that several decorators declare.
    """
    for node in file.module.body:
        position = file.positions[node]
        if isinstance(node, cst.FunctionDef):
            if position.start.line == line and len(node.decorators) == 1:
                return {node: StatementsInstead(tuple(texts))}
        elif isinstance(node, cst.SimpleStatementLine) and position.start.line <= line <= position.end.line:
            return {node: StatementsInstead(tuple(texts))} if len(node.body) == 1 else None
    return None


def add_below(file: EditedFile, line: int, texts: Sequence[str]) -> Changes | None:
    """The change that adds statements below the one of a file that a line lies in; they begin with the name that this
    one assigns.

    Returns:
        None where there is none of the module itself that assigns this name.
    """
    name = texts[0].partition(".")[0]
    for node in file.module.body:
        position = file.positions[node]
        if isinstance(node, cst.SimpleStatementLine) and position.start.line <= line <= position.end.line:
            statement = node.body[0]
            targets = statement.targets if isinstance(statement, cst.Assign) else ()
            names = [target.target.value for target in targets if isinstance(target.target, cst.Name)]
            if len(node.body) != 1 or names != [name]:
                return None
            return {node: StatementsBelow(tuple(texts))}
    return None

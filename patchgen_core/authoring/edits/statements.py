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


@dataclass(frozen=True)
class TakenOver:
    """Gives a statement the comments that stand above another one, and the description that this one's call gives."""

    above: tuple[cst.EmptyLine, ...]
    description: cst.Arg | None

    def __call__(self, updated: Any) -> Any:
        """The statement with them; of several, the first."""
        if isinstance(updated, cst.FlattenSentinel):
            first, *others = [*updated] or [None]
            return updated if first is None else cst.FlattenSentinel([self(first), *others])
        call = _declaring_call(updated)
        if self.description is not None and call is not None and _description(call) is None:
            updated = updated.deep_replace(call, _with_argument(call, self.description))
        if not any(line.comment is not None for line in self.above):
            return updated
        own = [*updated.leading_lines]
        count = next((n for n, line in enumerate(own) if line.comment is not None), len(own))
        blank = next((n for n, line in enumerate(self.above) if line.comment is not None), 0)
        lines = [*own[:count], *self.above[blank:], *own[count:]]
        return updated.with_changes(leading_lines=lines)


def _declaring_call(node: Any) -> cst.Call | None:
    """The call that declares something: a statement of its own, or the one decorator of a function."""
    if isinstance(node, cst.FunctionDef):
        decorators = [decorator.decorator for decorator in node.decorators]
        return decorators[0] if len(decorators) == 1 and isinstance(decorators[0], cst.Call) else None
    statement = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
    value = statement.value if isinstance(statement, cst.Expr) else None
    return value if isinstance(value, cst.Call) else None


def _description(call: cst.Call) -> cst.Arg | None:
    return next((a for a in call.args if a.keyword is not None and a.keyword.value == "description"), None)


def _with_argument(call: cst.Call, argument: cst.Arg) -> cst.Call:
    """A call with one more argument, laid out as its last one."""
    *others, last = call.args
    between = others[-1].comma if others else None
    comma = between if isinstance(between, cst.Comma) else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    added = argument.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    last = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*others, last, added])


def delete_statement(file: EditedFile, line: int, heir: int | None = None) -> Changes | None:
    """The change that takes out the statement, or the decorated function, that declares something at a line; the one
    at the line ``heir`` takes over the comments above it and its description.

    Returns:
        None where that is no statement of the module itself, or declares several things.
    """
    going = _declaring(file, line)
    taking = _declaring(file, heir) if heir is not None else None
    if going is None or (heir is not None and taking is None):
        return None
    changes: dict[cst.CSTNode, Any] = {going: StatementsInstead(())}
    if taking is not None:
        call = _declaring_call(going)
        changes[taking] = TakenOver(tuple(going.leading_lines), _description(call) if call is not None else None)
    return changes


def _declaring(file: EditedFile, line: int) -> cst.FunctionDef | cst.SimpleStatementLine | None:
    for node in file.module.body:
        position = file.positions[node]
        if isinstance(node, cst.FunctionDef) and position.start.line == line:
            return node if len(node.decorators) == 1 else None
        is_there = isinstance(node, cst.SimpleStatementLine) and position.start.line <= line <= position.end.line
        if is_there and isinstance(node, cst.SimpleStatementLine):
            return node if _declaring_call(node) is not None else None
    return None


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

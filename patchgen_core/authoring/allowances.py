"""Findings that a project accepts, written into its configs as calls of ``allow``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst
import libcst.matchers as m

from patchgen_core.authoring.edits.config_file import ConfigFiles, EditedFile
from patchgen_core.authoring.edits.literals import literal
from patchgen_core.checks.contract.rules import ALLOWANCE
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.files import write_files

_WIDTH = 119
_CLASS = m.Name("PatchConfig")
_NEW = m.Call(func=_CLASS | m.Attribute(attr=_CLASS))


@dataclass(frozen=True)
class NewAllowances:
    """Allowances to write.

    Attributes:
        files: the files that get some, as they will be.
        written: the allowances, as ``config: PG201 of 'Norm.forward'``.
        refused: what cannot be allowed by an edit, and why.
    """

    files: Mapping[Path, EditedFile] = field(default_factory=dict)
    written: tuple[str, ...] = ()
    refused: tuple[Problem, ...] = ()

    def write(self) -> None:
        """Write the files; a PatchgenError when that cannot be done."""
        write_files([(path, file.encoded) for path, file in self.files.items()])


def allow_errors(results: Iterable[CheckResult], reason: str) -> NewAllowances:
    """The allowances for the errors of contract rules, each with a reason; nothing is written.

    They stand below those that a config has, or else at the end of its file.
    """
    files, read = dict[Path, EditedFile](), ConfigFiles()
    written, refused = list[str](), list[Problem]()
    for result in results:
        path = Path(result.path)
        allowed: dict[tuple[str, str], None] = {}
        for problem in result.errors:
            if not problem.code or problem.code == ALLOWANCE.code:
                hint = "An allowance too many is removed by hand." if problem.code else "It is no rule's."
                refused.append(_refusal(problem, problem.location, f"cannot be allowed. {hint}"))
            else:
                allowed[problem.code, problem.target] = None
        if not allowed:
            continue
        try:
            file = files.get(path) or read.get(path)
            files[path] = _add_calls(file, result.line, [_arguments(*each, reason) for each in allowed])
            written += [f"{result.config}: {code}{f' of {target}' if target else ''}" for code, target in allowed]
        except PatchgenError as error:
            for problem in result.errors:
                refused.append(_refusal(problem, Location(str(path), result.line), error.problems[0].message))
    return NewAllowances(files, tuple(written), tuple(refused))


def _refusal(problem: Problem, location: Location | None, why: str) -> Problem:
    return Problem(f"not allowed: {problem.title}: {why}", location)


def _arguments(code: str, target: str, reason: str) -> list[str]:
    return [literal(code), literal(reason), *([literal(target)] if target else [])]


def _add_calls(file: EditedFile, line: int, calls: Iterable[list[str]]) -> EditedFile:
    """A file with calls of ``allow`` for the config that is made at a line.

    Raises:
        PatchgenError: the config is not what a name of the module is assigned on that line.
    """
    name = _name_of_config(file, line)
    body = list(file.module.body)
    after = max((n for n, statement in enumerate(body) if _is_allowance(statement, name)), default=len(body) - 1)
    statements = [cst.parse_statement(_call_text(name, arguments)) for arguments in calls]
    if not _is_allowance(body[after], name):
        is_block = isinstance(body[after], cst.BaseCompoundStatement)
        blank = [cst.EmptyLine(indent=False)] * (2 if is_block else 1)
        statements[0] = statements[0].with_changes(leading_lines=blank)
    return EditedFile(file.path, file.module.with_changes(body=[*body[: after + 1], *statements, *body[after + 1 :]]))


def _call_text(name: str, arguments: list[str]) -> str:
    text = f"{name}.allow({', '.join(arguments)})\n"
    if len(text) <= _WIDTH:
        return text
    return "\n".join([f"{name}.allow(", *(f"    {argument}," for argument in arguments), ")", ""])


def _name_of_config(file: EditedFile, line: int) -> str:
    for statement in file.module.body:
        position = file.positions[statement]
        if not position.start.line <= line <= position.end.line or not isinstance(statement, cst.SimpleStatementLine):
            continue
        for part in statement.body:
            target: cst.BaseExpression | None = part.target if isinstance(part, cst.AnnAssign) else None
            if isinstance(part, cst.Assign) and len(part.targets) == 1:
                target = part.targets[0].target
            if isinstance(target, cst.Name) and m.matches(
                part, m.OneOf(m.Assign(value=_NEW), m.AnnAssign(value=_NEW))
            ):
                return target.value
    raise PatchgenError("its config is not made by an assignment of the module; call allow() by hand")


def _is_allowance(statement: cst.CSTNode, name: str) -> bool:
    """Whether a statement is a call of ``allow`` of a config."""
    call = m.Call(func=m.Attribute(value=m.Name(name), attr=m.Name("allow")))
    return m.matches(statement, m.SimpleStatementLine(body=[m.Expr(call)]))

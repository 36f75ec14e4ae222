"""What a fork changes in a class statement beside its methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen_core.authoring.edits.literals import literal
from patchgen_core.syntax.forms import PROSE, form
from patchgen_core.syntax.index import assigned_names
from patchgen_core.syntax.nodes import FUNCTIONS, docstring_of, is_filler
from patchgen_core.syntax.source import SourceFile


@dataclass(frozen=True)
class ClassDifference:
    """Edits of a class statement.

    Attributes:
        dropped, decorators: the names of decorators that go, and decorators that come.
        bases: those that come in front of upstream's.
        replaced: expressions of upstream's, with what takes their place.
        deleted: statements of the body that go.
        body: statements that come, or take the place of those of their names.
    """

    dropped: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    deleted: tuple[str, ...] = ()
    body: tuple[str, ...] = ()


def compare_classes(
    upstream: SourceFile, ours: ast.ClassDef, fork: SourceFile, theirs: ast.ClassDef
) -> ClassDifference | None:
    """The edits that make a fork's class statement of upstream's; None where no edits do."""
    if [ast.dump(k) for k in ours.keywords] != [ast.dump(k) for k in theirs.keywords]:
        return None
    body = _body(ours, fork, theirs)
    if body is None:
        return None
    bases, replaced, gone = _bases(upstream, ours, fork, theirs)
    before, after = list(map(ast.unparse, ours.decorator_list)), list(map(ast.unparse, theirs.decorator_list))
    dropped = tuple(dict.fromkeys(_name(text) for text in before if text not in after))
    kept = [text for text in before if _name(text) not in dropped]
    decorators = tuple(f"@{fork.segment(d)}" for d in theirs.decorator_list if ast.unparse(d) not in kept)
    return ClassDifference(dropped, decorators, bases, replaced, (*gone, *body[0]), body[1])


def declare_edits(holder: str, name: str, difference: ClassDifference, own: str) -> Iterator[tuple[str, str, str]]:
    """The declarations of a class statement's edits, each with the code in it that is copied, and with a word for what
    it does.

    Args:
        holder: the variable of the config.
        own: what the config's file calls a class with what comes.
    """
    if difference.dropped:
        names = ", ".join(map(literal, (name, *difference.dropped)))
        yield f"{holder}.drop_decorators({names})\n", "", "without decorators"
    for code in difference.deleted:
        yield f"{holder}.delete_code({literal(name)}, {literal(code)})\n", "", "edited"
    for old, new in difference.replaced:
        yield f"{holder}.replace_code({literal(name)}, {literal(old)}, {literal(new)})\n", "", "edited"
    if difference.body or difference.bases or difference.decorators:
        bases = f"({', '.join(difference.bases)})" if difference.bases else ""
        body = "\n".join(f"    {line}" if line else "" for line in (*difference.body, "..."))
        head = "".join(f"{decorator}\n" for decorator in difference.decorators)
        text = f"{head}class {own}{bases}:\n{body}\n"
        yield f"@{holder}.edit_class({literal(name)})\n{text}", text, "edited"


def _bases(
    upstream: SourceFile, ours: ast.ClassDef, fork: SourceFile, theirs: ast.ClassDef
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The bases that come in front of upstream's, those that take the place of others, and those that go."""
    old, new = [upstream.segment(base) for base in ours.bases], [fork.segment(base) for base in theirs.bases]
    gone, come = [base for base in old if base not in new], [base for base in new if base not in old]
    pairs = list(zip(gone, come, strict=False))
    return tuple(come[len(pairs) :]), tuple(pairs), tuple(gone[len(pairs) :])


def _body(
    ours: ast.ClassDef, fork: SourceFile, theirs: ast.ClassDef
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The statements that go and those that come; None for others than assignments and classes."""
    before = {form(s, ignore=PROSE): s for s in _own(ours)}
    after = {form(s, ignore=PROSE): s for s in _own(theirs)}
    new = [s for key, s in after.items() if key not in before]
    gone = [s for key, s in before.items() if key not in after]
    names = {name for statement in new for name in assigned_names(statement)}
    if not all(isinstance(s, ast.ClassDef) or _is_attribute(s) for s in new):
        return None
    deleted = tuple(ast.unparse(s) for s in gone if not set(assigned_names(s)) & names)
    lines = []
    for statement in new:
        first, last = fork.comment_line(statement), fork.last_line(statement)
        indent = len(fork.indent(statement.lineno))
        lines += [line[indent:] for line in fork.lines[first - 1 : last]]
    return deleted, tuple(lines)


def _is_attribute(statement: ast.stmt) -> bool:
    return bool(assigned_names(statement)) and isinstance(statement, (ast.Assign, ast.AnnAssign))


def _own(node: ast.ClassDef) -> list[ast.stmt]:
    docstring = docstring_of(node)
    return [s for s in node.body if not isinstance(s, FUNCTIONS) and s is not docstring and not is_filler(s)]


def _name(decorator: str) -> str:
    return decorator.partition("(")[0]

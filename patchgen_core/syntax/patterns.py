"""Patterns of source: pieces of Python that are found by their syntax.

Layout, quotes and comments do not matter. In a pattern, ``...`` stands for any statements where it is a statement, for
any arguments in a call, for any items in a list, tuple or set, and for any one expression anywhere else. ``$NAME``
stands for an expression, the same one wherever it comes again. Keyword arguments may come in any order. A statement
that ends with its colon is found by this first line alone, and an assignment with or without its annotation. A key and
a value with a colon between them are an item of a dict.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchgen_core.syntax.nodes import blocks, has_elif

_METAVARIABLE = re.compile(r"\$([A-Za-z_]\w*)")
_STAND_IN = "_metavariable_"
_UNSAID = frozenset(["ctx", "type_comment", "kind", "simple"])
_BLOCKS = frozenset(["body", "orelse", "finalbody", "handlers", "cases"])


class PatternError(ValueError):
    """A text that is no pattern, and why."""


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern.

    Attributes:
        is_header: whether its last statement stands for any with the same first line.
        is_item: whether its one expression, a dict of one item, stands for such an item of any dict.
    """

    text: str
    statements: tuple[ast.stmt, ...]
    is_header: bool = False
    is_item: bool = False

    @property
    def expression(self) -> ast.expr | None:
        """The expression that is all of it."""
        only = self.statements[0] if len(self.statements) == 1 else None
        return only.value if isinstance(only, ast.Expr) else None


@dataclass(frozen=True)
class Match:
    """A place where a pattern is: the statements that follow each other there, the one expression, or key and value.

    Attributes:
        names: what each metavariable stands for.
        calls: the call for each call of the pattern whose arguments hold ``...``, by the ``id`` of that.
    """

    nodes: tuple[ast.AST, ...]
    names: Mapping[str, ast.AST] = field(default_factory=dict)
    calls: Mapping[int, ast.Call] = field(default_factory=dict)

    def with_name(self, name: str, node: ast.AST) -> Match:
        """The same match, with what one more metavariable stands for."""
        return Match(self.nodes, {**self.names, name: node}, self.calls)

    def with_call(self, pattern: ast.Call, call: ast.Call) -> Match:
        """The same match, with the call that one of the pattern stands for."""
        return Match(self.nodes, self.names, {**self.calls, id(pattern): call})

    def of(self, *nodes: ast.AST) -> Match:
        """The same match, at these nodes."""
        return Match(nodes, self.names, self.calls)


@functools.lru_cache(maxsize=512)
def parse_pattern(text: str) -> Pattern:
    """Read a pattern; a PatternError says what is wrong with it."""
    plain = textwrap.dedent(text).strip()
    if re.match(r"(else|elif|except|finally|case)\b", plain):
        raise PatternError("it is a part of a statement: start with the 'if', 'try' or 'match' that it belongs to")
    is_header = plain.endswith(":")
    code = stand_in(plain)
    items = None if is_header else dict_items(code)
    if items is not None:
        if len(items.keys) > 1:
            raise PatternError("it has several items of a dict: one is enough to find them")
        return Pattern(plain, (ast.Expr(items),), is_item=True)
    if is_header:
        code += " ...\nfinally: ..." if re.search(r"(^|\n)\s*try\s*:\Z", plain) else " ..."
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError) as error:
        raise PatternError(f"it is not valid Python: {getattr(error, 'msg', error)}") from None
    if not statements:
        raise PatternError("it is empty")
    if is_rest(statements[0]) or is_rest(statements[-1]):
        raise PatternError("it must not start or end with '...', which could be any statements")
    return Pattern(plain, tuple(statements), is_header)


def parse_quoted(text: str) -> list[ast.stmt]:
    """The statements of code in quotes, in which items of a dict are one; a SyntaxError where it is no Python."""
    code = stand_in(text)
    items = dict_items(code.strip())
    return [ast.Expr(items)] if items is not None else ast.parse(code).body


def dict_items(code: str) -> ast.Dict | None:
    """The items of a dict that a piece of source is, keys and values with a colon between; None for other source."""
    with contextlib.suppress(SyntaxError, ValueError):
        ast.parse(code)
        return None
    with contextlib.suppress(SyntaxError, ValueError):
        (statement,) = ast.parse(f"{{{code}}}").body
        node = statement.value if isinstance(statement, ast.Expr) else None
        return node if isinstance(node, ast.Dict) and node.keys and None not in node.keys else None
    return None


def stand_in(text: str) -> str:
    """A text whose metavariables are ordinary names, so that it can be parsed."""
    return _METAVARIABLE.sub(rf"{_STAND_IN}\1", text)


def with_metavariables(text: str) -> str:
    """A text of ordinary names that stand for metavariables, with these."""
    return text.replace(_STAND_IN, "$")


def metavariable(node: ast.AST) -> str:
    """The metavariable that a node of a parsed pattern is; empty for any other node."""
    name = node.id if isinstance(node, ast.Name) else ""
    return name.removeprefix(_STAND_IN) if name.startswith(_STAND_IN) else ""


def is_rest(node: ast.AST) -> bool:
    """Whether a node is ``...``, as a statement or as an expression."""
    value = node.value if isinstance(node, ast.Expr) else node
    return isinstance(value, ast.Constant) and value.value is Ellipsis


def arguments_of(call: ast.Call) -> list[ast.expr | ast.keyword]:
    """The arguments of a call in the order in which they are written."""
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    return sorted(arguments, key=lambda argument: (argument.lineno, argument.col_offset))


def find_statements(pattern: Pattern, node: ast.AST) -> list[Match]:
    """The places inside a node, at any depth, where the statements of a pattern stand one after the other."""
    matches = []
    for block in _blocks_inside(node):
        for start in range(len(block)):
            match = next(_match_run(pattern.statements, block[start:], Match(()), pattern.is_header), None)
            if match is not None:
                matches.append(match[1].of(*block[start : start + match[0]]))
    return matches


def find_expressions(pattern: Pattern, node: ast.AST) -> list[Match]:
    """The expressions inside a node, at any depth, that a pattern of one stands for; what is assigned to is none."""
    expression = pattern.expression
    assert expression is not None
    if pattern.is_item and isinstance(expression, ast.Dict):
        return list(_find_items(expression, node))
    inside = (inner for inner in ast.walk(node) if isinstance(inner, ast.expr))
    values = (inner for inner in inside if isinstance(getattr(inner, "ctx", None), (ast.Load, type(None))))
    matches = ((inner, match_node(expression, inner)) for inner in values)
    return [match.of(inner) for inner, match in matches if match is not None]


def _find_items(pattern: ast.Dict, node: ast.AST) -> Iterator[Match]:
    """The items of dicts inside a node, each as its key and its value."""
    for inner in ast.walk(node):
        for key, value in zip(inner.keys, inner.values) if isinstance(inner, ast.Dict) else ():
            match = _match_pairs([(pattern.keys[0], key), (pattern.values[0], value)], Match(()))
            if match is not None and key is not None:
                yield match.of(key, value)


def match_node(pattern: ast.AST, node: ast.AST, match: Match | None = None) -> Match | None:
    """What the metavariables stand for if a pattern stands for a node; None if it does not."""
    match = match or Match(())
    name = metavariable(pattern)
    if name and isinstance(node, ast.expr):
        bound = match.names.get(name)
        if bound is None:
            return match.with_name(name, node)
        return match if match_node(bound, node) is not None else None
    if is_rest(pattern) and isinstance(node, ast.expr):
        return match
    if isinstance(pattern, ast.Assign) and isinstance(node, ast.AnnAssign) and len(pattern.targets) == 1:
        pairs: list[tuple[Any, Any]] = [(pattern.targets[0], node.target), (pattern.value, node.value)]
        return _match_pairs(pairs, match) if node.value is not None else None
    if type(pattern) is not type(node):
        return None
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
        return _match_call(pattern, node, match)
    fields = [name for name in pattern._fields if name not in _UNSAID]
    return _match_pairs([(getattr(pattern, name, None), getattr(node, name, None)) for name in fields], match)


def _match_pairs(pairs: Sequence[tuple[Any, Any]], match: Match) -> Match | None:
    for ours, theirs in pairs:
        after = _match_value(ours, theirs, match)
        if after is None:
            return None
        match = after
    return match


def _match_value(ours: Any, theirs: Any, match: Match) -> Match | None:
    if isinstance(ours, list):
        if not isinstance(theirs, list):
            return None
        runs = (after for end, after in _match_run(ours, theirs, match) if end == len(theirs))
        return next(runs, None)
    if isinstance(ours, ast.AST):
        return match_node(ours, theirs, match) if isinstance(theirs, ast.AST) else None
    if isinstance(ours, str) and isinstance(theirs, str):
        return match if ours.replace(_STAND_IN, "$") == theirs else None
    return match if type(ours) is type(theirs) and ours == theirs else None


def _match_run(
    patterns: Sequence[Any], nodes: Sequence[Any], match: Match, is_header: bool = False, start: int = 0
) -> Iterator[tuple[int, Match]]:
    """The ways in which patterns stand for the first of some nodes: how many they are, few before many."""
    if not patterns:
        yield start, match
    elif isinstance(patterns[0], ast.AST) and is_rest(patterns[0]):
        for end in range(start, len(nodes) + 1):
            yield from _match_run(patterns[1:], nodes, match, is_header, end)
    elif start < len(nodes):
        match_one = _match_header if is_header and len(patterns) == 1 else _match_value
        after = match_one(patterns[0], nodes[start], match)
        if after is not None:
            yield from _match_run(patterns[1:], nodes, after, is_header, start + 1)


def _match_header(pattern: Any, node: Any, match: Match) -> Match | None:
    """As for two statements, with whatever stands below their first lines."""
    if type(pattern) is not type(node):
        return None
    fields = [name for name in pattern._fields if name not in (_UNSAID | _BLOCKS)]
    return _match_pairs([(getattr(pattern, name, None), getattr(node, name, None)) for name in fields], match)


def _match_call(pattern: ast.Call, call: ast.Call, match: Match) -> Match | None:
    """Positional arguments count in their order, keywords by their names; ``...`` is for more of both."""
    has_rest = any(map(is_rest, pattern.args))
    after = _match_pairs([(pattern.func, call.func), (pattern.args, call.args)], match)
    left = list(call.keywords)
    for keyword in pattern.keywords:
        theirs = next((other for other in left if other.arg == keyword.arg), None)
        if theirs is None or after is None:
            return None
        left.remove(theirs)
        after = match_node(keyword.value, theirs.value, after)
    if after is None or (left and not has_rest):
        return None
    return after.with_call(pattern, call) if has_rest else after


@functools.lru_cache(maxsize=256)
def _blocks_inside(node: ast.AST) -> list[list[ast.stmt]]:
    """Every list of statements in a node, but for an ``elif``, which is no statement of its own.

    Edits look into the same functions again and again.
    """
    inside: list[list[ast.stmt]] = []
    for inner in ast.walk(node):
        if isinstance(inner, (ast.ExceptHandler, ast.match_case)):
            continue  # their blocks are those of the statement around them
        for block in blocks(inner):
            if not (isinstance(inner, ast.If) and block is inner.orelse and has_elif(inner)):
                inside.append(block)
    return inside


def nearest_code(pattern: Pattern, node: ast.AST, most: int = 3) -> list[ast.stmt | ast.expr]:
    """What is inside a node and reads most like a pattern that it does not hold, in the order in which it stands."""
    wanted = pattern.expression or pattern.statements[0]
    kind = ast.expr if isinstance(wanted, ast.expr) else ast.stmt
    text = _first_line(wanted).partition("...")[0]
    rows = []
    for number, inner in enumerate(ast.walk(node)):
        if isinstance(inner, kind) and inner is not node and not isinstance(inner, (ast.Name, ast.Constant)):
            start = _first_line(inner)[: len(text) + 5]
            likeness = difflib.SequenceMatcher(None, text, start).ratio()
            rows.append((likeness + (type(inner) is type(wanted)) / 10, -number, inner))
    rows.sort(key=lambda row: row[:2], reverse=True)
    nearest = [inner for likeness, _, inner in rows if likeness > max(0.55, rows[0][0] - 0.2)]
    return sorted(nearest[:most], key=lambda inner: (inner.lineno, inner.col_offset))


def _first_line(node: ast.AST) -> str:
    return with_metavariables(ast.unparse(node)).split("\n")[0]

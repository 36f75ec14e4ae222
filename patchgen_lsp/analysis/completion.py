"""What may stand at the cursor: targets in quotes, upstream's names, members, keyword arguments, codes of rules."""

from __future__ import annotations

import ast
import contextlib
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

from lsprotocol import types

from patchgen_core.checks.contract.run import EVERY_RULE
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.source import SourceFile, parse_source
from patchgen_lsp.analysis.declared import TARGETS, enclosing_target
from patchgen_lsp.analysis.signature_lines import describe_definition
from patchgen_lsp.analysis.slot_completion import TOLERATE, complete_slot, complete_tolerance
from patchgen_lsp.analysis.slots import BLOCKS, read_kernels
from patchgen_lsp.analysis.upstream_view import UpstreamView, view_upstream
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.places import make_range
from patchgen_lsp.request import Request

_KIND = types.CompletionItemKind
_ALLOW = "allow"
_OPEN, _CLOSED = "([{", ")]}"


@dataclass(frozen=True)
class Cursor:
    """What stands before the cursor.

    Attributes:
        word: the part of a dotted name, or of a string, that is typed already.
        is_string: whether that is inside quotes.
        calls: the names of the calls around it, the innermost last.
        argument: how many commas of the innermost call stand before it.
        keyword: the keyword that the argument is given by; empty for none.
        before: the texts in quotes that the innermost call has before it.
    """

    word: str
    is_string: bool
    calls: tuple[str, ...]
    argument: int
    keyword: str = ""
    before: tuple[str, ...] = ()

    @property
    def call(self) -> str:
        """The innermost call; empty for none."""
        return self.calls[-1] if self.calls else ""


def complete(bench: Workbench, request: Request) -> list[types.CompletionItem]:
    """What may be typed at the cursor."""
    text = bench.sources.text(request.path)
    source = _parse_around(bench, text, request)
    upstream = view_upstream(bench, source) if source is not None else None
    cursor = read_cursor(text, request.line, request.column)
    line = text.split("\n")[request.line] if text else ""
    if cursor.call in BLOCKS:
        quoted = cursor.word if "(" in cursor.word else line[: request.column]
        cursor = read_cursor(quoted, 0, len(quoted))
        items = list(complete_slot(read_kernels(bench), cursor.call, cursor.argument, cursor.keyword, cursor.before))
    else:
        items = list(_items(bench, cursor, source, upstream, request.line + 1))
        if cursor.is_string and cursor.call == TOLERATE and upstream is not None:
            items += complete_tolerance(read_kernels(bench), upstream, cursor.keyword)
    start = (request.line, request.column - len(cursor.word))
    place = make_range([""] * request.line + [line], start, (request.line, request.column), request.units)
    for item in items:
        item.text_edit = types.TextEdit(place, item.label)
        item.filter_text = item.label
    return items


def _parse_around(bench: Workbench, text: str, request: Request) -> SourceFile | None:
    """The file as it is, be it without the line that is typed; or as it last was valid Python."""
    with contextlib.suppress(PatchgenError):
        return bench.sources.get(request.path)
    lines = text.split("\n")
    typed = lines[request.line] if request.line < len(lines) else ""
    lines[request.line :] = [f"{typed[: len(typed) - len(typed.lstrip())]}...", *lines[request.line + 1 :]]
    try:
        return parse_source(request.path, "\n".join(lines))
    except PatchgenError:
        return bench.sources.last_valid(request.path)


def read_cursor(text: str, line: int, column: int) -> Cursor:
    """What stands before a place of a text, which need not be valid Python."""
    lines = text.split("\n")
    before = lines[line][:column] if line < len(lines) else ""
    calls: list[_OpenCall] = []
    last = ""
    quote = _open_quote(before)
    for token in _tokens([*lines[:line], before[:quote] if quote >= 0 else before]):
        if token.type == tokenize.OP and token.string in _OPEN:
            calls.append(_OpenCall(last if token.string == "(" else ""))
        elif token.type == tokenize.OP and token.string in _CLOSED and calls:
            calls.pop()
        elif calls:
            calls[-1].take(token, last)
        last = token.string if token.type == tokenize.NAME else ""
    word = before[quote + 1 :] if quote >= 0 else _dotted_end(before)
    inner = calls[-1] if calls else _OpenCall("")
    names = tuple(call.name for call in calls)
    return Cursor(word, quote >= 0, names, inner.argument, inner.keyword, tuple(inner.texts))


@dataclass
class _OpenCall:
    """A call whose parenthesis is open, as far as it is written."""

    name: str
    argument: int = 0
    keyword: str = ""
    texts: list[str] = field(default_factory=list)

    def take(self, token: tokenize.TokenInfo, previous: str) -> None:
        """Take note of a token inside it; ``previous`` is the name before it, if one is."""
        if token.string == ",":
            self.argument, self.keyword = self.argument + 1, ""
        elif token.string == "=" and previous:
            self.keyword = previous
        elif token.type == tokenize.STRING:
            self.texts.append(token.string.strip("\"'"))


def _tokens(lines: list[str]) -> Iterator[tokenize.TokenInfo]:
    """The tokens of a text as far as it has any: what is open at its end is no error."""
    try:
        yield from tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline)
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return


def _open_quote(before: str) -> int:
    """Where a string begins that a line leaves open; -1 for none."""
    start, quote = -1, ""
    for number, character in enumerate(before):
        if not quote and character in "\"'":
            start, quote = number, character
        elif character == quote and before[number - 1] != "\\":
            start, quote = -1, ""
        elif not quote and character == "#":
            return -1
    return start


def _dotted_end(before: str) -> str:
    start = len(before)
    while start and (before[start - 1].isalnum() or before[start - 1] in "._"):
        start -= 1
    return before[start:]


def _items(
    bench: Workbench, cursor: Cursor, source: SourceFile | None, upstream: UpstreamView | None, line: int
) -> Iterator[types.CompletionItem]:
    call = cursor.call
    if cursor.is_string:
        if call == _ALLOW and cursor.argument == 0:
            yield from _codes()
        elif upstream is not None and _takes_target(call, cursor.argument):
            yield from _targets(upstream, TARGETS.get(call, "any"))
        return
    if source is None or upstream is None:
        return
    inside = enclosing_target(source, line)
    if inside is None:
        return
    if cursor.word.startswith("self."):
        yield from _members(bench, upstream, inside.target.split(".")[0])
        return
    if call:
        yield from _keywords(upstream, inside.target.split(".")[0], call)
    if "." not in cursor.word:
        yield from _names(upstream)


def _takes_target(call: str, argument: int) -> bool:
    is_first = call in TARGETS and (argument == 0 or call == "exclude_from_output")
    return is_first or (call == _ALLOW and argument == 2)


def _codes() -> Iterator[types.CompletionItem]:
    for rule in EVERY_RULE:
        yield types.CompletionItem(rule.code, kind=_KIND.EnumMember, detail=rule.name, documentation=rule.reason)


def _targets(upstream: UpstreamView, kind: str) -> Iterator[types.CompletionItem]:
    for name, node in upstream.targets:
        is_class, is_method = isinstance(node, ast.ClassDef), "." in name
        own = "class" if is_class else "method" if is_method else "function"
        if kind in ("any", own):
            shape = _KIND.Class if is_class else _KIND.Method if is_method else _KIND.Function
            yield types.CompletionItem(name, kind=shape, detail=describe_definition(node))


def _members(bench: Workbench, upstream: UpstreamView, class_name: str) -> Iterator[types.CompletionItem]:
    """The methods of a class, and what its own methods and those of its bases assign to ``self``."""
    definitions = dict(upstream.source.definitions)
    names, members = [class_name], dict[str, str]()
    for name in names:
        node = definitions.get(name)
        if not isinstance(node, ast.ClassDef):
            continue
        names += [base.id for base in node.bases if isinstance(base, ast.Name) and base.id not in names]
        for each in ast.walk(node):
            if isinstance(each, FUNCTIONS):
                members.setdefault(each.name, describe_definition(each))
            if isinstance(each, ast.Assign):
                for target in map(ast.unparse, each.targets):
                    if target.startswith("self.") and target.count(".") == 1 and target[5:].isidentifier():
                        members.setdefault(target[5:], f"{name}: {target} = {ast.unparse(each.value)}"[:120])
    for member, detail in members.items():
        yield types.CompletionItem(f"self.{member}", kind=_KIND.Field, detail=detail)
    bases = upstream.outside_bases(class_name)
    for member, outside in bench.outer_bases.find(upstream.source, upstream.module, bases).items():
        if member not in members:
            last = f"~self.{member}"
            yield types.CompletionItem(f"self.{member}", kind=_KIND.Field, detail=outside.detail, sort_text=last)


def _keywords(upstream: UpstreamView, class_name: str, call: str) -> Iterator[types.CompletionItem]:
    """The keyword arguments of a call to a function of upstream's, to a class of it, or to a module that ``self``
    holds."""
    made = upstream.class_of_attribute(class_name, call)
    method = upstream.find_method(made, "forward") if made else upstream.find_method(class_name, call)
    node = method[1] if method is not None else upstream.find(call)
    if isinstance(node, ast.ClassDef):
        constructor = upstream.find_method(call, "__init__")
        node = constructor[1] if constructor is not None else None
    if isinstance(node, FUNCTIONS):
        for argument in (*node.args.args, *node.args.kwonlyargs):
            if argument.arg != "self":
                detail = ast.unparse(argument.annotation) if argument.annotation is not None else ""
                yield types.CompletionItem(f"{argument.arg}=", kind=_KIND.Variable, detail=detail)


def _names(upstream: UpstreamView) -> Iterator[types.CompletionItem]:
    index = upstream.source.index
    for name in index.names:
        node = upstream.find(name)
        kind = (
            _KIND.Class if isinstance(node, ast.ClassDef) else _KIND.Function if node is not None else _KIND.Variable
        )
        yield types.CompletionItem(name, kind=kind, detail=describe_definition(node) if node is not None else "")

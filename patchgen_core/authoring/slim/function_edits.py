"""What a new text of a function changes in upstream's, as the fewest edits."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain

from patchgen_core.authoring.slim.edit_texts import (
    REST,
    EditText,
    PlacedCode,
    QuotedEdit,
    deleted_code,
    replaced_code,
)
from patchgen_core.authoring.slim.parameters import NoEdits, parameter_edits
from patchgen_core.authoring.slim.statements import (
    block_pairs,
    comments_in,
    differing_expressions,
    gains_branches,
    head_of,
    inner_blocks,
    leaves,
)
from patchgen_core.syntax.forms import PROSE, form, is_same_syntax
from patchgen_core.syntax.nodes import COMPOUND, Function, without_docstring
from patchgen_core.syntax.patterns import find_expressions, parse_pattern
from patchgen_core.syntax.place_texts import find_place_text
from patchgen_core.syntax.source import SourceFile, shift

_LONG = 3
"""From so many lines on, a statement is changed by its expressions where that says it."""
_WORTH = 1.25
"""So much longer edits of single statements may be than one in the place of all of them."""


def find_edits(upstream: SourceFile, function: Function, new: SourceFile, keeps_order: bool = False) -> list[EditText]:
    """The edits that make the one function of ``new`` of upstream's, apart from docstring and annotations.

    Comments of upstream's that the new text left out come back; those that it has of its own are in the edits. Keyword
    arguments of a call may come in another order, unless ``keeps_order``.

    Raises:
        NoEdits: the signatures differ in more than parameters that one lacks, or a place cannot be told from others.
    """
    theirs = new.tree.body[0]
    assert isinstance(theirs, (ast.FunctionDef, ast.AsyncFunctionDef))
    if type(theirs) is not type(function):
        raise NoEdits("one is async and the other is not")
    differ = _Differ(upstream, function, new, keeps_order)
    parameters = list(parameter_edits(function, theirs, new))
    return [*parameters, *differ.compare(without_docstring(function), without_docstring(theirs), is_body=True)]


def bound_names(function: Function, new: SourceFile) -> list[str]:
    """The names that a new text of a function can use of it: parameters first, then what is bound, by lines."""
    theirs = new.tree.body[0]
    parameters = (node.arg for node in ast.walk(theirs) if isinstance(node, ast.arg))
    stores = (n for n in ast.walk(theirs) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    return list(dict.fromkeys([*parameters, *(n.id for n in sorted(stores, key=lambda n: (n.lineno, n.col_offset)))]))


@dataclass(frozen=True)
class _Part:
    """Lines of the new text: a statement with upstream's comments above it, or comments of its own."""

    key: str
    first: int
    last: int
    statement: ast.stmt | None = None


class _Differ:
    def __init__(self, upstream: SourceFile, function: Function, new: SourceFile, keeps_order: bool) -> None:
        self.upstream, self.function, self.new, self._keeps_order = upstream, function, new, keeps_order
        first, last = upstream.comment_line(function), upstream.last_line(function)
        self._comments = set(comments_in(upstream.lines[first - 1 : last]))
        self._changed = set[ast.stmt]()

    # --- blocks ------------------------------------------------------------------------------------

    def compare(self, ours: list[ast.stmt], theirs: list[ast.stmt], is_body: bool = False) -> Iterator[EditText]:
        """The edits of one block."""
        parts = list(self._parts(theirs))
        keys = [form(statement, ignore=PROSE) for statement in ours], [part.key for part in parts]
        codes = SequenceMatcher(None, *keys, autojunk=False).get_opcodes()
        self._changed.update(*(ours[i:j] for kind, i, j, _, _ in codes if kind != "equal"))
        for kind, i, j, k, m in codes:
            if kind == "insert":
                yield self._insert(ours, i, self._lines(parts[k:m]), is_body)
            elif kind == "delete":
                yield self._delete(ours, i, j)
            elif kind == "replace":
                yield from self._replace(ours, i, j, parts[k:m], is_body)

    def _parts(self, statements: Sequence[ast.stmt]) -> Iterator[_Part]:
        """Statements, and the comments above and below them that upstream's function lacks."""
        last = 0
        for statement in statements:
            above, first = self.new.comment_line(statement), self.new.first_line(statement)
            own = list(self._own_comments(last + 1 if last else above, first))
            yield from own
            last = self.new.last_line(statement)
            yield _Part(self._key(statement), max([above, *(part.last + 1 for part in own)]), last, statement)
        indent, end = self.new.indent(statements[0].lineno), last + 1
        while end <= len(self.new.lines) and self.new.lines[end - 1].startswith((f"{indent}#", f"{indent} ")):
            end += 1
        yield from self._own_comments(last + 1, end)

    def _own_comments(self, first: int, end: int) -> Iterator[_Part]:
        """Comments of some lines that upstream's function lacks, where they stand together."""
        lines = [(number, self.new.lines[number - 1].strip()) for number in range(first, end)]
        own = [(number, line) for number, line in lines if line.startswith("#") and line not in self._comments]
        while own:
            numbers, texts = zip(*[entry for n, entry in enumerate(own) if entry[0] == own[0][0] + n])
            yield _Part("\n".join(texts), numbers[0], numbers[-1])
            own = own[len(numbers) :]

    def _key(self, statement: ast.stmt) -> str:
        """A statement's form; another one where it has comments in it that upstream's function lacks."""
        lines = self.new.lines[self.new.first_line(statement) - 1 : self.new.last_line(statement)]
        own = [comment for comment in comments_in(lines) if comment not in self._comments]
        return form(statement, ignore=PROSE) + "".join(own)

    def _lines(self, parts: Sequence[_Part]) -> tuple[str, ...]:
        """Parts of the new text at column 0."""
        first, last = parts[0].first, parts[-1].last
        lines = self.new.lines[first - 1 : last]
        keep = {number - first for number in self.new.string_lines}
        indent = self.new.indent(first)
        if not all(line.startswith(indent) or not line.strip() or n in keep for n, line in enumerate(lines)):
            raise NoEdits("several statements share a line")
        return tuple(shift(lines, indent, "", keep))

    def _insert(self, ours: list[ast.stmt], number: int, lines: tuple[str, ...], is_body: bool) -> PlacedCode:
        if is_body and number == 0:
            return PlacedCode("", (*lines, REST))
        if number and not leaves(ours[number - 1]):
            place = self._try_place(ours[number - 1 : number])
            if place:
                return PlacedCode(place, (REST, *lines))
        if number == len(ours):
            raise NoEdits("no place in upstream's code is right before the addition")
        return PlacedCode(self._place(ours[number : number + 1]), (*lines, REST))

    def _replace(self, block: list[ast.stmt], i: int, j: int, parts: list[_Part], is_body: bool) -> Iterator[EditText]:
        """The edits that make other parts of statements ``i`` to ``j`` of a block."""
        ours = block[i:j]
        statements = [part for part in parts if part.statement is not None]
        around = self._around(ours, parts)
        if around is not None:
            yield around
        elif len(ours) == 1 and len(statements) == 1:
            at = parts.index(statements[0])
            if at:
                yield self._insert(block, i, self._lines(parts[:at]), is_body)
            assert statements[0].statement is not None
            yield from self._replace_one(block, i, statements[0].statement)
            if parts[at + 1 :]:
                yield self._insert(block, j, self._lines(parts[at + 1 :]), is_body)
        elif len(ours) == len(parts) == len(statements):
            for number, part in enumerate(statements, i):
                assert part.statement is not None
                yield from self._replace_one(block, number, part.statement)
        elif statements:
            whole = self._placed(block, i, j, self._lines(parts))
            pairs = list(self._replace_alike(block, i, j, parts, is_body))
            is_short = sum(edit.size for edit in pairs) < whole.size * _WORTH
            yield from pairs if pairs and is_short else [whole]
        else:
            yield self._insert(block, i, self._lines(parts), is_body)
            yield self._delete(block, i, j)

    def _delete(self, block: list[ast.stmt], i: int, j: int) -> EditText:
        place = self._try_place(block[i:j])
        return deleted_code(place) if place else self._placed(block, i, j, ())

    def _placed(self, block: list[ast.stmt], i: int, j: int, lines: tuple[str, ...]) -> PlacedCode:
        """Lines in the place of statements ``i`` to ``j`` of a block, and of one beside them where only that tells
        them from others; it is repeated then."""
        for start, end in ((i, j), (i - 1, j), (i, j + 1)):
            beside = [*block[max(0, start) : i], *block[j:end]]
            if start < 0 or end > len(block) or any(n in self._changed or isinstance(n, COMPOUND) for n in beside):
                continue
            place = self._try_place(block[start:end])
            if place and start < i:
                return PlacedCode(place, (*self._upstream_lines(block[start], block[i], lines), *lines))
            if place:
                return PlacedCode(place, (*lines, *(line for n in beside for line in self._upstream_lines(n))))
        raise NoEdits(f"upstream's line {block[i].lineno} is the same as others")

    def _upstream_lines(
        self, statement: ast.stmt, below: ast.stmt | None = None, lines: Sequence[str] = ()
    ) -> list[str]:
        """A statement of upstream's at column 0: with the comments above it, or with those above the next statement
        unless ``lines``, which come in the place of that, begin with one."""
        upstream = self.upstream
        if below is None:
            first, last = upstream.comment_line(statement), upstream.last_line(statement)
        else:
            has_comment = bool(lines) and lines[0].lstrip().startswith("#")
            first = upstream.first_line(statement)
            last = upstream.last_line(statement) if has_comment else upstream.first_line(below) - 1
        keep = {number - first for number in upstream.string_lines}
        return shift(upstream.lines[first - 1 : last], upstream.indent(statement.lineno), "", keep)

    def _replace_alike(
        self, block: list[ast.stmt], i: int, j: int, parts: list[_Part], is_body: bool
    ) -> Iterator[EditText]:
        """The edits of statements of which some begin as those that take their places do; none where none do."""
        ours = block[i:j]
        heads = [head_of(statement) for statement in ours], [head_of(part.statement) for part in parts]
        codes = SequenceMatcher(None, *heads, autojunk=False).get_opcodes()
        if not any(kind == "equal" for kind, *_ in codes):
            return
        for kind, k, m, p, q in codes:
            if kind == "equal":
                for number, part in enumerate(parts[p:q], i + k):
                    assert part.statement is not None
                    yield from self._replace_one(block, number, part.statement)
            elif kind == "insert":
                yield self._insert(block, i + k, self._lines(parts[p:q]), is_body)
            elif kind == "delete":
                yield self._delete(block, i + k, i + m)
            else:
                yield from self._replace(block, i + k, i + m, parts[p:q], is_body)

    def _replace_one(self, block: list[ast.stmt], number: int, theirs: ast.stmt) -> Iterator[EditText]:
        ours = block[number]
        if form(ours, ignore=PROSE) == self._key(theirs):
            return
        pairs = block_pairs(ours, theirs)
        if pairs is not None:
            yield from chain.from_iterable(self.compare(one, other) for one, other in pairs)
            return
        if isinstance(ours, ast.If) and isinstance(theirs, ast.If) and gains_branches(ours, theirs):
            yield from self._branches(ours, theirs)
            return
        if self.upstream.last_line(ours) - ours.lineno + 1 >= _LONG:
            try:
                replaced = list(self._replaced_code(ours, theirs))
            except NoEdits:
                pass
            else:
                yield from replaced
                return
        first = self.new.first_line(theirs)
        part = _Part("", first, self.new.last_line(theirs), theirs)
        yield self._placed(block, number, number + 1, self._lines([part]))

    def _branches(self, ours: ast.If, theirs: ast.If) -> Iterator[EditText]:
        """The edits of an ``if`` that has an ``elif`` or an ``else`` now."""
        yield from self.compare(ours.body, theirs.body)
        first = self.new.last_line(theirs.body[-1]) + 1
        lines = self.new.lines[first - 1 : self.new.last_line(theirs)]
        keep = {number - first for number in self.new.string_lines}
        own = shift(lines, self.new.indent(theirs.lineno), "", keep)
        yield PlacedCode(self._place([ours]), ("if ...:", f"    {REST}", *own))

    def _around(self, ours: list[ast.stmt], parts: list[_Part]) -> PlacedCode | None:
        """Upstream's statements, as they are, inside of one block of new code."""
        wanted = [form(statement, ignore=PROSE) for statement in ours]
        place = self._try_place(ours)
        if not place:
            return None
        for block in chain.from_iterable(inner_blocks(p.statement) for p in parts if p.statement is not None):
            inner = list(self._parts(block))
            keys = [part.key for part in inner]
            for start in range(len(keys) - len(wanted) + 1):
                if keys[start : start + len(wanted)] == wanted:
                    return PlacedCode(place, self._with_rest(parts, inner[start : start + len(wanted)]))
        return None

    def _with_rest(self, parts: list[_Part], kept: Sequence[_Part]) -> tuple[str, ...]:
        lines, first = self._lines(parts), parts[0].first
        indent = self.new.indent(kept[0].first).removeprefix(self.new.indent(first))
        return (*lines[: kept[0].first - first], f"{indent}{REST}", *lines[kept[-1].last - first + 1 :])

    # --- expressions -------------------------------------------------------------------------------

    def _replaced_code(self, ours: ast.stmt, theirs: ast.stmt) -> Iterator[QuotedEdit]:
        """A changed statement by the expressions that differ; a NoEdits where their text does not tell their place."""
        if self._key(theirs) != form(theirs, ignore=PROSE):
            raise NoEdits("it has a comment")
        for one, other in differing_expressions(ours, theirs):
            items = self._item_texts(one, other)
            texts = self._argument_texts(one, other) or (self.upstream.segment(one), self.new.segment(other))
            for place, old, new in items or [(one, *texts)]:
                if "\n" in old or "\n" in new or not self._is_only_expression(old, place):
                    raise NoEdits("the place of an expression is ambiguous")
                yield replaced_code(old, new)

    def _item_texts(self, ours: ast.expr, theirs: ast.expr) -> list[tuple[ast.expr, str, str]]:
        """The items of a dict that have other values: the key of each, and the old and the new item."""
        if not isinstance(ours, ast.Dict) or not isinstance(theirs, ast.Dict) or None in ours.keys:
            return []
        if not is_same_syntax(ours.keys, theirs.keys):
            return []
        entries = []
        for key, one, other in zip(ours.keys, ours.values, theirs.values, strict=True):
            if key is not None and not is_same_syntax(one, other):
                head = self.upstream.segment(key)
                old, new = self.upstream.segment(one), self.new.segment(other)
                entries.append((key, f"{head}: {old}", f"{head}: {new}"))
        return entries

    def _argument_texts(self, ours: ast.expr, theirs: ast.expr) -> tuple[str, str] | None:
        """A call with more keyword arguments, with ``...`` for those that stay."""
        if not isinstance(ours, ast.Call) or not isinstance(theirs, ast.Call):
            return None
        function = ast.unparse(ours.func)
        before = {ast.dump(keyword): keyword for keyword in ours.keywords}
        after = {ast.dump(keyword): keyword for keyword in theirs.keywords}
        if ast.dump(ours.func) != ast.dump(theirs.func) or list(map(ast.dump, ours.args)) != list(
            map(ast.dump, theirs.args)
        ):
            return None
        added = [ast.unparse(keyword) for key, keyword in after.items() if key not in before]
        gone = [keyword for key, keyword in before.items() if key not in after]
        if any(keyword.arg is None for keyword in gone):
            return None
        stays = [key for key in after if key in before]
        if self._keeps_order and list(after)[: len(stays)] != stays:
            return None  # what is added would stand behind what stays
        texts = [f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in gone]
        return f"{function}({', '.join(['...', *texts])})", f"{function}({', '.join(['...', *added])})"

    def _is_only_expression(self, text: str, node: ast.expr) -> bool:
        pattern = parse_pattern(text)
        matches = find_expressions(pattern, self.function) if pattern.expression is not None else []
        return [match.nodes[0] for match in matches] == [node]

    # --- places ------------------------------------------------------------------------------------

    def _place(self, statements: Sequence[ast.stmt]) -> str:
        place = self._try_place(statements)
        if not place:
            raise NoEdits(f"upstream's line {statements[0].lineno} is the same as others")
        return place

    def _try_place(self, statements: Sequence[ast.stmt]) -> str:
        return find_place_text(statements, self.function)

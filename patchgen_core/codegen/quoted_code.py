"""Code in quotes: what takes the place of one expression, as edits of upstream's text."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from patchgen_core.config.declarations import Patch
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.syntax.patterns import Match, arguments_of, dict_items, is_rest, metavariable, stand_in
from patchgen_core.syntax.source import SourceFile, parse_source

Argument = ast.expr | ast.keyword
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.JoinedStr, ast.List, ast.Dict, ast.Set)
_ENCLOSED = (ast.Tuple, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BINDING = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Attribute, ast.Await, ast.Starred, ast.IfExp)


class NewCode:
    """New code in quotes, with what its metavariables and ``...`` stand for where the old code matches.

    ``pattern`` is the old code's syntax, in whose calls the ``...`` of the new code's calls are looked up.
    """

    def __init__(self, text: str, pattern: Sequence[ast.AST], patch: Patch, label: str, upstream: SourceFile) -> None:
        self.patch, self.label, self.upstream = patch, label, upstream
        plain = stand_in(text)
        self.has_items = dict_items(plain.strip()) is not None
        try:
            plain = f"{{{plain.strip()}}}" if self.has_items else plain
            self.source = parse_source(Path(patch.location.file if patch.location else ""), plain)
        except PatchgenError as error:
            message = f"{label}: the new code is {error.problems[0].message}"
            raise PatchgenError(message, patch.location, excerpt=text.strip()) from None
        old = [call for node in pattern for call in _open_calls(node)]
        new = _open_calls(self.source.tree)
        if len(new) > len(old):
            message = f"{label}: '...' in the new code stands for arguments, and the old code has no such call"
            raise PatchgenError(message, patch.location, "Write '...' among the arguments of the old call too.")
        self.calls = {id(ours): theirs for ours, theirs in zip(new, old)}

    @property
    def expression(self) -> ast.expr | None:
        """The expression that is all of it."""
        body = self.source.tree.body
        return body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None

    def text(self, match: Match) -> str:
        """The new code where the old one matches."""
        return self._render(self.source.tree, match)

    def edits(self, match: Match, parent: ast.AST | None) -> list[Edit]:
        """The edits that put it in the place of a matching expression below ``parent``.

        Of a call that is one in both codes, only the arguments that differ are written anew.
        """
        new = self.expression
        assert new is not None
        if len(match.nodes) > 1 or self.has_items:
            return self._item_edits(match)
        (node,) = match.nodes
        assert isinstance(node, ast.expr)
        if isinstance(new, ast.Call) and id(new) in self.calls:
            return self._call_edits(new, match)
        text = self._render(new, match)
        if needs_brackets(new, parent, node) or ("\n" in text and not _is_expression(text)):
            text = f"({text})"
        return [Edit(self.upstream.start(node), self.upstream.end(node), text)]

    def _item_edits(self, match: Match) -> list[Edit]:
        """The edits that put items of a dict in the place of one."""
        if len(match.nodes) < 2 or not self.has_items:
            which = "new" if len(match.nodes) > 1 else "old"
            raise PatchgenError(
                f"{self.label}: the {which} code is not an item of a dict",
                self.patch.location,
                "Write a key and a value in both.",
            )
        new, (key, value) = self.expression, match.nodes
        assert isinstance(new, ast.Dict)
        assert isinstance(key, ast.expr)
        assert isinstance(value, ast.expr)
        text = self._render(new, match).strip().removeprefix("{").removesuffix("}").strip()
        return [Edit(self.upstream.start(key), self.upstream.end(value), text)]

    def _render(self, node: ast.AST, match: Match) -> str:
        """A node of the new code in upstream's words."""
        start = self.source.start(node) if isinstance(node, (ast.expr, ast.keyword)) else 0
        end = self.source.end(node) if isinstance(node, (ast.expr, ast.keyword)) else len(self.source.text)
        edits = [Edit(edit.start - start, edit.end - start, edit.new) for edit in self._substitutions(node, match)]
        return apply_edits(self.source.text[start:end], edits)[0]

    def _substitutions(self, node: ast.AST, match: Match, parent: ast.AST | None = None) -> list[Edit]:
        source, name = self.source, metavariable(node)
        if name:
            bound = match.names.get(name)
            if bound is None:
                message = f"{self.label}: the new code uses ${name}, which the old code does not have"
                raise PatchgenError(message, self.patch.location, did_you_mean(name, match.names))
            assert isinstance(node, ast.Name)
            assert isinstance(bound, ast.expr)
            text = self.upstream.segment(bound)
            text = f"({text})" if needs_brackets(bound, parent, node) else text
            return [Edit(source.start(node), source.end(node), text)]
        if isinstance(node, ast.Call) and id(node) in self.calls:
            theirs = match.calls[id(self.calls[id(node)])]
            first, edits = self.upstream.start(theirs), self._call_edits(node, match)
            moved = [Edit(edit.start - first, edit.end - first, edit.new) for edit in edits]
            text = apply_edits(self.upstream.segment(theirs), moved)[0]
            return [Edit(source.start(node), source.end(node), text)]
        return [edit for child in ast.iter_child_nodes(node) for edit in self._substitutions(child, match, node)]

    # --- calls -------------------------------------------------------------------------------------

    def _call_edits(self, new: ast.Call, match: Match) -> list[Edit]:
        """What makes upstream's call the new one; arguments that are the same in both patterns stay as they are."""
        old = self.calls[id(new)]
        call = match.calls[id(old)]
        edits = []
        if ast.dump(new.func) != ast.dump(old.func):
            func = call.func
            edits.append(Edit(self.upstream.start(func), self.upstream.end(func), self._render(new.func, match)))
        before, after = _split(old.args)
        new_before, new_after = _split(new.args)
        count = len(call.args) - len(after)
        edits += self._positional(before, call.args[: len(before)], new_before, call, 0, match)
        edits += self._positional(after, call.args[count:], new_after, call, count, match)
        theirs = {keyword.arg: keyword for keyword in call.keywords}
        old_keywords = {keyword.arg: keyword for keyword in old.keywords}
        new_keywords = {keyword.arg: keyword for keyword in new.keywords}
        gone = [theirs[name] for name in old_keywords if name not in new_keywords]
        edits += [self._deletion(arguments_of(call), keyword) for keyword in gone]
        for name, keyword in new_keywords.items():
            ours = old_keywords.get(name)
            if ours is None:
                self._refuse_repeated(name, theirs)
                edits.append(self._insertion(call, self._render(keyword, match)))
            elif ast.dump(ours.value) != ast.dump(keyword.value):
                value = theirs[name].value
                edits.append(
                    Edit(self.upstream.start(value), self.upstream.end(value), self._render(keyword.value, match))
                )
        return edits

    def _refuse_repeated(self, name: str | None, theirs: Mapping[str | None, ast.keyword]) -> None:
        if name is not None and name in theirs:
            value = self.upstream.segment(theirs[name].value)
            message = f"{self.label}: upstream passes '{name}' already, as '{name}={value}'"
            hint = f"Write '{name}=...' in the old code too, to give it another value."
            raise PatchgenError(message, self.patch.location, hint)

    def _positional(
        self,
        old: Sequence[ast.expr],
        theirs: Sequence[ast.expr],
        new: Sequence[ast.expr],
        call: ast.Call,
        first: int,
        match: Match,
    ) -> list[Edit]:
        """The edits of positional arguments on one side of ``...``; ``first`` of the call's come before them."""
        edits = []
        matcher = SequenceMatcher(None, [ast.dump(node) for node in old], [ast.dump(node) for node in new], False)
        for kind, i, i2, j, j2 in matcher.get_opcodes():
            if kind == "equal":
                continue
            texts = ", ".join(self._render(node, match) for node in new[j:j2])
            if kind == "insert":
                edits.append(self._positional_insertion(call, first + i, texts))
            elif kind == "delete":
                edits += [self._deletion(arguments_of(call), node) for node in theirs[i:i2]]
            else:
                edits.append(Edit(self.upstream.start(theirs[i]), self.upstream.end(theirs[i2 - 1]), texts))
        return edits

    def _positional_insertion(self, call: ast.Call, number: int, text: str) -> Edit:
        """Arguments after the first ``number`` of a call."""
        if number:
            at = self.upstream.end(call.args[number - 1])
            return Edit(at, at, f", {text}")
        arguments = arguments_of(call)
        at = self.upstream.start(arguments[0]) if arguments else self.upstream.end(call) - 1
        return Edit(at, at, f"{text}, " if arguments else text)

    def _insertion(self, call: ast.Call, text: str) -> Edit:
        """One more keyword, before ``**kwargs``."""
        arguments = arguments_of(call)
        following = next((a for a in arguments if isinstance(a, ast.keyword) and a.arg is None), None)
        if following is not None:
            at = self.upstream.start(following)
            return Edit(at, at, f"{text}, ")
        if arguments:
            at = self.upstream.end(arguments[-1])
            return Edit(at, at, f", {text}")
        at = self.upstream.end(call) - 1
        return Edit(at, at, text)

    def _deletion(self, arguments: Sequence[Argument], gone: Argument) -> Edit:
        return delete_item(self.upstream, arguments, gone)


def delete_item(source: SourceFile, items: Sequence[Argument], gone: Argument) -> Edit:
    """The edit that takes one item out of a list of them, with its comma."""
    number = next(n for n, item in enumerate(items) if item is gone)
    return _deletion([(source.start(item), source.end(item)) for item in items], number)


def delete_dict_item(source: SourceFile, items: ast.Dict, gone: ast.expr) -> Edit:
    """The edit that takes the item of a key out of a dict, with its comma."""
    number = next(n for n, key in enumerate(items.keys) if key is gone)
    pairs = zip(items.keys, items.values)
    starts = [source.start(key) if key is not None else source.start(value) - 2 for key, value in pairs]
    return _deletion(list(zip(starts, map(source.end, items.values))), number)


def _deletion(spans: Sequence[tuple[int, int]], number: int) -> Edit:
    start, end = spans[number]
    if number + 1 < len(spans):
        end = spans[number + 1][0]
    elif number:
        start = spans[number - 1][1]
    return Edit(start, end, "")


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _open_calls(node: ast.AST) -> list[ast.Call]:
    """The calls inside a node whose arguments hold ``...``, in the order in which they start."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and any(map(is_rest, n.args))]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _split(arguments: Sequence[ast.expr]) -> tuple[list[ast.expr], list[ast.expr]]:
    """Positional arguments before and after the first ``...``."""
    at = next(number for number, node in enumerate(arguments) if is_rest(node))
    return list(arguments[:at]), [node for node in arguments[at + 1 :] if not is_rest(node)]


def needs_brackets(node: ast.AST, parent: ast.AST | None, place: ast.AST) -> bool:
    """Whether an expression has to stand in brackets to take the place of another one below ``parent``."""
    if isinstance(node, (*_ATOMS, *_ENCLOSED)) or parent is None:
        return False
    if isinstance(parent, (ast.Call, ast.Subscript)):
        return (parent.func if isinstance(parent, ast.Call) else parent.value) is place
    return isinstance(parent, _BINDING) or isinstance(node, (ast.NamedExpr, ast.Yield, ast.YieldFrom))

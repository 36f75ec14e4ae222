"""Three-way merge of signatures, decorators and docstrings."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from patchgen_core.syntax.nodes import DEFINITIONS, Function, decorator_name, docstring_of, without_docstring
from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.expressions import Spot, merge_expression
from patchgen_core.upgrade.merging.lines import merge_lines
from patchgen_core.upgrade.merging.lists import REST, Element, merge_elements
from patchgen_core.upgrade.merging.text import DefinitionText, Unit

_KERNELS = "use_kernel"
"""How the names of decorators start that let a kernel of the hub take a definition's place."""


@dataclass(frozen=True)
class SignatureText:
    """The parts of a function's first lines.

    Attributes:
        limits: what is between the brackets of its parameters.
        arrow: offset behind the closing bracket.
        colon: offset of the colon that ends it.
    """

    text: DefinitionText
    node: Function
    limits: tuple[int, int]
    arrow: int
    colon: int

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line."""
        return self.node.lineno, self.text.line_of(self.colon)

    @property
    def source_text(self) -> str:
        """The text of these lines."""
        return self.text.moved_lines(*self.lines)


def read_head(text: DefinitionText, node: Function) -> SignatureText:
    """Find the parts of a function's first lines."""
    source = text.source
    body = source.start(node.body[0])
    tokens = text.tokens_in(source.start(node), body)
    opening = next(number for number, token in enumerate(tokens) if token.string == "(")
    depth, closing = 0, opening
    for closing in range(opening, len(tokens)):
        depth += (tokens[closing].string in "([{") - (tokens[closing].string in ")]}")
        if depth == 0:
            break
    colon = next(token for token in reversed(tokens) if token.string == ":")
    limits = tokens[opening].end, tokens[closing].start
    return SignatureText(text, node, limits, tokens[closing].end, colon.start)


def merge_head(edits: Edits, base: SignatureText, ours: SignatureText, theirs: SignatureText) -> bool:
    """Apply upstream's change of a signature to ours; whether that can be decided."""
    heads = base, ours, theirs
    if len({type(head.node) for head in heads}) > 1:
        return False
    types = [[ast.dump(parameter) for parameter in getattr(head.node, "type_params", ())] for head in heads]
    if types[0] != types[1] or types[0] != types[2]:
        return False
    if not merge_elements(edits, ours.limits, [_parameters(head) for head in heads], _merge_parameter, _differs):
        return False
    return _merge_returns(edits, base, ours, theirs)


def _parameters(head: SignatureText) -> list[Element]:
    args = head.node.args
    nodes = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    named = {node.arg: node for node in nodes if node is not None}
    elements = []
    for chunk in head.text.chunks(*head.limits):
        tokens = [token.string for token in head.text.tokens_in(chunk.start, chunk.end)]
        stars = tokens[0] if tokens[0] in ("*", "**", "/") else ""
        name = tokens[1] if stars and len(tokens) > 1 else tokens[0]
        key = REST if stars == "**" else stars or f"{name}@"
        node = named.get(name)
        element = Element(head.text, node, key, "", chunk.lead, chunk.start, chunk.end)
        dump = repr(read_parameter(element)) if node is not None else stars
        elements.append(replace(element, dump=dump))
    return elements


@dataclass(frozen=True)
class ParameterText:
    """A parameter: its name, and the texts or meanings of its annotation and default; empty for none."""

    name: str
    annotation: str
    default: str


def read_parameter(element: Element) -> ParameterText:
    """What an element of a signature means."""
    texts = _texts(element)
    return ParameterText(texts.name, _meaning(texts.annotation), _meaning(texts.default))


def _texts(element: Element) -> ParameterText:
    source, node = element.text.source.text, element.node
    assert isinstance(node, ast.arg)
    depth, equals = 0, None
    for token in element.text.tokens_in(element.start, element.end):
        depth += (token.string in "([{") - (token.string in ")]}")
        if depth == 0 and token.string == "=" and equals is None:
            equals = token
    annotation = ""
    if node.annotation is not None:
        end = element.end if equals is None else equals.start
        annotation = source[source.index(":", element.start) + 1 : end].strip()
    return ParameterText(node.arg, annotation, "" if equals is None else source[equals.end : element.end].strip())


def _meaning(text: str) -> str:
    return ast.dump(ast.parse(f"({text})", mode="eval")) if text and not text.startswith("*") else text


def _merge_parameter(edits: Edits, base: Element, ours: Element, theirs: Element) -> bool:
    if theirs.dump in (base.dump, ours.dump):
        return True
    if ours.node is None or base.node is None or theirs.node is None:
        return False
    if base.dump == ours.dump:
        edits.replace(ours.start, ours.end, theirs.source_text)
        return True
    old, mine, new = (read_parameter(element) for element in (base, ours, theirs))
    if old.name != mine.name or old.name != new.name:
        return False
    takes_default = new.default not in (old.default, mine.default)
    if takes_default and old.default != mine.default:
        return False
    texts = [_texts(element) for element in (ours, theirs)]
    takes_annotation = old.annotation == mine.annotation != new.annotation  # a changed one is ours to keep
    if not takes_default and not takes_annotation:
        return True
    annotation, default = texts[takes_annotation].annotation, texts[takes_default].default
    assert isinstance(ours.node, ast.arg)
    name = edits.text.source.text[ours.start : edits.text.source.start(ours.node)] + ours.node.arg
    text = f"{name}: {annotation}" if annotation else name
    if default:
        text += f" = {default}" if annotation else f"={default}"
    edits.replace(ours.start, ours.end, text)
    return True


def _differs(one: Element, other: Element) -> bool:
    """Whether two parameters of a name differ in more than their annotations."""
    if one.node is None or other.node is None:
        return one.dump != other.dump
    return read_parameter(one).default != read_parameter(other).default


def _merge_returns(edits: Edits, base: SignatureText, ours: SignatureText, theirs: SignatureText) -> bool:
    old, mine, new = (head.text.dump(head.node.returns) for head in (base, ours, theirs))
    if new in (old, mine):
        return True
    returns = [head.node.returns for head in (base, ours, theirs)]
    if old != mine:
        spots = [Spot(h.text, r, h.arrow, h.colon) for h, r in zip((base, ours, theirs), returns) if r is not None]
        state = edits.state
        if len(spots) < 3 or not merge_expression(edits, *spots):
            edits.go_back(state)
            edits.notes.append("upstream and you both changed the return annotation: yours stays")
        return True
    edits.replace(ours.arrow, ours.colon, theirs.text.moved(theirs.arrow, theirs.colon, ""))
    return True


def merge_decorators(edits: Edits, base: Unit, ours: Unit, theirs: Unit) -> str:
    """Apply upstream's change of a definition's decorators to ours; why that cannot be decided, or nothing."""
    lists: list[list[ast.expr]] = [getattr(unit.node, "decorator_list", []) for unit in (base, ours, theirs)]
    old, mine, new = ([ours.text.dump(decorator) for decorator in decorators] for decorators in lists)
    if new in (old, mine):
        return ""
    if mine == old and (ours.dump == base.dump or not _kernels(new, lists[2], old)):
        _replace_decorators(edits, ours, theirs)
        return ""
    if any(len(set(side)) < len(side) for side in (old, mine, new)):
        return "a decorator is there twice"
    common = [dump for dump in old if dump in mine and dump in new]
    if any([dump for dump in side if dump in common] != common for side in (mine, new)):
        return "one side has the decorators in another order"
    gone = [node for dump, node in zip(mine, lists[1]) if dump in old and dump not in new]
    renamed = _renamed_kernels(lists)
    if renamed:
        edits.notes.append(f"you removed the decorator {renamed[0]}, and so upstream's {renamed[1]} is left out")
        return ""
    added = [number for number, dump in enumerate(new) if dump not in old and dump not in mine]
    if added and any(dump not in mine and dump not in new for dump in old):
        return "upstream changed a decorator that you removed or changed"
    if _kernels(new, lists[2], [*old, *mine]):
        return "upstream now lets another kernel replace this definition"
    _write_decorators(edits, ours, theirs, (gone, added))
    return ""


def _renamed_kernels(lists: list[list[ast.expr]]) -> tuple[str, str] | None:
    """The decorator for a kernel of the hub that we removed and upstream calls otherwise, if that is all."""
    old, mine, new = ([ast.unparse(decorator) for decorator in decorators] for decorators in lists)
    removed = [text for text in old if text not in mine and text not in new]
    added = [text for text in new if text not in old and text not in mine]
    rest = [[text for text in side if text not in (*removed, *added)] for side in (old, mine, new)]
    if len(removed) != 1 or len(added) != 1 or rest[0] != rest[1] or rest[0] != rest[2]:
        return None
    names = [text.partition("(") for text in (*removed, *added)]
    same = names[0][2] == names[1][2] and all(name[0].startswith(_KERNELS) for name in names)
    return (removed[0], added[0]) if same else None


def _kernels(new: list[str], nodes: list[ast.expr], old: list[str]) -> list[ast.expr]:
    """The decorators that upstream added and that let a kernel take the definition's place."""
    return [node for dump, node in zip(new, nodes) if dump not in old and decorator_name(node).startswith(_KERNELS)]


def _replace_decorators(edits: Edits, ours: Unit, theirs: Unit) -> None:
    """Take all decorators from upstream."""
    source, other = ours.text.source, theirs.text
    text = other.moved_lines(theirs.start, theirs.node.lineno - 1, source.indent(ours.node.lineno))
    text = text + "\n" if theirs.start < theirs.node.lineno else ""
    edits.replace(source.line_starts[ours.start - 1], source.line_starts[ours.node.lineno - 1], text)


def _write_decorators(edits: Edits, ours: Unit, theirs: Unit, changes: tuple[list[ast.expr], list[int]]) -> None:
    """Delete some of our decorators and add some of upstream's, each behind the one that it follows there."""
    gone, added = changes
    mine, new = (getattr(unit.node, "decorator_list", []) for unit in (ours, theirs))
    source, starts = ours.text.source, ours.text.source.line_starts
    for node in gone:
        first, last = source.decorator_lines(node)
        edits.replace(starts[first - 1], starts[last], "")
    places = {ours.text.dump(node): source.decorator_lines(node)[1] + 1 for node in mine if node not in gone}
    for number in added:
        before = [ours.text.dump(node) for node in new[:number]]
        line = next((places[dump] for dump in reversed(before) if dump in places), ours.start)
        first, last = theirs.text.source.decorator_lines(new[number])
        text = theirs.text.moved_lines(first, last, source.indent(ours.node.lineno))
        edits.replace(starts[line - 1], starts[line - 1], f"{text}\n")


def merge_docstring(edits: Edits, base: Unit, ours: Unit, theirs: Unit) -> None:
    """Apply upstream's change of a docstring to ours; where both changed it, by lines, and else ours stays."""
    old, mine, new = (docstring_of(unit.node) for unit in (base, ours, theirs))
    docstrings = [_docstring_text(unit) for unit in (base, ours, theirs)]
    if docstrings[2] in (docstrings[0], docstrings[1]) or not _is_apart(ours, mine):
        return
    if mine is None:
        if old is None and new is not None:
            _insert(edits, ours, theirs, new)
    elif docstrings[0] == docstrings[1]:
        text = "" if new is None else _docstring_lines(theirs, new, ours.text.source.indent(mine.lineno)) + "\n"
        if text or without_docstring(ours.node):
            _replace_lines(edits, mine, text)
    else:
        texts = [
            _docstring_lines(u, d, "    ") for u, d in ((base, old), (ours, mine), (theirs, new)) if d is not None
        ]
        merged, conflicts = merge_lines(texts[0], texts[1], texts[2]) if len(texts) == 3 else ("", None)
        if conflicts == ():
            indent = ours.text.source.indent(mine.lineno)
            _replace_lines(edits, mine, indent + merged.removeprefix("    ") + "\n")
        else:
            name = getattr(ours.node, "name", "")
            edits.notes.append(f"upstream and you both changed the docstring of {name}: yours stays")


def _docstring_text(unit: Unit) -> str:
    return (ast.get_docstring(unit.node) or "") if isinstance(unit.node, DEFINITIONS) else ""


def _is_apart(unit: Unit, node: ast.stmt | None) -> bool:
    """Whether a docstring, or the first statement where there is none, has lines of its own."""
    body: list[ast.stmt] = getattr(unit.node, "body", [])
    first = body[0] if node is None else node
    following = body[1].lineno if node is not None and len(body) > 1 else 0
    header = unit.text.source.lines[first.lineno - 1][: first.col_offset]
    return not header.strip() and following != first.end_lineno


def _replace_lines(edits: Edits, node: ast.stmt, text: str) -> None:
    starts = edits.text.source.line_starts
    edits.replace(starts[node.lineno - 1], starts[node.end_lineno or node.lineno], text)


def _insert(edits: Edits, ours: Unit, theirs: Unit, new: ast.stmt) -> None:
    source = ours.text.source
    body: list[ast.stmt] = getattr(ours.node, "body", [])
    start = source.line_starts[source.comment_line(body[0]) - 1]
    edits.replace(start, start, _docstring_lines(theirs, new, source.indent(body[0].lineno)) + "\n")


def _docstring_lines(unit: Unit, node: ast.stmt, indent: str) -> str:
    """The lines of a docstring, its first one moved to an indentation; its value stays."""
    return unit.text.moved_lines(node.lineno, node.end_lineno or node.lineno, indent)

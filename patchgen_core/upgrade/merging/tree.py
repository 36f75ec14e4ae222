"""Three-way merge of statements."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen_core.syntax.nodes import COMPOUND, DEFINITIONS, FUNCTIONS, blocks, without_docstring
from patchgen_core.upgrade.merging.blocks import BlockMerge, Sides, note_old, note_same
from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.expressions import Spot, merge_expression, merge_field
from patchgen_core.upgrade.merging.nested import without_nested
from patchgen_core.upgrade.merging.signature import merge_decorators, merge_docstring, merge_head, read_head
from patchgen_core.upgrade.merging.text import DefinitionText, Unit, units


@dataclass(frozen=True)
class TreeMerge:
    """The merge of three definitions."""

    edits: Edits
    base: DefinitionText
    ours: DefinitionText
    theirs: DefinitionText

    @property
    def texts(self) -> tuple[DefinitionText, DefinitionText, DefinitionText]:
        """The three texts."""
        return self.base, self.ours, self.theirs

    def run(self) -> None:
        """Merge the definitions."""
        old, mine, new = (text.definition for text in self.texts)
        if not type(old) is type(mine) is type(new):
            texts = [text.source.text.rstrip("\n") for text in self.texts]
            self.edits.conflict(1, "one is a class and another a function, or one is async", *texts)
            return
        self._definition(*(units(text, text.source.tree.body)[0] for text in self.texts))

    def _definition(self, base: Unit, ours: Unit, theirs: Unit) -> None:
        if reason := merge_decorators(self.edits, base, ours, theirs):
            texts = [self._decorators(unit) for unit in (base, ours, theirs)]
            self.edits.conflict(ours.start, reason, *texts)
        if isinstance(ours.node, FUNCTIONS):
            self._signature(base, ours, theirs)
        else:
            self._bases(base, ours, theirs)
        merge_docstring(self.edits, base, ours, theirs)
        bodies = [without_docstring(unit.node) for unit in (base, ours, theirs)]
        self.block(bodies, ours, isinstance(ours.node, ast.ClassDef))

    def _decorators(self, unit: Unit) -> str:
        node = unit.node
        return unit.text.moved_lines(unit.start, node.lineno - 1) if unit.start < node.lineno else ""

    def _signature(self, base: Unit, ours: Unit, theirs: Unit) -> None:
        results = [
            read_head(unit.text, unit.node) for unit in (base, ours, theirs) if isinstance(unit.node, FUNCTIONS)
        ]
        state = self.edits.state
        if not merge_head(self.edits, *results):
            self.edits.go_back(state)
            texts = [head.source_text for head in results]
            self.edits.conflict(ours.node.lineno, "both sides changed the same part of the signature", *texts)

    def _bases(self, base: Unit, ours: Unit, theirs: Unit) -> None:
        dumps = []
        for unit in (base, ours, theirs):
            assert isinstance(unit.node, ast.ClassDef)
            parts = [*unit.node.bases, *unit.node.keywords, *getattr(unit.node, "type_params", ())]
            dumps.append([ast.dump(part) for part in parts])
        if dumps[2] in (dumps[0], dumps[1]):
            return
        texts = [unit.text.moved_lines(unit.node.lineno, unit.node.lineno) for unit in (base, ours, theirs)]
        if dumps[0] != dumps[1]:
            self.edits.conflict(ours.node.lineno, "both sides changed the base classes", *texts)
            return
        name = [unit.node.name for unit in (base, ours, theirs) if isinstance(unit.node, ast.ClassDef)]
        spans = [_class_head(unit) for unit in (ours, theirs)]
        text = theirs.text.moved(*spans[1], ours.text.source.indent(ours.node.lineno))
        self.edits.replace(*spans[0], text.replace(name[2], name[1], 1))

    def block(self, bodies: list[list[ast.stmt]], parent: Unit, in_class: bool) -> None:
        """Merge the statements of a block."""
        base, ours, theirs = (units(text, body) for text, body in zip(self.texts, bodies))
        for part in without_nested(self.edits, Sides(base, ours, theirs, parent, in_class)):
            BlockMerge(self.edits, part, self.statement).run()

    def statement(self, base: Unit, ours: Unit, theirs: Unit) -> None:
        """Merge one statement that all three have."""
        self._comments(base, ours, theirs)
        self.edits.same[theirs.node] = ours.node
        if base.dump == ours.dump:
            note_old(self.edits, base.node, ours.node)
        else:
            self.edits.old[base.node] = ours.node
        if _own_part(ours) != _own_part(base):
            self.edits.changed.add(ours.node)
        if theirs.dump == ours.dump:
            note_same(self.edits, ours.node, theirs.node)
            return
        if theirs.dump == base.dump and not isinstance(ours.node, (*COMPOUND, *DEFINITIONS)):
            return
        kinds = {type(unit.node) for unit in (base, ours, theirs)}
        if isinstance(ours.node, DEFINITIONS) and len(kinds) == 1:
            self._definition(base, ours, theirs)
        elif isinstance(ours.node, COMPOUND) and len(kinds) == 1:
            self._compound(base, ours, theirs)
        elif theirs.dump != base.dump:
            self._simple(base, ours, theirs)

    def _comments(self, base: Unit, ours: Unit, theirs: Unit) -> None:
        """What upstream says above a statement, where ours says what it said before."""
        if ours.comments != base.comments or theirs.comments == base.comments or not ours.is_apart:
            return
        indent = ours.text.source.indent(ours.start)
        text = "".join(f"{indent}{line}\n" for line in theirs.comments)
        starts = ours.text.source.line_starts
        self.edits.replace(starts[ours.first - 1], starts[ours.start - 1], text)

    def _simple(self, base: Unit, ours: Unit, theirs: Unit) -> None:
        state = self.edits.state
        trio = base, ours, theirs
        is_untouched = ours.dump == base.dump and _tokens(ours) == _tokens(base)
        if is_untouched or not self._parts(*(_spot(unit) for unit in trio)):
            self.edits.go_back(state)
            self._whole(trio, "both sides changed this statement")

    def _whole(self, trio: tuple[Unit, Unit, Unit], reason: str) -> None:
        """Take upstream's statement where ours is the old one; where it is not, that is a conflict."""
        base, ours, theirs = trio
        if ours.dump != base.dump:
            self.edits.conflict(ours.start, reason, *(u.text.moved_lines(u.start, u.last) for u in trio))
            return
        source, other = ours.text.source, theirs.text
        new = other.moved(other.source.start(theirs.node), other.source.end(theirs.node), source.indent(ours.start))
        self.edits.replace(source.start(ours.node), source.end(ours.node), new, [theirs.node])

    def _parts(self, base: Spot, ours: Spot, theirs: Spot) -> bool:
        nodes = [spot.node for spot in (base, ours, theirs)]
        if all(isinstance(node, (ast.Assign, ast.AnnAssign)) for node in nodes) and len(set(map(type, nodes))) > 1:
            return self._assignment(base, ours, theirs)
        if len(set(map(type, nodes))) > 1 or _is_unpacked_otherwise(nodes):
            return False
        return all(merge_field(self.edits, name, base, ours, theirs) for name in ours.node._fields)

    def _assignment(self, base: Spot, ours: Spot, theirs: Spot) -> bool:
        """An assignment that has an annotation on one side only."""
        nodes = [spot.node for spot in (base, ours, theirs)]
        targets = [ast.dump(node.targets[0] if isinstance(node, ast.Assign) else node.target) for node in nodes]  # type: ignore[attr-defined]
        annotations = [ast.dump(node.annotation) if isinstance(node, ast.AnnAssign) else "" for node in nodes]
        if len(set(targets)) > 1 or annotations[2] not in annotations[:2]:
            return False
        values: list[ast.expr | None] = [getattr(node, "value", None) for node in nodes]
        spots = [spot.part(value) for spot, value in zip((base, ours, theirs), values) if value is not None]
        return len(spots) == 3 and merge_expression(self.edits, *spots)

    def _compound(self, base: Unit, ours: Unit, theirs: Unit) -> None:
        """The first line's expressions, then each block."""
        trio = base, ours, theirs
        if len({_handlers(unit) for unit in trio}) > 1:
            if theirs.dump != base.dump:
                self._whole(trio, "both sides changed this statement, and its parts differ")
            return
        state = self.edits.state
        spots = [_spot(unit) for unit in trio]
        heads = [name for name in ours.node._fields if name not in _BLOCKS]
        if not all(merge_field(self.edits, name, *spots) for name in heads):
            self.edits.go_back(state)
            texts = [u.text.moved_lines(u.node.lineno, _head_end(u)) for u in trio]
            self.edits.conflict(ours.node.lineno, "both sides changed the first line of this statement", *texts)
        self.block([getattr(unit.node, "body", []) for unit in trio], ours, False)
        for name in ("handlers", "cases"):
            for parts in zip(*(getattr(unit.node, name, ()) for unit in trio)):
                self.block([part.body for part in parts], ours, False)
        for name in ("orelse", "finalbody"):
            self._section(name, base, ours, theirs)

    def _section(self, name: str, base: Unit, ours: Unit, theirs: Unit) -> None:
        """What follows ``else`` or ``finally``, which not all three may have."""
        bodies: list[list[ast.stmt]] = [getattr(unit.node, name, []) for unit in (base, ours, theirs)]
        state = self.edits.state
        if all(bodies):
            self.block(bodies, ours, False)
            if self.edits.state[1] == state[1]:
                return
        old, mine, new = ([unit.text.dump(node) for node in body] for unit, body in zip((base, ours, theirs), bodies))
        if new in (old, mine) or (all(bodies) and old != mine):
            return
        if old != mine:
            texts = [_section_text(unit, body, "") for unit, body in zip((base, ours, theirs), bodies)]
            line = _section_lines(ours, bodies[1])[0] if bodies[1] else ours.last + 1
            self.edits.conflict(line, "both sides changed whether there is an else", *texts)
            return
        starts, indent = ours.text.source.line_starts, ours.text.source.indent(ours.node.lineno)
        if mine:
            self.edits.go_back(state)
            first, last = _section_lines(ours, bodies[1])
            text = _section_text(theirs, bodies[2], indent) + "\n" if new else ""
            self.edits.replace(starts[first - 1], starts[last], text, bodies[2])
        else:
            at = starts[_body_end(ours, name)]
            self.edits.replace(at, at, _section_text(theirs, bodies[2], indent) + "\n", bodies[2])


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def _spot(unit: Unit) -> Spot:
    return Spot(unit.text, unit.node, unit.text.source.start(unit.node), unit.text.source.end(unit.node))


def _handlers(unit: Unit) -> str:
    """A statement's ``except`` and ``case`` lines."""
    handlers = [[handler.type, handler.name] for handler in getattr(unit.node, "handlers", ())]
    return _dump([handlers, [[case.pattern, case.guard] for case in getattr(unit.node, "cases", ())]])


def _section_lines(unit: Unit, body: list[ast.stmt]) -> tuple[int, int]:
    """First and last line of what follows ``else``, ``elif`` or ``finally``, that line included."""
    source = unit.text.source
    first = source.start(body[0])
    if not source.text.startswith("elif", first):
        before = unit.text.tokens_in(source.start(unit.node), first)
        first = next(token.start for token in reversed(before) if token.string in ("else", "finally"))
    return unit.text.line_of(first), source.last_line(body[-1])


def _section_text(unit: Unit, body: list[ast.stmt], indent: str) -> str:
    return unit.text.moved_lines(*_section_lines(unit, body), indent) if body else ""


def _body_end(unit: Unit, name: str) -> int:
    """The last line of what comes before a section."""
    node = unit.node
    last = [*blocks(node)][-1] if name == "finalbody" else getattr(node, "body", [])
    if name == "orelse" and isinstance(node, ast.Try):
        last = node.handlers[-1].body if node.handlers else node.body
    return unit.text.source.last_line(last[-1])


def _head_end(unit: Unit) -> int:
    first = next(iter(blocks(unit.node)))[0]
    return max(unit.node.lineno, unit.text.source.comment_line(first) - 1)


def _is_unpacked_otherwise(nodes: list[ast.AST]) -> bool:
    """Whether one side takes a value apart in another way and the other side has another value."""
    if not isinstance(nodes[0], ast.Assign):
        return False
    shapes = [[_shape(target) for target in getattr(node, "targets", [])] for node in nodes]
    values = [ast.dump(getattr(node, "value", node)) for node in nodes]
    return any(shapes[one] != shapes[0] and values[other] != values[0] for one, other in ((1, 2), (2, 1)))


def _shape(target: ast.expr) -> object:
    return [_shape(element) for element in target.elts] if isinstance(target, (ast.Tuple, ast.List)) else ""


def _own_part(unit: Unit) -> str:
    """What a statement says without its blocks, however it spells torch's functions."""
    text = unit.dump
    if isinstance(unit.node, COMPOUND):
        text = _dump([getattr(unit.node, name) for name in unit.node._fields if name not in _BLOCKS])
    for long in _FUNCTIONAL:
        text = text.replace(long, "Name(id='F', ctx=Load())")
    return text


_FUNCTIONAL = [ast.dump(ast.parse(name, mode="eval").body) for name in ("torch.nn.functional", "nn.functional")]


def _dump(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_dump, value)) + "]"
    return ast.dump(value) if isinstance(value, ast.AST) else repr(value)


def _tokens(unit: Unit) -> tuple[list[str], list[str]]:
    """What a statement is written with, and the comments in it."""
    span = unit.text.source.start(unit.node), unit.text.source.end(unit.node)
    return [token.string for token in unit.text.tokens_in(*span)], unit.text.comments_in(*span)


def _class_head(unit: Unit) -> tuple[int, int]:
    """Offsets of a class's first line up to its colon."""
    source = unit.text.source
    node = unit.node
    body: list[ast.stmt] = getattr(node, "body", [])
    start = source.line_starts[node.lineno - 1] + node.col_offset
    tokens = unit.text.tokens_in(start, source.start(body[0]))
    return start, next(token.start for token in reversed(tokens) if token.string == ":")

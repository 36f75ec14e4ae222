"""What a config declares so that upstream's module becomes a fork."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from patchgen_core.authoring.edits.free_names import free_name
from patchgen_core.authoring.edits.literals import block_literal, literal
from patchgen_core.authoring.edits.needed_imports import needed_names
from patchgen_core.authoring.fork.class_edits import ClassDifference, compare_classes, declare_edits
from patchgen_core.authoring.fork.module_parts import (
    ModuleParts,
    Place,
    bound_by,
    is_import_guard,
    is_same_place,
    listed_names,
)
from patchgen_core.authoring.slim.edit_texts import Holder, edit_blocks
from patchgen_core.authoring.slim.function_edits import bound_names, find_edits
from patchgen_core.authoring.slim.parameters import NoEdits
from patchgen_core.config.replacement import HEAD
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Definition, Function
from patchgen_core.syntax.source import SourceFile, parse_source, shift

EDITED, REPLACED, CLASS_REPLACED = 0, 1, 2
"""How much of a target is written down: what changes, the whole function, the whole class."""


@dataclass(frozen=True)
class Block:
    """A declaration in a config; ``subject`` is the definition that it is about, empty for none.

    Attributes:
        code: what of it is code whose names the config's file should know.
        word: what becomes of the subject.
    """

    subject: str
    text: str
    code: str = ""
    word: str = ""


@dataclass(frozen=True)
class Sides:
    """Upstream's module and the fork, each as it is written, and as the generator lays it out for comparing."""

    upstream: SourceFile
    fork: SourceFile
    before: ModuleParts
    after: ModuleParts


@dataclass
class Declarations:
    """Makes the declarations for a fork; ``levels`` are how much is written down where edits did not do."""

    sides: Sides
    levels: Mapping[str, int]
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.ours, self.theirs = ModuleParts(self.sides.upstream), ModuleParts(self.sides.fork)
        self.before, self.after = self.sides.before, self.sides.after
        self.taken |= {"config", *self.theirs.source.index.names}
        self.places = _Places(self.ours, self.theirs)

    def blocks(self) -> list[Block]:
        """The declarations, in the order of the fork."""
        return [*self._exclusions(), *self._imports(), *self._statements(), *self._definitions()]

    # --- what goes -----------------------------------------------------------------------------------

    def _exclusions(self) -> Iterator[Block]:
        names = [n for n in self.before.definitions if "." not in n and n not in self.after.definitions]
        gone = [n for n in names if not self._is_external(n)]
        gone_names = set(gone)
        kept = {name for statement in self.after.statements.values() for name in bound_by(statement)}
        for key, statement in self.before.statements.items():
            if key not in self.after.statements and not is_import_guard(statement):
                if self._lists_the_rest(statement, gone_names):
                    continue
                gone += [n for n in bound_by(statement) if n in self.sides.upstream.index.assigned]
        gone += [n for n in self.theirs.imports if n in self.ours.source.index.assigned and n not in kept]
        gone += [n for n in self.theirs.definitions if n in self.ours.source.index.assigned]
        if gone:
            yield Block("", _call("exclude_from_output", dict.fromkeys(gone)))
        places = {**self.ours.guarded, **self.ours.imports}
        bound = self.theirs.source.index.names
        dropped = [n for n, place in places.items() if n in bound and not self._has_import(n, place)]
        if dropped:
            yield Block("", _call("drop_import_names", dropped))

    def _lists_the_rest(self, statement: ast.stmt, gone: set[str]) -> bool:
        """Whether upstream's ``__all__`` is the fork's once some names are taken out."""
        theirs = [s for s in self.after.statements.values() if bound_by(s) == {"__all__"}]
        is_listing = bound_by(statement) == {"__all__"} and bool(theirs)
        return is_listing and listed_names(statement) - gone == listed_names(theirs[-1])

    def _has_import(self, name: str, place: Place) -> bool:
        """Whether the fork binds a name as an import of upstream's does."""
        own = [p for p in (self.theirs.imports.get(name), self.theirs.guarded.get(name)) if p is not None]
        return name not in self.theirs.definitions and any(is_same_place(place, other) for other in own)

    def _is_external(self, name: str) -> bool:
        """Whether the fork imports one thing that upstream defines."""
        place = self.theirs.imports.get(name)
        return place is not None and bool(place[1])

    # --- imports and statements ------------------------------------------------------------------------

    def _imports(self) -> Iterator[Block]:
        by_module: dict[str, list[str]] = {}
        for name, (module, attribute) in self.theirs.imports.items():
            has_it = self.ours.imports.get(name) or self.ours.guarded.get(name)
            if is_same_place((module, attribute), has_it) or name not in self.after.mentioned:
                continue
            if name in self.before.definitions:
                if attribute:
                    yield Block(name, _external(name, module, attribute), word="imported")
            elif attribute:
                by_module.setdefault(module, []).append(name if name == attribute else f"{attribute} as {name}")
            else:
                alias = f", alias={literal(name)}" if name != module else ""
                yield Block("", f"config.add_import({literal(module)}{alias})\n")
        for module, names in by_module.items():
            yield Block("", f"config.add_import({literal(module)}, names=[{', '.join(map(literal, names))}])\n")

    def _statements(self) -> Iterator[Block]:
        """The statements that upstream lacks."""
        gone = {name for name in self.before.definitions if name not in self.after.definitions}
        listings = [s for s in self.before.statements.values() if self._lists_the_rest(s, gone)]
        old = {*self.ours.statements, *self.before.statements}
        new = {key: s for key, s in self.after.statements.items() if key not in self.before.statements}
        names = {name for statement in new.values() for name in bound_by(statement)}
        for key, statement in self.theirs.statements.items():
            bound = bound_by(statement)
            if key in old or not (key in new or bound & names) or (listings and bound == {"__all__"}):
                continue
            text = self.theirs.source.segment(statement)
            above = self.theirs.source.comment_line(statement)
            comments = self.theirs.source.lines[above - 1 : self.theirs.source.first_line(statement) - 1]
            quoted = block_literal("\n".join([*comments, text]))
            after = self.places.after(statement)
            call = f"add_block_after({literal(after)}, {quoted})" if after else f"add_post_import_block({quoted})"
            yield Block("", f"config.{call}\n")

    # --- definitions -----------------------------------------------------------------------------------

    def _definitions(self) -> Iterator[Block]:
        for name, nodes in self.theirs.definitions.items():
            cls = name.partition(".")[0]
            if "." in name:
                continue
            if name not in self.ours.definitions:
                yield self._helper(name, nodes[-1])
            elif isinstance(nodes[-1], ast.ClassDef):
                yield from self._class(cls)
            elif self.before.forms[name] != self.after.forms[name]:
                yield from self._function(name)

    def _helper(self, name: str, node: Definition) -> Block:
        after = self.places.after(node)
        call = f"@config.add_helper_after({literal(after)})" if after else "@config.add_helper"
        text = _whole(self.theirs.source, node)
        return Block(name, f"{self._comments(node)}{call}\n{text}\n", text, "added")

    def _class(self, name: str) -> Iterator[Block]:
        names = [n for n in {**self.before.forms, **self.after.forms} if n == name or n.startswith(f"{name}.")]
        changed = [n for n in names if self.before.forms.get(n) != self.after.forms.get(n)]
        if not changed:
            return
        ours, theirs = self.ours.definitions[name][-1], self.theirs.definitions[name][-1]
        assert isinstance(theirs, ast.ClassDef)
        difference = ClassDifference()
        is_whole = not isinstance(ours, ast.ClassDef) or any(self.levels.get(n, 0) >= CLASS_REPLACED for n in changed)
        is_whole |= any(
            len(self.before.definitions.get(n, ())) > 1 or len(self.after.definitions.get(n, ())) > 1 for n in changed
        )
        inner = {n for n in changed if n != name and self._is_class(n)}
        is_whole |= any(n in self.before.definitions for n in inner)
        if not is_whole and (name in changed or inner):
            assert isinstance(ours, ast.ClassDef)
            compared = compare_classes(self.ours.source, ours, self.theirs.source, theirs)
            is_whole = compared is None or self.levels.get(name, 0) >= REPLACED
            difference = compared or difference
        if is_whole:
            text = _whole(self.theirs.source, theirs)
            call = f"@config.replace_class({literal(name)})"
            yield Block(name, f"{self._comments(theirs)}{call}\n{text}\n", text, "replaced")
            return
        yield from self._class_edits(name, difference)
        gone = [n for n in changed if n not in self.after.forms]
        if gone:
            yield Block(gone[0], _call("exclude_from_output", gone), word="excluded")
        for method in (n for n in changed if n not in (name, *inner) and n in self.after.forms):
            yield from self._function(method)

    def _is_class(self, name: str) -> bool:
        """Whether a name inside a class is, on either side, a class rather than a method."""
        nodes = (*self.before.definitions.get(name, ()), *self.after.definitions.get(name, ()))
        return any(isinstance(node, ast.ClassDef) for node in nodes)

    def _class_edits(self, name: str, difference: ClassDifference) -> Iterator[Block]:
        own = f"Edited{name.lstrip('_')}"
        for text, code, word in declare_edits("config", name, difference, own):
            if code:
                self.taken.add(own)
            yield Block(name, text, code, word)

    def _function(self, name: str) -> Iterator[Block]:
        """A method or function that both have, or that upstream's class lacks."""
        new = self.theirs.definitions[name][-1]
        assert isinstance(new, FUNCTIONS)
        olds = self.ours.definitions.get(name, [])
        old = olds[-1] if olds else None
        own = free_name(name, self.taken)
        self.taken.add(own)
        if isinstance(old, FUNCTIONS) and self.levels.get(name, 0) == EDITED:
            edits = self._edits(name, old, new, own)
            if edits is not None:
                yield from edits
                return
        text = _whole(self.theirs.source, new, own)
        if "." not in name:
            call = f"replace_function({literal(name)})"
        else:
            options = ", add=True" if old is None else ""
            options += ", keep_decorators=False" if old is not None and _decorators(old) != _decorators(new) else ""
            if old is not None and not options:
                text = _without_decorators(text, new)
            call = f"override_method({literal(name)}{options})"
        word = "added" if old is None else "overridden" if "." in name else "replaced"
        yield Block(name, f"{self._comments(new)}@config.{call}\n{text}\n", text, word)

    def _edits(self, name: str, old: Function, new: Function, own: str) -> list[Block] | None:
        """The edits of a function; None where they are no shorter than it is."""
        text = _whole(self.theirs.source, new, with_decorators=False)
        source = parse_source(self.theirs.source.path, f"{text}\n")
        try:
            edits = find_edits(self.ours.source, old, source)
        except NoEdits:
            return None
        texts = edit_blocks(edits, Holder("config", name), own, (), bound_names(old, source))
        before, after = _decorators(old), _decorators(new)
        dropped = dict.fromkeys(_decorator_name(d) for d in before if d not in after)
        kept = [d for d in before if _decorator_name(d) not in dropped]
        added = [d for d in after if d not in kept]
        kind = "method" if "." in name else "function"
        if dropped:
            texts.append(f"config.drop_decorators({', '.join(map(literal, (name, *dropped)))})\n")
        if added:
            head = "".join(f"@{d}\n" for d in added)
            parameters = "self" if kind == "method" else ""
            texts.append(f"@config.edit_{kind}({literal(name)})\n{head}def decorated_{own}({parameters}):\n    ...\n")
        if sum(t.count("\n") for t in texts) > text.count("\n") + 1 or not texts:
            return None
        comments = self._comments(new)
        return [Block(name, f"{comments if not n else ''}{t}", text, "edited") for n, t in enumerate(texts)]

    def _comments(self, node: Definition) -> str:
        """The comments directly above a definition that upstream's module lacks."""
        source = self.theirs.source
        lines = [line.strip() for line in source.lines[source.comment_line(node) - 1 : source.first_line(node) - 1]]
        theirs = {line.strip() for line in self.ours.source.lines}
        return "".join(f"{line}\n" for line in lines if line not in theirs and not line.startswith("# Copied from"))


class _Places:
    """Where additions stand: below the definition of upstream's that has all they need while they are imported."""

    def __init__(self, ours: ModuleParts, theirs: ModuleParts) -> None:
        self.ours, self.theirs = ours, theirs
        body = ours.source.tree.body
        self.anchors = [n for n in body if isinstance(n, DEFINITIONS) and n.name in theirs.definitions]
        self.lines = {name: nodes[0].lineno for name, nodes in ours.source.index.assigned.items()}
        self.lines |= {node.name: node.lineno for node in self.anchors}
        self.added = set(theirs.definitions) - set(ours.definitions)
        self._settle()

    def _settle(self) -> None:
        """Give everything that the fork adds the line that it can follow."""
        for statement in self.theirs.source.tree.body:
            names = [statement.name] if isinstance(statement, DEFINITIONS) else sorted(bound_by(statement))
            line = self._line(statement)
            for name in names:
                if name not in self.lines and name not in self.ours.imports and name not in self.theirs.imports:
                    self.lines[name] = line

    def after(self, statement: ast.stmt) -> str:
        """The definition that a statement of the fork follows; empty where below the imports will do."""
        line = self._line(statement)
        if not isinstance(statement, DEFINITIONS):
            is_plain = isinstance(statement, (ast.Assign, ast.AnnAssign)) or is_import_guard(statement)
            if not is_plain or bound_by(statement) & set(self.ours.definitions):
                line = max(line, self._line_above(statement))
            elif any(name in self.added for name in self._needed(statement)):
                line = max(line, 1)
        if line <= 0:
            return ""
        return next((n.name for n in self.anchors if n.lineno >= line), self.anchors[-1].name if self.anchors else "")

    def _line_above(self, statement: ast.stmt) -> int:
        """The line of upstream's definition that the fork has above a statement."""
        above = [
            s.name for s in self.theirs.source.tree.body if s.lineno < statement.lineno and isinstance(s, DEFINITIONS)
        ]
        return max((node.lineno for node in self.anchors if node.name in above), default=-1)

    def _line(self, statement: ast.stmt) -> int:
        """The line of upstream's that it has to stand below."""
        return max((self.lines.get(name, -1) for name in self._needed(statement)), default=-1)

    def _needed(self, statement: ast.stmt) -> set[str]:
        source = self.theirs.source
        return needed_names(
            ast.unparse(statement) if not isinstance(statement, DEFINITIONS) else _whole(source, statement)
        )[0]


def _whole(source: SourceFile, node: Definition, name: str = "", *, with_decorators: bool = True) -> str:
    """A definition at column 0, with its decorators, under a name."""
    lines = source.lines[node.lineno - 1 : source.last_line(node)]
    inside = {number - node.lineno for number in source.string_lines}
    text = "\n".join(shift(lines, source.indent(node.lineno), "", inside))
    text = HEAD.sub(lambda head: f"{head[1]}{head[2]}{name}", text) if name else text
    decorators = [f"@{source.segment(d)}" for d in node.decorator_list] if with_decorators else []
    return "\n".join([*decorators, text])


def _without_decorators(text: str, node: Definition) -> str:
    lines = text.split("\n")
    first = next(number for number, line in enumerate(lines) if re.match(r"(async\s+)?(def|class)\b", line))
    return "\n".join(lines[first:]) if node.decorator_list else text


def _decorators(node: Definition) -> list[str]:
    return [ast.unparse(decorator) for decorator in node.decorator_list]


def _decorator_name(text: str) -> str:
    return text.partition("(")[0]


def _external(name: str, module: str, attribute: str) -> str:
    arguments = (("target", name), ("replacement_module", module), ("replacement_name", attribute))
    inner = ", ".join(f"{key}={literal(value)}" for key, value in arguments)
    return f"config.patches.append(create_patch_from_external({inner}))\n"


def _call(function: str, names: Iterable[str]) -> str:
    return f"config.{function}({', '.join(map(literal, names))})\n"


def block_lines(blocks: Sequence[str], first: int) -> list[range]:
    """The lines of texts that follow one another, of which the first stands on a line, two empty lines between."""
    ranges = []
    for text in blocks:
        count = text.rstrip("\n").count("\n") + 1
        ranges.append(range(first, first + count))
        first += count + 2
    return ranges

"""Edits that may stand for a replacement, and the texts of files that declare them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import libcst as cst

from patchgen_core.authoring.edits.config_file import Changes, ConfigFiles
from patchgen_core.authoring.edits.statements import StatementsInstead
from patchgen_core.authoring.slim.edit_texts import (
    EditText,
    Holder,
    PlacedCode,
    QuotedEdit,
    dropped_decorator,
    edit_blocks,
)
from patchgen_core.authoring.slim.function_edits import bound_names, find_edits
from patchgen_core.authoring.slim.parameters import NoEdits
from patchgen_core.authoring.slim.references import (
    References,
    declared_edit,
    edit_changes,
    holder_of,
    options_of,
)
from patchgen_core.authoring.slim.uses import ProjectUses, Use, Uses
from patchgen_core.build.normalize import format_texts
from patchgen_core.codegen.decorators import meaning
from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.nodes import Function, decorator_name
from patchgen_core.syntax.source import parse_source

_MOST = 0.8
"""Edits that are longer than this part of a replacement are no gain, unless they repeat much less."""
_REPEATED, _REPEATED_PART = 4, 0.25
"""Edits that repeat so many lines of upstream's less, and this part of a replacement's, may be as long."""


@dataclass(frozen=True)
class Candidate:
    """Edits in the place of a replacement.

    Attributes:
        after: lines of the edits with their declaration; ``before``, of the replacement.
        repeated: how many lines of upstream's text they repeat less.
        changes: of the files that change.
        text: the replacement, whose imports may go.
        is_shared: whether ``Edits`` hold them.
    """

    uses: Uses
    path: Path
    before: int
    after: int
    repeated: int
    changes: Mapping[Path, Changes]
    text: str
    is_shared: bool = False

    @property
    def is_gain(self) -> bool:
        """Whether they are worth a change of the config."""
        is_much = self.repeated >= max(_REPEATED, self.before * _REPEATED_PART)
        return self.after <= self.before * (1 if is_much else _MOST)


@dataclass(frozen=True)
class _Declared:
    """The function that is a replacement, as its file has it."""

    path: Path
    name: str
    node: cst.FunctionDef

    @property
    def decorator(self) -> cst.Decorator | None:
        """What declares it as a patch; None where calls do."""
        return self.node.decorators[0] if self.node.decorators else None


class Candidates:
    """Makes candidates for the replacements of a project."""

    def __init__(
        self, project: Project, uses: ProjectUses, files: ConfigFiles, references: References, is_new: bool
    ) -> None:
        self.project, self.uses, self.files, self.references = project, uses, files, references
        self.is_new = is_new
        self._names: dict[Path, set[str]] = {}

    def make(self, uses: Uses) -> list[Candidate]:
        """The candidates for a replacement, of which the first that keeps all code the same is to be taken.

        There are several where upstream's texts of the targets differ, and none where edits make it no shorter.

        Raises:
            NoEdits: why edits cannot say it.
        """
        path = Path(uses.location.file)
        if (
            not any(use.function is not None for use in uses.entries)
            or not path.is_relative_to(self.project.base)
            or "site-packages" in path.parts
        ):
            return []
        alternatives = self._alternatives(uses)
        if not alternatives:
            return []
        declared = self._declared(uses, path)
        calls = self.references.calls(path, declared.name)
        if uses.has_others:
            raise NoEdits("other patches or helpers share its replacement")
        if any(use.loaded.label in self.uses.hand_edited for use in uses.entries):
            raise NoEdits("a generated file of its configs was edited by hand")
        candidates = []
        for edits, names in alternatives:
            taken = self._names.setdefault(path, {*self.references.sources.get(path).index.names})
            if calls or declared.decorator is None:
                blocks = _shared_blocks(declared, edits, names, taken)
            else:
                holder = Holder(holder_of(declared.decorator), uses.entries[0].planned.patch.target)
                declared_edit(declared.decorator)  # for what is wrong with it
                blocks = edit_blocks(edits, holder, declared.name, options_of(declared.decorator), names, taken)
            self._names[path] = taken | set(re.findall(r"^def (\w+)", "\n".join(blocks), re.MULTILINE))
            blocks = format_texts(blocks, path.parent, self.project)
            candidates.append(self._candidate(uses, declared, blocks, calls))
        return [candidate for candidate in candidates if self._is_gain(candidate)]

    def _is_gain(self, candidate: Candidate) -> bool:
        """Whether it repeats less; in a config that somebody has written, enough for a change of it."""
        return candidate.repeated > 0 if self.is_new else candidate.is_gain

    def _candidate(
        self, uses: Uses, declared: _Declared, blocks: Sequence[str], calls: Mapping[Path, Sequence[cst.Call]]
    ) -> Candidate:
        text = _text_of(uses.entries[0])
        changes: dict[Path, dict[cst.CSTNode, Any]] = {
            path: dict(edit_changes(given)) for path, given in calls.items()
        }
        changes.setdefault(declared.path, {})[declared.node] = StatementsInstead(tuple(blocks))
        return Candidate(
            uses,
            declared.path,
            before=text.count("\n") + 1 + len(declared.node.decorators),
            after=sum(block.count("\n") for block in blocks),
            repeated=self._repeated(uses, text) - self._repeated(uses, "".join(blocks)),
            changes=changes,
            text=text,
            is_shared=bool(blocks) and blocks[0].startswith(f"{declared.name} = Edits()"),
        )

    def _repeated(self, uses: Uses, text: str) -> int:
        """How many lines of a text upstream's text of a target has, in the same order."""
        use = next(use for use in uses.entries if use.function is not None)
        source, function = self.uses.artifacts[use.loaded.label].plan.source, use.function
        assert function is not None
        theirs = _code_lines(source.lines[function.lineno - 1 : source.last_line(function)])
        matcher = SequenceMatcher(None, _code_lines(text.split("\n")), theirs, autojunk=False)
        return sum(block.size for block in matcher.get_matching_blocks())

    def _declared(self, uses: Uses, path: Path) -> _Declared:
        for node, position in self.files.get(path).positions.items():
            if isinstance(node, cst.FunctionDef) and position.start.line == uses.location.line:
                if len(node.decorators) > 1:
                    break
                return _Declared(path, node.name.value, node)
        raise NoEdits(f"its replacement at {uses.location} has several decorators, or none of its own lines")

    # --- what edits say ----------------------------------------------------------------------------

    def _alternatives(self, uses: Uses) -> list[tuple[list[EditText], list[str]]]:
        """Edits that make the replacement of upstream's text of one of its targets, and the names they may use."""
        alternatives: list[tuple[list[EditText], list[str]]] = []
        reasons = []
        for use in sorted(uses.entries, key=lambda use: (bool(use.planned.patch.name_map), str(use.loaded.path))):
            function = use.function
            if function is None:
                raise NoEdits(f"upstream has no single text of '{use.planned.patch.target}' to edit")
            try:
                alternative = self._edits(use, function)
            except (NoEdits, PatchgenError) as reason:
                reasons.append(reason)
                continue
            if alternative[0] and alternative not in alternatives:
                alternatives.append(alternative)
        if not alternatives and reasons:
            raise NoEdits(str(reasons[0]))
        return alternatives

    def _edits(self, use: Use, function: Function) -> tuple[list[EditText], list[str]]:
        new = parse_source(use.loaded.path, f"{_text_of(use)}\n")
        source = self.uses.artifacts[use.loaded.label].plan.source
        edits = [*find_edits(source, function, new), *map(dropped_decorator, _gone_decorators(use, function))]
        names = {new: old for old, new in use.planned.patch.name_map.items()}
        return [_mapped(edit, names) for edit in edits], bound_names(function, new)


def _code_lines(lines: Sequence[str]) -> list[str]:
    """Lines without their indent, comments and empty ones aside."""
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _text_of(use: Use) -> str:
    assert use.planned.replacement is not None
    return use.planned.replacement.text


def _gone_decorators(use: Use, function: Function) -> list[str]:
    """The decorators of upstream's that a replacement takes away."""
    patch, replacement = use.planned.patch, use.planned.replacement
    assert replacement is not None
    own = {meaning(text) for text in replacement.decorators}
    theirs = [ast.unparse(decorator) for decorator in function.decorator_list]
    if own - {meaning(text) for text in theirs}:
        raise NoEdits("its decorators differ from upstream's")
    if patch.kind == "method_override" and patch.keep_decorators:
        return []
    return [decorator_name(d) for d in function.decorator_list if meaning(ast.unparse(d)) not in own]


def _mapped(edit: EditText, names: Mapping[str, str]) -> EditText:
    """An edit in the names of the file that declares it."""
    if isinstance(edit, PlacedCode):
        lines = tuple(map_prefixes(line, names) for line in edit.lines)
        return PlacedCode(map_prefixes(edit.at, names), lines)
    options = tuple((name, map_prefixes(value, names)) for name, value in edit.options)
    return QuotedEdit(edit.method, tuple(map_prefixes(text, names) for text in edit.arguments), options)


def _shared_blocks(
    declared: _Declared, edits: Sequence[EditText], names: Sequence[str], taken: Collection[str]
) -> list[str]:
    """The declarations of edits that calls of configs take: a function that is one, or ``Edits`` with its name."""
    name, decorator = declared.name, declared.decorator
    (first, *more) = edits
    if isinstance(first, PlacedCode) and not first.at and not more:
        head = f"@{declared_edit(decorator)}\n" if decorator is not None else ""
        return [f"{head}{first.function(name, names)}"]
    own = edit_blocks(edits, Holder(name), name, (), names, {*taken, name})
    return [f"{name} = Edits()\n", *own, *([f"{declared_edit(decorator, name)}\n"] if decorator is not None else [])]

"""The config of a fork: written, generated and compared with the fork until both are the same code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen_core.authoring.edits.needed_imports import needed_names
from patchgen_core.authoring.fork.declarations import (
    CLASS_REPLACED,
    EDITED,
    REPLACED,
    Block,
    Declarations,
    Sides,
    block_lines,
)
from patchgen_core.authoring.fork.fork_file import Fork, normalized
from patchgen_core.authoring.fork.module_parts import Mismatch, ModuleParts, Place, bound_by, find_mismatches
from patchgen_core.authoring.fork.own_imports import with_upstreams_own
from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.build.normalize import format_texts
from patchgen_core.build.results import Artifact
from patchgen_core.codegen.imports import absolute_imports
from patchgen_core.config.loading import Loader
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.syntax.source import SourceCache, parse_source
from patchgen_core.upstream.module import UpstreamModule

_ROUNDS = 40


@dataclass(frozen=True)
class ForkConfig:
    """A config's text, and what it makes.

    Attributes:
        changes: what it declares, each ``target: how``.
        left: in what the generated module is not the fork.
        renamed: the fork's names that are upstream's in the generated module.
    """

    text: str
    artifact: Artifact
    changes: tuple[str, ...]
    left: tuple[Problem, ...]
    renamed: dict[str, str]


@dataclass
class ForkWriter:
    """Writes the config of a fork of one upstream module; ``project`` finds that module in the fork's release."""

    project: Project
    fork: Fork
    upstream: UpstreamModule
    path: Path
    about: Sequence[str]
    sources: SourceCache = field(default_factory=SourceCache)

    def write(self) -> ForkConfig:
        """The config with the smallest patches that make the fork's code.

        Raises:
            PatchgenError: upstream's module itself does not generate, or ruff cannot run.
        """
        source = self.sources.get(self.upstream.path)
        fork, renamed = self.fork.renamed(source, self.upstream.package)
        fork = with_upstreams_own(fork, source, self.upstream)
        home = self.project.output_folder(self.path) / self.target_file
        absolute = absolute_imports(source.text, self.upstream.package, Location(str(source.path)))
        # the raw text keeps its lines: only module names in imports are other ones
        ours = parse_source(source.path, absolute)
        before = ModuleParts(normalized(ours, home, self.project))
        after = ModuleParts(normalized(fork, home, self.project))
        sides = Sides(ours, fork, before, after)
        return self._settle(sides, renamed)

    @property
    def target_file(self) -> str:
        """The name of the generated file."""
        return f"patched_modeling_{self.path.name.removesuffix(CONFIG_SUFFIX)}.py"

    def _settle(self, sides: Sides, renamed: dict[str, str]) -> ForkConfig:
        levels: dict[str, int] = {}
        refused: dict[str, Problem] = {}
        for _ in range(_ROUNDS):
            blocks = [b for b in Declarations(sides, levels).blocks() if b.text not in refused]
            text, lines = self._text(blocks, sides)
            outcome = self._make(text)
            if isinstance(outcome, Artifact):
                mismatches = find_mismatches(sides.after, ModuleParts(parse_source(outcome.path, outcome.text)))
                if not self._escalate(mismatches, levels, sides):
                    return self._finished(text, outcome, blocks, mismatches, refused, renamed)
                continue
            self._refuse(outcome, blocks, lines, levels, refused)
        raise PatchgenError.from_problems(outcome if not isinstance(outcome, Artifact) else ())

    def _escalate(self, mismatches: Iterable[Mismatch], levels: dict[str, int], sides: Sides) -> bool:
        """Write down more of what is not the same yet; whether there was more to write down."""
        has_more = False
        for mismatch in mismatches:
            name, level = mismatch.name, levels.get(mismatch.name, EDITED)
            last = CLASS_REPLACED if "." in name else REPLACED
            if name and level < last and name in sides.after.definitions and name in sides.before.definitions:
                levels[name] = level + 1
                has_more = True
        return has_more

    def _refuse(
        self,
        problems: Sequence[Problem],
        blocks: Sequence[Block],
        lines: Sequence[range],
        levels: dict[str, int],
        refused: dict[str, Problem],
    ) -> None:
        """Write down more of what does not generate, or leave it out."""
        is_blamed = False
        for problem in problems:
            at = problem.location.line if problem.location is not None else 0
            block = next((b for b, span in zip(blocks, lines, strict=True) if at in span), None)
            if block is None:
                continue
            is_blamed = True
            level = levels.get(block.subject, EDITED)
            last = CLASS_REPLACED if "." in block.subject else REPLACED
            if block.subject and level < last and block.word in ("edited", "overridden", "without decorators"):
                levels[block.subject] = level + 1
            else:
                refused[block.text] = problem
        if not is_blamed:
            raise PatchgenError.from_problems(problems)

    def _finished(
        self,
        text: str,
        made: Artifact,
        blocks: Sequence[Block],
        mismatches: Sequence[Mismatch],
        refused: dict[str, Problem],
        renamed: dict[str, str],
    ) -> ForkConfig:
        path, lines = str(self.fork.source.path), self._lines(renamed)
        left = [Problem(f"not taken over: {m.message}", Location(path, lines.get(m.name, 1))) for m in mismatches]
        reasons = [Problem(p.message, Location(path), p.hint) for p in refused.values()]
        changes = dict.fromkeys(f"{block.subject}: {block.word}" for block in blocks if block.subject)
        return ForkConfig(text, made, tuple(changes), (*left, *(reasons if left else ())), renamed)

    def _lines(self, renamed: dict[str, str]) -> dict[str, int]:
        """Where the fork has what upstream calls by a name."""
        named = ((name.split("."), node.lineno) for name, node in self.fork.source.definitions)
        return {".".join([renamed.get(first, first), *rest]): line for (first, *rest), line in named}

    def _make(self, text: str) -> Artifact | tuple[Problem, ...]:
        sources = self.sources.fork()
        try:
            sources.put(self.path, text)
            [loaded] = Loader(self.project, sources).load(self.path)
            [outcome] = make_outcomes(self.project, [loaded], sources)
        except PatchgenError as error:
            return error.problems
        return outcome.artifact or outcome.problems

    # --- text --------------------------------------------------------------------------------------

    def _text(self, blocks: Sequence[Block], sides: Sides) -> tuple[str, list[range]]:
        """The config with declarations, and the lines of each."""
        texts = [t.strip("\n") for t in format_texts([b.text for b in blocks], self.path.parent, self.project)]
        head = format_texts([self._head(blocks, sides)], self.path.parent, self.project)[0].rstrip("\n")
        first = head.count("\n") + 4
        return "\n\n\n".join([head, *texts]) + "\n", block_lines(texts, first)

    def _head(self, blocks: Sequence[Block], sides: Sides) -> str:
        lines = [f'"""{self.about[0]}', *self.about[1:], '"""', ""]
        places, unplaced = _config_names(blocks, sides, self.upstream.module)
        lines += _sorted_imports(places)
        externals = any("create_patch_from_external" in block.text for block in blocks)
        lines += ["", f"from patchgen import PatchConfig{', create_patch_from_external' if externals else ''}", ""]
        name = self.upstream.module.rpartition(".")[2].removeprefix("modeling_")
        lines += ["config = PatchConfig("]
        lines += [f'    source_module="{self.upstream.module}",', f'    target_file="{self.target_file}",']
        lines += [f'    description="{name} as {self.fork.source.path.name} has it",', ")"]
        if unplaced:
            lines += ["", "# The blocks below bind these in the generated module.", *unplaced]
        return "\n".join(lines) + "\n"


def _config_names(blocks: Sequence[Block], sides: Sides, module: str) -> tuple[dict[str, Place], list[str]]:
    """Where the names come from that the code of a config refers to; and statements that bind those that Python asks
    for while the config is loaded, although only its blocks bind them."""
    codes = [block.code for block in blocks if block.code]
    own = {node.name for code in codes for node in ast.parse(code).body if isinstance(node, ast.ClassDef)}
    helpers = {b.subject for b in blocks if b.word == "added"}
    needed = {name for code in codes for names in needed_names(code) for name in names} - helpers - own
    theirs, ours = ModuleParts(sides.fork), sides.upstream.index
    places: dict[str, Place] = {}
    for name in sorted(needed):
        place = theirs.imports.get(name) or theirs.guarded.get(name)
        if place is not None:
            places[name] = place
        elif name in ours.definitions or name in ours.assigned:
            places[name] = (module, name)
    early = {name for code in codes for name in needed_names(code)[0]}
    unplaced = early - set(places) - helpers - own
    binding = [s for s in theirs.statements.values() if bound_by(s) & unplaced and isinstance(s, ast.Assign)]
    return places, [_binding(statement) for statement in binding]


def _binding(statement: ast.Assign) -> str:
    """A statement as a config has it while it is loaded, where texts do not matter."""
    value = statement.value
    is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return ast.unparse(ast.Assign(statement.targets, ast.Constant("") if is_text else value, lineno=1))


def _sorted_imports(places: dict[str, Place]) -> list[str]:
    """The statements that import names, the standard library's above the others."""
    names: dict[str, list[str]] = {}
    lines: dict[str, str] = {}
    for name, (module, attribute) in sorted(places.items()):
        if attribute:
            names.setdefault(module, []).append(name if name == attribute else f"{attribute} as {name}")
        else:
            lines[f"{module} {name}"] = f"import {module}" + ("" if name == module else f" as {name}")
    plain = sorted(lines.items())
    plain += sorted((f"{module} ", f"from {module} import {', '.join(entries)}") for module, entries in names.items())
    own = [line for key, line in plain if key.split()[0].split(".")[0] in sys.stdlib_module_names]
    others = [line for _, line in plain if line not in own]
    return [*own, *([""] if own and others else []), *others]

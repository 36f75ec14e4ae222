"""Generated modules: which config makes one, and which lines of the one come from which of the other."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.places import config_location
from patchgen_core.checks.contract.rule import Finding
from patchgen_core.errors import Location
from patchgen_core.project.project import CONFIG_SUFFIX, OUTPUT_FOLDER
from patchgen_core.syntax.nodes import Definition
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.workbench import Workbench


@dataclass(frozen=True)
class GeneratedView:
    """What a config makes, beside the config's file."""

    config: Path
    artifact: Artifact
    source: SourceFile

    def find(self, dotted: str) -> Definition | None:
        """A definition of the generated module."""
        return dict(self.source.definitions).get(dotted)

    def text_of(self, node: Definition) -> str:
        """The text of a definition, decorators included."""
        return "\n".join(self.source.lines[self.source.first_line(node) - 1 : self.source.last_line(node)])


def view_generated(bench: Workbench, config: Path) -> list[GeneratedView]:
    """What the configs of a file make, or made before it was half-typed."""
    artifacts = bench.last_good(config).artifacts
    return [GeneratedView(config, artifact, artifact.source) for artifact in artifacts]


def is_generated_file(path: Path) -> bool:
    """Whether a file stands where generated modules do."""
    return path.parent.name == OUTPUT_FOLDER and path.suffix == ".py"


def find_maker(bench: Workbench, generated: Path) -> GeneratedView | None:
    """What makes a generated file, of the configs that write into its folder; None where none does."""
    project = bench.project
    for config in sorted(project.find_configs()):
        if config.name.endswith(CONFIG_SUFFIX) and project.output_folder(config) == generated.parent:
            for view in view_generated(bench, config):
                if view.artifact.path == generated:
                    return view
    return None


def find_line(source: SourceFile, line: int, other: SourceFile) -> int:
    """A line of a module in another version of it: in the same class or function the line that reads the same, or else
    its first line; 0 where there is none."""
    if source.text == other.text:
        return line
    wanted, owner = source.lines[line - 1].strip(), source.owner_at(line)
    ours, theirs = dict(source.definitions).get(owner), dict(other.definitions).get(owner)
    if owner and theirs is None:
        return 0
    first, last = (theirs.lineno, other.last_line(theirs)) if theirs is not None else (1, len(other.lines))
    start = other.first_line(theirs) if theirs is not None else 1
    expected = first + line - (ours.lineno if ours is not None else 1)
    same = [number for number in range(start, last + 1) if other.lines[number - 1].strip() == wanted]
    default = theirs.lineno if theirs is not None else 0
    return min(same, key=lambda number: abs(number - expected), default=default)


def source_of_line(bench: Workbench, view: GeneratedView, line: int) -> Location | None:
    """The line of a config that a line of a generated module comes from; None for upstream's own."""
    subject = bench.contracts().subject(view.artifact)
    owner = view.source.owner_at(line)
    patch = subject.patch_of(owner) if owner else None
    if patch is None and owner.partition(".")[0] not in subject.helpers:
        return None
    return config_location(subject, Finding("", "", ast.Pass(lineno=line, col_offset=0), owner))

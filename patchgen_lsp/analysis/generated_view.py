"""Generated modules: which config makes one, and which lines of the one come from which of the other."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.places import config_location
from patchgen_core.checks.contract.rule import Finding
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import read_text
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


def line_on_disk(view: GeneratedView, line: int) -> int:
    """A line of what is made now, in the file as it is; the same where the file is that, or is not there."""
    try:
        text = read_text(view.artifact.path)
    except PatchgenError:
        return line
    if text is None or text == view.artifact.text:
        return line
    wanted = view.source.lines[line - 1]
    lines = text.split("\n")
    near = [number for number, other in enumerate(lines, 1) if other == wanted]
    return min(near, key=lambda number: abs(number - line), default=min(line, len(lines)))


def source_of_line(bench: Workbench, view: GeneratedView, line: int) -> Location | None:
    """The line of a config that a line of a generated module comes from; None for upstream's own."""
    subject = bench.contracts().subject(view.artifact)
    owner = view.source.owner_at(line)
    patch = subject.patch_of(owner) if owner else None
    if patch is None and owner.partition(".")[0] not in subject.helpers:
        return None
    return config_location(subject, Finding("", "", ast.Pass(lineno=line, col_offset=0), owner))

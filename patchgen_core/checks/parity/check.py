"""The check ``parity``: one item for each implementation that the slots of a module offer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.library import Library
from patchgen_core.checks.contract.run import selected_codes
from patchgen_core.checks.model_process.check import ModelCheck, model_process
from patchgen_core.checks.model_process.process import ModelProcess
from patchgen_core.checks.model_process.texts import read_generated_texts
from patchgen_core.checks.parity.batch_lines import BatchLine
from patchgen_core.checks.parity.findings import judge, unknown_heads, unknown_implementations
from patchgen_core.checks.parity.patched import patched_code
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.parity.slots import read_slots, text_of_blocks
from patchgen_core.checks.parity_codes import UNUSED
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.files import read_text
from patchgen_core.models.implementations import list_implementations
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache

_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)

_UNBOUND = "slots of {home} are left as they are: a set-up can bind them ([tool.patchgen] setup, ModelSetup.add_slots)"
_FUNCTION = "patchgen_core.checks.parity.comparison:check_request"
_LISTING = "patchgen_core.checks.parity.batch_listing:list_batches"


class ParityCheck(ModelCheck):
    """The generated model computes what Hugging Face eager computes, forward and backward."""

    name = "parity"
    on_device = True
    runs_in_workers = True
    follows_configs = False

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._implementations: dict[Path, tuple[str, ...] | PatchgenError] = {}
        self._libraries: dict[Project, Library] = {}
        self._foreign: dict[Path, str] = {}

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def items(self, path: Path) -> Iterator[str]:
        """One item for each implementation that the slots offer, or one that fails when they cannot be told."""
        try:
            implementations = self._offered(path)
        except PatchgenError:
            yield self.name
            return
        yield from map(self._item, implementations)

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Run the models of the checked-in module, or of what a run that rewrites files puts there."""
        self._offered(path)
        return super().run(path, item)

    def refuse_machine(self, project: Project | None) -> None:
        """Ask for what every check of models does, and for the heads that are left out."""
        super().refuse_machine(project)
        if project is not None:
            refuse_unknown_heads(project)

    def siblings(self, path: Path) -> tuple[str, ...]:
        """The items of all implementations."""
        return tuple(map(self._item, self._offered(path)))

    def device_types(self, path: Path, item: str) -> frozenset[str]:
        """Those of the kernels that the implementation's name stands for."""
        process = model_process(self.session, self.session.project(path))
        return process.device_types(implementation_of(self.name, item))

    def compare(self, process: ModelProcess, artifact: Artifact, path: Path, item: str, fresh: bool) -> CheckResult:
        """Compare one implementation with Hugging Face eager."""
        implementation = implementation_of(self.name, item)
        settings = self.session.settings
        offered, batches = self._offered(path), settings.toy_batches
        result = compare_model(process, artifact, implementation, offered, batches, fresh, settings.level)
        home = self._foreign.get(path)
        return replace(result, notes=(*result.notes, _UNBOUND.format(home=home))) if home else result

    def _item(self, implementation: str) -> str:
        return f"{self.name}[{implementation}]"

    def _offered(self, path: Path) -> tuple[str, ...]:
        """The implementations of a config's module, as they were when they were first asked for."""
        if path not in self._implementations:
            try:
                self._implementations[path] = self._read_implementations(path)
            except PatchgenError as error:
                self._implementations[path] = error
        implementations = self._implementations[path]
        if isinstance(implementations, PatchgenError):
            raise implementations
        return implementations

    def _read_implementations(self, path: Path) -> tuple[str, ...]:
        modules = self._modules(path)
        if not modules:
            return ()
        project = self.session.project(path)
        library = self._libraries.setdefault(project, Library(project, SourceCache()))
        slots = [slot for name, text in modules for slot in read_slots(text, name, library)]
        own = [(slot.op_name, slot.variant) for slot in slots if slot.is_own]
        others = [(slot.homes, slot.op_name, slot.variant) for slot in slots if not slot.is_own]
        process = model_process(self.session, project)
        names, added = process.project_implementations(others)
        if others and names is None:
            self._foreign[path] = others[0][0][0]
        return (*list_implementations(own, process.kernels() if own else [], names), *added)

    def _modules(self, path: Path) -> list[tuple[str, str]]:
        """What tells which slots a config's module has, each a dotted name and a text: the module itself, or else what
        the config says that it holds.

        Nothing where there is no model.
        """
        try:
            name = self.session.project(path).module_name(path)
        except PatchgenError:  # there is no project: the drift check says so
            return []
        text, generated = read_text(path) or "", read_generated_texts(self.session, path)
        declared = [(name, text_of_blocks(text))]
        if not generated:
            return declared if "transformers" in text else []
        if not any("PreTrainedModel" in text for _, text in generated):
            return []
        return declared if self.session.settings.fix and "Slot" in declared[0][1] else generated


def implementation_of(check: str, item: str) -> str:
    """The implementation that an item of a check is about."""
    return item.removeprefix(f"{check}[").removesuffix("]")


def refuse_unknown_heads(project: Project) -> None:
    """Raise a PatchgenError where no generated module has a head that the project's settings for parity name."""
    patterns = project.parity.head_patterns
    folders = {project.output_folder(path) for path in project.find_configs()} if patterns else set()
    texts = [read_text(file) or "" for folder in folders for file in folder.glob("*.py")]
    classes = {name for text in texts for name in _CLASS.findall(text)}
    for pattern, key in patterns:
        if classes and not any(fnmatchcase(name, pattern) for name in classes):
            message = f"[tool.patchgen.parity] {key}: no generated module has a class '{pattern}'"
            raise PatchgenError(message, project.key_location(key, "parity"), did_you_mean(pattern, classes))


def compare_model(
    process: ModelProcess,
    artifact: Artifact,
    implementation: str,
    offered_implementations: tuple[str, ...] = (),
    batches: tuple[str, ...] = (),
    fresh: bool = False,
    level: str = "",
) -> CheckResult:
    """Compare a generated module with Hugging Face eager, forward and backward.

    ``offered_implementations`` are those of the config that are being checked; ``batches`` refer to builders beside
    the project's; ``fresh`` uses the text that was generated now, whatever stands on disk. ``level`` is how
    much is varied; the project's settings say it where it is empty.
    """
    project, config = process.project, artifact.plan.config
    text = artifact.text if fresh else read_text(artifact.path) or ""
    request = make_request(process, artifact, implementation, offered_implementations, batches, text, fresh, level)
    result = process.run(_FUNCTION, artifact.path.name, request)
    path = Path(config.location.file)
    codes = selected_codes(project, path, project.module_name(path))
    if UNUSED in codes and request.offered[:1] == (implementation,):  # once for all implementations
        unknown = unknown_implementations(config.tolerances, request.offered)
        unknown += unknown_heads(config.tolerances, _CLASS.findall(text))
        result = replace(result, warnings=(*result.warnings, *unknown))
    return judge(result, config.allowed, codes)


def describe_batches(process: ModelProcess, artifact: Artifact) -> tuple[BatchLine, ...]:
    """The batches that a config's models are run on with upstream's lines, and why; a PatchgenError where they cannot
    be made."""
    request = make_request(process, artifact, EAGER, (EAGER,), (), artifact.text, fresh=True)
    lines: tuple[BatchLine, ...] = process.ask(_LISTING, artifact.path.name, request)
    return lines


def make_request(
    process: ModelProcess,
    artifact: Artifact,
    implementation: str,
    offered_implementations: tuple[str, ...],
    batches: tuple[str, ...],
    text: str,
    fresh: bool,
    level: str = "",
) -> ParityRequest:
    """What the process is asked about a generated module, whose text is ``text``; the rest as for
    :func:`compare_model`."""
    project, config = process.project, artifact.plan.config
    settings = project.parity
    return ParityRequest(
        module=project.module_name(artifact.path),
        path=str(artifact.path),
        upstream=artifact.plan.upstream.module,
        implementation=implementation,
        declared=config.location,
        patches=patched_code(artifact, text),
        tolerances=tuple(config.tolerances),
        project_tolerances=dict(settings.tolerance),
        toy_config=config.toy_config,
        toy_root=str(settings.toy_root or ""),
        batches=(*settings.batches, *batches),
        device=process.device,
        dtypes=settings.dtypes,
        offered=offered_implementations,
        left_out=settings.leave_out,
        level=level or settings.level,
        text=text if fresh else None,
    )

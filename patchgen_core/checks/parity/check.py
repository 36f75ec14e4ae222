"""The check ``parity``: one item for each implementation that the slots of a module offer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.parity_codes import UNUSED
from patchgen_core.checks.contract.run import wanted_codes
from patchgen_core.checks.model_process.check import ModelCheck, model_process, refuse_device
from patchgen_core.checks.model_process.process import ModelProcess
from patchgen_core.checks.parity.findings import judge, unknown_implementations
from patchgen_core.checks.parity.patched import patched_code
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text
from patchgen_core.models.implementations import list_implementations
from patchgen_core.project.project import Project

_PYTHON_FILE = re.compile(r"""["']([\w.\-]+\.py)["']""")

_FUNCTION = "patchgen_core.checks.parity.comparison:check_request"


class ParityCheck(ModelCheck):
    """The generated model computes what Hugging Face eager computes, forward and backward."""

    name = "parity"
    on_device = True

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._implementations: dict[Path, tuple[str, ...] | PatchgenError] = {}

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
        """Ask for the device."""
        refuse_device(self.session, project)

    def siblings(self, path: Path) -> tuple[str, ...]:
        """The items of all implementations."""
        return tuple(map(self._item, self._offered(path)))

    def compare(self, process: ModelProcess, artifact: Artifact, path: Path, item: str, fresh: bool) -> CheckResult:
        """Compare one implementation with Hugging Face eager."""
        implementation = item.removeprefix(f"{self.name}[").removesuffix("]")
        batches = self.session.settings.toy_batches
        return compare_model(process, artifact, implementation, self._offered(path), batches, fresh)

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
        text = self._module_text(path)
        if not text:
            return ()
        project = self.session.project(path)
        kernels = model_process(self.session, project).kernels() if "OpSlot" in text else []
        return list_implementations(text, kernels)

    def _module_text(self, path: Path) -> str:
        """What tells whether a config's module has a model and which slots: the module itself, or else the config.

        Empty when there is no model. The config is not loaded, which may need torch.
        """
        text = read_text(path) or ""
        try:
            folder = self.session.project(path).output_folder(path)
        except PatchgenError:  # there is no project: the drift check says so
            return ""
        modules = [read_text(folder / name) for name in _PYTHON_FILE.findall(text)]
        generated = "\n".join(filter(None, modules or map(read_text, sorted(folder.glob("*.py")))))
        if not generated:
            return text if "transformers" in text else ""
        if "PreTrainedModel" not in generated:
            return ""
        return text if self.session.settings.fix and "OpSlot" in text else generated


def compare_model(
    process: ModelProcess,
    artifact: Artifact,
    implementation: str,
    offered_implementations: tuple[str, ...] = (),
    batches: tuple[str, ...] = (),
    fresh: bool = False,
) -> CheckResult:
    """Compare a generated module with Hugging Face eager, forward and backward.

    ``offered_implementations`` are those of the config that are being checked; ``batches`` refer to builders beside
    the project's; ``fresh`` uses the text that was generated now, whatever stands on disk.
    """
    project, config = process.project, artifact.plan.config
    settings = project.parity
    request = ParityRequest(
        module=project.module_name(artifact.path),
        path=str(artifact.path),
        upstream=artifact.plan.upstream.module,
        implementation=implementation,
        declared=config.location,
        patches=patched_code(artifact, artifact.text if fresh else read_text(artifact.path) or ""),
        tolerances=tuple(config.tolerances),
        project_tolerances=dict(settings.tolerance),
        toy_config=config.toy_config,
        toy_root=str(settings.toy_root or ""),
        batches=(*settings.batches, *batches),
        device=process.device,
        dtypes=settings.dtypes,
        offered=offered_implementations,
        text=artifact.text if fresh else None,
    )
    result = process.run(_FUNCTION, artifact.path.name, request)
    path = Path(config.location.file)
    codes = wanted_codes(project, path, project.module_name(path))
    if UNUSED in codes and request.offered[:1] == (implementation,):  # once for all implementations
        unknown = unknown_implementations(config.tolerances, request.offered)
        result = replace(result, warnings=(*result.warnings, *unknown))
    return judge(result, config.allowed, codes)

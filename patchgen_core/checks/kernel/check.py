"""The check ``kernel``: the kernels of a project, whichever configs use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.check import Check
from patchgen_core.checks.contract.library import Library
from patchgen_core.checks.kernel.npu import list_stood_in
from patchgen_core.checks.model_process.check import model_process, refuse_device, refuse_setup
from patchgen_core.checks.model_process.process import KernelName
from patchgen_core.checks.parity.slots import read_slots, text_of_blocks
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text
from patchgen_core.ops.slot import OpSlot
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache

_FUNCTION = "patchgen_core.checks.kernel.comparison:check_request"


class KernelCheck(Check):
    """A kernel computes what the eager function of its op computes."""

    name = "kernel"
    on_device = True
    runs_in_workers = True
    runs_ahead = True

    def items(self, path: Path) -> Iterator[str]:
        """None: kernels are checked for the project."""
        yield from ()

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def project_items(self, path: Path) -> Iterator[str]:
        """One item for every kernel that can run here; one that fails when they cannot be told."""
        project = self.session.project(path)
        if not uses_kernels(project):
            return
        try:
            kernels = self._kernels(project)
        except PatchgenError:
            yield self.name
            return
        for kernel in kernels:
            yield self._item(kernel)

    def device_types(self, path: Path, item: str) -> frozenset[str]:
        """That of the kernel."""
        project = self.session.project(path)
        names = [kernel[2] for kernel in self._kernels(project) if self._item(kernel) == item]
        process = model_process(self.session, project)
        return frozenset().union(*(process.device_types(name) for name in names))

    def refuse_machine(self, project: Project | None) -> None:
        """Ask for what the project's set-ups need, and for the device."""
        refuse_setup(self.session, project)
        refuse_device(self.session, project)

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Compare forward and backward over random inputs."""
        project = self.session.project(path)
        kernel = next(kernel for kernel in self._kernels(project) if self._item(kernel) == item)
        label = "-".join(kernel)
        result = model_process(self.session, project).run(_FUNCTION, f"kernel {label}", kernel)
        notes = (*result.notes, *_largest_error(result))
        return [replace(result, config=label, path=str(path), check=self.name, notes=notes)]

    def _kernels(self, project: Project) -> list[KernelName]:
        stood_in = [(spec.op_name, spec.variant, spec.name) for spec in list_stood_in()]
        return sorted({*model_process(self.session, project).kernels(), *stood_in})

    def _item(self, kernel: KernelName) -> str:
        return f"{self.name}[{'-'.join(kernel)}]"


def uses_kernels(project: Project) -> bool:
    """Whether a project has to do with kernels: it registers some, or a config makes a slot of this package."""
    if project.kernels:
        return True
    library = Library(project, SourceCache())
    texts = ((path, read_text(path) or "") for path in project.find_configs())
    slots = (
        slot
        for path, text in texts
        if OpSlot.__name__ in text
        for slot in read_slots(text_of_blocks(text), project.module_name(path), library)
    )
    return any(slot.is_own for slot in slots)


def _largest_error(result: CheckResult) -> Iterator[str]:
    """The largest of a kernel's errors, which are parts of what is allowed."""
    if result.figures:
        name = max(result.figures, key=lambda name: result.figures[name])
        yield f"largest error: {result.figures[name]:.2g} of what is allowed ({name})"

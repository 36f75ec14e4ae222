"""The checks that run models and kernels; in another process, so that this one imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from patchgen_core.build.results import Artifact, ConfigResult
from patchgen_core.checks.parity.client import CONVERTER_FILE, PLAN_FILE, KernelName, ModelChecks
from patchgen_core.checks.parity.verdict import CheckVerdict
from patchgen_core.checks.result import CheckResult, Status
from patchgen_core.errors import Location, PatchgenError, Problem
from pytest_patchgen.items import CheckItem, ConfigFile

DRIFTED = "The generated file has drifted: mend that first."
"""What to add to the problems of a model that is not what its config makes."""


class BesideItem(CheckItem):
    """A check of what a config makes together with another file of its folder; there where that file is.

    Attributes:
        beside: name of the file.
    """

    beside: ClassVar[str]

    @classmethod
    def make(cls, parent: ConfigFile) -> Iterator[CheckItem]:
        """One item, if the file is there."""
        if (parent.path.parent / cls.beside).is_file():
            yield from super().make(parent)

    def examine(self) -> Sequence[CheckResult]:
        """Run the models of the checked-in modules."""
        return [self._run(result) for result in self.results()]

    def _run(self, result: ConfigResult) -> CheckResult:
        artifact = result.outcome.artifact
        is_fixed = self.is_fixed(result)
        if artifact is None or (not is_fixed and not artifact.path.exists()):
            return self.unmade(result, "there is no model to run: the drift check says why")
        checks = self.gate.verdicts.models(self.gate.verdicts.project(self.path))
        verdict = self.ask(checks, artifact, is_fixed)
        location = Location(str(self.path.parent / self.beside))
        problems = tuple(replace(problem, location=location) for problem in verdict.problems)
        if result.status == "drifted" and not is_fixed:
            problems = tuple(replace(p, hint=f"{p.hint} {DRIFTED}".strip()) for p in problems)
        status, reason = outcome(problems, verdict)
        told = {"notes": verdict.notes, "figures": verdict.figures}
        return self.record(result, status, reason=reason, errors=problems, **told)

    def ask(self, checks: ModelChecks, artifact: Artifact, fresh: bool) -> CheckVerdict:
        """The verdict on what one config makes; ``fresh`` is for the text that is about to be written."""
        raise NotImplementedError


class ConverterItem(BesideItem):
    """The checkpoints of the hub load through the converter, and go back."""

    check = "converter"
    beside = CONVERTER_FILE

    def ask(self, checks: ModelChecks, artifact: Artifact, fresh: bool) -> CheckVerdict:
        """Compare with what Hugging Face saves and loads."""
        return checks.converter(artifact, self.path.parent, fresh)


class PlanItem(BesideItem):
    """The parallel plan fits the parameters."""

    check = "plan"
    beside = PLAN_FILE

    def ask(self, checks: ModelChecks, artifact: Artifact, fresh: bool) -> CheckVerdict:
        """Match the plan, and apply it on ranks of this machine."""
        return checks.plan(artifact, self.path.parent, fresh)


class KernelItem(CheckItem):
    """A kernel computes what the eager function of its op computes."""

    check = "kernel"
    on_device = True
    kernel: KernelName = ("", "", "")
    problems: tuple[Problem, ...] = ()

    @classmethod
    def make(cls, parent: ConfigFile) -> Iterator[CheckItem]:
        """None: kernels are checked for the project."""
        return iter(())

    @classmethod
    def make_all(cls, parent: pytest.File, checks: ModelChecks) -> Iterator[KernelItem]:
        """One item for every kernel that can run here; one that fails when they cannot be told."""
        try:
            kernels = checks.kernels()
        except PatchgenError as error:
            item: KernelItem = cls.from_parent(parent, name=cls.check)
            item.problems = error.problems
            yield item
            return
        for kernel in kernels:
            item = cls.from_parent(parent, name=f"{cls.check}[{'-'.join(kernel)}]")
            item.kernel = kernel
            yield item

    def examine(self) -> Sequence[CheckResult]:
        """Compare forward and backward over random inputs."""
        if self.problems:
            raise PatchgenError.from_problems(self.problems)
        checks = self.gate.verdicts.models(self.gate.verdicts.project(self.path))
        verdict = checks.kernel(self.kernel)
        status, reason = outcome(verdict.problems, verdict)
        bare = CheckResult("-".join(self.kernel), str(self.path), 0, self.check, status, errors=verdict.problems)
        return [replace(bare, reason=reason, notes=(*verdict.notes, *_worst(verdict)), figures=verdict.figures)]


def uses_kernels(configs: Sequence[Path], registers: bool) -> bool:
    """Whether a project has to do with kernels: it registers some, or a config makes an op slot."""
    return registers or any(b"OpSlot" in path.read_bytes() for path in configs if path.is_file())


def outcome(problems: Sequence[object], verdict: CheckVerdict) -> tuple[Status, str]:
    """The status that a check has, and why when it was skipped."""
    if problems:
        return "failed", ""
    return ("skipped", verdict.skipped) if verdict.skipped else ("clean", "")


def _worst(verdict: CheckVerdict) -> Iterator[str]:
    """The largest of a kernel's errors, which are parts of what is allowed."""
    if verdict.figures:
        name = max(verdict.figures, key=lambda name: verdict.figures[name])
        yield f"largest error: {verdict.figures[name]:.2g} of what is allowed ({name})"

"""What the gate says of a config with a defect: its contracts, and its parity under every implementation."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.library import Library
from patchgen_core.checks.model_process.process import ModelProcess
from patchgen_core.checks.model_process.request import ModelRequest
from patchgen_core.checks.parity import model_comparison
from patchgen_core.checks.parity.check import compare_model
from patchgen_core.checks.parity.model_comparison import explain_exception, explain_failure
from patchgen_core.checks.parity.slots import read_slots
from patchgen_core.config.loading import Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.models.implementations import list_implementations, slots_in
from patchgen_core.models.model_setup import PATCHED, THROUGH_SLOTS
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.ops.registry import KERNEL_REGISTRY
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.workers.search_path import search_path
from tools.mutation.correct import Generator
from tools.mutation.mutant import CodeMutant

Verdict = Literal["contract", "parity", "crash", "hang", "survived"]
_LONGEST = 2000
"""How much is kept of what the gate says."""
_QUICK = (EAGER, PATCHED, THROUGH_SLOTS, "grouped_mm")


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        verdict: who found it: "contract" is generation and contract rules, "crash" a parity check in which the module
            does not import, or its model cannot be built or raises; "hang" one that takes too long.
        by: the rule's code, or the implementation whose check fails.
        message: what the gate says.
        seconds: how long it took.
    """

    verdict: Verdict
    by: str = ""
    message: str = ""
    seconds: float = 0.0


class Gate:
    """The gate over one config of a project, in this process.

    Args:
        project: the project.
        path: the config.
    """

    def __init__(self, project: Project, path: Path) -> None:
        self.project, self.path, self.sources = project, path, SourceCache()
        self._generator = Generator(project, path.parent, self.sources)
        self.contracts = self._generator.contracts
        self.checks = ModelProcess(project)
        self.checks.worker = _Here(project)  # type: ignore[assignment]
        self.implementations, self.slots = tuple[str, ...](), dict[str, set[str]]()

    def artifact(self) -> Artifact:
        """What the config generates, before ruff.

        Raises:
            PatchgenError: it does not load, or cannot be generated.
        """
        return self._generator.make(Loader(self.project, self.sources).load(self.path)[0])

    def warm_up(self, artifact: Artifact) -> tuple[str, ...]:
        """Import all that models need, and run upstream's models.

        Returns:
            The implementations that the gate checks, the quickest first.

        Raises:
            PatchgenError: the config fails as it is.
        """
        torch.set_num_threads(1)  # what is forked from a process with threads of its own hangs
        slots = read_slots(artifact.text, self.project.module_name(artifact.path), Library(self.project, self.sources))
        names = list_implementations([(slot.op_name, slot.variant) for slot in slots], self.checks.kernels())
        self.implementations = names
        tolerance = ((EAGER, 4.0), (PATCHED, 4.0))  # so that upstream's runs in float64 are there as well
        lax = replace(self.project, parity=replace(self.project.parity, tolerance=tolerance))
        checks = ModelProcess(lax)
        checks.worker = self.checks.worker
        verdict = compare_model(checks, artifact, names[0], names, fresh=True)
        if verdict.errors or verdict.reason:
            raise PatchgenError(f"{artifact.plan.label} is not right as it is: {verdict.errors or verdict.reason}")
        self.slots = slots_of(self.project.module_name(artifact.path), names)
        self.contracts.examine(artifact, self.path)
        gc.collect()
        gc.freeze()
        return tuple(sorted(names, key=_cost))

    def judge(self, mutant: CodeMutant | None, names: tuple[str, ...]) -> Outcome:
        """What the gate says of the config; changes this process.

        Args:
            mutant: the defect; None for the config as it is.
            names: the implementations to check, in this order.
        """
        if mutant is not None:
            self.sources.put(mutant.path, mutant.text)
        try:
            artifact = self.artifact()
            errors = self.contracts.examine(artifact, self.path).errors
        except PatchgenError as error:
            return Outcome("contract", "generation", str(error)[:_LONGEST])
        if errors:
            return Outcome("contract", errors[0].code, errors[0].title[:_LONGEST])
        _stop_at_first()
        sys.modules.pop(self.project.module_name(artifact.path), None)
        for name in names:
            verdict = compare_model(self.checks, artifact, name, self.implementations, fresh=True)
            if verdict.errors:
                title = verdict.errors[0].title
                return Outcome("crash" if _raises(title) else "parity", name, title[:_LONGEST])
        return Outcome("survived")

    def reaching(self, mutant: CodeMutant, names: tuple[str, ...]) -> tuple[str, ...]:
        """The implementations that can tell a mutant from the config as it is.

        They are those under which its code can run. What runs where a slot is not bound is left to eager, which asks
        for the same bits.
        """
        slots = [(self.slots.get(slot, set()), is_bound) for slot, is_bound in mutant.slots]
        reached = tuple(name for name in names if all((name in known) == is_bound for known, is_bound in slots))
        is_eager = EAGER in reached and not all(is_bound for _, is_bound in slots)
        return (EAGER,) if is_eager else reached


def slots_of(module: str, names: Sequence[str]) -> dict[str, set[str]]:
    """The implementations that each slot of a module has a kernel of."""
    known = {}
    for name, slot in slots_in(sys.modules[module]).items():
        kernels = {spec.name for spec in KERNEL_REGISTRY.specs(slot.op_name, slot.variant)}
        through = {THROUGH_SLOTS} if EAGER in kernels else set()
        known[name] = (kernels - {EAGER} | through) & {*names}
    return known


def _cost(name: str) -> int:
    """Kernels that may have to be interpreted come last."""
    return _QUICK.index(name) if name in _QUICK else len(_QUICK)


def _raises(title: str) -> bool:
    return any(word in title for word in (" raises ", " dies", "cannot be built"))


class _Here:
    """Answers requests for checks in this process."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def ask(self, request: ModelRequest, preparation: str = "") -> Any:
        from patchgen_core.checks.model_process.answering import answer

        sys.path[:] = search_path(self.project.import_roots)
        return answer(request)

    def close(self) -> None:
        """There is no process to end."""


def _stop_at_first() -> None:
    """End a check at the first batch that fails."""

    def stop(failure: Any, *_: Any) -> NoReturn:
        worst = f"; worst: {failure.wrong[0]}" if hasattr(failure, "wrong") else ""
        raise PatchgenError(f"{getattr(failure, 'title', failure)} differs{worst}")

    def stop_raised(where: str, error: Exception, *_: Any) -> NoReturn:
        raise PatchgenError(f"{where}: the patched model raises {type(error).__name__}: {error}")

    setattr(model_comparison, explain_failure.__name__, stop)
    setattr(model_comparison, explain_exception.__name__, stop_raised)

"""Asks for the checks that run models, which happen in a process of their own; imports no torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any, cast

from patchgen_core.checks.fork_server import RUN_MODELS, RUN_SETUPS
from patchgen_core.checks.model_process.request import ModelRequest, Raised
from patchgen_core.checks.result import CheckResult, make_result
from patchgen_core.errors import PatchgenError, Problem, install_hint
from patchgen_core.models.environment import Environment
from patchgen_core.models.run_files import RunPlace
from patchgen_core.ops.kernel_spec import ALIASES
from patchgen_core.ops.registry import ENTRY_POINTS, KERNEL_REGISTRY
from patchgen_core.project.project import Project
from patchgen_core.workers.process import warm_up
from patchgen_core.workers.stacks import split_output
from patchgen_core.workers.worker import Worker, WorkerDied

_ANSWERING = "patchgen_core.checks.model_process.answering"
IMPORT_MODELS = f"{_ANSWERING}:import_models"
"""Imports what every check of a model needs."""
IMPORT_NOTHING = f"{_ANSWERING}:import_nothing"
"""Sets up what every check of a model needs, and no more."""
TIME_LIMIT = 600.0
"""Seconds that one check may take, unless a run says otherwise."""
_LINES_SHOWN = 12
_OUTPUT_KEPT = 40_000  # a hundred frames and what was said before
_CALLING = os.path.join("torch", "nn", "modules", "module.py")  # three frames for each module

KernelName = tuple[str, str, str]
"""Op, variant and name of a kernel."""
SlotName = tuple[tuple[str, ...], str, str]
"""Homes of a slot's class and of the bases of that, its op and its variant."""


class ModelProcess:
    """Runs checks over models of a project, in a process that has imported what the models need.

    A process that dies takes one check with it: the next one gets another.

    Args:
        device: where models run: "auto", "cpu", "cuda" or "npu".
        isolate: give every check a process of its own, instead of one to all.
        time_limit: seconds that one check may take.
        setups: references of functions that set up models, beside the project's.
        find_runs: tells where runs of upstream's models are kept, None for nowhere.
    """

    def __init__(
        self,
        project: Project,
        device: str = "auto",
        isolate: bool = False,
        time_limit: float = TIME_LIMIT,
        setups: tuple[str, ...] = (),
        find_runs: Callable[[], RunPlace | None] = lambda: None,
    ) -> None:
        self._find_runs = find_runs
        self.project, self.device, self.isolate = project, device, isolate
        self.setups = tuple(filter(None, (project.setup, *setups)))
        self.worker = Worker(f"{_ANSWERING}:answer", time_limit, project.import_roots, _OUTPUT_KEPT)
        self._preparation = RUN_SETUPS if self.setups else RUN_MODELS
        self._kernels: list[KernelName] | CheckResult | None = None
        self._devices: dict[str, frozenset[str]] | None = None

    @property
    def opened(self) -> set[str]:
        """The files that the process has opened."""
        return self.worker.opened

    def close(self) -> None:
        """End the process."""
        self.worker.close()

    def prepare(self) -> None:
        """Have what checks need be imported while others run: by a fork server where there is one, or else by the
        process, which is started."""
        if not self.isolate and not warm_up(self._preparation):
            self.worker.tell(self._request(IMPORT_MODELS), self._preparation)

    def refuse_device(self) -> None:
        """Raise a PatchgenError where torch has not the device, does not import, or takes its process with it."""
        device = self._ask(f"{_ANSWERING}:name_device", f"the device '{self.device}'")
        if isinstance(device, CheckResult):
            raise _refusal(device)
        if self.device not in ("auto", device):
            message = f"models should run on '{self.device}', but torch has only '{device}' here"
            hint = "Run with '--patchgen-device auto'; 'patchgen doctor' lists what is here."
            raise PatchgenError(message, hint=hint)

    def refuse_setup(self) -> None:
        """Raise a PatchgenError where a set-up of the project's models fails."""
        if not self.setups:
            return
        result = self._ask(IMPORT_NOTHING, f"the set-up {', '.join(map(repr, self.setups))}")
        if isinstance(result, CheckResult):
            place = self.project.key_location("setup") if self.project.setup else None
            problems = [replace(problem, location=problem.location or place) for problem in _refusal(result).problems]
            raise PatchgenError.from_problems(problems)

    def look_around(self) -> Environment:
        """What this machine has. When looking takes the process with it, only lines of what happened."""
        machine = self._ask(f"{_ANSWERING}:describe_machine", "this machine")
        if isinstance(machine, CheckResult):
            return Environment(
                problems=tuple(f"{problem.message}\n{problem.excerpt}".strip() for problem in machine.errors)
            )
        return cast(Environment, machine)

    def kernels(self) -> list[KernelName]:
        """The kernels that can be checked here, as far as their packages tell; asked for once.

        Those of this package and, without importing them in this process, those that the project's modules and
        installed packages register. A PatchgenError where one of these modules does not import.
        """
        if not self.project.kernels and not entry_points(group=ENTRY_POINTS):
            specs = KERNEL_REGISTRY.specs()
            return [(s.op_name, s.variant, s.name) for s in specs if not s.missing_package()]
        if self._kernels is None:
            self._kernels = self._ask(f"{_ANSWERING}:list_kernels", "the modules that register kernels")
        if isinstance(self._kernels, CheckResult):
            raise _refusal(self._kernels)
        return list(self._kernels)

    def device_types(self, implementation: str) -> frozenset[str]:
        """The kinds of device that kernels of a name are made for, the CPU apart; a PatchgenError where a module that
        registers kernels does not import."""
        if self._devices is None:
            if not self.project.kernels and not entry_points(group=ENTRY_POINTS):
                self._devices = KERNEL_REGISTRY.device_types()
            else:
                self._devices = self.ask(f"{_ANSWERING}:list_device_types", "the modules that register kernels", None)
        return self._devices.get(ALIASES.get(implementation, implementation), frozenset())

    def project_implementations(self, slots: Sequence[SlotName]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """The implementations that the set-ups name for slots, None where no slot is of a class that they add; and the
        implementations that they add beside slots."""
        if not self.setups:
            return None, ()
        names: tuple[str, ...] | None
        names, added = self.ask(f"{_ANSWERING}:list_project_implementations", "the set-up of models", tuple(slots))
        return names, added

    def run(self, function: str, label: str, subject: object) -> CheckResult:
        """The result of the ``package.module:function`` that the process runs, given a :class:`ModelRequest` about the
        subject; ``label`` is what messages call that."""
        result: CheckResult = self._ask(function, label, subject)
        return result

    def ask(self, function: str, label: str, subject: object) -> Any:
        """What the ``package.module:function`` that the process runs returns, as for :meth:`run`, where that is no
        result of a check; a PatchgenError where it fails."""
        answer = self._ask(function, label, subject)
        if isinstance(answer, CheckResult):
            raise _refusal(answer)
        return answer

    def _request(self, function: str, subject: object = None) -> ModelRequest:
        project = self.project
        runs = self._find_runs() if subject is not None else None
        return ModelRequest(
            function, self.device, project.kernels, subject, self.setups, project.optional_packages, runs
        )

    def _ask(self, function: str, label: str, subject: object = None) -> Any:
        """The answer of the process; a result when there is none, which says why."""
        try:
            answer = self.worker.ask(self._request(function, subject), self._preparation)
        except WorkerDied as error:
            return make_result([Problem(f"checking {label} dies: {error.how}", excerpt=_last(error.output))])
        except OSError as error:
            raise PatchgenError(f"no process to run models in can be started: {error.strerror}") from None
        finally:
            if self.isolate:
                self.worker.close()
        return self._result(answer, label) if isinstance(answer, Raised) else answer

    def _result(self, raised: Raised, label: str) -> CheckResult:
        if raised.lacks.partition(".")[0] in self.project.optional_packages:
            return make_result(skipped=f"optional package '{raised.lacks}' is not installed")
        subject = f"{raised.head} of {label}" if raised.head else label
        message = f"checking {subject} raises {raised.error}"
        hint = install_hint(raised.lacks) if raised.lacks else ""
        return make_result([Problem(message, raised.place, hint, raised.trace)], notes=raised.notes)


def _refusal(result: CheckResult) -> PatchgenError:
    """The error that tells why the process has no answer."""
    return PatchgenError.from_problems(result.errors) if result.errors else PatchgenError(result.reason)


def _last(output: str) -> str:
    """The end of what a process said: what it was doing when it ended, if it said that, or else the last lines."""
    said, dump = split_output(output)
    where = [line for line in dump.partition("\nExtension modules:")[0].splitlines() if line and _CALLING not in line]
    return "\n".join([*said.rstrip().splitlines()[-_LINES_SHOWN:], *where[:_LINES_SHOWN]])

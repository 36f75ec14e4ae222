"""Asks for the checks that run models, which happen in a process of their own; imports no torch."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from patchgen_core.build.results import Artifact
from patchgen_core.checks.parity.findings import UNUSED, judge, unknown_implementations
from patchgen_core.checks.parity.patched import patched_code
from patchgen_core.checks.parity.request import BesideRequest, ModelRequest, ParityRequest, Raised
from patchgen_core.checks.parity.verdict import CheckVerdict
from patchgen_core.config.spec import PatchConfig
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.files import read_text
from patchgen_core.models.environment import Environment
from patchgen_core.ops.registry import ENTRY_POINTS, KERNEL_REGISTRY
from patchgen_core.project.project import Project
from patchgen_core.workers.worker import Worker, WorkerDied

CONVERTER_FILE = "checkpoint_tensor_converter.py"
PLAN_FILE = "parallel_plan.py"
_HANDLER = "patchgen_core.checks.parity.dispatch:run_check"
TIME_LIMIT = 600.0
"""Seconds that one check may take, unless a run says otherwise."""
_LINES_SHOWN = 12
_OUTPUT_KEPT = 40_000  # a hundred frames and what was said before
_CALLING = os.path.join("torch", "nn", "modules", "module.py")  # three frames for each module
_DUMP = re.compile(r"^(Fatal Python error: .*|(Stack|Current thread .*) \(most recent call first\):)$", re.MULTILINE)


@dataclass(frozen=True)
class ParityOptions:
    """What a run wants of its parity checks.

    Attributes:
        batches: references of builders of toy batches beside the project's.
        offered: the implementations of the config that are being checked.
    """

    batches: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()


KernelName = tuple[str, str, str]
"""Op, variant and name of a kernel."""


class ModelChecks:
    """Runs checks over models of a project, in a process that has imported what the models need.

    A process that dies takes one check with it: the next one gets another.

    Args:
        project: the project.
        device: where models run: "auto", "cpu" or "cuda".
        isolate: give every check a process of its own, instead of one to all.
        time_limit: seconds that one check may take.

    Attributes:
        worker: the process.
    """

    def __init__(
        self, project: Project, device: str = "auto", isolate: bool = False, time_limit: float = TIME_LIMIT
    ) -> None:
        self.project, self.device, self.isolate = project, device, isolate
        self.worker = Worker(_HANDLER, time_limit, project.import_roots, _OUTPUT_KEPT)
        self._kernels: list[KernelName] | CheckVerdict | None = None

    def close(self) -> None:
        """End the process."""
        self.worker.close()

    def prepare(self, checks: Collection[str]) -> None:
        """Start the process, and have it import what checks of these names need while others run."""
        if not self.isolate:
            self.worker.tell(self._request("prepare", tuple(sorted(checks))))

    def refuse_device(self) -> None:
        """Check that torch has the device that is wanted.

        Raises:
            PatchgenError: it has not; or it does not import, or takes its process with it.
        """
        device = self._ask("device", f"the device '{self.device}'")
        if isinstance(device, CheckVerdict):
            raise PatchgenError.from_problems(device.problems)
        if self.device not in ("auto", device):
            message = f"models are to run on '{self.device}', and torch has only '{device}' here"
            hint = "Run with '--patchgen-device auto'; 'patchgen doctor' tells what is here."
            raise PatchgenError(message, hint=hint)

    def look_around(self) -> Environment:
        """What this machine has. When looking takes the process with it, only lines of what happened."""
        machine = self._ask("doctor", "this machine")
        if isinstance(machine, CheckVerdict):
            return Environment(
                problems=tuple(f"{problem.message}\n{problem.excerpt}".strip() for problem in machine.problems)
            )
        return cast(Environment, machine)

    def kernels(self) -> list[KernelName]:
        """The kernels that can be checked here, as far as their packages tell.

        Those of this package and, without importing them in this process, those that the project's modules and
        installed packages register. Asked for once.

        Raises:
            PatchgenError: one of these modules does not import.
        """
        if not self.project.kernels and not entry_points(group=ENTRY_POINTS):
            specs = KERNEL_REGISTRY.specs()
            return [(s.op_name, s.variant, s.name) for s in specs if not s.missing_package()]
        if self._kernels is None:
            self._kernels = self._ask("kernels", "the modules that register kernels")
        if isinstance(self._kernels, CheckVerdict):
            raise PatchgenError.from_problems(self._kernels.problems)
        return list(self._kernels)

    def kernel(self, kernel: KernelName) -> CheckVerdict:
        """Compare a kernel with the eager function of its op, forward and backward."""
        return self._check("kernel", f"kernel {'-'.join(kernel)}", kernel)

    def converter(self, artifact: Artifact, folder: Path, fresh: bool = False) -> CheckVerdict:
        """Load checkpoints through the converter in a config's folder into the generated module.

        Args:
            artifact: what the config makes.
            folder: the config's folder.
            fresh: use the text that was generated now, whatever stands on disk.
        """
        return self._beside("converter", artifact, folder / CONVERTER_FILE, fresh)

    def plan(self, artifact: Artifact, folder: Path, fresh: bool = False) -> CheckVerdict:
        """Check the parallel plan in a config's folder against the generated module; takes what converter takes."""
        return self._beside("plan", artifact, folder / PLAN_FILE, fresh)

    def parity(self, artifact: Artifact, implementation: str, options: ParityOptions, fresh: bool) -> CheckVerdict:
        """Compare a generated module with Hugging Face eager, forward and backward.

        Args:
            artifact: what the config makes.
            implementation: what its slots are bound to: "eager", the name of kernels, or "patched" for none.
            options: what the run wants.
            fresh: use the text that was generated now, whatever stands on disk.
        """
        config, settings = artifact.plan.config, self.project.parity
        request = ParityRequest(
            module=self.project.module_name(artifact.path),
            path=str(artifact.path),
            upstream=artifact.plan.upstream.module,
            implementation=implementation,
            declared=config.location,
            patches=patched_code(artifact, artifact.text if fresh else read_text(artifact.path) or ""),
            tolerances=tuple(config.tolerances),
            project_tolerances=dict(settings.tolerance),
            toy_config=config.toy_config,
            toy_root=str(settings.toy_root or ""),
            batches=(*settings.batches, *options.batches),
            device=self.device,
            dtypes=settings.dtypes,
            offered=options.offered,
            text=artifact.text if fresh else None,
        )
        return self._judged(self._check("parity", artifact.path.name, request), config, request)

    def _beside(self, check: str, artifact: Artifact, path: Path, fresh: bool) -> CheckVerdict:
        request = BesideRequest(
            module=self.project.module_name(artifact.path),
            path=str(artifact.path),
            text=artifact.text if fresh else None,
            upstream=artifact.plan.upstream.module,
            beside=self.project.module_name(path),
        )
        return self._check(check, artifact.path.name, request)

    def _check(self, check: str, label: str, subject: object) -> CheckVerdict:
        verdict: CheckVerdict = self._ask(check, label, subject)
        return verdict

    def _request(self, check: str, subject: object) -> ModelRequest:
        return ModelRequest(check, self.device, self.project.kernels, subject)

    def _ask(self, check: str, label: str, subject: object = None) -> Any:
        """The answer of the process; a verdict when there is none, which says why."""
        try:
            answer = self.worker.ask(self._request(check, subject))
        except WorkerDied as error:
            return CheckVerdict((Problem(f"checking {label} dies: {error.how}", excerpt=_last(error.output)),))
        except OSError as error:
            raise PatchgenError(f"no process to run models in can be started: {error.strerror}") from None
        finally:
            if self.isolate:
                self.worker.close()
        return self._verdict(answer, label) if isinstance(answer, Raised) else answer

    def _verdict(self, raised: Raised, label: str) -> CheckVerdict:
        if raised.lacks.partition(".")[0] in self.project.optional_packages:
            return CheckVerdict(skipped=f"optional package '{raised.lacks}' is not installed")
        trace = "\n".join(raised.trace.rstrip().splitlines()[-_LINES_SHOWN:])
        return CheckVerdict((Problem(f"checking {label} raises {raised.error}", excerpt=trace),), notes=raised.notes)

    def _judged(self, verdict: CheckVerdict, config: PatchConfig, request: ParityRequest) -> CheckVerdict:
        """A parity verdict without what the config allows and the project leaves out."""
        from patchgen_core.checks.contract.run import wanted_codes

        path = Path(config.location.file)
        codes = wanted_codes(self.project, path, self.project.module_name(path))
        if UNUSED in codes and request.offered[:1] == (request.implementation,):  # once for all implementations
            unknown = unknown_implementations(config.tolerances, request.offered)
            verdict = replace(verdict, warnings=(*verdict.warnings, *unknown))
        return judge(verdict, config.allowed, codes)


def _last(output: str) -> str:
    """The end of what a process said: what it was doing when it ended, if it said that, or else the last lines."""
    dump = _DUMP.search(output)
    if dump is None:
        return "\n".join(output.rstrip().splitlines()[-_LINES_SHOWN:])
    said = output[: dump.start()].rstrip().splitlines()
    where = output[dump.start() :].partition("\nExtension modules:")[0].splitlines()
    where = [line for line in where if line and _CALLING not in line]
    return "\n".join([*said[-_LINES_SHOWN:], *where[:_LINES_SHOWN]])

"""The parity check: the generated model computes what Hugging Face eager computes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from patchgen_core.build.results import ConfigResult
from patchgen_core.checks.parity.client import ParityOptions
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.files import read_text
from patchgen_core.models.implementations import PATCHED, offered
from pytest_patchgen.items import GATE, CheckItem, ConfigFile
from pytest_patchgen.model_items import DRIFTED, outcome

_PYTHON_FILE = re.compile(r"""["']([\w.\-]+\.py)["']""")


class ParityItem(CheckItem):
    """The generated model computes what Hugging Face eager computes, forward and backward.

    Attributes:
        implementation: what the module's slots are bound to; "patched" for a module without slots.
        offered: the implementations that there are items for.
        problems: why the implementations cannot be told.
    """

    check = "parity"
    on_device = True
    implementation: str = PATCHED
    offered: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    @classmethod
    def make(cls, parent: ConfigFile) -> Iterator[CheckItem]:
        """One item for every implementation that the module's slots offer; none for a module without a model.

        One that fails when they cannot be told.
        """
        verdicts = parent.config.stash[GATE].verdicts
        text = _text_of(parent)
        if not text:
            return
        try:
            kernels = verdicts.models(verdicts.project(parent.path)).kernels() if "OpSlot" in text else []
        except PatchgenError as error:
            failing: ParityItem = cls.from_parent(parent, name=cls.check)
            failing.problems = error.problems
            yield failing
            return
        names = offered(text, kernels)
        for implementation in names:
            item: ParityItem = cls.from_parent(parent, name=f"{cls.check}[{implementation}]")
            item.implementation, item.offered = implementation, names
            yield item

    def examine(self) -> Sequence[CheckResult]:
        """Run the models of the checked-in module, or of what ``--patchgen-fix`` puts there."""
        if self.problems:
            raise PatchgenError.from_problems(self.problems)
        return [self._run(result) for result in self.results()]

    def _run(self, result: ConfigResult) -> CheckResult:
        artifact = result.outcome.artifact
        is_fixed = self.is_fixed(result)
        if artifact is None or (not is_fixed and not artifact.path.exists()):
            return self.unmade(result, "there is no model to run: the drift check says why")
        checks = self.gate.verdicts.models(self.gate.verdicts.project(self.path))
        options = ParityOptions(self.gate.builders, self.offered)
        verdict = checks.parity(artifact, self.implementation, options, fresh=is_fixed)
        if result.status == "drifted" and not is_fixed:
            problems = tuple(replace(p, hint=f"{p.hint} {DRIFTED}".strip()) for p in verdict.problems)
            # Which lines are new is not known of a module that has drifted, so that what allows PG302 looks idle.
            verdict = replace(verdict, problems=problems, unused=())
        problems = verdict.problems
        status, reason = outcome(problems, verdict)
        siblings = tuple(f"{self.check}[{name}]" for name in self.offered)
        told = {
            "notes": verdict.notes,
            "figures": verdict.figures,
            "tables": verdict.tables,
            "unused": verdict.unused,
            "siblings": siblings if verdict.unused else (),
        }
        return self.record(result, status, reason=reason, errors=problems, warnings=verdict.warnings, **told)


def _text_of(parent: ConfigFile) -> str:
    """What tells whether a config's module has a model and which slots: the module itself, or else the config.

    Empty when there is no model. Collection must not load the config, which may need torch.
    """
    gate = parent.config.stash[GATE]
    text = read_text(parent.path) or ""
    try:
        folder = gate.verdicts.project(parent.path).output_folder(parent.path)
    except PatchgenError:  # there is no project: the drift check says so
        return ""
    made = [read_text(folder / name) for name in _PYTHON_FILE.findall(text)]
    generated = "\n".join(filter(None, made or map(read_text, sorted(folder.glob("*.py")))))
    if not generated:
        return text if "transformers" in text else ""
    if "PreTrainedModel" not in generated:
        return ""
    return text if gate.fix and "OpSlot" in text else generated

"""Running the contract rules over a throw-away project."""

from __future__ import annotations

from collections.abc import Sequence

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.rule import Example
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.files import write_files
from patchgen_core.syntax.source import SourceCache
from tests.conftest import CONFIG, UPSTREAM, Workspace


def examine(work: Workspace, path: str = CONFIG, select: Sequence[str] | None = None) -> CheckResult:
    """What the rules say of a config that generates."""
    artifact = made(work, path)
    return Contracts(work.project, SourceCache(), select).examine(artifact, work.models / path)


def made(work: Workspace, path: str = CONFIG) -> Artifact:
    """What a config makes."""
    outcome = make_artifacts(Selection(work.project, [work.models / path]))[0]
    assert outcome.artifact is not None, str(PatchgenError.from_problems(outcome.problems))
    return outcome.artifact


def found(work: Workspace, *codes: str) -> list[str]:
    """The messages of errors and warnings of some rules (all by default), each as ``PG201 ...``."""
    verdict = examine(work, select=codes or None)
    return [problem.title for problem in (*verdict.errors, *verdict.warnings)]


def weights(work: Workspace, code: str) -> dict[str, str]:
    """The messages of a rule, each with whether it is an error or a warning."""
    result = examine(work, select=[code])
    by_weight = {"error": result.errors, "warning": result.warnings}
    return {problem.message: weight for weight, problems in by_weight.items() for problem in problems}


def find_misfits(work: Workspace, upstream: str, config: str = "") -> list[str]:
    """What PG202 says of a config over a module, without the beginning that all share."""
    work.upstream(upstream)
    work.config(config)
    return [title.removeprefix("PG202 ").removeprefix("upstream's own: ") for title in found(work, "PG202")]


def play(work: Workspace, example: Example) -> tuple[Problem, ...]:
    """What comes of an example: the findings, or why it does not generate."""
    settings = work.root / "pyproject.toml"
    settings.write_text(f"{settings.read_text(encoding='utf-8')}{example.settings}\n", encoding="utf-8")
    for path, text in example.files.items():
        side, _, rest = path.partition("/")
        root = work.site.joinpath(*UPSTREAM.split(".")[:-1]) if side == "upstream" else work.root / side
        target = root / rest
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    if example.old:
        work.upstream(example.old)
        work.config(example.text)
        write_files(made(work).files)
    work.upstream(example.upstream, version="2.0" if example.old else "1.0")
    config = work.config(example.text)
    outcome = make_artifacts(Selection(work.project, [config]))[0]
    if outcome.artifact is None:
        return outcome.problems
    verdict = Contracts(work.project, SourceCache()).examine(outcome.artifact, config)
    return (*verdict.errors, *verdict.warnings)

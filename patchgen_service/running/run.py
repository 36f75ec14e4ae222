"""A whole run, from a commit to its end, which it always has."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen_service.environments import InstallFailed, PythonEnvironment, Recipe, make_environment
from patchgen_service.git.errors import GitError
from patchgen_service.git.mirror import Mirror
from patchgen_service.isolation.box import Kind, Limits
from patchgen_service.isolation.probe import Isolation, NotIsolated, choose_isolation
from patchgen_service.running.events import Ended, Ending, FileArrived, Tell
from patchgen_service.running.gate import Checkout, GateProblem, run_gate
from patchgen_service.running.order import RunOrder
from patchgen_service.running.release_study import NoEffects, study_release

_ENDINGS: dict[str, Ending] = {"stopped": "cancelled", "seconds": "timed_out"}


@dataclass(frozen=True)
class Workplace:
    """Where and how runs are carried out on this machine.

    Attributes:
        work: where worktrees are made.
        environments: where environments are kept.
        hidden: folders of the service, which no run sees.
        install_limits: of making an environment.
        index: URL of the package index; empty for pip's own.
        cluster: address of the Ray cluster that trusted repositories are checked on; empty for none.
        history: a clone of transformers with its history; None for none.
    """

    work: Path
    environments: Path
    isolation: Isolation
    hidden: tuple[Path, ...] = ()
    limits: Limits = field(default_factory=Limits)
    install_limits: Limits = field(default_factory=Limits)
    index: str = ""
    cluster: str = ""
    history: Path | None = None


class _RunProblem(Exception):
    def __init__(self, message: str, ending: Ending = "infrastructure_error") -> None:
        super().__init__(message)
        self.ending = ending


def carry_out(
    order: RunOrder, mirror: Mirror, place: Workplace, tell: Tell, should_stop: Callable[[], bool] = lambda: False
) -> Ended:
    """Run the gate over the projects of a commit, and tell all about it; the last that is told is its end.

    Exceptions of ``tell`` go through; nothing of the run is left then either.
    """
    folder = place.work / order.run
    try:
        kind = choose_isolation(place.isolation, order.is_trusted)
        checkout = _check_out(order, mirror, folder)
        environment = _prepare(order, checkout, kind, place, tell, should_stop)
        ended = _run_projects(order, checkout, environment, kind, place, tell, should_stop)
    except NotIsolated as error:
        ended = Ended(order.run, "infrastructure_error", str(error))
    except _RunProblem as error:
        ended = Ended(order.run, error.ending, str(error))
    except GitError as error:
        ended = Ended(order.run, "infrastructure_error", str(error))
    except OSError as error:
        ended = Ended(order.run, "infrastructure_error", f"The worker could not continue: {error}.")
    finally:
        mirror.remove_worktree(folder)
    tell(ended)
    return ended


def _check_out(order: RunOrder, mirror: Mirror, folder: Path) -> Checkout:
    mirror.fetch([order.ref] if order.ref else [])
    mirror.remove_worktree(folder)  # what a run that was killed left
    folder.parent.mkdir(parents=True, exist_ok=True)
    mirror.add_worktree(order.sha, folder)
    return Checkout(folder, lambda path: mirror.read_file(order.sha, path))


def _prepare(
    order: RunOrder,
    checkout: Checkout,
    kind: Kind,
    place: Workplace,
    tell: Tell,
    should_stop: Callable[[], bool],
) -> PythonEnvironment:
    constraints = ""
    if order.constraints:
        content = checkout.read_file(order.constraints)
        if content is None:
            raise _RunProblem(f"The commit has no constraints file '{order.constraints}'.")
        constraints = content.decode("utf-8", "replace")
    recipe = Recipe(order.python, constraints, order.extras, order.transformers, place.index)
    try:
        return make_environment(place.environments, recipe, kind, place.install_limits, should_stop)
    except InstallFailed as error:
        if error.log:
            tell(FileArrived(order.run, "log", "install.log", error.log.encode()))
        raise _RunProblem(str(error), _ENDINGS.get(error.reason, "infrastructure_error")) from error


def _run_projects(
    order: RunOrder,
    checkout: Checkout,
    environment: PythonEnvironment,
    kind: Kind,
    place: Workplace,
    tell: Tell,
    should_stop: Callable[[], bool],
) -> Ended:
    """The gate over each project; those after one that could not be done are done all the same."""
    until = time.monotonic() + place.limits.seconds
    problems = []
    no_effects = NoEffects(tell)
    for project in order.projects:
        if not (checkout.folder / project).is_dir():
            problems.append(f"The commit has no folder '{project}'.")
            continue
        limits = replace(place.limits, seconds=max(0.0, until - time.monotonic()))
        try:
            where = (checkout, environment, kind, limits)
            cluster = place.cluster if order.is_trusted else ""
            told = (no_effects.take, should_stop, place.hidden, cluster)
            exit = run_gate(order.run, project, order.checks, *where, *told)
        except GateProblem as error:
            problems.append(f"In the project '{project}' {error}.")
            continue
        if exit.reason in _ENDINGS:
            message = "" if exit.reason == "stopped" else f"It took longer than {place.limits.seconds:g} seconds."
            return Ended(order.run, _ENDINGS[exit.reason], message)
        if exit.message:
            problems.append(f"The gate over the project '{project}' was ended. {exit.message}")
        elif order.transformers:
            left = replace(place.limits, seconds=max(0.0, until - time.monotonic()))
            own = (order.transformers, checkout, environment, kind, left, no_effects.of_project(project))
            report = study_release(order.run, project, *own, should_stop, place.hidden, place.history)
            if report is not None:
                tell(report)
    if problems:
        return Ended(order.run, "infrastructure_error", " ".join(problems))
    return Ended(order.run, "finished")

"""What findings weigh in a project, by its ``[tool.patchgen.severity]``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patchgen_core.checks.registry import all_checks
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.project.project import Project
from patchgen_core.project.severity_settings import EVERYTHING, Severity, fits_pattern


def find_level(project: Project, path: Path, label: str, code: str, check: str) -> str:
    """What a rule's finding weighs for a config, or that of a check where it has no code; empty for the rule's own.

    What is said of a pattern of configs comes before what is said of all; a rule before its check and that before
    ``ALL``, a code before its beginning; of two alike the last counts.
    """
    names = config_names(project, path, label)
    fitting = [entry for entry in project.severity if entry.is_about(code, check) and entry.fits(names)]
    return max(reversed(fitting), key=lambda entry: _weight(entry, check)).level if fitting else ""


def _weight(entry: Severity, check: str) -> tuple[bool, int]:
    is_wide = {EVERYTHING: 0, check: 1}
    return bool(entry.pattern), is_wide.get(entry.selector, 1 + len(entry.selector))


def config_names(project: Project, path: Path, label: str) -> tuple[str, str]:
    """What patterns for a config are of: its dotted name, and its path from the project's root."""
    base = project.base
    return label, path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


def check_severity(project: Project, codes: Iterable[str]) -> None:
    """Raise a PatchgenError where the settings name a rule, a check, a config or a folder that there is not; given the
    codes of all rules."""
    if not project.severity:
        return
    codes, checks = list(codes), [info.name for info in all_checks()]
    configs = [config_names(project, path, project.module_name(path)) for path in project.find_configs()]
    for entry in project.severity:
        location = project.key_location(entry.pattern or entry.selector, "severity")
        if entry.selector not in (EVERYTHING, *checks) and not any(c.startswith(entry.selector) for c in codes):
            near = did_you_mean(entry.selector.upper(), codes) or did_you_mean(entry.selector, checks)
            hint = f"{near} 'patchgen rule' lists the rules, and '{entry.selector}/' would be a folder.".lstrip()
            message = f"[tool.patchgen.severity]: there is no rule or check '{entry.selector}'"
            raise PatchgenError(message, location, hint)
        if entry.pattern and not any(fits_pattern(entry.pattern, names) for names in configs):
            places = {place for names in configs for place in _places(names)}
            message = f"[tool.patchgen.severity]: '{entry.pattern}' fits no config or folder of the project"
            hint = did_you_mean(entry.pattern, places) or "'patchgen list' names the configs."
            raise PatchgenError(message, location, hint)


def _places(names: tuple[str, str]) -> set[str]:
    """A config's names, and the packages and folders that it lies in."""
    dotted, path = names
    packages = dotted.split(".")
    return {
        *(".".join(packages[: end + 1]) for end in range(len(packages))),
        *(f"{folder.as_posix()}/" for folder in list(Path(path).parents)[:-1]),
        path,
    }

"""Running the rules: which ones, over what, and what a config or project wants left out."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.kernels import Kernels, Registries, read_kernels
from patchgen_core.checks.contract.library import Library
from patchgen_core.checks.contract.own_modules import OwnModules
from patchgen_core.checks.contract.parity_rules import PARITY_RULES
from patchgen_core.checks.contract.places import config_location
from patchgen_core.checks.contract.rule import Finding, Rule, Severity, Subject
from patchgen_core.checks.contract.rules import ALLOWANCE, RULES
from patchgen_core.checks.project_code import ProjectCode
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.settings import CONTRACT
from patchgen_core.checks.severity import check_severity, config_names, find_level
from patchgen_core.config.argument_lines import at_argument
from patchgen_core.config.declarations import Allowance
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import Location, NameHint, PatchgenError, Problem, Snippet, closest, excerpt
from patchgen_core.project.project import Project
from patchgen_core.project.severity_settings import ERROR, OFF, WARNING
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.source import SourceCache, SourceFile
from patchgen_core.workers.collector import without_collector

PARITY = "parity"
"""The check that finds what no text tells of."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning")
EVERY_RULE: tuple[Rule, ...] = (*RULES, *PARITY_RULES)
"""The rules of this check and of the item ``parity``, in the order of their codes."""


def find_rules(code: str) -> tuple[Rule, ...]:
    """The rules of a code, or of the beginning of codes; a PatchgenError where there is none names the nearest."""
    rules = tuple(rule for rule in EVERY_RULE if _is_selected(rule.code, [code.upper()]))
    if not code or not rules:
        raise PatchgenError(f"there is no rule '{code}'", None, _nearest(code))
    return rules


def choose_rules(
    project: Project, select: Sequence[str] | None = None, ignore: Sequence[str] = ()
) -> tuple[Rule, ...]:
    """The static rules that a project runs, or of ``select`` instead of its own, less ``ignore``.

    A PatchgenError when a code, in the settings or here, fits no rule, or those given here leave none.
    """
    for key, entries in (("select", project.select), ("ignore", project.ignore)):
        _check_codes(entries, f"[tool.patchgen] {key}", project.key_location(key))
    for pattern, entries in project.per_config_ignore:
        location = project.key_location("per_config_ignore")
        _check_codes(entries, f"[tool.patchgen] per_config_ignore '{pattern}'", location)
    check_severity(project, [rule.code for rule in EVERY_RULE])
    _check_codes(select or (), "--select")
    _check_codes(ignore, "--ignore")
    codes = project.select if select is None else select
    left_out = (*project.ignore, *ignore)
    rules = tuple(rule for rule in RULES if _is_selected(rule.code, codes) and not _is_selected(rule.code, left_out))
    if not rules and (select or ignore):
        hint = "--ignore and [tool.patchgen] ignore remove rules from the selection."
        raise PatchgenError("no contract rule is left to run", None, hint)
    return rules


def _is_selected(code: str, entries: Iterable[str]) -> bool:
    return any(entry == "ALL" or code.startswith(entry) for entry in entries)


def _check_codes(entries: Iterable[str], where: str, location: Location | None = None) -> None:
    for entry in entries:
        if entry != "ALL" and (not entry or not any(rule.code.startswith(entry) for rule in EVERY_RULE)):
            raise PatchgenError(f"{where}: there is no rule '{entry}'", location, _nearest(entry))


def selected_codes(project: Project, path: Path, label: str) -> frozenset[str]:
    """The codes of all rules that a project wants for one config, by its settings."""
    left_out = [*project.ignore, *_ignored(project, path, label)]
    codes = [rule.code for rule in EVERY_RULE if _is_selected(rule.code, project.select)]
    return frozenset(code for code in codes if not _is_selected(code, left_out))


def _ignored(project: Project, path: Path, label: str) -> list[str]:
    """The codes, or beginnings of codes, of rules that a project leaves out for a config."""
    names = config_names(project, path, label)
    codes = [
        code
        for pattern, codes in project.per_config_ignore
        if any(fnmatch.fnmatchcase(name, pattern) for name in names)
        for code in codes
    ]
    for rule in EVERY_RULE if project.severity else ():
        check = PARITY if rule in PARITY_RULES else CONTRACT
        if find_level(project, path, label, rule.code, check) == OFF:
            codes.append(rule.code)
    return codes


def _nearest(word: str) -> NameHint:
    """What to do about a word that is no code; it may be the name of a rule."""
    alike = {rule.code: sum(a == b for a, b in zip(rule.code, word.upper())) for rule in EVERY_RULE}
    near = max(alike, key=alike.__getitem__)
    if alike[near] < len(near) - 1:
        names = {rule.name: rule.code for rule in EVERY_RULE}
        near = names.get(closest(word, names) or "", "")
    suggestion = f"Did you mean '{near}'? " if near else ""
    return NameHint(f"{suggestion}'patchgen rule' lists the rules.", word, near)


class Contracts:
    """Runs rules over the configs of a project; what they share is read once.

    ``select`` and ``ignore`` are as for :func:`choose_rules`; a PatchgenError when a setting names no rule.
    ``read_generated`` gives the module that an artifact has, where another than the rules has parsed it.
    """

    def __init__(
        self,
        project: Project,
        sources: SourceCache,
        select: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        read_generated: Callable[[Artifact], Module] | None = None,
    ) -> None:
        self.project, self.sources = project, sources
        self._read_generated = read_generated
        self.rules = choose_rules(project, select, ignore)
        self._code = ProjectCode(project)
        self._library = Library(project, sources, self._code)
        self._registries = Registries(sources, self._code)
        self._own_modules = OwnModules(project, sources, self._code)
        self._upstream: dict[Path, Module] = {}

    @cached_property
    def kernels(self) -> Kernels:
        """The kernels that slots may be bound to; a PatchgenError where a setting names no module."""
        return read_kernels(self.project, self.sources)

    def take_asked(self) -> frozenset[Input]:
        """The inputs that came up since the last call, beside those of :meth:`ContractCheck.inputs`."""
        asked = frozenset(self._code.asked)
        self._code.asked.clear()
        return asked

    @without_collector()
    def examine(self, artifact: Artifact, path: Path, codes: Container[str] | None = None) -> CheckResult:
        """Run the rules, or those of ``codes`` among them, over what a config makes.

        A PatchgenError when the project's settings name a module that is not there, or a rule has a defect.
        """
        ignored = _ignored(self.project, path, artifact.plan.label)
        active_rules = (rule for rule in self.rules if not _is_selected(rule.code, ignored))
        rules = tuple(rule for rule in active_rules if codes is None or rule.code in codes)
        subject = self.subject(artifact)
        try:
            return self._judge(subject, path, rules, _run_rules(rules, subject))
        finally:
            subject.release()

    def _judge(
        self, subject: Subject, path: Path, rules: Sequence[Rule], findings: Iterable[tuple[Rule, Finding]]
    ) -> CheckResult:
        artifact = subject.artifact
        allowances = artifact.plan.config.allowed
        used: set[int] = set()
        problems: dict[Severity, list[Problem]] = {"error": [], "warning": []}
        notes: dict[str, None] = {}
        for rule, finding in findings:
            problem = self._problem(subject, rule, finding)
            fitting = [a for a in allowances if a.covers(rule.code, finding.target)]
            used.update(map(id, fitting))
            if fitting:
                notes[f"allowed: {problem.title} ({fitting[0].reason})"] = None
            elif finding.weight == "note":
                notes[f"{problem.title}. {problem.hint}"] = None
            else:
                problems[self._weigh(rule, finding, path, artifact.plan.label)].append(problem)
        if ALLOWANCE in rules:
            unused = [a for a in allowances if id(a) not in used]
            problems["error"] += [p for a in unused if (p := self._unused(a, rules)) is not None]
        errors, warnings = (tuple(sorted(problems[kind], key=_place)) for kind in SEVERITIES)
        return CheckResult(
            artifact.plan.label,
            str(path),
            artifact.plan.config.location.line,
            CONTRACT,
            "failed" if errors else "clean",
            errors=errors,
            warnings=warnings,
            notes=tuple(notes),
        )

    def forget(self, is_held: Callable[[SourceFile], bool]) -> None:
        """Forget the modules whose sources nobody else holds any more; they are read again when they are asked for."""
        for path, module in list(self._upstream.items()):
            if not is_held(module.source):
                del self._upstream[path]
                module.release()
        self._library.forget(is_held)

    def _weigh(self, rule: Rule, finding: Finding, path: Path, label: str) -> Severity:
        """How much a finding weighs; what is upstream's own as well is a warning at most."""
        if finding.is_upstream:
            return "warning"
        level = find_level(self.project, path, label, rule.code, CONTRACT)
        own: Severity = "warning" if (finding.weight or rule.severity) == "warning" else "error"
        return "error" if level == ERROR else "warning" if level == WARNING else own

    def subject(self, artifact: Artifact) -> Subject:
        """What the rules look at for a config."""
        source = artifact.plan.source
        upstream = self._upstream.get(source.path)
        if upstream is None or upstream.source is not source:
            upstream = self._upstream[source.path] = Module(source, artifact.plan.upstream.module)
        generated = self._read_generated(artifact) if self._read_generated is not None else Module(artifact.source)
        read = (self._library, self.kernels, self._registries, self._own_modules)
        return Subject(self.project, artifact, generated, upstream, *read, self._code)

    def _problem(self, subject: Subject, rule: Rule, finding: Finding) -> Problem:
        location = config_location(subject, finding)
        line = getattr(finding.node, "lineno", 0)
        generated = None
        if line:
            place = Location(str(subject.artifact.path), line)
            generated = Snippet(place, excerpt(subject.artifact.text, line))
        message = f"upstream's own: {finding.message}" if finding.is_upstream else finding.message
        problem = Problem(message, location, finding.hint, "", rule.code, generated, str(finding.target))
        code = subject.generated.source.lines[line - 1] if line else ""
        problem = at_argument(problem, self.sources, code)
        return replace(problem, excerpt=self._excerpt(problem.location or location))

    def _excerpt(self, location: Location) -> str:
        try:
            return excerpt(self.sources.get(Path(location.file)).text, location.line) if location.line else ""
        except PatchgenError:
            return ""

    def _unused(self, allowance: Allowance, rules: Sequence[Rule]) -> Problem | None:
        """What is wrong with an allowance that nothing came of; None when its rule was not run."""
        codes = [rule.code for rule in EVERY_RULE]
        about = f" of '{allowance.target}'" if allowance.target else ""
        message = f"allow: {allowance.code} finds nothing{about} here"
        hint = "Remove it, or it will hide the next finding."
        if allowance.code not in codes:
            message, hint = f"allow: there is no rule '{allowance.code}'", _nearest(allowance.code)
        elif allowance.code not in [rule.code for rule in rules]:
            return None
        problem = at_argument(Problem(message, allowance.location, hint, code=ALLOWANCE.code), self.sources)
        return replace(problem, excerpt=self._excerpt(problem.location or allowance.location))


def _run_rules(rules: Sequence[Rule], subject: Subject) -> list[tuple[Rule, Finding]]:
    """What each rule finds, each thing once."""
    findings: dict[tuple[object, ...], tuple[Rule, Finding]] = {}
    for rule in rules:
        try:
            for finding in rule.check(subject):
                key = (rule.code, finding.message, finding.declared, getattr(finding.node, "lineno", 0))
                findings[key] = (rule, finding)
        except PatchgenError:
            raise
        except Exception as error:
            message = f"{rule.code} cannot be checked: {type(error).__name__}: {error}"
            hint = f"This is a defect in the rule: please report it. Until it is fixed, run without {rule.code}."
            raise PatchgenError(message, subject.plan.config.location, hint) from error
    return list(findings.values())


def _place(problem: Problem) -> tuple[str, int, str, int, str]:
    location = problem.location or Location("")
    line = problem.generated.location.line if problem.generated else 0
    return (location.file, location.line, problem.code, line, problem.message)

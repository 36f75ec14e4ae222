"""Which of upstream's changes broke a patch: what the Git history of a checkout says of its target."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.syntax.source import SourceFile, parse_source
from patchgen_core.upgrade.results import ConfigVerdict, Finding, UpgradeReport, UpstreamCommit
from patchgen_core.upgrade.upstream_definitions import find_definition, find_owner

_PULL_REQUEST = re.compile(r"\(#(\d+)\)\s*$|^Merge pull request #(\d+) ")
_FORMAT = "--format=%x01%h%x00%cs%x00%s"
_MOST_COMMITS = 10
_HINT = "--history takes a checkout of upstream with its Git history."


class UpstreamHistory:
    """A checkout of upstream with its history, in which releases are tags: ``v5.9.0`` or ``5.9.0``.

    Raises:
        PatchgenError: the folder is in no Git repository, or there is no Git.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise PatchgenError(f"there is no folder '{folder}'", hint=_HINT)
        self.folder = Path(self._git("rev-parse", "--show-toplevel").rstrip("\n"))
        self._commits = cache(self._find_commits)
        self._source = cache(self._read_source)
        self._tag = cache(self._find_tag)

    def blame(self, report: UpgradeReport) -> UpgradeReport:
        """A report whose findings that need somebody name the commits between the releases that changed their code.

        Raises:
            PatchgenError: the history lacks one of the releases.
        """
        return replace(report, configs=tuple(map(self._blame_config, report.configs)))

    def _blame_config(self, config: ConfigVerdict) -> ConfigVerdict:
        if not config.old or config.origin is None:
            return config

        def find(name: str) -> tuple[UpstreamCommit, ...]:
            return self._commits(config.module, name, config.old, config.new)

        def blame(findings: Iterable[Finding], target: str = "") -> tuple[Finding, ...]:
            """Findings with commits: those on a local name of a target with the target's."""
            return tuple(
                replace(f, commits=find(f.about) or (find(target) if target and f.relation == "used" else ()))
                if f.risk != "safe" and f.kind not in ("added", "new code")
                else f
                for f in findings
            )

        patches = tuple(replace(patch, findings=blame(patch.findings, patch.target)) for patch in config.patches)
        return replace(config, patches=patches, findings=blame(config.findings))

    def _find_commits(self, module: str, name: str, old: str, new: str) -> tuple[UpstreamCommit, ...]:
        """The commits that changed a definition of a module between two releases, the newest first."""
        before, after = self._tag(old), self._tag(new)
        was, now = (find_definition(partial(self._source, tag), module, name) for tag in (before, after))
        if was is None and now is None:
            now = find_owner(partial(self._source, after), module, name)
        if now is not None and (was is None or was.path == now.path):
            arguments = ["-s", f"-L{now.lines[0]},{now.lines[1]}:{now.path}"]
        elif was is None:
            return ()
        else:  # it is gone there: when its name went
            arguments = [
                "-G",
                rf"(def|class) {re.escape(name.rpartition('.')[2])}[^A-Za-z0-9_]",
                "--extended-regexp",
                "--",
                was.path,
            ]
        text = self._git("log", _FORMAT, f"{before}..{after}", *arguments)
        return tuple(_read_commits(text))[:_MOST_COMMITS]

    def _find_tag(self, version: str) -> str:
        for tag in (f"v{version}", version):
            if self._run("rev-parse", "--quiet", "--verify", f"refs/tags/{tag}^{{commit}}").returncode == 0:
                return f"refs/tags/{tag}"
        place = Location(str(self.folder))
        raise PatchgenError(f"the history has no tag v{version}", place, "Fetch it: git fetch --tags.")

    def _read_source(self, revision: str, module: str) -> tuple[str, SourceFile | None]:
        """The path of a module at a revision, and its text; None where it is not there, or cannot be parsed."""
        file = f"{module.replace('.', '/')}.py"
        for path in (f"src/{file}", file):
            done = self._run("show", f"{revision}:{path}")
            if done.returncode == 0:
                try:
                    return path, parse_source(Path(path), done.stdout.decode("utf-8", "replace"))
                except PatchgenError:
                    return path, None
        return "", None

    def _git(self, *arguments: str) -> str:
        done = self._run(*arguments)
        if done.returncode:
            lines = os.fsdecode(done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
            reason = lines[-1].removeprefix("fatal: ")
            raise PatchgenError(f"Git cannot tell upstream's history: {reason}", Location(str(self.folder)), _HINT)
        return done.stdout.decode("utf-8", "replace")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        command = ["git", "--no-pager", "-C", str(self.folder), *arguments]
        try:
            return subprocess.run(command, env=environment, capture_output=True, check=False)
        except OSError as error:
            raise PatchgenError(f"Git cannot be run: {error.strerror}", Location(str(self.folder))) from None


def _read_commits(text: str) -> Iterator[UpstreamCommit]:
    for entry in text.split("\x01")[1:]:
        commit, date, subject = entry.strip("\n").split("\x00", 2)
        subject = subject.partition("\n")[0]
        match = _PULL_REQUEST.search(subject)
        number = next((int(group) for group in match.groups() if group), None) if match else None
        yield UpstreamCommit(commit, date, _PULL_REQUEST.sub("", subject).strip(), number)

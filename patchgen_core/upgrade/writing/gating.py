"""Running the gate over configs against a release, which need not be the installed one."""

from __future__ import annotations

import codecs
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.checks.registry import BUILT_IN
from patchgen_core.checks.result import NO_MODULE, CheckResult, unpack
from patchgen_core.checks.running.on_cluster import RELEASE
from patchgen_core.errors import PatchgenError
from patchgen_core.project.cache_folder import cache_folder, prepare_folder
from patchgen_core.project.project import Project
from patchgen_core.syntax.forms import listed
from patchgen_core.upstream.releases import Release
from patchgen_core.workers.process import interrupt_process

STATIC = ("drift", "contract")
"""The checks that import nothing of upstream."""

REPORT = "upgrade.json"
"""The file of the cache that holds the gate's report of the last upgrade."""

Echo = Callable[[str], object]

_SECONDS_TO_END = 10
_MODELS = {"transformers": "modeling_utils"}
"""The module of a package that every model imports, which needs torch."""
_PROBE = """
import importlib, importlib.util, json, os, sys
package, module = sys.argv[1:]
answer = {}
try:
    found = importlib.import_module(package)
    answer["file"] = getattr(found, "__file__", None)
    if module and importlib.util.find_spec("torch") is None:
        answer["lacks"] = "torch"
    elif module and importlib.util.find_spec(f"{package}.{module}"):
        importlib.import_module(f"{package}.{module}")
except ModuleNotFoundError as error:
    answer["lacks"] = error.name
except BaseException as error:
    lines = str(error).strip().splitlines()
    answer["error"] = lines[0] if lines and isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
with open(os.environ["PATCHGEN_PROBE"], "w", encoding="utf-8") as file:
    json.dump(answer, file)
"""


@dataclass(frozen=True)
class GateRun:
    """A run of the gate.

    Attributes:
        exit_code: as ``patchgen gate`` has them.
        is_exact: whether everything that the project checks was checked, and with the release.
        reason: what was not, and why; empty when everything was.
        version: the release's version, with its distribution's name.
    """

    exit_code: int
    output: str
    is_exact: bool
    reason: str = ""
    results: tuple[CheckResult, ...] = ()
    version: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """What holds, what does not and what could not be checked, a line each."""
        checks: dict[str, list[CheckResult]] = {}
        for result in self.results:
            checks.setdefault(result.check, []).append(result)
        clean = [name for name in sorted(checks, key=_order) if _is_clean(checks[name])]
        configs = len({result.config for result in self.results})
        lines = []
        if clean:
            verb, count = "holds" if len(clean) == 1 else "hold", f"{configs} config{'s' * (configs != 1)}"
            lines.append(f"{listed(clean)} {verb} for {count} with {self.version}")
        failing = (result for result in self.results if result.is_bad)
        lines += [f"{result.name} fails for {result.config}: {verdict_line(result)}" for result in failing]
        silent = (r for r in self.results if r.status == "skipped" and r.reason != NO_MODULE)
        skipped = dict.fromkeys((r.name, verdict_line(r)) for r in silent)
        lines += [f"{name} was skipped: {reason}" for name, reason in skipped]
        if not self.results:
            lines.append(f"the gate checked nothing and ended with exit code {self.exit_code}")
        return (*lines, *([self.reason] if self.reason else []))


def verdict_line(result: CheckResult) -> str:
    """What is wrong, or why a check was skipped, in one line; empty for a clean result."""
    errors = [f"{error.code} {error.message}".strip() for error in result.errors]
    causes = [f"{cause.kind}: {cause.detail}".rstrip(": ") for cause in result.causes]
    return [*errors, *causes, result.reason][0].partition("\n")[0]


def _order(check: str) -> int:
    """The place of a check; those that packages add come last."""
    names = [info.name for info in BUILT_IN]
    return names.index(check) if check in names else len(names)


def _is_clean(results: Iterable[CheckResult]) -> bool:
    statuses = [result.status for result in results]
    return "clean" in statuses and not any(result.is_bad for result in results)


def run_gate(
    project: Project,
    configs: Sequence[Path],
    release: Release,
    *,
    checks: Sequence[str] = (),
    echo: Echo | None = None,
    color: bool = False,
    cluster: str = "",
) -> GateRun:
    """Run the gate over configs in a process of its own, with a release in place of the installed one.

    Where the release does not import here, because it needs what is not installed or because there is no torch, only
    the checks run that import nothing of it. `checks` names those to run, in place of all. `echo` gets what the gate
    prints, as it comes. `cluster` is the address of a Ray cluster that does what takes long.

    Raises:
        PatchgenError: no process can be started.
    """
    version = f"{release.distribution} {release.version}"
    environment = _environment(release)
    reason = _obstacle(release, environment, project.base)
    chosen = [name for name in checks or STATIC if name in STATIC] if reason else checks
    options = ["--checks", ",".join(chosen)] if chosen else []
    options += ["--on", cluster] if cluster else []
    environment = {**environment, "FORCE_COLOR": "1"} if color else environment
    code, output, results = _run(project, [*options, *map(str, configs)], environment, echo)
    return GateRun(code, output, not reason, reason, results, version)


def _environment(release: Release) -> dict[str, str]:
    """The environment of a process that imports the release; the installed one needs nothing."""
    if release.origin == "installed":
        return dict(os.environ)
    path = os.pathsep.join(filter(None, [str(release.folder), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, RELEASE: release.package}


# --- whether it imports ----------------------------------------------------------------------------


def _obstacle(release: Release, environment: Mapping[str, str], folder: Path) -> str:
    """Why models of a release cannot be imported here; empty when they can."""
    answer = _probe(release.package, environment, folder)
    name = f"{release.distribution} {release.version}"
    consequence = "only the checks that import nothing ran: " + ", ".join(STATIC)
    if "lacks" in answer:
        package = str(answer["lacks"]).partition(".")[0]
        needs = f"{name} needs {package}, which is not installed"
        why = "torch is not installed here" if package == "torch" else needs
    elif "error" in answer:
        why = f"{name} does not import here: {answer['error'].rstrip('.')}"
    elif release.origin != "installed" and not _is_below(answer.get("file"), release.folder):
        why = f"Python imports another {release.package} than {name}: {answer.get('file')}"
    else:
        return ""
    cure = "install torch" if why.startswith("torch") else f"install {release.distribution}=={release.version}"
    return f"{why}: {consequence}. For its import and parity checks, {cure}."


def _is_below(file: str | None, folder: Path) -> bool:
    return bool(file) and Path(os.path.realpath(str(file))).is_relative_to(os.path.realpath(folder))


def _probe(package: str, environment: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Import a release's package as the gate's processes will, and say what came of it."""
    with tempfile.TemporaryDirectory(prefix="patchgen-") as temporary:
        file = Path(temporary, "answer.json")
        command = [sys.executable, "-c", _PROBE, package, _MODELS.get(package, "")]
        environment = {**environment, "PATCHGEN_PROBE": str(file)}
        try:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
        except OSError as error:
            raise PatchgenError(f"no process can be started: {error.strerror}") from None
        if not file.is_file():
            return {"error": f"importing it ends Python with exit code {done.returncode}"}
        answer: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return answer


# --- running it ------------------------------------------------------------------------------------


def _run(
    project: Project, arguments: Sequence[str], environment: Mapping[str, str], echo: Echo | None
) -> tuple[int, str, tuple[CheckResult, ...]]:
    folder = cache_folder(project)
    prepare_folder(folder)
    report = folder / REPORT
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "patchgen_core", "gate", "--report", str(report), *arguments]
    columns = str(shutil.get_terminal_size().columns)
    try:
        with subprocess.Popen(
            command,
            cwd=project.base,
            env={"COLUMNS": columns, **environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                output = _output(process, echo)
            except KeyboardInterrupt:
                interrupt_process(process, _SECONDS_TO_END)  # Ctrl-C was meant for it as well
                raise
    except OSError as error:
        raise PatchgenError(f"no process can be started: {error.strerror}") from None
    return process.returncode, output, _results(report)


def _output(process: subprocess.Popen[bytes], echo: Echo | None) -> str:
    """What a process prints, which is told as it comes."""
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    parts = []
    while chunk := os.read(process.stdout.fileno(), 65536):
        text = decoder.decode(chunk)
        parts.append(text)
        if echo is not None:
            echo(text)
    return "".join(parts)


def _results(report: Path) -> tuple[CheckResult, ...]:
    try:
        records = json.loads(report.read_text(encoding="utf-8"))["results"]
        results = [unpack({**record, "files": []}) for record in records]
    except (OSError, ValueError, KeyError):
        return ()
    return tuple(sorted(results, key=lambda result: (result.config, _order(result.check))))

"""Does the gate find defects that nobody wrote it for? `python -m tools.mutation.defects [--help]`, or `make mutation`

Each edit of ``benchmarks/defects`` is made in a copy of the zoo, whose generated module is made anew by ``patchgen
gate --fix``. That command's other checks then say what they find in the config, until one of them is red. What it
wrote is put back before the next edit. Right changes of the same kind, the controls, must stay green.

Returns 1 when fewer than 95 of 100 defects are found, or 85 of a class, or when fewer than 9 in 10 of the first
findings name the patch, or when a control is red.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from patchgen_core.checks.fork_server import make_fork_server
from patchgen_core.checks.registry import all_checks
from patchgen_core.errors import PatchgenError
from tools.mutation.edits import CLASSES, CONTROL, ROOT, ZOO, Edit, choose_edits, read_edits

GOAL, GOAL_OF_A_CLASS, GOAL_OF_NAMES = 95.0, 85.0, 90.0
VERDICTS = ("caught", "warned", "missed", "failed")
Verdict = Literal["caught", "warned", "missed", "failed"]
_OF_A_CONTROL = {"caught": "RED", "missed": "green"}
_NOT_GREEN = ("caught", "failed")
_GENERATED = "generated"
_QUICK = ("drift", "contract", "import")
_FIRST = {8: ("converter", "plan"), 9: ("plan",)}
"""The checks that a defect of a class is likeliest to show in, which go before parity, that takes longer."""
_SHOWN_IN = {"sharded": (9, CONTROL), "kernel": (6, 10, CONTROL)}
"""The classes of edits that checks, which take long, may have something to say of."""
_LONGEST = 300
"""Characters of a finding that are printed."""


@dataclass(frozen=True)
class Finding:
    """What the gate says of an edit.

    Attributes:
        item: whose result it is, such as ``parity[eager]``.
        is_named: whether it names the patch, or the class, that was changed, or stands at the function that was.
    """

    verdict: Verdict
    item: str = ""
    message: str = ""
    is_named: bool = False
    seconds: float = 0.0


Judged = tuple[Edit, Finding]


class Copy:
    """A copy of the zoo that is changed, checked and put right again, by one process for each config."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.zoo = folder, folder / ZOO
        self.zoo.parent.mkdir(parents=True)
        shutil.copy(ROOT / "pyproject.toml", folder)
        for path in (ROOT / ZOO).parent.glob("*.toml"):
            shutil.copy(path, self.zoo.parent)
        shutil.copytree(ROOT / ZOO, self.zoo, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        self._process: subprocess.Popen[str] | None = None
        self._config: Path | None = None

    def judge(self, edit: Edit, checks: str) -> Finding:
        """Make an edit, and read what the gate tells of it.

        Raises:
            PatchgenError: the edit cannot be made.
        """
        start = time.monotonic()
        process = self._gate_of(edit)  # which runs the config as it is
        try:
            edit.apply(self.zoo)
            finding = _read_finding(edit, self._ask(process, _checks_for(edit, checks)))
        finally:
            self._restore(edit)
        return replace(finding, seconds=time.monotonic() - start)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
        self._process, self._config = None, None

    def _gate_of(self, edit: Edit) -> subprocess.Popen[str]:
        """The process for an edit's config; that for another one is ended."""
        if self._process is None or self._config != edit.config:
            self.close()
            command = [sys.executable, "-m", "tools.mutation.warm_gate", f"{ZOO}/{edit.config.as_posix()}"]
            command += ["first"] if edit.is_defect else []  # few defects get as far as the others
            paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": paths},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self._config = edit.config
        return self._process

    def _ask(self, process: subprocess.Popen[str], checks: str) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{checks}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self.close()
            return {"status": "failed", "item": "", "message": "its process ended", "target": ""}
        told: dict[str, Any] = json.loads(line)
        return told

    def _restore(self, edit: Edit) -> None:
        for file in (edit.file, edit.config):
            shutil.copy(ROOT / ZOO / file, self.zoo / file)
        generated = edit.config.parent / _GENERATED
        shutil.copytree(
            ROOT / ZOO / generated,
            self.zoo / generated,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )


def _checks_for(edit: Edit, checks: str) -> str:
    """The checks that an edit of its class can show in, the likeliest first where others take long."""
    names = [name for name in checks.split(",") if edit.number in _SHOWN_IN.get(name, (edit.number,))]
    return ",".join(sorted(names, key=lambda name: (name not in _QUICK, name not in _FIRST.get(edit.number, ()))))


def _read_finding(edit: Edit, told: dict[str, Any]) -> Finding:
    verdict = told["status"] or "missed"
    is_named = _names(edit.target, told) or edit.is_at(told.get("file", ""), int(told.get("line", 0)))
    return Finding(cast(Verdict, verdict), told["item"], told["message"], is_named)


def _names(target: str, problem: dict[str, Any]) -> bool:
    """Whether a problem is about a target; the hint, which names other patches too, does not count."""
    is_there = re.search(rf"(?<![\w.]){re.escape(target)}(?![\w.]\w)", problem["message"])
    return problem["target"] == target or is_there is not None


def judge_all(edits: Sequence[Edit], folder: Path, jobs: int, checks: str) -> Iterator[Judged]:
    """Judge edits, those of so many configs at a time, each in a copy of its own; yields them as they are done.

    Raises:
        PatchgenError: an edit cannot be made.
    """
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for number in range(jobs):
        copies.put(Copy(folder / str(number)))
    results: queue.SimpleQueue[Judged | Exception] = queue.SimpleQueue()

    def judge(of_config: Iterable[Edit]) -> None:
        copy = copies.get()
        try:
            for edit in of_config:
                results.put((edit, copy.judge(edit, checks)))
        except Exception as error:
            results.put(error)
        finally:
            copy.close()
            copies.put(copy)

    by_config: dict[Path, list[Edit]] = {}
    for edit in edits:
        by_config.setdefault(edit.config, []).append(edit)
    with make_fork_server(), ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(judge, of_config) for of_config in by_config.values()]
        try:
            for _ in edits:
                result = results.get()
                if isinstance(result, Exception):
                    raise result
                yield result
        finally:
            for future in futures:
                future.cancel()


# --- what is printed -------------------------------------------------------------------------------


def line(judged: Judged) -> str:
    """One of them as a line: what became of it, and by which finding."""
    edit, finding = judged
    verdict = finding.verdict if edit.is_defect else _OF_A_CONTROL.get(finding.verdict, finding.verdict)
    row = f"{verdict:<7} {edit.number:>2} {edit.name:<46} {finding.seconds:>4.0f} s"
    if finding.verdict == "missed":
        return f"{row}  {edit.mode}: {edit.shows}" if edit.is_defect else row
    by = "" if finding.is_named else f" (not at {edit.target})"
    return f"{row}  {finding.item}{by}: {' '.join(finding.message.split())[:_LONGEST]}"


def table(defects: Sequence[Judged], title: str, names: Sequence[str], key: Callable[[Edit], str]) -> str:
    """How many were found, for each name that ``key`` gives, and in all."""
    rows = [f"{title:<24}{'defects':>9}" + "".join(f"{v:>9}" for v in (*VERDICTS, "of 100", "named"))]
    for name in (*names, ""):
        chosen = [(edit, finding) for edit, finding in defects if name in ("", key(edit))]
        if chosen:
            counts = [sum(finding.verdict == verdict for _, finding in chosen) for verdict in VERDICTS]
            cells = "".join(f"{count:>9}" for count in (len(chosen), *counts))
            rows.append(f"{name or 'all':<24}{cells}{share_caught(chosen):>9.1f}{share_named(chosen):>9.1f}")
    return "\n".join(rows)


def share_caught(defects: Sequence[Judged]) -> float:
    """How many of a hundred defects are found."""
    return 100 * sum(finding.verdict == "caught" for _, finding in defects) / len(defects) if defects else 100.0


def share_named(defects: Sequence[Judged]) -> float:
    """How many of a hundred first findings name the patch."""
    caught = [finding for _, finding in defects if finding.verdict == "caught"]
    return 100 * sum(finding.is_named for finding in caught) / len(caught) if caught else 100.0


def reaches_goals(results: Sequence[Judged]) -> bool:
    """Whether enough is found, in each class too, at the right patch, and no control is red."""
    defects = [judged for judged in results if judged[0].is_defect]
    classes = ([judged for judged in defects if judged[0].number == number] for number in CLASSES)
    return (
        share_caught(defects) >= GOAL
        and all(share_caught(of_class) >= GOAL_OF_A_CLASS for of_class in classes)
        and share_named(defects) >= GOAL_OF_NAMES
        and not any(finding.verdict in _NOT_GREEN for edit, finding in results if edit.number == CONTROL)
    )


def print_report(results: Sequence[Judged]) -> None:
    """The tables, and a line for all that is not as it should be."""
    defects = [judged for judged in results if judged[0].is_defect]
    controls = [judged for judged in results if not judged[0].is_defect]
    numbered = [f"{number:>2} {name}" for number, name in CLASSES.items()]
    print("", table(defects, "class", numbered, lambda edit: f"{edit.number:>2} {CLASSES[edit.number]}"), "", sep="\n")
    print(table(defects, "model", sorted({edit.model for edit, _ in defects}), lambda edit: edit.model), "", sep="\n")
    wrong = [j for j in defects if j[1].verdict != "caught"] + [j for j in controls if j[1].verdict != "missed"]
    print(*map(line, sorted(wrong, key=lambda j: (j[0].number, j[0].name))), sep="\n")
    green = sum(finding.verdict not in _NOT_GREEN for _, finding in controls)
    print(
        f"{len(defects)} defects, {share_caught(defects):.1f} of 100 caught; {green} of {len(controls)} controls green"
    )


def _read_before(file: Path, edits: Sequence[Edit]) -> list[Judged]:
    """The results that a file has of some edits, which are left out then."""
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines()) if file.exists() else ()
    findings = {row.pop("name"): Finding(**row) for row in rows}
    return [(edit, findings[edit.name]) for edit in edits if edit.name in findings]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the edits that are chosen; 1 when too few are found."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation.defects", description="Does the gate find them?")
    parser.add_argument("words", nargs="*", help="names, models, numbers of classes, 'defects', 'controls'")
    parser.add_argument("--jobs", type=int, default=2, help="edits at a time (default: 2)")
    parser.add_argument("--checks", default=",".join(check.name for check in all_checks()), help="checks to run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result there, and read those of before")
    options = parser.parse_args(argv)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # a file may change twice within the second that bytecode is kept by
    started, results = time.monotonic(), list[Judged]()
    try:
        edits = choose_edits(read_edits(), options.words)
        before = _read_before(options.json, edits) if options.json is not None else []
        results += before
        judged_names = {edit.name for edit, _ in before}
        edits = [edit for edit in edits if edit.name not in judged_names]
        with tempfile.TemporaryDirectory(prefix="defects-") as folder:
            for judged in judge_all(edits, Path(folder).resolve(), options.jobs, options.checks):
                results.append(judged)
                print(line(judged), flush=True)
                if options.json is not None:
                    with options.json.open("a", encoding="utf-8") as file:
                        print(json.dumps({"name": judged[0].name, **asdict(judged[1])}), file=file)
    except PatchgenError as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    print_report(results)
    print(f"{time.monotonic() - started:.0f} s, {options.jobs} at a time")
    return 0 if reaches_goals(results) else 1


if __name__ == "__main__":
    sys.exit(main())

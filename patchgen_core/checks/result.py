"""What a check found out about a config, as plain data that every front end prints, sends or saves."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from patchgen_core.build.results import Cause, ConfigResult, FileDrift
from patchgen_core.errors import Location, Problem, display_path

TENSORS, LAYERS, BACKWARD = "tensors", "layers", "layers, backward"
"""How the titles of a comparison's tables end."""
RIGHT = "ok"
"""The verdict of a row that shows nothing wrong."""
WHOLE = "(model)"
"""What a table calls the model itself, whose path is empty."""


@dataclass(frozen=True)
class Table:
    """Figures that belong together, as text, a row each below the heads of their columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Status = Literal["clean", "drifted", "fixed", "failed", "error", "skipped"]
_TITLE = re.compile(r"^(---|\+\+\+) .* (\((?:checked in|generated now)\))$", re.MULTILINE)
BAD: tuple[Status, ...] = ("drifted", "failed", "error")
"""The statuses that make a run red."""
STATUS_STYLE: dict[Status, str] = {
    "clean": "green",
    "drifted": "red",
    "failed": "red",
    "fixed": "yellow",
    "skipped": "yellow",
    "error": "bold red",
}
"""How they are printed."""
NOT_KEPT = "not kept: "
"""The beginning of notes on why a later run has to compute something again."""
NO_MODULE = "there is nothing to check; the drift check says why"
"""Why contracts of a config that does not generate are not checked."""


@dataclass(frozen=True)
class FileDifference:
    """A file that differs: the unified diff from what is there to what should be.

    ``telling`` is the diff as it is shown: without the header's hashes, which change with everything else.
    """

    path: str
    missing: bool
    diff: str
    telling: str


@dataclass(frozen=True)
class CheckResult:
    """What one check found out about one config.

    Attributes:
        config: what reports call the config.
        line: 1-based line where it is declared; 0 when that is not known.
        status: the verdict. A failed check of the drift is ``drifted``, a config with errors is ``error``.
        errors: what is wrong with the config, or with what it made.
        loading: how the config was loaded, and why for real; empty when it was not.
        notes: what is left out of the verdict on purpose, such as findings that the config allows.
        reason: why the check was skipped.
        tables: the figures behind the errors.
        held: findings that the project's baseline holds back.
        made: when an earlier run made it that it is kept from, in seconds since 1970; 0 where this run did.
        unused: allowances that nothing came of here.
        siblings: names of the items that such an allowance may also be for, this one's among them.
        picture: file that shows the figures; empty for none.
        item: node id of the test item that made the record.
        seconds: how long that item took when it ran, with what it set up for others; 0 when it is not known.
        copies: of files that were edited by hand and then rewritten.
    """

    config: str = ""
    path: str = ""
    line: int = 0
    check: str = ""
    status: Status = "clean"
    causes: tuple[Cause, ...] = ()
    files: tuple[FileDifference, ...] = ()
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    loading: str = ""
    loading_reason: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""
    figures: Mapping[str, int | float] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    unused: tuple[Problem, ...] = ()
    siblings: tuple[str, ...] = ()
    picture: str = ""
    item: str = ""
    seconds: float = 0.0
    copies: tuple[str, ...] = ()
    held: tuple[Problem, ...] = ()
    made: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))

    @property
    def is_bad(self) -> bool:
        """Whether it makes a run red."""
        return self.status in BAD

    @property
    def name(self) -> str:
        """The name of its item, such as ``parity[eager]``; the check's when it is not known."""
        name = self.item.rpartition("::")[2].partition("@")[0]
        return name if name.partition("[")[0] == self.check else self.check

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        titles = [problem.title for problem in self.errors] or [str(cause) for cause in self.causes]
        if not titles:
            return self.reason or self.status
        return titles[0] if len(titles) == 1 else f"{titles[0]} (and {len(titles) - 1} more)"


def make_result(
    problems: Iterable[Problem] = (),
    skipped: str = "",
    notes: Iterable[str] = (),
    figures: Mapping[str, float] | None = None,
    warnings: Iterable[Problem] = (),
    tables: Iterable[Table] = (),
) -> CheckResult:
    """What a comparison came to, before it is known which config it is about: clean, or skipped for a reason, where
    there are no problems."""
    return with_errors(
        CheckResult(
            reason=skipped,
            notes=tuple(notes),
            figures=figures or {},
            warnings=tuple(warnings),
            tables=tuple(tables),
        ),
        problems,
    )


def with_errors(result: CheckResult, errors: Iterable[Problem]) -> CheckResult:
    """A result with other errors, and the status that goes with them."""
    errors = tuple(errors)
    status: Status = "failed" if errors else "skipped" if result.reason else "clean"
    return replace(result, errors=errors, status=status, reason="" if errors else result.reason)


def drift_result(result: ConfigResult, with_diffs: bool = True) -> CheckResult:
    """The record of a drift check; the diffs of large files take as long as all else."""
    outcome = result.outcome
    files = tuple(_difference(file) if with_diffs else _bare_difference(file) for file in result.files)
    return CheckResult(
        outcome.label,
        str(outcome.path),
        outcome.line,
        "drift",
        result.status,
        result.causes,
        files,
        written=tuple(file.path for file in files) if result.status == "fixed" else (),
        copies=tuple(map(str, result.copies)),
        errors=outcome.problems,
        loading=outcome.loading,
        loading_reason=outcome.loading_reason,
        notes=(f"not cached: {outcome.uncacheable}",) if outcome.uncacheable and outcome.loading == "stubbed" else (),
    )


def _difference(file: FileDrift) -> FileDifference:
    return FileDifference(str(file.path), file.old is None, _clean(file.diff), _clean(file.telling_diff))


def _bare_difference(file: FileDrift) -> FileDifference:
    return FileDifference(str(file.path), file.old is None, "", "")


def orphans_result(path: Path, orphans: Sequence[Path], status: Status) -> CheckResult:
    """The record of the search for generated files that no config makes; ``path`` is the project's file."""
    root = relative_to(path.parent)
    causes = tuple(Cause("orphan", f"{root(str(orphan))}: no config makes it now") for orphan in orphans)
    removed = tuple(map(str, orphans)) if status == "fixed" else ()
    return CheckResult(path.name, str(path), 0, "drift", status, causes=causes, removed=removed)


def pack(result: CheckResult) -> dict[str, Any]:
    """A result as JSON types that can be sent and saved: what is not valid Unicode is escaped."""
    packed: dict[str, Any] = _clean(msgspec.to_builtins(result, enc_hook=_plain_text))
    return packed


def unpack(data: Mapping[str, Any]) -> CheckResult:
    """The result that :func:`pack` was given; a ValueError where ``data`` is no such result."""
    try:
        return msgspec.convert(data, CheckResult)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def clean(text: str) -> str:
    """A text that can be sent and saved: what is not valid Unicode is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _plain_text(value: Any) -> str:
    """A hint that knows what it is about, as a text alone; a NotImplementedError for what is no text."""
    if not isinstance(value, str):
        raise NotImplementedError(f"results hold no {type(value).__name__}")
    return str(value)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _clean(entry) for key, entry in value.items()}
    return [_clean(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def relative_to(root: Path) -> Callable[[str], str]:
    """For :func:`with_paths`: paths below ``root`` from there, with forward slashes."""
    return lambda path: Path(path).relative_to(root).as_posix() if Path(path).is_relative_to(root) else path


def with_paths(record: CheckResult, change: Callable[[str], str]) -> CheckResult:
    """A record with each path changed, as for a machine that has the files elsewhere."""

    def problem(value: Problem) -> Problem:
        at, generated = value.location, value.generated
        snippet = replace(generated, location=location(generated.location)) if generated else None
        return replace(value, location=location(at) if at else None, generated=snippet)

    def location(value: Location) -> Location:
        return Location(change(value.file), value.line)

    return replace(
        record,
        path=change(record.path),
        files=tuple(replace(file, path=change(file.path)) for file in record.files),
        written=tuple(map(change, record.written)),
        copies=tuple(map(change, record.copies)),
        removed=tuple(map(change, record.removed)),
        errors=tuple(map(problem, record.errors)),
        warnings=tuple(map(problem, record.warnings)),
        unused=tuple(map(problem, record.unused)),
        held=tuple(map(problem, record.held)),
        picture=change(record.picture) if record.picture else "",
    )


def retitled(record: CheckResult) -> CheckResult:
    """A record whose diffs name their files as paths are shown here."""

    def title(diff: str, path: str) -> str:
        return _TITLE.sub(lambda match: f"{match[1]} {display_path(path)} {match[2]}", diff, count=2)

    files = (
        replace(file, diff=title(file.diff, file.path), telling=title(file.telling, file.path))
        for file in record.files
    )
    return replace(record, files=tuple(files))

"""What a checked-in generated file and its diff say about the upstream that they were made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.files import read_text
from patchgen_core.syntax.diffs import reverse_diff
from patchgen_core.syntax.header import is_generated, read_fingerprint, read_version
from patchgen_core.syntax.source import is_python


@dataclass(frozen=True)
class Recorded:
    """Upstream's module as a generated file and its diff hold it: with absolute imports and as ruff formats it."""

    module: str
    version: str
    text: str


def recorded_version(output: Path) -> str | None:
    """The version that a generated file says it is based on, whichever generator wrote it; None when it says none."""
    try:
        text = _text(output)
    except PatchgenError:
        return None
    version = read_version(text) if text and is_generated(text) else None
    return None if version == "unknown" else version


def recorded_upstream(output: Path) -> Recorded | None:
    """Upstream's text from a generated file and the diff beside it; None when they do not hold it."""
    answer = _read(output)
    return answer if isinstance(answer, Recorded) else None


def why_not_recorded(output: Path) -> str:
    """Why a generated file and its diff do not hold upstream's text, without a full stop; empty when they do."""
    answer = _read(output)
    return answer if isinstance(answer, str) else ""


def _read(output: Path) -> Recorded | str:
    diff_path = output.with_suffix(".diff")
    path_text, diff_text = f"'{display_path(output)}'", f"'{display_path(diff_path)}'"
    try:
        text, diff = _text(output), _text(diff_path)
    except PatchgenError as error:
        return str(error.problems[0])
    if text is None:
        return f"{path_text} does not exist"
    mark = read_fingerprint(text)
    if mark is None:
        return f"{path_text} has no fingerprint that shows whether it was edited"
    if not mark.sealed:
        return f"{path_text} was edited by hand"
    if diff is None:
        return f"{diff_text} does not exist"
    upstream = reverse_diff(text, diff)
    if upstream is None or is_generated(upstream) or not is_python(upstream):
        return f"{diff_text} does not belong to {path_text}"
    return Recorded(mark.source, mark.version, upstream)


def _text(path: Path) -> str | None:
    """A file's text with the newlines that it was written with, whatever git makes of them."""
    text = read_text(path)
    return None if text is None else text.replace("\r\n", "\n")

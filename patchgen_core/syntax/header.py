"""The comment block at the top of a generated module, as it is read: what it says it was made from."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from patchgen_core.files import short_hash

FORMAT = 1
"""Number of the output format. It goes up when a release changes what the same input generates."""

RULE = f"# {'=' * 78}"
CONFIG = "#  Config: "
MARK = "AUTO-GENERATED FILE - DO NOT EDIT DIRECTLY"
UNSEALED = "0" * 12
_FINGERPRINT = re.compile(
    r"^#  Fingerprint: format=(\d+) upstream=(\w{12}) config=(\w{12}) output=(\w{12})\n(?=# =)", re.MULTILINE
)
"""The line that the closing rule of a header follows."""
_VERSION = re.compile(r"^#  Based on: [\w.-]+==(\S+)$", re.MULTILINE)
_RUFF = re.compile(r"^#  Laid out by: ruff (\S+)\n", re.MULTILINE)
_SOURCE = re.compile(r"^#  Source: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Fingerprint:
    """What a generated file says of its making, with hashes of upstream's text, of the declarations and of its own.

    ``sealed`` says whether the text still has the last; if not, it was edited.
    """

    format: int
    source: str
    version: str
    upstream: str
    config: str
    output: str
    sealed: bool


def seal(text: str) -> str:
    """Set the output hash of a generated file's final text."""
    unsealed = _set_output(text, UNSEALED)
    return _set_output(unsealed, short_hash(unsealed))


def name_ruff(text: str, version: str) -> str:
    """A generated text whose header names a version of ruff, or none where it is empty."""
    bare = _RUFF.sub("", text, count=1)
    fingerprint = _FINGERPRINT.search(bare) if version else None
    if fingerprint is None:
        return bare
    return f"{bare[: fingerprint.start()]}#  Laid out by: ruff {version}\n{bare[fingerprint.start() :]}"


def read_ruff(text: str) -> str:
    """The version of ruff that the header of a generated file names; empty where it names none."""
    fingerprint = _FINGERPRINT.search(text)
    version = _RUFF.search(text, 0, fingerprint.start()) if fingerprint else None
    return version[1] if version else ""


@functools.lru_cache(maxsize=2)
def read_fingerprint(text: str) -> Fingerprint | None:
    """What the header of a generated file says, or None when it has none that can be read."""
    marks, version, source = _FINGERPRINT.search(text), _VERSION.search(text), _SOURCE.search(text)
    if marks is None or version is None or source is None:
        return None
    sealed = short_hash(_set_output(text, UNSEALED)) == marks[4]
    return Fingerprint(int(marks[1]), source[1], version[1], marks[2], marks[3], marks[4], sealed)


def read_version(text: str) -> str | None:
    """The version that a generated file says it is based on, whichever generator of its kind wrote it."""
    version = _VERSION.search(text[:2000])
    return version[1] if version else None


def read_label(text: str) -> str:
    """What the config of a generated file was called when it was written; empty when the header does not say."""
    lines = (line for line in text[:2000].split("\n") if line.startswith(CONFIG))
    return next(lines, "").removeprefix(CONFIG)


def fingerprint_line(text: str) -> str:
    """The line of a generated file's header that has its hashes; empty where there is none."""
    fingerprint = _FINGERPRINT.search(text)
    return fingerprint[0].rstrip("\n") if fingerprint else ""


def copy_fingerprint(source: str, target: str) -> str:
    """``target`` with the fingerprint line of ``source``, where both have one."""
    fingerprint, replaced = _FINGERPRINT.search(source), _FINGERPRINT.search(target)
    if fingerprint is None or replaced is None:
        return target
    return target[: replaced.start()] + fingerprint[0] + target[replaced.end() :]


def is_generated(text: str) -> bool:
    """Whether a file was written by the generator, judged by its first lines."""
    return MARK in "\n".join(text[:400].split("\n")[:3])


def is_of_another_generator(text: str) -> bool:
    """Whether a generator wrote a file that, unlike this one, leaves no hashes and no config's name in its header."""
    names_base = all(pattern.search(text[:2000]) for pattern in (_SOURCE, _VERSION))
    return is_generated(text) and names_base and not read_label(text) and "#  Fingerprint: " not in text


def _set_output(text: str, value: str) -> str:
    match = _FINGERPRINT.search(text)
    return text if match is None else text[: match.start(4)] + value + text[match.end(4) :]

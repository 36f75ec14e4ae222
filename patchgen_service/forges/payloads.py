"""What the payloads of all forges have in common."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TypeVar

import msgspec

from patchgen_service.git.errors import GitError
from patchgen_service.git.mirror import branch_ref, check_sha

HEADS = "refs/heads/"
LONGEST_BRANCH = 500
LONGEST_TEXT = 2000
_FRACTION = re.compile(r"\.\d+| (?=[U+-])")
"""What Python 3.10 does not read of a time: parts of a second, and the space before a zone."""
Shape = TypeVar("Shape")


class PayloadError(ValueError):
    """A payload that is not what its event's should be."""


def decode(body: bytes, shape: type[Shape]) -> Shape:
    """A payload as a shape that names what is needed of it; a PayloadError where it is none."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise PayloadError(str(error)) from None


def read_branch(name: str, is_fork: bool = False) -> str:
    """A branch's name, which may come from anybody."""
    if len(name) > LONGEST_BRANCH:
        raise PayloadError(f"The branch's name has more than {LONGEST_BRANCH} characters.")
    try:
        branch_ref(name.partition(":")[2] if is_fork else name)
    except GitError as error:
        raise PayloadError(str(error)) from None
    return name


def read_sha(sha: str | None) -> str:
    """A commit's id; empty for the zeros that stand for none."""
    if not sha or not sha.strip("0"):
        return ""
    try:
        return check_sha(sha)
    except GitError as error:
        raise PayloadError(str(error)) from None


def read_time(text: str | None) -> str:
    """A moment as ISO 8601 has it, in UTC and to the second; empty where it is none."""
    plain = _FRACTION.sub("", (text or "").strip())
    try:
        moment = datetime.fromisoformat(plain.replace("UTC", "+00:00").replace("Z", "+00:00"))
    except ValueError:
        return ""
    return moment.astimezone(timezone.utc).isoformat(timespec="seconds") if moment.tzinfo is not None else ""


def clean_text(text: str | None) -> str:
    """A text that a database takes, without what goes beyond ``LONGEST_TEXT`` characters."""
    return (text or "").lstrip()[:LONGEST_TEXT].replace("\0", "").strip()

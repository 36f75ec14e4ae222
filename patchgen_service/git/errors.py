"""What can go wrong with git, in words that a page can show."""

from __future__ import annotations

import re
from typing import Literal

GitErrorKind = Literal[
    "authentication", "network", "repository", "branch", "commit", "moved", "declined", "disk", "time", "path", "other"
]
"""``repository``, ``branch`` and ``commit``: there is no such one (any more). ``moved``: the branch is no longer where
it was expected. ``declined``: the other side's rules forbid the push. ``path``: a file cannot be written there."""

RETRIED: tuple[GitErrorKind, ...] = ("network", "time", "disk")
"""What may go better another time."""

_SIGNS: tuple[tuple[GitErrorKind, str], ...] = (
    ("disk", r"no space left on device|disk quota exceeded"),
    (
        "authentication",
        r"authentication failed|could not read (username|password)|permission denied|error: 40[13]\b|"
        r"host key verification failed|terminal prompts disabled|access denied|invalid credentials",
    ),
    (
        "moved",
        r"stale info|\(fetch first\)|non-fast-forward|incorrect old value|reference already exists|cannot lock ref",
    ),
    ("declined", r"protected branch|hook declined|\[remote rejected\]|gh\d{3}:"),
    ("branch", r"couldn't find remote ref|unknown revision|not a valid ref"),
    (
        "commit",
        r"not our ref|unadvertised object|bad object|not a valid (object|commit)|not a tree object|"
        r"could not get object info|remote did not send all necessary objects|bad revision|invalid object",
    ),
    (
        "repository",
        r"does not appear to be a git repository|repository .*not found|does not exist|error: 404\b|"
        r"not a git repository|no such file or directory",
    ),
    (
        "network",
        r"could not resolve|connection (refused|reset|timed out|closed)|failed to connect|couldn't connect|timed out|"
        r"early eof|rpc failed|error: (5\d\d|429)\b|unable to access|hung up|empty reply|ssl|tls|"
        r"unexpected disconnect|could not read from remote|network is unreachable|could not fetch",
    ),
)
_SENTENCES: dict[GitErrorKind, str] = {
    "authentication": "The forge did not accept the service's credentials for {url}.",
    "network": "{url} could not be reached.",
    "repository": "There is no git repository at {url}.",
    "branch": "The branch does not exist, or no longer does.",
    "commit": "The commit is gone: its branch was forced or deleted.",
    "moved": "The branch has moved on.",
    "declined": "The forge's rules for this branch forbid the push.",
    "disk": "The disk of the service is full.",
    "time": "git took too long.",
    "other": "git failed.",
    "path": "The file cannot be written there.",
}


class GitError(Exception):
    """git could not do it. ``str()`` of it is a sentence for people; ``detail`` is what git wrote, without secrets."""

    def __init__(self, kind: GitErrorKind, detail: str = "", url: str = "", sentence: str = "") -> None:
        self.kind: GitErrorKind = kind
        self.detail = detail
        self.url = url
        super().__init__(sentence or _SENTENCES[kind].format(url=url or "the repository"))

    def __reduce__(self) -> tuple[type[GitError], tuple[GitErrorKind, str, str, str]]:
        return GitError, (self.kind, self.detail, self.url, str(self))

    @property
    def is_retried(self) -> bool:
        """Whether it may go better another time."""
        return self.kind in RETRIED


def classify_error(output: str) -> GitErrorKind:
    """What git's complaint means; its words are English, because it runs in the C locale."""
    text = output.lower()
    return next((kind for kind, sign in _SIGNS if re.search(sign, text)), "other")

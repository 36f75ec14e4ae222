"""What is to be run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunOrder:
    """All that a run needs to know; nothing of it is a secret.

    Attributes:
        run: id of the run.
        repository: its name; ``url`` is where git gets it from.
        sha: the commit, in full.
        ref: the reference that git fetches the commit by, where it is on no branch, such as ``refs/pull/5/head``.
        projects: folders with a ``[tool.patchgen]``, from the repository's root; ``.`` for that.
        checks: names of the checks to run; empty for all.
        python: the interpreter of its environment; empty for that of the service.
        constraints: path of its constraints file, from the repository's root; empty for none.
        extras: requirements that its environment gets.
        transformers: another release than the environment's to run with; empty for its own.
        is_trusted: whether it may run without isolation where there is none.
    """

    run: str
    repository: str
    url: str
    sha: str
    ref: str = ""
    projects: tuple[str, ...] = (".",)
    checks: tuple[str, ...] = ()
    python: str = ""
    constraints: str = ""
    extras: tuple[str, ...] = ()
    transformers: str = ""
    is_trusted: bool = False

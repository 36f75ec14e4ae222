"""What a person decided so far, kept in the cache: a session that stops goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

from patchgen_core.files import read_text, short_hash, write_files
from patchgen_core.project.cache_folder import cache_folder, prepare_folder
from patchgen_core.project.project import Project
from patchgen_core.upgrade.deciding.choices import Choice, Question

FILE = "upgrade-decisions.json"
"""The file of the cache that holds decisions."""
_FORMAT = 1


class Decisions:
    """The decisions on the questions of a project, by what was asked: another release, config or text asks anew."""

    def __init__(self, project: Project) -> None:
        self._folder, self._base = cache_folder(project), project.base
        self.path = self._folder / FILE
        self._choices: dict[str, dict[str, str]] = _read(self.path)

    def find(self, question: Question) -> Choice | None:
        """What was decided; None for nothing."""
        entry = self._choices.get(self._key(question))
        return Choice(entry["name"], entry["text"], entry.get("origin", "")) if entry is not None else None

    def keep(self, question: Question, choice: Choice | None) -> None:
        """Keep a decision, or, with None, forget the one that is there."""
        choices, key = _read(self.path), self._key(question)
        choices.pop(key, None)
        if choice is not None:
            choices[key] = {"name": choice.name, "text": choice.text, "origin": choice.origin}
        self._choices = choices
        prepare_folder(self._folder)
        write_files([(self.path, json.dumps({"format": _FORMAT, "choices": choices}, indent=1))])

    def _key(self, question: Question) -> str:
        """What was asked: configs, targets, releases, and the texts of the merge."""
        rebase = question.rebase
        asked = [
            [(c.config, p.kind, p.target, p.new_name, c.old, c.new) for c, p in question.patches],
            [rebase.ours, rebase.merged.text, rebase.marked, rebase.diff],
        ]
        return short_hash(json.dumps(asked))


def _read(path: Path) -> dict[str, dict[str, str]]:
    """The decisions of a file; none of one that is not there, or not what was written."""
    try:
        data = json.loads(read_text(path) or "{}")
        choices = data["choices"] if data["format"] == _FORMAT else {}
        return {key: entry for key, entry in choices.items() if {"name", "text"} <= entry.keys()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}

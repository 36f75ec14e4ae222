"""What a run of the gate in another process tells as it goes, read line by line."""

from __future__ import annotations

import json
import os
from pathlib import Path

from patchgen_core.checks.result import CheckResult, unpack, with_paths


class StreamedResults:
    """The lines that ``patchgen gate --stream -`` has written so far.

    Args:
        base: the folder that paths are relative to.

    Attributes:
        items: how many items the run has; 0 until it has begun.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self.items = 0
        self._failure, self._is_whole = "", False
        self._results: dict[tuple[str, str, str], CheckResult] = {}

    @property
    def results(self) -> tuple[CheckResult, ...]:
        """The results until now, the last of each config and item."""
        return tuple(self._results.values())

    @property
    def done(self) -> int:
        """How many items have results."""
        return len({item for _, _, item in self._results})

    def read(self, text: str | bytes) -> CheckResult | None:
        """Read a line; the result that it tells, if it tells one."""
        line = json.loads(text)
        if "begin" in line:
            self.items = line["begin"]["items"]
        elif "result" in line:
            result = with_paths(unpack(line["result"]), self._absolute)
            self._results[result.path, result.config, result.item] = result
            return result
        elif "end" in line:
            self._failure, self._is_whole = "; ".join(p["message"] for p in line["end"].get("errors", ())), True
        return None

    def find_failure(self, code: int | None, errors: str) -> str:
        """Why a run that is over was not done, or not to its end, given the exit code of its process and what that
        wrote to its standard error; empty where it was."""
        if self._is_whole:
            return self._failure
        last = errors.strip().rpartition("\n")[2] if not self._results else ""
        return last or f"its process has ended with exit code {code}, after {self.done} of {self.items} checks"

    def _absolute(self, path: str) -> str:
        return path if os.path.isabs(path) else str(self.base / path)

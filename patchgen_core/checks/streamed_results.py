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
        failure: why the run could not be done; empty where it could.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self.items, self.failure = 0, ""
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
            self.failure = "; ".join(problem["message"] for problem in line["end"].get("errors", ()))
        return None

    def _absolute(self, path: str) -> str:
        return path if os.path.isabs(path) else str(self.base / path)

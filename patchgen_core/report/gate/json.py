"""A run of the gate as JSON, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchgen_core.checks.result import pack, relative_to, retitled, unpack, with_paths
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.report.data import SCHEMA
from patchgen_core.report.gate.report import GateReport


def gate_json(report: GateReport, root: Path) -> str:
    """The report as JSON that :func:`read_report` reads; paths below ``root`` are relative to it."""
    change = relative_to(root)
    results = [pack(retitled(with_paths(result, change))) for result in report.results]
    for result in results:
        for file in result["files"]:
            del file["telling"]  # the diff without what every change of it has
    data = {
        "schema": SCHEMA,
        "exit_code": report.exit_code,
        "results": results,
        "not_run": list(report.not_run),
        "not_collected": [change(path) for path in report.not_collected],
        "is_short": report.is_short,
    }
    return json.dumps(data, indent=2) + "\n"


def read_report(path: Path, root: Path) -> GateReport:
    """A report that :func:`gate_json` made; a PatchgenError where it cannot be read, or is no such report."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise PatchgenError(f"a report of schema {data['schema']}, not {SCHEMA}", Location(str(path)))
        for result in data["results"]:
            for file in result["files"]:
                file["telling"] = file["diff"]
        results = (with_paths(unpack(result), lambda name: str(root / name)) for result in data["results"])
        left_out = tuple(str(root / name) for name in data["not_collected"])
        return GateReport(tuple(map(retitled, results)), tuple(data["not_run"]), left_out, bool(data["is_short"]))
    except OSError as error:
        raise PatchgenError(f"cannot be read: {error.strerror}", Location(str(path))) from None
    except (ValueError, KeyError, TypeError):
        raise PatchgenError("not a report that 'pytest --patchgen-report' wrote", Location(str(path))) from None


def read_seconds(path: Path, root: Path) -> dict[str, float]:
    """How long each item took, by its node id, in a report that :func:`gate_json` made; a PatchgenError as above."""
    return {result.item: result.seconds for result in read_report(path, root).results}

"""Configs against releases, as JSON types."""

from __future__ import annotations

from typing import Any

from patchgen_core.errors import display_path
from patchgen_core.report.data import SCHEMA, problem_data
from patchgen_core.upgrade.matrix.results import Cell, MatrixReport, MatrixRow, PatchRow


def matrix_data(report: MatrixReport) -> dict[str, Any]:
    """A matrix as JSON types. Paths are relative to the working directory where they can be."""
    return {
        "schema": SCHEMA,
        "exit_code": report.exit_code,
        "distribution": report.distribution,
        "versions": list(report.versions),
        "tried": list(report.tried),
        "configs": [
            {
                "config": row.config,
                "path": display_path(row.path),
                "line": row.line,
                "module": row.module,
                "base": row.base or None,
                **_row_data(row),
                "notes": list(row.notes),
                "patches": [
                    {
                        "kind": patch.kind,
                        "target": patch.target,
                        "file": display_path(patch.location.file),
                        "line": patch.location.line,
                        **_row_data(patch),
                    }
                    for patch in row.patches
                ],
            }
            for row in report.rows
        ],
        "skipped": list(report.skipped),
        "errors": problem_data(report.failed),
    }


def _row_data(row: MatrixRow | PatchRow) -> dict[str, Any]:
    return {
        "first_broken": row.first_broken or None,
        "last_working": row.last_working or None,
        "first_working": row.first_working or None,
        "last_broken": row.last_broken or None,
        "is_exact": row.is_exact,
        "reasons": list(row.reasons),
        "cells": [_cell_data(cell) for cell in row.cells],
    }


def _cell_data(cell: Cell) -> dict[str, Any]:
    errors = problem_data(cell.problems)
    return {"version": cell.version, "state": cell.state, "reasons": list(cell.reasons), "errors": errors}

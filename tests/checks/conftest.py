"""A process that imports generated modules."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from patchgen_core.checks.imports.importing import Importer
from patchgen_core.checks.result import CheckResult
from tests.checks.imports_to_check import Import, artifact_of
from tests.conftest import Workspace


@pytest.fixture
def importer(gated: Workspace) -> Iterator[Importer]:
    with closing(Importer(gated.project, time_limit=60)) as importer:
        yield importer


@pytest.fixture
def import_(gated: Workspace, importer: Importer) -> Import:
    """Import what the config makes with code added to it, which is on no disk."""
    artifact = artifact_of(gated)

    def check(code: str = "") -> CheckResult:
        text = f"{artifact.text}\n{textwrap.dedent(code)}\n"
        return importer.check(replace(artifact, text=text), fresh=True)

    return check

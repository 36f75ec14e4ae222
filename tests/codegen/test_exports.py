"""What a generated module exports is compared with what upstream does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from patchgen_core.checks.imports.importing import Importer
from patchgen_core.checks.result import CheckResult
from tests.conftest import PATCH, UPSTREAM_TEXT, Workspace

NAME = "patched_modeling_toy_gpu.py"


@pytest.fixture
def importer(gated: Workspace) -> Iterator[Importer]:
    with closing(Importer(gated.project, time_limit=60)) as importer:
        yield importer


UNLISTED = f"upstream's __all__ has 'Head', but {NAME}'s does not"


@pytest.mark.parametrize(
    ("listing", "old", "new", "expected"),
    [
        ("", "def rotate", "def spin", f"upstream exports 'rotate', which {NAME} does not define"),
        ("", "class Head", "class _Head", f"upstream exports 'Head', which {NAME} does not define"),
        ("__all__ = ['Norm']", "def rotate", "def spin", None),
        ("__all__ = ['Norm']", "['Norm']", "['N']", f"__all__ of {NAME} names 'N', which it does not define"),
        ("__all__ = ('Norm',) + ('Head',)", "('Head',)", "()", UNLISTED),
        ("__all__ = ['Norm']; __all__ += ['Head']", "+= ['Head']", "+= []", UNLISTED),
        ("A = ['Norm']; B = ['Head']; __all__ = A + B", "B = ['Head']", "B = []", UNLISTED),
        ("A = ['Head']; __all__ = [*A, 'Norm']", "A = ['Head']", "A = []", UNLISTED),
        ("A = ['Norm', 'Head']; __all__ = A", "['Norm', 'Head']", "['Norm']", UNLISTED),
        ("__all__ = ['Norm']; __all__.append('Head')", "append('Head')", "copy()", UNLISTED),
        ("__all__ = ['Norm']; __all__.extend(['Head'])", "extend(['Head'])", "copy()", UNLISTED),
        ("if not Norm: more = Norm\nif not Norm:\n    def other(): ...", "", "", None),
        ("del rotate", "", "", None),
    ],
)
@pytest.mark.mostly_slow(2)
def test_exports_are_those_of_upstream(
    gated: Workspace, importer: Importer, listing: str, old: str, new: str, expected: str | None
) -> None:
    gated.upstream(f"{UPSTREAM_TEXT}\n{listing}\n")
    artifact = gated.outcome().artifact
    assert artifact is not None
    assert importer.check(artifact, fresh=True) == CheckResult()
    text = artifact.text.replace('"', "'")
    assert old in text
    verdict = importer.check(replace(artifact, text=text.replace(old, new)), fresh=True)
    messages = [problem.message for problem in verdict.errors]
    assert expected in messages if expected else messages == []


def test_what_is_excluded_on_purpose_is_not_missed(gated: Workspace, importer: Importer) -> None:
    gated.upstream(f"{UPSTREAM_TEXT}\nA = ['Norm', 'Head']\n__all__ = A + ['rotate']\n")
    gated.config(f"{PATCH}\nconfig.exclude_from_output('Head')\n")
    artifact = gated.outcome().artifact
    assert artifact is not None
    assert importer.check(artifact, fresh=True) == CheckResult()

from __future__ import annotations

import pytest

from tests.conftest import UPSTREAM_TEXT, Workspace
from tests.contract.support import found

PATCH = "config.patches.append(create_patch_from_external('Norm', '{}', '{}'))\n"


@pytest.mark.parametrize(
    ("module", "name", "is_there"),
    [
        ("proj.kernels", "Fused", True),
        ("proj.kernels", "Guarded", True),
        ("proj.kernels", "deep", True),
        ("proj.kernels", "Fast", False),
        ("proj.kernels.deep", "Fast", True),
        ("proj.kernels.lazy", "Anything", True),
        ("proj.kernels.star", "Anything", True),
        ("not_installed.kernels", "Anything", True),
    ],
)
def test_name_that_the_module_of_an_external_patch_has(
    work: Workspace, module: str, name: str, is_there: bool
) -> None:
    work.write("proj/kernels/__init__.py", "from .deep import Fast as Fused\nif Fused:\n    Guarded = 1\n")
    work.write("proj/kernels/deep.py", "class Fast: ...\n")
    work.write("proj/kernels/lazy.py", "def __getattr__(name):\n    return name\n")
    work.write("proj/kernels/star.py", "from math import *\n")
    work.upstream(UPSTREAM_TEXT)
    work.config(PATCH.format(module, name))
    said = [] if is_there else [f"PG224 '{module}' has no '{name}' to replace 'Norm' with"]
    assert found(work, "PG224") == said

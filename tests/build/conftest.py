"""Projects that several test files work on."""

from __future__ import annotations

import pytest

from patchgen_core.checks.checked_in import compare as drift
from patchgen_core.checks.checked_in.compare import fix
from tests.build.cached import BASE, FAMILY, HEIR, OTHER, checked, preamble
from tests.build.two_configs import OTHER_CONFIG
from tests.conftest import PATCH, UPSTREAM_TEXT, Workspace


@pytest.fixture
def family(work: Workspace) -> Workspace:
    """Three clean configs, of which the second takes a function of the first; their results are kept."""
    work.upstream(UPSTREAM_TEXT)
    work.config(PATCH, BASE)
    heir = f"""
from proj.models.toy.toy_gpu_patch_gen_config import norm_forward
{preamble("heir.py")}
config.override_method("Norm.forward", replacement=norm_forward)
"""
    work.config("", HEIR, preamble=heir)
    work.config(PATCH.replace("x * 2", "x * 3"), OTHER, preamble("other.py"))
    fix(checked(work).report)
    assert checked(work).reused == FAMILY
    return work


@pytest.fixture
def two(gated: Workspace) -> Workspace:
    """A project whose two configs are clean."""
    path = gated.config(PATCH, OTHER_CONFIG)
    path.write_text(path.read_text().replace("toy_gpu.py", "other.py"))
    drift.fix(gated.check())
    return gated

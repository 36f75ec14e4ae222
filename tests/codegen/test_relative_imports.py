"""Relative imports in a config's code: from the config's package or from the generated module's, whichever has it."""

from __future__ import annotations

import pytest

from tests.conftest import UPSTREAM_TEXT, Workspace

FOLDER = "proj/models/toy"
REPLACEMENT = """
@config.replace_function("rotate")
def turn(x):
    {} as used
    return used(x)
"""
HELPER = """
@config.add_helper
def turn(x):
    if x:
        {} as used
    return used(x)
"""
BLOCK = "config.add_post_import_block('''\n{} as used\nVALUE = used\n''')\n"


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)


@pytest.mark.parametrize("code", [REPLACEMENT, HELPER, BLOCK], ids=["replacement", "helper", "block"])
@pytest.mark.parametrize(
    ("statement", "file", "absolute"),
    [
        ("from .plan import made", f"{FOLDER}/plan.py", "from proj.models.toy.plan import made"),
        ("from ..plan import made", f"{FOLDER}/plan.py", "from proj.models.toy.plan import made"),
        ("from ..plan import made", "proj/models/plan.py", "from proj.models.plan import made"),
        ("from ...plan import made", "proj/models/plan.py", "from proj.models.plan import made"),
        ("from .plan import made", f"{FOLDER}/generated/plan.py", "from proj.models.toy.generated.plan import made"),
        ("from .plans.moe import made", f"{FOLDER}/plans/moe.py", "from proj.models.toy.plans.moe import made"),
        ("from . import plan", f"{FOLDER}/plan.py", "from proj.models.toy import plan"),
        ("from .. import plan", f"{FOLDER}/plan.py", "from proj.models.toy import plan"),
        ("from .. import made", f"{FOLDER}/__init__.py", "from proj.models.toy import made"),
        ("from .... import ops", "proj/ops.py", "from proj import ops"),
    ],
)
@pytest.mark.mostly_slow(12)
def test_import_becomes_the_module_that_exists(
    work: Workspace, code: str, statement: str, file: str, absolute: str
) -> None:
    work.write(file, "raise RuntimeError('it was imported')\nmade = 1\n")
    work.config(code.format(statement))
    assert f"{absolute} as used\n" in work.text()


@pytest.mark.parametrize("code", [REPLACEMENT, HELPER, BLOCK], ids=["replacement", "helper", "block"])
def test_import_of_a_module_that_both_have_is_an_error(work: Workspace, code: str) -> None:
    for file in ("proj/models/plan.py", f"{FOLDER}/plan.py"):
        work.write(file, "made = 1\n")
    path = work.config(code.format("from ..plan import made"))
    lines = path.read_text().splitlines()
    place = next(n for n, line in enumerate(lines, 1) if "..plan" in line or "post_import_block" in line)
    assert work.errors() == (
        f"toy/toy_gpu_patch_gen_config.py:{place}: relative import 'from ..plan import made' names 'proj.models.plan' "
        "from the config and 'proj.models.toy.plan' from the generated module\n"
        "  Both exist: write the one that you mean as an absolute import."
    )


@pytest.mark.parametrize("code", [REPLACEMENT, HELPER, BLOCK], ids=["replacement", "helper", "block"])
def test_import_of_a_module_that_neither_has_is_an_error(work: Workspace, code: str) -> None:
    work.write(f"{FOLDER}/parallel_plan.py", "made = 1\n")
    work.config(code.format("from ..paralel_plan import made"))
    error = work.errors()
    assert (
        "relative import 'from ..paralel_plan import made' names no module: there is no 'proj.models.paralel_plan' "
        "and no 'proj.models.toy.paralel_plan'" in error
    )
    assert error.endswith("Did you mean 'proj.models.toy.parallel_plan'?")


def test_import_whose_failure_is_handled_may_be_of_no_module(work: Workspace) -> None:
    work.config(
        """
        @config.replace_function("rotate")
        def turn(x):
            try:
                from .fast import used
            except ImportError:
                used = None
            return used
        """
    )
    assert "from proj.models.toy.fast import used\n" in work.text()


def test_import_out_of_the_package_is_an_error(work: Workspace) -> None:
    work.config(REPLACEMENT.format("from ......plan import made"))
    assert "leads out of package 'proj.models.toy.generated'" in work.errors()


def test_imports_of_another_configs_code_start_from_that_config(work: Workspace) -> None:
    work.write("proj/models/base/plan.py", "made = 1\n")
    preamble = "from patchgen import PatchConfig\nconfig = PatchConfig('acme.models.toy.modeling_toy', 'a.py')\n"
    work.config(
        REPLACEMENT.format("from .plan import made") + BLOCK.format("from .plan import made"),
        "base/base.py",
        preamble=preamble,
    )
    work.config(
        "from ..base.base import config as base\nconfig.patches.extend(base.patches)\n"
        "config.post_import_blocks.extend(block for block in base.post_import_blocks)\n"
    )
    assert work.text().count("from proj.models.base.plan import made as used\n") == 2


def test_a_module_that_comes_is_noticed(work: Workspace) -> None:
    """The answer of a check that is kept depends on the modules that were looked for."""
    work.write(f"{FOLDER}/plan.py", "made = 1\n")
    work.config(REPLACEMENT.format("from ..plan import made"))
    recorded = work.outcome().inputs
    assert recorded is not None
    assert recorded["module", "proj.models.toy.plan"] == f"{FOLDER}/plan.py"
    assert recorded["module", "proj.models.plan"] is None

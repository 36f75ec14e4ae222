"""Which op slots have a kernel (PG206)."""

from __future__ import annotations

import pytest

from patchgen_core.errors import PatchgenError
from tests.conftest import UPSTREAM_TEXT, Workspace
from tests.contract.support import examine, found

SPEC = 'KernelSpec(name="fused", op_name="rms_norm", variant="standard", factory=make)'
IMPORT = "config.add_import('proj.ops', names=['OpSlot', 'Slots', 'VARIANT', 'VARIANTS', 'names'])\n"
OWN = "config.add_import('patchgen_core.ops', names=['OpSlot'])\n"
MISSING = "slot 'norm' asks for the op 'rms_norm' in the variant 'full', for which no kernel is registered"


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)


def slots(work: Workspace, block: str, imports: str = IMPORT) -> list[str]:
    """The messages about the slots that a post-import block makes."""
    work.config(f"{imports}config.add_post_import_block({block!r})\n")
    return [message.partition(" ")[2] for message in found(work, "PG206")]


def register(work: Workspace, text: str, named: str = "proj.models.kernels") -> None:
    """Write the module that registers the kernels and name it in the settings."""
    work.write("proj/models/kernels.py", text)
    settings = work.root / "pyproject.toml"
    settings.write_text(f'{settings.read_text(encoding="utf-8")}kernels = ["{named}"]\n', encoding="utf-8")


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("norm = OpSlot('rms_norm', 'full')", id="position"),
        pytest.param("norm = OpSlot(variant='full', op_name='rms_norm')", id="keyword"),
        pytest.param("OP, HOW = 'rms_norm', 'full'\nnorm = OpSlot(OP, variant=HOW)", id="constants"),
        pytest.param("import proj.ops\nnorm = proj.ops.OpSlot('rms_norm', 'full')", id="attribute"),
        pytest.param("from proj.ops import OpSlot as Slot\nnorm = Slot('rms_norm', 'full')", id="alias"),
        pytest.param("norm = {v: OpSlot('rms_norm', v) for v in ('standard', 'full')}", id="comprehension"),
        pytest.param("norm: OpSlot = OpSlot('rms_norm', 'full')", id="annotated"),
    ],
)
def test_slot_without_kernel(work: Workspace, block: str) -> None:
    register(work, SPEC)
    assert slots(work, block) == [MISSING]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("norm = OpSlot('rms_norm', 'standard')", id="registered"),
        pytest.param("norm = OpSlot('rms_norm')", id="variant left out"),
        pytest.param("norm = OpSlot('rms_norm', VARIANTS['norm'])", id="unknown variant"),
        pytest.param("norm = OpSlot(*names)", id="unknown"),
        pytest.param("norm = Slots('rope', 'full')", id="another class"),
    ],
)
def test_slot_that_has_or_may_have_a_kernel(work: Workspace, block: str) -> None:
    register(work, SPEC)
    assert slots(work, block) == []


def test_slot_that_cannot_be_told_is_left_alone_where_nothing_is_registered(work: Workspace) -> None:
    assert slots(work, "norm = OpSlot(*names)") == []


def test_op_without_any_kernel_is_found_whatever_its_variant(work: Workspace) -> None:
    register(work, SPEC)
    assert slots(work, "rope = OpSlot('rope', VARIANT)") == [
        "slot 'rope' asks for the op 'rope', for which no kernel is registered"
    ]


def test_slot_of_a_helper_is_found_in_the_config(work: Workspace) -> None:
    register(work, SPEC)
    work.config(IMPORT + "@config.add_helper\ndef norm(x):\n    return OpSlot('rms_norm', 'full')(x)\n")
    (problem,) = examine(work, select=["PG206"]).errors
    assert str(problem.location).endswith("toy_gpu_patch_gen_config.py:8")
    work.config(
        f"{IMPORT}config.allow('PG206', 'soon', 'norm')\n"
        "@config.add_helper\ndef norm(x):\n    return OpSlot('rms_norm', 'full')(x)\n"
    )
    assert found(work, "PG206") == []


@pytest.mark.parametrize(
    ("kernels", "hint"),
    [
        ("KernelSpec('a', 'scan', 'standard')", "'scan' has kernels for: 'standard'."),
        ("KernelSpec('a', 'scan', 'fulll')", "Did you mean 'fulll'?"),
        (
            "KernelSpec('a', 'scans', 'full')",
            "Did you mean 'scans'? Register a kernel in proj.models.kernels, or name the module that does in "
            "[tool.patchgen] kernels.",
        ),
        ("", "Register a kernel in proj.models.kernels, or name the module that does in [tool.patchgen] kernels."),
    ],
)
def test_hint_names_what_there_is(work: Workspace, kernels: str, hint: str) -> None:
    register(work, kernels)
    slots(work, "norm = OpSlot('scan', 'full')")
    (problem,) = examine(work, select=["PG206"]).errors
    assert problem.hint == hint


def test_hint_where_no_module_is_named(work: Workspace) -> None:
    slots(work, "norm = OpSlot('scan', 'full')", OWN)
    (problem,) = examine(work, select=["PG206"]).errors
    assert problem.hint == "Register a kernel for it, and name the module that does in [tool.patchgen] kernels."


def test_kernels_of_this_package_count(work: Workspace) -> None:
    assert slots(work, "norm = OpSlot('rms_norm', 'one_plus_weight')", OWN) == []
    slots(work, "norm = OpSlot('rms_norm', 'full')", OWN)
    (problem,) = examine(work, select=["PG206"]).errors
    assert problem.hint == "'rms_norm' has kernels for: 'one_plus_weight', 'standard'."


def test_kernels_of_an_installed_package_count(work: Workspace) -> None:
    """An entry point names the module; reading it imports nothing."""
    info = work.site / "fast_kernels-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fast-kernels\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[patchgen.kernels]\nfast = fast_kernels:register\n")
    (work.site / "fast_kernels.py").write_text("raise ImportError('not here')\nKernelSpec('a', 'scan', 'full')\n")
    assert slots(work, "norm = OpSlot('scan', 'full')", OWN) == []


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param("KernelSpec('a', 'rms_norm', 'full', make)", id="position"),
        pytest.param("from proj.ops import KernelSpec as K\nK('a', op_name='rms_norm', variant='full')", id="alias"),
        pytest.param("NORM = 'rms_norm'\nKernelSpec('a', NORM, 'full')", id="constant"),
        pytest.param("for v in ('standard', 'full'):\n    KernelSpec('a', 'rms_norm', v)", id="loop"),
        pytest.param(
            "ALL = [('rope', 'half', f), ('rms_norm', 'full', g)]\nfor op, v, f in ALL:\n    KernelSpec('a', op, v)",
            id="table",
        ),
        pytest.param("for v in {'full': f, 'half': g}:\n    KernelSpec('a', 'rms_norm', v)", id="keys"),
        pytest.param(
            "for op, v in {'rms_norm': 'full'}.items():\n    KernelSpec('a', op_name=op, variant=v)", id="items"
        ),
        pytest.param(
            "for e in ({'op': 'rms_norm', 'how': 'full'},):\n    KernelSpec('a', e['op'], e['how'])", id="dicts"
        ),
        pytest.param(
            "def add(op, variant='full'):\n    KernelSpec('a', op, variant)\nadd('rope', 'half')\nadd('rms_norm')",
            id="helper",
        ),
        pytest.param(
            "class C:\n    def add(self, op, v):\n        KernelSpec('a', op, v)\nC().add('rms_norm', 'full')",
            id="method",
        ),
        pytest.param(
            "def kernel(op, variant):\n    def wrap(f):\n        KernelSpec('a', op, variant, f)\n        return f\n"
            "    return wrap\n@kernel('rms_norm', variant='full')\ndef norm(): ...",
            id="decorator",
        ),
        pytest.param(
            "def add(op, variant):\n    KernelSpec('a', op, variant)\nfor v in ['full']:\n    add('rms_norm', v)",
            id="helper in a loop",
        ),
        pytest.param("class Npu(KernelSpec): ...\nNpu('a', 'rms_norm', 'full')", id="subclass"),
    ],
)
@pytest.mark.mostly_slow(6)
def test_kernels_are_found_however_they_are_registered(work: Workspace, kernels: str) -> None:
    register(work, kernels)
    assert slots(work, "norm = OpSlot('rms_norm', 'full')") == []
    assert slots(work, "norm = OpSlot('rms_norm', 'third')") != []


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param("KernelSpec('a', 'rms_norm', choose())", id="unknown variant"),
        pytest.param("KernelSpec('a', **fields)", id="unknown"),
        pytest.param("def add(op):\n    KernelSpec('a', op, 'full')", id="helper for others"),
        pytest.param(
            "def add(op, how='half'):\n    KernelSpec('a', op, how)\nadd('rms_norm', **more)", id="helper with stars"
        ),
        pytest.param("make = partial(KernelSpec, 'a')\nmake('rms_norm', 'full')", id="partial"),
        pytest.param("first = KernelSpec('a', 'rms_norm', 'half')\nreplace(first, variant='full')", id="replaced"),
    ],
)
def test_kernels_that_cannot_be_told_may_be_the_one(work: Workspace, kernels: str) -> None:
    register(work, kernels)
    assert slots(work, "norm = OpSlot('rms_norm', 'full')") == []


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param("for v in ('standard', 'half'):\n    KernelSpec('a', 'rms_norm', v)", id="loop"),
        pytest.param(
            "for op, v in [('rope', 'full'), ('rms_norm', 'half')]:\n    KernelSpec('a', op, v)", id="kept apart"
        ),
        pytest.param(
            "for v in ['full']:\n    KernelSpec('a', 'rope', v)\n"
            "for v in ['half']:\n    KernelSpec('a', 'rms_norm', v)",
            id="two loops of one name",
        ),
        pytest.param(
            "def add(op, how):\n    KernelSpec('a', op, how)\nadd('rope', 'full')\nadd('rms_norm', 'half')",
            id="helper",
        ),
        pytest.param("# KernelSpec('a', 'rms_norm', 'full')\n'''KernelSpec('a', 'rms_norm', 'full')'''", id="no code"),
    ],
)
def test_kernels_that_are_not_registered_are_not_made_up(work: Workspace, kernels: str) -> None:
    register(work, kernels)
    assert slots(work, "norm = OpSlot('rms_norm', 'full')") == [MISSING]


def test_package_of_kernels_is_read_whole(work: Workspace) -> None:
    register(work, "", named="proj.models.ops")
    work.write("proj/models/ops/__init__.py", "from .make import add\n")
    work.write("proj/models/ops/make.py", "def add(op, how):\n    KernelSpec('a', op, how)\n")
    work.write("proj/models/ops/norm/fused.py", "from ..make import add\nadd('rms_norm', 'full')\n")
    assert slots(work, "norm = OpSlot('rms_norm', 'full')") == []
    assert slots(work, "norm = OpSlot('rms_norm', 'half')") != []


def test_unknown_module_of_kernels_is_an_error_at_the_setting(work: Workspace) -> None:
    register(work, SPEC, named="proj.models.kernel")
    with pytest.raises(PatchgenError) as error:
        slots(work, "norm = OpSlot('rms_norm', 'full')")
    assert "kernels: there is no module 'proj.models.kernel'" in str(error.value)
    assert "pyproject.toml:5" in str(error.value)
    assert "Did you mean 'proj.models.kernels'?" in str(error.value)


OPS = """
class OpSlot:
    def __init__(self, op, how):
        self.op, self.how = op, how
"""
TABLE = "from proj.table import KernelSpec\nKernelSpec('a', 'scan', 'full')\n"
FOREIGN = "config.add_import('proj.models.ops', names=['OpSlot'])\n"
SLOT = "norm = OpSlot('scan', 'full')"


def notes(work: Workspace, imports: str) -> tuple[str, ...]:
    work.config(f"{imports}config.add_post_import_block({SLOT!r})\n")
    result = examine(work, select=["PG206"])
    assert not [*result.errors, *result.warnings]
    return result.notes


def test_slot_of_another_package_is_followed_to_the_kernels_of_that_package(work: Workspace) -> None:
    work.write("proj/__init__.py", "")
    work.write("proj/models/__init__.py", "")
    work.write("proj/models/ops.py", OPS)
    work.write("proj/kernels/scan.py", TABLE)
    assert slots(work, SLOT, FOREIGN) == []
    assert notes(work, FOREIGN) == ()
    (message,) = slots(work, "norm = OpSlot('rms_norm', 'standard')", FOREIGN)
    assert (
        message
        == "slot 'norm' asks for the op 'rms_norm' in the variant 'standard', for which no kernel is registered"
    )


@pytest.mark.parametrize("text", [pytest.param(OPS, id="no registry"), pytest.param("", id="no class")])
def test_slots_of_a_package_without_kernels_are_left_out_with_one_note(work: Workspace, text: str) -> None:
    work.write("proj/models/ops.py", text)
    imports = FOREIGN + "config.add_post_import_block(\"other = OpSlot('rope', 'half')\")\n"
    assert notes(work, imports) == (
        "PG206 slots of 'proj.models.ops.OpSlot' are not checked: no module that registers their kernels was found. "
        "Name those modules in [tool.patchgen] kernels.",
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from patchgen_core.ops import OpSlot\n", id="handed on"),
        pytest.param("from patchgen_core.ops import OpSlot as S\n\nclass OpSlot(S):\n    pass\n", id="subclass"),
    ],
)
def test_slot_of_this_package_is_judged_wherever_it_comes_from(work: Workspace, text: str) -> None:
    work.write("proj/models/ops.py", text)
    assert slots(work, "norm = OpSlot('rms_norm', 'standard')", FOREIGN) == []
    assert slots(work, "norm = OpSlot('rms_norm', 'full')", FOREIGN) == [MISSING]


def test_kernels_of_the_settings_count_for_every_slot(work: Workspace) -> None:
    work.write("proj/models/ops.py", OPS)
    register(work, SPEC)
    assert slots(work, "norm = OpSlot('rms_norm', 'standard')", FOREIGN) == []
    assert slots(work, "norm = OpSlot('rms_norm', 'full')", FOREIGN) == [MISSING]

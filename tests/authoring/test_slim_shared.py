"""Replacements that several configs share become edits that they share."""

from __future__ import annotations

from patchgen_core.authoring.slim.slim import Slimmed, slim
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.definitions import compare_code, read_definitions
from tests.authoring.slimmed import BODY, HEAD, UPSTREAM_TEXT, config_text
from tests.conftest import CONFIG, UPSTREAM, Workspace, generated

OTHER = "acme.models.other.modeling_other"
NPU, SHARED = "toy/toy_npu_patch_gen_config.py", "toy/replacements.py"
REPLACEMENT = (
    f"def fast(self, x, mask=None, **kwargs):\n    assert x\n{BODY.replace('return x', 'return ToyOutput(x)')}"
)
IMPORTS = "from patchgen import PatchConfig\nfrom proj.models.toy.{} import fast\n\n"


def _share(work: Workspace, upstream: str = UPSTREAM_TEXT, home: str = SHARED) -> list[Slimmed]:
    """What becomes of a replacement that two configs have; that the code of both stays the same is looked at here."""
    work.upstream(f"{UPSTREAM_TEXT}\n\nclass ToyOutput: ...\n")
    work.upstream(f"{upstream}\n\nclass OtherOutput: ...\n".replace("Layer", "Tier"), OTHER)
    module = home.partition("/")[2].removesuffix(".py")
    imports = IMPORTS.format(module)
    if home == CONFIG:
        work.config(f"{HEAD}{REPLACEMENT}")
    else:
        work.write(f"proj/models/{home}", f'"""Shared."""\n\n\n# Why it is so\n{REPLACEMENT}')
        use = f'{imports}config = PatchConfig("{UPSTREAM}", "patched_modeling_toy_gpu.py")\n'
        work.config(f'{use}config.override_method("Layer.forward", fast, description="Faster")\n', preamble="")
    use = f'{imports}config = PatchConfig("{OTHER}", "patched_modeling_toy_npu.py")\n'
    call = (
        'config.override_method("Tier.forward", replacement=fast, name_map={"Toy": "Other"}, description="Faster")\n'
    )
    work.config(use + call, NPU, preamble="")
    assert work.patchgen("--all", "--diff").returncode == 0
    files = sorted(work.models.glob("toy/generated/*.py"))
    before = [read_definitions(file.read_text()) for file in files]
    results = slim(Selection(work.project))
    assert not any(compare_code(old, read_definitions(f.read_text())) for old, f in zip(before, files, strict=True))
    assert work.check().exit_code == 0
    return results


EXPECTED = '''"""Shared."""

from typing import TYPE_CHECKING

from patchgen import Edits

if TYPE_CHECKING:
    from acme.models.toy.modeling_toy import ToyOutput


# Why it is so
fast = Edits()


@fast.edit
def fast_1(x):
    assert x
    ...


@fast.edit(at="return x")
def call_ToyOutput(x):
    return ToyOutput(x)
'''


def test_a_replacement_that_configs_share_becomes_edits_that_they_share(work: Workspace) -> None:
    results = _share(work)
    assert [(patch.targets, patch.after) for result in results for patch in result.patches] == [
        (("Layer.forward", "Tier.forward"), 8)
    ]
    assert (work.models / SHARED).read_text() == EXPECTED
    assert 'config.edit_method("Layer.forward", fast, description="Faster")\n' in config_text(work)
    use = (work.models / NPU).read_text()
    assert 'config.edit_method("Tier.forward", edit=fast, name_map={"Toy": "Other"}, description="Faster")\n' in use
    text = (work.models / "toy/generated/patched_modeling_toy_npu.py").read_text()
    assert "    # Why it is so\n    def forward(" in text
    assert "return OtherOutput(x)\n" in text


def test_one_that_a_config_declares_and_another_imports_does_as_well(work: Workspace) -> None:
    _share(work, home=CONFIG)
    assert config_text(work).endswith('config.edit_method("Layer.forward", edit=fast, description="Faster")\n')
    assert "fast = Edits()\n" in config_text(work)


def test_it_stays_where_upstreams_texts_of_its_targets_differ(work: Workspace) -> None:
    results = _share(work, UPSTREAM_TEXT.replace("x = residual + x", "x = x + residual"))
    assert [patch for result in results for patch in result.patches] == []
    [reason] = [reason for result in results for reason in result.left]
    assert reason.startswith(
        "Layer.forward: the code of proj.models.toy.toy_npu_patch_gen_config would not be the same"
    )


def test_it_stays_where_something_else_is_done_with_it(work: Workspace) -> None:
    work.upstream(f"{UPSTREAM_TEXT}\n\nclass ToyOutput: ...\n")
    work.config(f"{HEAD}{REPLACEMENT}\n\nALL = [fast]\n")
    [result] = slim(Selection(work.project))
    assert result.patches == ()
    assert "its replacement is used in another way at" in result.left[0]
    assert result.left[0].endswith("toy/toy_gpu_patch_gen_config.py:28")


def test_hand_edits_are_no_victims(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(f"{HEAD}def fast(self, x, mask=None, **kwargs):\n{BODY.replace('return x', 'return +x')}")
    assert work.patchgen("--all", "--diff").returncode == 0
    generated(work).write_text(generated(work).read_text().replace("return +x", "return -x"))
    done = work.patchgen("slim")
    assert done.returncode == 2
    assert "this generated file was edited by hand" in done.stderr

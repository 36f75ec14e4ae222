"""A forked modeling file becomes a config whose generated module is the same code as the fork."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchgen_core.authoring.fork.adopt_fork import AdoptedFork, adopt_fork
from patchgen_core.cli.main import main
from patchgen_core.errors import PatchgenError
from patchgen_core.upstream.module import find_upstream, installed_version
from tests.authoring.forked import FORWARD, GUARD, QWEN3, link_releases, write_fork
from tests.conftest import UPSTREAM, Workspace
from tools.releases import find_release

pytestmark = pytest.mark.torch

VERSION = installed_version("transformers")
NORM = '@use_kernel_forward_from_hub("RMSNorm")\n'
REPR = """
    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.variance_epsilon}"
"""
MLP = "class Qwen3MLP(nn.Module):"


def adopted(work: Workspace, fork: Path) -> AdoptedFork:
    """A fork of the installed Qwen3 as a config, which has to make the same code."""
    result = adopt_fork(work.project, fork, module=QWEN3, release=VERSION)
    assert result.left == ()
    return result


def config_of(result: AdoptedFork) -> str:
    """The declarations of a config."""
    return result.path.read_text(encoding="utf-8").partition('has it",\n)\n')[2].strip()


def generated_of(result: AdoptedFork) -> str:
    """The module that was generated."""
    [path] = [path for path in result.written if path.parent.name == "generated" and path.suffix == ".py"]
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            [(FORWARD, GUARD + FORWARD)],
            '@config.edit_method("Qwen3MLP.forward")\ndef qwen3_mlp_forward(x):\n'
            "    # empty batches come at the end of an epoch\n    if x.numel() == 0:\n        return x\n    ...",
            id="lines-with-their-comment",
        ),
        pytest.param(
            [
                ("class Qwen3Model(Qwen3PreTrainedModel):", "class Qwen3Model(Sharded, Qwen3PreTrainedModel):"),
                ("import torch\n", "import torch\nfrom acme.sharding import Sharded\n"),
            ],
            'config.add_import("acme.sharding", names=["Sharded"])\n\n\n'
            '@config.edit_class("Qwen3Model")\nclass EditedQwen3Model(Sharded): ...',
            id="base",
        ),
        pytest.param(
            [("class Qwen3DecoderLayer(GradientCheckpointingLayer):", "class Qwen3DecoderLayer(nn.Module):")],
            'config.replace_code("Qwen3DecoderLayer", "GradientCheckpointingLayer", "nn.Module")',
            id="other-base",
        ),
        pytest.param(
            [
                (
                    "class Qwen3ForCausalLM(Qwen3PreTrainedModel, GenerationMixin):",
                    "class Qwen3ForCausalLM(Qwen3PreTrainedModel):",
                )
            ],
            'config.delete_code("Qwen3ForCausalLM", "GenerationMixin")',
            id="base-less",
        ),
        pytest.param(
            [('    base_model_prefix = "model"\n', '    base_model_prefix = "model"\n    is_sharded = True\n')],
            '@config.edit_class("Qwen3PreTrainedModel")\nclass EditedQwen3PreTrainedModel:\n'
            "    is_sharded = True\n    ...",
            id="attribute",
        ),
        pytest.param(
            [
                ("import torch\n", "import torch\nfrom dataclasses import dataclass\n"),
                (
                    '    base_model_prefix = "model"\n',
                    '    base_model_prefix = "model"\n\n    @dataclass\n    class Splits:\n'
                    "        tensors: bool = True\n\n",
                ),
            ],
            '@config.edit_class("Qwen3PreTrainedModel")\nclass EditedQwen3PreTrainedModel:\n'
            "    @dataclass\n    class Splits:\n        tensors: bool = True\n\n    ...",
            id="class-in-a-class",
        ),
        pytest.param(
            [(NORM, "")], 'config.drop_decorators("Qwen3RMSNorm", "use_kernel_forward_from_hub")', id="decorator"
        ),
        pytest.param([(REPR, "")], 'config.exclude_from_output("Qwen3RMSNorm.extra_repr")', id="method-less"),
        pytest.param(
            [(MLP, f"class Gate(nn.Module):\n    pass\n\n\n{MLP}")],
            "@config.add_helper\nclass Gate(nn.Module):\n    pass",
            id="class",
        ),
        pytest.param(
            [
                (
                    "\n\n@auto_docstring\nclass Qwen3Model(",
                    "\n\nclass WideMLP(Qwen3MLP):\n    width = 2\n\n\n@auto_docstring\nclass Qwen3Model(",
                )
            ],
            '@config.add_helper_after("Qwen3MLP")\nclass WideMLP(Qwen3MLP):\n    width = 2',
            id="class-that-needs-another",
        ),
        pytest.param(
            [("__all__ = [", "ModelClass = Qwen3ForCausalLM\n__all__ = [")],
            'config.add_block_after(\n    "Qwen3ForCausalLM",\n    """\nModelClass = Qwen3ForCausalLM\n""",\n)',
            id="statement-that-needs-a-class",
        ),
        pytest.param(
            [
                (MLP, f"if torch.cuda.is_available():\n    Qwen3RMSNorm = torch.nn.RMSNorm\n\n\n{MLP}"),
            ],
            'config.add_block_after(\n    "Qwen3RMSNorm",',
            id="statement-that-stays-where-it-is",
        ),
        pytest.param(
            [("from ...activations import ACT2FN", "from acme.activations import ACT2FN")],
            'config.drop_import_names("ACT2FN")\n\n\nconfig.add_import("acme.activations", names=["ACT2FN"])',
            id="other-import",
        ),
    ],
)
@pytest.mark.mostly_slow(2)
def test_a_difference_becomes_the_smallest_patch(
    work: Workspace, changes: list[tuple[str, str]], expected: str
) -> None:
    result = adopted(work, write_fork(work, *changes))
    assert expected in config_of(result)
    assert len(config_of(result)) < len(expected) + 200


def test_classes_with_another_prefix_are_upstreams(work: Workspace) -> None:
    changes = [("Qwen3", "Acme"), ("AcmeConfig", "AcmeConfiguration"), (FORWARD, GUARD + FORWARD)]
    result = adopted(work, write_fork(work, *changes[:1], *changes[2:]))
    assert result.renamed["AcmeForCausalLM"] == "Qwen3ForCausalLM"
    assert config_of(result).count("@config.") == 1
    assert "class Qwen3ForCausalLM(" in generated_of(result)
    assert "Acme" not in generated_of(result).replace("AcmeConfig", "")


def test_what_a_fork_imports_of_its_own_module_is_upstreams(work: Workspace) -> None:
    text = find_upstream(QWEN3).path.read_text(encoding="utf-8")
    start, end = text.index(NORM), text.index(MLP)
    imported = f"from {QWEN3} import Qwen3RMSNorm\n"
    result = adopted(work, write_fork(work, (text[start:end], ""), ("import torch\n", f"import torch\n{imported}")))
    assert config_of(result) == ""


def test_docstrings_annotations_and_layout_are_no_difference(work: Workspace) -> None:
    changes = [
        ("hidden_states: torch.Tensor", "hidden_states"),
        ("        super().__init__()\n", "        super(  ).__init__( )\n"),
    ]
    assert config_of(adopted(work, write_fork(work, *changes))) == ""


def test_what_no_patch_can_say_is_left_and_named(
    work: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os\n\n\nclass Norm:\n    def forward(self, x):\n        return x\n\n\nos.putenv('A', 'B')\n"
    work.upstream(text)
    changed = text.replace("os.putenv('A', 'B')\n", "").replace("return x", "return x + 1")
    fork = work.write("forks/modeling_toy.py", changed)
    monkeypatch.chdir(work.root)
    options = ["adopt", "--fork", str(fork), "--of", UPSTREAM, "--release", VERSION]
    assert main([*options, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["changes"] == ["Norm.forward: overridden"]
    assert [entry["message"] for entry in data["left"]] == [
        "not taken over: 'os.putenv('A', 'B')' is upstream's, and the fork lacks it"
    ]
    assert main([*options, "--force"]) == 1
    assert "the generated module differs from the fork in 1 place." in capsys.readouterr().out
    assert fork.read_text() == changed


# --- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("def f(:\n", [], "modeling_qwen3.py:1: error: not valid Python"),
        ("x = 1\n", [], "this is not a fork of a modeling file: it defines no class"),
        (
            "class Order:\n    total = 1\n",
            ["--release", VERSION],
            "this is not a fork of a modeling file of transformers",
        ),
        (None, ["--of", "transformers.models.qwen3.modeling_qwen33", "--release", VERSION], "Did you mean"),
        (None, ["--release", "4.0.1", "--offline"], "transformers 4.0.1 is neither installed nor in the cache"),
        (None, ["--release", "five"], "'five' is not a version"),
        (None, ["--release", VERSION, "--to", "4.0.1", "--offline"], "neither installed nor in the cache"),
        (None, ["-o", "other.py"], "'other.py' is not a config's file name"),
        (None, ["qwen3"], "--fork takes no model"),
    ],
)
@pytest.mark.mostly_slow(5)
def test_bad_input_is_one_error_and_writes_nothing(
    work: Workspace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    options: list[str],
    message: str,
) -> None:
    fork = write_fork(work)
    if text is not None:
        fork.write_text(text)
    monkeypatch.chdir(work.root)
    try:
        code = main(["adopt", "--fork", "forks/modeling_qwen3.py", *options])
    except SystemExit as stop:  # argparse
        code = int(stop.code or 0)
    error = capsys.readouterr().err
    assert code == 2
    assert message in error
    assert error.count("error:") == 1
    assert not list(work.models.rglob("*.py"))


def test_a_config_that_is_there_stays(work: Workspace) -> None:
    fork = write_fork(work)
    path = adopted(work, fork).path
    path.write_text("mine = 1\n")
    with pytest.raises(PatchgenError, match="there is already a config"):
        adopted(work, fork)
    assert path.read_text() == "mine = 1\n"


# --- releases --------------------------------------------------------------------------------------


@pytest.fixture
def releases(work: Workspace) -> None:
    """The releases that the tests keep, in the project's cache."""
    for version in ("5.9.0", "5.16.1"):
        find_release(version)
    link_releases(work.root / ".patchgen_cache")


@pytest.mark.usefixtures("releases")
@pytest.mark.slow
def test_module_and_release_are_found_by_what_they_have_in_common(work: Workspace) -> None:
    source = find_release("5.9.0").folder.joinpath(*QWEN3.split(".")).with_suffix(".py")
    fork = work.write("forks/modeling_acme.py", "")
    text = source.read_text(encoding="utf-8").replace("Qwen3", "Acme")
    fork.write_text(text.replace(FORWARD, GUARD + FORWARD), encoding="utf-8")
    result = adopt_fork(work.project, fork, offline=True)
    assert (result.origin.module, result.left) == (QWEN3, ())
    found = find_release(result.origin.release.version).folder.joinpath(*QWEN3.split(".")).with_suffix(".py")
    assert found.read_text(encoding="utf-8") == source.read_text(encoding="utf-8")
    assert result.origin.share > 0.95
    assert len(result.origin.looked_at) > 1


@pytest.mark.usefixtures("releases")
def test_a_fork_is_carried_to_a_newer_release(
    work: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = find_release("5.16.1").folder.joinpath(*QWEN3.split(".")).with_suffix(".py")
    fork = work.write("forks/modeling_qwen3.py", "")
    fork.write_text(source.read_text(encoding="utf-8").replace(FORWARD, GUARD + FORWARD), encoding="utf-8")
    monkeypatch.chdir(work.root)
    options = ["adopt", "--fork", str(fork), "--of", QWEN3, "--release", "5.16.1", "--to", VERSION, "--offline"]
    assert main(options) == 0, capsys.readouterr().out
    generated = (work.models / "qwen3/generated/patched_modeling_qwen3_gpu.py").read_text(encoding="utf-8")
    assert f"Based on: transformers=={VERSION}" in generated
    assert "if x.numel() == 0:" in generated
    assert main(["--check"]) == 0

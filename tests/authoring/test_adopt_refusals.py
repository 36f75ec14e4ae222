"""`patchgen adopt` on what it cannot do, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.authoring.adopt import adopt
from patchgen_core.cli.commands.adopt import adopted_data, build_parser, parse_arguments, print_adopted
from patchgen_core.errors import PatchgenError
from tests.authoring.monkey_patches import adopted, write
from tests.conftest import UPSTREAM, Workspace


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patcher": "patches:pach"}, "'patches' has no 'pach'\n  Did you mean 'patch'?"),
        ({"patcher": "pitches:patch"}, "the patcher's module, 'pitches', cannot be imported: ModuleNotFoundError"),
        ({"arguments": {"off": 1}}, "cannot be called: got an unexpected keyword argument 'off'\n"),
        ({"arguments": {"on": object()}}, "the patcher's arguments cannot be passed on"),
        (
            {"model": "acme.models.toy.modeling_tyo"},
            "'acme.models.toy.modeling_tyo'\n  Did you mean 'acme.models.toy.modeling_toy'?",
        ),
        ({"output": Path("toy.py")}, "'toy.py' is not a config's file name\n  It must end in '_patch_gen_config.py'."),
    ],
)
@pytest.mark.mostly_slow(1)
def test_wrong_usage(site: Workspace, options: dict[str, Any], message: str) -> None:
    write(site, "patches.py", "def patch(on=True): ...\n")
    with pytest.raises(PatchgenError) as caught:
        adopt(site.project, **{"model": UPSTREAM, "patcher": "patches:patch", **options})
    assert message in str(caught.value)
    assert not list(site.models.iterdir())


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            "raise ValueError('no kernel')",
            "the patcher patches:patch failed on 'acme.models.toy.modeling_toy': ValueError",
        ),
        ("pass", "patches:patch changes nothing in 'acme.models.toy.modeling_toy' that a config could declare"),
        ("toy.Head.factor = 2", "Head.factor = 2: only methods can be patched"),
        ("import os; os._exit(3)", "running the patcher returned nothing: its process has ended with exit code 3"),
        ("import json; json.dumps = None; toy.Head.factor = 2", "json.dumps = None: is not of modeling_toy"),
    ],
)
@pytest.mark.mostly_slow(1)
def test_nothing_is_written_when_nothing_can_be(site: Workspace, patch: str, message: str) -> None:
    with pytest.raises(PatchgenError) as caught:
        adopted(site, patch)
    assert message in str(caught.value)
    assert not list(site.models.iterdir())


@pytest.mark.slow
def test_a_config_that_is_there_stays(site: Workspace) -> None:
    path = adopted(site, "toy.rotate = kernels.fast_rotate").path
    path.write_text("mine")
    with pytest.raises(PatchgenError, match=r"there is already a config\n  Name another file, or pass --force"):
        adopted(site, "toy.rotate = kernels.fast_rotate")
    assert path.read_text() == "mine"
    other = site.models / "other_npu_patch_gen_config.py"
    result = adopted(site, "toy.rotate = kernels.fast_rotate", output=other)
    assert result.path == other
    assert 'target_file="patched_modeling_other_npu.py"' in result.text
    assert adopted(site, "toy.rotate = kernels.fast_rotate", force=True).path == path
    assert path.read_text() != "mine"


@pytest.mark.torch
@pytest.mark.slow
def test_a_project_module_may_register_the_patcher(site: Workspace) -> None:
    site.write(
        "proj/patchers.py",
        """
        import kernels
        from acme.models.toy import modeling_toy
        from patchgen_core.monkey_patch import MONKEY_PATCHER


        @MONKEY_PATCHER.register("toy", "mine")
        def patch(rope=True):
            modeling_toy.rotate = kernels.fast_rotate
        """,
    )
    with pytest.raises(PatchgenError, match="there is no 'mine' patch for the model type 'toy'"):
        adopt(site.project, UPSTREAM, "mine")
    result = adopt(site.project, UPSTREAM, "mine", imports=["proj.patchers"])
    assert (result.changes, result.patcher) == (("rotate = kernels.fast_rotate",), "proj.patchers:patch")
    assert f"patchgen adopt {UPSTREAM} --from mine --import proj.patchers" in result.text.replace("\n", " ")


def test_arguments_of_the_command_line() -> None:
    options = build_parser("patchgen adopt").parse_args(["llama", "--kwargs", "rope=false", "--from", "x:y"])
    assert (options.adopted_model, options.patcher, options.kwargs) == ("llama", "x:y", ["rope=false"])
    words = ["rope=false", "eps=1e-5", "mode=llama", "layers=[1, 2]", "model=None"]
    given = {"rope": False, "eps": 1e-5, "mode": "llama", "layers": [1, 2], "model": None}
    assert parse_arguments(words) == given
    for word in ("rope", "=1", "a.b=1"):
        with pytest.raises(PatchgenError, match=r"does not have the form name=value"):
            parse_arguments([word])
    with pytest.raises(PatchgenError, match=r"'rope' is given twice"):
        parse_arguments(["rope=1", "rope=2"])


def test_what_is_printed(site: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    result = adopted(site, "toy.rotate = kernels.fast_rotate; toy.Head.factor = 2; toy.Gone = kernels.FastNorm")
    print_adopted(Console(no_color=True, highlight=False, markup=False), result, "patchgen toy")
    printed = capsys.readouterr().out
    assert printed.endswith(
        "         rotate = kernels.fast_rotate\n"
        "         Gone: the patcher sets it, but modeling_toy has no such name, so it has no effect\n"
        "warning: Head.factor = 2: only methods can be patched\n"
        "  Set it in modify_init, or replace the class.\n"
        "1 patch of patches:patch; 1 of its changes is missing.\n"
        "Run 'patchgen toy' to generate it.\n"
    )
    data = json.loads(json.dumps(adopted_data(result)))
    assert (data["exit_code"], data["changes"]) == (1, ["rotate = kernels.fast_rotate"])
    assert data["findings"][0]["message"] == "Head.factor = 2: only methods can be patched"

"""PG202: what is said of a call that does not fit, and what a config makes of it."""

from __future__ import annotations

import pytest

from tests.conftest import PREAMBLE, UPSTREAM, Workspace
from tests.contract.support import examine, find_misfits


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("g(1, 2, 3)", "passes 3 arguments by position where 2 fit: it takes (a, b=..., *, c)"),
        ("g(1, 2, d=3, c=1)", "passes 'd', which is not a parameter: it takes (a, b=..., *, c)"),
        ("g(1, a=2, c=3)", "passes 'a' twice, by position and by keyword: it takes (a, b=..., *, c)"),
        ("g(c=1)", "does not pass 'a': it takes (a, b=..., *, c)"),
        ("g(1)", "does not pass 'c': it takes (a, b=..., *, c)"),
        ("g(1, *x)", "does not pass 'c': it takes (a, b=..., *, c)"),
        ("g(*x, d=1, **y)", "passes 'd', which is not a parameter: it takes (a, b=..., *, c)"),
    ],
)
def test_says_what_does_not_fit(work: Workspace, call: str, message: str) -> None:
    text = f"\ndef g(a, b=0, *, c):\n    return a\n\ndef f(x, y):\n    return {call}\n"
    assert find_misfits(work, text) == [f"'f' calls 'g' and {message}"]


@pytest.mark.parametrize(
    "call", ["g(1, c=2)", "g(1, 2, c=3)", "g(*x, c=1)", "g(1, **y)", "g(*x, **y)", "g(b=1, a=2, c=3)"]
)
def test_calls_that_fit_or_may_fit_pass(work: Workspace, call: str) -> None:
    text = f"\ndef g(a, b=0, *, c):\n    return a\n\ndef f(x, y):\n    return {call}\n"
    assert find_misfits(work, text) == []


@pytest.mark.parametrize(
    ("decorator", "keyword"),
    [
        *((name, "output_attentions") for name in ("can_return_tuple", "capture_outputs", "check_model_inputs")),
        ("merge_with_config_defaults", "use_cache"),
        ("accepts_precomputed_kwargs('image')", "max_length_q"),
        ("filter_out_non_signature_kwargs()", "anything"),
    ],
)
def test_decorators_of_transformers_take_keywords(work: Workspace, decorator: str, keyword: str) -> None:
    text = f"""
        class A:
            @{decorator}
            def g(self, x):
                return x

            def f(self, x):
                return self.g(x, {keyword}=True), self.g()
        """
    assert find_misfits(work, text) == ["'A.f' calls 'A.g' and does not pass 'x': it takes (x)"]


def test_calls_at_the_top_level_are_the_modules(work: Workspace) -> None:
    found = find_misfits(work, "\ndef g(x):\n    return x\n\ny = g(1, 2)\n")
    assert found == ["the module calls 'g' and passes 2 arguments by position where 1 fit: it takes (x)"]


def test_decorators_of_transformers_do_not_hide_a_wrong_call(work: Workspace) -> None:
    text = """
class A:
    @can_return_tuple
    @auto_docstring
    def g(self, x):
        return x

    @accepts_precomputed_kwargs(modality="image")
    def h(self, x):
        return x

    def f(self, x):
        return self.g(x, mask=1), self.h(x, 1)
"""
    assert find_misfits(work, text) == [
        "'A.f' calls 'A.g' and passes 'mask', which is not a parameter: it takes (x)",
        "'A.f' calls 'A.h' and passes 2 arguments by position where 1 fit: it takes (x)",
    ]


# --- what a config makes of it ---------------------------------------------------------------------------

LAYER = """
class Attention:
    def forward(self, x, scale=1):
        return x * scale


class Layer:
    def __init__(self, config):
        self.attention = Attention()

    def forward(self, x):
        return self.attention(x, scale=2)
"""


def test_callee_that_loses_a_parameter_is_found_at_upstreams_call(work: Workspace) -> None:
    work.upstream(LAYER)
    path = work.config('@config.override_method("Attention.forward")\ndef forward(self, x):\n    return x\n')
    verdict = examine(work, select=["PG202"])
    assert [p.message for p in verdict.errors] == [
        "'Layer.forward' calls 'Attention.forward' and passes 'scale', which is not a parameter: it takes (x)"
    ]
    location, generated = verdict.errors[0].location, verdict.errors[0].generated
    assert location is not None
    assert (location.file, location.line) == (str(path), PREAMBLE.count("\n") + 1)
    assert generated is not None
    assert "return self.attention(x, scale=2)" in generated.text
    assert verdict.warnings == ()


def test_one_of_several_classes_that_stops_fitting_is_found(work: Workspace) -> None:
    upstream = LAYER.replace("Attention()\n", "Attention() if config else Linear()\n") + (
        "\n\nclass Linear:\n    def forward(self, x, scale=1):\n        return x\n"
    )
    assert find_misfits(
        work, upstream, '@config.override_method("Linear.forward")\ndef forward(self, x):\n    return x\n'
    ) == ["'Layer.forward' calls 'Linear.forward' and passes 'scale', which is not a parameter: it takes (x)"]


def test_replaced_class_is_built_as_before(work: Workspace) -> None:
    upstream = LAYER.replace("Attention()\n", "Attention(config, 3)\n").replace(
        "class Attention:\n", "class Attention:\n    def __init__(self, config, n):\n        pass\n\n"
    )
    config = """
@config.replace_class("Attention")
class FusedAttention:
    def __init__(self, config):
        self.config = config

    def forward(self, x, scale=1):
        return x
"""
    assert find_misfits(work, upstream, config) == [
        "'Layer.__init__' calls 'Attention' and passes 2 arguments by position where 1 fit: it takes (config)"
    ]


def test_helper_is_called_as_it_is_defined(work: Workspace) -> None:
    config = """
@config.add_helper
def fused(x, *, bias):
    return x

@config.override_method("Attention.forward")
def forward(self, x, scale=1):
    return fused(x, scale)
"""
    assert find_misfits(work, LAYER, config) == [
        "'Attention.forward' calls 'fused' and passes 2 arguments by position where 1 fit: it takes (x, *, bias)"
    ]


@pytest.mark.parametrize("module", ["proj.models.kernels", "acme.kernels", "acme.reexport"])
def test_external_class_is_read_where_its_file_is(work: Workspace, module: str) -> None:
    work.upstream(LAYER)
    fused = "class FusedAttention:\n    def forward(self, x):\n        return x\n"
    work.write("proj/models/kernels.py", fused)
    work.upstream(LAYER)
    (work.site / "acme/kernels.py").write_text(fused)
    (work.site / "acme/reexport.py").write_text("from .kernels import FusedAttention\n")
    config = f'config.patches.append(create_patch_from_external("Attention", "{module}", "FusedAttention"))\n'
    assert find_misfits(work, LAYER, config) == [
        "'Layer.forward' calls 'FusedAttention.forward' and passes 'scale', which is not a parameter: it takes (x)"
    ]
    location = examine(work, select=["PG202"]).errors[0].location
    assert location is not None
    assert location.line == PREAMBLE.count("\n") + 1


def test_external_class_that_is_not_here_is_left_alone(work: Workspace) -> None:
    config = 'config.patches.append(create_patch_from_external("Attention", "torch_npu.nowhere", "Fused"))\n'
    assert find_misfits(work, LAYER, config) == []


MASKED = """
from acme.masks import create_mask

def mask_for(x, layer):
    return create_mask(x, layer=layer)
"""
OWN_IMPORTS = {
    "an import": ('config.add_import("proj.masks", names=["create_mask"])', "create_mask"),
    "an alias": ('config.add_import("proj.masks", names=["own_mask as create_mask"])', "own_mask"),
    "a block": ('config.add_post_import_block("from proj.masks import create_mask")', "create_mask"),
}


def misfits_of_own(work: Workspace, declaration: str, function: str) -> list[str]:
    """What PG202 says where the project's own function takes the place of one that upstream imports."""
    work.upstream(MASKED)
    (work.site / "acme/masks.py").write_text("def create_mask(x, layer=0):\n    return x\n")
    work.write("proj/masks.py", function)
    return find_misfits(work, MASKED, f'config.drop_import_names("create_mask")\n{declaration}\n')


@pytest.mark.parametrize(("declaration", "name"), OWN_IMPORTS.values(), ids=list(OWN_IMPORTS))
def test_an_imported_function_of_the_project_gets_what_it_takes(work: Workspace, declaration: str, name: str) -> None:
    assert misfits_of_own(work, declaration, f"def {name}(x, layer):\n    return x\n") == []
    assert misfits_of_own(work, declaration, f"def {name}(x):\n    return x\n") == [
        f"'mask_for' calls '{name}' and passes 'layer', which is not a parameter: it takes (x)"
    ]
    (problem,) = examine(work, select=["PG202"]).errors
    assert problem.location is not None
    assert problem.location.line == PREAMBLE.count("\n") + 2


def test_what_a_patch_calls_of_upstreams_other_modules_gets_what_it_takes(work: Workspace) -> None:
    work.upstream(MASKED)
    (work.site / "acme/masks.py").write_text("def create_mask(x):\n    return x\n")
    config = '@config.replace_function("mask_for")\ndef mask_for(x, layer):\n    return create_mask(x, {})\n'
    for argument, why in (("layers=layer", "'layers', which is not a parameter"), ("1", "2 arguments by position")):
        (message,) = find_misfits(work, MASKED, config.format(argument))
        assert message.startswith(f"'mask_for' calls 'create_mask' and passes {why}")
    (problem,) = examine(work, select=["PG202"]).errors
    assert problem.location is not None
    assert problem.location.line > PREAMBLE.count("\n")


def test_what_upstream_calls_of_its_other_modules_is_its_own(work: Workspace) -> None:
    work.upstream(MASKED)
    (work.site / "acme/masks.py").write_text("def create_mask(x):\n    return x\n")
    more = "@config.add_helper\ndef own_mask(x):\n    return create_mask(x)\n"
    assert find_misfits(work, MASKED) == find_misfits(work, MASKED, more) == []


@pytest.mark.parametrize(
    "function",
    [
        "def create_mask(x, **kwargs):\n    return x\n",
        "@fused\ndef create_mask(x):\n    return x\n",
        "if fused:\n    def create_mask(x, layer):\n        ...\nelse:\n    def create_mask(x):\n        ...\n",
        "def create_mask(x):\n    return x\n\ncreate_mask = fused(create_mask)\n",
        "create_mask = fused\n",
        "def other(x):\n    return x\n\nfrom acme.masks import *\n",
    ],
)
def test_what_an_imported_function_of_the_project_takes_may_not_be_evident(work: Workspace, function: str) -> None:
    assert misfits_of_own(work, 'config.add_import("proj.masks", names=["create_mask"])', function) == []


GPU = """
from patchgen import PatchConfig

config = PatchConfig("{upstream}", "patched_modeling_toy_gpu.py")


@config.override_method("Attention.forward")
def attention_forward(self, x, scale=1{more}):
    return x


@config.override_method("Layer.forward")
def layer_forward(self, x):
    return self.attention(x, scale=2{passed})
"""
NPU = """
from patchgen import PatchConfig
from proj.models.toy.toy_gpu_patch_gen_config import layer_forward

config = PatchConfig("{upstream}", "patched_modeling_toy_npu.py")
config.override_method("{prefix}Layer.forward", replacement=layer_forward, name_map={names})


@config.override_method("{prefix}Attention.forward")
def npu_attention_forward(self, x, scale=1):
    return x
"""
NPU_CONFIG = "toy/toy_npu_patch_gen_config.py"


@pytest.mark.parametrize("prefix", ["", "Moe"])
def test_npu_config_that_forks_a_method_breaks_when_the_gpu_configs_gains_a_parameter(
    work: Workspace, prefix: str
) -> None:
    work.upstream(LAYER)
    upstream = UPSTREAM
    if prefix:
        upstream = "acme.models.moe.modeling_moe"
        work.upstream(LAYER.replace("Attention", f"{prefix}Attention").replace("Layer", f"{prefix}Layer"), upstream)
    names = {name: f"{prefix}{name}" for name in ("Attention", "Layer") if prefix}
    work.config(NPU.format(upstream=upstream, prefix=prefix, names=names), NPU_CONFIG, preamble="")
    work.config(GPU.format(upstream=UPSTREAM, more="", passed=""), preamble="")
    assert examine(work, NPU_CONFIG, ["PG202"]).errors == ()
    work.config(GPU.format(upstream=UPSTREAM, more=", window=0", passed=", window=4"), preamble="")
    assert examine(work, select=["PG202"]).errors == ()
    errors = examine(work, NPU_CONFIG, ["PG202"]).errors
    assert [error.message for error in errors] == [
        f"'{prefix}Layer.forward' calls '{prefix}Attention.forward' and passes 'window', which is not a parameter: "
        "it takes (x, scale=...)"
    ]

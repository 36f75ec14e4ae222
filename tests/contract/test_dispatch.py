"""Decorators that go past patched code (PG212)."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import examine, found

UPSTREAM = """
from hub import mark, take, use_experts_implementation, use_kernel_forward_from_hub, use_kernelized_func
from hub import use_kernel_func_from_hub_with_fallback


@use_kernel_forward_from_hub("rotary_pos_emb")
def rotate(x):
    return x


@use_kernel_func_from_hub_with_fallback("conv", "causal_conv1d")
def conv(x):
    return x


@mark("plain")
def plain(x):
    return x


@use_kernel_forward_from_hub("RMSNorm")
class Norm:
    def __init__(self):
        self.weight = 1

    def forward(self, x):
        return self.scale(x)

    def scale(self, x):
        return x


class Base:
    def forward(self, x):
        return x


@use_experts_implementation(has_gate=False)
class Experts(Base):
    pass


@use_kernelized_func([rotate, conv])
class Attention:
    def forward(self, x):
        return rotate(x) + conv(x)


@take(plain)
class Taker:
    def forward(self, x):
        return plain(x)
"""
IMPORT = "from hub import mark, use_kernel_forward_from_hub, use_kernel_func_from_hub_with_fallback\n"
ROTATE = "config.replace_function('rotate')\n"
FAST = "def fast(x):\n    return -x\n"
EXTERNAL = "config.patches.append(create_patch_from_external('rotate', 'proj.fast', 'turn'))\n"
NORM = "'Norm.forward' is patched, but @use_kernel_forward_from_hub('RMSNorm') on 'Norm' lets a kernel from the hub"
UNMARKED = (
    "PG212 @use_kernelized_func([rotate, conv]) on 'Attention' gets 'rotate' without upstream's "
    "@use_kernel_forward_from_hub('rotary_pos_emb')"
)
DROP = "Add config.drop_decorators('Attention', 'use_kernelized_func')."


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM)


def override(target: str) -> str:
    """A config that overrides a method."""
    return f"@config.override_method('{target}')\ndef patched(self, x):\n    return x * 2\n"


def test_decorated_class_whose_forward_is_overridden(work: Workspace) -> None:
    work.config(override("Norm.forward"))
    (problem,) = examine(work, select=["PG212"]).warnings
    assert problem.message.startswith(NORM)
    assert problem.hint == "Add config.drop_decorators('Norm', 'use_kernel_forward_from_hub')."
    assert str(problem.location).endswith("toy_gpu_patch_gen_config.py:5")
    assert problem.generated is not None
    assert "@use_kernel_forward_from_hub" in problem.generated.text


def test_inherited_forward_of_a_decorated_class(work: Workspace) -> None:
    work.config(override("Base.forward"))
    assert found(work, "PG212") == [
        "PG212 'Base.forward' is patched, but @use_experts_implementation(has_gate=False) on 'Experts' runs "
        "config._experts_implementation instead, grouped_mm by default"
    ]


def test_forward_added_to_a_decorated_class(work: Workspace) -> None:
    work.config(override("Experts.forward"))
    assert found(work, "PG212")[0].startswith("PG212 'Experts.forward' is patched, but @use_experts_implementation")


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(override("Attention.forward"), id="takes functions"),
        pytest.param(
            "@config.modify_init('Norm')\ndef init(original_init, self):\n    original_init(self)\n", id="init"
        ),
        pytest.param(
            "@config.replace_class('Norm')\nclass N:\n    def forward(self, x):\n        return -x\n", id="replaced"
        ),
        pytest.param(
            override("Norm.forward") + "config.drop_decorators('Norm', 'use_kernel_forward_from_hub')", id="dropped"
        ),
        pytest.param(f"@{ROTATE}{FAST}config.drop_decorators('Attention', 'use_kernelized_func')", id="taken off"),
        pytest.param(f"{EXTERNAL}config.drop_decorators('Attention', 'use_kernelized_func')", id="external"),
        pytest.param(f"@{ROTATE}{FAST}config.exclude_from_output('Attention')", id="excluded"),
        pytest.param(f"@{ROTATE}{FAST}@config.replace_class('Attention')\nclass A: ...\n", id="class replaced"),
        pytest.param(
            "from hub import mark\n@config.replace_function('plain')\n@mark('other')\ndef fast(x):\n    return -x\n",
            id="decorated alike",
        ),
    ],
)
def test_nothing_goes_past_it(work: Workspace, config: str) -> None:
    work.config(config)
    assert found(work, "PG212") == []


def test_replacements_that_bring_the_decorator(work: Workspace) -> None:
    work.config(
        f"{IMPORT}@config.replace_class('Norm')\n@use_kernel_forward_from_hub('RMSNorm')\n"
        "class N:\n    def forward(self, x):\n        return -x\n"
        f"@{ROTATE}@use_kernel_func_from_hub_with_fallback('rotate', 'rope')\n{FAST}"
    )
    norm, rotate = examine(work, select=["PG212"]).warnings
    assert norm.message.startswith(NORM)
    assert norm.hint == "Take @use_kernel_forward_from_hub off the config's 'Norm'."
    assert "'rotate' is patched, but its @use_kernel_func_from_hub_with_fallback('rotate', 'rope') runs" in str(rotate)
    assert rotate.hint == f"Take @use_kernel_func_from_hub_with_fallback off the config's 'rotate'. {DROP}"


@pytest.mark.parametrize("config", [f"@{ROTATE}{FAST}", EXTERNAL], ids=["replaced", "external"])
def test_patched_function_that_lost_its_mark(work: Workspace, config: str) -> None:
    work.write("proj/fast.py", "def turn(x):\n    return -x\n")
    work.config(config)
    assert found(work, "PG212") == [UNMARKED]
    (problem,) = examine(work, select=["PG212"]).warnings
    assert problem.hint == DROP
    assert str(problem.location).endswith("toy_gpu_patch_gen_config.py:5")


def test_external_function_that_bears_the_mark(work: Workspace) -> None:
    work.write("proj/fast.py", "@use_kernel_forward_from_hub('rotary_pos_emb')\ndef turn(x):\n    return -x\n")
    work.config(EXTERNAL)
    assert found(work, "PG212") == []


def test_config_class_that_takes_a_function_without_mark(work: Workspace) -> None:
    work.config(
        f"from hub import use_kernelized_func\nfrom toy import rotate\n@{ROTATE}{FAST}"
        "@config.replace_class('Attention')\n@use_kernelized_func(rotate)\nclass A: ...\n"
    )
    (problem,) = examine(work, select=["PG212"]).warnings
    assert problem.message.startswith("@use_kernelized_func(rotate) on 'Attention' gets 'rotate' without")
    assert problem.hint == "Take @use_kernelized_func off the config's 'Attention'."


def test_any_decorator_may_count_on_another_one(work: Workspace) -> None:
    work.config(f"@config.replace_function('plain')\n{FAST}")
    (problem,) = examine(work, select=["PG212"]).warnings
    assert problem.message == "@take(plain) on 'Taker' gets 'plain' without upstream's @mark('plain')"
    assert problem.hint == "Add config.drop_decorators('Taker', 'take'). Or decorate the replacement of 'plain'."

"""Configs that build on one another through their lists, and patches that import instead of copying."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.errors import PatchgenError
from tests.conftest import UPSTREAM, Workspace

GPU = "toy/toy_base_patch_gen_config.py"
TOY = """
from ...act import ACT, B

X = ACT, B


class Norm:
    kind = "upstream"


class Head:
    def forward(self, x):
        return x


class Tail: ...


def rotate(x):
    return x


__all__ = ["Norm", "Head", "Tail"]
"""
GPU_CONFIG = f"""
from patchgen import PatchConfig, create_patch_from_external

config = PatchConfig("{UPSTREAM}", "gpu.py")
config.add_import("lib.ops", names=["fast", "slow as sl"])
config.drop_import_names("ACT")
config.exclude_from_output("Tail")
config.add_post_import_block("ACT = fast(1)")


@config.add_helper
def helped(x):
    return ACT, x


@config.add_helper_after("Norm")
class SubNorm(object):
    pass


@config.replace_class("Norm")
class FastNorm:
    def f(self):
        return helped(SubNorm), sl


@config.override_method("Head.forward")
def head_forward(self, x):
    return FastNorm(x)


config.patches.append(create_patch_from_external("rotate", "lib.rope", "fast_rotate", "why"))
"""
LISTS = "patches additional_imports post_import_blocks helpers positioned_helpers drop_imported_names exclude"
NPU_HEAD = f"""
from patchgen import PatchConfig, create_patch_from_external
from . import toy_base_patch_gen_config as gpu
from .toy_base_patch_gen_config import config as gpu_config, head_forward

config = PatchConfig("{UPSTREAM}", "npu.py")
"""


@pytest.fixture(autouse=True)
def _gpu(work: Workspace) -> None:
    work.upstream(TOY)
    work.config(GPU_CONFIG, GPU, preamble="")


@pytest.mark.parametrize("times", [1, 2])
def test_extending_every_list_gives_the_same_module(work: Workspace, times: int) -> None:
    lines = [f"config.{name}.extend(gpu_config.{name})" for name in LISTS.split()]
    work.config("\n".join(lines * times) + "\n", preamble=NPU_HEAD)
    text = work.raw()
    assert text == work.raw(GPU)
    for once in ("class Norm:", "import fast,", "ACT = fast(1)", "def helped", "class SubNorm", "import fast_rotate"):
        assert text.count(once) == 1


def test_a_config_takes_what_it_shares_and_overrides_the_rest(work: Workspace) -> None:
    work.config(
        """
        from proj.models.toy.toy_base_patch_gen_config import helped

        config.helpers.extend(gpu_config.helpers)
        config.post_import_blocks += gpu.config.post_import_blocks
        config.additional_imports = [*gpu_config.additional_imports]
        config.drop_import_names("ACT")


        @config.replace_class("Norm", description="NPU")
        class NpuNorm:
            def f(self):
                return helped(self)


        config.override_method("Head.forward", replacement=head_forward, description="shared")
        """,
        preamble=NPU_HEAD,
    )
    text = work.raw()
    assert "\ndef helped(x):\n    return ACT, x\n" in text
    assert "class Norm:\n    def f(self):\n        return helped(self)\n" in text
    assert "\nACT = fast(1)\n" in text
    assert "    def forward(self, x):\n        return FastNorm(x)\n" in text
    assert "method_override Head.forward: nothing defines 'FastNorm'" in work.errors()


def test_a_patch_that_is_extended_and_declared_again_is_patched_twice(work: Workspace) -> None:
    work.config(
        """
        config.patches.extend(gpu_config.patches)


        @config.replace_class("Norm")
        class NpuNorm: ...
        """,
        preamble=NPU_HEAD,
    )
    with pytest.raises(PatchgenError, match=r"'Norm' is patched twice, first at .*toy_base_patch_gen_config.py:\d+\n"):
        work.raw()


def test_two_helpers_of_one_name_are_an_error(work: Workspace) -> None:
    work.config(
        "config.helpers.extend(gpu_config.helpers)\n\n\n@config.add_helper\ndef helped(x):\n    return 2\n",
        preamble=NPU_HEAD,
    )
    with pytest.raises(PatchgenError, match="two helpers are called 'helped'"):
        work.raw()


def test_plain_functions_and_classes_can_be_appended_to_helpers(work: Workspace) -> None:
    work.config(
        """
        def raw(x):
            return raw(x), Kind


        # about Kind
        class Kind:
            size = 1


        config.helpers.append(raw)
        config.helpers += [Kind, raw, gpu.helped]
        config.helpers.extend(gpu_config.helpers)
        """,
        preamble=NPU_HEAD,
    )
    text = work.raw()
    places = [
        text.index(part)
        for part in ("def raw(x):\n    return raw(x), Kind\n", "# about Kind\nclass Kind:", "def helped")
    ]
    assert places == sorted(places)
    assert text.count("def ") == 4


def test_positioned_helpers_of_another_config_follow_their_target(work: Workspace) -> None:
    work.config("config.positioned_helpers.extend(gpu_config.positioned_helpers)\n", preamble=NPU_HEAD)
    text = work.raw()
    assert text.index("class Norm:") < text.index("class SubNorm(object):") < text.index("class Head:")


def test_identical_imports_and_blocks_of_two_configs_count_once(work: Workspace) -> None:
    work.config(
        """
        config.add_post_import_block("\\n    ACT = fast(1)\\n")
        config.post_import_blocks.extend(gpu_config.post_import_blocks)
        config.add_import("lib.ops", names=["fast", "slow as sl"])
        config.additional_imports.extend(gpu_config.additional_imports)
        config.add_import("lib.ops", names=["fast"])
        config.drop_imported_names.extend(["ACT", "ACT"])
        config.exclude.extend([*gpu_config.exclude, "Tail"])
        """,
        preamble=NPU_HEAD,
    )
    text = work.text()
    assert text.count("ACT = fast(1)") == 1
    assert text.count("import fast") == 1
    assert text.count("#    - Tail\n") == 1
    assert text.count("#    - ACT\n") == 1


def test_one_name_from_two_modules_is_an_error(work: Workspace) -> None:
    work.config(
        """
        config.additional_imports.extend(gpu_config.additional_imports)
        config.add_import("other.ops", names=["fast"])
        """,
        preamble=NPU_HEAD,
    )
    with pytest.raises(PatchgenError, match=r"'fast' is imported from 'lib.ops' and from 'other.ops'"):
        work.raw()


@pytest.mark.parametrize("name", ["ACT", "X"], ids=["imported", "assigned"])
def test_a_helper_with_the_name_of_something_upstream_binds_is_an_error(work: Workspace, name: str) -> None:
    work.config(f"@config.add_helper\ndef {name}():\n    return 1\n", preamble=NPU_HEAD)
    with pytest.raises(PatchgenError, match=f"helper '{name}'"):
        work.raw()


def test_a_helper_can_stand_for_a_dropped_import(work: Workspace) -> None:
    work.config(
        "config.drop_import_names('ACT')\n\n\n@config.add_helper\ndef ACT():\n    return 1\n", preamble=NPU_HEAD
    )
    text = work.raw()
    assert "from acme.act import B\n" in text
    assert "\ndef ACT():\n    return 1\n" in text


# --- create_patch_from_external --------------------------------------------------------------------


def external(*arguments: str) -> str:
    """A config line that appends an external patch."""
    return f"config.patches.append(create_patch_from_external({', '.join(map(repr, arguments))}))\n"


def test_external_class_and_function_are_imported_in_place(work: Workspace) -> None:
    work.upstream(
        "# licence\n\n# why\n@deco\nclass Norm:\n    x = 1\n    # in Norm\n\n\ndef f():\n    return 1\nz = Norm, f\n"
    )
    work.config(external("Norm", "lib.norm", "FastNorm", "Fused") + external("f", "lib.f", "f"), preamble=NPU_HEAD)
    rule = f"# {'=' * 70}\n"
    assert work.raw() == (
        f"# licence\n\n{rule}# [PATCHED CLASS] Norm\n# Reason: Fused\n# Source: lib.norm.FastNorm\n{rule}"
        "from lib.norm import FastNorm as Norm  # noqa: E402, F401\n\n\n"
        f"{rule}# [PATCHED FUNCTION] f\n# Source: lib.f.f\n{rule}"
        "from lib.f import f  # noqa: E402, F401\nz = Norm, f\n"
    )


def test_external_class_stands_in_every_branch(work: Workspace) -> None:
    work.upstream(
        "if X:\n    class Norm: ...\nelse:\n    try:\n        class Norm:\n            x = 1\n    finally: ...\n"
    )
    work.config(external("Norm", "lib", "Norm"), preamble=NPU_HEAD)
    lines = [line for line in work.raw().splitlines() if "#" not in line or "import" in line]
    assert lines == [
        "if X:",
        "    from lib import Norm  # noqa: E402, F401",
        "else:",
        "    try:",
        "        from lib import Norm  # noqa: E402, F401",
        "    finally: ...",
    ]


def test_external_replacement_is_what_the_module_uses(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream is imported for real as well: only what is patched differs."""
    Path(work.site, "fake_lib.py").write_text(
        "class FastNorm:\n    kind = 'fast'\n\n\ndef fast(x):\n    return x * 2\n"
    )
    path = work.upstream(
        """
        class Norm:
            kind = "upstream"


        class SubNorm(Norm):
            pass


        def rotate(x):
            return x


        class Head:
            norm = SubNorm

            def forward(self, x):
                return rotate(x), self.norm().kind
        """,
        "fake_hub.toy.modeling_toy",
    )
    for init in (path.parent / "__init__.py", path.parent.parent / "__init__.py"):
        init.write_text("")
    head = NPU_HEAD.replace(UPSTREAM, "fake_hub.toy.modeling_toy")
    work.config(external("Norm", "fake_lib", "FastNorm") + external("rotate", "fake_lib", "fast"), preamble=head)
    text = work.text()
    importlib.invalidate_caches()
    known = set(sys.modules)
    try:
        upstream = importlib.import_module("fake_hub.toy.modeling_toy")
        made: dict[str, Any] = {"__name__": "generated"}
        exec(compile(text, "generated.py", "exec"), made)
        assert upstream.Head().forward(3) == (3, "upstream")
        assert made["Head"]().forward(3) == (6, "fast")
        assert made["SubNorm"].__mro__[1] is sys.modules["fake_lib"].FastNorm
    finally:
        for name in set(sys.modules) - known:
            monkeypatch.delitem(sys.modules, name)


def test_external_import_stays_when_only_others_use_it(work: Workspace) -> None:
    """Nothing in the module uses it, and ruff must not take it out."""
    work.upstream("class Norm: ...\n\n\nclass Head: ...\n")
    work.config(external("Norm", "lib", "FastNorm") + external("Head", "lib", "Head"), preamble=NPU_HEAD)
    text = work.text()
    assert "from lib import FastNorm as Norm" in text
    assert "from lib import Head" in text


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("Nrom", "has no class or function 'Nrom'\n  Did you mean 'Norm'?"),
        ("X", "'X' is assigned in upstream"),
        ("ACT", "does not define 'ACT', it imports it"),
        ("Tail", "'Tail' is patched, but 'Tail' is excluded"),
    ],
    ids=["unknown", "assigned", "imported", "excluded"],
)
def test_external_patch_of_no_definition_is_an_error(work: Workspace, target: str, message: str) -> None:
    work.config(f"config.exclude.extend(gpu_config.exclude)\n{external(target, 'lib', 'Fast')}", preamble=NPU_HEAD)
    assert message in work.errors()


def test_order_that_makes_no_difference_shows_nowhere(work: Workspace) -> None:
    work.upstream("class A:\n    def f(self): ...\n    def g(self): ...\n\n\nclass B: ...\n\n\nclass C: ...\n")
    declared = [
        "@config.override_method('A.g')\ndef a_g(self):\n    return 1\n",
        "@config.override_method('A.f')\ndef a_f(self):\n    return 2\n",
        "@config.override_method('A.new')\ndef a_new(self):\n    return 3\n",
        "@config.override_method('A.also')\ndef a_also(self):\n    return 4\n",
        "config.exclude_from_output('C')\n",
        "config.exclude_from_output('B')\n",
    ]
    work.config("\n".join(declared))
    first = work.text()
    work.config("\n".join(reversed(declared)))
    assert work.text() == first


def test_patch_made_by_hand_is_reported_at_its_line(work: Workspace) -> None:
    work.upstream("def rotate(x): ...\n")
    work.config(
        "from patchgen.patch_spec import Patch\nconfig.patches.append(Patch('function_replacement', 'rotate', max))\n"
    )
    assert work.errors().startswith("toy/toy_gpu_patch_gen_config.py:6: cannot read the source of 'max'")

"""`name_map` renames what a replacement uses; decorators of patches go, whatever the config is called."""

from __future__ import annotations

import pytest

from tests.codegen.renaming import BASE
from tests.conftest import Workspace, execute

# --- name_map --------------------------------------------------------------------------------------


WORDS = '"A1 AX ABX AB A_x A_1 Ab ABb BA _A __AX _ABX B_AX A", A, ABX, x._AX'


@pytest.mark.parametrize(
    ("name_map", "expected"),
    [
        ({"A": "AB"}, '"A1 ABX ABX AB AB_x A_1 Ab ABBb BA _AB __ABX _ABX B_AX AB", AB, ABX, x._ABX'),
        ({"AB": "A"}, '"A1 AX AX A A_x A_1 Ab ABb BA _A __AX _AX B_AX A", A, AX, x._AX'),
        ({"A": "B", "B": "A"}, '"A1 BX BBX BB B_x A_1 Ab BBb AA _B __BX _BBX A_AX B", B, BBX, x._BX'),
        ({"A": "X", "AB": "Y"}, '"A1 XX YX Y X_x A_1 Ab XBb BA _X __XX _YX B_AX X", X, YX, x._XX'),
        ({"A": "A_1"}, '"A1 A_1X A_1BX A_1B A_1_x A_1 Ab A_1Bb BA _A_1 __A_1X _A_1BX B_AX A_1", A_1, A_1BX, x._A_1X'),
        ({"A": "A"}, WORDS),
        ({}, WORDS),
    ],
    ids=["longer", "shorter", "swap", "two", "digits", "same", "none"],
)
def test_name_map_renames_prefixes_of_words_once(work: Workspace, name_map: dict[str, str], expected: str) -> None:
    work.upstream("def f(): ...\n")
    work.config(f"@config.replace_function('f', name_map={name_map!r})\ndef g():\n    return {WORDS}\n")
    assert work.raw().endswith(f"return {expected}\n")


def test_name_map_leads_to_a_private_helper_or_leaves_it(work: Workspace) -> None:
    """A helper that another config declares keeps its name where there is none of the new one."""
    work.upstream("class ToyMoe:\n    def f(self): ...\n\n\nclass ToyMoeHead:\n    def f(self): ...\n")
    work.config(
        """
        @config.add_helper
        class _ToyShared: ...

        @config.add_helper
        class _ToyOwn: ...

        @config.add_helper
        class _ToyMoeOwn: ...

        @config.override_method("ToyMoe.f", name_map={"Toy": "ToyMoe"})
        def f(self):
            return _ToyShared, _ToyOwn, _ToyMoeOwn
        """
    )
    assert "return _ToyShared, _ToyMoeOwn, _ToyMoeOwn\n" in work.raw()


def test_name_map_reaches_text_comments_decorators_and_annotations(work: Workspace) -> None:
    work.upstream("class Qwen3_5MoeModel: ...\n")
    work.config(
        r'''
        from lib import Qwen3_5Deco, register

        # Qwen3_5Model, and Qwen3_5MoeModel.
        @config.replace_class("Qwen3_5MoeModel", name_map={"Qwen3_5": "Qwen3_5Moe"})
        # of Qwen3_5
        @register("Qwen3_5Model")
        class Qwen3_5Model:
            """A `Qwen3_5Model`; not a Qwen3_53, Qwen3 or MyQwen3_5Model.

            >>> Qwen3_5Model.from_pretrained("Qwen/Qwen3_5")
            """

            _no_split_modules = ["Qwen3_5DecoderLayer", "Qwen3_5MoeBlock"]

            def f(self, x: "Qwen3_5Config | None") -> "list[Qwen3_5Output]":
                # Qwen3_5Foo
                text = "\nQwen3_5Model\tQwen3_5Moe" f"{Qwen3_5Model(x)} Qwen3_5Model"
                return Qwen3_5Model.Qwen3_5Inner, text
        '''
    )
    assert work.raw().endswith(
        r'''
# Qwen3_5MoeModel, and Qwen3_5MoeModel.
# of Qwen3_5Moe
@register("Qwen3_5MoeModel")
class Qwen3_5MoeModel:
    """A `Qwen3_5MoeModel`; not a Qwen3_53, Qwen3 or MyQwen3_5Model.

    >>> Qwen3_5MoeModel.from_pretrained("Qwen/Qwen3_5Moe")
    """

    _no_split_modules = ["Qwen3_5MoeDecoderLayer", "Qwen3_5MoeBlock"]

    def f(self, x: "Qwen3_5MoeConfig | None") -> "list[Qwen3_5MoeOutput]":
        # Qwen3_5MoeFoo
        text = "\nQwen3_5MoeModel\tQwen3_5Moe" f"{Qwen3_5MoeModel(x)} Qwen3_5MoeModel"
        return Qwen3_5MoeModel.Qwen3_5MoeInner, text
'''
    )


@pytest.mark.parametrize(
    ("kind", "body", "kept"),
    [
        ("replace_class('QNorm'", "class Own:\n    def g(self):\n", "\nclass QNorm:\n    def g(self):\n"),
        ("override_method('QNorm.Q_f'", "def own(self):\n", "class QNorm:\n    def Q_f(self):\n"),
        ("modify_init('QNorm'", "def own(init, self):\n        init(self)\n", "        QNorm._original_init(self)\n"),
        ("replace_function('Q_f'", "def own(self):\n", "\ndef Q_f(self):\n"),
    ],
    ids=["class", "method", "init", "function"],
)
def test_name_map_never_renames_the_target_itself(work: Workspace, kind: str, body: str, kept: str) -> None:
    """The target is upstream's name; the map is about what the replacement says."""
    work.upstream("class QNorm:\n    def Q_f(self): ...\n\n\ndef Q_f(): ...\n")
    work.config(f"@config.{kind}, name_map={{'Q': 'QM'}})\n{body}        return QOther\n")
    text = work.raw()
    assert kept in text
    assert "return QMOther" in text


def test_name_map_leaves_the_names_of_other_targets(work: Workspace) -> None:
    """A reference to another patch's target is upstream's name already."""
    work.upstream("class ANorm: ...\n\n\nclass BHead: ...\n")
    work.config(
        """
        @config.replace_class("ANorm")
        class Fast:
            def f(self): ...


        @config.replace_class("BHead", name_map={"A": "B"})
        class AHead:
            def f(self):
                return Fast, AOther
        """
    )
    assert work.raw().endswith("class BHead:\n    def f(self):\n        return ANorm, BOther\n")


def test_name_map_leads_to_a_helper_of_its_own(work: Workspace) -> None:
    """A shared replacement that names a helper takes a sibling's extension of it, which is what the map says."""
    work.upstream("def f(): ...\n")
    work.config(
        """
        @config.add_helper
        class ToySizes:
            x = 1


        @config.add_helper
        class BigSizes(ToySizes):
            x = 2


        @config.replace_function("f", name_map={"Toy": "Big"})
        def g():
            return ToySizes.x, ToyOther
        """
    )
    text = work.raw()
    assert "class BigSizes(ToySizes):" in text
    assert text.endswith("return BigSizes.x, BigOther\n")


def test_shared_functions_of_a_sibling_are_renamed_with_their_helpers(work: Workspace) -> None:
    work.upstream("class BigNorm:\n    size = 2\n\n\nclass BigModel:\n    def forward(self):\n        return 0\n")
    work.config(
        """
        @config.add_helper
        def toy_size(norm):
            return norm.size


        @config.add_helper
        class ToyHelper:
            def run(self):
                return toy_size(ToyNorm), "ToyHelper"


        @config.override_method("ToyModel.forward")
        def toy_forward(self):
            return ToyHelper().run()
        """,
        BASE,
    )
    work.config(
        """
        from . import toy_base_patch_gen_config as toy

        NAMES = {"Toy": "Big"}
        config.override_method("BigModel.forward", replacement=toy.toy_forward, name_map=NAMES)
        config.add_helper(toy.ToyHelper, name_map=NAMES)
        config.add_helper(toy.toy_size)
        """
    )
    text = work.text()
    assert execute(text)["BigModel"]().forward() == (2, "BigHelper")
    assert "Toy" not in text.split("# " + "=" * 78)[3]


# --- patch decorators go, whatever the config is called --------------------------------------------


@pytest.mark.parametrize(
    ("setup", "decorator"),
    [
        ("", "config.override_method('A.f')"),
        ("gpu_config = config", "gpu_config.override_method('A.f')"),
        ("CONFIGS = {'gpu': config}", "CONFIGS['gpu'].override_method('A.f')"),
        ("override = config.override_method", "override('A.f')"),
        ("class gpu:\n    config = config", "gpu.config.override_method('A.f')"),
        ("def get(): return config", "get().override_method('A.f')"),
        ("CONFIGS = [config]", "(CONFIGS[0]).override_method(\n    'A.f',\n    description='why',\n)"),
        ("import functools\noverride = functools.partial(config.override_method, add=True)", "override('A.f')"),
        ("method = config.override_method('A.f')", "method"),
    ],
    ids=["config", "other-name", "dict", "bound-method", "attribute", "call", "lines", "partial", "declared-before"],
)
def test_the_patch_decorator_goes(work: Workspace, setup: str, decorator: str) -> None:
    work.upstream("class A:\n    def f(self): ...\n")
    own = "@registry.override_method('A.f')"
    work.config(f"from lib import registry\n\n{setup}\n\n\n{own}\n@{decorator}\ndef g(self):\n    return 2\n")
    assert work.raw().endswith("class A:\n    @registry.override_method('A.f')\n    def f(self):\n        return 2\n")


def test_decorators_of_several_configs_go(work: Workspace) -> None:
    work.upstream("class A:\n    def f(self): ...\n")
    work.config("", BASE)
    work.config(
        """
        from . import toy_base_patch_gen_config as base
        from .toy_base_patch_gen_config import config as base_config


        @base.config.override_method("A.f")
        @config.override_method("A.f")
        @base_config.add_helper
        @config.add_helper()
        def g(self):
            return 2


        del base
        """
    )
    text = work.raw()
    assert text.endswith("class A:\n    def f(self):\n        return 2\n")
    assert "\ndef g(self):\n    return 2\n" in text
    assert "@" not in text

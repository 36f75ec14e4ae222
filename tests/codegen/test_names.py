"""What names become: in replacements that are called something else, and with ``name_map``."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from patchgen_core.errors import PatchgenError
from tests.conftest import Workspace

BASE = "toy/toy_base_patch_gen_config.py"


def run(text: str) -> dict[str, Any]:
    """The namespace of a generated module."""
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "generated.py", "exec"), namespace)
    return namespace


def renamed(work: Workspace, body: str) -> str:
    """What becomes of a body that refers to ``Fast``, which replaces upstream's ``Norm``."""
    work.upstream("def f(x):\n    return x\n\n\nclass Norm: ...\n")
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    head = "@config.replace_class('Norm')\nclass Fast:\n    size = 1\n\n    def m(self): ...\n\n\n"
    work.config(f"{head}@config.replace_function('f')\ndef fast_f(x):\n{lines}")
    text = work.raw()
    new = text[text.index("def f(x):\n") + 10 : text.index("# ====", text.index("def f(x):\n"))]
    return "".join(line.removeprefix("    ") for line in new.splitlines(keepends=True)).rstrip("\n")


# --- by scope --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("return Fast(Fast.size)", "return Norm(Norm.size)", id="call-and-attribute"),
        pytest.param("return x.Fast, x(Fast=1)", "return x.Fast, x(Fast=1)", id="not-attributes-or-keywords"),
        pytest.param("return 'Fast'  # Fast", "return 'Fast'  # Fast", id="not-text"),
        pytest.param("return f'{Fast!r:>{Fast.size}} Fast'", "return f'{Norm!r:>{Norm.size}} Fast'", id="f-string"),
        pytest.param("return fast_f(fast_f)", "return f(f)", id="recursion"),
        pytest.param("Fast = x\nreturn Fast", "Fast = x\nreturn Fast", id="local"),
        pytest.param("for Fast in x: pass\nreturn Fast", "for Fast in x: pass\nreturn Fast", id="loop"),
        pytest.param("import a.Fast as Fast\nreturn Fast", "import a.Fast as Fast\nreturn Fast", id="import"),
        pytest.param("with x as Fast: return Fast", "with x as Fast: return Fast", id="with"),
        pytest.param("if (Fast := x): return Fast", "if (Fast := x): return Fast", id="walrus"),
        pytest.param(
            "return f'''é\n{Fast}{{Fast}}\n  {f'{Fast}' + Fast!r:{Fast}}''' f\"{[Fast for y in Fast]}\" '{Fast}'",
            "return f'''é\n{Norm}{{Fast}}\n  {f'{Norm}' + Norm!r:{Norm}}''' f\"{[Norm for y in Norm]}\" '{Fast}'",
            id="f-strings-in-f-strings",
        ),
        pytest.param("return (Fast), 'é', Fast", "return (Norm), 'é', Norm", id="brackets-and-columns"),
        pytest.param(
            "g = [y for y in x if (Fast := y)]\nreturn Fast",
            "g = [y for y in x if (Fast := y)]\nreturn Fast",
            id="walrus-out",
        ),
        pytest.param(
            "match x:\n    case [Fast, *_] | {'k': Fast}: return Fast",
            "match x:\n    case [Fast, *_] | {'k': Fast}: return Fast",
            id="captured",
        ),
        pytest.param("try: pass\nexcept x as Fast: Fast", "try: pass\nexcept x as Fast: Fast", id="except-as"),
        pytest.param("Fast: int\nreturn Fast", "Fast: int\nreturn Fast", id="annotated-only"),
        pytest.param("del Fast", "del Fast", id="deleted"),
        pytest.param(
            "def g(Fast):\n    def h():\n        global Fast\n        return Fast\n    return h",
            "def g(Fast):\n    def h():\n        global Fast\n        return Norm\n    return h",
            id="global",
        ),
        pytest.param(
            "def g():\n    Fast = 1\n    def h():\n        nonlocal Fast\n        return Fast\n    return h",
            "def g():\n    Fast = 1\n    def h():\n        nonlocal Fast\n        return Fast\n    return h",
            id="nonlocal",
        ),
        pytest.param(
            "def g(Fast=Fast): return Fast\nreturn Fast", "def g(Fast=Norm): return Fast\nreturn Norm", id="parameter"
        ),
        pytest.param(
            "def g():\n    Fast = 1\n    def h(): return Fast\n    return h\nreturn Fast",
            "def g():\n    Fast = 1\n    def h(): return Fast\n    return h\nreturn Norm",
            id="closure",
        ),
        pytest.param(
            "def g(): return Fast\nclass K:\n    Fast = Fast\n    x = Fast\n    def h(self): return Fast\nreturn g",
            "def g(): return Norm\nclass K:\n    Fast = Norm\n    x = Fast\n    def h(self): return Norm\nreturn g",
            id="class-scope",
        ),
        pytest.param(
            "return [Fast for y in Fast for Fast in y], {y: Fast for y in x}",
            "return [Fast for y in Norm for Fast in y], {y: Norm for y in x}",
            id="comprehension",
        ),
        pytest.param("return (lambda Fast: Fast)(Fast)", "return (lambda Fast: Fast)(Norm)", id="lambda"),
        pytest.param(
            "match x:\n    case Fast(size=1): return Fast\n    case Fast.size: pass\n    case [y, Fast()]: pass",
            "match x:\n    case Norm(size=1): return Norm\n    case Norm.size: pass\n    case [y, Norm()]: pass",
            id="match",
        ),
        pytest.param(
            "try: pass\nexcept (Fast, KeyError): raise Fast from None",
            "try: pass\nexcept (Norm, KeyError): raise Norm from None",
            id="except",
        ),
        pytest.param(
            "@Fast\nclass K(Fast, metaclass=Fast): ...\n@Fast.m\ndef g(*a: Fast, k: 'Fast') -> 'dict[int, Fast]': ...",
            "@Norm\nclass K(Norm, metaclass=Norm): ...\n@Norm.m\ndef g(*a: Norm, k: 'Norm') -> 'dict[int, Norm]': ...",
            id="decorators-bases-annotations",
        ),
        pytest.param(
            "a: 'Fast | None' = None\nb: 'x.Fast'\nc: list['Fast'] = 'Fast'\nd: A['a Fast one', 'Fast' 'y', f'Fast']",
            "a: 'Norm | None' = None\nb: 'x.Fast'\nc: list['Norm'] = 'Fast'\nd: A['a Fast one', 'Norm' 'y', f'Fast']",
            id="string-annotations",
        ),
        pytest.param(
            "a: Literal['Fast'] = x\nreturn Fast",
            "a: Literal['Fast'] = x\nreturn Norm",
            id="literal-is-no-annotation",
        ),
    ],
)
def test_a_rename_follows_references_only(work: Workspace, body: str, expected: str) -> None:
    assert renamed(work, body) == expected


if sys.version_info >= (3, 12):

    def test_a_rename_leaves_type_parameters(work: Workspace) -> None:
        body = "def g[Fast: Fast](y={0}) -> 'Fast':\n    type K = list[Fast]\n    return Fast\nreturn g[{0}]"
        assert renamed(work, body.format("Fast")) == body.format("Norm")


def test_a_rename_that_a_local_name_would_catch_is_an_error(work: Workspace) -> None:
    """``rotate(x, rotate)`` would call the local variable."""
    work.upstream("def rotate(x, y):\n    return x\n\n\ndef apply(x):\n    return x\n")
    work.config(
        """
        @config.replace_function("rotate")
        def fast_rotate(x, y):
            return y


        @config.replace_function("apply")
        def fast_apply(x):
            rotate = x + 1
            return fast_rotate(x, rotate)
        """
    )
    with pytest.raises(PatchgenError, match="rotate"):
        work.raw()


@pytest.mark.parametrize(
    "body",
    [
        "size = 2",
        "size: 'FastNorm | None' = FastNorm.size",
        "@property\n    def f(self):\n        return FastNorm.size",
        "@staticmethod\n    def f():\n        return FastNorm.size",
        "def f(self):\n        return FastNorm.size",
    ],
    ids=["attribute", "annotated", "property", "staticmethod", "method"],
)
def test_a_class_of_any_content_refers_to_other_replacements(work: Workspace, body: str) -> None:
    work.upstream("class Norm: ...\n\n\nclass Head(Norm): ...\n")
    work.config(
        f"replace = config.replace_class\n\n\n@replace('Norm')\nclass FastNorm:\n    size = 1\n\n\n"
        f"@replace('Head')\nclass FastHead(FastNorm):\n    {body}\n"
    )
    text = work.raw()
    assert text.endswith(f"class Head(Norm):\n    {body}\n".replace("FastNorm", "Norm"))
    assert "@replace" not in text


def test_references_between_patches_of_every_kind(work: Workspace) -> None:
    work.upstream(
        "class Norm:\n    def f(self):\n        return 'upstream'\n\n\ndef rotate(x):\n    return 'upstream'\n\n\n"
        "class Head:\n    def f(self):\n        return 'upstream'\n"
    )
    work.config(
        """
        @config.override_method("Norm.f")
        def norm_f(self):
            return "f", helped(self)


        @config.add_helper
        def helped(x):
            return "h", fast_rotate(type(x).__name__)


        @config.replace_function("rotate")
        def fast_rotate(x):
            return "r", x


        @config.override_method("Head.f")
        def head_f(self, other=norm_f):
            return norm_f(self) + other(self), deco(head_f)(1)


        @config.add_helper_after("rotate")
        def deco(f):
            return lambda x: (x, f.__name__)
        """
    )
    made = run(work.text())
    inner = ("f", ("h", ("r", "Head")))
    assert made["Head"]().f() == (inner + inner, (1, "f"))


def test_one_object_for_two_targets_refers_to_itself_under_each_name(work: Workspace) -> None:
    work.upstream("class A:\n    def f(self): ...\n\n\nclass B:\n    def f(self): ...\n\n\ndef g(): ...\n")
    work.config(
        """
        def shared(self):
            return shared


        config.override_method("A.f", shared)
        config.override_method("B.f", replacement=shared)
        """
    )
    made = run(work.raw())
    assert made["A"]().f() is made["A"].f
    assert made["B"]().f() is made["B"].f


def test_reference_to_an_object_with_two_targets_is_an_error(work: Workspace) -> None:
    work.upstream("class A:\n    def f(self): ...\n    def h(self): ...\n\n\ndef g(): ...\n")
    work.config(
        """
        def shared(self):
            return 1


        config.override_method("A.f", shared)
        config.override_method("A.h", shared)


        @config.replace_function("g")
        def fast():
            return shared(1)
        """
    )
    assert "function_replacement g: nothing defines 'shared'" in work.errors()


def test_names_are_resolved_in_the_file_a_replacement_stands_in(work: Workspace) -> None:
    """Both files have a ``helped``; each function means its own file's."""
    work.upstream("class A:\n    def f(self): ...\n    def g(self): ...\n")
    work.config(
        """
        def helped():
            return "base"


        def base_f(self):
            return helped()
        """,
        BASE,
    )
    work.config(
        """
        from . import toy_base_patch_gen_config as base
        from proj.models.toy.toy_base_patch_gen_config import base_f as renamed_f


        @config.add_helper
        def helped():
            return "own"


        config.override_method("A.f", renamed_f)


        @config.override_method("A.g")
        def own_g(self):
            return helped(), renamed_f(self)
        """
    )
    text = work.raw()
    assert "    def g(self):\n        return helped(), A.f(self)\n" in text


def test_relative_imports_start_from_the_file_a_replacement_stands_in(work: Workspace) -> None:
    work.upstream("def f(): ...\n\n\nclass A: ...\n")
    work.config(
        """
        def shared():
            from . import ops
            from .ops.fast import (
                one,  # one
            )
            from ...models import two
            return "from . import ops"  # from . import ops
        """,
        "other/other_patch_gen_config.py",
        preamble="",
    )
    work.config("three = 3\n", "toy/ops.py", preamble="")
    work.config(
        """
        from ..other.other_patch_gen_config import shared

        config.replace_function("f", shared)


        @config.replace_class("A")
        class B:
            from .ops import three
        """
    )
    text = work.raw()
    assert (
        "def f():\n    from proj.models.other import ops\n    from proj.models.other.ops.fast import (\n"
        "        one,  # one\n    )\n    from proj.models import two\n"
        '    return "from . import ops"  # from . import ops\n'
    ) in text
    assert text.endswith("class A:\n    from proj.models.toy.ops import three\n")


# --- name_map --------------------------------------------------------------------------------------

WORDS = '"A1 AX ABX AB A_x A_1 Ab ABb BA _A A", A, ABX, x.AX'


@pytest.mark.parametrize(
    ("name_map", "expected"),
    [
        ({"A": "AB"}, '"A1 ABX ABX AB AB_x A_1 Ab ABBb BA _A AB", AB, ABX, x.ABX'),
        ({"AB": "A"}, '"A1 AX AX A A_x A_1 Ab ABb BA _A A", A, AX, x.AX'),
        ({"A": "B", "B": "A"}, '"A1 BX BBX BB B_x A_1 Ab BBb AA _A B", B, BBX, x.BX'),
        ({"A": "X", "AB": "Y"}, '"A1 XX YX Y X_x A_1 Ab XBb BA _A X", X, YX, x.XX'),
        ({"A": "A_1"}, '"A1 A_1X A_1BX A_1B A_1_x A_1 Ab A_1Bb BA _A A_1", A_1, A_1BX, x.A_1X'),
        ({"A": "A"}, WORDS),
        ({}, WORDS),
    ],
    ids=["longer", "shorter", "swap", "two", "digits", "same", "none"],
)
def test_name_map_renames_prefixes_of_words_once(work: Workspace, name_map: dict[str, str], expected: str) -> None:
    work.upstream("def f(): ...\n")
    work.config(f"@config.replace_function('f', name_map={name_map!r})\ndef g():\n    return {WORDS}\n")
    assert work.raw().endswith(f"return {expected}\n")


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
    assert run(text)["BigModel"]().forward() == (2, "BigHelper")
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

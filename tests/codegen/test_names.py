"""What names become: in replacements that are called something else, and with ``name_map``."""

from __future__ import annotations

import pytest

from patchgen_core.errors import PatchgenError
from tests.codegen.renaming import BASE, renamed
from tests.conftest import Workspace, execute


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
    made = execute(work.text())
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
    made = execute(work.raw())
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

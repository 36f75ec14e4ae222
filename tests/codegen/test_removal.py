"""Leaving upstream's definitions, constants and imports out."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from patchgen_core.errors import PatchgenError
from tests.conftest import Workspace


def run(text: str) -> dict[str, Any]:
    """The namespace of a generated module."""
    namespace: dict[str, Any] = {}
    exec(compile(text, "generated.py", "exec"), namespace)
    return namespace


# --- exclude_from_output ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("upstream", "excluded", "expected"),
    [
        pytest.param(
            "import x\n\n# above, apart\n\n# above A\n@deco\n# between\n@other(\n    1,\n)\n"
            "class A:\n    pass\n    # in A\n\n\n# above B\nclass B: ...\n",
            "A",
            "import x\n\n# above, apart\n\n\n\n# above B\nclass B: ...\n",
            id="class-with-its-comments",
        ),
        pytest.param(
            "@overload\ndef f(x: int): ...\n@overload\ndef f(x: str): ...\ndef f(x): return x\nz = 1\n",
            "f",
            "z = 1\n",
            id="overloads",
        ),
        pytest.param(
            "class A: ...\nA = deco(A)\nif x:\n    def A(): ...\nelse:\n    B = 1\n",
            "A",
            "if x:\n    pass\nelse:\n    B = 1\n",
            id="every-binding",
        ),
        pytest.param(
            "if x:\n    # why\n    A = 1\n    # after\n    B = 2\nelse:\n    A = 2\n",
            "A",
            "if x:\n    # after\n    B = 2\n",
            id="else-goes-when-empty",
        ),
        pytest.param("A: int\nA: int = 1\nA += 1\nB: int = 2\n", "A", "B: int = 2\n", id="annotated-and-augmented"),
        pytest.param("A = B = 1\nC = A = D = 2\n", "A", "B = 1\nC = D = 2\n", id="chained"),
        pytest.param("A, B = 1, 2\nC = 3\n", "A", "B = 2\nC = 3\n", id="pair"),
        pytest.param("A, B, C = make()\n", "B", "A, _, C = make()\n", id="unpacked-call"),
        pytest.param("(A, B, C) = (1, 2, 3)\n", "A", "(B, C) = (2, 3)\n", id="parenthesized-tuple"),
        pytest.param("[A, B] = X = 1, 2\n", "A", "[_, B] = X = 1, 2\n", id="list-target-beside-another"),
        pytest.param("A = 1; B = 2; C = 3\n", "B", "A = 1; C = 3\n", id="semicolons-middle"),
        pytest.param("A = 1; B = 2  # both\n", "B", "A = 1  # both\n", id="semicolons-last"),
        pytest.param("if x: A = 1; B = 2\n", "A", "if x: B = 2\n", id="semicolons-after-if"),
        pytest.param(
            "match x:\n    case 1:\n        A = 1\n    case _:\n        A = B = 2\n",
            "A",
            "match x:\n    case 1:\n        pass\n    case _:\n        B = 2\n",
            id="match",
        ),
        pytest.param(
            "for i in x:\n    A = i\nelse:\n    A = 0\nwhile y:\n    A = 1\n    break\n",
            "A",
            "for i in x:\n    pass\nwhile y:\n    break\n",
            id="loops",
        ),
        pytest.param("with open(p) as f:\n    A = f.read()\nB = 1\n", "A", "B = 1\n", id="with"),
        pytest.param(
            'A = """\n# not a comment\nA = 2\n"""  # A\nB = "A = 1"  # A = 1\nC = {\n    "A": 1,  # A\n}\n',
            "A",
            'B = "A = 1"  # A = 1\nC = {\n    "A": 1,  # A\n}\n',
            id="only-code-counts",
        ),
        pytest.param(
            "class K:\n    A = 1\n    def f(self):\n        A = 2\nA = 3\n", "A", None, id="only-the-top-level"
        ),
        pytest.param('é = "ü"; A = "ä"; ö = 1  # ß\n', "A", 'é = "ü"; ö = 1  # ß\n', id="non-ascii"),
    ],
)
def test_excluded_names_go_and_nothing_else_does(
    work: Workspace, upstream: str, excluded: str, expected: str | None
) -> None:
    work.upstream(upstream)
    work.config(f"config.exclude_from_output({excluded!r})\n")
    assert work.raw() == (upstream.removesuffix("A = 3\n") if expected is None else expected)


def test_several_names_of_one_line_are_excluded(work: Workspace) -> None:
    work.upstream("A = 1; B = 2; C = 3\nD, E, F = 4, 5, (6)\nG, H = (7 if A else 8), 9\n")
    work.config("config.exclude_from_output('A', 'B', 'D', 'F', 'G')\n")
    made = run(work.raw().replace("if A", "if 1"))
    assert {name: value for name, value in made.items() if len(name) == 1} == {"C": 3, "E": 5, "H": 9}


def test_all_names_of_one_line_are_excluded(work: Workspace) -> None:
    work.upstream("A = 1; B = 2\nif x: A = 3; B = 4\nz = 1\n")
    work.config("config.exclude_from_output('A', 'B')\n")
    assert work.raw() == "z = 1\n"


@pytest.mark.parametrize(
    "upstream",
    [
        "with open(p) as A:\n    pass\n",
        "for A in range(3):\n    B = A\n",
        "(B, (A, C)) = 1, (2, 3)\n",
        "B, *A = 1, 2, 3\n",
    ],
    ids=["with", "for", "nested-tuple", "starred"],
)
def test_a_name_that_cannot_be_excluded_is_an_error(work: Workspace, upstream: str) -> None:
    """Or it is taken out: what must not happen is that it stays and nothing is said."""
    work.upstream(upstream)
    work.config("config.exclude_from_output('A')\n")
    with pytest.raises(PatchgenError, match="'A'"):
        work.raw()


def test_code_that_uses_an_excluded_name_is_named(work: Workspace) -> None:
    work.upstream("class A: ...\n\n\nclass B:\n    def f(self):\n        return A\n")
    work.config("config.exclude_from_output('A')\n")
    assert "exclude_from_output takes 'A' out, but upstream's 'B.f' still uses it" in work.errors()


# --- __all__ ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('__all__ = ["A", "B", "C"]\n', id="list"),
        pytest.param('__all__ = ["B", "A", "C"]\n', id="first"),
        pytest.param('__all__ = [\n    "A",\n    "C",\n    "B"\n]\n', id="last-of-lines"),
        pytest.param('__all__ = ["A",\n           "C",\n           "B"]\n', id="aligned"),
        pytest.param('__all__ = [\n    "A"  # a\n  , "B"  # b\n  , "C"\n]\n', id="comma-first"),
        pytest.param('__all__ = ("A", "B", "C")\n', id="tuple"),
        pytest.param('__all__ = "A", "B", "C"\n', id="bare-tuple"),
        pytest.param('__all__ = "A", \\\n    "C", \\\n    "B"\n', id="backslash"),
        pytest.param('__all__ = __names__ = ["A", "B", "C"]\n', id="chained"),
        pytest.param('__all__: "list[str]" = ["A", "B", "C"]\n', id="annotated"),
        pytest.param('__all__ = ["A"]\n__all__ += ["B", "C"]\n', id="augmented"),
        pytest.param('__all__ = ["A"] + ["B"] + ["C"]\n', id="sum"),
        pytest.param('__all__ = [*("A", "B"), "C"]\n', id="starred"),
        pytest.param('__all__ = ["A", "C"]\n__all__.append("B")\n', id="append"),
        pytest.param('__all__ = ["A", "C"]\n__all__.insert(0, "B")\n', id="insert"),
        pytest.param('__all__ = ["A", "C", "B"]\n__all__.remove("B")\n', id="remove"),
        pytest.param('__all__ = ["A"]\n__all__.extend(["B", "C"])\n', id="extend"),
        pytest.param('__all__ = ["A", "B"]\nif A:\n    __all__ += ["B"]\n__all__.append("C")\n', id="branch"),
        pytest.param('try:\n    import none_such\nexcept ImportError:\n    __all__ = ["A", "B", "C"]\n', id="try"),
        pytest.param('__all__ = ["A", "B", "C"] if A else ["B"]\n', id="conditional"),
        pytest.param('__all__ = sorted({"A", "B", "C"})\n', id="set"),
        pytest.param('__all__ = [n for n in ("A", "B", "C")]\n', id="comprehension"),
        pytest.param('__all__ = "A B C".split()\n', id="split"),
        pytest.param('__all__ = """\nA\nB\nC\n""".split()\n', id="split-lines"),
        pytest.param('__all__ = "A,C,B".split(",")\n', id="split-at-commas"),
        pytest.param('_names = ["A", "B", "C"]\n__all__ = _names\n', id="other-list"),
    ],
)
def test_excluded_name_leaves_every_form_of_all(work: Workspace, code: str) -> None:
    work.upstream(f"class A: ...\nclass B: ...\nclass C: ...\n{code}")
    work.config("config.exclude_from_output('B')\n")
    assert list(run(work.raw())["__all__"]) == ["A", "C"]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('__all__ = ("Long", "B")\n', id="last"),
        pytest.param('__all__ = ("B", "Long")\n', id="first"),
        pytest.param('__all__ = (\n    "B",\n    "Long"\n)\n', id="lines"),
        pytest.param('__all__ = "Long", "B"\n', id="bare"),
        pytest.param('__all__ = []\n__all__ += "B", "Long"\n', id="augmented"),
        pytest.param('__all__ = []\n__all__.extend(("B", "Long"))\n', id="extend"),
        pytest.param('__all__ = list(("B", "Long"))\n', id="call"),
        pytest.param('__all__ = [*("B", "Long")]\n', id="starred"),
    ],
)
def test_a_tuple_of_two_stays_a_tuple(work: Workspace, code: str) -> None:
    """``("Long")`` would be a text, whose letters are then exported."""
    work.upstream(f"class B: ...\nclass Long: ...\n{code}")
    work.config("config.exclude_from_output('B')\n")
    names = run(work.raw())["__all__"]
    assert type(names) in (list, tuple)
    assert list(names) == ["Long"]


def test_all_keeps_its_comments_and_other_lists_stay(work: Workspace) -> None:
    upstream = 'class A: ...\n_docs = ["A", "B"]\n__all__ = [  # names\n    "A",  # a\n    # b\n    "B",\n]\n'
    work.upstream(upstream + "B = 1\n")
    work.config("config.exclude_from_output('A')\n")
    assert work.raw() == '_docs = ["A", "B"]\n__all__ = [  # names\n    # b\n    "B",\n]\nB = 1\n'


# --- drop_import_names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        pytest.param("from m import k\nx = 1\n", "x = 1\n", id="alone"),
        pytest.param("from m import a, k, b\n", "from m import a, b\n", id="middle"),
        pytest.param("from m import a, k\n", "from m import a\n", id="last"),
        pytest.param("from m import k, a\n", "from m import a\n", id="first"),
        pytest.param("from m import (a, k)  # c\n", "from m import (a)  # c\n", id="parenthesized"),
        pytest.param(
            "from .m import (  # c\n    a,\n    # b\n    k,  # k\n    z as b,\n)\n",
            "from acme.models.toy.m import (  # c\n    a,\n    # b\n    z as b,\n)\n",
            id="lines",
        ),
        pytest.param(
            "from m import a, \\\n    k, \\\n    b\n", "from m import a, \\\n    \\\n    b\n", id="backslash"
        ),
        pytest.param("from m import a \\\n    , k\n", "from m import a\n", id="backslash-comma"),
        pytest.param("from m import k as z, z as k\n", "from m import k as z\n", id="by-the-bound-name"),
        pytest.param("import a.b, k.c\nimport k.d\n", "import a.b\n", id="dotted"),
        pytest.param("import a; import k; import b\n", "import a; import b\n", id="semicolons"),
        pytest.param("# licence\nimport k\nimport a\n", "# licence\nimport a\n", id="comment-above-stays"),
        pytest.param("if x(): from m import k\nelse: k = None\nz = 1\n", "z = 1\n", id="one-liners"),
        pytest.param(
            "if x():\n    from m import a, k\nelse:\n    a, k = None, None\n",
            "if x():\n    from m import a\nelse:\n    a = None\n",
            id="pair",
        ),
        pytest.param(
            "if x():\n    from m import a, k, b\nelse:\n    a, k, b = None, None, None\n",
            "if x():\n    from m import a, b\nelse:\n    a, b = None, None\n",
            id="three",
        ),
        pytest.param(
            "if x():\n    from m import a, k\nelse:\n    a = k = None\n",
            "if x():\n    from m import a\nelse:\n    a = None\n",
            id="chained",
        ),
        pytest.param(
            "if x():\n    from m import a, k\nelse:\n    k, *a = 1, 2\n",
            "if x():\n    from m import a\nelse:\n    _, *a = 1, 2\n",
            id="starred",
        ),
        pytest.param(
            "if x():\n    from m import a, b, k\nelse:\n    k, a, b = (1 if y else 2), 3, 4\n",
            "if x():\n    from m import a, b\nelse:\n    a, b = 3, 4\n",
            id="parenthesized-value",
        ),
        pytest.param(
            "if x():\n    from m import k\nelif y():\n    from n import k\nelse:\n    k = None\nz = 1\n",
            "z = 1\n",
            id="elif-all",
        ),
        pytest.param(
            "if x():\n    from m import a\nelif y():\n    from n import k\nelse:\n    a = None\n",
            "if x():\n    from m import a\nelif y():\n    pass\nelse:\n    a = None\n",
            id="elif-middle",
        ),
        pytest.param(
            "if x():\n    from m import a\nelif y():\n    from n import k\nz = 1\n",
            "if x():\n    from m import a\nz = 1\n",
            id="elif-last",
        ),
        pytest.param(
            "if x():\n    from m import k\nelif y():\n    from n import a\n",
            "if x():\n    pass\nelif y():\n    from n import a\n",
            id="elif-first",
        ),
        pytest.param(
            "if x():\n    from m import a\nelse:\n    if y():\n        from n import k\nz = 1\n",
            "if x():\n    from m import a\nz = 1\n",
            id="if-in-else",
        ),
        pytest.param(
            "try:\n    from m import k\nexcept ImportError:\n    k = None\n    log('no m')\nz = 1\n",
            "z = 1\n",
            id="try",
        ),
        pytest.param(
            "try:\n    from m import a, k\nexcept ImportError:\n    k = None\n    a = None\n",
            "try:\n    from m import a\nexcept ImportError:\n    a = None\n",
            id="try-beside-another",
        ),
        pytest.param(
            "try:\n    from m import k\nexcept ImportError:\n    k = None\nelse:\n    a = 1\nfinally:\n    done()\n",
            "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    a = 1\nfinally:\n    done()\n",
            id="try-else-finally",
        ),
        pytest.param(
            "try:\n    from m import k\n    a = 1\nexcept ImportError:\n    def k(): ...\n    class K: ...\n",
            "try:\n    a = 1\nexcept ImportError:\n    class K: ...\n",
            id="fallback-definition",
        ),
        pytest.param(
            "with suppress(ImportError):\n    import k\nz = 1\n",
            "z = 1\n",
            id="suppress",
        ),
        pytest.param(
            "if TYPE_CHECKING:\n    from m import k\nfrom m import k, a\nif x:\n    try:\n        import k\n"
            "    except ImportError:\n        k: object = None\nz = 1\n",
            "from m import a\nz = 1\n",
            id="every-place",
        ),
        pytest.param(
            "if x():\n    # fused\n    from m import k\n\n    READY = True\nelse:\n    k, READY = None, False\n",
            "if x():\n    # fused\n\n    READY = True\nelse:\n    READY = False\n",
            id="flag-stays",
        ),
        pytest.param(
            "if x():\n    from m import k\nelse:\n    raise ImportError('k')\n",
            "if x():\n    pass\nelse:\n    raise ImportError('k')\n",
            id="else-raises",
        ),
        pytest.param(
            "from m import k\ndef f(k):\n    from n import k\n    k = 1\n    return 'k'  # k\nclass A:\n    k = 1\n",
            "def f(k):\n    from n import k\n    k = 1\n    return 'k'  # k\nclass A:\n    k = 1\n",
            id="only-the-top-level",
        ),
    ],
)
def test_dropped_import_goes_with_its_fallbacks(work: Workspace, upstream: str, expected: str) -> None:
    work.upstream(upstream)
    work.config("config.drop_import_names('k')\n")
    text = work.raw()
    assert text == expected
    ast.parse(text)


def test_several_imports_of_one_line_are_dropped(work: Workspace) -> None:
    work.upstream("import a; import b; import c\nfrom m import d, e, f, g\n")
    work.config("config.drop_import_names('a', 'b', 'd', 'f', 'g')\n")
    assert ast.unparse(ast.parse(work.raw())) == "import c\nfrom m import e"


def test_a_fallback_beside_the_guarded_block_goes_too(work: Workspace) -> None:
    work.upstream("k = None\nif x():\n    from m import k\nif not x():\n    k = None\nz = 1\n")
    work.config("config.drop_import_names('k')\n")
    assert work.raw() == "z = 1\n"


def test_a_dropped_name_can_come_from_elsewhere(work: Workspace) -> None:
    work.upstream(
        """
        import math
        if hasattr(math, "none_such"):
            from math import floor as k
        if not hasattr(math, "none_such"):
            k = None


        def f():
            return k(1.5)
        """
    )
    work.config("config.drop_import_names('k')\nconfig.add_import('math', names=['ceil'], alias='k')\n")
    assert run(work.raw())["f"]() == 2


def test_a_patch_inside_a_block_that_is_left_empty_is_not_lost(work: Workspace) -> None:
    work.upstream("try:\n    from m import k\nexcept ImportError:\n    def k(): ...\n    def other(): ...\n")
    work.config(
        """
        config.drop_import_names("k")

        @config.replace_function("other")
        def fast():
            return 2
        """
    )
    try:
        text = work.raw()
    except PatchgenError as error:
        text = str(error)
    assert "other" in text


def test_dropping_a_name_that_upstream_defines_changes_nothing(work: Workspace) -> None:
    work.upstream("def k():\n    return 1\n")
    work.config("config.drop_import_names('k')\n")
    assert work.text().endswith("def k():\n    return 1\n")


def test_patch_of_a_fallback_that_goes_with_its_import_is_an_error(work: Workspace) -> None:
    work.upstream("try:\n    from fast import k\nexcept ImportError:\n    def k():\n        return 1\n")
    work.config("config.drop_import_names('k')\n@config.replace_function('k')\ndef k():\n    return 2\n")
    assert work.errors() == (
        "toy/toy_gpu_patch_gen_config.py:6: function_replacement k: its target is taken out with upstream's line 1\n"
        "  Remove the patch, or the drop_import_names or exclude_from_output that takes it out."
    )


def test_all_itself_can_be_excluded_with_what_it_lists(work: Workspace) -> None:
    work.upstream('class A: ...\n\n\nclass B: ...\n\n\n__all__ = ["A", "B"]\n')
    work.config("config.exclude_from_output('__all__', 'A')\n")
    assert work.raw().strip() == "class B: ..."


@pytest.mark.parametrize("listed", ['[("A")]', '[\n    ("A"),\n]', '["A"]'])
def test_last_listed_name_leaves_an_empty_list(work: Workspace, listed: str) -> None:
    work.upstream(f"class A: ...\n\n\nB = 1\n__all__ = {listed}\n")
    work.config("config.exclude_from_output('A')\n")
    assert work.raw().strip() == "B = 1\n__all__ = []"

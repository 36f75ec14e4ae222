"""`drop_import_names` takes imported names out."""

from __future__ import annotations

import ast

import pytest

from patchgen_core.errors import PatchgenError
from tests.conftest import Workspace, execute


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
    assert execute(work.raw())["f"]() == 2


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

"""Leaving upstream's definitions, constants and imports out."""

from __future__ import annotations

import pytest

from patchgen_core.errors import PatchgenError
from tests.conftest import Workspace, execute

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


@pytest.mark.parametrize(
    ("upstream", "excluded", "expected"),
    [
        pytest.param(
            "class A:\n    x = 1\n\n    # above\n    @deco\n    def f(self):\n        pass\n\n    def g(self): ...\n",
            "A.f",
            "class A:\n    x = 1\n\n\n    def g(self): ...\n",
            id="method-with-its-comments",
        ),
        pytest.param(
            "class A:\n    @property\n    def f(self): ...\n    @f.setter\n    def f(self, x): ...\n    y = 1\n",
            "A.f",
            "class A:\n    y = 1\n",
            id="property-and-setter",
        ),
        pytest.param(
            "class A:\n    def f(self): ...\n\n\nz = 1\n", "A.f", "class A:\n    pass\n\n\nz = 1\n", id="all"
        ),
    ],
)
def test_excluded_methods_go_and_their_class_stays(
    work: Workspace, upstream: str, excluded: str, expected: str
) -> None:
    work.upstream(upstream)
    work.config(f"config.exclude_from_output({excluded!r})\n")
    assert work.raw() == expected


def test_a_block_stands_below_the_definition_that_it_follows(work: Workspace) -> None:
    work.upstream("import os\n\n\nclass A: ...\n\n\nclass B: ...\n")
    work.config("config.add_block_after('A', '''\n    if os.sep:\n        A.sep = os.sep\n    ''')\n")
    module = execute(work.text())
    assert module["A"].sep == "/"
    text = work.text()
    assert text.index("class A") < text.index("A.sep = os.sep") < text.index("class B")


def test_several_names_of_one_line_are_excluded(work: Workspace) -> None:
    work.upstream("A = 1; B = 2; C = 3\nD, E, F = 4, 5, (6)\nG, H = (7 if A else 8), 9\n")
    work.config("config.exclude_from_output('A', 'B', 'D', 'F', 'G')\n")
    made = execute(work.raw().replace("if A", "if 1"))
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
    assert list(execute(work.raw())["__all__"]) == ["A", "C"]


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
    names = execute(work.raw())["__all__"]
    assert type(names) in (list, tuple)
    assert list(names) == ["Long"]


def test_all_keeps_its_comments_and_other_lists_stay(work: Workspace) -> None:
    upstream = 'class A: ...\n_docs = ["A", "B"]\n__all__ = [  # names\n    "A",  # a\n    # b\n    "B",\n]\n'
    work.upstream(upstream + "B = 1\n")
    work.config("config.exclude_from_output('A')\n")
    assert work.raw() == '_docs = ["A", "B"]\n__all__ = [  # names\n    # b\n    "B",\n]\nB = 1\n'

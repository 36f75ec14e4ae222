"""What stubs stand for while a config is loaded."""

from __future__ import annotations

import pytest

from tests.config.loading import load
from tests.conftest import Workspace

pytestmark = pytest.mark.usefixtures("toy_upstream")

ALLOWED = {
    "bases": "class A(nowhere.Module, nowhere.Mixin, nowhere.Other): ...",
    "a base beside a real one": "class A(nowhere.Module, dict): ...",
    "a subscripted base": "class A(nowhere.Generic[int]): ...",
    "a metaclass": "class A(metaclass=nowhere.Meta): ...",
    "a decorator": "@nowhere.script\ndef f(): ...\nassert f.__name__ == 'f'",
    "a called decorator": "@nowhere.compile(fullgraph=True)\ndef f(): ...\nassert f.__name__ == 'f'",
    "a class decorator": "@nowhere.register('a')\nclass A: ...\nassert A.__name__ == 'A'",
    "decorated property": "class A:\n    @nowhere.hook\n    @property\n    def x(self): ...\nA.x.fget",
    "union with None": "def f(x: nowhere.Tensor | None, y: None | nowhere.Tensor, z: int | nowhere.Tensor): ...",
    "Optional": "from typing import Optional\ndef f(x: Optional[nowhere.Tensor] = None): ...",
    "Union": "from typing import Union\ndef f(x: Union[nowhere.Tensor, nowhere.Cache, None] = None): ...",
    "Union of one twice": "from typing import Union\nX = Union[nowhere.Tensor, nowhere.Tensor]",
    "typing's Callable": "from typing import Callable\nX = Callable[[nowhere.Tensor], nowhere.Tensor]",
    "abc's Callable": "from collections.abc import Callable\nX = Callable[[nowhere.Tensor], nowhere.Tensor]",
    "Dict, List, Tuple": "from typing import Dict, List, Tuple\nX = Dict[str, List[Tuple[nowhere.A, ...]]]",
    "Annotated": "from typing import Annotated\nX = Annotated[nowhere.Tensor, nowhere.Shape]",
    "TypeVar": "from typing import TypeVar\nT = TypeVar('T', bound=nowhere.Module)",
    "Generic beside a base": "from typing import Generic, TypeVar\n"
    "T = TypeVar('T')\nclass A(nowhere.Module[int], Generic[T]): ...",
    "Unpack": "from nowhere.utils import Unpack\ndef f(**kwargs: Unpack[nowhere.A]) -> tuple[nowhere.A, ...]: ...",
    "dataclass": "from dataclasses import dataclass, field\n@dataclass\nclass A(nowhere.Output):\n"
    "    x: nowhere.Tensor | None = None\n    y: list[nowhere.A] = field(default_factory=list)\nA(x=1)",
    "enum": "import enum\nclass A(enum.Enum):\n    X = nowhere.float32\n    Y = nowhere.float16",
    "NamedTuple": "from typing import NamedTuple\nclass A(NamedTuple):\n    x: nowhere.Tensor\n    y: int = nowhere.B",
    "class attributes": "class A(nowhere.Module):\n    dtype = nowhere.float32\n    y = nowhere.Table(nowhere.X[0])",
    "dict keys": "X = {nowhere.float32: 1, nowhere.float16: 2}",
    "lists and tuples": "X = [nowhere.a, nowhere.b], (nowhere.c, *[nowhere.d])",
    "a lambda": "X = lambda: nowhere.a + 1",
    "a submodule": "import nowhere.nn.functional as F\nfrom nowhere.nn import functional\nX = F.gelu, functional.gelu",
    "a conditional import": "import importlib.util\nif importlib.util.find_spec('nowhere'):\n    import nowhere.extra",
    "TYPE_CHECKING": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nowhere import A",
}


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED)
def test_stubs_stand_for_what_configs_do_with_third_party_names(work: Workspace, text: str) -> None:
    work.config(f"import nowhere\n{text}\n")
    loaded = work.load()
    assert (loaded.mode, loaded.reason) == ("stubbed", "")


def test_dataclass_with_string_annotations(work: Workspace) -> None:
    text = """
    from __future__ import annotations

    import dataclasses
    from typing import ClassVar

    import nowhere
    from patchgen import PatchConfig

    config = PatchConfig("acme.models.toy.modeling_toy", "a.py")


    @config.add_helper
    @dataclasses.dataclass
    class Output(nowhere.ModelOutput):
        loss: nowhere.Tensor | None = None
        names: ClassVar[list[str]] = []
        rest: nowhere.Tensor = dataclasses.field(default=None)


    assert [f.name for f in dataclasses.fields(Output)] == ["loss", "rest"]
    """
    assert load(work, text, preamble="").mode == "stubbed"


USES = {
    "if third.FLAG: pass": "it tests the truth of third.FLAG",
    "third.FLAG and 1": "it tests the truth of third.FLAG",
    "len(third.NAMES)": "it takes the length of third.NAMES",
    "for _ in third.NAMES: pass": "it iterates over third.NAMES",
    "[*third.NAMES]": "it iterates over third.NAMES",
    "'a' in third.NAMES": "it iterates over third.NAMES",
    "dict(**third.TABLE)": "it iterates over third.TABLE.keys()",
    "third.NUMBER == 3": "it compares third.NUMBER",
    "third.NUMBER in (1, 3)": "it compares third.NUMBER",
    "third.__version__ >= '1'": "it compares third.__version__",
    "max(third.NUMBER, 1)": "it compares third.NUMBER",
    "third.NUMBER + 1": "it computes with third.NUMBER",
    "2 * third.NUMBER": "it computes with third.NUMBER",
    "-third.NUMBER": "it computes with third.NUMBER",
    "range(third.NUMBER)": "it needs the number or text of third.NUMBER",
    "[1, 2, 3, 4][third.NUMBER]": "it needs the number or text of third.NUMBER",
    "f'{third.NAME}'": "it needs the number or text of third.NAME",
    "'%s' % third.NAME": "it needs the number or text of third.NAME",
    "f'{third.NAME!r}'": "it needs the number or text of third.NAME",
    "repr([third.NAME])": "it needs the number or text of third.NAME",
    "hasattr(third, 'NAME')": "it asks for an attribute of third",
    "getattr(third, 'nothing', None)": "it asks for an attribute of third",
    "callable(third.deco)": "it asks whether it can call third.deco",
    "vars(third)": "it lists the names of third",
    "isinstance(3, third.Kind)": "it checks the type with third.Kind",
    "issubclass(int, third.Kind)": "it checks the type with third.Kind",
    "isinstance(third.NUMBER, int)": "it checks the type of third.NUMBER",
    "third.TABLE['a'] = 1": "it sets an item of third.TABLE",
    "third.Kind.x = 1": "it sets x on third.Kind",
    "from third import *": "it imports every name of third",
    "config.replace_class('Norm', third.Base)": "it copies the source of third.Base",
    "config.add_helper(third.deco)": "it copies the source of third.deco",
}


@pytest.mark.usefixtures("third")
@pytest.mark.parametrize("use", USES)
@pytest.mark.mostly_slow(16)
def test_a_value_that_stubs_lack_is_imported_for_real(work: Workspace, use: str) -> None:
    work.config(f"import third\n{use}\n")
    loaded = work.load()
    assert (loaded.mode, loaded.reason) == ("imported", USES[use])


@pytest.mark.usefixtures("third")
@pytest.mark.parametrize(
    ("declaration", "visible"),
    [
        ("config.exclude_from_output(third.NAME)", "#  Excluded:\n#    - unused\n"),
        ("config.exclude.append(third.NAME)", "#  Excluded:\n#    - unused\n"),
        ("config.add_post_import_block(third.CODE)", "EXTRA = 1\n"),
        ("config.post_import_blocks.append(third.CODE)", "EXTRA = 1\n"),
        ("config.description = third.CODE", "#  EXTRA = 1\n"),
        ("config.transformers_version = third.__version__", "Based on: acme==1.0\n"),
        ("config.replace_function('rotate', turn, description=third.CODE)", "# Reason: EXTRA = 1\n"),
        (
            "config.patches.append(create_patch_from_external('Norm', third.__name__, third.NAME))",
            "import unused as Norm",
        ),
    ],
)
def test_a_third_party_value_in_a_declaration_is_its_real_value(
    work: Workspace, declaration: str, visible: str
) -> None:
    work.config(f"import third\ndef turn(x, y):\n    return x\n{declaration}\n")
    assert visible in work.text()

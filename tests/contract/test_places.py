"""The line of the config and the line of the generated module that a finding names."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.errors import Location, Problem
from tests.conftest import CONFIG, PREAMBLE, UPSTREAM, Workspace
from tests.contract.support import examine, made

TEXT = """
import functools


def scaled(x, scale):
    return x * scale


class Norm:
    def __init__(self, size):
        self.size = size

    @property
    def width(self):
        return self.size

    @width.setter
    def width(self, value):
        self.size = value

    def forward(self, x):
        return scaled(x, 2)


class Head:
    def forward(self, x):
        return scaled(x, 3)
"""
SIBLING = "toy/toy_npu_patch_gen_config.py"
SIBLING_PREAMBLE = f"""
from patchgen import PatchConfig

from .toy_gpu_patch_gen_config import *
from .toy_gpu_patch_gen_config import config as gpu_config

config = PatchConfig("{UPSTREAM}", "patched_modeling_toy_npu.py")
"""


@pytest.fixture
def toy(work: Workspace) -> Workspace:
    """A project whose upstream has a function that misfits can call."""
    work.upstream(TEXT)
    return work


def problem(work: Workspace, path: str = CONFIG, code: str = "PG202") -> Problem:
    """The one finding of a rule."""
    verdict = examine(work, path, select=[code])
    (found,) = (*verdict.errors, *verdict.warnings)
    return found


def line_of(location: Location | None, text: str | None = None) -> str:
    """The text of a place's line, in its file unless ``text`` is given."""
    assert location is not None
    text = Path(location.file).read_text(encoding="utf-8") if text is None else text
    return text.splitlines()[location.line - 1].strip()


def lines(work: Workspace, path: str = CONFIG, code: str = "PG202") -> tuple[str, str]:
    """The line of the config and the line of the generated module that the one finding of a rule names."""
    found = problem(work, path, code)
    assert found.generated is not None
    return line_of(found.location), line_of(found.generated.location, made(work, path).text)


BODIES = {
    "method": """
        @config.override_method("Norm.forward")
        def forward(self, x):
            y = x + 1
            return scaled(y)  # here
    """,
    "function": """
        @config.replace_function("scaled")
        def fast_scaled(x, scale):
            if scale == 1:
                return x

            def inner(y):
                return scaled(y)  # here

            return inner(x)
    """,
    "decorators and comments": """
        # Why it is replaced.
        @functools.cache
        # More of it.
        @config.override_method("Norm.forward")
        # And more.
        def forward(
            self,
            x,  # a comment
        ):
            # A comment that stays.
            y = (
                # Another.
                x
            )
            return scaled(y)  # here
    """,
    "docstring and text at the margin": '''
@config.override_method("Norm.forward")
def forward(self, x):
    """One line.

        More of them, indented.
    """
    text = """
at the margin
"""
    return scaled(x)  # here
''',
    "indented deeper": """
        if True:
            class Holder:
                class Inner:
                    def forward(self, x):
                        for y in x:
                            scaled(y)  # here

        config.override_method("Norm.forward", replacement=Holder.Inner.forward)
    """,
    "class": """
        @config.replace_class("Norm")
        class FastNorm:
            def __init__(self, size):
                self.size = size

            # What it is for.
            def forward(self, x):
                return scaled(x, 2)

            def backward(self, x):
                return scaled(x)  # here
    """,
    "class that calls itself": """
        @config.replace_class("Norm")
        class FastNorm:
            def __init__(self, size):
                self.size = size

            def forward(self, x):
                FastNorm()  # here
                return scaled(x, 2)
    """,
    "property": """
        @config.override_method("Norm.width")
        @property
        def width(self):
            return scaled(self.size)  # here
    """,
    "setter": """
        @config.override_method("Norm.width.setter")
        def width(self, value):
            self.size = scaled(value)  # here
    """,
    "class with a getter and a setter": """
        @config.replace_class("Norm")
        class FastNorm:
            def __init__(self, size):
                self.size = size

            @property
            def width(self):
                return self.size

            @width.setter
            def width(self, value):
                self.size = scaled(value)  # here

            def forward(self, x):
                return x
    """,
    "init": """
        @config.modify_init("Norm")
        def norm_init(original_init, self, size):
            original_init(self, size)
            self.scale = scaled(size)  # here
    """,
    "added method": """
        @config.override_method("Head.backward")
        def backward(self, x):
            x = x + 1
            return scaled(x)  # here
    """,
    "name map": """
        def heads(self, x):
            y = self.heads_of_head
            return scaled(y)  # here

        config.override_method("Norm.forward", replacement=heads, name_map={"head": "norm"})
    """,
    "helper": """
        @config.add_helper
        def rescaled(x):
            y = x + 1
            return scaled(y)  # here

        @config.override_method("Norm.forward")
        def forward(self, x):
            return rescaled(x)
    """,
    "helper that is a class": """
        @config.add_helper_after("Norm")
        class Helper(Norm):
            def __init__(self, size):
                self.scale = scaled(size)  # here

        @config.override_method("Head.forward")
        def forward(self, x):
            return Helper(x)
    """,
    "import that ruff takes out": """
        @config.override_method("Norm.forward")
        def forward(self, x):
            import math
            if x:
                return scaled(x, 1)
            return scaled(x)  # here
    """,
    "semicolons": """
        @config.override_method("Norm.forward")
        def forward(self, x): y = x; return scaled(y)  # here
    """,
    "quotes that ruff changes": """
        @config.override_method("Norm.forward")
        def forward(self, x):
            y = {'a':x,'b':[x,x]}
            return scaled( ( y ) )  # here
    """,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.mostly_slow(8)
def test_finding_names_the_line_of_the_code_itself(toy: Workspace, body: str) -> None:
    toy.config(body, preamble=f"{PREAMBLE}\nimport functools\nfrom {UPSTREAM} import Norm\n")
    ours, theirs = lines(toy)
    assert ours.endswith("# here")
    assert theirs == ours.rpartition("; ")[2].replace("( ( y ) )", "((y))").replace("FastNorm", "Norm")


# --- code that stands elsewhere --------------------------------------------------------------------


DEFECT = """
def scale_once(self, x):
    return scaled(x)
"""


@pytest.mark.parametrize("more", ["", ", name_map={'Toy': 'Other'}"], ids=["plain", "renamed"])
def test_code_of_a_sibling_config_is_told_at_the_declaration(toy: Workspace, more: str) -> None:
    toy.config(DEFECT)
    declaration = f"config.override_method('Norm.forward', replacement=scale_once{more})"
    toy.config(f"{declaration}\n", SIBLING, SIBLING_PREAMBLE)
    assert lines(toy, SIBLING) == (declaration, "return scaled(x)")
    found = problem(toy, SIBLING)
    assert found.location is not None
    assert found.location.file == str(toy.models / SIBLING)


def test_patches_that_a_config_takes_over_are_told_where_they_were_declared(toy: Workspace) -> None:
    path = toy.config(f"{DEFECT}\nconfig.override_method('Norm.forward', replacement=scale_once)\n")
    toy.config("config.patches.extend(gpu_config.patches)\n", SIBLING, SIBLING_PREAMBLE)
    found = problem(toy, SIBLING)
    assert found.location is not None
    assert found.location.file == str(path)
    assert line_of(found.location) == "config.override_method('Norm.forward', replacement=scale_once)"


def test_helpers_that_a_config_takes_over_are_told_where_they_were_declared(toy: Workspace) -> None:
    toy.config("\n@config.add_helper\ndef rescaled(x):\n    return scaled(x)\n")
    use = "\n@config.override_method('Head.forward')\ndef forward(self, x):\n    return rescaled(x)\n"
    toy.config(f"config.helpers.extend(gpu_config.helpers)\n{use}", SIBLING, SIBLING_PREAMBLE)
    assert lines(toy, SIBLING) == ("@config.add_helper", "return scaled(x)")


BLOCKS = """
config.add_post_import_block("first = 1")
config.add_post_import_block(
    '''
    def rescaled(x):
        return scaled(x)
    '''
)

@config.override_method("Head.forward")
def forward(self, x):
    return rescaled(x) + first
"""


def test_code_of_a_post_import_block_is_told_at_its_line(toy: Workspace) -> None:
    toy.config(BLOCKS)
    assert lines(toy) == ("return scaled(x)", "return scaled(x)")


def test_code_of_upstream_is_told_at_the_patch_that_it_misfits(toy: Workspace) -> None:
    toy.config("\n@config.replace_function('scaled')\ndef fast(x, scale, more):\n    return x * scale\n")
    found = examine(toy, select=["PG202"]).errors
    text = made(toy).text
    shown = [line_of(p.generated.location, text) for p in found if p.generated is not None]
    assert shown == ["return scaled(x, 2)", "return scaled(x, 3)"]
    assert {line_of(p.location) for p in found} == {"@config.replace_function('scaled')"}


def test_code_of_upstream_that_no_patch_touches_is_told_at_the_config(toy: Workspace) -> None:
    toy.upstream(TEXT.replace("scaled(x, 3)", "scaled(x)"))
    toy.config("config.add_post_import_block('first = 1')\n")
    assert lines(toy) == (f'config = PatchConfig("{UPSTREAM}", "patched_modeling_toy_gpu.py")', "return scaled(x)")


def test_what_is_not_in_the_generated_module_is_told_by_the_config_alone(toy: Workspace) -> None:
    toy.config("config.add_import('math')\n")
    found = problem(toy, code="PG214")
    assert (line_of(found.location), found.generated) == ("config.add_import('math')", None)


# --- how it is shown -------------------------------------------------------------------------------


def test_finding_shows_both_places_and_what_to_do(toy: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.root)
    toy.config("""
        @config.override_method("Norm.forward")
        def forward(self, x):
            y = x + 1
            return scaled(y)
    """)
    assert str(problem(toy)) == SHOWN


SHOWN = """\
proj/models/toy/toy_gpu_patch_gen_config.py:9: PG202 'Norm.forward' calls 'scaled' and does not pass 'scale': \
it takes (x, scale)
  Change the call, or give 'scaled' the parameters that its callers pass.
        7 | def forward(self, x):
        8 |     y = x + 1
  >     9 |     return scaled(y)
       10 | 
  proj/models/toy/generated/patched_modeling_toy_gpu.py:37:
       35 |     def forward(self, x):
       36 |         y = x + 1
  >    37 |         return scaled(y)
       38 | """


def test_findings_come_in_the_order_of_the_configs_lines(toy: Workspace) -> None:
    toy.config("""
        @config.override_method("Head.forward")
        def head(self, x):
            return scaled(x)

        @config.override_method("Norm.forward")
        def norm(self):
            return scaled(1)
    """)
    found = examine(toy, select=["PG201", "PG202"]).errors
    assert [(p.location.line if p.location else 0, p.code) for p in found] == [
        (8, "PG202"),
        (11, "PG201"),
        (12, "PG202"),
    ]


# --- calls over several lines ----------------------------------------------------------------------

FORWARD = '@config.override_method("Norm.forward")~def forward(self, x):~    '


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ('config.exclude_from_output(|"scaled",|"skaled",~)', '"skaled",'),
        ('config.exclude_from_output(|*["scaled",|"skaled"],~)', '"skaled"],'),
        ('config.drop_import_names(|"functools",|"functolls",~)', '"functolls",'),
        ('@config.override_method(|"Norm.forwrad",|description="x",~)~def f(self, x):~    pass', '"Norm.forwrad",'),
        ('config.override_method(|"Nrom.forward",|replacement=print,~)', '"Nrom.forward",'),
        ('config.add_post_import_block(|"""|MOST = 3|LAST = MSOT + 1|"""~)', "LAST = MSOT + 1"),
        (f"{FORWARD}return print(|x,|sacled,|)", "sacled,"),
        ('config.exclude_from_output(|"skaled",|"scaled",|"skaled",~)', "config.exclude_from_output("),
    ],
)
def test_an_error_stands_at_the_argument_that_it_names(toy: Workspace, config: str, line: str) -> None:
    toy.config(config.replace("|", "\n    ").replace("~", "\n") + "\n")
    [problem] = toy.outcome().problems
    assert line_of(problem.location) == line
    assert problem.location is not None
    assert f"{CONFIG}:{problem.location.line}: " in toy.errors()


@pytest.mark.parametrize(
    ("config", "code", "line"),
    [
        (f"{FORWARD}return scaled(|x,|2,|rate=3,|)", "PG202", "rate=3,"),
        (f"{FORWARD}return scaled(|x,|)", "PG202", "return scaled("),
        ('config.allow(|"PG299",|"no reason",~)', "PG200", '"PG299",'),
    ],
)
def test_a_finding_stands_at_the_argument_that_it_names(toy: Workspace, config: str, code: str, line: str) -> None:
    toy.config(config.replace("|", "\n    ").replace("~", "\n") + "\n")
    assert line_of(problem(toy, code=code).location) == line

"""Replacements that repeat upstream's text become edits, and the code stays the same."""

from __future__ import annotations

import json
import textwrap

import pytest

from patchgen_core.authoring.slim.slim import Slimmed, slim
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.definitions import compare_code, read_definitions
from tests.authoring.slimmed import BODY, HEAD, UPSTREAM_TEXT, config_text
from tests.conftest import CONFIG, PREAMBLE, Workspace, generated

CASES = {
    "guard": (
        (BODY, f"    if self.fused:\n        return self.fused(x)\n{BODY}"),
        '@config.edit_method("Layer.forward", description="Faster")\n'
        "def fast(self, x):\n    if self.fused:\n        return self.fused(x)\n    ...\n",
    ),
    "after": (
        ("    x = self.norm(x)\n", "    x = self.norm(x)\n    # all of them\n    x = gather(x)\n"),
        '@config.edit_method("Layer.forward", at="x = self.norm(...)", description="Faster")\n'
        "def fast(x):\n    ...\n    # all of them\n    x = gather(x)\n",
    ),
    "comments around": (
        ("    x = self.norm(x)\n", "    x = self.norm(x)\n    # begin\n    x = gather(x)\n    # end\n"),
        '@config.edit_method("Layer.forward", at="x = self.norm(...)", description="Faster")\n'
        "def fast(x):\n    ...\n    # begin\n    x = gather(x)\n    # end\n",
    ),
    "inside": (
        ("        x = x + 1\n", "        x = x + 1\n        log(x)\n"),
        '@config.edit_method("Layer.forward", at="x = x + 1", description="Faster")\n'
        "def fast(x):\n    ...\n    log(x)\n",
    ),
    "around": (
        ("    x = residual + x\n", "    if self.adds:\n        x = residual + x\n    else:\n        x = mix(x)\n"),
        '@config.edit_method("Layer.forward", at="x = residual + x", description="Faster")\n'
        "def fast(self, x):\n    if self.adds:\n        ...\n    else:\n        x = mix(x)\n",
    ),
    "around, with a comment": (
        (
            "    x = residual + x\n",
            "    # its own sum\n    if self.adds:\n        x = residual + x\n    else:\n        x = mix(x)\n",
        ),
        '@config.edit_method("Layer.forward", at="x = residual + x", description="Faster")\n'
        "def fast(self, x):\n    # its own sum\n    if self.adds:\n        ...\n    else:\n        x = mix(x)\n",
    ),
    "instead": (
        ("    x = residual + x\n", "    x = add(residual, x)\n"),
        '@config.edit_method("Layer.forward", at="x = residual + x", description="Faster")\n'
        "def fast(x, residual):\n    x = add(residual, x)\n",
    ),
    "argument": (
        ("        scale=self.scale,\n", "        scale=self.scale,\n        causal=True,\n"),
        'config.replace_code(\n    "Layer.forward",\n    "self.attention(...)",\n'
        '    "self.attention(..., causal=True)",\n    description="Faster",\n)\n',
    ),
    "argument changed": (
        ("        scale=self.scale,\n", "        scale=2,\n"),
        'config.replace_code(\n    "Layer.forward",\n    "self.attention(..., scale=self.scale)",\n'
        '    "self.attention(..., scale=2)",\n    description="Faster",\n)\n',
    ),
    "deleted": (
        ("    x = self.norm(x)\n", ""),
        'config.delete_code("Layer.forward", "x = self.norm(...)", description="Faster")\n',
    ),
}


def _slimmed(work: Workspace, replacement: str, head: str = HEAD) -> Slimmed:
    """What becomes of a config with one patch; the code stays the same, which is looked at here."""
    work.upstream(UPSTREAM_TEXT)
    work.config(f"{head}{replacement}")
    assert work.patchgen("--all", "--diff").returncode == 0
    before = read_definitions(generated(work).read_text())
    [result] = slim(Selection(work.project))
    assert not compare_code(before, read_definitions(generated(work).read_text()))
    assert work.check().exit_code == 0
    return result


@pytest.mark.parametrize("name", CASES)
@pytest.mark.mostly_slow(2)
def test_a_change_becomes_the_edit_that_says_it(work: Workspace, name: str) -> None:
    (old, new), expected = CASES[name]
    text = f"def fast(self, x, mask=None, **kwargs):\n{BODY}"
    assert old in text
    result = _slimmed(work, text.replace(old, new))
    assert result.left == ()
    assert config_text(work) == f"{PREAMBLE}# Why it is so\n{expected}"
    [patch] = result.patches
    assert patch.after < patch.before


def test_another_branch_and_an_item_of_a_dict_are_edits_of_their_own(work: Workspace) -> None:
    body = """    x = x * 1
    x = x * 2
    x = x * 3
    x = x * 4
    x = x * 5
    x = x * 6
    x = x * 7
    x = x * 8
    x = x * 9
    if x.ends:
        y = head(x)
        x = x + y
    options = {
        "x": x,
        "mask": None,
        "scale": 1,
    }
    x = x + 1
    x = x + 2
    x = x + 3
    x = x + 4
    x = x + 5
    return mix(**options)
"""
    new = body.replace("    x = x + y\n", "    y = add(y)\n        x = x + y\n    elif fused:\n        x = x * 0\n")
    new = new.replace('"x": x', '"x": gather(x)').replace("    options", "    log(x)\n    options")
    work.upstream(f"from lib import add, fused, gather, head, log, mix\n\n\ndef rotate(x):\n{body}")
    work.config(f"@config.replace_function('rotate')\ndef fast(x):\n{new}")
    assert work.patchgen("--all", "--diff").returncode == 0
    [result] = slim(Selection(work.project))
    assert (result.left, len(result.patches), work.check().exit_code) == ((), 1, 0)
    text = config_text(work).removeprefix(PREAMBLE)
    assert [text.count(line) for line in ("head(x)", "x + y", '"mask": None', "return")] == [0, 0, 0, 0]
    assert '@config.edit_function("rotate", at="if x.ends:")\ndef call_log(x):\n    ...\n    log(x)\n' in text
    assert "    if ...:\n        ...\n    elif fused:\n        x = x * 0\n" in text
    assert """'"x": x', '"x": gather(x)'""" in text


def test_several_changes_become_an_edit_each(work: Workspace) -> None:
    text = f"def fast(self, x, mask=None, causal=True, **kwargs):\n{BODY}"
    text = text.replace("        x = x * 3\n", "        x = x * 4\n").replace(
        "    return x\n", "    return x, weights\n"
    )
    result = _slimmed(work, text)
    assert len(result.patches) == 1
    assert [line for line in config_text(work).split("\n") if line.startswith(("@config", "def ", "config.add"))] == [
        'config.add_parameter("Layer.forward", "causal=True", after="mask", description="Faster")',
        '@config.edit_method("Layer.forward", at="x = x * 3")',
        "def fast(x):",
        '@config.edit_method("Layer.forward", at="return x")',
        "def fast_3(x, weights):",
    ]


def test_imports_that_only_the_replacement_needed_go(work: Workspace) -> None:
    work.config("")
    path = work.models / CONFIG
    text = f"def fast(self, x, mask=None, **kwargs: Extra):\n{BODY}".replace("    return x\n", "    return +x\n")
    _slimmed(work, text, f"from lib import Extra, Kept\n\n{HEAD}")
    assert "from lib import Kept\n" in path.read_text()


@pytest.mark.parametrize(
    ("replacement", "reason"),
    [
        (
            f"def fast(self, x, mask=None):\n{BODY.replace('        **kwargs,', '')}",
            "no edit takes out upstream's 'kwargs'",
        ),
        (f"def fast(self, x, mask=1, **kwargs):\n{BODY}", "its parameter 'mask' has another default"),
        (
            f"def fast(self, x, mask=None, **kwargs):\n{BODY.replace('return x', 'return +x')}\n\n"
            'config.override_method("Layer.backward", fast, add=True)\n',
            "upstream has no single text of 'Layer.backward' to edit",
        ),
    ],
)
def test_what_edits_cannot_say_stays_and_is_told(work: Workspace, replacement: str, reason: str) -> None:
    result = _slimmed(work, replacement)
    assert result.patches == ()
    assert f"Layer.forward: {reason}" in result.left
    assert config_text(work) == f"{PREAMBLE}{HEAD}{replacement}"


def test_new_code_stays_a_replacement(work: Workspace) -> None:
    result = _slimmed(work, "def fast(self, x, mask=None, **kwargs):\n    return kernel(x, self.weight, mask)\n")
    assert (result.patches, result.left) == ((), ())


def test_a_replacement_may_have_the_name_of_its_target(work: Workspace) -> None:
    head = '@config.replace_function("turn")\n'
    result = _slimmed(work, "def turn(q, k):\n    q = q * 4\n    k = k + 2\n    return q + 1, k\n", head)
    assert [patch.targets for patch in result.patches] == [("turn",)]


def test_decorators_that_a_replacement_takes_away_are_dropped(work: Workspace) -> None:
    head = '@config.replace_function("rotate", description="Other")\n'
    body = "    q = q * 2\n    k = k * 2\n    q = q + 1\n    k = k + 1\n    return q, k\n"
    _slimmed(work, f"def turn(q, k):\n    log(q)\n{body}", head)
    assert config_text(work) == (
        f'{PREAMBLE}@config.edit_function("rotate", description="Other")\ndef turn(q):\n    log(q)\n    ...\n'
        '\n\nconfig.drop_decorators("rotate", "decorator")\n'
    )


TWINS = """
class Block:
    def forward(self, x, mask, scale):
        residual = x
        x = self.attention(x, mask=mask, scale=scale)
        x = residual + x
        residual = x
        # Fully connected
        x = self.feed(x, scale=scale)
        # once more
        x = residual + x
        x = self.norm(x)
        return self.out(x)
"""


@pytest.mark.parametrize(
    ("changed", "edit"),
    [
        (
            "        x = mix(residual, x)\n",
            "    x = self.feed(x, scale=scale)\n    # once more\n    x = mix(residual, x)\n",
        ),
        ("", "    x = self.feed(x, scale=scale)\n    # once more\n"),
    ],
    ids=["changed", "deleted"],
)
def test_a_statement_beside_it_tells_one_of_two_equal_ones(work: Workspace, changed: str, edit: str) -> None:
    work.upstream(f"from lib import mix\n{TWINS}")
    first, _, last = TWINS.partition("class Block:\n")[2].rpartition("        x = residual + x\n")
    work.config(f'@config.override_method("Block.forward")\n{textwrap.dedent(first + changed + last)}')
    work.patchgen("--all")
    before = read_definitions(generated(work).read_text())
    [result] = slim(Selection(work.project))
    assert [patch.targets for patch in result.patches] == [("Block.forward",)]
    assert 'at="""\n    x = self.feed(...)\n    x = residual + x\n    """' in config_text(work)
    assert config_text(work).endswith(f":\n{edit}")
    assert not compare_code(before, read_definitions(generated(work).read_text()))


def test_edits_may_be_as_long_where_they_repeat_much_less(work: Workspace) -> None:
    head, guard = '@config.replace_function("rotate")\n', "    if q is k:\n        return mix(q)\n"
    short, long = "    q = q * 4\n    k = k + 2\n", "    q = q * 2\n    k = k * 2\n    q = q + 1\n    k = k + 1\n"
    result = _slimmed(work, f"def turn(q, k):\n{guard * 5}{long}    return q, k\n", head)
    assert [(patch.before, patch.after) for patch in result.patches] == [(17, 14)]
    text = f"def turn(q, k):\n{guard * 3}{short}    return q, k\n"
    result = _slimmed(work, text, head.replace("rotate", "turn"))
    assert result.patches == ()


def test_parameters_that_a_replacement_lacks_are_removed(work: Workspace) -> None:
    text = f"def fast(self, x, **kwargs):\n{BODY}".replace("        mask=mask,\n", "").replace("if mask", "if x")
    _slimmed(work, text)
    assert 'config.remove_parameter("Layer.forward", "mask", description="Faster")\n' in config_text(work)


DOCUMENTED = """
from lib import auto_docstring, norm, pool


class Layer:
    @auto_docstring
    def forward(self, x):
        x = norm(x)
        x = norm(x, 2)
        x = x + norm(x, 5)
        x = x + norm(x, 6)
        x = x + norm(x, 7)
        x = x + norm(x, 8)
        x = x + norm(x, 9)
        x = norm(x, 3)
        x = norm(x, 4)
        return x
"""


def test_what_a_docstring_says_of_a_new_parameter_comes_along(work: Workspace) -> None:
    work.upstream(DOCUMENTED)
    body = DOCUMENTED.partition("(self, x):\n")[2].replace("\n    ", "\n").removeprefix("    ")
    text = body.replace("norm(x, 4)", "pool(x, sizes)")
    docstring = '    r"""\n    sizes (`list`):\n        Of all pictures.\n\n    Returns:\n        x\n    """\n'
    work.config(f"{HEAD}def fast(self, x, sizes=None):\n{docstring}{text}")
    assert work.patchgen("--all", "--diff").returncode == 0
    [result] = slim(Selection(work.project))
    assert len(result.patches) == 1
    assert '    documentation="""\n    sizes (`list`):\n        Of all pictures.\n    """,\n' in config_text(work)
    assert (
        '        r"""\n        sizes (`list`):\n            Of all pictures.\n        """\n'
        in generated(work).read_text()
    )


def test_check_says_what_would_be_done_and_writes_nothing(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(f"{HEAD}def fast(self, x, mask=None, **kwargs):\n{BODY.replace('return x', 'return +x')}")
    assert work.patchgen("--all", "--diff").returncode == 0
    before = config_text(work)
    done = work.patchgen("slim", "--check")
    assert done.returncode == 1
    assert done.stdout.endswith("1 replacement would become edits, 16 lines less.\n")
    assert config_text(work) == before
    data = json.loads(work.patchgen("slim", "--json").stdout)
    assert data["configs"][0]["patches"] == [{"targets": ["Layer.forward"], "line": 7, "before": 19, "after": 3}]
    assert work.patchgen("slim", "--check").returncode == 0

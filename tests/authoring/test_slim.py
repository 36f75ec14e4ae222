"""Replacements that repeat upstream's text become edits, and the code stays the same."""

from __future__ import annotations

import json

import pytest

from patchgen_core.authoring.slim.slim import Slimmed, slim
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.definitions import compare_code, read_definitions
from tests.conftest import CONFIG, PREAMBLE, UPSTREAM, Workspace, generated

UPSTREAM_TEXT = '''
from lib import Extra, add, decorator, gather, kernel, log, mix


class Layer:
    def forward(self, x, mask=None, **kwargs: Extra):
        """Runs it."""
        residual = x
        # The norm of all
        x = self.norm(x)
        x, weights = self.attention(
            x,
            mask=mask,
            scale=self.scale,
            **kwargs,
        )
        if mask is None:
            x = x * 2
            x = x + 1
        else:
            x = x * 3
        for name in self.names:
            x = self.parts[name](x)
        x = residual + x
        return x


@decorator
def rotate(q, k):
    q = q * 2
    k = k * 2
    return q, k


def turn(q, k):
    q = q * 4
    k = k + 2
    return q, k
'''
BODY = """        residual = x
        x = self.norm(x)
        x, weights = self.attention(
            x,
            mask=mask,
            scale=self.scale,
            **kwargs,
        )
        if mask is None:
            x = x * 2
            x = x + 1
        else:
            x = x * 3
        for name in self.names:
            x = self.parts[name](x)
        x = residual + x
        return x
""".replace("\n    ", "\n").removeprefix("    ")
HEAD = '# Why it is so\n@config.override_method("Layer.forward", description="Faster")\n'
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


def _config(work: Workspace) -> str:
    return (work.models / CONFIG).read_text()


@pytest.mark.parametrize("name", CASES)
def test_a_change_becomes_the_edit_that_says_it(work: Workspace, name: str) -> None:
    (old, new), expected = CASES[name]
    text = f"def fast(self, x, mask=None, **kwargs):\n{BODY}"
    assert old in text
    result = _slimmed(work, text.replace(old, new))
    assert result.left == ()
    assert _config(work) == f"{PREAMBLE}# Why it is so\n{expected}"
    [patch] = result.patches
    assert patch.after < patch.before


def test_several_changes_become_an_edit_each(work: Workspace) -> None:
    text = f"def fast(self, x, mask=None, causal=True, **kwargs):\n{BODY}"
    text = text.replace("        x = x * 3\n", "        x = x * 4\n").replace(
        "    return x\n", "    return x, weights\n"
    )
    result = _slimmed(work, text)
    assert len(result.patches) == 1
    assert [line for line in _config(work).split("\n") if line.startswith(("@config", "def ", "config.add"))] == [
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
        (f"def fast(self, x, **kwargs):\n{BODY}".replace("mask", "x"), "it lacks upstream's parameter 'mask'"),
        (f"def fast(self, x, mask=1, **kwargs):\n{BODY}", "its parameter 'mask' has another default"),
        (
            f"def fast(self, x, mask=None, **kwargs):\n{BODY.replace('return x', 'return +x')}\n\n"
            'config.override_method("Layer.backward", fast, add=True)\n',
            "other patches share its replacement",
        ),
    ],
)
def test_what_edits_cannot_say_stays_and_is_told(work: Workspace, replacement: str, reason: str) -> None:
    result = _slimmed(work, replacement)
    assert result.patches == ()
    assert f"Layer.forward: {reason}" in result.left
    assert _config(work) == f"{PREAMBLE}{HEAD}{replacement}"


def test_new_code_stays_a_replacement(work: Workspace) -> None:
    result = _slimmed(work, "def fast(self, x, mask=None, **kwargs):\n    return kernel(x, self.weight, mask)\n")
    assert (result.patches, result.left) == ((), ())


def test_a_replacement_may_have_the_name_of_its_target(work: Workspace) -> None:
    head = '@config.replace_function("turn")\n'
    result = _slimmed(work, "def turn(q, k):\n    q = q * 4\n    k = k + 2\n    return q + 1, k\n", head)
    assert [patch.target for patch in result.patches] == ["turn"]


def test_decorators_that_a_replacement_takes_away_keep_it(work: Workspace) -> None:
    head = '@config.replace_function("rotate")\n'
    result = _slimmed(work, "def turn(q, k):\n    q = q * 2\n    k = k * 2\n    return k, q\n", head)
    assert result.left == ("rotate: its decorators are others than upstream's",)


def test_check_says_what_would_be_done_and_writes_nothing(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(f"{HEAD}def fast(self, x, mask=None, **kwargs):\n{BODY.replace('return x', 'return +x')}")
    assert work.patchgen("--all", "--diff").returncode == 0
    before = _config(work)
    done = work.patchgen("slim", "--check")
    assert done.returncode == 1
    assert done.stdout.endswith("1 replacement would become edits, 16 lines less.\n")
    assert _config(work) == before
    data = json.loads(work.patchgen("slim", "--json").stdout)
    assert data["configs"][0]["patches"] == [{"target": "Layer.forward", "line": 7, "before": 19, "after": 3}]
    assert work.patchgen("slim", "--check").returncode == 0


def test_configs_that_share_a_file_or_a_definition_are_left_right(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(f"{HEAD}def fast(self, x, mask=None, **kwargs):\n{BODY.replace('return x', 'return +x')}")
    other = f'''
    from patchgen import PatchConfig
    from proj.models.toy.toy_gpu_patch_gen_config import fast

    config = PatchConfig("{UPSTREAM}", "patched_modeling_toy_npu.py")
    config.override_method("Layer.forward", fast)
    '''
    work.config(other, CONFIG.replace("gpu", "npu"), preamble="")
    results = slim(Selection(work.project))
    assert [result.patches for result in results] == [(), ()]
    assert [len(result.left) for result in results] == [1, 1]


def test_hand_edits_are_no_victims(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(f"{HEAD}def fast(self, x, mask=None, **kwargs):\n{BODY.replace('return x', 'return +x')}")
    assert work.patchgen("--all", "--diff").returncode == 0
    generated(work).write_text(generated(work).read_text().replace("return +x", "return -x"))
    done = work.patchgen("slim")
    assert done.returncode == 2
    assert "this generated file was edited by hand" in done.stderr

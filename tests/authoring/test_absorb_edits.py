"""Hand edits of a function that a config makes by edits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from patchgen_core.authoring.absorb.absorb import Absorbed, absorb
from patchgen_core.build.selection import Selection
from tests.conftest import CONFIG, Workspace, generated

UPSTREAM_TEXT = """
from lib import add, gather, log


class Layer:
    def forward(self, x, mask=None):
        residual = x
        x = self.norm(x)
        if mask is not None:
            x = x * mask
        x = self.attention(x)
        x = self.drop(x)
        x = residual + x
        return x
"""
CONFIG_TEXT = """
from patchgen import Edits

layer = Edits()


@layer.edit(at="x = self.norm(...)")
def own_norm(self, x):
    # --- fused ---
    if self.fused:
        x = gather(x)   # by one kernel
        log( x )
    else:
        ...


layer.replace_code("residual + x", "add(residual, x)")
config.edit_method("Layer.forward", edit=layer, description="Fused")
"""
Change = Callable[[str, str], Absorbed]


@pytest.fixture
def change(work: Workspace) -> Change:
    """Replaces a text in the generated module, and absorbs that."""
    work.upstream(UPSTREAM_TEXT)
    work.config(CONFIG_TEXT)
    assert work.patchgen("--all", "--diff").returncode == 0

    def replace(old: str, new: str) -> Absorbed:
        path = generated(work)
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
        [result] = absorb(Selection(work.project))
        return result

    return replace


def _config(work: Workspace) -> str:
    return (work.models / CONFIG).read_text()


def test_a_line_of_an_edit_is_changed_where_it_is_declared(work: Workspace, change: Change) -> None:
    result = change(
        "            x = gather(x)  # by one kernel\n", "            x = gather(x, 1)\n            x = x + 1\n"
    )
    assert (result.changes, result.left) == (("Layer.forward: edited",), ())
    edited = "        x = gather(x, 1)\n        x = x + 1\n        log( x )\n    else:\n        ...\n"
    assert f"    if self.fused:\n{edited}" in _config(work)
    assert work.check().exit_code == 0


def test_a_line_beside_an_edits_is_the_edits_own(work: Workspace, change: Change) -> None:
    assert not change("            log(x)\n", "            log(x)\n            # told\n            log(self)\n").left
    assert "        log( x )\n        # told\n        log(self)\n    else:\n" in _config(work)


def test_a_line_below_the_block_of_an_edit_is_no_part_of_the_block(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    guard = "def skip(self, x):\n    if not x:\n        return x\n"
    work.config(f'@config.edit_method("Layer.forward")\n{guard}    ...\n')
    assert work.patchgen("--all", "--diff").returncode == 0
    path = generated(work)
    text = path.read_text()
    path.write_text(text.replace("return x\n        residual", "return x\n        log(x)\n        residual"))
    [result] = absorb(Selection(work.project))
    assert (result.changes, result.left) == (("Layer.forward: edited",), ())
    assert f"{guard}    log(x)\n    ...\n" in _config(work)


def test_a_line_of_upstreams_gets_an_edit_of_its_own(work: Workspace, change: Change) -> None:
    result = change("        x = self.drop(x)\n", "        x = self.drop(x)\n        x = x.relu()\n")
    assert (result.changes, result.left) == (("Layer.forward: edited",), ())
    declared = '@config.edit_method("Layer.forward", at="x = self.drop(...)")\ndef layer_forward(x):\n'
    assert _config(work).endswith(f"{declared}    ...\n    x = x.relu()\n")
    assert CONFIG_TEXT.strip() in _config(work)
    assert work.check().exit_code == 0


def test_a_keyword_argument_of_upstreams_keeps_its_place(work: Workspace) -> None:
    arguments = ("x", "scale=1", "mask=mask", "bias=None")
    call = f"self.attention({''.join(f'{chr(10)}            {each},' for each in arguments)}\n        )"
    work.upstream(UPSTREAM_TEXT.replace("self.attention(x)", call))
    work.config(CONFIG_TEXT)
    assert work.patchgen("--all", "--diff").returncode == 0
    path = generated(work)
    path.write_text(path.read_text().replace("scale=1", "factor=1"))
    [result] = absorb(Selection(work.project))
    assert (result.changes, result.left) == (("Layer.forward: edited",), ())
    assert call.replace("scale=1", "factor=1") in path.read_text()
    assert work.check().exit_code == 0


def test_both_at_once_are_both_declared(work: Workspace, change: Change) -> None:
    path = generated(work)
    path.write_text(path.read_text().replace("            log(x)\n", ""))
    assert not change("            x = x * mask\n", "            x = x + mask\n").left
    assert "log( x )" not in _config(work)
    assert 'at="x = x * mask")' in _config(work)
    assert work.check().exit_code == 0


def test_code_in_quotes_is_for_a_person(work: Workspace, change: Change) -> None:
    before = _config(work)
    [problem] = change("        x = add(residual, x)\n", "        x = add(residual, x, 1)\n").left
    assert "Layer.forward: the code_replacement at " in problem.message
    assert problem.message.endswith(" makes it: edit that")
    assert _config(work) == before

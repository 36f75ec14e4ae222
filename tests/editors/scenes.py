"""What a person does in VS Code, each up to where it can be seen."""

from __future__ import annotations

from pathlib import Path

from selenium.webdriver.common.keys import Keys

from tests.editors.vscode import Code
from tests.lsp.editor import QWEN3

TARGET = '"Qwen3MLP.forward"'


def show_finding(code: Code, zoo: Path) -> str:
    """Misspell a target, and look at what is said of it."""
    line = _open(code, zoo)
    code.go_to(line, 14)
    for _ in range(3):
        code.press(Keys.BACKSPACE)
    code.type("MPL")
    code.find(".squiggly-error")
    code.find_above(".codelens-decoration", "not in upstream's module", "Qwen3MPL")
    code.press(Keys.F8)
    return str(code.find(".marker-widget", "Qwen3MPL").get_property("textContent"))


def show_hover(code: Code, zoo: Path) -> str:
    """Look at what a config makes of upstream's method."""
    line = _open(code, zoo)
    code.go_to(line, 10)
    code.find(".codelens-decoration", "unchanged upstream")
    code.press(Keys.CONTROL, "k")
    code.press(Keys.CONTROL, "i")
    return str(code.find(".monaco-hover", "slot_swiglu_mlp.has_kernel").get_property("textContent"))


def show_completion(code: Code, zoo: Path) -> str:
    """Begin another patch."""
    _open(code, zoo)
    code.go_to(len((zoo / QWEN3).read_text(encoding="utf-8").split("\n")))
    code.find(".codelens-decoration", "unchanged upstream")
    code.type('\n\n@config.override_method("Qwen3De')
    code.press(Keys.CONTROL, Keys.SPACE)
    return str(code.find(".suggest-widget", "Qwen3DecoderLayer.forward").get_property("textContent"))


def show_diff(code: Code, zoo: Path) -> str:
    """Click what stands above a patch."""
    line = _open(code, zoo)
    code.go_to(line, 10)
    code.find_above(".codelens-decoration a", "unchanged upstream", TARGET).click()
    code.find(".tab.active", "modeling_qwen3.py ↔ patched_modeling_qwen3_gpu.py")
    code.find(".monaco-diff-editor .original .view-lines", "class Qwen3MLP")
    shown = code.find(".monaco-diff-editor .modified .view-lines", "slot_swiglu_mlp.has_kernel")
    code.find(".monaco-diff-editor .modified .line-insert")
    return str(shown.get_property("textContent"))


def _open(code: Code, zoo: Path) -> int:
    """Open Qwen3's config, and tell the line of its patch of the MLP."""
    lines = (zoo / QWEN3).read_text(encoding="utf-8").split("\n")
    code.open(zoo / QWEN3)
    return next(number for number, line in enumerate(lines, 1) if TARGET in line)

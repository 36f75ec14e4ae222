"""What the server says of a config while it is typed."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from lsprotocol.types import DiagnosticSeverity

from tests.lsp.editor import LLAMA, QWEN3, Editor

pytestmark = pytest.mark.torch


def test_the_findings_of_a_config_follow_its_text(editor: Editor) -> None:
    text = editor.read(QWEN3)
    assert editor.open(QWEN3) == []

    [slip] = editor.change(QWEN3, text.replace('"Qwen3MLP.forward"', '"Qwen3MPL.forward"'))
    assert "no class 'Qwen3MPL'" in slip.message
    assert "Did you mean 'Qwen3MLP'?" in slip.message
    assert text.split("\n")[slip.range.start.line].startswith('    "Qwen3MLP.forward",')

    [half] = editor.change(QWEN3, f"{text}\nx = (")
    assert "not valid Python" in half.message

    assert editor.change(QWEN3, text) == []


def test_a_finding_stands_at_its_line_of_the_text_that_is_not_saved(editor: Editor) -> None:
    text = editor.read(LLAMA)
    editor.open(LLAMA)
    start = text.index(":\n", text.index("def llama_mlp_forward")) + 2
    typed = f"# a line\n# and another\n{text[:start]}    print(\n        unheard_of,\n    )\n{text[start:]}"
    [finding] = editor.change(LLAMA, typed)
    assert "nothing defines 'unheard_of'" in finding.message
    assert typed.split("\n")[finding.range.start.line].strip() == "unheard_of,"
    assert editor.change(LLAMA, text) == []


def test_drift_is_a_remark_while_a_config_is_edited(editor: Editor) -> None:
    text = editor.read(QWEN3)
    editor.open(QWEN3)
    [drift] = editor.change(QWEN3, text.replace("Op slot for SwiGLU", "Op slot for the MLP"))
    assert drift.severity == DiagnosticSeverity.Information
    assert "config changed" in drift.message
    assert drift.code == "drift"
    assert drift.related_information[0].location.uri.endswith("patched_modeling_qwen3_gpu.py")


def test_a_contract_rule_leads_to_its_explanation(editor: Editor) -> None:
    text = editor.read(QWEN3)
    editor.open(QWEN3)
    broken = (
        text + '\n\n@config.override_method("Qwen3DecoderLayer.forward")\ndef slip(self, hidden):\n    return hidden\n'
    )
    found = editor.change(QWEN3, broken)
    [finding] = [f for f in found if f.code == "PG202"] or [f for f in found if str(f.code).startswith("PG")][:1]
    page = Path(unquote(urlsplit(finding.code_description.href).path))
    assert page.read_text().startswith(f"## {finding.code}:")
    assert "def slip" in broken.split("\n")[finding.range.start.line] or finding.range.start.line > text.count("\n")


def test_what_a_config_shares_is_checked_where_it_is_used(editor: Editor) -> None:
    """Qwen3 has Llama's patches: an unsaved change of one drifts the other."""
    editor.open(QWEN3, editor.read(QWEN3))
    text = editor.read(LLAMA)
    editor.open(LLAMA)
    changed = text.replace("def llama_mlp_forward(self, x):", "def llama_mlp_forward(self, hidden):")
    assert changed != text
    editor.shown.clear()
    editor.change(LLAMA, changed)
    [undefined] = editor.wait(editor.uri(QWEN3))
    assert "nothing defines 'x' in patched_modeling_qwen3_gpu.py" in undefined.message
    editor.change(LLAMA, text)


def test_a_config_that_ends_its_process_costs_its_own_answer(editor: Editor) -> None:
    text = editor.read(QWEN3)
    editor.open(QWEN3)
    [death] = editor.change(QWEN3, f"{text}\nimport os\nos._exit(3)\n")
    assert "its process has ended with exit code 3" in death.message
    assert editor.change(QWEN3, text) == []


def test_a_config_that_raises_is_not_imported_for_real_before_it_is_saved(editor: Editor) -> None:
    editor.open(QWEN3)
    [remark] = editor.change(QWEN3, f"{editor.read(QWEN3)}\n1 / 0\n")
    assert "ZeroDivisionError: division by zero" in remark.message
    assert "when it is saved" in remark.message
    assert remark.severity == DiagnosticSeverity.Information
    editor.change(QWEN3, editor.read(QWEN3))


def test_a_config_outside_any_project_is_told_so(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "lone_patch_gen_config.py"
    [problem] = editor.open(path, "x = 1\n")
    assert "[tool.patchgen]" in problem.message
    editor.close(path)

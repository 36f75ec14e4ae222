"""What the server offers to do, and what comes of it."""

from __future__ import annotations

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from lsprotocol import types

from tests.lsp.editor import QWEN3, Editor

pytestmark = pytest.mark.torch
GENERATED = "examples/zoo/qwen3/generated/patched_modeling_qwen3_gpu.py"


def offered(editor: Editor, place: types.Range, found: list[types.Diagnostic]) -> dict[str, types.CodeAction]:
    context = types.CodeActionContext(found)
    params = types.CodeActionParams(types.TextDocumentIdentifier(editor.uri(QWEN3)), place, context)
    return {action.title: action for action in editor.ask(types.TEXT_DOCUMENT_CODE_ACTION, params) or ()}


def applied(editor: Editor, action: types.CodeAction) -> str:
    [edit] = action.edit.changes[editor.uri(QWEN3)]
    lines = editor.texts[editor.uri(QWEN3)].split("\n")
    start, end = edit.range.start, edit.range.end
    assert start.line == end.line
    line = lines[start.line]
    lines[start.line] = line[: start.character] + edit.new_text + line[end.character :]
    return "\n".join(lines)


@pytest.mark.slow
def test_a_slip_in_a_target_is_respelled(editor: Editor) -> None:
    text = editor.read(QWEN3)
    editor.open(QWEN3)
    found = editor.change(QWEN3, text.replace('"Qwen3MLP.forward"', '"Qwen3MPL.forward"'))
    action = offered(editor, found[0].range, found)["Write 'Qwen3MLP'"]
    assert applied(editor, action) == text


SLIP = """
@config.override_method("Qwen3MLP.extra_repr")
def extra_repr(self):
    return str(self.down_prj)
"""


@pytest.mark.parametrize(
    ("wrong", "right", "more"),
    [
        ("Qwen3MLP.forwrad", "Qwen3MLP.forward", ""),
        ("qwen3.modelling_qwen3", "qwen3.modeling_qwen3", ""),
        ("self.down_prj", "self.down_proj", SLIP),
        ("PG2O2", "PG202", '\nconfig.allow("PG2O2", "it is called by hand")\n'),
    ],
)
@pytest.mark.mostly_slow(2)
def test_each_slip_in_a_name_is_respelled(editor: Editor, wrong: str, right: str, more: str) -> None:
    text = editor.read(QWEN3)
    editor.open(QWEN3)
    typed = f"{text}\n{more}" if more else text.replace(right, wrong)
    found = editor.change(QWEN3, typed)
    slip = next(each for each in found if "Did you mean" in each.message)
    [action] = [action for title, action in offered(editor, slip.range, [slip]).items() if title.startswith("Write '")]
    assert applied(editor, action) == typed.replace(wrong, right)


def test_what_nothing_defines_is_imported_as_the_config_does(editor: Editor) -> None:
    text = editor.read(QWEN3)
    editor.open(QWEN3)
    patch = '\n\n@config.override_method("Qwen3MLP.extra_repr")\ndef extra_repr(self):\n    return str(partial(int))\n'
    found = editor.change(QWEN3, f"from functools import partial\n{text}{patch}")
    action = offered(editor, found[0].range, found)["Import 'partial' in the generated module"]
    mended = applied(editor, action)
    assert 'config.add_import("functools", names=["partial"])' in mended
    assert not [d for d in editor.change(QWEN3, mended) if d.severity == types.DiagnosticSeverity.Error]


@pytest.mark.parametrize(
    ("statement", "use", "arguments"),
    [
        ("import json", "json", '"json"'),
        ("import json.decoder as jd", "jd", '"json.decoder", alias="jd", is_from_import=False'),
        (
            "from ..qwen2_vl.sequence_parallel import call_sequence_parallel_attention",
            "call_sequence_parallel_attention",
            '"zoo.qwen2_vl.sequence_parallel", names=["call_sequence_parallel_attention"]',
        ),
    ],
)
def test_every_import_of_the_config_can_be_the_generated_modules(
    editor: Editor, statement: str, use: str, arguments: str
) -> None:
    editor.open(QWEN3)
    patch = f'\n\n@config.override_method("Qwen3MLP.extra_repr")\ndef extra_repr(self):\n    return str({use})\n'
    found = editor.change(QWEN3, f"{statement}\n{editor.read(QWEN3)}{patch}")
    action = offered(editor, found[0].range, found)[f"Import '{use}' in the generated module"]
    mended = applied(editor, action)
    assert f"config.add_import({arguments})\n" in mended
    assert "nothing defines" not in str(editor.change(QWEN3, mended))


def test_a_finding_is_allowed_once_a_reason_is_typed(editor: Editor) -> None:
    text = editor.read(QWEN3)
    editor.open(QWEN3)
    patch = '\n\n@config.override_method("Qwen3DecoderLayer.forward")\ndef layer(self, hidden):\n    return hidden\n'
    found = [d for d in editor.change(QWEN3, text + patch) if str(d.code).startswith("PG")]
    action = offered(editor, found[0].range, found[:1])[f"Allow {found[0].code} (type the reason)"]
    allowed = applied(editor, action)
    [empty] = editor.change(QWEN3, allowed)
    assert "allow: reason" in empty.message
    after = editor.change(QWEN3, allowed.replace(f'"{found[0].code}", ""', f'"{found[0].code}", "only here"'))
    assert found[0].message not in [d.message for d in after]


def test_a_decorator_gets_upstreams_function(editor: Editor) -> None:
    text = editor.read(QWEN3)
    editor.open(QWEN3)
    half = f'{text}\n\n@config.edit_method("Qwen3RotaryEmbedding.forward")\n'
    editor.change(QWEN3, half)
    line = half.count("\n") - 1
    at = types.Range(types.Position(line, 5), types.Position(line, 5))
    actions = offered(editor, at, [])
    whole = applied(editor, actions["Insert upstream's signature and body"])
    assert "def qwen3_rotary_embedding_forward(self, x, position_ids):\n" in whole
    assert "    return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)\n" in whole
    around = applied(editor, actions["Insert upstream's signature around its body"])
    assert not [d for d in editor.change(QWEN3, around) if d.severity == types.DiagnosticSeverity.Error]


def inserted(editor: Editor, below: str, at: str, title: str) -> str:
    """The text of the config with something at its end that one of the actions there completes."""
    half = f"{editor.read(QWEN3)}\n\n{below}\n"
    editor.change(QWEN3, half)
    editor.do(editor.actions(QWEN3, at)[title])
    return str(editor.wait_for(lambda: (now := editor.texts[editor.uri(QWEN3)]) != half and now))


def test_what_stands_around_upstreams_body_is_an_edit(editor: Editor) -> None:
    editor.open(QWEN3)
    decorator = '@config.override_method(\n    "Qwen3RMSNorm.extra_repr",\n    description="Says more",\n)'
    for title in ("Insert a guard before its body", "Insert upstream's signature around its body"):
        text = inserted(editor, decorator, '"Qwen3RMSNorm.extra_repr"', title)
        function = "def qwen3_rms_norm_extra_repr(self):\n"
        assert f"{decorator.replace('override', 'edit')}\n{function}" in text
        assert text.endswith("    ...\n")
        assert not text.endswith("\n\n")
        assert not [d for d in editor.wait(editor.uri(QWEN3)) if d.severity == types.DiagnosticSeverity.Error]


def test_a_method_that_a_class_inherits_from_another_module_is_inserted_as_it_stands_there(editor: Editor) -> None:
    editor.open(QWEN3)
    decorator = '@config.override_method("Qwen3ForTokenClassification.forward")'
    titles = [title for title in editor.actions(QWEN3, "config = PatchConfig") if title.startswith("Insert")]
    text = inserted(editor, decorator, decorator, "Insert upstream's signature and body")
    assert titles == []
    assert f"{decorator}\ndef qwen3_for_token_classification_forward(\n    self,\n" in text
    assert "    return TokenClassifierOutput(\n" in text.rpartition(decorator)[2]
    editor.change(QWEN3, f"{editor.read(QWEN3)}\n\n{decorator}\n")
    assert not [title for title in editor.actions(QWEN3, decorator) if "guard" in title]


def test_a_class_to_replace_comes_with_the_imports_that_its_statement_needs(editor: Editor) -> None:
    editor.open(QWEN3)
    text = inserted(
        editor, '@config.replace_class("Qwen3RotaryEmbedding")', "@config.replace_class", "Insert upstream's class"
    )
    for line in ("from torch import nn\n", "from transformers.modeling_rope_utils import dynamic_rope_update\n"):
        assert text.count(line) == 1
    found = [d for d in editor.wait(editor.uri(QWEN3)) if d.range.start.line > editor.read(QWEN3).count("\n")]
    assert [d.message.partition(" is ")[2].partition("\n")[0] for d in found] == ["upstream's own code"]


def test_what_drifted_is_regenerated_once_it_is_saved(editor: Editor) -> None:
    text, generated = editor.read(QWEN3), editor.read(GENERATED)
    editor.open(QWEN3)
    found = editor.change(QWEN3, text.replace("Op slot for SwiGLU", "Op slot for the MLP"))
    assert "Regenerate" in offered(editor, found[0].range, found)
    params = types.ExecuteCommandParams("patchgen.regenerate", arguments=[editor.uri(QWEN3)])
    editor.ask(types.WORKSPACE_EXECUTE_COMMAND, params)
    assert "unsaved changes" in editor.messages[-1]
    assert editor.read(GENERATED) == generated

    assert [d.code for d in editor.save(QWEN3)] == ["drift"]
    editor.ask(types.WORKSPACE_EXECUTE_COMMAND, params)
    assert "wrote patched_modeling_qwen3_gpu.py" in editor.messages[-1]
    assert "Op slot for the MLP" in editor.read(GENERATED)
    assert editor.change(QWEN3, editor.read(QWEN3)) == []

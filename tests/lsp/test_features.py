"""What the server answers about a place in a config or a generated file."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from lsprotocol import types

from tests.lsp.editor import LLAMA, QWEN3, Editor

pytestmark = pytest.mark.torch
GENERATED = "examples/zoo/qwen3/generated/patched_modeling_qwen3_gpu.py"


@pytest.fixture(autouse=True)
def opened(editor: Editor) -> None:
    editor.open(QWEN3)


def line_of(editor: Editor, location: types.Location) -> str:
    path = Path(location.uri.removeprefix("file://"))
    return path.read_text(encoding="utf-8").split("\n")[location.range.start.line].strip()


def labels(editor: Editor, text: str, at: str) -> list[str]:
    """What is offered behind a piece of a text that is being typed."""
    editor.type(QWEN3, text)
    place = editor.place(QWEN3, at, len(at))
    items = editor.ask(types.TEXT_DOCUMENT_COMPLETION, types.CompletionParams(**place))
    editor.type(QWEN3, editor.read(QWEN3))
    return [item.label for item in items or ()]


def test_hover_shows_upstreams_text_and_the_change(editor: Editor) -> None:
    place = editor.place(QWEN3, '"Qwen3MLP.forward"', 5)
    text = editor.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(**place)).contents.value
    assert "**Qwen3MLP.forward** in `modeling_qwen3.py:" in text
    assert "@@\n     def forward(self, x):\n+" in text
    assert "+        if slot_swiglu_mlp.has_kernel:" in text
    assert "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))" in text


def test_definition_of_a_target_is_upstreams(editor: Editor) -> None:
    place = editor.place(QWEN3, '"Qwen3Attention.forward"', 5)
    [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
    assert location.uri.endswith("/transformers/models/qwen3/modeling_qwen3.py")
    assert line_of(editor, location) == "def forward("


def test_a_generated_line_leads_to_its_patch_and_upstreams_to_upstream(editor: Editor) -> None:
    editor.open(GENERATED)
    place = editor.place(GENERATED, "sequence_parallel_attention(attention_interface)")
    [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
    assert location.uri.endswith(QWEN3)
    assert "sequence_parallel_attention(attention_interface)" in line_of(editor, location)

    place = editor.place(GENERATED, "class Qwen3RotaryEmbedding")
    [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
    assert location.uri.endswith("modeling_qwen3.py")
    assert line_of(editor, location).startswith("class Qwen3RotaryEmbedding")
    editor.close(GENERATED)


def test_a_replacement_leads_to_the_line_generated_of_it(editor: Editor) -> None:
    editor.open(LLAMA)
    place = editor.place(LLAMA, "def llama_mlp_forward", 8)
    [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
    assert location.uri.endswith("patched_modeling_llama_gpu.py")
    assert line_of(editor, location) == "def forward(self, x):"


def test_references_of_a_shared_patch_are_in_every_config(editor: Editor) -> None:
    editor.open(LLAMA)
    place = editor.place(LLAMA, "def llama_mlp_forward", 8)
    context = types.ReferenceContext(include_declaration=True)
    found = editor.ask(types.TEXT_DOCUMENT_REFERENCES, types.ReferenceParams(context=context, **place))
    assert any(location.uri.endswith(QWEN3) for location in found)
    assert any(location.uri.endswith(LLAMA) for location in found)


def test_a_name_leads_on_from_where_it_is_imported(editor: Editor) -> None:
    place = editor.place(QWEN3, "    llama_mlp_forward,", len("    llama_mlp_forward"))  # behind it
    [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
    assert location.uri.endswith(LLAMA)
    assert line_of(editor, location) == "def llama_mlp_forward(self, x):"
    context = types.ReferenceContext(include_declaration=True)
    places = editor.ask(types.TEXT_DOCUMENT_REFERENCES, types.ReferenceParams(context=context, **place))
    assert any(location.uri.endswith(LLAMA) for location in places)


def test_names_of_the_config_lead_to_where_they_are_bound_and_imported_ones_of_upstream_to_upstream(
    editor: Editor,
) -> None:
    helper = """
config.add_import("patchgen_core.runtime.parallel", names=["reduce_loss as shared_loss"])


@config.add_helper
def twice(x):
    return x + x


@config.override_method("Qwen3Attention.forward")
def attention(self, x):
    return twice(shared_loss(repeat_kv(rotate_half(x), Cache)))
"""
    imported = "    from transformers.models.qwen3.modeling_qwen3 import rotate_half\n"
    text = editor.read(QWEN3).replace("if TYPE_CHECKING:\n", f"if TYPE_CHECKING:\n{imported}") + helper
    editor.change(QWEN3, text)
    for piece, file, line in (
        ("twice(shared", QWEN3, "def twice(x):"),
        ("qwen3_model_forward.edit", QWEN3, "qwen3_model_forward = Edits("),
        ("shared_loss(repeat", "patchgen_core/runtime/parallel/reduction.py", "def reduce_loss("),
        ("rotate_half(x)", "modeling_qwen3.py", "def rotate_half(x):"),
        ("repeat_kv(", "modeling_qwen3.py", "def repeat_kv("),
        ("Cache))", "transformers/cache_utils.py", "class Cache"),
    ):
        place = editor.place(QWEN3, piece)
        [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
        assert location.uri.endswith(file)
        there = editor.texts[location.uri] if location.uri in editor.texts else Path(location.uri[7:]).read_text()
        assert there.split("\n")[location.range.start.line].strip().startswith(line)
    editor.type(QWEN3, editor.read(QWEN3))


def test_targets_complete_in_quotes_that_are_not_closed(editor: Editor) -> None:
    text = editor.read(QWEN3)
    half = f'{text}\n\n@config.override_method("Qwen3'
    offered = labels(editor, half, '@config.override_method("Qwen3')
    assert "Qwen3MLP.forward" in offered
    assert "Qwen3MLP" not in offered
    assert "Qwen3MLP" in labels(editor, f'{text}\n\n@config.replace_class("', '@config.replace_class("')


def test_members_names_keywords_and_codes_complete(editor: Editor) -> None:
    text = editor.read(QWEN3)
    patch = '\n\n@config.override_method("Qwen3DecoderLayer.forward")\ndef layer(self, x):\n    y = self.mlp(x)\n'
    body = text + patch
    members = labels(editor, body.replace("y = self.mlp(x)", "y = self.m"), "y = self.m")
    assert {"self.mlp", "self.self_attn"} <= set(members)
    assert "apply_rotary_pos_emb" in labels(editor, body.replace("y = self.mlp(x)", "y = app"), "y = app")
    call = "y = eager_attention_forward("
    assert "scaling=" in labels(editor, body.replace("y = self.mlp(x)", call), call)
    assert "PG202" in labels(editor, f'{text}\nconfig.allow("PG', 'config.allow("PG')


def test_what_a_class_has_from_bases_of_other_modules_completes_and_leads_there(editor: Editor) -> None:
    text = editor.read(QWEN3)
    patch = (
        '\n\n@config.override_method("Qwen3Model.forward")\ndef model(self, x):\n    y = self.config, self.training\n'
    )
    members = labels(editor, (text + patch).replace("y = self.config,", "y = self."), "y = self.")
    assert {"self.config", "self.layers", "self.training", "self.named_parameters"} <= set(members)
    editor.change(QWEN3, text + patch)
    for member, file, line in (
        ("y = self.config", "transformers/modeling_utils.py", "self.config = config"),
        ("self.training", "torch/nn/modules/module.py", "training: bool"),
    ):
        place = editor.place(QWEN3, member, len(member) - 2)
        [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
        assert location.uri.endswith(file)
        assert line_of(editor, location).startswith(line)


def test_a_call_of_what_self_holds_completes_the_parameters_of_its_forward(editor: Editor) -> None:
    text = editor.read(QWEN3)
    patch = '\n\n@config.override_method("Qwen3DecoderLayer.forward")\ndef layer(self, x):\n    y = self.self_attn('
    assert {"attention_mask=", "past_key_values="} <= set(labels(editor, text + patch, "y = self.self_attn("))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("shared_edits", "llama_gpu_patch_gen_config.py"),
        ("GradientCheckpointingLayer", "transformers/modeling_layers.py"),
    ],
)
def test_an_imported_name_leads_to_its_definition(editor: Editor, name: str, file: str) -> None:
    text = editor.read(QWEN3).replace(
        "SEQUENCE_PARALLEL,", "SEQUENCE_PARALLEL,\n    SEQUENCE_PARALLEL as shared_edits,", 1
    )
    patch = f'\n\n@config.override_method("Qwen3MLP.extra_repr")\ndef extra_repr(self):\n    return str({name})\n'
    editor.change(QWEN3, text + patch)
    place = editor.place(QWEN3, f"str({name})", 6)
    [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
    assert location.uri.endswith(file)


def test_a_click_above_a_patch_shows_the_diff(editor: Editor) -> None:
    editor.open(QWEN3)
    assert not editor.run("patchgen.showDiff", editor.uri(QWEN3), "Qwen3MLP.forward")
    [diff] = editor.documents
    assert "+        if slot_swiglu_mlp.has_kernel:" in diff.read_text().split("\n")


@pytest.mark.slow
def test_an_editor_that_shows_two_files_side_by_side_gets_both_and_the_line(zoo: Path) -> None:
    editor = Editor(zoo, shows_diffs=True)
    try:
        text = editor.read(QWEN3).replace("Op slot for SwiGLU", "What is typed, not saved")
        editor.open(QWEN3, text)
        [pair] = editor.run("patchgen.showDiff", editor.uri(QWEN3), "Qwen3MLP.forward")
    finally:
        editor.stop()
    upstream, generated = (Path(pair[side]).read_text() for side in ("upstream", "generated"))
    assert "What is typed, not saved" in generated
    assert generated.split("\n")[pair["line"]] == "    def forward(self, x):"
    assert "slot_swiglu_mlp" in generated.split("\n", pair["line"])[-1][:400]
    assert "class Qwen3MLP" in upstream
    assert "slot_swiglu_mlp" not in upstream
    assert editor.documents == []


def test_lenses_and_hints_stand_at_patches(editor: Editor) -> None:
    document = types.TextDocumentIdentifier(editor.uri(QWEN3))
    lenses = editor.ask(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensParams(document))
    assert any(lens.command.title.startswith("unchanged upstream") for lens in lenses)
    whole = types.Range(types.Position(0, 0), types.Position(500, 0))
    hints = editor.ask(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintParams(document, whole))
    assert any(hint.label.startswith("modeling_qwen3.py:") for hint in hints)


def test_nothing_is_said_of_upstreams_change_to_what_upstream_lacks(editor: Editor) -> None:
    text = editor.read(QWEN3)
    editor.change(QWEN3, text.replace('"Qwen3MLP.forward"', '"Qwen3MPL.forward"'))
    line = text[: text.index('"Qwen3MLP.forward"')].count("\n")
    assert editor.lenses(QWEN3)[line] == "not in upstream's module"


def test_an_attribute_of_self_leads_to_where_upstream_assigns_it(editor: Editor) -> None:
    editor.open(LLAMA)
    place = editor.place(LLAMA, "self.up_proj", 7)
    [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
    assert location.uri.endswith("/transformers/models/llama/modeling_llama.py")
    assert line_of(editor, location).startswith("self.up_proj = nn.Linear(")


def test_hover_of_an_added_method_shows_what_the_config_adds(editor: Editor) -> None:
    editor.open(LLAMA)
    place = editor.place(LLAMA, '"LlamaForSequenceClassification.forward"', 5)
    text = editor.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(**place)).contents.value
    assert "upstream has no `LlamaForSequenceClassification.forward`" in text
    assert "`patched_modeling_llama_gpu.py`:" in text
    assert "return SequenceClassifierOutputWithPast(" in text


def test_hover_of_a_function_of_another_config_shows_what_it_replaces(editor: Editor) -> None:
    place = editor.place(QWEN3, "replacement=llama_mlp_forward", 15)
    text = editor.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(**place)).contents.value
    assert "**Qwen3MLP.forward** in `modeling_qwen3.py:" in text


def test_lines_of_a_generated_file_that_is_out_of_date_lead_to_their_own_origin(editor: Editor) -> None:
    text = editor.read(GENERATED)
    editor.open(GENERATED, text.replace("\nclass Qwen3RMSNorm", "# a remark\n" * 70 + "\nclass Qwen3RMSNorm", 1))
    for piece, line in (
        ("sequence_parallel_attention(attention_interface)", "sequence_parallel_attention(attention_interface)"),
        ("class Qwen3RotaryEmbedding", "class Qwen3RotaryEmbedding(nn.Module):"),
        ("def rotate_half", "def rotate_half(x):"),
    ):
        place = editor.place(GENERATED, piece)
        [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
        assert line in line_of(editor, location)
    editor.close(GENERATED)


def test_a_config_that_goes_on_with_another_ones_knows_its_upstream(editor: Editor) -> None:
    path = "examples/zoo/qwen3/qwen3_more_patch_gen_config.py"
    text = (
        "from .qwen3_gpu_patch_gen_config import config\n\n"
        'config.target_file = "patched_more.py"\n\n\n'
        "@config.add_helper\ndef double(x):\n    return 2 * x\n\n\n"
        '@config.override_method("Qwen3RotaryEmbedding.forward")\n'
        "def forward(self, x, position_ids):\n    return double(self.inv_freq)\n"
    )
    (editor.root / path).write_text(text)
    try:
        editor.open(path)
        for piece, file, line in (
            ('"Qwen3RotaryEmbedding.forward"', "modeling_qwen3.py", "def forward(self, x, position_ids):"),
            ("def double", "patched_more.py", ""),
        ):
            place = editor.place(path, piece, 6)
            [location] = editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
            assert location.uri.endswith(file)
            assert not line or line_of(editor, location) == line
        params = types.ReferenceParams(
            context=types.ReferenceContext(include_declaration=True),
            **editor.place(path, '"Qwen3RotaryEmbedding.forward"', 6),
        )
        assert [each.uri for each in editor.ask(types.TEXT_DOCUMENT_REFERENCES, params)] == [editor.uri(path)]
    finally:
        editor.close(path)
        (editor.root / path).unlink()


def test_calls_of_shared_edits_name_no_target(editor: Editor) -> None:
    lines = editor.read(QWEN3).split("\n")
    line = lines.index("qwen3_model_forward.replace_code(") + 1
    assert line not in editor.lenses(QWEN3)


def test_of_a_text_that_never_made_anything_nothing_is_said_to_be_current(editor: Editor) -> None:
    path = "examples/zoo/qwen3/qwen3_broken_patch_gen_config.py"
    text = editor.read(QWEN3).replace('"Qwen3MLP.forward"', '"Qwen3MPL.forward"', 1)
    (editor.root / path).write_text(text)
    try:
        editor.open(path)
        titles = editor.lenses(path)
        line = text[: text.index("config.edit_method(")].count("\n") + 1
        assert titles[line] == "nothing is made of it now · 2 configs"
    finally:
        editor.close(path)
        (editor.root / path).unlink()

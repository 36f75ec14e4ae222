"""What the server does where things are not as they should be: it stays up, and says once what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from lsprotocol import types

from tests.conftest import PATCH, UPSTREAM_TEXT, Workspace, settle
from tests.lsp.editor import Editor

CONFIG = "proj/models/toy/toy_gpu_patch_gen_config.py"
GENERATED = "proj/models/toy/generated/patched_modeling_toy_gpu.py"
COUNTING = """
import os

place = os.open(r"{path}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(place, b".")
os.close(place)
"""


def ask_everything(editor: Editor, path: str, piece: str) -> None:
    """Every question that editors ask by themselves, and those of a person who looks around."""
    place = editor.place(path, piece)
    document = place["text_document"]
    whole = types.Range(types.Position(0, 0), types.Position(500, 0))
    editor.lenses(path)
    editor.actions(path, piece)
    editor.ask(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintParams(document, whole))
    editor.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(**place))
    editor.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
    editor.ask(types.TEXT_DOCUMENT_COMPLETION, types.CompletionParams(**place))
    context = types.ReferenceContext(include_declaration=True)
    editor.ask(types.TEXT_DOCUMENT_REFERENCES, types.ReferenceParams(context=context, **place))


@pytest.mark.slow
def test_every_question_is_answered_at_every_place_of_a_half_typed_config(work: Workspace, typist: Editor) -> None:
    work.upstream(UPSTREAM_TEXT)
    settle(work, PATCH)
    text = typist.read(CONFIG)
    typist.open(CONFIG)
    for end in range(1, len(text), 17):
        typist.type(CONFIG, text[:end])
        ask_everything(typist, CONFIG, text[max(0, end - 3) : end])
    assert typist.change(CONFIG, text) == []
    assert typist.messages == []


@pytest.mark.slow
def test_a_config_is_executed_once_for_each_text_whatever_is_asked(
    work: Workspace, typist: Editor, tmp_path: Path
) -> None:
    count = tmp_path / "executions"
    work.upstream(UPSTREAM_TEXT)
    work.write("proj/models/counting.py", COUNTING.format(path=count))
    settle(work, f"import proj.models.counting\n{PATCH}")
    by_a_check = len(count.read_text())
    text = typist.read(CONFIG)
    for number, happen in enumerate(
        (
            lambda: typist.open(CONFIG),
            lambda: typist.save(CONFIG),
            lambda: typist.change(CONFIG, f"{text}# more\n"),
        ),
        2,
    ):
        happen()
        ask_everything(typist, CONFIG, "norm_forward")
        ask_everything(typist, CONFIG, "norm_forward")
        assert len(count.read_text()) <= number * by_a_check


@pytest.mark.slow
def test_a_config_that_raises_is_told_at_its_line_and_mended_by_typing(work: Workspace, typist: Editor) -> None:
    work.upstream(UPSTREAM_TEXT)
    settle(work, PATCH)
    text = typist.read(CONFIG)
    (work.root / CONFIG).write_text(f"{text}\nraise ValueError('no such model')\n")
    [error] = typist.open(CONFIG)
    assert "ValueError: no such model" in error.message
    ask_everything(typist, CONFIG, "norm_forward")
    assert typist.change(CONFIG, text) == []


@pytest.mark.slow
def test_two_projects_are_served_at_once_each_by_its_own_settings(work: Workspace, typist: Editor) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config('@config.override_method("Norm.forward")\ndef norm_forward(self):\n    return 2\n')
    other = work.root / "vendor"
    (other / "parts/toy").mkdir(parents=True)
    table = '[tool.patchgen]\nsearch_root = "parts"\npackage_prefix = "parts"\nignore = ["PG201", "PG214"]\n'
    (other / "pyproject.toml").write_text(table)
    path = other / "parts/toy/toy_gpu_patch_gen_config.py"
    path.write_text((work.root / CONFIG).read_text())
    assert "PG201" in [d.code for d in typist.open(CONFIG)]
    assert [d.code for d in typist.open(path)] == ["drift"]
    (other / "pyproject.toml").write_text("[tool.patchgen\n")
    [wrong] = typist.save(path)
    assert "pyproject.toml" in str(wrong.message) + str(wrong.related_information)
    assert "PG201" in [d.code for d in typist.save(CONFIG)], "the other project is served"


@pytest.mark.slow
def test_files_outside_any_project_and_files_that_are_none_are_left_alone(
    work: Workspace, typist: Editor, tmp_path: Path
) -> None:
    lone = tmp_path / "lone_patch_gen_config.py"
    [problem] = typist.open(lone, "x = 1\n")
    assert "[tool.patchgen]" in problem.message
    ask_everything(typist, str(lone), "x = 1")
    plain = work.write("proj/models/plain.py", "x = 1\n")
    typist.open(plain)
    ask_everything(typist, str(plain), "x = 1")
    assert typist.messages == []


@pytest.mark.slow
def test_upstream_that_is_missing_is_told_and_found_once_it_is_installed(work: Workspace, typist: Editor) -> None:
    work.config(PATCH)
    [missing] = typist.open(CONFIG)
    assert "upstream package 'acme' is not installed" in missing.message
    ask_everything(typist, CONFIG, "norm_forward")
    work.upstream(UPSTREAM_TEXT)
    assert [d.code for d in typist.save(CONFIG)] == ["drift"]


@pytest.mark.slow
def test_upstream_that_is_replaced_below_the_server_is_read_anew(work: Workspace, typist: Editor) -> None:
    work.upstream(UPSTREAM_TEXT)
    settle(work, PATCH)
    assert typist.open(CONFIG) == []
    work.upstream(UPSTREAM_TEXT.replace("class Norm", "class RMSNorm"), version="2.0")
    found = typist.save(CONFIG)
    assert "no class 'Norm'" in found[0].message
    assert "RMSNorm" in typist.actions(CONFIG, "Norm.forward", found)["Write 'RMSNorm'"].title


@pytest.mark.slow
def test_an_answer_that_takes_too_long_is_told_once(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(PATCH)
    editor = Editor(work.root, ("--time-limit", "15"), work.site)
    try:
        editor.open(CONFIG)
        text = editor.read(CONFIG)
        [late] = editor.change(CONFIG, f"while True:\n    pass\n{text}")
        assert "no answer within 15 s" in late.message
        editor.lenses(CONFIG)
        editor.lenses(CONFIG)
        assert len([message for message in editor.messages if "no answer within" in message]) == 1
        assert [d.code for d in editor.change(CONFIG, text)] == ["drift"]
    finally:
        editor.stop()

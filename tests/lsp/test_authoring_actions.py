"""Actions that write configs, which the editor applies and can take back."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from lsprotocol import types

from tests.conftest import UPSTREAM, UPSTREAM_TEXT, Workspace, settle
from tests.lsp.editor import Editor
from tests.upstream.wheels import make_wheel

CONFIG = "proj/models/toy/toy_gpu_patch_gen_config.py"
GENERATED = "proj/models/toy/generated/patched_modeling_toy_gpu.py"
LONG = """
class Norm:
    def forward(self, x):
        return x


class Head:
    def forward(self, x, scale=1, bias=None):
        first = x + 1
        second = first * scale
        third = second - 3
        fourth = third / 4
        return fourth
"""
COPY = """
@config.override_method("Head.forward")
def head_forward(self, x, scale=1, bias=None):
    first = x + 1
    second = first * scale
    third = second - 33
    fourth = third / 4
    return fourth
"""


@pytest.mark.slow
def test_a_replacement_is_slimmed(work: Workspace, typist: Editor) -> None:
    work.upstream(LONG)
    settle(work, COPY)
    typist.open(CONFIG)
    typist.do(typist.actions(CONFIG, "def head_forward")["Write 'Head.forward' as edits (slim)"])
    text = typist.texts[typist.uri(CONFIG)]
    assert "config.edit_method" in text or "config.replace_code" in text
    assert "fourth" not in text
    assert typist.read(CONFIG) != text, "the editor has it, and can take it back"
    assert "lines become" in typist.messages[-1]
    typist.save(CONFIG)
    before = typist.read(GENERATED)
    typist.run("patchgen.regenerate", typist.uri(CONFIG))
    assert "- 33" in typist.read(GENERATED)
    assert typist.read(GENERATED).partition("class Head")[2] == before.partition("class Head")[2]


@pytest.mark.slow
def test_a_replacement_that_says_nothing_of_upstreams_is_not_offered_to_be_slimmed(
    work: Workspace, typist: Editor
) -> None:
    work.upstream(UPSTREAM_TEXT)
    settle(work, '@config.override_method("Norm.forward")\ndef norm_forward(self, x):\n    return x * 2\n')
    typist.open(CONFIG)
    assert not [title for title in typist.actions(CONFIG, "def norm_forward") if "slim" in title]


@pytest.mark.slow
def test_unsaved_changes_are_not_written_over(work: Workspace, typist: Editor) -> None:
    work.upstream(LONG)
    settle(work, COPY)
    typist.open(CONFIG)
    typist.type(CONFIG, typist.read(CONFIG) + "# mine\n")
    typist.do(typist.actions(CONFIG, "def head_forward")["Write 'Head.forward' as edits (slim)"])
    assert "unsaved changes" in typist.messages[-1]
    assert typist.texts[typist.uri(CONFIG)].endswith("# mine\n")


@pytest.mark.slow
def test_a_stale_signature_becomes_upstreams_and_the_body_stays(work: Workspace, typist: Editor) -> None:
    work.upstream(LONG)
    settle(work, COPY)
    typist.open(CONFIG)
    stale = typist.read(CONFIG).replace("(self, x, scale=1, bias=None)", "(self, y, flag=True)")
    stale = stale.replace("x + 1", "y + flag")
    typist.change(CONFIG, stale)
    typist.do(typist.actions(CONFIG, "def head_forward")["Give 'head_forward' upstream's parameters"])
    text = typist.wait_for(lambda: (now := typist.texts[typist.uri(CONFIG)]) != stale and now)
    assert "def head_forward(self, x, scale=1, bias=None, *, y=None, flag=True):\n    first = y + flag\n" in text
    assert "Give 'head_forward' upstream's parameters" not in typist.actions(CONFIG, "def head_forward")


@pytest.mark.slow
def test_upstreams_change_is_merged_into_the_patch(work: Workspace, typist: Editor) -> None:
    work.upstream(LONG)
    settle(work, COPY)
    typist.open(CONFIG)
    assert not [title for title in typist.actions(CONFIG, "def head_forward") if "Merge" in title]

    work.upstream(LONG.replace("first = x + 1", "first = x + 11"), version="2.0")
    typist.save(CONFIG)
    assert list(typist.lenses(CONFIG).values())[-1].endswith("changed upstream, 1.0 -> 2.0")
    typist.do(typist.actions(CONFIG, "def head_forward")["Merge upstream's change of 'Head.forward' (1.0 -> 2.0)"])
    text = typist.texts[typist.uri(CONFIG)]
    assert "first = x + 11\n" in text
    assert "third = second - 33\n" in text
    assert "upstream's change from 1.0 to 2.0 is merged" in typist.messages[-1]
    typist.save(CONFIG)
    typist.run("patchgen.regenerate", typist.uri(CONFIG))
    assert list(typist.lenses(CONFIG).values())[-1] == "unchanged upstream"


@pytest.mark.slow
def test_a_conflict_is_written_with_markers_only_if_the_person_wants_that(work: Workspace, typist: Editor) -> None:
    work.upstream(LONG)
    settle(work, COPY)
    work.upstream(LONG.replace("second - 3", "second - 44"), version="2.0")
    typist.open(CONFIG)
    [title] = [title for title in typist.actions(CONFIG, "def head_forward") if "Merge" in title]
    text = typist.texts[typist.uri(CONFIG)]
    typist.do(typist.actions(CONFIG, "def head_forward")[title])
    assert typist.texts[typist.uri(CONFIG)] == text
    assert "Head.forward: line" in typist.messages[-1]

    typist.answers = ["Write the conflicts with markers"]
    typist.do(typist.actions(CONFIG, "def head_forward")[title])
    assert "<<<<<<<" in typist.texts[typist.uri(CONFIG)]
    assert "1 conflict marked" in typist.messages[-1]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pip finds the release that ``LONG`` is upstream's text in, and nothing else."""
    module = f"{UPSTREAM.replace('.', '/')}.py"
    packages = {f"{folder}/__init__.py": "" for folder in map(str, Path(module).parents) if folder != "."}
    make_wheel(tmp_path / "shop", "1.0", {**packages, module: LONG})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shop"))


@pytest.mark.slow
def test_upstreams_old_text_is_downloaded_where_no_diff_holds_it(work: Workspace, shop: None, typist: Editor) -> None:
    work.upstream(LONG)
    settle(work, f"{COPY}\n\n@config.override_method('Norm.forward')\ndef norm_forward(self, x):\n    return x * 3\n")
    (work.root / GENERATED).with_suffix(".diff").unlink(missing_ok=True)
    work.upstream(LONG.replace("first = x + 1", "first = x + 11"), version="2.0")
    typist.open(CONFIG)
    assert [title for title in typist.actions(CONFIG, "def norm_forward") if "Merge" in title], "it may have changed"
    title = "Merge upstream's change of 'Head.forward' (1.0 -> 2.0)"
    typist.do(typist.actions(CONFIG, "def head_forward")[title])
    assert "1.0 is neither installed nor in the cache" in typist.messages[-1]
    assert typist.texts[typist.uri(CONFIG)] == typist.read(CONFIG)

    typist.answers = ["Download acme 1.0"]
    typist.do(typist.actions(CONFIG, "def head_forward")[title])
    assert "first = x + 11\n" in typist.texts[typist.uri(CONFIG)]
    typist.save(CONFIG)
    assert not [title for title in typist.actions(CONFIG, "def norm_forward") if "Merge" in title], "now it is known"


@pytest.mark.slow
def test_a_hand_edit_of_the_generated_file_is_absorbed(work: Workspace, typist: Editor) -> None:
    work.upstream(LONG)
    settle(work, COPY)
    typist.open(CONFIG)
    typist.open(GENERATED)
    text = typist.read(GENERATED)
    typist.type(GENERATED, text)
    assert typist.actions(GENERATED, "third = second - 33") == {}
    typist.type(GENERATED, text.replace("third = second - 33", "third = second - 66"))
    [edited] = typist.wait(typist.uri(GENERATED))
    assert "third = second - 66" in typist.texts[typist.uri(GENERATED)].split("\n")[edited.range.start.line]
    assert "edited by hand" in edited.message
    typist.write(GENERATED)
    title = "Absorb the hand edits into toy_gpu_patch_gen_config.py"
    action = typist.actions(GENERATED, "third = second - 66", [edited])[title]
    assert action.kind == types.CodeActionKind.QuickFix
    typist.do(action)
    assert "third = second - 66" in typist.texts[typist.uri(CONFIG)]
    assert "Head.forward: edited" in typist.messages[-1]
    begin, *_, end = (each.value for each in typist.progress)
    assert begin["title"] == "patchgen: absorbing hand edits in patched_modeling_toy_gpu.py"
    assert end["kind"] == "end"
    typist.write(GENERATED)
    assert typist.save(CONFIG) == [], "the generated file is what the config makes now"
    assert typist.wait(typist.uri(GENERATED)) == []

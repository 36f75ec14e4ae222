"""Another name for what configs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.conftest import UPSTREAM_TEXT, Workspace
from tests.lsp.editor import Editor, edited

OWN, OTHER = "proj/models/toy/toy_gpu_patch_gen_config.py", "proj/models/toy/toy_npu_patch_gen_config.py"
SHARED = "proj/models/toy/shared.py"
FIRST = """
from proj.models.toy.shared import norm_forward

config.override_method("Norm.forward", replacement=norm_forward)


@config.add_helper
def doubled(x):
    return x * 2


config.replace_code("Head.forward", "x + 1", "doubled(x)")


def unrelated(doubled):
    return doubled
"""
SECOND = """
from . import shared
from .toy_gpu_patch_gen_config import doubled as twice

config.override_method("Norm.forward", replacement=shared.norm_forward)
config.add_helper(twice)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    work = Workspace(tmp_path_factory.mktemp("project"))
    work.upstream(UPSTREAM_TEXT)
    work.write(SHARED, "def norm_forward(self, x):\n    return x * 2\n")
    for folder in ("proj", "proj/models", "proj/models/toy"):
        work.write(f"{folder}/__init__.py", "")
    work.config(FIRST)
    work.config(SECOND.replace("toy_gpu.py", "toy_npu.py"), "toy/toy_npu_patch_gen_config.py")
    editor = Editor(work.root, path=work.site)
    editor.open(OWN)
    yield editor
    editor.stop()


def rename(editor: Editor, piece: str, new: str) -> dict[str, str]:
    """The texts of the files that a new name changes."""
    place = editor.place(OWN, piece)
    params = types.RenameParams(new_name=new, **place)
    edit = editor.ask(types.TEXT_DOCUMENT_RENAME, params)
    root = editor.root.as_uri() + "/"
    paths = {uri: uri.removeprefix(root) for uri in edit.changes}
    return {path: edited(editor.read(path), edit.changes[uri]) for uri, path in paths.items()}


@pytest.mark.slow
def test_a_shared_patch_gets_its_new_name_in_every_file(project: Editor) -> None:
    place = project.place(OWN, "replacement=norm_forward", 14)
    prepared = project.ask(types.TEXT_DOCUMENT_PREPARE_RENAME, types.PrepareRenameParams(**place))
    assert prepared.end.character - prepared.start.character == len("norm_forward")
    texts = rename(project, "norm_forward)", "scaled_norm")
    assert set(texts) == {OWN, OTHER, SHARED}
    assert texts[SHARED].startswith("def scaled_norm(self, x):")
    assert "import scaled_norm\n" in texts[OWN]
    assert "replacement=scaled_norm)" in texts[OWN]
    assert "replacement=shared.scaled_norm)" in texts[OTHER]


def test_a_helper_is_renamed_in_quoted_code_and_where_it_has_another_name(project: Editor) -> None:
    texts = rename(project, "doubled(x):", "twofold")
    assert set(texts) == {OWN, OTHER}
    assert 'config.replace_code("Head.forward", "x + 1", "twofold(x)")' in texts[OWN]
    assert "def unrelated(doubled):\n    return doubled\n" in texts[OWN]
    assert "import twofold as twice" in texts[OTHER]
    before = project.read(OWN)
    assert [d.code for d in project.change(OWN, texts[OWN])] == ["drift"], "it still generates"
    project.change(OWN, before)


@pytest.mark.parametrize(
    ("piece", "new", "reason"),
    [
        ("config = PatchConfig", "other", "is a config"),
        ('"Norm.forward"', "other", "targets in quotes are upstream's"),
        ("doubled):\n    return doubled", "other", "local to its function"),
        ("PatchConfig(", "other", "not defined in this project"),
        ("doubled(x):", "rotate", "upstream has a 'rotate'"),
        ("doubled(x):", "not a name", "is no name in Python"),
        ("doubled(x):", "unrelated", "is taken already"),
        ("doubled(x):", "print", "one of Python's own names"),
    ],
)
def test_what_cannot_be_renamed_is_refused_with_the_reason(project: Editor, piece: str, new: str, reason: str) -> None:
    with pytest.raises(JsonRpcException, match=reason):
        rename(project, piece, new)


def test_the_definition_of_what_another_file_shares_is_there(project: Editor) -> None:
    place = project.place(OWN, "replacement=norm_forward", 14)
    [location] = project.ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place))
    assert (location.uri, location.range.start.line) == (project.uri(SHARED), 0)

"""A generated file that somebody edited by hand is never lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchgen_core.api.codegen import ModelingCodeGenerator, run_codegen
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.errors import PatchgenError
from tests.conftest import CONFIG, PATCH, Workspace, generated


@pytest.fixture
def edited(gated: Workspace) -> Workspace:
    """A project whose generated file was edited by hand in one line."""
    path = generated(gated)
    path.write_text(path.read_text().replace("return x + 1", "return x + 2"))
    return gated


def _copies(work: Workspace) -> list[str]:
    return [path.read_text() for path in (work.root / ".patchgen_cache" / "edited").glob("*.py")]


def _number_of(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().split("\n"), 1) if text in line)


def test_generating_names_the_line_and_writes_nothing(edited: Workspace) -> None:
    path, before = generated(edited), generated(edited).read_text()
    done = edited.patchgen("--all", "--diff")
    number = _number_of(path, "return x + 2")
    assert done.returncode == 2
    assert (
        f"{path.relative_to(edited.root)}:{number}: error: this generated file was edited by hand: line {number}"
        in done.stderr
    )
    assert "--discard-edits" in done.stderr
    assert path.read_text() == before
    assert not _copies(edited)


def test_edits_that_are_discarded_are_kept_as_a_copy(edited: Workspace) -> None:
    before = generated(edited).read_text()
    done = edited.patchgen("--all", "--discard-edits", "--json")
    assert done.returncode == 0
    copy = json.loads(done.stdout)["generated"][0]["copy"]
    assert (edited.root / copy).read_text() == before
    assert edited.check().exit_code == 0


def test_a_copy_is_named_where_it_is_printed(edited: Workspace) -> None:
    done = edited.patchgen(str(edited.models / CONFIG), "--discard-edits")
    assert "kept a copy of the hand edits: .patchgen_cache/edited/patched_modeling_toy_gpu-" in done.stdout


def test_mending_keeps_a_copy_and_says_where(edited: Workspace) -> None:
    before = generated(edited).read_text()
    (result,) = fix(edited.check()).results
    (copy,) = result.copies
    assert copy.read_text() == before
    assert copy.parent.parent.joinpath(".gitignore").read_text() == "*\n"


def test_a_file_that_cannot_be_kept_is_not_mended(edited: Workspace) -> None:
    path, before = generated(edited), generated(edited).read_text()
    (edited.root / ".patchgen_cache").mkdir(exist_ok=True)
    (edited.root / ".patchgen_cache" / "edited").write_text("a file where the folder goes")
    (result,) = fix(edited.check()).results
    assert result.status == "error"
    assert path.read_text() == before


def test_clearing_the_cache_keeps_the_copies(edited: Workspace) -> None:
    before = generated(edited).read_text()
    fix(edited.check())
    assert edited.patchgen("cache", "clear").returncode == 0
    assert _copies(edited) == [before]


def test_what_a_changed_config_drifted_from_is_written_over(gated: Workspace) -> None:
    gated.config(PATCH.replace("x * 2", "x * 3"))
    assert gated.patchgen("--all", "--diff").returncode == 0
    assert "x * 3" in generated(gated).read_text()
    assert not _copies(gated)


def test_an_edit_beside_a_changed_config_is_found_by_the_diff(edited: Workspace) -> None:
    edited.config(PATCH.replace("x * 2", "x * 3"))
    number = _number_of(generated(edited), "return x + 2")
    with pytest.raises(PatchgenError, match=f"edited by hand: line {number}\n"):
        run_codegen(str(edited.models / CONFIG), project=edited.project)


@pytest.mark.parametrize("change", [("x + 1", "x+1"), ("\n", "\r\n")], ids=["layout", "line ends"])
def test_another_layout_is_no_edit(gated: Workspace, change: tuple[str, str]) -> None:
    path = generated(gated)
    path.write_bytes(path.read_text().replace(*change).encode())
    assert gated.patchgen("--all", "--diff").returncode == 0
    assert gated.check().exit_code == 0


def test_a_line_that_moves_out_of_a_block_is_an_edit(gated: Workspace) -> None:
    gated.config(PATCH.replace("    return", "    if x:\n        print(x)\n        print(x)\n    return"))
    assert gated.patchgen("--all", "--diff").returncode == 0
    path = generated(gated)
    path.write_text(path.read_text().replace("    print(x)\n        return", "print(x)\n        return"))
    assert gated.patchgen("--all").returncode == 2
    assert "            print(x)\n        print(x)\n" in path.read_text()


def test_a_comment_is_an_edit(gated: Workspace) -> None:
    path = generated(gated)
    path.write_text(path.read_text().replace("return x + 1", "return x + 1  # why?"))
    assert gated.patchgen("--all").returncode == 2


def test_a_file_that_is_not_generated_is_not_written_over(gated: Workspace) -> None:
    generated(gated).write_text("my_own = 1\n")
    done = gated.patchgen("--all")
    assert done.returncode == 2
    assert "generating would overwrite this file, which no generator wrote" in done.stderr
    assert generated(gated).read_text() == "my_own = 1\n"


def test_a_generator_of_a_config_object_refuses_as_well(edited: Workspace) -> None:
    generator, path = ModelingCodeGenerator(edited.load().config, edited.project), generated(edited)
    before = path.read_text()
    with pytest.raises(PatchgenError, match="edited by hand"):
        generator.generate(path)
    assert path.read_text() == before
    generator.generate(path, discard_edits=True)
    assert edited.check().exit_code == 0
    assert _copies(edited) == [before]

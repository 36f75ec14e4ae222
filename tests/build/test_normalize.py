"""ruff over generated texts: whose settings count, what must not be, and what reaches the disk."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from patchgen_core.api.codegen import run_codegen
from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.likely_texts import LikelyTexts
from patchgen_core.build.normalize import Complaint, Normalized, RawText, normalize
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from tests.conftest import CONFIG, Workspace

TABLE = '[tool.patchgen]\nsearch_root = "proj/models"\npackage_prefix = "proj.models"\n'
UPSTREAM = """
import os

from torch import nn


class Norm(nn.Module):
    def forward(self, hidden_states):
        return self.weight * hidden_states.to('cpu')


def rotate(x, y):
    return x + y
"""
IMPORTS = "import torch\nimport proj.util\nimport os\nprint(torch, proj.util, os)\n"


def settings(work: Workspace, text: str, **files: str) -> Project:
    """The project with more in its ``pyproject.toml``; other files by name, ``__`` for a slash."""
    work.write("pyproject.toml", TABLE + textwrap.dedent(text))
    for name, content in files.items():
        work.write(name.replace("__", "/").replace("dot_", ".").replace("_toml", ".toml"), content)
    return load_project(work.root)


def run(project: Project, text: str, path: str = "toy/generated/a.py") -> str:
    result = normalize([RawText(project.search_root / path, text)], project)[0]
    assert result.complaints == ()
    return result.text


# --- whose settings count --------------------------------------------------------------------------


def test_without_settings_ruffs_defaults_count(work: Workspace) -> None:
    assert run(work.project, "import os\nx = {  'a':1 }\n") == 'x = {"a": 1}\n'


def test_line_length_and_quotes_are_the_projects(work: Workspace) -> None:
    project = settings(
        work,
        """
        [tool.ruff]
        line-length = 40
        [tool.ruff.format]
        quote-style = "single"
        """,
    )
    expected = "x = print(\n    'aaaaaaaaaaaaaaaaaaaa', 'bbbbbb'\n)\n"
    assert run(project, 'x = print("aaaaaaaaaaaaaaaaaaaa", "bbbbbb")\n') == expected


def test_import_sorting_knows_the_projects_packages(work: Workspace) -> None:
    (work.root / "proj/util.py").write_text("")
    project = settings(work, '[tool.ruff.lint]\nselect = ["I"]\n')
    expected = "import os\n\nimport torch\n\nimport proj.util\n\nprint(torch, proj.util, os)\n"
    assert run(project, IMPORTS) == expected


def test_import_sorting_knows_packages_below_src(work: Workspace) -> None:
    work.write("src/proj/util.py", "")
    work.write(
        "pyproject.toml",
        '[tool.patchgen]\nsearch_root = "src/proj"\npackage_prefix = "proj"\n[tool.ruff.lint]\nselect = ["I"]\n',
    )
    expected = "import os\n\nimport torch\n\nimport proj.util\n\nprint(torch, proj.util, os)\n"
    assert run(work.project, IMPORTS) == expected


def test_import_sorting_follows_ruffs_src_setting(work: Workspace) -> None:
    work.write("lib/own/__init__.py", "")
    project = settings(work, '[tool.ruff]\nsrc = ["lib"]\n[tool.ruff.lint]\nselect = ["I"]\n')
    expected = "import torch\n\nimport own\n\nprint(torch, own)\n"
    assert run(project, "import own\nimport torch\nprint(torch, own)\n") == expected


def test_known_first_party_counts(work: Workspace) -> None:
    project = settings(
        work, '[tool.ruff.lint]\nselect = ["I"]\n[tool.ruff.lint.isort]\nknown-first-party = ["torch"]\n'
    )
    assert run(project, "import torch\nimport zlib\nimport abcd\nprint(torch, zlib, abcd)\n") == (
        "import zlib\n\nimport abcd\n\nimport torch\n\nprint(torch, zlib, abcd)\n"
    )


def test_per_file_ignores_go_by_the_real_path(work: Workspace) -> None:
    project = settings(
        work,
        """
        [tool.ruff.lint]
        select = ["F"]
        [tool.ruff.lint.per-file-ignores]
        "proj/models/*/generated/*.py" = ["F401"]
        """,
    )
    assert run(project, "import os\n", "toy/generated/a.py") == "import os\n"
    assert run(project, "import os\n", "toy/elsewhere/a.py") == ""


@pytest.mark.parametrize("name", ["ruff_toml", "dot_ruff_toml"])
def test_a_ruff_toml_wins_over_pyproject(work: Workspace, name: str) -> None:
    project = settings(work, "[tool.ruff]\nline-length = 200\n", **{name: "line-length = 30\n"})
    assert run(
        project, "x = print(aaaaaaaaaa, bbbbbbbbbb)\n".replace("a" * 10, "1" * 10).replace("b" * 10, "2" * 10)
    ) == ("x = print(\n    1111111111, 2222222222\n)\n")


def test_the_nearest_settings_above_the_file_count(work: Workspace) -> None:
    project = settings(work, "[tool.ruff]\nline-length = 200\n", proj__models__toy__ruff_toml="line-length = 30\n")
    text = "x = print(1111111111, 2222222222)\n"
    assert run(project, text, "toy/generated/a.py") == "x = print(\n    1111111111, 2222222222\n)\n"
    assert run(project, text, "other/generated/a.py") == text


def test_a_pyproject_without_ruff_is_no_settings_file(work: Workspace) -> None:
    project = settings(work, "[tool.ruff]\nline-length = 30\n", proj__models__pyproject_toml="[tool.other]\n")
    assert run(project, "x = print(1111111111, 2222222222)\n") == "x = print(\n    1111111111, 2222222222\n)\n"


def test_extended_settings_count(work: Workspace) -> None:
    project = settings(work, '[tool.ruff]\nextend = "conf/base_ruff.toml"\n')
    work.write("conf/base_ruff.toml", "line-length = 30\n")
    assert run(project, "x = print(1111111111, 2222222222)\n") == "x = print(\n    1111111111, 2222222222\n)\n"


def test_isolated_ignores_the_projects_settings(work: Workspace) -> None:
    project = settings(
        work, "ruff_isolated = true\n[tool.ruff]\nline-length = 30\n", proj__models__ruff_toml="line-length = 20\n"
    )
    assert run(project, "x = print(1111111111, 2222222222)\n") == "x = print(1111111111, 2222222222)\n"


def test_extra_ignores_come_on_top(work: Workspace) -> None:
    project = settings(work, 'ruff_extra_ignore = ["F401", "E711"]\n[tool.ruff.lint]\nignore = ["F841"]\n')
    text = "import os\n\n\ndef f():\n    x = 1\n"
    assert run(project, text) == text


# --- whose settings do not -------------------------------------------------------------------------


def test_the_bytes_are_the_same_wherever_they_go(work: Workspace, tmp_path: Path) -> None:
    work.upstream(UPSTREAM)
    (work.root / "proj/util.py").write_text("")
    settings(
        work,
        """
        [tool.ruff]
        line-length = 60
        [tool.ruff.lint]
        select = ["F", "I"]
        [tool.ruff.lint.per-file-ignores]
        "**/generated/*.py" = ["F401"]
        """,
    )
    path = work.config(
        "config.add_import('proj.util', is_from_import=False)\n"
        "@config.replace_function('rotate')\ndef turn(x, y):\n    return proj.util.turn(x,   y)\n"
    )
    expected = work.text()
    assert "import os\n\nfrom torch import nn\n\nimport proj.util\n" in expected
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "ruff.toml").write_text("line-length = 20\n")
    for folder in (elsewhere, work.root / "proj", work.models / "toy"):
        artifact = make_artifacts(Selection(work.project, [path], output=folder))[0].artifact
        assert artifact is not None
        assert (artifact.path.parent, artifact.text) == (folder, expected)
        assert "+++ generated/patched_modeling_toy_gpu.py\n" in artifact.diff


@pytest.mark.parametrize("own", ["", "[tool.ruff.lint]\nselect = ['F', 'I']\n"], ids=["no settings", "settings"])
def test_neither_the_user_nor_the_working_directory_counts(
    work: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    work.upstream(UPSTREAM)
    settings(work, own)
    work.config("")
    expected = work.text()
    (tmp_path / "ruff").mkdir()
    for folder in (tmp_path, tmp_path / "ruff"):
        (folder / "ruff.toml").write_text("line-length = 20\n[format]\nquote-style = 'single'\n")
    config = str(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, config)
    monkeypatch.setenv("RUFF_OUTPUT_FORMAT", "github")
    monkeypatch.chdir(tmp_path)
    assert work.text() == expected
    done = work.patchgen("proj.models.toy.toy_gpu_patch_gen_config")
    assert done.returncode == 0, done.stderr
    assert (work.models / "toy/generated/patched_modeling_toy_gpu.py").read_text() == expected


def test_the_environment_does_not_divert_what_ruff_finds(
    work: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUFF_OUTPUT_FILE", str(tmp_path / "ruff.txt"))
    result = normalize([RawText(work.models / "a.py", "x = missing\n")], work.project)[0]
    assert [complaint.name for complaint in result.complaints] == ["missing"]


def test_formatting_again_changes_nothing(work: Workspace) -> None:
    project = settings(work, '[tool.ruff]\nline-length = 50\n[tool.ruff.lint]\nselect = ["F", "I", "UP"]\n')
    text = "import typing, os\nimport abc\nx : typing.Optional[typing.List[int]]=None if os else abc\n"
    once = run(project, text)
    assert run(project, once) == once


def test_texts_of_one_path_do_not_meet(work: Workspace) -> None:
    path = work.models / "toy/generated/a.py"
    results = normalize([RawText(path, f"x  = {n}\n") for n in range(3)], work.project)
    assert [result.text for result in results] == ["x = 0\n", "x = 1\n", "x = 2\n"]


@pytest.mark.parametrize(
    "own",
    [
        "",
        "[tool.ruff.lint]\nselect = ['E', 'F', 'I', 'UP', 'INP', 'RUF']\n",
        "[tool.ruff]\nfix = false\nshow-fixes = true\n[tool.ruff.lint]\nselect = ['I', 'UP']\n",
        "[tool.ruff]\nunsafe-fixes = true\nline-length = 30\n[tool.ruff.lint]\nselect = ['F', 'UP', 'SIM', 'C4']\n",
        "[tool.ruff]\nexclude = ['proj/models/toy']\nforce-exclude = true\n",
        "[tool.ruff.format]\nexclude = ['generated']\n[tool.ruff]\nforce-exclude = true\n",
        "[tool.ruff.lint.per-file-ignores]\n'proj/models/*/generated/*' = ['F401']\n",
        "[tool.ruff]\nsrc = ['proj']\n[tool.ruff.lint]\nselect = ['I']\nisort.force-single-line = true\n",
    ],
)
def test_a_text_by_itself_becomes_what_it_does_beside_others(work: Workspace, own: str) -> None:
    project = settings(work, own)
    text = (
        "import typing, os\nimport util\nimport torch, abc\n\n\ndef f(a : typing.Optional[int]=None) -> list:\n"
        "    import os\n    s = 'ü\\N{BULLET}'   # noqa\n    return list([x for x in (a, torch, util, s)])\n"
    )
    path = work.models / "toy/generated/a.py"
    alone = normalize([RawText(path, text)], project)
    together = normalize([RawText(path, text), RawText(path.with_name("b.py"), "x = 1\n")], project)
    assert alone == together[:1]


@pytest.mark.parametrize(
    "line", ["    number = 2\n", "    number  =  2\n", "    number = missing\n", "    import os\n", ""]
)
def test_what_becomes_of_a_text_is_foreseen_and_no_more_than_that(work: Workspace, line: str) -> None:
    project = settings(work, "[tool.ruff.lint]\nselect = ['F', 'I']\n")
    path, likely, seen = work.models / "toy/generated/a.py", LikelyTexts(), list[Normalized]()

    def text(line: str) -> str:
        return f"# of {len(line)}\n# lines\nimport os\nimport abc\n\n\ndef f(x):\n{line}    return abc, x\n"

    normalize([RawText(path, text("    number = 1\n"))], project, likely)
    raw = RawText(path, text(line))
    result = normalize([raw], project, likely, seen.append)[0]
    assert result == normalize([raw], project)[0]
    assert [each.text for each in seen] == [result.text] if line == "    number = 2\n" else len(seen) <= 1


def test_nothing_to_normalize_is_nothing(work: Workspace) -> None:
    assert normalize([], work.project) == []


# --- what must not be ------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["  # noqa", "  # noqa: F821", "  # type: ignore"])
@pytest.mark.parametrize("top", ["", "# ruff: noqa\n", "# ruff: noqa: F821\n", "# flake8: noqa\n"])
def test_undefined_names_are_found_under_any_noqa(work: Workspace, top: str, mark: str) -> None:
    text = f"{top}x = missing{mark}\n"
    result = normalize([RawText(work.models / "a.py", text)], work.project)[0]
    line = 2 if top else 1
    assert result.complaints == (Complaint(line, "Undefined name `missing`", "missing"),)


@pytest.mark.parametrize(
    "own",
    [
        "[tool.ruff.lint]\nignore = ['F821']\n",
        "[tool.ruff.lint]\nselect = ['I']\n",
        "[tool.ruff.lint.per-file-ignores]\n'**' = ['ALL']\n",
        "[tool.ruff]\nexclude = ['*']\nforce-exclude = true\n",
        "[tool.ruff.lint]\nexclude = ['*']\n",
    ],
)
def test_undefined_names_are_found_under_any_settings(work: Workspace, own: str) -> None:
    project = settings(work, f"ruff_extra_ignore = ['F821']\n{own}")
    result = normalize([RawText(work.models / "toy/generated/a.py", "x = missing\n")], project)[0]
    assert [complaint.name for complaint in result.complaints] == ["missing"]


def test_a_syntax_error_leaves_the_other_texts_alone(work: Workspace) -> None:
    texts = [RawText(work.models / name, text) for name, text in (("a.py", "x  = 1\ndef f(:\n"), ("b.py", "y  = 1\n"))]
    broken, fine = normalize(texts, work.project)
    assert broken.text == "x  = 1\ndef f(:\n"
    assert {(c.line, c.name) for c in broken.complaints} >= {(2, "")}
    assert fine == Normalized("y = 1\n")


def test_each_complaint_belongs_to_its_patch(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config(
        """
        @config.replace_function("rotate")
        def turn(x, y):
            return first(x)

        @config.override_method("Norm.forward")
        def forward(self, x):
            return x

        @config.override_method("Norm.late")
        def late(self, x):
            return second(x)
        """
    )
    problems = work.outcome().problems
    assert [(p.location.line if p.location else 0, p.message.split(" in ")[0]) for p in problems] == [
        (16, "method_override Norm.late: nothing defines 'second'"),
        (8, "function_replacement rotate: nothing defines 'first'"),
    ]


def test_a_bad_entry_of_a_list_belongs_to_its_config(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config(
        """
        from patchgen.patch_spec import ImportSpec
        config.additional_imports.append(ImportSpec("fast", ("two three",)))
        """
    )
    assert work.errors() == "toy/toy_gpu_patch_gen_config.py:7: add_import: 'two three' is not a name to import"


@pytest.mark.parametrize(
    "declaration",
    [
        "config.add_post_import_block('from __future__ import annotations')",
        "config.add_post_import_block('return 1')",
        "config.add_import('__future__', names=['annotations'])",
    ],
)
def test_what_python_rejects_is_not_generated(work: Workspace, declaration: str) -> None:
    """Either an error, or a module that compiles."""
    work.upstream("import os\n\ntry:\n    import fast\nexcept ImportError:\n    fast = None\n")
    work.config(declaration)
    outcome = work.outcome()
    if outcome.artifact is not None:
        compile(outcome.artifact.text, "generated.py", "exec")


@pytest.mark.parametrize("own", ["[tool.ruff]\nline-length = 'x'\n", "[tool.ruff]\nno-such-setting = 1\n"])
def test_bad_ruff_settings_are_an_error_that_shows_what_ruff_says(work: Workspace, own: str) -> None:
    project = settings(work, own)
    with pytest.raises(PatchgenError, match=r"(?s)^ruff failed on the generated modules\n.*pyproject\.toml"):
        normalize([RawText(work.models / "a.py", "x = 1\n")], project)


def test_an_unknown_rule_to_ignore_is_an_error_that_names_it(work: Workspace) -> None:
    project = settings(work, "ruff_extra_ignore = ['NOPE1']\n")
    with pytest.raises(PatchgenError, match="NOPE1"):
        normalize([RawText(work.models / "a.py", "x = 1\n")], project)


# --- nothing is written on error -------------------------------------------------------------------


def test_nothing_is_written_when_a_config_has_errors(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    path = work.config("@config.replace_function('rotate')\ndef turn(x, y):\n    return missing\n")
    with pytest.raises(PatchgenError, match="nothing defines 'missing'"):
        run_codegen(str(path), save_diff=True, project=work.project)
    assert fix(check(Selection(work.project))).exit_code == 2
    assert not (work.models / "toy/generated").exists()


def test_what_is_there_stays_when_a_config_has_errors(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    run_codegen(str(work.config("")), save_diff=True, project=work.project)
    folder = work.models / "toy/generated"
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()}
    work.config("@config.replace_function('rotate')\ndef turn(x, y):\n    return missing\n")
    assert fix(check(Selection(work.project))).exit_code == 2
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()} == before
    assert len(before) == 2


def test_one_bad_config_keeps_no_other_from_being_fixed(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config("raise ValueError('boom')\n", "bad/bad_patch_gen_config.py")
    work.config("", CONFIG)
    report = fix(check(Selection(work.project)))
    assert [result.status for result in report.results] == ["error", "fixed"]
    assert (work.models / "toy/generated/patched_modeling_toy_gpu.py").exists()

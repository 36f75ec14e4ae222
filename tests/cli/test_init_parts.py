"""What ``patchgen init`` adds beside the table: exceptions of ruff, a hook of pre-commit, a workflow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from patchgen_core.project.pyproject import parse_toml
from tests.conftest import PATCH, PREAMBLE, TABLE, Workspace

HOOKS = """# ours
repos:
- repo: https://github.com/astral-sh/ruff-pre-commit
  rev: v0.16.0
  hooks:
    - id: ruff-check
"""


def init(work: Workspace, *arguments: str, code: int = 0) -> str:
    done = work.patchgen("init", *arguments)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout


def files(work: Workspace) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in work.root.rglob("*") if path.is_file()}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_what_a_repository_does_not_use_is_left_out_and_told(work: Workspace) -> None:
    before = files(work)
    assert init(work) == (
        "same     pyproject.toml: it has a table [tool.patchgen]\n"
        "left out ruff: there are no settings of ruff; --parts ruff writes it\n"
        "left out pre-commit: there is no .pre-commit-config.yaml; --parts pre-commit writes it\n"
        "left out workflow: there are no workflows; --parts workflow writes it\n"
    )
    assert files(work) == before


def test_what_it_uses_gets_a_place_for_configs_and_nothing_twice(work: Workspace) -> None:
    work.write("pyproject.toml", TABLE + "\n[tool.ruff]\nline-length = 100\n")
    work.write(".pre-commit-config.yaml", HOOKS)
    work.write(".github/workflows/tests.yml", "name: tests\n")
    said = init(work, "--dry-run")
    assert said.count("would be ") == 3
    assert init(work).count("wrote    ") == 3
    assert init(work).count("same     ") == 4
    after = files(work)
    init(work)
    assert files(work) == after


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", TABLE + "[tool.ruff]\nline-length = 100\n"),
        ("pyproject.toml", TABLE + '[tool.ruff.lint]\nextend-per-file-ignores = { "a.py" = ["F401"] }\n'),
        (
            "pyproject.toml",
            TABLE + '[tool.ruff.lint.extend-per-file-ignores]\n"a.py" = ["F401"]\n\n[tool.other]\nx = 1\n',
        ),
        ("ruff.toml", 'lint.select = ["F"]\n'),
        ("ruff.toml", 'line-length = 100\r\n[lint.per-file-ignores]\r\n"a.py" = ["F401"]\r\n'),
    ],
)
def test_ruff_minds_no_names_of_the_generated_module_afterwards(work: Workspace, name: str, text: str) -> None:
    (work.root / name).write_bytes(text.encode())
    work.config(PATCH.replace("x * 2", "x * scale"), preamble=PREAMBLE.replace(", create_patch_from_external", ""))
    lint = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "F", "."]
    assert b"F821" in subprocess.run(lint, cwd=work.root, capture_output=True).stdout
    by_hand = "= {" in text
    said = init(work, code=int(by_hand))
    if by_hand:  # such a table takes no other beside it
        assert "add this yourself:\n[" in said
        assert (work.root / name).read_bytes() == text.encode()
        return
    assert subprocess.run(lint, cwd=work.root, capture_output=True).returncode == 0
    after = (work.root / name).read_bytes().decode()
    assert ("\r\n" in text) == ("\r\n" in after)
    settings = parse_toml(after)
    lint_table = settings["lint"] if name == "ruff.toml" else settings["tool"]["ruff"]["lint"]
    assert lint_table["extend-per-file-ignores"]["*_patch_gen_config.py"] == ["F821", "F841"]


@pytest.mark.parametrize(
    "text", [HOOKS, HOOKS.replace("\n-", "\n  -").replace("\n  rev", "\n    rev"), HOOKS + "\n\n"]
)
def test_hook_comes_last_among_the_repositorys(work: Workspace, text: str) -> None:
    text = text.replace("\n  hooks:\n    - id", "\n    hooks:\n      - id") if "\n  -" in text else text
    path = work.write(".pre-commit-config.yaml", text)
    before = load(path)["repos"]
    init(work)
    *others, own = load(path)["repos"]
    assert others == before
    assert path.read_text().startswith(text.rstrip())
    assert own["hooks"][0]["entry"] == "patchgen check ."


@pytest.mark.parametrize("text", ["repos: []\n", HOOKS + "ci:\n  skip: [a]\n", "ci:\n  - a\n"])
def test_hook_that_has_no_place_is_printed(work: Workspace, text: str) -> None:
    path = work.write(".pre-commit-config.yaml", text)
    said = init(work, code=1)
    assert (
        "left     .pre-commit-config.yaml: 'repos' is not a list at its end; add this yourself:\n- repo: local" in said
    )
    assert path.read_text() == text
    assert json.loads(init(work, "--json", code=1))["exit_code"] == 1


@pytest.mark.parametrize(
    ("more", "steps"),
    [
        ({}, ['pip install "pytest-patchgen[parity,xdist]"']),
        ({"setup.py": ""}, ['pip install -e . "pytest-patchgen[parity,xdist]"']),
        ({"requirements.txt": ""}, ['pip install -r requirements.txt "pytest-patchgen[parity,xdist]"']),
        ({"uv.lock": ""}, ["uv run --with"]),
    ],
)
def test_workflow_installs_the_project_and_runs_the_gate(
    work: Workspace, more: dict[str, str], steps: list[str]
) -> None:
    for name, text in more.items():
        work.write(name, text)
    work.write(".git/HEAD", "ref: refs/heads/trunk\n")
    init(work, "--parts", "workflow")
    workflow = load(work.root / ".github/workflows/patchgen.yml")
    assert workflow[True]["push"]["branches"] == ["trunk"]  # YAML 1.1 reads "on" as a truth
    commands = [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step]
    assert commands[0].startswith(steps[0])
    assert commands[-1].endswith("pytest -p pytest_patchgen -n auto -m patchgen")


def test_project_below_the_root_of_its_repository(work: Workspace) -> None:
    inner = work.root / "training"
    inner.mkdir()
    (work.root / "pyproject.toml").rename(inner / "pyproject.toml")
    work.write(".git/HEAD", "ref: refs/heads/main\n")
    work.write(".gitea/workflows/a.yml", "name: a\n")
    command = [sys.executable, "-m", "patchgen_core", "init"]
    assert subprocess.run(command, cwd=inner, capture_output=True).returncode == 0
    job = load(work.root / ".gitea/workflows/patchgen.yml")["jobs"]["gate"]
    assert job["defaults"] == {"run": {"working-directory": "training"}}
    assert any(step.get("with", {}).get("path") == "training/.patchgen_cache" for step in job["steps"])


def test_gitlab_gets_one_more_job(work: Workspace) -> None:
    path = work.write(".gitlab-ci.yml", "tests:\n  script: [pytest]\n")
    init(work)
    jobs = load(path)
    assert jobs["tests"] == {"script": ["pytest"]}
    assert jobs["patchgen"]["script"][-1] == "pytest -p pytest_patchgen -n auto -m patchgen"


def test_a_workflow_that_runs_the_gate_is_enough(work: Workspace) -> None:
    work.write(".github/workflows/all.yaml", "jobs:\n  a:\n    steps:\n      - run: patchgen gate\n")
    assert "same     .github/workflows/all.yaml: it runs patchgen" in init(work)


def test_unknown_part_is_one_error(work: Workspace) -> None:
    done = work.patchgen("init", "--parts", "workflows")
    assert done.returncode == 2
    assert done.stderr == "error: there is no part 'workflows'\n  Did you mean 'workflow'?\n"

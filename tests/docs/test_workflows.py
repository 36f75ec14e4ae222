"""The workflows of GitHub Actions: their scripts run here as they run there, all but what asks GitHub itself."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.cli.commands.upgrade import build_parser
from tests.cli.test_upgrade_history_option import History
from tests.conftest import PATCH, UPSTREAM, UPSTREAM_TEXT, Workspace
from tests.upstream.wheels import make_wheel

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
BOT = "41898282+github-actions[bot]@users.noreply.github.com"


def read(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


UPGRADE = read(ROOT / ".github/workflows/upgrade.yml")


def scripts(workflow: dict[str, Any]) -> dict[str, str]:
    """The scripts of a workflow by their steps' names."""
    steps = [step for job in workflow["jobs"].values() for step in job.get("steps", ())]
    return {step.get("name", step["run"]): step["run"] for step in steps if "run" in step}


def inputs(workflow: dict[str, Any]) -> set[str]:
    return set(workflow[True]["workflow_call"]["inputs"])  # YAML takes "on" for True


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_script_is_valid(path: Path) -> None:
    for name, script in scripts(read(path)).items():
        script = re.sub(r"\$\{\{.*?\}\}", "expression", script)
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), name


@pytest.mark.parametrize("name", ["gate", "upgrade"])
def test_every_input_that_is_used_is_declared(name: str) -> None:
    path = ROOT / f".github/workflows/{name}.yml"
    used = set(re.findall(r"\binputs\.([\w-]+)", path.read_text(encoding="utf-8")))
    assert used == inputs(read(path))


def test_scripts_of_the_upgrade_hold_no_expression() -> None:
    """What an input or an output holds is text for them, and never a part of the script."""
    assert not [name for name, script in scripts(UPGRADE).items() if "${{" in script]


def test_only_the_job_that_runs_no_code_of_the_project_may_write() -> None:
    assert UPGRADE["permissions"] == {}
    jobs = UPGRADE["jobs"]
    assert jobs["upgrade"]["permissions"] == {"contents": "read"}
    writing = jobs["pull-request"]
    assert writing["permissions"] == {"contents": "write", "pull-requests": "write"}
    commands = re.findall(r"^ *(\w+)", "\n".join(step.get("run", "") for step in writing["steps"]), re.MULTILINE)
    assert not {"pip", "python", "pytest", "patchgen", "eval", "bash"} & set(commands)


def test_command_of_the_upgrade_is_one_that_its_parser_takes() -> None:
    script = scripts(UPGRADE)["Upgrade"].replace("\\\n", " ")
    (line,) = re.findall(r"^ *patchgen upgrade .*$", script, re.MULTILINE)
    words = shlex.split(line.partition(" > ")[0])[2:]
    options = build_parser("patchgen upgrade").parse_args(words)
    assert (options.to, options.apply, options.json) == ("$TO", True, True)


def test_page_calls_the_workflow_with_inputs_that_it_has() -> None:
    page = (ROOT / "docs/upgrading.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml .*?\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (job,) = yaml.safe_load(block)["jobs"].values()
    assert job["uses"].endswith("/.github/workflows/upgrade.yml@main")
    assert set(job["with"]) <= inputs(UPGRADE)
    assert job["permissions"] == UPGRADE["jobs"]["pull-request"]["permissions"]


# --- the scripts -----------------------------------------------------------------------------------


class Runner:
    """A checkout of a repository, and a machine that runs steps in it."""

    def __init__(self, work: Workspace) -> None:
        self.work, self.root = work, work.root
        self.temp = work.root.parent / "temp"
        self.origin = work.root.parent / "origin.git"
        self.temp.mkdir()
        self.out = self.temp / "patchgen"
        self.env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(work.site),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.temp / "output"),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary"),
            "PACKAGE": "acme",
            "BRANCH": "patchgen/upgrade",
            "TITLE": "acme 1.0 to 2.0",
        }
        for who in ("AUTHOR", "COMMITTER"):
            self.env.pop(f"GIT_{who}_EMAIL", None)
            self.env.pop(f"GIT_{who}_NAME", None)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("config", "user.email", "someone@example.org")
        self.git("config", "user.name", "someone")
        self.commit("all of it")
        self.git("clone", "--quiet", "--bare", ".", str(self.origin))
        self.git("remote", "add", "origin", str(self.origin))
        self.git("fetch", "--quiet", "origin")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.root, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def step(self, name: str, code: int = 0, **environment: str) -> str:
        """Run a step's script as GitHub does; returns what it prints."""
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", scripts(UPGRADE)[name]]
        env = {**self.env, **environment}
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def outputs(self) -> dict[str, str]:
        """The outputs that steps have set, and forget them."""
        path = self.temp / "output"
        lines = path.read_text(encoding="utf-8").splitlines()
        path.unlink()
        return dict(line.split("=", 1) for line in lines)

    def upgrade(self) -> dict[str, str]:
        self.step("Upgrade", TO="2.0", PINS="constraints.txt missing.txt", HISTORY="")
        return self.outputs()

    def push(self) -> dict[str, str]:
        """A fresh checkout, and the step in it."""
        self.git("fetch", "--quiet", "origin")
        self.git("checkout", "--quiet", "--force", "--detach", "origin/main")
        if self.git("branch", "--list", "patchgen-upgrade-made"):
            self.git("branch", "--quiet", "-D", "patchgen-upgrade-made")
        (self.temp / "output").touch()
        self.step("Push")
        return self.outputs()

    def pushed(self, what: str = "%s") -> str:
        self.git("fetch", "--quiet", "origin")
        return self.git("log", "-1", f"--format={what}", "origin/patchgen/upgrade")


@pytest.fixture
def runner(work: Workspace) -> Runner:
    """A project that is committed as made from release 1.0, where 2.0 is installed."""
    work.upstream(UPSTREAM_TEXT)
    work.config(PATCH)
    fix(work.check())
    work.write("constraints.txt", 'acme==0.9; python_version < "3.11"\nacme==1.0\nacme-other==1.0\n')
    work.upstream(UPSTREAM_TEXT.replace("return x + 1", "return x + 2"), version="2.0")
    return Runner(work)


def test_upgrade_makes_a_patch_and_a_text_of_the_new_release(runner: Runner) -> None:
    assert runner.upgrade() == {
        "version": "2.0",
        "is_new": "true",
        "title": "acme 1.0 to 2.0",
        "is_open": "false",
    }
    patch = (runner.out / "upgrade.patch").read_text(encoding="utf-8")
    assert "+#  Based on: acme==2.0" in patch
    assert "-acme==1.0\n+acme==2.0\n acme-other==1.0\n" in patch
    assert (runner.out / "upgrade.html").exists()
    assert (runner.temp / "summary").read_text(encoding="utf-8").startswith("### acme 1.0 → 2.0\n")


@pytest.mark.slow
def test_nothing_new_opens_nothing(runner: Runner) -> None:
    runner.upgrade()
    runner.commit("upgraded")
    assert runner.upgrade()["is_new"] == "false"
    assert (runner.out / "upgrade.patch").read_text(encoding="utf-8") == ""


@pytest.mark.slow
def test_release_candidate_makes_a_draft_and_none_makes_nothing(runner: Runner, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shop)}
    make_wheel(shop, "2.0")
    runner.step("Upgrade", TO="candidate", PINS="constraints.txt", HISTORY="", **pip)
    assert runner.outputs() == {"is_new": "false"}
    text = UPSTREAM_TEXT.replace("return x\n", "return x * 3\n")
    make_wheel(shop, "2.1rc1", {"acme/__init__.py": "", **{f"{UPSTREAM.replace('.', '/')}.py": text}})
    history = History(tmp_path / "history", UPSTREAM_TEXT)
    history.commit(text, "Norms are three times as large (#31)")
    history.git("tag", "v2.1rc1")
    runner.step("Upgrade", TO="candidate", PINS="constraints.txt", HISTORY=str(history.folder), **pip)
    outputs = runner.outputs()
    assert (outputs["version"], outputs["is_new"], outputs["is_open"]) == ("2.1rc1", "true", "true")
    told = (runner.out / "upgrade.md").read_text(encoding="utf-8")
    assert re.search(r"behind that:\*\*\n\n- \\#31 Norms are .* concerns 1 target: Norm.forward", told), told


@pytest.mark.slow
def test_history_that_does_not_have_the_releases_is_no_obstacle(runner: Runner, tmp_path: Path) -> None:
    history = History(tmp_path / "history", UPSTREAM_TEXT)
    runner.work.upstream(UPSTREAM_TEXT.replace("return x\n", "return x * 3\n"), version="2.0")
    for place in (history.folder, tmp_path / "nowhere"):
        told = runner.step("Upgrade", TO="2.0", PINS="", HISTORY=str(place))
        assert f"::warning::upstream's history does not tell which change is behind what: {place}\n" in told
        assert runner.outputs()["version"] == "2.0"
        assert "Upstream's changes" not in (runner.out / "upgrade.md").read_text(encoding="utf-8")


def test_page_and_repository_look_at_candidates_by_the_same_workflow() -> None:
    (job,) = read(ROOT / ".github/workflows/candidate.yml")["jobs"].values()
    assert job["uses"] == "./.github/workflows/upgrade.yml"
    assert job["with"]["to"] == "candidate"
    assert set(job["with"]) <= inputs(UPGRADE)
    assert job["permissions"] == UPGRADE["jobs"]["pull-request"]["permissions"]


@pytest.mark.slow
def test_something_that_must_change_makes_a_draft(runner: Runner) -> None:
    runner.work.upstream("def rotate(x):\n    return -x\n", version="2.0")
    outputs = runner.upgrade()
    assert (outputs["is_new"], outputs["is_open"]) == ("true", "true")
    runner.step("Gate", VERSION="2.0", IS_OPEN="true", INSTALL_RELEASE="true", GATE="true", RUN_URL="https://run")
    assert runner.outputs() == {"is_draft": "true"}


def test_configuration_that_cannot_be_loaded_fails_the_job(runner: Runner) -> None:
    runner.work.write("pyproject.toml", "[tool.patchgen]\nsearch_root = 1\n")
    told = runner.step("Upgrade", 2, TO="2.0", PINS="", HISTORY="")
    assert '"exit_code": 2' in told


@pytest.mark.parametrize(
    ("gate", "verdict"), [("patchgen --check", "green"), ("echo what failed; false; true", "red")]
)
@pytest.mark.slow
def test_gate_is_told_first_in_the_text(runner: Runner, gate: str, verdict: str) -> None:
    runner.upgrade()
    install = 'test "$PACKAGE==$VERSION" = acme==2.0'
    runner.step("Gate", VERSION="2.0", IS_OPEN="false", INSTALL_RELEASE=install, GATE=gate, RUN_URL="https://run")
    assert runner.outputs() == {"is_draft": str(verdict == "red").lower()}
    body = (runner.out / "body.md").read_text(encoding="utf-8")
    assert body.startswith(f"**The gate is {verdict} with acme 2.0.** [The run](https://run) has ")
    assert ("\n    what failed\n" in body) == (verdict == "red")
    assert "\n### acme 1.0 → 2.0\n" in body


@pytest.mark.slow
def test_release_that_cannot_be_installed_is_a_red_gate(runner: Runner) -> None:
    runner.upgrade()
    runner.step("Gate", VERSION="2.0", IS_OPEN="false", INSTALL_RELEASE="false", GATE="true", RUN_URL="https://run")
    assert runner.outputs() == {"is_draft": "true"}


@pytest.mark.slow
def test_patch_is_committed_to_a_branch_of_its_own(runner: Runner) -> None:
    runner.upgrade()
    assert runner.push() == {"is_ours": "true"}
    assert runner.pushed("%s|%ae") == f"acme 1.0 to 2.0|{BOT}"
    changed = runner.git("diff", "--name-only", "origin/main", "origin/patchgen/upgrade").split("\n")
    assert changed == [
        "constraints.txt",
        *[f"proj/models/toy/generated/patched_modeling_toy_gpu{s}" for s in (".diff", ".py")],
    ]


@pytest.mark.slow
def test_branch_is_pushed_anew_only_for_something_else(runner: Runner) -> None:
    runner.upgrade()
    runner.push()
    first = runner.pushed("%H")
    runner.env["GIT_COMMITTER_DATE"] = "2030-01-01T00:00:00Z"
    assert runner.push() == {"is_ours": "true"}
    assert runner.pushed("%H") == first
    runner.git("checkout", "--quiet", "--force", "main")
    runner.work.upstream(UPSTREAM_TEXT, version="2.0")
    runner.upgrade()
    runner.push()
    assert runner.pushed("%H") != first


@pytest.mark.slow
def test_branch_that_somebody_has_pushed_to_is_left_alone(runner: Runner) -> None:
    runner.upgrade()
    runner.push()
    runner.git("checkout", "--quiet", "--force", "-B", "theirs", "origin/patchgen/upgrade")
    runner.git("config", "user.email", "someone@example.org")
    runner.work.write("more.txt", "resolved\n")
    runner.commit("resolved by hand")
    runner.git("push", "--quiet", "origin", "HEAD:patchgen/upgrade")
    assert runner.push() == {}
    assert runner.pushed() == "resolved by hand"


@pytest.mark.slow
def test_release_for_which_nothing_can_be_written_is_an_empty_commit(runner: Runner) -> None:
    runner.upgrade()
    (runner.out / "upgrade.patch").write_text("", encoding="utf-8")
    assert runner.push() == {"is_ours": "true"}
    assert runner.git("diff", "--name-only", "origin/main", "origin/patchgen/upgrade") == ""

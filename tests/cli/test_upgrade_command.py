"""``patchgen upgrade``: arguments, what it prints and writes, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.cli.main import main
from tests.conftest import UPSTREAM, UPSTREAM_TEXT, Workspace, generated

OLD = UPSTREAM_TEXT.replace(
    "        return x\n", "        kept = x\n        scaled = kept * 1\n        total = scaled\n        return total\n"
)
NEW = OLD.replace("scaled = kept * 1", "scaled = kept * self.weight")
COPIED = """
@config.override_method("Norm.forward", description="Counts")
def norm_forward(self, x):
    kept = x
    scaled = kept * 1
    total = scaled
    count(total)  # ours
    return total


def count(value):
    pass


config.add_helper(count)
"""
TO = ("upgrade", "--package", "acme")


class Upgraded:
    """A project that is generated and committed, and a folder with the next release beside it."""

    def __init__(self, work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work = work
        work.upstream(OLD)
        self.config = work.config(COPIED)
        fix(work.check())
        self.next = work.root.parent / "next"
        self.release(NEW)
        for who in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{who}_NAME", "someone")
            monkeypatch.setenv(f"GIT_{who}_EMAIL", "someone@example.org")
        monkeypatch.chdir(work.root)
        self.git("init", "--quiet")
        self.commit()

    def release(self, text: str, version: str = "2.0") -> None:
        """Write the next release."""
        module = self.next.joinpath(*UPSTREAM.split(".")).with_suffix(".py")
        module.parent.mkdir(parents=True, exist_ok=True)
        for folder in [*module.parents][:3]:
            (folder / "__init__.py").touch()
        module.write_text(text)
        metadata = self.next / f"acme-{version}.dist-info/METADATA"
        metadata.parent.mkdir(exist_ok=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: acme\nVersion: {version}\n")

    def git(self, *arguments: str) -> str:
        return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "all of it")

    def changed(self) -> list[str]:
        return [line[3:] for line in self.git("status", "--porcelain").splitlines()]

    def run(self, *arguments: str) -> int:
        return main([*TO, "--source", str(self.next), *arguments])


@pytest.fixture
def upgraded(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Upgraded:
    return Upgraded(work, monkeypatch)


def test_report_is_printed_and_nothing_written(upgraded: Upgraded, capsys: pytest.CaptureFixture[str]) -> None:
    assert upgraded.run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "acme 1.0 → 2.0, 1 config: 1 review."
    assert lines[1] == "The old text is from the installed package, the new from a folder."
    assert any("method_override Norm.forward: changed" in line for line in lines)
    assert any(line.startswith("  merges       cleanly") for line in lines)
    command = f"patchgen upgrade --source {upgraded.next} --package acme --apply"
    assert lines[-1].startswith(f"Run '{command}': it carries over 1 replacement, ")
    assert upgraded.changed() == []


MIXED = """
class Norm:
    def forward(self, x):
        red, green, blue, white, black = (x + number for number in range(5))
        mixed = red
        return mixed
"""
MIXING = """
@config.edit_method("Norm.forward", at="mixed = red")
def mix(red, green, blue, white, black):
    mixed = red + green + blue + white + black
"""


@pytest.mark.slow
def test_the_report_is_the_same_with_any_hash_seed(upgraded: Upgraded) -> None:
    """Sets of strings are ordered differently in each of these."""
    upgraded.work.upstream(MIXED)
    upgraded.work.config(MIXING)
    fix(upgraded.work.check())
    upgraded.release(MIXED.replace("return mixed", "return mixed * 2"))
    command = [sys.executable, "-m", "patchgen_core", *TO, "--source", str(upgraded.next), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(upgraded.work.site)}
    reports = {
        subprocess.run(command, env={**environment, "PYTHONHASHSEED": seed}, capture_output=True, text=True).stdout
        for seed in "0123"
    }
    assert len(reports) == 1
    assert "'black', 'blue', 'green', 'red' and 'white'" in reports.pop()


def test_something_that_must_change_is_exit_code_1(upgraded: Upgraded, capsys: pytest.CaptureFixture[str]) -> None:
    upgraded.release(NEW.replace("class Norm", "class Other"))
    assert upgraded.run() == 1
    assert "1 must change" in capsys.readouterr().out


def test_configs_can_be_named(upgraded: Upgraded, capsys: pytest.CaptureFixture[str]) -> None:
    upgraded.work.config("", "toy/second_gpu_patch_gen_config.py")
    assert upgraded.run("proj.models.toy.second_gpu_patch_gen_config") in (0, 1)
    told = capsys.readouterr().out
    assert "second_gpu" in told
    assert "Norm.forward" not in told
    assert upgraded.run("proj.models.toy.thrid_gpu_patch_gen_config") == 2
    assert "there is no patch config" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one of the arguments --to --wheel --source is required"),
        (["--to", "2.0", "--source", "next"], "not allowed with argument"),
        (["--to", "2.0", "--no-gate"], "--no-gate needs --apply"),
        (["--to", "2.0", "--allow-dirty"], "--allow-dirty needs --apply"),
        (["--to", "2.0", "--markers"], "--markers needs --apply"),
        (["--to", "2.0", "--write-conflicts"], "--markers needs --apply"),
        (["--to", "latest", "--offline"], "--offline cannot tell the latest release"),
        (["--to", "candidate", "--offline"], "--offline cannot tell the newest release candidate"),
    ],
)
@pytest.mark.mostly_slow(4)
def test_wrong_usage_is_exit_code_2(
    gated: Workspace,
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(gated.root)
    with pytest.raises(SystemExit) as end:
        main([*TO, *arguments])
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_package_that_no_config_is_about_is_an_error(upgraded: Upgraded, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upgrade", "--package", "acmee", "--source", str(upgraded.next)]) == 2
    assert "no config is about 'acmee'" in capsys.readouterr().err


def test_release_that_is_not_there_is_an_error(upgraded: Upgraded, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TO, "--source", "nowhere"]) == 2
    assert "there is no folder 'nowhere'" in capsys.readouterr().err
    assert main([*TO, "--to", "7.0", "--offline", "--json"]) == 2
    assert "7.0 is neither installed" in json.loads(capsys.readouterr().out)["errors"][0]["message"]


def test_reports_are_written_as_files(upgraded: Upgraded, capsys: pytest.CaptureFixture[str]) -> None:
    assert upgraded.run("--json", "--html", "new/upgrade.html", "--markdown", "new/upgrade.md") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["old"], data["version"], data["exit_code"], data["applied"]) == (["1.0"], "2.0", 0, None)
    assert data["configs"][0]["patches"][0]["merge"]["clean"] is True
    assert Path("new/upgrade.html").read_text().startswith("<!doctype html>")
    assert Path("new/upgrade.md").read_text().startswith("### acme 1.0 → 2.0\n")


def test_apply_writes_the_merge_generates_and_runs_the_gate(
    upgraded: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert upgraded.run("--apply", "--markdown", "../upgrade.md") == 0
    text = upgraded.config.read_text()
    assert "scaled = kept * self.weight\n    total = scaled\n    count(total)  # ours" in text
    assert "acme==2.0" in generated(upgraded.work).read_text()
    lines = capsys.readouterr().out.splitlines()
    assert f"wrote        {upgraded.config.relative_to(upgraded.work.root)}" in lines
    assert any(line.startswith("merged ") for line in lines)
    assert any(line.startswith("Applied: 1 replacement merged, ") for line in lines)
    assert any(line.startswith("gate ") and "with acme 2.0" in line for line in lines), lines
    assert not any("--apply" in line for line in lines)
    markdown = Path("../upgrade.md").read_text()
    assert "Applied: 1 replacement merged" in markdown
    assert "The gate is green:" in markdown


def test_target_that_was_renamed_is_renamed_and_needs_no_more(
    upgraded: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    upgraded.release(OLD.replace("class Norm", "class Other"))
    assert upgraded.run() == 1
    told = capsys.readouterr().out
    assert "  renames      the target to Other.forward" in told
    assert "it carries over 1 replacement, " in told
    assert upgraded.run("--apply", "--no-gate") == 0
    assert 'override_method("Other.forward"' in upgraded.config.read_text()
    assert capsys.readouterr().out.splitlines()[-1].startswith("Applied: ")


def test_apply_refuses_what_git_could_not_take_back(upgraded: Upgraded, capsys: pytest.CaptureFixture[str]) -> None:
    text = upgraded.config.read_text()
    upgraded.config.write_text(f"{text}\n# not committed\n")
    assert upgraded.run("--apply", "--no-gate") == 2
    told = capsys.readouterr()
    assert "--allow-dirty" in told.err
    assert told.out == "", "it refuses before it compares"
    assert "self.weight" not in upgraded.config.read_text()
    assert upgraded.run("--apply", "--no-gate", "--allow-dirty") == 0
    assert "self.weight" in upgraded.config.read_text()
    assert "# not committed" in upgraded.config.read_text()


def test_what_is_left_to_do_is_told_at_the_lines_that_it_has_now(
    upgraded: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    call = 'config.override_method("Head.forward", replacement=head_forward)'
    text = f"{upgraded.config.read_text()}\n\ndef head_forward(self, x):\n    return x + 3\n\n\n{call}\n"
    upgraded.config.write_text(text)
    fix(upgraded.work.check())
    upgraded.commit()
    before = 1 + text.splitlines().index(call)
    longer = NEW.replace("kept = x\n", "kept = x\n        kept = +kept\n").replace("x + 1", "x + 3")
    upgraded.release(longer)
    assert upgraded.run("--apply", "--no-gate", "--markdown", "../upgrade.md") == 0
    after = before + 1
    place = f"{upgraded.config.relative_to(upgraded.work.root)}:{after}"
    assert '"Head.forward"' in upgraded.config.read_text().splitlines()[after - 1]
    assert f"  {place}: Head.forward: now upstream" in capsys.readouterr().out.splitlines()
    assert f"- [ ] `{place}` Head.forward: now upstream" in Path("../upgrade.md").read_text()


def test_red_gate_is_exit_code_1(upgraded: Upgraded, capsys: pytest.CaptureFixture[str]) -> None:
    upgraded.release(NEW + "\n\nLIMIT = int('many')\n")
    assert upgraded.run("--apply", "--json") == 1
    applied = json.loads(capsys.readouterr().out)["applied"]
    assert applied["merged"]
    assert applied["gate"]["exit_code"] != 0


def test_conflict_is_left_or_written_with_markers(upgraded: Upgraded, capsys: pytest.CaptureFixture[str]) -> None:
    upgraded.release(OLD.replace("scaled = kept * 1", "scaled = kept * 2"))
    place = upgraded.config.relative_to(upgraded.work.root)
    text = upgraded.config.read_text().replace("scaled = kept * 1", "scaled = kept * 3")
    upgraded.config.write_text(text)
    fix(upgraded.work.check())
    upgraded.commit()
    assert upgraded.run("--apply", "--no-gate", "--json") in (0, 1)
    applied = json.loads(capsys.readouterr().out)["applied"]
    assert (applied["merged"], len(applied["left"])) == ([], 1)
    assert upgraded.config.read_text() == text
    upgraded.git("checkout", "--quiet", ".")
    assert upgraded.run("--apply", "--no-gate", "--markers") == 1
    told = capsys.readouterr().out
    assert "1 written with conflict markers" in told
    assert told.endswith(f"Resolve these: the sides are between markers:\n  {place}:6: Norm.forward: 1 conflict\n")
    lines = upgraded.config.read_text().splitlines()
    first = lines.index("<<<<<<< ours")
    assert [line.strip() for line in lines[first : first + 7]] == [
        "<<<<<<< ours",
        "scaled = kept * 3",
        "||||||| base",
        "scaled = kept * 1",
        "=======",
        "scaled = kept * 2",
        ">>>>>>> theirs",
    ]
    for command in (["gate", "--checks", "drift"], ["--check"], [*TO, "--source", str(upgraded.next)]):
        assert main(command) in (1, 2)
        told = "".join(capsys.readouterr())
        assert f"{place}:{first + 1}: conflict markers are left" in told.replace("error: ", ""), told
        assert "Resolve the conflict: " in told
        assert "Traceback" not in told
    lines[first : first + 7] = ["    scaled = kept * 6"]
    upgraded.config.write_text("\n".join([*lines, ""]))
    upgraded.git("commit", "--quiet", "--all", "--message", "resolved")
    fix(upgraded.work.check())
    assert main(["gate", "--checks", "drift"]) == 0


def test_checked_in_files_are_found_by_any_spelling_of_their_version(
    upgraded: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    upgraded.work.upstream(NEW, version="1.5")
    upgraded.run("--from", "1.0.0", "--offline")
    assert "The old text is from the checked-in files" in capsys.readouterr().out

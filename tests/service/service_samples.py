"""What tests of the service have in common beside fixtures: a moment, results, a git repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from datetime import datetime, timezone
from pathlib import Path

from patchgen_core.checks.result import CheckResult

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=timezone.utc)


def make_result(
    config: str = "models.toy", item: str = "drift", status: str = "clean", path: str = "", **fields: object
) -> CheckResult:
    """A result as the gate gives it."""
    path = path or f"{config.replace('.', '/')}_patch_gen_config.py"
    check = item.partition("[")[0]
    return CheckResult(config, path, 3, check, status, item=f"{path}::{item}", **fields)  # type: ignore[arg-type]


class GitProject:
    """A git repository with a patched project, whose upstream is the package ``acme`` in it.

    The gate finds ``acme`` when it runs as ``python -m patchgen_core`` in the repository's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("pyproject.toml", '[tool.patchgen]\nsearch_root = "models"\npackage_prefix = "models"\n')
        self.write("acme-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        for package in ("acme", "acme/models", "acme/models/toy"):
            self.write(f"{package}/__init__.py", "")
        self.write_upstream("return x")
        self.write_config("toy", "return x * 2")

    def copy_to(self, folder: Path) -> GitProject:
        """Another repository that is as this one is now."""
        other = GitProject.__new__(GitProject)
        other.folder = Path(shutil.copytree(self.folder, folder, symlinks=True))
        return other

    def write(self, path: str, text: str) -> Path:
        """Write a file, dedented."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return file

    def write_upstream(self, body: str) -> None:
        """Change what upstream computes."""
        self.write("acme/models/toy/modeling_toy.py", f"class Norm:\n    def forward(self, x):\n        {body}\n")

    def write_config(self, name: str, body: str) -> Path:
        """Write a config that replaces what upstream computes."""
        return self.write(
            f"models/{name}/{name}_patch_gen_config.py",
            f"""
            from patchgen import PatchConfig

            config = PatchConfig("acme.models.toy.modeling_toy", "patched_modeling_{name}.py")


            @config.override_method("Norm.forward")
            def norm_forward(self, x):
                {body}
            """,
        )

    def regenerate(self) -> None:
        """Write the files that the configs make."""
        self.patchgen("--check", "--fix")

    def patchgen(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command in the repository."""
        command = [sys.executable, "-m", "patchgen_core", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def commit(self, message: str = "Change something") -> str:
        """Commit everything, and return the commit's name."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str) -> str:
        """Run git in the repository, as nobody in particular, and return what it prints."""
        who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _NAMES.items()}
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **who}
        done = subprocess.run(["git", *arguments], cwd=self.folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


_NAMES = {"NAME": "Ada", "EMAIL": "ada@example.com"}

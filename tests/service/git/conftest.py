from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen_service.git.command import Remote
from patchgen_service.git.mirror import Mirror
from tests.service.git.git_server import GitServer


class Origin:
    """A bare repository as a forge has it, and a clone in which people work."""

    def __init__(self, folder: Path) -> None:
        self.bare, self.clone = folder / "origin.git", folder / "clone"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.bare], check=True)
        for key in ("uploadpack.allowFilter", "http.receivepack"):
            subprocess.run(["git", "-C", self.bare, "config", key, "true"], check=True)
        subprocess.run(["git", "init", "-q", "-b", "main", self.clone], check=True)
        self.run("remote", "add", "origin", "../origin.git")

    def copy_to(self, folder: Path) -> Origin:
        """Another pair that is as this one is now."""
        other = Origin.__new__(Origin)
        other.bare, other.clone = folder / "origin.git", folder / "clone"
        shutil.copytree(self.bare, other.bare)
        shutil.copytree(self.clone, other.clone)
        return other

    def run(self, *arguments: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", "-C", self.clone, *who, *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, message: str, branch: str = "main", **files: str) -> str:
        for name, text in files.items():
            path = self.clone / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.run("add", "--all")
        self.run("commit", "-q", "--allow-empty", "-m", message)
        self.run("push", "-q", "--force", "origin", f"HEAD:refs/heads/{branch}")
        return self.run("rev-parse", "HEAD")

    def read(self, revision: str) -> str:
        return subprocess.run(
            ["git", "-C", self.bare, "rev-parse", revision], check=True, capture_output=True, text=True
        ).stdout.strip()


@pytest.fixture(scope="session")
def new_origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return Origin(tmp_path_factory.mktemp("origin"))


@pytest.fixture
def origin(new_origin: Origin, tmp_path: Path) -> Origin:
    return new_origin.copy_to(tmp_path)


@pytest.fixture
def mirror(tmp_path: Path, origin: Origin) -> Mirror:
    return Mirror(tmp_path / "mirrors" / "1.git", Remote(f"file://{origin.bare}"))


@pytest.fixture
def git_server(tmp_path: Path) -> Iterator[GitServer]:
    server = GitServer(tmp_path, "sesame-open-up")
    yield server
    server.close()

"""Where the files of another release come from: pip, the cache, a wheel, a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.release_cache import kept_releases, remove_stale
from patchgen_core.upstream.releases import Releases
from tests.conftest import UPSTREAM, Workspace
from tests.upstream.wheels import FILES, ZEBRA, error, files, make_wheel, upstream_file

FIND = """
import sys
from pathlib import Path
from patchgen_core.upstream.releases import Releases

print(Releases(Path(sys.argv[1]), "acme").find("1.1").origin)
"""


def test_release_is_downloaded_once_and_read_from_the_cache_then(releases: Releases, shop: Path) -> None:
    release = releases.find("1.1")
    assert (release.version, release.origin) == ("1.1", "download")
    found = find_upstream(UPSTREAM, (release.folder,))
    assert (found.version, found.path.read_text()) == ("1.1", FILES["acme/models/toy/modeling_toy.py"])
    for wheel in shop.iterdir():
        wheel.unlink()
    again = Releases(releases.folder, "acme", offline=True).find("1.1")
    assert (again.version, again.origin, again.folder) == ("1.1", "cache", release.folder)
    assert Releases(releases.folder, "acme").cached("1.1.0") == again
    assert releases.cached("1.0") is None


@pytest.mark.slow
def test_all_that_a_wheel_holds_is_unpacked(releases: Releases) -> None:
    release = releases.find("1.1")
    assert files(release) == {*FILES, *(f"acme-1.1.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD"))}
    assert {ZEBRA, UPSTREAM, "acme", "acme.kernels", "acme.cli.main"} <= set(release.modules)
    assert len(release.modules) == sum(name.endswith(".py") for name in FILES)


def test_module_that_the_release_lacks_is_told_with_the_nearest_one(releases: Releases) -> None:
    release = releases.find("1.1")
    with pytest.raises(PatchgenError) as raised:
        find_upstream("acme.models.zebr.modeling_zebr", (release.folder,))
    assert str(raised.value).endswith(f"\n  Did you mean '{ZEBRA}'?")


@pytest.mark.slow
def test_latest_is_the_newest_release_that_is_none_to_try_out(releases: Releases) -> None:
    assert releases.find("latest").version == "1.10.0"
    assert releases.published() == ("1.0", "1.1", "1.9.0", "1.10.0")
    assert releases.published(prereleases=True) == ("1.0", "1.1", "1.9.0", "1.10.0", "2.0rc1")
    assert releases.find("2.0rc1").version == "2.0rc1"


@pytest.mark.slow
def test_candidate_is_the_newest_pre_release_unless_a_release_is_newer(releases: Releases, shop: Path) -> None:
    assert releases.find("candidate").version == "2.0rc1"
    make_wheel(shop, "2.0")
    assert error(Releases(releases.folder, "acme"), "candidate") == "acme has no release candidate newer than 2.0"


def test_installed_release_is_read_where_it_is(work: Workspace, releases: Releases) -> None:
    assert releases.installed() is None
    path = work.upstream("", version="1.1")
    found = Releases(releases.folder, "acme").find("1.1.0")
    assert (found.origin, found.folder, upstream_file(found)) == ("installed", work.site, path)
    assert UPSTREAM in found.modules
    assert not releases.folder.exists()


@pytest.mark.slow
def test_settings_for_what_a_project_installs_do_not_count(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "constraints.txt").write_text("acme==1.0\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints.txt"))
    monkeypatch.setenv("PIP_QUIET", "2")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert releases.find("1.1").version == "1.1"
    assert releases.published()[-1] == "1.10.0"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.2", "pip finds no wheel of acme 1.2\n  The nearest: 1.1 and 1.9.0; the newest: 1.10.0."),
        ("0.9", "pip finds no wheel of acme 0.9\n  The nearest: 1.0; the newest: 1.10.0."),
        ("newest", "'newest' is not a version\n  Write a version number, such as 5.9.0, or 'latest'."),
    ],
)
@pytest.mark.mostly_slow(1)
def test_version_that_is_not_there(releases: Releases, version: str, expected: str) -> None:
    assert error(releases, version) == expected
    assert kept_releases(releases.folder) == ()


def test_offline_nothing_is_downloaded(work: Workspace, releases: Releases) -> None:
    work.upstream("", version="1.0")
    releases.find("1.9")
    offline = Releases(releases.folder, "acme", offline=True)
    hint = "(1.0 installed; 1.9.0 in the cache), or give a wheel with --wheel FILE or sources with --source DIR."
    assert error(offline, "1.1") == (
        "acme 1.1 is neither installed nor in the cache, and nothing may be downloaded\n"
        f"  Name one that is available {hint}"
    )
    assert error(offline, "latest") == (
        f"the releases of acme cannot be listed offline\n  Name a version that is available {hint}"
    )


@pytest.mark.slow
def test_index_that_cannot_be_reached(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    hint = "Look at pip's settings and at the network, or give a wheel with --wheel FILE or sources with --source DIR."
    assert error(releases, "3.0") == f"pip cannot download acme 3.0: it cannot reach 127.0.0.1\n  {hint}"
    told = f"pip cannot list the releases of acme: it cannot reach 127.0.0.1\n  {hint}"
    assert error(releases, "latest") == told


@pytest.mark.slow
def test_distribution_that_pip_does_not_know(tmp_path: Path, shop: Path) -> None:
    unknown = Releases(tmp_path / "kept", "acne")
    assert error(unknown, "1.0").startswith("pip cannot download acne 1.0: No matching distribution found for acne")
    assert error(unknown, "latest").startswith("pip cannot list the releases of acne: No matching")


def test_python_without_pip(releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "bare", symlinks=os.name == "posix")
    python = tmp_path / "bare" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    said = error(releases, "1.1")
    assert said.startswith("pip cannot download acme 1.1: this Python has no pip\n  Install it, as with '")
    assert said.endswith(" -m ensurepip', or give a wheel with --wheel FILE or sources with --source DIR.")


@pytest.mark.slow
def test_processes_that_download_at_once(releases: Releases) -> None:
    command = [sys.executable, "-c", FIND, str(releases.folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = [process.communicate()[0].strip() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert "download" in told
    release = Releases(releases.folder, "acme", offline=True).find("1.1")
    assert files(release) >= {*FILES}
    assert sorted(path.name for path in release.folder.parent.iterdir()) == ["acme-1.1-py3-none-any.whl", "files"]


def test_a_release_is_looked_for_while_another_process_downloads(releases: Releases) -> None:
    home = releases.find("1.1").folder.parent.parent
    come_and_go = "import os, sys\nwhile True:\n    os.mkdir(sys.argv[1])\n    os.rmdir(sys.argv[1])"
    with subprocess.Popen([sys.executable, "-c", come_and_go, home / ".download-0"]) as other:
        try:
            there = [Releases(releases.folder, "acme", offline=True).cached("1.1") for _ in range(200)]
        finally:
            other.kill()
    assert None not in there


class _Stalling(BaseHTTPRequestHandler):
    """An index whose wheel never ends."""

    begun = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        is_wheel = self.path.endswith(".whl")
        self.send_header("Content-Type", "application/octet-stream" if is_wheel else "text/html")
        body = b"PK" * 50_000 if is_wheel else b'<!DOCTYPE html><a href="acme-1.1-py3-none-any.whl">acme</a>'
        self.send_header("Content-Length", str(len(body) * (9 if is_wheel else 1)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        if is_wheel:
            self.begun.set()
            self.connection.recv(1)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def stalling(monkeypatch: pytest.MonkeyPatch, shop: Path) -> Iterator[threading.Event]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Stalling)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with monkeypatch.context() as patch:
        patch.delenv("PIP_NO_INDEX")
        patch.delenv("PIP_FIND_LINKS")
        patch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        yield _Stalling.begun
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(os.name != "posix", reason="kills processes")
@pytest.mark.slow
def test_killed_download_leaves_nothing_that_counts(
    releases: Releases, stalling: threading.Event, monkeypatch: pytest.MonkeyPatch, shop: Path
) -> None:
    command = [sys.executable, "-c", FIND, str(releases.folder)]
    process = subprocess.Popen(command, start_new_session=True)
    assert stalling.wait(60)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    home = releases.folder / "acme"
    (left,) = home.glob(".download-*")
    assert kept_releases(releases.folder) == ()
    assert releases.cached("1.1") is None
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shop))
    assert releases.find("1.1").origin == "download"
    assert left.exists()  # another process may be at it
    os.utime(left, (1, 1))
    remove_stale(home)
    assert not left.exists()


@pytest.mark.slow
def test_damaged_wheel_of_the_cache_is_downloaded_again(releases: Releases) -> None:
    release = releases.find("1.1")
    (wheel,) = release.folder.parent.glob("*.whl")
    whole = wheel.read_bytes()
    wheel.write_bytes(whole[: len(whole) // 2])
    again = Releases(releases.folder, "acme").find("1.1")
    assert (again.origin, wheel.read_bytes()) == ("download", whole)


@pytest.mark.slow
def test_file_that_was_changed_in_the_cache_is_unpacked_again(releases: Releases) -> None:
    path = upstream_file(releases.find("1.1"))
    path.write_text("an edit\n")
    Releases(releases.folder, "acme").find("1.1")
    assert path.read_text() == FILES["acme/models/toy/modeling_toy.py"]

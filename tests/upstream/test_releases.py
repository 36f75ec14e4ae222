"""Where the files of another release come from: pip, the cache, a wheel, a folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import venv
import zipfile
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from patchgen_core.build import cache
from patchgen_core.build.cache import Cache
from patchgen_core.errors import PatchgenError
from patchgen_core.project.cache_folder import ENVIRONMENT
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.release_cache import kept_releases, remove_stale
from patchgen_core.upstream.releases import Release, Releases, release_folder
from patchgen_core.upstream.versions import ascending, nearest, newest, same_version
from tests.build.cached import BASE, checked
from tests.conftest import PATCH, UPSTREAM, Workspace

FILES = {
    "acme/__init__.py": "from .cli import main\nfrom .models import *\n",
    "acme/core.py": "class Base: ...\n",
    "acme/lonely.py": "",
    "acme/cli/__init__.py": "",
    "acme/cli/main.py": "",
    "acme/kernels/__init__.py": "from .fast import run\n",
    "acme/kernels/fast.py": "from ..maths.norms import norm\n",
    "acme/kernels/slow.py": "",
    "acme/maths/__init__.py": "",
    "acme/maths/norms.py": "",
    "acme/models/__init__.py": "from .zebra import *\n",
    "acme/models/base/__init__.py": "",
    "acme/models/base/modeling_base.py": "from ...core import Base\n",
    "acme/models/base/tokenizer.model": "no code",
    "acme/models/toy/__init__.py": "",
    "acme/models/toy/modeling_toy.py": (
        "from acme.models.base import modeling_base\n\n\ndef run():\n    from ... import (\n        kernels,\n    )\n"
    ),
    "acme/models/toy/modular_toy.py": "from ..zebra.modeling_zebra import Zebra\n",
    "acme/models/zebra/__init__.py": "",
    "acme/models/zebra/modeling_zebra.py": "",
}
ZEBRA = "acme.models.zebra.modeling_zebra"
FIND = """
import sys
from pathlib import Path
from patchgen_core.upstream.releases import Releases

print(Releases(Path(sys.argv[1]), "acme").find("1.1").origin)
"""


def make_wheel(folder: Path, version: str, files: Mapping[str, str] = FILES, name: str = "acme") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.99\n"
        archive.writestr(f"{info}/METADATA", head)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip knows, with the wheels of some releases."""
    folder = tmp_path / "shop"
    for version in ("1.0", "1.1", "1.9.0", "1.10.0", "2.0rc1"):
        make_wheel(folder, version)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in (("CONFIG_FILE", os.devnull), ("NO_INDEX", "1"), ("FIND_LINKS", str(folder))):
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


@pytest.fixture
def releases(tmp_path: Path, shop: Path) -> Releases:
    return Releases(tmp_path / "kept/releases", "acme")


def files(release: Release) -> set[str]:
    found = release.folder.rglob("*")
    return {path.relative_to(release.folder).as_posix() for path in found if path.is_file()}


def upstream_file(release: Release, module: str = UPSTREAM) -> Path:
    return find_upstream(module, (release.folder,)).path


def error(releases: Releases, version: str) -> str:
    with pytest.raises(PatchgenError) as raised:
        releases.find(version)
    return str(raised.value)


# --- from pip --------------------------------------------------------------------------------------


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


def test_latest_is_the_newest_release_that_is_none_to_try_out(releases: Releases) -> None:
    assert releases.find("latest").version == "1.10.0"
    assert releases.published() == ("1.0", "1.1", "1.9.0", "1.10.0")
    assert releases.published(prereleases=True) == ("1.0", "1.1", "1.9.0", "1.10.0", "2.0rc1")
    assert releases.find("2.0rc1").version == "2.0rc1"


def test_installed_release_is_read_where_it_is(work: Workspace, releases: Releases) -> None:
    assert releases.installed() is None
    path = work.upstream("", version="1.1")
    found = Releases(releases.folder, "acme").find("1.1.0")
    assert (found.origin, found.folder, upstream_file(found)) == ("installed", work.site, path)
    assert UPSTREAM in found.modules
    assert not releases.folder.exists()


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
        f"  Name one that is at hand {hint}"
    )
    assert error(offline, "latest") == (
        f"which releases of acme there are cannot be asked offline\n  Name a version that is at hand {hint}"
    )


def test_index_that_cannot_be_reached(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    hint = "Look at pip's settings and at the network, or give a wheel with --wheel FILE or sources with --source DIR."
    assert error(releases, "3.0") == f"pip cannot download acme 3.0: it cannot reach 127.0.0.1\n  {hint}"
    told = f"pip cannot tell which releases of acme there are: it cannot reach 127.0.0.1\n  {hint}"
    assert error(releases, "latest") == told


def test_distribution_that_pip_does_not_know(tmp_path: Path, shop: Path) -> None:
    unknown = Releases(tmp_path / "kept", "acne")
    assert error(unknown, "1.0").startswith("pip cannot download acne 1.0: No matching distribution found for acne")
    assert error(unknown, "latest").startswith("pip cannot tell which releases of acne there are: No matching")


def test_python_without_pip(releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "bare", symlinks=os.name == "posix")
    python = tmp_path / "bare" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    said = error(releases, "1.1")
    assert said.startswith("pip cannot download acme 1.1: this Python has no pip\n  Install it, as with '")
    assert said.endswith(" -m ensurepip', or give a wheel with --wheel FILE or sources with --source DIR.")


def test_processes_that_download_at_once(releases: Releases) -> None:
    command = [sys.executable, "-c", FIND, str(releases.folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = [process.communicate()[0].strip() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert "download" in told
    release = Releases(releases.folder, "acme", offline=True).find("1.1")
    assert files(release) >= {*FILES}
    assert sorted(path.name for path in release.folder.parent.iterdir()) == ["acme-1.1-py3-none-any.whl", "files"]


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


def test_damaged_wheel_of_the_cache_is_downloaded_again(releases: Releases) -> None:
    release = releases.find("1.1")
    (wheel,) = release.folder.parent.glob("*.whl")
    whole = wheel.read_bytes()
    wheel.write_bytes(whole[: len(whole) // 2])
    again = Releases(releases.folder, "acme").find("1.1")
    assert (again.origin, wheel.read_bytes()) == ("download", whole)


def test_file_that_was_changed_in_the_cache_is_unpacked_again(releases: Releases) -> None:
    path = upstream_file(releases.find("1.1"))
    path.write_text("an edit\n")
    Releases(releases.folder, "acme").find("1.1")
    assert path.read_text() == FILES["acme/models/toy/modeling_toy.py"]


# --- from a wheel ----------------------------------------------------------------------------------


def test_wheel_at_hand(releases: Releases, tmp_path: Path) -> None:
    release = releases.wheel(make_wheel(tmp_path, "3.0.dev1"))
    assert (release.version, release.origin, files(release) >= {*FILES}) == ("3.0.dev1", "wheel", True)
    assert find_upstream(UPSTREAM, (release.folder,)).version == "3.0.dev1"


def test_wheel_at_hand_does_not_pass_for_the_release_of_its_version(releases: Releases, tmp_path: Path) -> None:
    text = FILES["acme/models/toy/modeling_toy.py"]
    edited = text.replace("run", "ran")
    mine = make_wheel(tmp_path, "1.1", {**FILES, "acme/models/toy/modeling_toy.py": edited})
    assert upstream_file(releases.wheel(mine)).read_text() == edited
    (kept,) = kept_releases(releases.folder)
    assert str(kept).startswith("acme 1.1-")
    assert releases.cached("1.1") is None
    assert upstream_file(releases.find("1.1")).read_text() == text


def test_wheel_that_holds_the_package_among_its_data(releases: Releases, tmp_path: Path) -> None:
    moved = {f"acme-3.0.data/purelib/{name}": text for name, text in FILES.items()}
    assert files(releases.wheel(make_wheel(tmp_path, "3.0", moved))) >= {*FILES}


def test_text_that_is_not_utf8_is_unpacked_as_it_is(releases: Releases, tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "3.0", {"acme/__init__.py": ""})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("acme/odd.py", b"# coding: latin-1\r\nname = '\xe9'\r\n")
    assert upstream_file(releases.wheel(path), "acme.odd").read_bytes() == b"# coding: latin-1\r\nname = '\xe9'\r\n"


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _spoil(path: Path) -> None:
    """Change a byte inside a file's packed contents."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("acme/models/toy/modeling_toy.py")
    data = bytearray(path.read_bytes())
    data[info.header_offset + 30 + len(info.filename) + 5] ^= 0xFF
    path.write_bytes(data)


WRONG_WHEELS = {
    "missing": (lambda path: path.unlink(), "there is no wheel '"),
    "cut": (_cut, "-any.whl' is not a wheel, or is damaged: File is not a zip file\n  Get it again."),
    "spoiled": (_spoil, "-any.whl' is not a wheel, or is damaged: "),
    "of another": (
        lambda path: make_wheel(path.parent, "1.0", {"ham/__init__.py": ""}, "ham").replace(path),
        "-any.whl' is a wheel of ham 1.0, not of acme\n  Give a wheel of acme.",
    ),
    "without the package": (
        lambda path: make_wheel(path.parent, path.name.split("-")[1], {"ham/__init__.py": ""}),
        "-any.whl', a wheel of acme 3.0, holds no package 'acme'",
    ),
    "an archive": (
        lambda path: zipfile.ZipFile(path, "w").close(),
        "-any.whl' is not a wheel: it holds no metadata of a distribution",
    ),
    "a folder": (
        lambda path: (path.unlink(), path.mkdir()),
        "-any.whl' is a folder, not a wheel\n  A folder is given with --source.",
    ),
    "leaving its folder": (
        lambda path: make_wheel(path.parent, "3.0", {**FILES, "acme/../../evil.py": ""}),
        "-any.whl' is not a sound wheel: it holds a file 'acme/../../evil.py', which no package has\n"
        "  Nothing of it was unpacked.",
    ),
}


@pytest.mark.parametrize("kind", WRONG_WHEELS)
def test_wheel_that_is_wrong(releases: Releases, tmp_path: Path, kind: str) -> None:
    change, expected = WRONG_WHEELS[kind]
    path = make_wheel(tmp_path / "mine", "3.0")
    change(path)
    with pytest.raises(PatchgenError) as raised:
        releases.wheel(path)
    assert expected in str(raised.value)
    assert kept_releases(releases.folder) == ()


# --- from a folder ---------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["checkout", "checkout/src", "checkout/src/acme"])
def test_folder_of_sources(releases: Releases, tmp_path: Path, given: str) -> None:
    for name, text in {**FILES, "acme/__init__.py": '__version__ = "3.0.dev0"\n'}.items():
        path = tmp_path / "checkout/src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    release = releases.source(tmp_path / given)
    assert (release.version, release.origin, release.folder) == ("3.0.dev0", "folder", tmp_path / "checkout/src")
    assert find_upstream(ZEBRA, (release.folder,)).version == "3.0.dev0"
    assert ZEBRA in release.modules
    assert not releases.folder.exists()


def test_folder_that_is_wrong(releases: Releases, tmp_path: Path, shop: Path) -> None:
    said = []
    for given in (tmp_path, tmp_path / "none", shop / "acme-1.0-py3-none-any.whl"):
        with pytest.raises(PatchgenError) as raised:
            releases.source(given)
        said.append(str(raised.value).replace(str(tmp_path), "TMP"))
    assert said == [
        "'TMP' holds no package 'acme'\n"
        "  Give a checkout with 'src/acme' or 'acme' in it, or the folder 'acme' itself.",
        "there is no folder 'TMP/none'",
        "'TMP/shop/acme-1.0-py3-none-any.whl' is a file, not a folder\n  A wheel is given with --wheel.",
    ]


# --- in the cache ----------------------------------------------------------------------------------


def test_cache_info_and_clear_tell_of_releases(gated: Workspace, shop: Path) -> None:
    releases = Releases(release_folder(gated.project), "acme")
    release = releases.find("1.9.0")
    releases.find("1.10.0")
    checked(gated)
    info = gated.patchgen("cache", "info").stdout.splitlines()
    assert info[0].startswith("'.patchgen_cache': 1 of at most 4096 results, ")
    assert info[1:] == ["2 releases, 0.0 MiB: acme 1.9.0, acme 1.10.0"]
    told = json.loads(gated.patchgen("cache", "info", "--json").stdout)
    size = sum(path.stat().st_size for path in release.folder.parent.rglob("*") if path.is_file())
    assert (told["results"], told["releases"]) == (1, ["acme 1.9.0", "acme 1.10.0"])
    assert 1.9 * size < told["release_bytes"] < 2.1 * size
    done = gated.patchgen("cache", "clear")
    assert done.stdout == "1 result and 2 releases removed from '.patchgen_cache'\n"
    assert kept_releases(release_folder(gated.project)) == ()
    told = json.loads(gated.patchgen("cache", "clear", "--json").stdout)
    assert [told[key] for key in ("results", "bytes", "removed")] == [0, 0, 0]
    assert [told[key] for key in ("releases", "release_bytes", "releases_removed")] == [[], 0, 0]


def test_folder_that_releases_come_to_first_is_ignored_by_git(gated: Workspace, shop: Path) -> None:
    Releases(release_folder(gated.project), "acme").find("1.1")
    folder = Cache(gated.project).folder
    assert (folder / ".gitignore").read_text() == "*\n"
    assert checked(gated).report.results[0].status == "clean"


def test_clear_removes_nothing_of_the_users(gated: Workspace, monkeypatch: pytest.MonkeyPatch, shop: Path) -> None:
    mine = [gated.write(f"../mine/releases/{name}", "mine") for name in ("ham/1.0/ham.whl", "ham/1.0/files/x.py")]
    monkeypatch.setenv(ENVIRONMENT, str(gated.root.parent / "mine"))
    release = Releases(release_folder(gated.project), "acme").find("1.1")
    note = release.folder.parent / "notes.txt"
    note.write_text("mine")
    assert Cache(gated.project).clear_releases() == 1
    assert not release.folder.exists()
    assert all(path.read_text() == "mine" for path in (*mine, note))
    assert Cache(gated.project).info().releases == ()


def test_bound_of_results_does_not_touch_releases(
    family: Workspace, monkeypatch: pytest.MonkeyPatch, shop: Path
) -> None:
    release = Releases(release_folder(family.project), "acme").find("1.1")
    monkeypatch.setattr(cache, "LIMIT", 1)
    family.config(PATCH.replace("x * 2", "x * 9"), BASE)
    checked(family)
    assert Cache(family.project).info().results <= 1
    assert files(release) >= {*FILES}


def test_cache_that_cannot_be_written_to(tmp_path: Path, shop: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    assert "kept/releases/acme/.gitignore: cannot be written: " in error(
        Releases(tmp_path / "kept/releases", "acme"), "1.1"
    )


# --- versions --------------------------------------------------------------------------------------


def test_versions_are_ordered_by_their_numbers() -> None:
    texts = ["5.10.0", "5.9.0", "5.9", "5.11.0rc1", "nonsense", "5.9.0.post1"]
    assert ascending(texts) == ("5.9.0", "5.9.0.post1", "5.10.0", "5.11.0rc1")
    assert (newest(texts), newest(texts, prereleases=True), newest(["5.0rc1"])) == ("5.10.0", "5.11.0rc1", None)
    assert nearest("5.9.5", texts) == ("5.9.0.post1", "5.10.0")
    assert (same_version("5.9", "v5.9.0"), same_version("5.9", "5.9.1"), same_version("unknown", "5.9")) == (
        *(True, False),
        False,
    )

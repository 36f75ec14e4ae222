"""Releases from a wheel, from a folder and from the cache, and which version is newer."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from patchgen_core.build import cache
from patchgen_core.build.cache import Cache
from patchgen_core.errors import PatchgenError
from patchgen_core.project.cache_folder import ENVIRONMENT
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.release_cache import kept_releases
from patchgen_core.upstream.releases import Releases, release_folder
from patchgen_core.upstream.versions import ascending, nearest, newest, same_version
from tests.build.cached import BASE, checked
from tests.conftest import PATCH, UPSTREAM, Workspace
from tests.upstream.wheels import FILES, ZEBRA, error, files, make_wheel, upstream_file

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


@pytest.mark.slow
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

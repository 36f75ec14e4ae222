"""A kept result that was spoilt counts as not there: it is never believed, and never ends a run."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.checks.kept.entries import Entry, EntryStore, hash_machine
from patchgen_core.checks.kept.keeping import SWITCH
from patchgen_core.files import digest
from tests.checks.kept_project import make_project, rerun
from tests.conftest import Workspace

WHOLE = list(sys.path)
MACHINE = {"python": "3", "package torch": "abc"}
BOTH = ["other", "toy"]


def entry(item: str = "parity[eager]", path: str = "a_patch_gen_config.py") -> Entry:
    inputs = (("file", "a.py", "abc"), ("names", "proj", ["a.py"]))
    return Entry(path, item, hash_machine(MACHINE), time.time(), 1.5, inputs, ({"status": "clean"},))


@pytest.fixture
def store(tmp_path: Path) -> EntryStore:
    """A store with one entry."""
    store = EntryStore(tmp_path / "cache")
    store.keep([entry()], MACHINE)
    return store


def find(store: EntryStore) -> Entry | None:
    return store.find("a_patch_gen_config.py", "parity[eager]", hash_machine(MACHINE))


def file_of(store: EntryStore) -> Path:
    return next(file for file in store.files.paths() if not file.name.startswith("machine"))


def body_of(file: Path) -> bytes:
    return file.read_bytes().partition(b"\n")[2]


def write_signed(file: Path, body: bytes) -> None:
    file.write_bytes(digest(body).encode() + b"\n" + body)


def change(**values: object) -> Callable[[Path], object]:
    """Other values in an entry whose hash is right."""
    return lambda file: write_signed(file, json.dumps({**json.loads(body_of(file)), **values}).encode())


def without(name: str) -> Callable[[Path], object]:
    def remove(file: Path) -> None:
        data = json.loads(body_of(file))
        del data[name]
        write_signed(file, json.dumps(data).encode())

    return remove


def flip(place: int) -> Callable[[Path], object]:
    def write(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[place] ^= 1
        file.write_bytes(bytes(data))

    return write


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def link(target: str) -> Callable[[Path], object]:
    def make(file: Path) -> None:
        file.unlink()
        file.symlink_to(target)

    return make


SPOILS: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "gone": lambda file: file.unlink(),
    "cut in the middle": lambda file: os.truncate(file, file.stat().st_size // 2),
    "cut by a byte": lambda file: os.truncate(file, file.stat().st_size - 1),
    "hash alone": lambda file: os.truncate(file, 64),
    "hash and newline": lambda file: os.truncate(file, 65),
    "first bit": flip(0),
    "bit of the hash": flip(40),
    "bit of the body": flip(100),
    "last bit": flip(-1),
    "more behind": lambda file: file.write_bytes(file.read_bytes() + b" "),
    "without its hash": lambda file: file.write_bytes(body_of(file)),
    "hash of another": lambda file: file.write_bytes(digest(b"x").encode() + b"\n" + body_of(file)),
    "poisoned result": lambda file: file.write_bytes(file.read_bytes().replace(b"clean", b"klean")),
    "poisoned input": lambda file: file.write_bytes(file.read_bytes().replace(b'"abc"', b'"abd"')),
    "not text": lambda file: file.write_bytes(b"\xff\xfe\x00" * 40),
    "not JSON": lambda file: write_signed(file, b"{'status': 1}"),
    "no object": lambda file: write_signed(file, b"[1, 2, 3]"),
    "null": lambda file: write_signed(file, b"null"),
    "a pickle": lambda file: file.write_bytes(pickle.dumps(entry())),
    "a signed pickle": lambda file: write_signed(file, pickle.dumps(entry())),
    "deep": lambda file: write_signed(file, b"[" * 100_000 + b"]" * 100_000),
    "older format": change(format=0),
    "later format": change(format=2),
    "another config": change(path="b_patch_gen_config.py"),
    "another item": change(item="parity[liger_kernel]"),
    "another machine": change(machine="0" * 24),
    "inputs of no kind": change(inputs=[["file"]]),
    "inputs that are none": change(inputs="all"),
    "time that is none": change(made="yesterday"),
    "results that are none": change(results="clean"),
    "no inputs": without("inputs"),
    "no machine": without("machine"),
    "a folder": make_folder,
    "a link to nothing": link("nowhere"),
    "a link to itself": lambda file: link(file.name)(file),
}


@pytest.mark.parametrize("name", SPOILS)
def test_a_spoilt_entry_is_not_there_and_is_replaced(store: EntryStore, name: str) -> None:
    assert find(store) == entry_like(find(store))
    file = file_of(store)
    SPOILS[name](file)
    assert find(store) is None
    if name not in ("a folder", "a link to itself"):  # which stay in the way
        store.keep([entry()], MACHINE)
        assert find(store) is not None


def entry_like(found: Entry | None) -> Entry:
    assert found is not None
    expected = entry()
    return Entry(
        expected.path,
        expected.item,
        expected.machine,
        found.made,
        expected.seconds,
        expected.inputs,
        expected.results,
    )


def test_what_another_user_wrote_is_not_believed(store: EntryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert find(store) is None


def test_the_least_recently_used_entries_go(store: EntryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(file_of(store), (0, 0))
    store.files.limit = 8
    store.keep([entry(f"plan[{number}]") for number in range(8)], MACHINE)
    assert len(store.files.paths()) == 6
    assert find(store) is None


@pytest.fixture
def project(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A project of which one run was clean."""
    monkeypatch.setenv(SWITCH, "1")
    find_ruff()
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not place.endswith("site-packages")])
    make_project(work)
    assert rerun(work) == BOTH
    return work


def kept_files(work: Workspace) -> list[Path]:
    return sorted((work.root / ".patchgen_cache/checks").iterdir())


def test_red_results_and_none_at_all_are_not_believed(project: Workspace) -> None:
    for file in kept_files(project):
        data = json.loads(body_of(file))
        if data.get("results"):
            data["results"][0]["status"] = "failed"
            write_signed(file, json.dumps(data).encode())
    assert rerun(project) == BOTH
    assert rerun(project) == []


def test_each_entry_spoilt_at_once(project: Workspace) -> None:
    for number, file in enumerate(kept_files(project)):
        os.truncate(file, number)
    assert rerun(project) == BOTH
    assert rerun(project) == []


def test_entries_that_changed_places_are_not_believed(project: Workspace) -> None:
    files = [file for file in kept_files(project) if not file.name.startswith("machine")]
    texts = [file.read_bytes() for file in files]
    for file, text in zip(files, [*texts[1:], texts[0]]):
        file.write_bytes(text)
    assert rerun(project) == BOTH


def test_a_clock_that_goes_backwards_changes_nothing(project: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in kept_files(project):
        os.utime(file, (2**33, 2**33))
    monkeypatch.setattr(time, "time", lambda: 86_400.0)
    assert rerun(project) == []


@pytest.mark.parametrize("place", [".patchgen_cache", ".patchgen_cache/checks"])
def test_a_file_where_the_folder_should_be_keeps_nothing_and_ends_nothing(project: Workspace, place: str) -> None:
    shutil.rmtree(project.root / place)
    (project.root / place).write_text("")
    for _ in range(2):
        with pytest.warns(UserWarning, match="cannot be kept") if place == ".patchgen_cache" else nothing():
            assert rerun(project) == BOTH


class nothing:
    """A context in which anything may happen."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


GATE = """
import resource
import sys
from pathlib import Path
sys.dont_write_bytecode = True
sys.path[:] = {whole!r}
from patchgen_core.build.ruff_setup import find_ruff
from tests.checks.kept_project import rerun
from tests.conftest import Workspace
find_ruff()
sys.path[:] = {path!r}
work = object.__new__(Workspace)
work.root, work.site = Path({root!r}), Path({site!r})
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, -1))
print(rerun(work))
"""


def start_gate(work: Workspace, limit: int = -1) -> subprocess.Popen[str]:
    """A gate over the project in a process of its own, whose files may not be larger than ``limit``."""
    code = GATE.format(whole=WHOLE, path=sys.path, root=str(work.root), site=str(work.site), limit=limit)
    return subprocess.Popen([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, text=True, cwd=work.root)


def test_a_full_disk_keeps_nothing_and_ends_nothing(project: Workspace) -> None:
    shutil.rmtree(project.root / ".patchgen_cache/checks")
    process = start_gate(project, limit=2000)
    output = process.communicate(timeout=60)[0]
    assert (process.returncode, output) == (0, f"{BOTH}\n")
    assert [file for file in kept_files(project) if file.stat().st_size > 2000] == []


def test_gates_that_race_keep_what_is_whole(project: Workspace) -> None:
    shutil.rmtree(project.root / ".patchgen_cache/checks")
    processes = [start_gate(project) for _ in range(3)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert set(outputs) <= {f"{BOTH}\n", "[]\n", "['other']\n", "['toy']\n"}
    for file in kept_files(project):
        head, _, body = file.read_bytes().partition(b"\n")
        assert head.decode() == digest(body)


def test_a_folder_that_is_emptied_again_and_again_ends_nothing(project: Workspace) -> None:
    is_done = threading.Event()

    def empty() -> None:
        while not is_done.wait(0.005):
            shutil.rmtree(project.root / ".patchgen_cache/checks", ignore_errors=True)

    thread = threading.Thread(target=empty)
    thread.start()
    try:
        assert rerun(project) in ([], BOTH, ["other"], ["toy"])
    finally:
        is_done.set()
        thread.join()

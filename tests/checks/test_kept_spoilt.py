"""A kept result that was spoilt counts as not there: it is never believed, and never ends a run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.checks.kept.asking import SWITCH
from patchgen_core.checks.kept.entries import Entry, EntryStore, hash_machine
from patchgen_core.errors import PatchgenError
from patchgen_core.files import digest
from patchgen_core.report.words import age
from tests.checks.kept_project import OTHER, CountedCheck, make_project, rerun, run_gate
from tests.conftest import PATCH, Workspace
from tests.spoils import IN_THE_WAY, SPOILS, body_of, change, without, write_signed

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


OWN_SPOILS = {
    **SPOILS,
    "poisoned result": lambda file: file.write_bytes(file.read_bytes().replace(b"clean", b"klean")),
    "poisoned input": lambda file: file.write_bytes(file.read_bytes().replace(b'"abc"', b'"abd"')),
    "older format": change(format=0),
    "later format": change(format=2),
    "another config": change(path="b_patch_gen_config.py"),
    "another item": change(item="parity[liger_kernel]"),
    "another machine": change(machine="0" * 24),
    "inputs of no kind": change(inputs=[["file"]]),
    "inputs that are none": change(inputs="all"),
    "time that is none": change(made="yesterday"),
    "time without an end": lambda file: write_signed(file, re.sub(rb'"made":[^,]+', b'"made":1e999', body_of(file))),
    "results that are none": change(results="clean"),
    "half a character": lambda file: write_signed(file, body_of(file).replace(b"clean", rb"\ud800")),
    "no inputs": without("inputs"),
    "no machine": without("machine"),
}


@pytest.mark.parametrize("name", OWN_SPOILS)
def test_a_spoilt_entry_is_not_there_and_is_replaced(store: EntryStore, name: str) -> None:
    assert find(store) == entry_like(find(store))
    file = file_of(store)
    OWN_SPOILS[name](file)
    assert find(store) is None
    if name in IN_THE_WAY:
        with pytest.raises(PatchgenError):
            store.keep([entry()], MACHINE)
    else:
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
@pytest.mark.mostly_slow(1)
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
    command = [sys.executable, "-I", "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=work.root)


def test_a_full_disk_keeps_nothing_and_ends_nothing(project: Workspace) -> None:
    shutil.rmtree(project.root / ".patchgen_cache/checks")
    process = start_gate(project, limit=2000)
    output = process.communicate(timeout=60)[0]
    assert (process.returncode, output) == (0, f"{BOTH}\n")
    assert [file for file in kept_files(project) if file.stat().st_size > 2000] == []


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_killed_gate_leaves_nothing_wrong_behind(project: Workspace) -> None:
    for delay in (0.5, 0.7, 0.9):
        shutil.rmtree(project.root / ".patchgen_cache/checks", ignore_errors=True)
        process = start_gate(project)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert rerun(project) in ([], BOTH, ["other"], ["toy"])
        assert rerun(project) == []
    assert [file for file in kept_files(project) if file.name.startswith(".")] == []


def test_a_time_that_lies_ahead_is_told_as_now(project: Workspace) -> None:
    for file in kept_files(project):
        data = json.loads(body_of(file))
        write_signed(file, json.dumps({**data, "made": 2.0**60} if "made" in data else data).encode())
    CountedCheck.runs.clear()
    results = [result for result in run_gate(project) if result.check == "counted"]
    assert ([age(result.made) for result in results], CountedCheck.runs) == (["0 s ago", "0 s ago"], [])


def test_a_project_in_a_folder_of_any_name(project: Workspace, tmp_path: Path) -> None:
    project.root = project.root.rename(tmp_path / "größe 模型")
    project.models = project.root / "proj/models"
    assert rerun(project) == BOTH
    assert rerun(project) == []
    project.config(PATCH + "\n# a remark\n", OTHER)
    assert rerun(project) == ["other"]


def test_an_edit_of_the_same_size_and_time_is_noticed(project: Workspace) -> None:
    deep = project.root / "proj/deep.py"
    status = deep.stat()
    deep.write_text(deep.read_text().replace("* 2", "* 3"))
    os.utime(deep, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert rerun(project) == ["toy"]


def test_an_entry_that_is_replaced_while_it_is_read_is_whole_or_not_there(store: EntryStore) -> None:
    file = file_of(store)
    whole = file.read_bytes()
    is_done = threading.Event()

    def replace() -> None:
        while not is_done.wait(0.0001):
            for data in (whole[:100], whole, whole.replace(b"abc", b"abd"), whole):
                (file.parent / "new").write_bytes(data)
                os.replace(file.parent / "new", file)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        answers = [find(store) for _ in range(500)]
    finally:
        is_done.set()
        thread.join()
    assert all(answer is None or answer == entry_like(answer) for answer in answers)


NOBODY = 65534
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files away")
def test_files_of_another_user_have_everything_run_and_are_replaced(project: Workspace) -> None:
    for file in kept_files(project):
        os.chown(file, NOBODY, NOBODY)
    assert rerun(project) == BOTH
    assert rerun(project) == []


@pytest.fixture
def without_rights() -> Iterator[Path]:
    """A folder of a user who has no rights to write into what is not theirs, which this process runs for meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        if IS_ROOT:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            if IS_ROOT:
                os.seteuid(0)


def test_a_folder_that_cannot_be_written_to_is_read(without_rights: Path) -> None:
    store = EntryStore(without_rights / "cache")
    store.keep([entry()], MACHINE)
    os.utime(file_of(store), (0, 0))
    store.folder.chmod(0o500)
    assert find(store) is not None
    with pytest.raises(PatchgenError, match="cannot be written: Permission denied"):
        store.keep([entry("plan")], MACHINE)
    store.folder.chmod(0o700)


def test_an_entry_that_cannot_be_read_is_not_there(without_rights: Path) -> None:
    store = EntryStore(without_rights / "cache")
    store.keep([entry()], MACHINE)
    file_of(store).chmod(0)
    assert find(store) is None
    store.folder.chmod(0)
    assert find(store) is None
    assert store.find_all("a_patch_gen_config.py", "parity[eager]") == []
    store.folder.chmod(0o700)

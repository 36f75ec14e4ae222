"""What a watch takes for one save, and which parsed files it keeps."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from patchgen_core.watch import events
from patchgen_core.watch.events import Batch, Watcher
from patchgen_core.watch.sources import ParsedFiles

# --- what is taken for one save ------------------------------------------------------------------


@pytest.fixture
def watcher(tmp_path: Path) -> Watcher:
    """Watches a folder."""
    watcher = Watcher()
    watcher.follow([tmp_path])
    return watcher


def happen(watcher: Watcher, *outputs: Path) -> Batch:
    while not (batch := watcher.wait(outputs)):
        pass
    return batch


@pytest.mark.slow
def test_more_files_are_waited_for_when_there_are_several(
    watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_BURST", 5000)
    watcher.forget()
    watcher.follow([tmp_path])
    paths = [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    for path in paths[:2]:
        path.write_text("x = 1\n")
    later = threading.Timer(0.2, lambda: paths[2].write_text("x = 1\n"))
    later.start()
    assert happen(watcher).files == set(paths)


def test_a_file_that_is_moved_away_is_waited_for(
    watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    happen(watcher)
    monkeypatch.setattr(events, "_GRACE", 30)
    path.unlink()
    threading.Timer(0.2, lambda: path.write_text("x = 2\n")).start()
    assert happen(watcher).files == {path}
    assert path.read_text() == "x = 2\n"


def test_noise_is_passed_over(watcher: Watcher, tmp_path: Path) -> None:
    for name in (".#a.py", ".patchgen-host-1-a", "a.py~", "a.pyc", "notes.md", "4913"):
        (tmp_path / name).write_text("x")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    assert happen(watcher) == Batch(frozenset([tmp_path / "a.py"]))


# --- parsed files ----------------------------------------------------------------------------------


def test_a_file_is_parsed_again_only_when_it_has_changed(tmp_path: Path) -> None:
    kept, path = ParsedFiles(), tmp_path / "a.py"
    path.write_text("x = 1\n")
    first = kept.get(path)
    kept.forget_changed([])
    assert kept.get(path) is first
    path.write_text("x = 10\n")
    kept.forget_changed([])
    assert kept.get(path).text == "x = 10\n"


def test_a_changed_file_that_looks_the_same_is_parsed_again(tmp_path: Path) -> None:
    kept, path = ParsedFiles(), tmp_path / "a.py"
    path.write_text("x = 1\n")
    times = os.stat(path)
    kept.get(path)
    path.write_text("x = 2\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    kept.forget_changed([path])
    assert kept.get(path).text == "x = 2\n"


def test_the_files_that_were_used_least_recently_are_forgotten(tmp_path: Path) -> None:
    kept, paths = ParsedFiles(most_lines=4), [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    for path in paths:
        path.write_text("x = 1\ny = 2\n")
    first, second, _ = map(kept.get, paths)
    kept.get(paths[0])
    kept.forget_oldest()
    assert kept.get(paths[0]) is first
    assert kept.get(paths[1]) is not second

"""``patchgen watch --checks``: other checks of what a save concerns, beside the watch."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from patchgen_core.build.selection import Selection
from patchgen_core.cli.watch import Interrupt
from patchgen_core.watch.events import Batch
from patchgen_core.watch.session import WatchSession
from tests.conftest import PATCH, Workspace
from tests.watch.conftest import Start, Watch
from tests.workers.forking import is_running, until

LABEL = "proj.models.toy.toy_gpu_patch_gen_config"
TRIPLED = PATCH.replace("x * 2", "x * 3")
LACKING = """
config.add_post_import_block('import acme_kernels; acme_kernels.load()')
"""
HANGING = """
config.add_post_import_block('''
import os, time
from pathlib import Path
Path({note!r}).write_text(str(os.getpid()))
time.sleep(600)
''')
"""


@pytest.fixture
def watch(gated: Workspace, start: Start) -> Watch:
    """A watch that also imports what is generated."""
    return start(gated, "--checks", "import", command="watch")


def find_gate(watch: int) -> int:
    """The process of the gate among the children of a watch."""
    children = [
        int(pid) for task in Path(f"/proc/{watch}/task").iterdir() for pid in (task / "children").read_text().split()
    ]
    return next(pid for pid in children if b"gate" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))


def test_a_save_is_followed_by_the_checks_that_are_named(gated: Workspace, watch: Watch) -> None:
    assert watch.started.splitlines()[-1] == (
        "Watching 'proj/models': drifted files are rewritten, then checked by import. Press Ctrl-C to stop."
    )
    gated.config(TRIPLED + LACKING)
    watch.update()
    told = watch.until("import: 1 config")
    assert "running import of toy_gpu_patch_gen_config\n" in told
    assert f"failed   {LABEL}  import\n" in told
    assert "does not import: ModuleNotFoundError: No module named 'acme_kernels'" in told
    assert "import: 1 config, 1 check: 1 failed. Took " in told
    gated.config(TRIPLED)
    watch.update()
    assert "failed" not in (told := watch.until("import: 1 config"))
    assert "import: 1 config, 1 check: 1 ok. Took " in told
    watch.assert_quiet()


@pytest.mark.slow
def test_what_is_saved_beside_a_config_has_its_checks_run(gated: Workspace, watch: Watch) -> None:
    gated.write("proj/models/toy/unused.py", "x = 1\n")
    assert "import: 1 config, 1 check: 1 ok." in watch.until("import: 1 config")
    gated.write("proj/models/other/unused.py", "x = 1\n")
    watch.assert_quiet()


@pytest.mark.slow
def test_the_next_save_ends_a_run_and_has_it_begin_anew(gated: Workspace, watch: Watch, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    gated.config(PATCH + HANGING.format(note=str(note)))
    assert until(lambda: note.exists() and note.read_text() != "")
    hanging = int(note.read_text())
    gated.config(TRIPLED)
    assert "import: 1 config, 1 check: 1 ok." in watch.until("import: 1 config")
    assert until(lambda: not is_running(hanging))


@pytest.mark.slow
def test_an_interrupt_ends_the_run_as_well(gated: Workspace, watch: Watch, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    gated.config(PATCH + HANGING.format(note=str(note)))
    assert until(lambda: note.exists() and note.read_text() != "")
    assert watch.stop() == 0
    assert until(lambda: not is_running(int(note.read_text())))


@pytest.mark.slow
def test_a_run_that_is_killed_is_no_green_one(gated: Workspace, watch: Watch, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    gated.config(PATCH + HANGING.format(note=str(note)))
    assert until(lambda: note.exists() and note.read_text() != "")
    os.kill(find_gate(watch.process.pid), signal.SIGKILL)
    told = watch.until("the checks did not run to their end: ")
    assert told.endswith("its process has ended with exit code -9, after 0 of 1 checks\n")


@pytest.mark.slow
def test_a_config_with_errors_is_not_checked_until_it_has_none(gated: Workspace, watch: Watch) -> None:
    gated.config(PATCH + "\nconfig.exclude_from_output('Nothing')\n")
    assert "'Nothing'" in watch.update()
    watch.assert_quiet()
    gated.config(TRIPLED)
    assert "import: 1 config, 1 check: 1 ok." in watch.until("import: 1 config")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--checks", "import,partiy"], "there is no check 'partiy'\n  Did you mean 'parity'?"),
        (["--checks", "drift,contract"], "--checks names nothing that a watch does not do anyway: 'drift,contract'"),
        (["--checks", "import", "-o", "elsewhere"], "--checks does not go with --output-dir"),
        (["--checks", "import", "-c", "other"], "--checks does not go with --config-name"),
    ],
)
def test_what_cannot_be_run_beside_a_watch_is_refused(gated: Workspace, arguments: list[str], message: str) -> None:
    done = gated.patchgen("watch", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")


def test_a_change_of_upstreams_package_is_told_from_others(gated: Workspace) -> None:
    """What a watch has imported of it is then imported anew."""
    session = WatchSession(lambda: gated.project, Selection, False)
    try:
        session.start()
        upstream = next(gated.site.glob("acme/models/toy/modeling_toy.py"))
        beside = gated.site / "other/module.py"
        assert [session.touches_upstream(Batch(frozenset([file]))) for file in (upstream, beside)] == [True, False]
    finally:
        session.close()


def test_an_interrupt_that_python_cannot_raise_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it comes while the process of a run is freed that has just ended."""

    class Freed:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: raised.append(told.exc_type))
    interrupt = Interrupt()
    try:
        Freed()
    finally:
        interrupt.close()
    assert raised == [KeyboardInterrupt]
    assert interrupt.is_noted

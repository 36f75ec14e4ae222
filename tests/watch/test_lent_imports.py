"""A gate that is started beside a watch has its processes forked from what the watch has imported, where they would be
the same ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.checks.fork_server import IMPORT_TORCH, borrow_server, lend_server
from patchgen_core.project.cache_folder import cache_folder
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.workers.fork_request import ENVIRONMENT, socket_path
from patchgen_core.workers.fork_server import ForkServer
from tests.conftest import PATCH, PREAMBLE, UPSTREAM, Workspace
from tests.watch.conftest import Start
from tests.workers.forking import until

NOTING = """
config.add_post_import_block('''
import os
from pathlib import Path
pid, pids = os.getpid(), []
while pid:
    pids.append(pid)
    pid = int(Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[1])
Path({note!r}).write_text(" ".join(map(str, pids)))
''')
"""


@pytest.fixture
def project(gated: Workspace, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The workspace's project, where nobody else offers a server."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    return load_project(gated.models)


@pytest.fixture
def noting(gated: Workspace, tmp_path: Path) -> Path:
    """Where the generated module, of a model of transformers, notes the processes above it."""
    note = tmp_path / "pids"
    preamble = PREAMBLE.replace(UPSTREAM, "transformers.models.llama.modeling_llama")
    gated.config(PATCH.replace("Norm", "LlamaRMSNorm") + NOTING.format(note=str(note)), preamble=preamble)
    return note


def run_gate(work: Workspace, note: Path, **variables: str) -> list[int]:
    """Run the import check, which is clean; the processes above the one that imported."""
    note.unlink(missing_ok=True)
    env = {**os.environ, "PYTHONPATH": str(work.site), "COLUMNS": "80", **variables}
    command = [sys.executable, "-m", "patchgen_core", "gate", "--checks", "import", "--no-cache"]
    done = subprocess.run(command, cwd=work.root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [int(pid) for pid in note.read_text().split()]


@pytest.mark.slow
def test_a_gate_beside_a_watch_imports_nothing_anew(
    gated: Workspace, project: Project, start: Start, noting: Path
) -> None:
    watch = start(gated, "--checks", "import", command="watch")
    assert watch.process.pid in run_gate(gated, noting)
    assert watch.process.pid in run_gate(gated, noting, TMUX_PANE="%7", TERM="dumb")
    assert watch.process.pid not in run_gate(gated, noting, ACME_SETTING="1")
    assert watch.process.pid not in run_gate(gated, noting, PATCHGEN_FORK_SERVER="")
    watch.assert_quiet()
    assert watch.stop() == 0
    assert watch.process.pid not in run_gate(gated, noting)


@pytest.mark.slow
def test_a_watch_that_was_killed_lends_nothing(gated: Workspace, project: Project, start: Start, noting: Path) -> None:
    watch = start(gated, "--checks", "import", command="watch")
    offer = cache_folder(project) / "fork-server"
    assert until(offer.exists)
    watch.process.send_signal(signal.SIGKILL)
    watch.process.wait()
    assert offer.exists()
    assert watch.process.pid not in run_gate(gated, noting)


def test_an_offer_is_withdrawn_by_who_made_it(project: Project) -> None:
    one, other = ForkServer({}), ForkServer({})
    one.folder, other.folder = "/one", "/other"
    offer, later = lend_server(one, project), lend_server(other, project)
    offer.withdraw()
    assert later.file.read_text(encoding="utf-8") == "/other"
    later.withdraw()
    assert not later.file.exists()
    later.withdraw()


def test_an_offer_of_nothing_is_passed_over(project: Project, tmp_path: Path) -> None:
    file = cache_folder(project) / "fork-server"
    file.parent.mkdir(exist_ok=True)
    for text in (b"", b"nowhere", str(tmp_path).encode(), b"/dev/null", b"x" * 5000, b"\0", b"\xff", b"/a\n/b"):
        file.write_bytes(text)
        assert borrow_server(project) is None
        assert ENVIRONMENT not in os.environ
    file.unlink()
    file.mkdir()
    assert borrow_server(project) is None


def test_a_server_that_ends_before_it_forks_is_passed_over(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(socket_path(str(folder), IMPORT_TORCH))
        listener.listen()
    server = ForkServer({})
    server.folder = str(folder)
    lend_server(server, project)
    assert borrow_server(project) is None

"""What hostile code tries in a box of the real bubblewrap, and what becomes of it."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from pathlib import Path

import pytest

from patchgen_service.isolation.box import MEBIBYTE, Box, Limits, python_folders
from patchgen_service.isolation.process import Exit, run_command

LIMITS = Limits(seconds=20, memory=512 * MEBIBYTE, processes=64, disk=32 * MEBIBYTE, output=4 * MEBIBYTE)
ENDLESS = Limits(seconds=1)


def run_code(folder: Path, code: str, limits: Limits = LIMITS, **more: object) -> tuple[Exit, list[str]]:
    """Run Python code isolated; ``folder`` can be read."""
    lines: list[bytes] = []
    readable = {**python_folders(), folder: folder}
    box = Box(folder, readable, limits=limits, **more)  # type: ignore[arg-type]
    done = run_command("bubblewrap", box, [sys.executable, "-I", "-S", "-c", code], lines.append)
    return done, [line.decode() for line in lines]


def processes_with(marker: str) -> list[str]:
    """The processes of this machine that have a word in their arguments."""
    own = str(os.getpid())
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if entry != own and marker.encode() in arguments:
            found.append(entry)
    return found


def test_code_that_loops_is_ended(tmp_path: Path) -> None:
    done, _ = run_code(tmp_path, "while True: pass", ENDLESS)
    assert (done.reason, done.message) == ("seconds", "It took longer than 1 seconds.")


def test_code_that_ignores_signals_is_ended_with_its_children(tmp_path: Path) -> None:
    """Children in sessions of their own too, and those whose parents are gone."""
    marker = f"marker-{tmp_path.name}"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
        f"loop = [sys.executable, '-c', 'import time; time.sleep(60)', '{marker}']\n"
        "subprocess.Popen(loop, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "if os.fork() == 0:\n    os.setsid()\n    os.fork()\n"
        "time.sleep(60)\n"
    )
    done, _ = run_code(tmp_path, code, ENDLESS)
    assert done.reason == "seconds"
    assert processes_with(marker) == []


def test_code_that_forks_without_end_is_ended(tmp_path: Path) -> None:
    done, _ = run_code(tmp_path, f"import os\nwhile True:\n    os.fork()  # {tmp_path.name}-bomb\n")
    assert done.reason == "processes" or "Resource temporarily unavailable" in done.tail
    assert processes_with(f"{tmp_path.name}-bomb") == []


@pytest.mark.parametrize(
    "code",
    [
        "held = [b'x' * (1 << 24) for _ in range(1 << 10)]",
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        held = b'x' * (100 << 20)\n"
        "        time.sleep(60)\ntime.sleep(60)",
    ],
    ids=["one", "many"],
)
def test_code_that_takes_all_memory_is_ended(tmp_path: Path, code: str) -> None:
    done, _ = run_code(tmp_path, code)
    assert done.reason == "memory" or "MemoryError" in done.tail
    assert done.code != 0


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/tmp/home"])
def test_code_that_fills_the_disk_gets_an_error(tmp_path: Path, place: str) -> None:
    """Many files, so that no limit of a single one is what holds."""
    code = (
        "import itertools\n"
        "try:\n"
        "    for number in itertools.count():\n"
        f"        with open('{place}/' + str(number), 'wb') as file:\n"
        "            file.write(bytes(4 << 20))\n"
        "except OSError as error:\n"
        "    print(number, error.strerror)\n"
    )
    _, (line,) = run_code(tmp_path, code, Limits(20, 64 * MEBIBYTE, 64, 32 * MEBIBYTE))
    number, reason = line.split(" ", 1)
    assert (int(number) <= 8, reason) == (True, "No space left on device")


def test_folder_that_can_be_written_to_is_watched(tmp_path: Path) -> None:
    code = (
        "import itertools, time\n"
        "for number in itertools.count():\n"
        f"    with open('{tmp_path}/' + str(number), 'wb') as file:\n"
        "        file.write(bytes(8 << 20))\n"
        "    time.sleep(0.05)\n"
    )
    done, _ = run_code(tmp_path, code, writable=(tmp_path,))
    assert (done.reason, done.message) == ("disk", "It wrote more than 32 MiB.")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("text", ["'x' * 100 + chr(10)", "'x' * 4096"], ids=["lines", "one line"])
def test_code_that_prints_without_end_is_ended(tmp_path: Path, stream: str, text: str) -> None:
    done, _ = run_code(tmp_path, f"import sys\nwhile True: sys.{stream}.write({text})")
    assert (done.reason, done.message) == ("output", "It printed more than 4 MiB.")
    assert len(done.tail) <= 16384


def test_code_writes_nowhere_that_stays(tmp_path: Path) -> None:
    """Not to its own folder, nor the system, nor the root, nor the devices; and what it writes to /tmp is gone."""
    code = (
        "import os\n"
        f"for place in ('{tmp_path}', '/', '/usr', '/etc', '/dev', '/proc', '{Path.home()}', '{tmp_path.parent}'):\n"
        "    try:\n"
        "        os.makedirs(place, exist_ok=True)\n"
        "        open(place + '/written-by-a-config', 'w').close()\n"
        "        print(place)\n"
        "    except OSError:\n"
        "        pass\n"
        "open('/tmp/written-by-a-config', 'w').close()\n"
    )
    done, lines = run_code(tmp_path, code)
    assert done.code == 0, done.tail
    for place in lines:
        assert not Path(place, "written-by-a-config").exists()
    assert not set(lines) & {str(tmp_path), "/", "/usr", "/etc", "/dev", "/proc"}
    assert not Path("/tmp/written-by-a-config").exists()


def test_code_opens_no_connections(tmp_path: Path) -> None:
    """Not to this machine by its address or by an abstract name; nor to others."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        name = f"\0{tmp_path.name}"
        abstract.bind(name)
        abstract.listen()
        code = (
            "import socket\n"
            f"own = ('127.0.0.1', {server.getsockname()[1]})\n"
            "tries = [(socket.AF_INET, own), (socket.AF_INET, ('192.0.2.1', 80)),\n"
            f"    (socket.AF_UNIX, {name!r}), (socket.AF_UNIX, '/run/dbus/system_bus_socket')]\n"
            "for family, address in tries:\n"
            "    with socket.socket(family) as client:\n"
            "        client.settimeout(2)\n"
            "        try:\n"
            "            client.connect(address)\n"
            "        except OSError:\n"
            "            continue\n"
            "        print(address)\n"
            "try:\n"
            "    socket.getaddrinfo('pypi.org', 443)\n"
            "    print('names')\n"
            "except OSError:\n"
            "    pass\n"
        )
        done, lines = run_code(tmp_path, code)
    assert (done.code, lines) == (0, []), done.tail


def test_code_sees_only_what_it_is_given(tmp_path: Path) -> None:
    """No database, no other worktree, no home folder, no other process, no variable of the service."""
    own, other = tmp_path / "data" / "own", tmp_path / "data" / "other"
    for folder in (own, other):
        folder.mkdir(parents=True)
        (folder / "file").write_text(folder.name)
    (tmp_path / "data" / "service.db").write_text("secret")
    os.environ["PATCHGEN_SECRET_KEY"] = "secret"
    try:
        code = (
            "import os\n"
            f"print(sorted(os.listdir({str(tmp_path / 'data')!r})))\n"
            f"print(os.path.exists({str(Path.home() / '.ssh')!r}), os.path.exists('/etc/shadow'))\n"
            "print(sorted(os.environ))\n"
            "pids = filter(str.isdigit, os.listdir('/proc'))\n"
            "print(any(b'secret' in open(f'/proc/{pid}/environ', 'rb').read() for pid in pids))\n"
            "print(int(open('/proc/self/status').read().split('CapEff:')[1].split()[0], 16))\n"
        )
        done, lines = run_code(own, code)
    finally:
        del os.environ["PATCHGEN_SECRET_KEY"]
    assert done.code == 0, done.tail
    assert lines == [
        "['own']",
        "False False",
        "['HOME', 'LANG', 'PATH', 'PWD', 'TMPDIR', 'USER']",
        "False",
        "0",
    ]


def test_what_is_hidden_stays_hidden_below_something_readable(tmp_path: Path) -> None:
    own, other = tmp_path / "data" / "own", tmp_path / "data" / "other"
    own.mkdir(parents=True)
    other.mkdir()
    box = Box(own, {**python_folders(), tmp_path: tmp_path, own: own}, hidden=(tmp_path / "data",), limits=LIMITS)
    lines: list[bytes] = []
    code = f"import os; print(os.listdir({str(tmp_path)!r}), os.listdir({str(tmp_path / 'data')!r}))"
    done = run_command("bubblewrap", box, [sys.executable, "-I", "-S", "-c", code], lines.append)
    assert lines == [b"['data'] ['own']"], done.tail


def test_command_that_is_to_stop_is_over_at_once(tmp_path: Path) -> None:
    lines: list[bytes] = []
    box = Box(tmp_path, {**python_folders(), tmp_path: tmp_path}, limits=LIMITS)
    code = "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    begun = time.monotonic()
    done = run_command(
        "bubblewrap",
        box,
        [sys.executable, "-I", "-c", code, f"stop-{tmp_path.name}"],
        lines.append,
        lambda: bool(lines),
    )
    assert (done.reason, done.message) == ("stopped", "It was stopped.")
    assert time.monotonic() - begun < 30
    assert processes_with(f"stop-{tmp_path.name}") == []


@pytest.mark.slow
def test_all_is_read_of_a_command_that_ends_while_this_process_gets_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote its last lines after it was looked whether there are any, and was gone a moment later."""

    class SlowSelector(selectors.DefaultSelector):
        is_first = True

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if self.is_first:
                self.is_first = False
                time.sleep(3)
                return []
            return super().select(timeout)

    monkeypatch.setattr(selectors, "DefaultSelector", SlowSelector)
    done, lines = run_code(tmp_path, "for number in range(3): print(number)")
    assert (done.code, lines) == (0, ["0", "1", "2"])


def test_trusted_code_without_isolation_keeps_its_limits_and_sees_no_variable(tmp_path: Path) -> None:
    code = "import os, subprocess, sys\nprint('SECRET' in os.environ, flush=True)\n"
    code += f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', 'none-{tmp_path.name}'])\n"
    code += "while True: pass\n"
    lines: list[bytes] = []
    os.environ["SECRET"] = "x"
    try:
        done = run_command("none", Box(tmp_path, limits=ENDLESS), [sys.executable, "-I", "-c", code], lines.append)
    finally:
        del os.environ["SECRET"]
    assert (done.reason, lines) == ("seconds", [b"False"])
    assert processes_with(f"none-{tmp_path.name}") == []

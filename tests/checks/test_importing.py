"""Generated modules are imported in a process of their own, which they may break as they like."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.imports.importing import Importer
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from tests.checks.imports_to_check import NAME, Import, artifact_of, only
from tests.conftest import PATCH, PREAMBLE, UPSTREAM, UPSTREAM_TEXT, Workspace, generated

# --- which text ------------------------------------------------------------------------------------


def test_file_on_disk_is_imported(gated: Workspace, importer: Importer) -> None:
    artifact = artifact_of(gated)
    assert importer.check(artifact) == CheckResult()
    generated(gated).write_text(f"{artifact.text}\nimport nowhere_to_be_found\n")
    assert only(importer.check(artifact)).endswith("ModuleNotFoundError: No module named 'nowhere_to_be_found'")


def test_fresh_text_is_imported_whatever_is_on_disk(gated: Workspace, importer: Importer) -> None:
    artifact = artifact_of(gated)
    generated(gated).write_text("raise RuntimeError('the file was imported')\n")
    assert importer.check(artifact, fresh=True) == CheckResult()
    generated(gated).write_text(artifact.text)
    broken = replace(artifact, text="raise RuntimeError('the text was imported')\n")
    assert only(importer.check(broken, fresh=True)).endswith("RuntimeError: the text was imported")
    assert importer.check(artifact) == CheckResult()


def test_fresh_text_is_imported_before_its_folder_exists(gated: Workspace, import_: Import) -> None:
    for path in generated(gated).parent.iterdir():
        path.unlink()
    generated(gated).parent.rmdir()
    gated.write("proj/models/toy/helper.py", "value = 1\n")
    assert import_("from ..helper import value\nfrom .. import helper\nassert helper.value == value").errors == ()
    assert not generated(gated).parent.exists()


def test_fresh_text_leaves_no_bytecode(gated: Workspace, import_: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    assert import_().errors == ()
    assert {path.suffix for path in generated(gated).parent.iterdir()} == {".py", ".diff"}


@pytest.fixture
def compiled(gated: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Runs the generated module in a process of the user's own, which leaves its bytecode; what it prints."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    command = [sys.executable, "-c", "import proj.models.toy.generated.patched_modeling_toy_gpu"]

    def run() -> str:
        return subprocess.run(command, cwd=gated.root, check=True, capture_output=True, text=True).stdout

    return run


def test_bytecode_of_another_text_is_not_imported(
    gated: Workspace, importer: Importer, compiled: Callable[[], str]
) -> None:
    path, text = generated(gated), artifact_of(gated).text
    path.write_text(f"{text}\nx = 1 / 1\n")
    written = path.stat()
    compiled()
    bytecode = {file: file.read_bytes() for file in path.parent.glob("__pycache__/*.pyc")}
    assert len(bytecode) == 1
    path.write_text(f"{text}\nx = 1 / 0\n")
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))  # as when both are written within a second
    assert only(importer.check(artifact_of(gated))).endswith("ZeroDivisionError: division by zero")
    assert {file: file.read_bytes() for file in path.parent.glob("__pycache__/*.pyc")} == bytecode


def test_rewritten_module_is_compiled_anew_by_whoever_imports_it(
    gated: Workspace, compiled: Callable[[], str]
) -> None:
    path, text = generated(gated), artifact_of(gated).text
    edited = f"{text}\nprint('edited')\n"
    path.write_text(edited)
    written = path.stat()
    assert compiled() == "edited\n"
    assert write_files([(path, edited.replace("edited", "redone"))]) == [path]
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    assert compiled() == "redone\n"


def test_module_that_is_not_there_is_an_error(gated: Workspace, importer: Importer) -> None:
    artifact = artifact_of(gated)
    generated(gated).unlink()
    with pytest.raises(PatchgenError, match=f"{NAME}' does not exist"):
        importer.check(artifact)


def test_source_of_fresh_text_can_be_inspected(gated: Workspace, import_: Import) -> None:
    code = """
    import inspect

    def doubled(x):
        return x * 2  # as in the text

    assert inspect.getsource(doubled) == "def doubled(x):\\n    return x * 2  # as in the text\\n", "stale"
    assert "class Norm" in inspect.getsource(Norm)
    """
    generated(gated).write_text("# something else\n" * 100)
    assert import_(code).errors == ()
    generated(gated).unlink()
    assert import_(code).errors == ()


def test_package_of_upstream_that_imports_the_generated_module_gets_the_fresh_text(
    gated: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream may be the project's own package, which exports what is made of it."""
    monkeypatch.syspath_prepend(str(gated.root))
    gated.write("proj/base.py", UPSTREAM_TEXT)
    gated.config(PATCH, preamble=PREAMBLE.replace(UPSTREAM, "proj.base"))
    fix(gated.check())
    gated.write("proj/__init__.py", "from proj.models.toy.generated.patched_modeling_toy_gpu import Norm\n")
    artifact = artifact_of(gated)
    with closing(Importer(gated.project, time_limit=60)) as importer:
        for text in ("raise RuntimeError('first')\n", "raise RuntimeError('second')\n"):
            assert text.split("'")[1] in only(importer.check(replace(artifact, text=text), fresh=True))
        assert importer.check(artifact, fresh=True) == CheckResult()


def test_another_copy_of_the_project_is_noticed(gated: Workspace, importer: Importer) -> None:
    gated.write("proj/models/toy/generated/patched_modeling_toy_gpu/__init__.py", "class Norm: ...\n")
    assert only(importer.check(artifact_of(gated))).startswith("its name imports another file: ")


# --- modules that misbehave ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "print('{}')",
        "import sys; print('{}', file=sys.__stdout__, flush=True); print('{}', file=sys.stderr)",
        "import os; os.write(1, b'{}\\n'); os.write(2, b'{}\\n')",
        "import ctypes; libc = ctypes.CDLL(None); libc.puts(b'{}'); libc.fflush(None)",
        "import subprocess; subprocess.run(['echo', '{}'], check=True)",
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import os; os.close(0); os.close(1); os.close(2)",
        "import io, sys; sys.stdout = sys.stderr = io.StringIO()",
        "import sys; sys.stdout = sys.stderr = None",
        "import sys; sys.stdout = sys.stderr = object()",
        "import threading; threading.Thread(target=threading.Event().wait).start()",
        "import sys; sys.path.clear(); sys.meta_path.clear()",
    ],
)
@pytest.mark.mostly_slow(5)
def test_module_may_do_as_it_likes_with_its_process(import_: Import, code: str) -> None:
    assert import_(code).errors == ()
    assert only(import_("raise RuntimeError('mine')")).endswith("RuntimeError: mine")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os; os._exit(3)", "dies when it is imported: exit code 3"),
        ("import ctypes; ctypes.string_at(0)", "dies when it is imported: signal 11"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "dies when it is imported: signal 9"),
        ("import sys; sys.exit('bye')", "does not import: SystemExit: bye"),
        ("raise KeyboardInterrupt('typed')", "does not import: KeyboardInterrupt: typed"),
        ("input()", "does not import: EOFError: EOF when reading a line"),
    ],
)
@pytest.mark.mostly_slow(2)
def test_module_that_ends_its_import_is_a_problem_and_the_next_one_works(
    importer: Importer, import_: Import, code: str, expected: str
) -> None:
    importer.worker.time_limit = 5
    assert only(import_(code)).endswith(expected)
    assert import_().errors == ()


@pytest.mark.parametrize(
    "code", ["import os; print('{}', flush=True); os.write(1, b'{}')", "import sys; sys.exit('bye')"]
)
def test_package_of_upstream_may_do_as_it_likes_too(gated: Workspace, import_: Import, code: str) -> None:
    (gated.site / "acme/__init__.py").write_text(code)
    assert import_().errors == ()
    assert import_().errors == ()


def test_module_that_hangs_is_given_up_and_the_next_one_works(importer: Importer, import_: Import) -> None:
    assert import_().errors == ()
    importer.worker.time_limit = 0.3
    (problem,) = import_("while True: pass").errors
    assert problem.message == f"{NAME} dies when it is imported: no answer within 0.3 s"
    assert problem.excerpt == "", "the stack of a process that waits for the import says nothing of it"
    importer.worker.time_limit = 60
    assert import_().errors == ()


def test_what_a_module_said_before_it_died_is_shown(import_: Import) -> None:
    code = "import os, sys; print('the last words'); sys.stdout.flush(); os.write(2, b'and more'); os._exit(1)"
    (problem,) = import_(code).errors
    assert problem.excerpt.splitlines() == ["the last words", "and more"]


def test_interrupted_check_leaves_no_answer_for_the_next(import_: Import) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(number: int, frame: types.FrameType | None) -> None:
        raise Interrupted

    assert import_().errors == ()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupted):
            import_("import time; time.sleep(1); raise RuntimeError('the first')")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert only(import_("raise RuntimeError('the second')")).endswith("the second")


def test_close_leaves_no_process_behind(tmp_path: Path, importer: Importer, import_: Import) -> None:
    """A pipe ends when the last process is gone that can write to it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    code = f"""
    import subprocess
    subprocess.Popen(["sh", "-c", "echo on; sleep 600"], stdout=open({str(path)!r}, "w"))
    """
    try:
        assert import_(code).errors == ()
        select.select([pipe], [], [], 60)
        assert os.read(pipe, 100) == b"on\n"
        with pytest.raises(BlockingIOError):
            os.read(pipe, 100)
        importer.close()
        select.select([pipe], [], [], 60)
        assert os.read(pipe, 100) == b""
    finally:
        os.close(pipe)
    assert import_().errors == ()


# --- a fresh state ---------------------------------------------------------------------------------


def test_nothing_of_the_test_process_is_visible(import_: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "only_here", types.ModuleType("only_here"))
    assert only(import_("import only_here")).endswith("No module named 'only_here'")
    code = "import sys; assert not {'pytest', 'libcst', 'patchgen_core', 'rich'} & sys.modules.keys(), 'visible'"
    assert import_(code).errors == ()


def test_nothing_of_one_import_is_there_for_the_next(gated: Workspace, import_: Import) -> None:
    gated.write("proj/models/helper.py", "")
    code = """
    import builtins, os, sys
    assert "proj" not in sys.modules or "proj.models.helper" not in sys.modules, "module"
    assert not hasattr(builtins, "left"), "builtins"
    assert "LEFT" not in os.environ, "environment"
    builtins.left, os.environ["LEFT"] = 1, "1"
    import proj.models.helper
    """
    for _ in range(2):
        assert import_(code).errors == ()


def test_import_roots_come_before_what_else_is_on_the_path(gated: Workspace, import_: Import) -> None:
    site = gated.site / "proj" / "__init__.py"
    site.parent.mkdir()
    site.write_text("raise RuntimeError('another proj')\n")
    gated.write("proj/__init__.py", "")
    assert import_().errors == ()

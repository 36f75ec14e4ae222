"""ruff is asked for its version once, and again when its binary is another one."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from patchgen_core.build.ruff_setup import find_ruff, kept_version
from tests.build.test_ruff_versions import OLD_RUFF, old_ruff
from tests.conftest import ROOT, Workspace
from tests.spoils import IN_THE_WAY, SPOILS, body_of, write_signed

NEW_RUFF = Path(sysconfig.get_path("scripts"), "ruff")


def ask(ruff: Path) -> str:
    return subprocess.run([ruff, "--version"], capture_output=True, text=True, check=True).stdout


def test_a_check_of_what_is_clean_starts_no_ruff(gated: Workspace) -> None:
    gated.patchgen("--check")
    code = "import sys; sys.argv = ['', '--check']; from patchgen_core.cli.main import main; main(); "
    done = gated.python(f"{code}print('subprocess' in sys.modules)")
    assert done.stdout == "1 config: 1 clean.\nFalse\n"


@pytest.mark.parametrize("name", SPOILS)
@pytest.mark.mostly_slow(8)
def test_a_spoilt_version_is_asked_anew(tmp_path: Path, name: str) -> None:
    file = tmp_path / "version"
    version = kept_version(tmp_path, file)
    assert version == ask(NEW_RUFF)
    kept = file.read_bytes()
    SPOILS[name](file)
    assert kept_version(tmp_path, file) == version
    if name not in IN_THE_WAY:
        assert file.read_bytes() == kept


@pytest.mark.parametrize(("place", "value"), [(0, "/usr"), (1, str(OLD_RUFF)), (1, 0), (2, [1, 2, 3]), (3, 5)])
def test_the_version_of_another_binary_is_not_believed(tmp_path: Path, place: int, value: object) -> None:
    file = tmp_path / "version"
    version = kept_version(tmp_path, file)
    values = json.loads(body_of(file))
    values[3] = "ruff 0.0.1\n"
    write_signed(file, json.dumps(values).encode())
    assert kept_version(tmp_path, file) == "ruff 0.0.1\n"
    values[place] = value
    write_signed(file, json.dumps(values).encode())
    assert kept_version(tmp_path, file) == version


def test_a_binary_that_stands_elsewhere_is_asked_each_time(tmp_path: Path) -> None:
    """Until there is one beside the interpreter, which comes first."""
    file = tmp_path / "version"
    with old_ruff():
        assert kept_version(tmp_path, file) == ask(OLD_RUFF)
    assert not file.exists()
    assert kept_version(tmp_path, file) == ask(Path(find_ruff()))
    assert file.exists()


def test_another_ruff_that_is_installed_is_noticed(gated: Workspace, tmp_path: Path) -> None:
    venv.create(tmp_path / "environment", symlinks=True)
    python = tmp_path / "environment/bin/python"
    folders = [str(ROOT), *site.getsitepackages(), str(gated.site)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}

    def check(ruff: Path) -> list[str]:
        shutil.copy(ruff, python.with_name("ruff.new"))
        python.with_name("ruff.new").replace(python.with_name("ruff"))
        command = [python, "-m", "patchgen_core", "--check"]
        done = subprocess.run(command, cwd=gated.root, env=environment, capture_output=True, text=True)
        assert done.stdout == "1 config: 1 clean.\n"
        cache = gated.root / ".patchgen_cache"
        return [json.loads(body_of(cache / "ruff-version"))[3], *sorted(map(str, (cache / "results").iterdir()))]

    version, *entries = check(OLD_RUFF)
    assert version == ask(OLD_RUFF)
    version, *more = check(NEW_RUFF)
    assert version == ask(NEW_RUFF)
    assert len(more) == len(entries) + 1

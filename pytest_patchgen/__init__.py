"""The pytest plugin: with ``--patchgen``, every patch config that is collected is a test of its drift.

Switched off, it does nothing and imports nothing of patchgen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from patchgen_core.drift import ConfigResult

CONFIG_SUFFIX = "_patch_gen_config.py"
_results = pytest.StashKey[dict[Path, "list[ConfigResult]"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare ``--patchgen``."""
    group = parser.getgroup("patchgen", "patched modeling files")
    group.addoption("--patchgen", action="store_true", help="check that generated modeling files are current")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks."""
    config.addinivalue_line("markers", "patchgen: a check of a patch config")
    config.addinivalue_line("markers", "patchgen_drift: generated files are what their config makes")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect patch configs when the plugin is switched on."""
    if parent.config.getoption("--patchgen") and file_path.name.endswith(CONFIG_SUFFIX):
        return ConfigFile.from_parent(parent, path=file_path)
    return None


class ConfigFile(pytest.File):
    """A patch config."""

    def collect(self) -> Iterator[pytest.Item]:
        """The checks of the config."""
        yield DriftItem.from_parent(self, name="drift")


class DriftItem(pytest.Item):
    """Fails when a generated file is not what its config makes, or the config is broken."""

    def __init__(self, name: str, parent: ConfigFile) -> None:
        super().__init__(name, parent)
        self.add_marker("patchgen")
        self.add_marker("patchgen_drift")

    def runtest(self) -> None:
        """Compare with a fresh generation."""
        bad = [result for result in _check_all(self.session)[self.path] if result.status != "clean"]
        if bad:
            raise _Failed(bad)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The verdict as the command line prints it; a traceback only for what is no verdict."""
        from patchgen_core.errors import PatchgenError

        error = excinfo.value
        if isinstance(error, PatchgenError):
            return str(error)
        return _describe(error.results) if isinstance(error, _Failed) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the item stands."""
        return self.path, None, f"{self.path.stem}::{self.name}"


class _Failed(Exception):
    def __init__(self, results: list[ConfigResult]) -> None:
        super().__init__(", ".join(result.outcome.label for result in results))
        self.results = results


def _check_all(session: pytest.Session) -> dict[Path, list[ConfigResult]]:
    """The verdicts on every config of the session, made together by the first item that asks."""
    if _results not in session.stash:
        from patchgen_core.drift import check
        from patchgen_core.project import Project, load_project

        paths = list(dict.fromkeys(item.path for item in session.items if isinstance(item, DriftItem)))
        verdicts: dict[Path, list[ConfigResult]] = {path: [] for path in paths}
        projects: dict[Project, list[Path]] = {}
        for path in paths:
            projects.setdefault(load_project(path.parent), []).append(path)
        for project, configs in projects.items():
            for result in check(project, configs).results:
                verdicts[result.outcome.path].append(result)
        session.stash[_results] = verdicts
    return session.stash[_results]


def _describe(results: list[ConfigResult]) -> str:
    from io import StringIO

    from rich.console import Console

    from patchgen_core.report.terminal import print_result

    console = Console(file=StringIO(), highlight=False, markup=False, emoji=False, no_color=True)
    with console.capture() as capture:
        for result in results:
            print_result(console, result)
    return capture.get()

"""A throw-away project to work on: upstream modules, configs and the commands a user would type."""

from __future__ import annotations

import compileall
import gc
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import pytest_patchgen
from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.results import DriftReport, Outcome
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.fork_server import make_fork_server
from patchgen_core.checks.registry import BUILT_IN
from patchgen_core.codegen.generate import generate
from patchgen_core.codegen.plan import Plan, make_plan
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.project.cache_folder import ENVIRONMENT as CACHE_FOLDER
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.registry import MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY, MODELING_REGISTRY
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream
from patchgen_core.workers.collector import without_collector
from tests.python_server import CAN_FORK, SOCKET, PythonServer, run_python

os.environ.setdefault("OMP_NUM_THREADS", "1")  # each worker of pytest-xdist has a core to itself
os.environ.setdefault("PATCHGEN_KEEP_CHECKS", "0")  # tests count on running, but for those of what is kept

ROOT = Path(__file__).parents[1]
TESTS = Path(__file__).parent
TORCH_FOLDERS = ("checkpoint", "models", "ops", "parallel", "runtime", "zoo")
"""Rooms of which everything needs torch; elsewhere files and tests are marked ``torch`` themselves."""
GATE_ROOMS = ("build", "codegen", "config", "project", "report", "syntax", "upstream", "workers")
"""Rooms of which a session of the plugin imports most."""
ROOMS_WITH_RANKS = ("parallel", "sharded")
LONG_ROOMS = ("checks", "cli", "docs", "plugin", "runtime", "service", "watch", "zoo")
"""Rooms whose tests start processes, or wait."""
_TORCH_MARK = re.compile(r"^pytestmark = .*\bmark\.torch\b", re.MULTILINE)
UPSTREAM = "acme.models.toy.modeling_toy"
CONFIG = "toy/toy_gpu_patch_gen_config.py"
PREAMBLE = f"""
from patchgen import PatchConfig, create_patch_from_external

config = PatchConfig("{UPSTREAM}", "patched_modeling_toy_gpu.py")
"""
UPSTREAM_TEXT = """
class Norm:
    def forward(self, x):
        return x


class Head:
    def forward(self, x):
        return x + 1


def rotate(x):
    return -x
"""
PATCH = """
@config.override_method("Norm.forward")
def norm_forward(self, x):
    return x * 2
"""
DEFECTS = """\
config.add_import("math")

@config.override_method("Norm.forward")
def norm_forward(self):
    return 2
"""
"""Breaks PG201, an error, and PG214, a warning."""
SECOND_DEFECT = """\

@config.override_method("Head.forward")
def head_forward(self):
    return 3
"""
"""Breaks PG201 as the first one does."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile the packages once, and not in each of the processes that the tests start; nor have each import torch."""
    if hasattr(config, "workerinput"):
        return
    fork_server = make_fork_server()
    fork_server.start()
    config.add_cleanup(fork_server.close)
    if CAN_FORK and SOCKET not in os.environ:
        config.add_cleanup(PythonServer().close)
    for package in ("patchgen", "patchgen_core", "pytest_patchgen"):
        compileall.compile_dir(ROOT / package, quiet=2)
    with keep_compiled():
        import_gate()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What pytest makes of tests to have their assertions tell more is kept for other workers and the next run.

    Nothing of what is collected, nor of torch, is looked at when cycles are: that is a third of the time.
    """
    with keep_compiled(), without_collector():
        collected = yield
    gc.freeze()
    return collected


@contextmanager
def keep_compiled() -> Iterator[None]:
    """Modules that are imported leave their bytecode, even where ``PYTHONDONTWRITEBYTECODE`` is set.

    With it, no process would leave the others its bytecode, nor what pytest makes of the modules of a plugin to have
    their assertions tell more: half of what a session of a small project costs.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def import_gate() -> None:
    """Import what a session of the plugin does, and no torch."""
    packages = [pytest_patchgen, *(importlib.import_module(f"patchgen_core.{room}") for room in GATE_ROOMS)]
    for package in packages:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for info in BUILT_IN:
        info.load()


def needs_torch(path: Path) -> bool:
    """Whether a folder or file of tests is marked ``torch`` as a whole."""
    if TESTS.joinpath(*path.relative_to(TESTS).parts[:1]).name in TORCH_FOLDERS:
        return True
    return path.suffix == ".py" and bool(_TORCH_MARK.search(path.read_text(encoding="utf-8")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests are deselected anyway: without torch they cannot even be imported."""
    return ("not torch" in config.getoption("markexpr") and needs_torch(collection_path)) or None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark what stands in folders that need torch, and begin with what takes long.

    A long test that comes last keeps one worker busy while the others have nothing left.
    """
    for item in items:
        if item.path.is_relative_to(TESTS) and needs_torch(item.path):
            item.add_marker("torch")
    mark_slow_cases(items)
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)
    yield
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1 and config.option.dist == "worksteal":
        items[:] = deal_items(items, workers)


def mark_slow_cases(items: Sequence[pytest.Item]) -> None:
    """Mark as slow what comes after the first cases of tests that say how many these are."""
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("mostly_slow")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > mark.args[0]:
                item.add_marker("slow")


def deal_items(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Items in an order of which each worker is given an equal part: the first one what runs models on ranks, and the
    gate's own checks, so that one process has upstream's models and one group of ranks runs at a time; the others the
    rooms that take long. All end with what is short."""
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    rooms: dict[str, list[pytest.Item]] = {}
    for item in items:
        room = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if not room or room in ROOMS_WITH_RANKS:
            parts[0].append(item)
        else:
            rooms.setdefault(room if room in LONG_ROOMS else "", []).append(item)
    short = rooms.pop("", [])
    for room in sorted(rooms, key=lambda room: -len(rooms[room])):  # whole, for what its tests share
        min(parts[1:], key=len).extend(rooms[room])
    left = len(items)
    for number, part in enumerate(parts):
        space = max(0, left // (workers - number) - len(part))
        part += short[:space]
        del short[:space]
        left -= len(part)
    return list(chain(*parts, short))


TABLE = '[tool.patchgen]\nsearch_root = "proj/models"\npackage_prefix = "proj.models"\ndiffs = true\n'


@pytest.fixture(autouse=True)
def keep_environment() -> Iterator[None]:
    """What a test leaves in the environment variables is gone after it."""
    before = dict(os.environ)
    yield
    for name in {*before, *os.environ} - {"PYTEST_CURRENT_TEST"}:
        if name not in before:
            del os.environ[name]
        elif os.environ.get(name) != before[name]:
            os.environ[name] = before[name]


class Workspace:
    """A project folder, and a folder beside it that upstream packages are imported from.

    The project's search root is ``proj/models`` and its package ``proj.models``; diffs are checked in.
    """

    def __init__(self, root: Path) -> None:
        self.root = root / "work"
        self.site = root / "site"
        self.models = self.root / "proj" / "models"
        self.models.mkdir(parents=True)
        self.site.mkdir()
        self.write("pyproject.toml", TABLE)

    def write(self, path: str, text: str) -> Path:
        """Write a file of the project, dedented."""
        return _write(self.root / path, text)

    def upstream(self, text: str, module: str = UPSTREAM, version: str = "1.0") -> Path:
        """Write an upstream module, its packages and its distribution's metadata."""
        parts = module.split(".")
        for length in range(1, len(parts)):
            init = self.site.joinpath(*parts[:length]) / "__init__.py"
            init.parent.mkdir(parents=True, exist_ok=True)
            init.write_text("raise RuntimeError('upstream was imported')\n")
        for old in self.site.glob(f"{parts[0]}-*.dist-info/METADATA"):
            old.unlink()
            old.parent.rmdir()
        _write(
            self.site / f"{parts[0]}-{version}.dist-info" / "METADATA",
            f"Metadata-Version: 2.1\nName: {parts[0]}\nVersion: {version}\n",
        )
        return _write(self.site.joinpath(*parts).with_suffix(".py"), text)

    def config(self, text: str, path: str = CONFIG, preamble: str = PREAMBLE) -> Path:
        """Write a config below the search root; ``preamble`` makes ``config``."""
        return _write(self.models / path, preamble + textwrap.dedent(text))

    @property
    def project(self) -> Project:
        """The project as the command line finds it."""
        return load_project(self.root)

    def load(self, path: str = CONFIG, full: bool = False) -> LoadedConfig:
        """The config of a file."""
        return Loader(self.project, SourceCache(), full=full).load(self.models / path)[0]

    def plan(self, path: str = CONFIG) -> Plan:
        """The resolved config of a file."""
        loaded = self.load(path)
        upstream = find_upstream(loaded.config.source_module, location=loaded.config.location)
        return make_plan(loaded.config, upstream, SourceCache(), loaded.modules, loaded.label)

    def raw(self, path: str = CONFIG) -> str:
        """The generated module before normalizing, without its header."""
        text = generate(self.plan(path)).text
        return text.split(f"# {'=' * 78}\n")[3]

    def outcome(self, path: str = CONFIG) -> Outcome:
        """What becomes of a config, ruff included."""
        return make_artifacts(Selection(self.project, [self.models / path]))[0]

    def text(self, path: str = CONFIG) -> str:
        """The generated module."""
        outcome = self.outcome(path)
        assert outcome.artifact is not None, "\n".join(map(str, outcome.problems))
        return outcome.artifact.text

    def errors(self, path: str = CONFIG) -> str:
        """The problems of a config as a user reads them, with paths from the search root."""
        problems = self.outcome(path).problems
        assert problems, "the config generates"
        return str(PatchgenError.from_problems(problems)).replace(f"{self.models}{os.sep}", "")

    def check(self) -> DriftReport:
        """The drift gate."""
        return check(Selection(self.project))

    def patchgen(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command in a process of its own, in the project's folder."""
        command = [sys.executable, "-m", "patchgen_core", *arguments]
        return run_python(command, self.root, self._environment(environment))

    def python(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run code in a process of its own, which has imported nothing before, in the project's folder."""
        command = [sys.executable, "-c", code]
        env = self._environment(environment)
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True)

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.site), "COLUMNS": "120", **more}


def execute(text: str) -> dict[str, Any]:
    """The namespace of a generated module that has run."""
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "generated.py", "exec"), namespace)
    return namespace


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty project whose upstream folder is importable here."""
    workspace = Workspace(tmp_path)
    monkeypatch.syspath_prepend(str(workspace.site))
    monkeypatch.delenv(CACHE_FOLDER, raising=False)
    return workspace


@pytest.fixture
def gated(work: Workspace) -> Workspace:
    """A project whose one config, ``PATCH`` of ``UPSTREAM_TEXT``, is clean."""
    work.upstream(UPSTREAM_TEXT)
    work.config(PATCH)
    fix(work.check())
    return work


@pytest.fixture
def defective(work: Workspace) -> Workspace:
    """A generated project whose config has an error and a warning."""
    work.upstream(UPSTREAM_TEXT)
    settle(work, DEFECTS)
    return work


def settle(work: Workspace, config: str) -> None:
    """Write the config and what it makes."""
    work.config(config)
    fix(work.check())


def generated(work: Workspace, suffix: str = ".py") -> Path:
    """The generated module of a workspace's usual config, or its diff."""
    return work.models / f"toy/generated/patched_modeling_toy_gpu{suffix}"


@pytest.fixture(scope="module")
def zoo_on_path() -> Iterator[None]:
    """``import zoo`` works in a test file, and what it registers is gone afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        for registry in (MODELING_REGISTRY, MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY):
            patch.setattr(registry, "_entries", {key: dict(found) for key, found in registry._entries.items()})
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "zoo"]:
        del sys.modules[name]

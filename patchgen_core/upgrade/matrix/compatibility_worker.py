"""What a worker does to try configs with releases; see :mod:`patchgen_core.upgrade.matrix.crew`."""

from __future__ import annotations

import contextlib
import gc
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.matrix.compatibility import ConfigBase, CompatibilityChecker, Compatibility
from patchgen_core.upgrade.package_configs import ConfigKey, config_key, unpinned
from patchgen_core.upstream.releases import Release


@dataclass(frozen=True)
class CheckerRequest:
    """A bench that is wanted.

    Attributes:
        project: the configs' project.
        bases: what each config is based on.
    """

    project: Project
    bases: Mapping[ConfigKey, ConfigBase]


@dataclass(frozen=True)
class CheckRequest:
    """Configs of a bench that are to be tried with a release."""

    bench: CheckerRequest
    release: Release
    keys: tuple[ConfigKey, ...]


_benches: list[tuple[CheckerRequest, CompatibilityChecker]] = []  # that of the last request


def check_configs(request: CheckRequest) -> dict[ConfigKey, Compatibility]:
    """What configs become with a release.

    Raises:
        PatchgenError: a config does not load; or as for :meth:`CompatibilityChecker.check`.
    """
    gc.disable()
    with contextlib.redirect_stderr(io.StringIO()):  # the process that asks has loaded the configs, too
        return _find_bench(request.bench).check(request.release, request.keys)


def _find_bench(request: CheckerRequest) -> CompatibilityChecker:
    """The bench of the last request, if it is the same."""
    if not _benches or _benches[0][0] != request:
        _benches.clear()
        gc.unfreeze()
        gc.collect()
        bench = _make_bench(request)
        bench.prepare()
        _benches.append((request, bench))
        gc.freeze()  # it stays: nothing of it is looked at when cycles are
    return _benches[0][1]


def _make_bench(request: CheckerRequest) -> CompatibilityChecker:
    """A bench whose configs are loaded here."""
    project, bases = request.project, request.bases
    sources = SourceCache()
    loader = Loader(project, sources)
    configs: dict[ConfigKey, LoadedConfig] = {}
    for path in dict.fromkeys(path for path, _ in bases):
        loaded = {config_key(config): unpinned(config) for config in loader.load(Path(path))}
        configs |= {key: config for key, config in loaded.items() if key in bases}
    return CompatibilityChecker(project, configs, bases, sources)

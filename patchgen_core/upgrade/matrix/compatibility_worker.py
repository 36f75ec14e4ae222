"""What a worker does to check configs with releases; see :mod:`patchgen_core.upgrade.matrix.compatibility_pool`."""

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
from patchgen_core.upgrade.matrix.compatibility import Compatibility, CompatibilityChecker, ConfigBase
from patchgen_core.upgrade.package_configs import ConfigKey, config_key, unpinned
from patchgen_core.upstream.releases import Release


@dataclass(frozen=True)
class CheckerRequest:
    """A checker that is wanted."""

    project: Project
    bases: Mapping[ConfigKey, ConfigBase]


@dataclass(frozen=True)
class CheckRequest:
    """Configs of a checker that are to be checked with a release."""

    checker: CheckerRequest
    release: Release
    keys: tuple[ConfigKey, ...]


_checkers: list[tuple[CheckerRequest, CompatibilityChecker]] = []  # that of the last request


def check_configs(request: CheckRequest) -> dict[ConfigKey, Compatibility]:
    """What configs become with a release; raises as :meth:`CompatibilityChecker.check` does, or where none loads."""
    gc.disable()
    with contextlib.redirect_stderr(io.StringIO()):  # the process that asks has loaded the configs, too
        return _find_checker(request.checker).check(request.release, request.keys)


def _find_checker(request: CheckerRequest) -> CompatibilityChecker:
    """The checker of the last request, if it is the same."""
    if not _checkers or _checkers[0][0] != request:
        _checkers.clear()
        gc.unfreeze()
        gc.collect()
        checker = _make_checker(request)
        checker.prepare()
        _checkers.append((request, checker))
        gc.freeze()  # it stays: nothing of it is looked at when cycles are
    return _checkers[0][1]


def _make_checker(request: CheckerRequest) -> CompatibilityChecker:
    """A checker whose configs are loaded here."""
    project, bases = request.project, request.bases
    sources = SourceCache()
    loader = Loader(project, sources)
    configs: dict[ConfigKey, LoadedConfig] = {}
    for path in dict.fromkeys(path for path, _ in bases):
        loaded = {config_key(config): unpinned(config) for config in loader.load(Path(path))}
        configs |= {key: config for key, config in loaded.items() if key in bases}
    return CompatibilityChecker(project, configs, bases, sources)

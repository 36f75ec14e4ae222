"""Configs tried with a release of upstream: what generates, what breaks a rule, what changed below each patch."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from patchgen_core.config.loading import LoadedConfig
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.against import Against, Attempt, Blame
from patchgen_core.upgrade.base import recorded_module
from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.selecting import Key, patches_of
from patchgen_core.upgrade.sides import Side
from patchgen_core.upgrade.verdicts.comparing import compare_target
from patchgen_core.upgrade.verdicts.views import view_of
from patchgen_core.upstream.releases import Release
from patchgen_core.workers.collector import without_collector

_MANY = 1_500_000
"""How many objects may be left over before cycles among them are looked for; some 200 MiB of them."""


@dataclass(frozen=True)
class Base:
    """What a config's generated file is based on.

    Attributes:
        version: the version; empty when it is not known.
        release: that release; None when only the checked-in files hold upstream's text.
    """

    version: str = ""
    release: Release | None = None


@dataclass(frozen=True)
class Trial:
    """A config with one release.

    Attributes:
        is_absent: whether the release lacks upstream's module.
        targets: what upstream changed in the target of each patch, from what the config is based on; None where that
            is not known.
        problems: why the config does not generate; what is wrong with its patches even where another is, too.
        errors: which contract rules its generated module breaks. Where it does not generate, that is the module of
            what is left of it without the declarations that keep it from doing so.
    """

    is_absent: bool = False
    targets: tuple[Finding | None, ...] = ()
    problems: tuple[Blame, ...] = ()
    errors: tuple[Blame, ...] = ()


@dataclass(frozen=True)
class Bench:
    """Tries configs with releases. What a release was read into is dropped afterwards.

    Attributes:
        project: the configs' project.
        configs: the configs, not pinned to a version.
        bases: what each is based on.
        sources: the configs' parsed files.
    """

    project: Project
    configs: Mapping[Key, LoadedConfig]
    bases: Mapping[Key, Base]
    sources: SourceCache = field(repr=False)

    @without_collector()
    def prepare(self) -> None:
        """Read what the configs are based on, which otherwise happens when it is needed first."""
        assert len(self._sides) == len(self.configs)

    @without_collector()
    def trials(self, release: Release, keys: Iterable[Key]) -> dict[Key, Trial]:
        """What some configs become with a release.

        Raises:
            PatchgenError: ruff cannot run, or the project's settings name a rule or module that is not there.
        """
        against = Against(self.project, release, self.sources.fork(), self.sources)
        wanted = list(keys)
        present = {key: self.configs[key] for key in wanted if against.module(self.configs[key]) is not None}
        attempts = against.attempts(present)
        found = {key: self._trial(key, against, attempts.get(key)) for key in wanted}
        against.sources.clear()
        view_of.cache_clear()
        if gc.get_count()[0] > _MANY:
            gc.collect()
        return found

    def _trial(self, key: Key, against: Against, attempt: Attempt | None) -> Trial:
        if attempt is None:
            return Trial(is_absent=True)
        return Trial(targets=self._targets(key, against), problems=attempt.problems, errors=attempt.errors)

    def _targets(self, key: Key, against: Against) -> tuple[Finding | None, ...]:
        patches = patches_of(self.configs[key])
        old, new = self._sides[key], against.side(self.configs[key])
        if old is None or new is None:
            return (None,) * len(patches)
        return tuple(compare_target(old, new, patch).finding for patch in patches)

    @cached_property
    def _sides(self) -> dict[Key, Side | None]:
        """Upstream's modules as the configs are based on them."""
        views: dict[Path, Against] = {}
        return {key: self._side(loaded, self.bases[key], views) for key, loaded in self.configs.items()}

    def _side(self, loaded: LoadedConfig, base: Base, views: dict[Path, Against]) -> Side | None:
        release = base.release
        if release is None:
            return recorded_module(self.project, loaded, base.version)
        if release.folder not in views:
            views[release.folder] = Against(self.project, release, SourceCache(), self.sources)
        return views[release.folder].side(loaded)

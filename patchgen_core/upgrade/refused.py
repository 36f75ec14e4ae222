"""A config without what a release refuses, so that the rest of it can be looked at."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from dataclasses import replace

from patchgen_core.config.declarations import Helper
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.errors import Location, Problem


def without_refused(
    loaded: LoadedConfig, problems: Iterable[Problem], patches: Collection[int]
) -> LoadedConfig | None:
    """A config without the declarations that problems are about, and without patches of these numbers; None when none
    of its declarations is left out."""
    config, old = copy.copy(loaded.config), loaded.config
    places_and_messages = [(problem.location, problem.message) for problem in problems if problem.location is not None]
    places = {place for place, _ in places_and_messages if place != old.location}

    def stays(call: str, value: str, *names: str) -> bool:
        place = old.location_of(call, value)
        return not any(
            place == at and any(f"'{name}'" in message for name in names) for at, message in places_and_messages
        )

    def is_elsewhere(location: Location | None) -> bool:
        return location not in places

    numbered = list(enumerate(old.patches))
    config.patches = [patch for number, patch in numbered if number not in patches]
    config.positioned_helpers = [helper for helper in old.positioned_helpers if is_elsewhere(helper.location)]
    config.helpers = [h for h in old.helpers if not isinstance(h, Helper) or is_elsewhere(h.location)]
    config.additional_imports = [spec for spec in old.additional_imports if is_elsewhere(spec.location)]
    config.exclude = [name for name in old.exclude if stays("exclude_from_output", name, name)]
    config.drop_imported_names = [n for n in old.drop_imported_names if stays("drop_import_names", n, n)]
    config.dropped_decorators = [
        (target, name)
        for target, name in old.dropped_decorators
        if stays("drop_decorators", f"{target} {name}", target, name)
    ]
    lists = ("patches", "positioned_helpers", "helpers", "additional_imports", "exclude", "drop_imported_names")
    if all(len(getattr(config, name)) == len(getattr(old, name)) for name in (*lists, "dropped_decorators")):
        return None
    return replace(loaded, config=config)


def lacks_names(rest: LoadedConfig, loaded: LoadedConfig) -> bool:
    """Whether a config was left without helpers or imports, whose names its patches may use."""
    lists = ("helpers", "positioned_helpers", "additional_imports")
    return any(len(getattr(rest.config, name)) < len(getattr(loaded.config, name)) for name in lists)

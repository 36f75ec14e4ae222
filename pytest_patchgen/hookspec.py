"""Hooks that other plugins and ``conftest.py`` files may implement.

They are called only in runs that gate patch configs. Each gets the session's ``config`` and returns a sequence;
what several implementations return counts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_patchgen.items import CheckItem


@pytest.hookspec
def pytest_patchgen_configs(config: pytest.Config) -> Sequence[Path]:
    """More config files, beside those whose names end in ``_patch_gen_config.py``.

    They are collected wherever they lie: in every run without path arguments, and else when an argument names
    them or a folder above them. The project of each is that of the nearest ``pyproject.toml`` above it.

    Returns:
        Paths, absolute or relative to the rootdir.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_patchgen_checks(config: pytest.Config) -> Sequence[type[CheckItem]]:
    """More checks for every config, run after the built-in ones.

    Returns:
        Subclasses of :class:`pytest_patchgen.items.CheckItem`. The ``check`` of each names its items, its mark
        ``patchgen_<check>`` and its column in reports, and must be a name that no other check has.
    """
    raise NotImplementedError

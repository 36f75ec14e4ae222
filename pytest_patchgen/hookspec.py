"""Hooks that other plugins and ``conftest.py`` files may implement.

They are called only in runs that gate patch configs. Each gets the session's ``config`` and returns a sequence;
what several implementations return counts together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from patchgen_core.models.batches import ToyBatch, ToyModel
    from patchgen_core.models.model_setup import ModelSetup
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


@pytest.hookspec
def pytest_patchgen_toy_batches(config: pytest.Config) -> Sequence[Callable[[ToyModel], Sequence[ToyBatch]] | str]:
    """More batches for the toy models of the check ``parity``, beside the built-in ones.

    Called where torch has not been imported. The builders are not called here: the process that runs models imports
    them, and calls each with a :class:`patchgen_core.parity.batches.ToyModel` for every head of every model. What a
    builder returns is run forward and backward; a batch takes the place of the built-in one of its name. It returns
    an empty list for models that it has no batch for.

    Returns:
        Functions, each defined with ``def`` at the top of a ``conftest.py`` or of a module that can be imported, or
        strings, ``package.module:function``. A function of a ``conftest.py`` is found by its file, which is run once
        more in the process that runs models.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_patchgen_setup(config: pytest.Config) -> Sequence[Callable[[ModelSetup], None] | str]:
    """More set-ups for the process that runs models, after that of ``[tool.patchgen] setup``.

    Called where torch has not been imported. The functions are not called here: the process that runs models calls
    each once, with a :class:`patchgen_core.models.model_setup.ModelSetup`, before it imports transformers.

    Returns:
        Functions or strings, as :func:`pytest_patchgen_toy_batches` does.
    """
    raise NotImplementedError

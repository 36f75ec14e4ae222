"""The pytest plugin: every patch config becomes test items, ``--patchgen-fix`` mends what drifted.

Installed it is silent, and imports nothing of patchgen. ``--patchgen``, ``patchgen = true`` in the ini file or
loading it by name (``-p pytest_patchgen``) switch it on; so does a config file among the path arguments, for
that file.
"""

from __future__ import annotations

import os

import pytest

NAME = "pytest_patchgen"
CONFIG_SUFFIX = "_patch_gen_config.py"
_OPTIONS = (
    ("checks", "CHECKS", "checks to run, separated by commas, such as drift,contract; all by default"),
    ("fix", "", "rewrite generated files that drifted"),
    ("prune", "", "remove generated files that no config makes"),
    ("report", "PATH", "write the results to a .json, .md, .html or .sarif file"),
    ("device", "DEVICE", "where models and kernels run: auto (on a GPU if there is one; the default), cpu or cuda"),
    ("isolate", "", "run every check of a model or kernel in a process of its own, instead of one that they share"),
    ("time-limit", "SECONDS", "end a check of a model or kernel that takes longer, and fail it; 600 by default"),
    (
        "jobs",
        "N",
        "run the checks that take long in N processes (default: as many as processors and memory allow)",
    ),
    ("on", "CLUSTER", "run them on a Ray cluster: ray://host:10001, or ray for the one that is here"),
    ("level", "LEVEL", "how much parity varies beside training steps: quick, standard (the default) or thorough"),
    ("shard", "N/M", "run one of M parts of the checks, such as 2/8: the others are for other jobs"),
    ("shard-by", "REPORT", "divide by the seconds of an earlier run's .json report"),
    ("no-cache", "", "neither use nor keep results"),
)
"""The options after ``--patchgen-``, each with its metavar, which flags have none of, and its help."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that others may implement."""
    from pytest_patchgen import hookspec

    pluginmanager.add_hookspecs(hookspec)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare options and ini settings."""
    group = parser.getgroup("patchgen", "patched modeling files")
    text = "check every patch config; without path arguments, also those outside testpaths"
    group.addoption("--patchgen", action="store_true", help=text)
    for name, metavar, text in _OPTIONS:
        kind = {"metavar": metavar} if metavar else {"action": "store_true"}
        group.addoption(f"--patchgen-{name}", help=f"{text} (implies --patchgen)", **kind)
    parser.addini("patchgen", "check patch configs in every run", type="bool", default=False)
    parser.addini("patchgen_checks", "checks to run by default", type="args", default=[])
    parser.addini("patchgen_device", "where models and kernels run by default: auto, cpu or cuda", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, and the gate when it is wanted."""
    config.addinivalue_line("markers", "patchgen: a check of a patch config")
    if config.getoption("markers", False):
        _describe_marks(config)
    controller = getattr(config, "workerinput", {}).get("patchgen", {})  # by a controller of pytest-xdist
    config.option.patchgen_checks = controller.get("checks", config.option.patchgen_checks)
    is_asked = controller.get("is_asked", _is_asked(config))
    is_on = controller.get("is_on", is_asked or config.getini("patchgen"))
    if is_on or any(_is_config(argument) for argument in config.args):
        from pytest_patchgen.reporter import start

        start(config, is_on, is_asked)


def _describe_marks(config: pytest.Config) -> None:
    from patchgen_core.checks.registry import BUILT_IN

    for check in BUILT_IN:
        config.addinivalue_line("markers", f"patchgen_{check.name}: {check.meaning}")


def _is_asked(config: pytest.Config) -> bool:
    values = (getattr(config.option, f"patchgen_{name.replace('-', '_')}") for name, _, _ in _OPTIONS)
    return config.option.patchgen or any(value not in (None, False) for value in values) or _is_named(config)


def _is_named(config: pytest.Config) -> bool:
    """Whether the plugin was loaded by its name, and not only because it is installed."""
    if NAME in config.option.plugins or NAME in os.environ.get("PYTEST_PLUGINS", "").split(","):
        return True
    without_entry_points = getattr(config.option, "disable_plugin_autoload", False)
    return bool(without_entry_points or os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"))


def _is_config(argument: str) -> bool:
    return argument.partition("::")[0].endswith(CONFIG_SUFFIX)

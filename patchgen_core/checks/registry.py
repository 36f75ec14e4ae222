"""Which checks there are, in the order in which a config's run. Importing this module imports none of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from patchgen_core.errors import PatchgenError, did_you_mean

if TYPE_CHECKING:
    from patchgen_core.checks.check import Check

ENTRY_POINTS = "patchgen.checks"
"""The group of entry points by which installed packages add checks: ``name = "package.module:Class"``."""

Need = Literal["torch", "models", "kernels"]


@dataclass(frozen=True)
class CheckInfo:
    """What is known of a check before it is imported.

    Attributes:
        meaning: what it proves, in one line.
        home: ``package.module:Class``.
        needs: what must be there for it to say something: torch, transformers' models, kernels.
    """

    name: str
    meaning: str
    home: str
    needs: tuple[Need, ...] = ()

    def load(self) -> type[Check]:
        """Import the check."""
        module, _, name = self.home.partition(":")
        check: type[Check] = getattr(importlib.import_module(module), name)
        return check


_ROOM = "patchgen_core.checks"
BUILT_IN = (
    CheckInfo("drift", "the checked-in files are what the config makes", f"{_ROOM}.drift:DriftCheck"),
    CheckInfo(
        "import",
        "the generated module imports and exports what upstream exports",
        f"{_ROOM}.imports.importing:ImportCheck",
        ("torch",),
    ),
    CheckInfo(
        "contract",
        "the generated module keeps what upstream and its other patches rely on",
        f"{_ROOM}.contract.check:ContractCheck",
    ),
    CheckInfo(
        "parity",
        "the generated model computes what Hugging Face eager computes, forward and backward",
        f"{_ROOM}.parity.check:ParityCheck",
        ("torch", "models", "kernels"),
    ),
    CheckInfo(
        "sharded",
        "the model that ranks share computes what one process computes",
        f"{_ROOM}.sharded.check:ShardedCheck",
        ("torch", "models"),
    ),
    CheckInfo(
        "converter",
        "the hub's checkpoints load into the generated classes, and go back",
        f"{_ROOM}.converter.check:ConverterCheck",
        ("torch", "models"),
    ),
    CheckInfo(
        "plan",
        "the config's parallel plan fits the parameters",
        f"{_ROOM}.plan.check:PlanCheck",
        ("torch", "models"),
    ),
    CheckInfo(
        "kernel",
        "a kernel computes what the eager function of its op computes",
        f"{_ROOM}.kernel.check:KernelCheck",
        ("torch", "kernels"),
    ),
)


def all_checks() -> tuple[CheckInfo, ...]:
    """The built-in checks, and those that installed packages add, by name.

    Raises:
        PatchgenError: one that is added cannot be imported, is no check, or has the name of another one.
    """
    from importlib.metadata import entry_points

    points = sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value))
    checks = list(BUILT_IN)
    for point in points:
        if any(check.name == point.name for check in checks):
            raise two_checks(point.name)
        checks.append(_added(point.name, point.value))
    return tuple(checks)


def _added(name: str, home: str) -> CheckInfo:
    from patchgen_core.checks.check import Check

    try:
        check = CheckInfo(name, "", home).load()
    except (ImportError, AttributeError) as error:
        message = f"the check '{name}' of the entry point '{home}' cannot be imported: {error}"
        raise PatchgenError(message, None, "Fix or uninstall the package that provides it.") from None
    if not (isinstance(check, type) and issubclass(check, Check)) or getattr(check, "name", None) != name:
        hint = f"It must be a subclass of patchgen_core.checks.check.Check whose name is '{name}'."
        raise PatchgenError(f"the entry point '{home}' is not a check called '{name}'", None, hint)
    return CheckInfo(name, first_line(check), home)


def first_line(check: type) -> str:
    """What a check means, by its own documentation."""
    return (check.__doc__ or "a check of a patch config").strip().splitlines()[0]


def two_checks(name: str) -> PatchgenError:
    """The error of two checks of one name."""
    return PatchgenError(f"two checks are called '{name}'", None, "Rename the one of your plugin.")


def choose_names(choices: Iterable[str], texts: Sequence[str]) -> tuple[str, ...]:
    """The checks that a user names, separated by commas, in the order of those that there are.

    Raises:
        PatchgenError: none is named, or one that is not there; tells the nearest.
    """
    names = tuple(choices)
    requested_names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in requested_names:
        if name not in names:
            hint = did_you_mean(name, names) or f"There are: {', '.join(names)}."
            raise PatchgenError(f"there is no check '{name}'", None, hint)
    if not requested_names:
        raise PatchgenError("no check is chosen", None, f"There are: {', '.join(names)}.")
    return tuple(name for name in names if name in requested_names)


def place(check: str) -> int:
    """Where a check stands among the built-in ones; others come last."""
    names = [info.name for info in BUILT_IN]
    kind = check.partition("[")[0]
    return names.index(kind) if kind in names else len(names)

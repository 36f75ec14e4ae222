"""The layers that ``make lint`` holds leave out no module of the packages."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from patchgen_core.project.pyproject import read_toml

ROOT = Path(__file__).parents[2]
LINTER: dict[str, Any] = read_toml(ROOT / "pyproject.toml")["tool"]["importlinter"]
CONTRACTS = {contract["name"].partition(":")[0]: contract for contract in LINTER["contracts"]}


def modules_in(package: str) -> set[str]:
    entries = [entry for entry in (ROOT / package).iterdir() if entry.suffix == ".py" or any(entry.glob("*.py"))]
    return {entry.stem for entry in entries} - {"__init__"}


def names_of(layer: str) -> list[str]:
    return [name.strip() for name in layer.replace("|", ":").split(":")]


def rooms_of(modules: list[str]) -> set[str]:
    return {module.partition(".")[2] for module in modules}


def test_every_room_has_a_layer() -> None:
    rooms = CONTRACTS["Rooms"]
    assert rooms["exhaustive"] is True
    assert sorted(name for layer in rooms["layers"] for name in names_of(layer)) == sorted(modules_in("patchgen_core"))


def test_every_room_of_the_service_has_a_layer() -> None:
    rooms = CONTRACTS["Rooms of the service"]
    assert rooms["exhaustive"] is True
    assert sorted(name for layer in rooms["layers"] for name in names_of(layer)) == sorted(
        modules_in("patchgen_service")
    )


def test_every_package_has_a_layer() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    layers = {name for layer in CONTRACTS["Packages"]["layers"] for name in names_of(layer)}
    assert set(LINTER["root_packages"]) == layers == packages
    forwards = {"patchgen"}
    assert set(CONTRACTS["No circle between files or folders"]["ancestors"]) == packages - forwards


def test_nothing_is_left_out() -> None:
    lenient = ("ignore_imports", "exclude_type_checking_imports", "exhaustive_ignores", "allow_indirect_imports")
    assert [key for part in (LINTER, *LINTER["contracts"]) for key in lenient if key in part] == []


def test_what_runs_in_training_is_held_off_the_generator() -> None:
    layers = [set(names_of(layer)) for layer in CONTRACTS["Rooms"]["layers"]]
    run_time = CONTRACTS["Run time"]
    sources, forbidden = (rooms_of(run_time[f"{kind}_modules"]) for kind in ("source", "forbidden"))
    below = layers[layers.index(sources) + 1 :]
    assert forbidden == set().union(*below) - {"errors"}


def test_lint_asks_the_linter() -> None:
    commands = subprocess.run(["make", "-n", "lint"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "lint-imports" in commands

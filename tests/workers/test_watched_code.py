"""Functions that note that they run."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from patchgen_core.workers import watched_code
from patchgen_core.workers.watched_code import RAN, compile_watched, list_noted

TEXT = '''"""A module."""
from __future__ import annotations


def plain(x): return x


@staticmethod
def documented(x):
    """It says something."""
    raise ValueError(x)


class Owner:
    def method(self):
        def inner():
            return self
        return inner


def said():
    """Nothing but this."""


async def later():
    return 5


def numbers():
    yield 1
'''
LINES = {name: TEXT[: TEXT.index(f"def {name}")].count("\n") + 1 for name in ("plain", "documented", "method", "said")}
LINES |= {name: TEXT[: TEXT.index(f"def {name}")].count("\n") + 1 for name in ("later", "numbers", "inner")}
FILE = "/somewhere/module.py"


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.__patchgen_ran__", watched_code._note, raising=False)
    monkeypatch.setattr(watched_code, "_noted", {})


def load(*names: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile_watched(TEXT.encode(), FILE, [LINES[name] for name in names]), namespace)
    return namespace


CALLS: dict[str, Callable[[dict[str, Any]], object]] = {
    "plain": lambda module: module["plain"](2),
    "method": lambda module: module["Owner"]().method(),
    "inner": lambda module: module["Owner"]().method()(),
    "said": lambda module: module["said"](),
    "later": lambda module: asyncio.run(module["later"]()),
    "numbers": lambda module: list(module["numbers"]()),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_watched_function_notes_that_it_runs_and_no_other_does(name: str) -> None:
    module = load(name)
    assert list_noted() == []
    for other in CALLS.keys() - {name, "inner", "method"}:
        CALLS[other](module)
    assert list_noted() == []
    assert str(CALLS[name](module)) == str(CALLS[name](load())) or name in ("method", "inner")
    assert list_noted() == [f"{RAN}{FILE}:{LINES[name]}"]


def test_lines_and_documentation_are_those_of_the_text() -> None:
    module = load("documented", "said", "plain")
    assert module["documented"].__doc__ == "It says something."
    assert module["said"].__doc__ == "Nothing but this."
    assert module["plain"].__code__.co_firstlineno == LINES["plain"]
    assert module["plain"].__annotations__ == {}
    try:
        module["documented"](1)
    except ValueError as error:
        frames = traceback.extract_tb(error.__traceback__)
    assert (frames[-1].filename, frames[-1].lineno) == (FILE, LINES["documented"] + 2)

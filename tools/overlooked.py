"""Parts of what results are kept under, each of which can be overlooked, to see that random edits notice.

    python -m tools.overlooked EDITS SEED [gate | apart | models | mixture] [PART ...]

Runs that many edits for each part, in which it counts no more, and says after how many the answers differed.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from patchgen_core.checks.kept import closure, keeping, sharing
from patchgen_core.checks.kept.keeping import KeptResults
from patchgen_core.checks.kept.sharing import SharedResults
from patchgen_core.checks.kept.states import States
from patchgen_core.checks.kept.watching import Watching

_DIFFER = re.compile(r"after (\d+) edits the answers differ")


def overlook(part: str) -> None:
    """Have a part of what results are kept under count no more in this process, and in those that are forked of it."""
    PARTS[part]()


def _overlook_kind(kind: str) -> None:
    """Have inputs of a kind agree whatever their states, here and where machines share."""
    agrees, hidden = States.agrees, SharedResults._hidden

    def agrees_without(self: States, inputs: Any) -> bool:
        pairs = inputs.items() if isinstance(inputs, Mapping) else inputs
        return agrees(self, [pair for pair in pairs if pair[0][0] != kind])

    def hidden_without(self: SharedResults, inputs: Mapping[Any, Any]) -> Any:
        return hidden(self, {name: None if name[0] == kind else state for name, state in inputs.items()})

    _replace(States, "agrees", agrees_without)
    _replace(SharedResults, "_hidden", hidden_without)


def _overlook_states(module: Any, function: str, start: str) -> None:
    """Have a function that tells a machine's states leave out those whose names start so."""
    tell = getattr(module, function)

    def tell_less(*arguments: Any) -> Any:
        states = tell(*arguments)
        first, *rest = states if isinstance(states, tuple) else (states,)
        less = {name: state for name, state in first.items() if not name.startswith(start)}
        return (less, *rest) if isinstance(states, tuple) else less

    _replace(module, function, tell_less)


def _give_always(owner: Any, name: str, answer: object) -> None:
    _replace(owner, name, lambda *_, **__: answer)


def _replace(owner: Any, name: str, function: Callable[..., Any]) -> None:
    assert callable(getattr(owner, name)), f"{owner} has no {name} any more"
    setattr(owner, name, function)


PARTS: Mapping[str, Callable[[], None]] = {
    **{
        f"kind {kind}": partial(_overlook_kind, kind)
        for kind in (
            "file",
            "tree",
            "names",
            "variable",
            "settings",
            "module",
            "absent",
            "upstream",
            "installed",
            "plan",
            "places",
            "program",
            "assigned",
            "registering",
        )
    },
    "packages": partial(_overlook_states, keeping, "machine_states", "package "),
    "environment": partial(_overlook_states, keeping, "machine_states", "variable "),
    "search path": partial(_overlook_states, keeping, "machine_states", "search path"),
    "shared packages": partial(_overlook_states, sharing, "package_contents", "package "),
    "shared environment": partial(_overlook_states, sharing, "portable_machine", "variable "),
    "code that looks elsewhere": partial(_give_always, closure, "_find_looks", []),
    "what configs depend on": partial(_give_always, KeptResults, "_inputs_of_configs", ({}, "")),
    "files that were opened": partial(_give_always, Watching, "find_unknown_file", ""),
    "code that ran": partial(_give_always, Watching, "find_reason", ""),
    "files that change meanwhile": partial(_give_always, KeptResults, "_holds", True),
}
"""What overlooks each part."""


def main() -> None:
    """Try each part, or those that are named."""
    from tools.random_edits import OVERLOOK, run_apart

    edits, seed, world = int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or ["gate"])[0]
    for part in sys.argv[4:] or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                run_apart(edits, seed, Path(folder), world, OVERLOOK, part)
            except AssertionError as error:
                match = _DIFFER.search(str(error))
                print(f"{part}: noticed after {match[1]} edits" if match else f"{part}: {error}", flush=True)
            else:
                print(f"{part}: not noticed in {edits} edits", flush=True)


if __name__ == "__main__":
    main()

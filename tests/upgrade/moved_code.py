"""Random functions from which upstream takes code out into another one, or whose calls it writes out, and what they
compute: every unknown function gives its name with what it was given."""

from __future__ import annotations

import ast
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from patchgen_core.upgrade.merging.merge import merge_definition
from patchgen_core.upgrade.moves.put_back import PutBack, put_back
from patchgen_core.upgrade.moves.release_functions import ReleaseFunctions
from patchgen_core.upgrade.results import Merged
from patchgen_core.upgrade.verdicts.module_view import TargetName, view_of
from tests.conftest import Workspace
from tests.upgrade.two_releases import release

NAMES = ("a", "b", "c", "d")
UNKNOWN = ("pad", "turn", "mix")
IMPORTS = f"from torch import {', '.join(UNKNOWN)}, own, more\n\n\n"


def put_back_in(work: Workspace, modules: tuple[str, str], base: str, theirs: str) -> PutBack:
    """What is put back in a function of a module that is there in two releases."""
    number = len([*work.root.parent.iterdir()])
    sides = [release(work, f"{number}.{n}", text) for n, text in enumerate(modules)]
    return put_back(base, theirs, ReleaseFunctions(TargetName("forward"), *map(view_of, sides)))


@dataclass(frozen=True)
class Row:
    """A function of assignments: the names that each assigns, and what it assigns."""

    lines: tuple[tuple[str, str], ...]
    parameters: tuple[str, ...] = ("x", "y")
    result: str = "(a, b, c, d)"

    def text(self, name: str = "forward") -> str:
        """The function's text."""
        body = [f"    {target} = {value}" for target, value in self.lines]
        return "\n".join([f"def {name}({', '.join(self.parameters)}):", *body, f"    return {self.result}"])

    def with_line(self, number: int, *lines: tuple[str, str]) -> Row:
        """It with other lines in one's place."""
        return replace(self, lines=(*self.lines[:number], *lines, *self.lines[number + 1 :]))


def make_row(chosen: random.Random) -> Row:
    """A function whose first lines bind every name."""
    lines = [(name, f"{chosen.choice(UNKNOWN)}(x, y)") for name in NAMES]
    for _ in range(chosen.randint(3, 6)):
        one, other = chosen.choice([*NAMES, "x"]), chosen.choice([*NAMES, "y", "2"])
        lines.append((chosen.choice(NAMES), f"{chosen.choice(UNKNOWN)}({one}, {other})"))
    return Row(tuple(lines))


def read_names(row: Row) -> tuple[str, ...]:
    """What the lines of a row read before they assign it."""
    bound: set[str] = set()
    names: list[str] = []
    for target, value in row.lines:
        words = [node.id for node in ast.walk(ast.parse(value)) if isinstance(node, ast.Name)]
        names += [word for word in words if word not in (*UNKNOWN, "more") and word not in bound]
        bound.add(target)
    return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Move:
    """A function in two releases of its module, and the numbers of the lines that upstream moved."""

    base: Row
    theirs: Row
    modules: tuple[str, str]
    moved: range

    def run(self, text: str) -> Any:
        """What a text of the function computes in the new release; None where it fails."""
        names: dict[str, Any] = {name: _symbol(name) for name in (*UNKNOWN, "own", "more")}
        exec(self.modules[1].replace(IMPORTS, ""), names)
        exec(text, names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return names["forward"]("x", "y")
            except NameError:
                return None

    def merge(self, ours: Row, put: PutBack) -> Merged:
        """The merge of a replacement with what is put back."""
        return merge_definition(self.base.text(), ours.text(), put.text)


def _symbol(name: str) -> Callable[..., Any]:
    return lambda *values: (name, *values)


def make_extraction(chosen: random.Random, is_elsewhere: bool = True, is_wrong: bool = False) -> Move:
    """Upstream takes some lines out into a function; perhaps it calls that elsewhere, or it does something else."""
    base = make_row(chosen)
    start = chosen.randrange(len(NAMES), len(base.lines))
    moved = range(start, min(start + chosen.randint(1, 2), len(base.lines)))
    run = Row(base.lines[moved.start : moved.stop])
    taken = read_names(run)
    helper = Row(run.lines[:-1], (*taken, "kwargs=None") if chosen.random() < 0.5 else taken, run.lines[-1][1])
    if is_wrong:
        helper = replace(helper, result=f"own({helper.result})")
    guard = '\n    if kwargs is not None and (v := kwargs.pop("v", None)) is not None:\n        return v'
    text = helper.text("taken_out")
    text = text.replace(":", f":{guard}", 1) if "kwargs" in text else text
    rest = [*base.lines[: moved.start], *base.lines[moved.stop :]]
    place = chosen.randint(len(NAMES), len(rest)) if is_elsewhere else moved.start
    passed = (*taken, "kwargs={}") if "kwargs" in text else taken
    rest.insert(place, (run.lines[-1][0], f"taken_out({', '.join(passed)})"))
    return Move(
        base, Row(tuple(rest)), (IMPORTS + base.text(), f"{IMPORTS}{text}\n\n\n{Row(tuple(rest)).text()}"), moved
    )


def make_inlining(chosen: random.Random, is_elsewhere: bool = True, is_wrong: bool = False) -> Move:
    """Upstream writes the code of a function out where it was called, and deprecates that."""
    base = make_row(chosen)
    number = chosen.randrange(len(NAMES), len(base.lines))
    target = base.lines[number][0]
    body = Row((("one", "pad(p, q)"), ("two", "turn(one, p)")), ("p", "q"), "mix(two, one)")
    first, other = chosen.choice(NAMES), chosen.choice(("x", "b"))
    base = base.with_line(number, (target, f"positions({first}, {other})"))
    lines = [("one", f"pad({first}, {other})"), ("two", f"turn(one, {first})"), (target, "mix(two, one)")]
    if is_wrong:
        lines[chosen.randrange(3)] = ("one", "own(x)")
    theirs = list(base.with_line(number, lines[-1]).lines)
    place = chosen.randint(len(NAMES), number) if is_elsewhere else number
    theirs[place:place] = lines[:-1]
    warning = "\n    warnings.warn('positions is deprecated', FutureWarning)"
    new = "import warnings\n" + body.text("positions").replace(":", f":{warning}", 1)
    texts = (f"{body.text('positions')}\n\n\n{base.text()}", f"{new}\n\n\n{Row(tuple(theirs)).text()}")
    modules = IMPORTS + texts[0], IMPORTS + texts[1]
    return Move(base, Row(tuple(theirs)), modules, range(number, number + 1))

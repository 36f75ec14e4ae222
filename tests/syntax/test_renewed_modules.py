"""What is known of a module that is another version of itself is what is known of that version by itself."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.classes import Class
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.reparsing import ParsedText
from patchgen_core.syntax.source import parse_source

PATH = Path("module.py")
TEXT = """
from elsewhere import Outside, helper

LAYERS = {"one": One, "two": Two}


class Base:
    def __init__(self, config):
        self.inner = LAYERS[config.kind](config)
        self.blocks = ModuleList([One(config)])
        self.blocks.append(Two(config, 1))

    def shared(self, x, scale=1):
        return self.inner(x)


class One(Base):
    def forward(self, x, mask):
        for block in self.blocks:
            x = block(x)
        return self.shared(x, 2)


class Two(One):
    def __init__(self, config, index):
        super().__init__(config)
        self.other = One(config) if index else None

    def forward(self, x):
        return self.other(x, mask=1) + plain(x) + self.shared(x)


def plain(x, y=1):
    first = Two(None, y)
    second = first.other
    return second.shared(x, scale=first.blocks[0])


def rebinding():
    global plain
    plain = helper


class Outer(Outside):
    def forward(self, x):
        return Base(x).inner(x) + plain(x, 2)
"""
WORDS = re.compile(r"\b(One|Two|Base|Outer|Outside|plain|helper|first|other|inner|blocks|shared|forward|x|config)\b")


@pytest.mark.slow
def test_callees_are_those_of_the_text_by_itself() -> None:
    chance = random.Random(28)
    versions = 0
    for _ in range(12):
        lines = TEXT.split("\n")
        parsed = ParsedText(parse_source(PATH, TEXT))
        module = Module(parsed.source)
        for _ in range(40):
            before = lines[:]
            edit(chance, lines)
            try:
                fresh = Module(parse_source(PATH, "\n".join(lines)))
            except PatchgenError:
                lines = before
                continue
            parsed = parsed.parse(PATH, "\n".join(lines))
            module.renew(parsed.source)
            assert describe(module) == describe(fresh)
            versions += 1
    assert versions > 200


def test_what_is_known_of_all_of_a_module_is_asked_for_again() -> None:
    parsed = ParsedText(parse_source(PATH, TEXT))
    module = Module(parsed.source)
    base = module.cls("Base")
    assert base is not None
    assert module.once(count_calls, base) == len(module.calls)
    parsed = parsed.parse(PATH, f"{TEXT}\nplain(1)\n")
    module.renew(parsed.source)
    assert module.cls("Base") is base
    assert module.once(count_calls, base) == len(module.calls)


def count_calls(module: Module, node: ast.ClassDef) -> int:
    return len(module.calls)


def edit(chance: random.Random, lines: list[str]) -> None:
    """Put another name, line or class in the place of one."""
    place = chance.randrange(len(lines))
    kind = chance.randrange(5)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(place, lines[chance.randrange(len(lines))])
    elif kind == 2:
        lines.insert(chance.randrange(4), "")
    else:
        names = [match[0] for match in WORDS.finditer(TEXT)]
        lines[place] = WORDS.sub(lambda match: chance.choice([match[0], chance.choice(names)]), lines[place])


def describe(module: Module) -> dict[str, Any]:
    """All that a module and its expressions say, in words."""
    inference = Inference(module)
    callees = [
        (call.owner, call.node.lineno, sorted(f"{c.name} {c.dotted} {c.signature}" for c in callees))
        for statement in module.tree.body
        for call, callees in inference.callees_in(statement)
    ]
    classes = [Class(module, node) for nodes in module.index.classes.values() for node in nodes]
    return {
        "callees": callees,
        "bases": [[base.name if base else None for base in inference.bases(cls)] for cls in classes],
        "attributes": {cls.name: {n: len(v) for n, v in module.attributes(cls.name).items()} for cls in classes},
        "growth": {cls.name: {n: len(v) for n, v in module.growth(cls.name).items()} for cls in classes},
        "bound": module.bound,
        "rebound": module.rebound,
        "uses": {name: [(use.owner, use.node.lineno) for use in uses] for name, uses in module.uses.items()},
        "strings": [(string.lineno, owner) for string, owner in module.strings],
    }

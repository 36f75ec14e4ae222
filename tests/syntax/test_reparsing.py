"""A text that is parsed by taking over what an earlier version has gets the tree that it gets by itself."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.reparsing import ParsedText
from patchgen_core.syntax.source import is_python, parse_source

PATH = Path("module.py")
LINES = (
    "",
    "# a comment",
    "    # an indented comment",
    "x = 1; y = 2",
    "x = (1,",
    "     2)",
    "@decorator",
    "@decorator(",
    ")",
    "def first(a, b=1):",
    "class First(Base):",
    "    def method(self):",
    "        return f'{self.a} {self.b!r}'",
    "    return x",
    "    value = [a for a in b]",
    '"""',
    'text = """',
    "if x:",
    "else:",
    "elif y:",
    "try:",
    "except ValueError as error:",
    "    pass",
    "x = 1 \\",
    "match x:",
    "    case [1, *rest]:",
    "from a import (b,",
    "    c)",
    "with a as b, c: pass",
    "async def late(): await x",
    "ünfug = 'ä'",
)


def test_any_text_is_parsed_as_by_itself() -> None:
    chance = random.Random(28)
    valid = taken = 0
    for _ in range(60):
        lines = ["import a", "x = 1", "def f():", "    pass", "class A:", "    a = 1", "y = 2"]
        parsed = ParsedText(parse_source(PATH, "\n".join([*lines, ""])))
        for _ in range(60):
            before = lines[:]
            edit(chance, lines)
            text = "\n".join([*lines, ""])
            if not is_python(text):
                with pytest.raises(PatchgenError) as fresh_error:
                    parse_source(PATH, text)
                with pytest.raises(PatchgenError) as error:
                    parsed.parse(PATH, text)
                assert str(error.value) == str(fresh_error.value)
                lines = before
                continue
            fresh = parse_source(PATH, text)
            old = {id(statement) for statement in parsed.source.tree.body}
            parsed = parsed.parse(PATH, text)
            assert ast.dump(parsed.source.tree, include_attributes=True) == ast.dump(
                fresh.tree, include_attributes=True
            )
            valid += 1
            taken += sum(id(statement) in old for statement in parsed.source.tree.body)
    assert valid > 1000
    assert taken > 5 * valid


def edit(chance: random.Random, lines: list[str]) -> None:
    """Insert, delete, replace or move some lines; often the two at once that make a whole statement."""
    place = chance.randrange(len(lines) + 1)
    kind = chance.randrange(6)
    if kind == 0:
        lines.insert(place, chance.choice(LINES))
    elif kind == 1 and lines:
        del lines[min(place, len(lines) - 1)]
    elif kind == 2:
        block = chance.choice([["if x:", "    pass"], ["def g(x):", "    return x", ""], ['"""', "x = 1", '"""']])
        lines[place:place] = block
    elif kind == 3 and lines:
        lines[min(place, len(lines) - 1)] = chance.choice(LINES)
    elif kind == 4:
        length = chance.randrange(4)
        moved = lines[place : place + length]
        del lines[place : place + length]
        place = chance.randrange(len(lines) + 1)
        lines[place:place] = moved
    else:
        lines[:0] = [f"# header {chance.random()}"] * chance.randrange(2)


def test_statements_that_stay_are_the_same_objects_at_their_new_lines() -> None:
    text = "# head 1\nimport a\n\n\ndef first():\n    return 1\n\n\n@decorator\nclass Second:\n    x = 1\n"
    parsed = ParsedText(parse_source(PATH, text))
    _, first, second = parsed.source.tree.body
    changed = text.replace("head 1", "head 2").replace("return 1", "x = 2\n    return x")
    _, new_first, new_second = parsed.parse(PATH, changed).source.tree.body
    assert new_first is not first
    assert new_second is second
    assert (second.lineno, second.end_lineno) == (11, 12)


def test_what_follows_an_open_string_is_not_taken_over() -> None:
    parsed = ParsedText(parse_source(PATH, "x = 1\ny = 2\nz = 3\n"))
    with pytest.raises(PatchgenError, match="unterminated triple-quoted"):
        parsed.parse(PATH, 'x = """\ny = 2\nz = 3\n')
    whole = parsed.parse(PATH, 'x = """\ny = 2\n"""\nz = 3\n')
    assert [statement.lineno for statement in whole.source.tree.body] == [1, 4]

"""Random edits of real functions: two that do not meet merge to both, two of one expression are a conflict."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator

import pytest

from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.source import SourceFile, read_source, shift
from patchgen_core.upgrade.merging.merge import merge_definition
from patchgen_core.upstream.module import find_upstream

pytestmark = pytest.mark.torch

MODELS = ("llama", "qwen3_moe", "gemma3")


def functions(model: str) -> Iterator[str]:
    """Every function and method of a modeling file with some statements, at column 0."""
    source = read_source(find_upstream(f"transformers.models.{model}.modeling_{model}").path)
    for _, node in source.definitions:
        if isinstance(node, FUNCTIONS) and len(node.body) > 5:
            yield definition(source, node)


def definition(source: SourceFile, node: ast.stmt) -> str:
    first, last = source.first_line(node), source.last_line(node)
    keep = {line - first for line in range(first, last + 1) if line in source.string_lines}
    return "\n".join(shift(source.lines[first - 1 : last], source.indent(first), "", keep))


class Edited:
    """A copy of a function's syntax tree with edits of some of its statements."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        (self.function,) = self.tree.body
        assert isinstance(self.function, FUNCTIONS)
        self.body = list(self.function.body)

    def edit(self, number: int, mark: str, kind: str) -> bool:
        """Edit a statement; whether it has what this kind of edit is about."""
        node = self.body[number]
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        if kind == "insert":
            block = self.function.body  # type: ignore[attr-defined]
            block.insert(block.index(node) + 1, ast.parse(f"trace('{mark}', {mark})").body[0])
        elif kind == "argument" and calls:
            calls[0].keywords.insert(0, ast.keyword(f"{mark}_argument", ast.Constant(mark)))
        elif kind == "wrap" and isinstance(node, (ast.Assign, ast.Return)) and isinstance(node.value, ast.Call):
            node.value = ast.Call(ast.Name(f"{mark}_wrapper", ast.Load()), [node.value], [])
        else:
            return False
        return True

    @property
    def text(self) -> str:
        return ast.unparse(ast.fix_missing_locations(self.tree))


KINDS = ("insert", "argument", "wrap")


@pytest.mark.parametrize("model", MODELS)
def test_edits_of_two_statements(model: str) -> None:
    """Ours is laid out in another way than upstream, so that no two lines are the same."""
    chosen = random.Random(model)
    done = 0
    for text in functions(model):
        size = len(Edited(text).body)
        mine, new = sorted(chosen.sample(range(1, size - 1), 2), key=lambda _: chosen.random())
        kinds = chosen.choice(KINDS), chosen.choice(KINDS)
        ours, theirs, both = (Edited(text) for _ in range(3))
        if abs(mine - new) < 2 or not ours.edit(mine, "mine", kinds[0]) or not theirs.edit(new, "new", kinds[1]):
            continue
        both.edit(mine, "mine", kinds[0])
        both.edit(new, "new", kinds[1])
        merged = merge_definition(text, ours.text, theirs.text)
        assert merged.conflicts == (), (text, kinds, mine, new)
        assert ast.unparse(ast.parse(merged.text)) == both.text
        done += 1
    assert done > 1


@pytest.mark.parametrize("model", MODELS)
def test_edits_of_one_expression(model: str) -> None:
    chosen = random.Random(model)
    done = 0
    for text in functions(model):
        number = chosen.randrange(1, len(Edited(text).body))
        ours, theirs = Edited(text), Edited(text)
        if not ours.edit(number, "mine", "wrap") or not theirs.edit(number, "new", "wrap"):
            continue
        merged = merge_definition(text, ours.text, theirs.text)
        assert merged.conflicts
        assert ast.unparse(ast.parse(merged.text)) == ours.text
        done += 1
    assert done > 2

"""Texts as they are quoted in configs."""

from __future__ import annotations


def literal(text: str, indent: str = "") -> str:
    """A text in double quotes; one of several lines as :func:`block_literal` has it."""
    if "\n" in text:
        return block_literal(text, indent)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def block_literal(text: str, indent: str = "") -> str:
    """A text in three double quotes, on lines of its own, which are indented."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    lines = "\n".join(f"{indent}{line}" if line else "" for line in escaped.split("\n"))
    return f'"""\n{lines}\n{indent}"""'

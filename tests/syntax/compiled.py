"""What Python's own compiler says of a module, as a measure for what patchgen says."""

from __future__ import annotations

import dis
from types import CodeType

_IMPLICIT = frozenset(["__annotations__", "__name__", "__static_attributes__", "__classdict__", "__class__"])


def loaded(text: str) -> set[str]:
    """The names of the top level that a module's code loads; those that Python itself puts in are left out."""
    found: set[str] = set()

    def visit(code: CodeType) -> None:
        instructions = list(dis.get_instructions(code))
        is_module = code.co_name == "<module>"
        bound: set[str] = set()
        for instruction in instructions:
            name = instruction.argval
            if instruction.opname == "STORE_NAME":
                bound.add(name)
            elif instruction.opname in ("LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"):
                found.add(name)
            elif instruction.opname == "LOAD_NAME" and (is_module or name not in bound):
                found.add(name)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                visit(constant)

    visit(compile(text, "<module>", "exec", dont_inherit=True))
    return found - _IMPLICIT


def stored(text: str) -> set[str]:
    """The names that a module's top level binds."""
    code = compile(text, "<module>", "exec", dont_inherit=True)
    return {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_NAME"}

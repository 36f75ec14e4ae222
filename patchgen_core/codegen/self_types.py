"""What a config's annotation of ``self`` tells editors, and a method of the generated class has no need of."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.config.declarations import Patch
from patchgen_core.config.replacement import Replacement
from patchgen_core.syntax.nodes import FUNCTIONS

_TYPED = re.compile(r"\A(?:async\s+)?def\s+\w+\s*\(\s*(?:\w+\s*,\s*)?(?:self|cls)\s*:")


def drop_self_type(replacement: Replacement, patch: Patch) -> Replacement:
    """A method's replacement without the annotation of ``self`` or ``cls`` that names the class it goes into.

    Any other annotation stays, and so does one that spans lines.
    """
    if not _TYPED.match(replacement.text):
        return replacement
    function = ast.parse(replacement.text).body[0]
    assert isinstance(function, FUNCTIONS)
    parameters = [*function.args.posonlyargs, *function.args.args]
    parameter = next(parameter for parameter in parameters if parameter.arg in ("self", "cls"))
    annotation = parameter.annotation
    class_name = patch.target.partition(".")[0]
    if annotation is None or map_prefixes(_class_name(annotation), patch.name_map) != class_name:
        return replacement
    if parameter.lineno != annotation.end_lineno or annotation.end_col_offset is None:
        return replacement
    lines = replacement.text.split("\n")
    line = lines[parameter.lineno - 1].encode()
    head = line[: parameter.col_offset + len(parameter.arg)]
    lines[parameter.lineno - 1] = (head + line[annotation.end_col_offset :]).decode()
    return replace(replacement, text="\n".join(lines))


def _class_name(annotation: ast.expr) -> str:
    """The class of ``Name``, ``"Name"``, ``type[Name]`` and ``"type[Name]"``; empty for anything else."""
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    match = re.fullmatch(r"(?:type\[)?(\w+)\]?", str(text))
    return match[1] if match else ""

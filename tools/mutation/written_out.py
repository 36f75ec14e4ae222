"""A target of the zoo whose patch is edits, written out as one replacement with all of its text.

A slip in a line that a patch repeats of upstream's cannot be made where the patch does not repeat it. So the text of
the target, as its edits make it, takes their place in the config first, as if somebody had copied it.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

from patchgen_core.codegen.edited_targets import edited_function
from patchgen_core.codegen.plan import Plan, make_plan
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.config.loading import Loader
from patchgen_core.config.replacement import HEAD
from patchgen_core.errors import PatchgenError
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream

NAME = "written_out"


def write_out(root: Path, config: Path, target: str) -> tuple[str, str, str]:
    """The text of a config of a project in which the edits of a target are a replacement: before it, it, behind it.

    Raises:
        PatchgenError: the config does not load, or the target has no edits.
    """
    name, plan = _plan(root, config)
    planned = next((p for p in plan.patches if p.dotted == target and p.edits), None)
    function = edited_function(planned) if planned is not None else None
    if planned is None or planned.replacement is None or function is None:
        raise PatchgenError(f"'{target}' of {config.name} has no edits to write out")
    gone = [entry.decorator for entry in plan.decorators if entry.target == target]
    decorators = [f"@{ast.unparse(d)}" for d in function.decorator_list if all(d is not other for other in gone)]
    own = _statements(name, target, planned, [] if planned.method else decorators)
    lines = config.read_text(encoding="utf-8").splitlines(keepends=True)
    end = _end_of_edits(planned, config, "".join(lines))
    return "".join(lines[:end]), own, "".join(lines[end:])


def _end_of_edits(planned: PlannedPatch, config: Path, text: str) -> int:
    """The line of a config where the last edit of a target ends; its last line where others declare them all."""
    places = [edit.patch.used_at or edit.patch.location for edit in planned.edits]
    numbers = [place.line for place in places if place is not None and Path(place.file) == config]
    ends = [
        node.end_lineno or 0
        for node in ast.parse(text).body
        for number in numbers
        if min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]) <= number
        and number <= (node.end_lineno or 0)
    ]
    return max(ends, default=text.count("\n"))


@cache
def _plan(root: Path, config: Path) -> tuple[str, Plan]:
    """What a config, as it is when this is first asked, is called in its file, and its plan."""
    sources = SourceCache()
    [loaded] = Loader(load_project(root), sources).load(config)
    upstream = find_upstream(loaded.config.source_module, location=loaded.config.location)
    return loaded.name, make_plan(loaded.config, upstream, sources, loaded.modules, loaded.label)


def _statements(config: str, target: str, planned: PlannedPatch, decorators: list[str]) -> str:
    assert planned.replacement is not None
    call = "override_method" if planned.method else "replace_function"
    name, reason = json.dumps(target), json.dumps(planned.patch.description, ensure_ascii=False)
    patches, dropped = f"{config}.patches", f"{config}.dropped_decorators"
    lines = [
        f"place = [patch.target for patch in {patches}].index({name})",
        f"{patches}[:] = [patch for patch in {patches} if patch.target != {name}]",
    ]
    if not planned.method:
        lines.append(f"{dropped}[:] = [pair for pair in {dropped} if pair[0] != {name}]")
    text = HEAD.sub(rf"\1\2{NAME}", planned.replacement.text)
    declaration = f"@{config}.{call}({name}, description={reason})"
    end = f"{patches}.insert(place, {patches}.pop())  # where the edits were"
    return "\n".join(["", "", *lines, "", "", declaration, *decorators, text, "", "", end, ""])

"""What a target is: upstream's text, and what the config makes of it."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from lsprotocol import types

from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.declared import declared_around, declared_at, find_config_calls, name_at
from patchgen_lsp.analysis.generated_view import view_generated
from patchgen_lsp.analysis.kept_findings import tabulate_standings
from patchgen_lsp.analysis.slots import SLOT, describe_slot, find_slots, read_slots
from patchgen_lsp.analysis.upstream_view import UpstreamView, view_upstream
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.request import Request

_WORD = re.compile(r"\w+")
MOST_LINES = 60
"""Lines of one text that are shown."""


def hover(bench: Workbench, request: Request) -> types.Hover | None:
    """What is at the cursor: a target, the name of a replacement, or a name of upstream's; None for other things."""
    source = bench.sources.last_valid(request.path)
    upstream = view_upstream(bench, source) if source is not None else None
    if source is None or upstream is None:
        return None
    line, column = request.line + 1, request.column
    about = _describe_slot(bench, request, source) or _describe_checks(bench, request, source)
    if about:
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, about))
    declared = declared_at(source, line, column)
    name = "" if declared is not None else name_at(source, line, column)
    if declared is None and name:
        around = declared_around(source, line)
        declared = around if around is not None and name in around.names else None
    if declared is not None:
        text = describe_target(bench, request, upstream, declared.target)
    else:
        text = _describe_name(upstream, name.split(".")[0]) if name else ""
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def _describe_slot(bench: Workbench, request: Request, source: SourceFile) -> str:
    """The kernels of the slot at the cursor: of its name wherever that stands, of its op and variant where it is made;
    empty for no slot."""
    word = _word_at(source, request)
    slots = find_slots(source)
    for view in view_generated(bench, request.path) if word and f"{word} = {SLOT}(" not in source.text else ():
        if re.search(rf"^{word}\b.*=.*\b{SLOT}\(", view.artifact.text, re.MULTILINE):
            slots += [replace(slot, line=0) for slot in read_slots(view.artifact.text) if slot.name == word]
    for slot in slots:
        is_here = slot.line == request.line + 1 and word in (slot.op, slot.variant)
        if word and (slot.name == word or is_here):
            return describe_slot(bench, slot.op, slot.variant)
    return ""


def _word_at(source: SourceFile, request: Request) -> str:
    line = source.lines[request.line] if request.line < len(source.lines) else ""
    return next((m[0] for m in _WORD.finditer(line) if m.start() <= request.column <= m.end()), "")


def _describe_checks(bench: Workbench, request: Request, source: SourceFile) -> str:
    """What the checks of a config came to, at the call that makes it; empty at other places."""
    if not any(call.lineno == request.line + 1 for call in find_config_calls(source)):
        return ""
    return tabulate_standings(request.more.get("standings", ()), bench.sources.has_unsaved())


def describe_target(bench: Workbench, request: Request, upstream: UpstreamView, target: str) -> str:
    """Upstream's text of a target with where it stands, and the diff to what the config makes of it, as Markdown."""
    node = upstream.find(target)
    if node is None:
        inherited = upstream.find_method(*target.split(".")[:2]) if target.count(".") == 1 else None
        if inherited is None:
            return _describe_addition(bench, request, target)
        return f"inherited: {_title(upstream, *inherited)}\n\n{_fence(upstream.text_of(inherited[1]))}"
    before = upstream.text_of(node)
    parts = [_title(upstream, target, node), ""]
    for view in view_generated(bench, request.path):
        definition = view.find(target) if view.artifact.plan.upstream.module == upstream.module.module else None
        if definition is None:
            continue
        after = view.text_of(definition)
        diff = list(difflib.unified_diff(before.split("\n"), after.split("\n"), "upstream", "generated", lineterm=""))
        if diff:
            parts += [
                f"`{view.artifact.path.name}`:{definition.lineno} changes",
                "",
                _fence("\n".join(diff[2:]), "diff"),
                "",
            ]
        else:
            parts += [f"`{view.artifact.path.name}`:{definition.lineno} has it as it is", ""]
    return "\n".join([*parts, "upstream:", "", _fence(before)])


def _describe_addition(bench: Workbench, request: Request, target: str) -> str:
    """What a config makes of a target that upstream lacks."""
    parts = [f"upstream has no `{target}`"]
    for view in view_generated(bench, request.path):
        node = view.find(target)
        if node is not None:
            parts += [f"`{view.artifact.path.name}`:{node.lineno} adds it:", _fence(view.text_of(node))]
    return "\n\n".join(parts)


def _describe_name(upstream: UpstreamView, name: str) -> str:
    node = upstream.find(name)
    return f"{_title(upstream, name, node)}\n\n{_fence(upstream.text_of(node))}" if node is not None else ""


def _title(upstream: UpstreamView, target: str, node: object) -> str:
    module, line = upstream.module, getattr(node, "lineno", 0)
    return f"**{target}** in `{upstream.source.path.name}:{line}` ({module.distribution} {module.version})"


def _fence(text: str, language: str = "python") -> str:
    lines = text.split("\n")
    more = f"\n# ... {len(lines) - MOST_LINES} more lines" if len(lines) > MOST_LINES else ""
    return f"```{language}\n" + "\n".join(lines[:MOST_LINES]) + f"{more}\n```"

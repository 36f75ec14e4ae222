"""What a target is: upstream's text, and what the config makes of it."""

from __future__ import annotations

import difflib

from lsprotocol import types

from patchgen_lsp.analysis.declared import declared_around, declared_at, name_at
from patchgen_lsp.analysis.generated_view import view_generated
from patchgen_lsp.analysis.upstream_view import UpstreamView, view_upstream
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.request import Request

MOST_LINES = 60
"""Lines of one text that are shown."""


def hover(bench: Workbench, request: Request) -> types.Hover | None:
    """What is at the cursor: a target, the name of a replacement, or a name of upstream's; None for other things."""
    source = bench.sources.last_valid(request.path)
    upstream = view_upstream(bench, source) if source is not None else None
    if source is None or upstream is None:
        return None
    line, column = request.line + 1, request.column
    declared = declared_at(source, line, column)
    name = "" if declared is not None else name_at(source, line, column)
    if declared is None and name:
        around = declared_around(source, line)
        is_name = around is not None and around.definition is not None and around.definition.name == name
        declared = around if is_name else None
    if declared is not None:
        text = describe_target(bench, request, upstream, declared.target)
    else:
        text = _describe_name(upstream, name.split(".")[0]) if name else ""
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def describe_target(bench: Workbench, request: Request, upstream: UpstreamView, target: str) -> str:
    """Upstream's text of a target with where it stands, and the diff to what the config makes of it, as Markdown."""
    node = upstream.find(target)
    if node is None:
        inherited = upstream.find_method(*target.split(".")[:2]) if target.count(".") == 1 else None
        if inherited is None:
            return f"upstream has no `{target}`"
        return f"inherited: {_title(upstream, *inherited)}\n\n{_fence(upstream.text_of(inherited[1]))}"
    before = upstream.text_of(node)
    parts = [_title(upstream, target, node), ""]
    for view in view_generated(bench, request.path):
        made = view.find(target) if view.artifact.plan.upstream.module == upstream.module.module else None
        if made is None:
            continue
        after = view.text_of(made)
        diff = list(difflib.unified_diff(before.split("\n"), after.split("\n"), "upstream", "generated", "", "", 3))
        if diff:
            parts += [
                f"`{view.artifact.path.name}`:{made.lineno} changes",
                "",
                _fence("\n".join(diff[2:]), "diff"),
                "",
            ]
        else:
            parts += [f"`{view.artifact.path.name}`:{made.lineno} has it as it is", ""]
    return "\n".join([*parts, "upstream:", "", _fence(before)])


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

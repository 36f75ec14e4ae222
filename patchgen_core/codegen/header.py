"""The comment block at the top of a generated module."""

from __future__ import annotations

from patchgen_core.codegen.plan import Plan
from patchgen_core.syntax.header import CONFIG, FORMAT, MARK, RULE, UNSEALED


def header(plan: Plan) -> str:
    """The header of a plan's module. Its output hash is zeros until :func:`seal` sets it."""
    upstream, config = plan.upstream, plan.config
    lines = [RULE, f"#  {MARK}", RULE, f"#  Source: {upstream.module}"]
    lines.append(f"#  Based on: {upstream.distribution}=={upstream.version}")
    lines += [f"{CONFIG}{plan.label}"] if plan.label else []
    lines += [f"#  {line}" for line in config.description.strip().splitlines()]
    lines += ["#", "#  Patches applied:"]
    for patch in sorted(plan.patches, key=lambda p: (min(node.lineno for node in p.nodes), p.method, p.accessor)):
        for declared in patch.declared:
            lines.append(f"#    - {declared.kind}: {declared.patch.target}{' (added)' if declared.added else ''}")
            lines += [f"#        {line.strip()}" for line in declared.patch.description.strip().splitlines()]
    if not plan.patches:
        lines.append("#    none")
    for title, names in (
        ("Helpers added", [helper.name for helper in plan.helpers]),
        ("Imports dropped", sorted(plan.dropped)),
        ("Decorators dropped", sorted(entry.label for entry in plan.decorators)),
        ("Excluded", sorted(plan.excluded)),
    ):
        if names:
            lines += ["#", f"#  {title}:", *(f"#    - {name}" for name in names)]
    marks = f"upstream={plan.source.short_hash} config={plan.fingerprint} output={UNSEALED}"
    return "\n".join([*lines, "#", f"#  Fingerprint: format={FORMAT} {marks}", RULE, ""])

"""Why a checked-in file is not what its config makes, told by its header and its diff."""

from __future__ import annotations

import ast

from patchgen_core.build.hand_edits import as_written
from patchgen_core.build.results import Artifact, Cause
from patchgen_core.build.ruff_setup import ruff_version
from patchgen_core.checks.checked_in.definitions import Changes, compare_definitions, lines_of
from patchgen_core.syntax.diffs import reverse_diff, unified_diff
from patchgen_core.syntax.header import FORMAT, Fingerprint, read_fingerprint, read_label, read_ruff
from patchgen_core.syntax.nodes import DEFINITIONS
from patchgen_core.syntax.source import is_python


def explain(
    artifact: Artifact, old: str | None, old_diff: str | None, other: Cause | None = None
) -> tuple[Cause, ...]:
    """Why the files on disk, None for a missing one, are not what the config makes; at least one cause.

    ``other`` is that of a module which another generator made.
    """
    causes: list[Cause] = []
    if old is None:
        return (Cause("missing", f"{artifact.path.name} does not exist"),)
    if other is not None:
        causes.append(other)
    elif old != artifact.text:
        causes += _explain_module(artifact, old, old_diff)
    if old_diff is None and artifact.keeps_diff:
        causes.append(Cause("missing", f"{artifact.diff_path.name} does not exist"))
    elif old == artifact.text:
        causes.append(Cause("edited by hand", artifact.diff_path.name))
    return tuple(causes)


def _explain_module(artifact: Artifact, old: str, old_diff: str | None) -> list[Cause]:
    plan = artifact.plan
    mark = read_fingerprint(old)
    if mark is None and "\r\n" in old and read_fingerprint(old.replace("\r\n", "\n")) is not None:
        return [Cause("edited by hand", "its line endings were changed to CRLF")]
    if mark is None:
        return [Cause("edited by hand", "its header cannot be read")]
    is_same_source = mark.source == plan.upstream.module
    is_same_text = mark.upstream == plan.source.short_hash
    written = old if mark.sealed else as_written(artifact, old, old_diff if is_same_text else None)
    causes = []
    moved = Changes()
    if is_same_source and not (is_same_text and mark.version == plan.upstream.version):
        base = reverse_diff(written, old_diff) if old_diff and written else None
        if base is not None and not is_same_text:
            moved = compare_definitions(base, artifact.base)
        causes.append(_describe_move(artifact, mark, is_same_text, base, moved))
    if not is_same_source:
        causes.append(Cause("config changed", f"source_module was {mark.source}"))
    elif mark.config != plan.fingerprint:
        changes = compare_definitions(written, artifact.text, artifact.source.tree) if written else Changes()
        ours = changes.without(moved)
        causes.append(Cause("config changed", str(ours)))
    elif (label := read_label(old)) != plan.label:
        causes.append(Cause("config changed", f"it was called {label}"))
    if not mark.sealed:
        edited = compare_definitions(written or artifact.text, old) if written or not causes else Changes()
        causes.append(Cause("edited by hand", str(edited) if is_python(old) else "it is no longer valid Python"))
    if mark.format != FORMAT:
        causes.append(Cause("generator changed", f"its output format went from {mark.format} to {FORMAT}"))
    return causes or [Cause("generator changed", _describe_ruff(artifact, old))]


def _describe_ruff(artifact: Artifact, old: str) -> str:
    """What is another ruff, or has other settings, given a file that only that can explain."""
    before, now = read_ruff(old), ruff_version(artifact.path.parent)
    if before and before != now:
        return f"ruff {before} -> {now}; required-version in ruff's settings has everybody run the same"
    if before:
        return "ruff's settings have changed"
    return f"ruff's settings have changed, or its version, now {now}"


def _describe_move(
    artifact: Artifact, mark: Fingerprint, is_same_text: bool, base: str | None, moved: Changes
) -> Cause:
    upstream = artifact.plan.upstream
    versions = f"{upstream.distribution} {mark.version}"
    if mark.version != upstream.version:
        versions += f" -> {upstream.version}"
    if is_same_text:
        return Cause("upstream moved", f"{versions}, with the same text")
    if base is None:
        return Cause(
            "upstream moved", f"{versions}; without the .diff that belongs to the file, what changed is unknown"
        )
    detail = f"{versions}; {moved or 'outside of its classes and functions'}"
    patched = [name for name in moved.changed if is_patched(artifact, name)]
    if patched:
        detail += f" (this config patches {', '.join(patched)})"
    before, after = (_texts(base), _texts(artifact.base)) if patched else ({}, {})
    diffs = (unified_diff(before[n], after[n], f"{n} ({mark.version})", f"{n} ({upstream.version})") for n in patched)
    return Cause("upstream moved", detail, "".join(diffs))


def is_patched(artifact: Artifact, name: str) -> bool:
    """Whether a definition's text is replaced by a patch of it, or of the class it belongs to."""
    return any(name in (p.dotted, p.patch.target) or name.startswith(f"{p.dotted}.") for p in artifact.plan.patches)


def _texts(source: str) -> dict[str, str]:
    lines = [f"{line}\n" for line in source.split("\n")]
    texts: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, DEFINITIONS):
            for inner in [node, *(s for s in getattr(node, "body", []) if isinstance(s, DEFINITIONS))]:
                name = node.name if inner is node else f"{node.name}.{inner.name}"
                texts[name] = texts.get(name, "") + "".join(lines_of(lines, inner))
    return texts

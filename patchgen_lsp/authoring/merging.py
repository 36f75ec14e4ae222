"""What upstream changed below a patch, merged into it."""

from __future__ import annotations

from patchgen_core.errors import list_some
from patchgen_core.project.project import Project
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.writing.one_patch import PatchMerge, merge_patch
from patchgen_lsp.authoring.file_texts import pair_texts
from patchgen_lsp.request import Request
from patchgen_lsp.rewriting import Rewriting

MARKERS = "Write the conflicts with markers"


def merge_upstream(project: Project, request: Request) -> Rewriting:
    """The config with upstream's change of ``more["target"]`` in its patch; ``more["package"]`` is upstream's
    distribution. With ``more["markers"]`` conflicts are written as well; with ``more["download"]`` a release that is
    missing is downloaded."""
    with_markers, offline = bool(request.more.get("markers")), not request.more.get("download")
    target, package = request.more["target"], request.more["package"]
    merges = merge_patch(project, request.path, target, package, with_markers=with_markers, offline=offline)
    texts = {path: text for merge in merges for path, text in merge.texts.items()}
    lines = tuple(line for merge in merges for line in _describe(merge, target))
    if any(merge.conflicts for merge in merges) and not with_markers:
        return Rewriting(pair_texts(texts), lines, not texts, MARKERS, {"markers": True})
    missing = next((merge.missing for merge in merges if merge.missing and not merge.versions[0]), "")
    if missing and offline:
        return Rewriting(pair_texts(texts), lines, not texts, f"Download {package} {missing}", {"download": True})
    return Rewriting(pair_texts(texts), lines, not texts)


def _describe(merge: PatchMerge, target: str) -> list[str]:
    old, new = merge.versions
    if not old:
        return [f"{target}: {why}" for why in merge.left or ["it is not known which release its generated file is of"]]
    if merge.texts:
        others = list_some(merge.others, 3)
        more = [f"shared by {others}, whose generated code is still of {old}"] if merge.others else []
        marks = f", with {quantity(merge.conflicts, 'conflict')} marked" if merge.conflicts else ""
        return [f"{target}: upstream's change from {old} to {new} is merged{marks}", *more]
    if merge.left:
        return [f"{target}: {reason}" for reason in merge.left]
    return [f"{target}: nothing of upstream's change from {old} to {new} is missing in it; regenerate"]

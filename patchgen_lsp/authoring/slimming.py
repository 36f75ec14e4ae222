"""A replacement that repeats upstream's text, written as edits."""

from __future__ import annotations

from patchgen_core.authoring.slim.slim import plan_slim
from patchgen_core.build.selection import Selection
from patchgen_core.errors import Location
from patchgen_core.project.project import Project
from patchgen_core.report.words import quantity
from patchgen_lsp.authoring.file_texts import pair_texts
from patchgen_lsp.request import Request
from patchgen_lsp.rewriting import Rewriting


def slim_replacement(project: Project, request: Request) -> Rewriting:
    """The edits in the place of the replacement whose ``def`` stands on the line of a request."""
    at = Location(str(request.path), request.line + 1)
    plan = plan_slim(Selection(project, [request.path]), at)
    patches = [patch for slimmed in plan.slimmed for patch in slimmed.patches]
    if not patches:
        reasons = tuple(reason for slimmed in plan.slimmed for reason in slimmed.left)
        return Rewriting(lines=reasons or ("as edits it would be no shorter",), is_refused=True)
    lines = tuple(f"{patch.targets[0]}: {patch.before} lines become {patch.after}" for patch in patches)
    files = len(plan.configs)
    more = (f"{quantity(files, 'file')} changed: save, and regenerate",) if files > 1 else ()
    return Rewriting(pair_texts(plan.configs), (*lines, *more))

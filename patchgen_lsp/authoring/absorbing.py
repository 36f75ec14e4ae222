"""What was edited by hand in a generated file, as patches of its config."""

from __future__ import annotations

from pathlib import Path

from patchgen_core.authoring.absorb.absorb import plan_absorb
from patchgen_core.build.selection import Selection
from patchgen_core.errors import list_some
from patchgen_core.project.project import Project
from patchgen_lsp.authoring.file_texts import pair_texts
from patchgen_lsp.request import Request
from patchgen_lsp.rewriting import Rewriting


def absorb_edits(project: Project, request: Request) -> Rewriting:
    """The config that makes what was edited by hand; ``more["config"]`` is its file.

    An edit that no patch can make is left, and told with its reason; the generated file keeps all edits then.
    """
    plan = plan_absorb(Selection(project, [Path(request.more["config"])]))
    if not plan.absorbed:
        return Rewriting(lines=("no generated file of this config was edited by hand",), is_refused=True)
    changes = tuple(change for absorbed in plan.absorbed for change in absorbed.changes)
    left = tuple(str(problem) for absorbed in plan.absorbed for problem in absorbed.left)
    others = list(dict.fromkeys(other for absorbed in plan.absorbed for other in absorbed.others))
    shared = (f"regenerate what shares it: {list_some(others, 3)}",) if others else ()
    return Rewriting(pair_texts(plan.files), (*changes, *left, *shared), is_refused=not changes)

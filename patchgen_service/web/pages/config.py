"""The pages of a config over time, and of one result."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchgen_service.views.branch import ConfigKey
from patchgen_service.views.config import ConfigHistory, read_config
from patchgen_service.views.lines import read_line
from patchgen_service.views.run import read_result_line
from patchgen_service.web.details import result_section
from patchgen_service.web.plots import share_plot
from patchgen_service.web.rendering import render
from patchgen_service.web.visits import open_visit


def show_config(request: Request) -> Response:
    """A config: its checks run by run, how near parity came to its limit, and when it turned red."""
    repository_id: int = request.path_params["repository"]
    asked = request.query_params
    key = ConfigKey(asked.get("project", "."), asked.get("path", ""), asked.get("config", ""))
    with open_visit(request) as visit:
        repository = visit.repository(repository_id)
        branch = asked.get("branch") or repository.default_branch
        history = read_config(visit.session, repository_id, branch, key)
        if history is None:
            raise HTTPException(404, "No run of that branch has this config.")
    items = sorted({one.item for one in history.series})
    plots = [
        share_plot([one for one in history.series if one.item == item], f"{item}: part of what is allowed, over time")
        for item in items
    ]
    values: dict[str, Any] = {
        "repository": repository,
        "history": history,
        "plots": plots,
    }
    return render(request, "config.html", strips=_strips(history), owner=_owner(repository.owners, key), **values)


def show_result(request: Request) -> Response:
    """One result in full."""
    with open_visit(request) as visit:
        result = read_result_line(visit.session, request.path_params["result"])
        run = read_line(visit.session, result.run_id) if result is not None else None
        visit.check_visible(run.repository_id if run is not None else None)
        assert result is not None
        section = result_section(visit, result)
    return render(request, "result.html", result=result, run=run, section=section)


def _strips(history: ConfigHistory) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """For each check its last runs: id, status and day."""
    runs = history.runs[-60:]
    return [
        (check, [(run.id, run.statuses.get(check, ""), f"{run.created:%Y-%m-%d}") for run in runs])
        for check in history.checks
    ]


def _owner(owners: dict[str, str], key: ConfigKey) -> str:
    """Who owns the nearest folder of a config."""
    folders = [folder for folder in owners if f"{key.path}/".startswith(f"{folder.strip('/')}/")]
    return owners[max(folders, key=len)] if folders else ""


ROUTES = [
    Route("/repositories/{repository:int}/config", show_config),
    Route("/results/{result:int}", show_result),
]

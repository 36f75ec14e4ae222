"""The page of a run, as it is while results come in and after its end."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from patchgen_core.report.html.page import render as render_report
from patchgen_service.views.branch import read_grid
from patchgen_service.views.lines import RunLine, read_line
from patchgen_service.views.run import RunDetail, read_run
from patchgen_service.web.details import read_sections, whole_report
from patchgen_service.web.lead import hints
from patchgen_service.web.offers import make_offer
from patchgen_service.web.rendering import render
from patchgen_service.web.visits import Visit, open_visit


def show_run(request: Request) -> Response:
    """A run: what is new since the baseline, then the diff, then what to do."""
    return _show(request, "run.html")


def show_live(request: Request) -> Response:
    """What of a run's page changes while it runs; nothing where the page is as new as that."""
    return _show(request, "run_live.html", request.query_params.get("seen", ""))


def show_report(request: Request) -> Response:
    """The whole report of a run as a page that is one file, to be kept or sent."""
    with open_visit(request) as visit:
        detail = _detail(visit, request)
        text = render_report(whole_report(visit, detail))
    name = f"patchgen-{detail.line.sha[:10]}.html"
    headers = {
        "content-disposition": f'inline; filename="{name}"',
        "content-security-policy": "frame-ancestors 'none'; sandbox allow-scripts",
    }
    return HTMLResponse(text, headers=headers)


def _show(request: Request, template: str, seen: str | None = None) -> Response:
    with open_visit(request) as visit:
        line = read_line(visit.session, request.path_params["run"])
        visit.check_visible(line.repository_id if line is not None else None)
        assert line is not None
        if seen == live_state(line):
            return Response(status_code=204)
        if seen is not None and not line.is_unfinished:
            return Response(headers={"hx-refresh": "true"})
        detail = _detail(visit, request)
        shown = read_sections(visit, detail)
        grid = read_grid(visit.session, detail.line)
        offer = make_offer(visit, detail)
    return render(
        request,
        template,
        detail=detail,
        run=detail.line,
        shown=shown,
        grid=grid,
        live_state=live_state(detail.line),
        hints=hints(detail),
        offer=offer,
    )


def _detail(visit: Visit, request: Request) -> RunDetail:
    detail = read_run(visit.session, request.path_params["run"])
    visit.check_visible(detail.line.repository_id if detail is not None else None)
    if detail is None:
        raise HTTPException(404)
    return detail


def live_state(run: RunLine) -> str:
    """What tells whether a page of a run is as new as the run."""
    return f"{run.status}-{run.counts.total}-{run.counts.bad}-{run.expected or 0}"


ROUTES = [
    Route("/runs/{run}", show_run),
    Route("/runs/{run}/live", show_live),
    Route("/runs/{run}/report.html", show_report),
]

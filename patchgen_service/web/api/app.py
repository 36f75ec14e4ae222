"""The application of the API."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from patchgen_service.database.engine import UNAVAILABLE
from patchgen_service.web.api import acting, proposing, reading
from patchgen_service.web.site import Site
from patchgen_service.web.unavailable import TRY_AGAIN, log_unavailable


def build_api(site: Site) -> FastAPI:
    """The API over a service's data, to be mounted below ``/api/v1``."""
    api = FastAPI(
        title="patchgen service",
        version="1",
        description="Runs of the drift gate, their results, and approvals. Calls are made with a token: "
        "`Authorization: Bearer …`. Without one, what is public can be read.",
        docs_url=None,
        redoc_url=None,
        servers=[{"url": "/api/v1"}],
        root_path_in_servers=False,
    )
    api.state.site = site
    api.include_router(reading.router)
    api.include_router(acting.router)
    api.include_router(proposing.router)
    api.add_exception_handler(RequestValidationError, show_invalid)
    for kind in UNAVAILABLE:
        api.add_exception_handler(kind, show_unavailable)
    return api


def show_invalid(request: Request, error: Exception) -> Response:
    """What of a call is not as it must be, in sentences."""
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return JSONResponse({"detail": "The call is not valid.", "errors": problems}, 422)


def show_unavailable(request: Request, error: Exception) -> Response:
    """That the database cannot be written or reached now; the call may be made again."""
    log_unavailable(request, error)
    return JSONResponse({"detail": "The service cannot reach its database now."}, 503, TRY_AGAIN)

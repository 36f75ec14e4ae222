"""Requests that cannot be answered now: the database is not to be reached, cannot be written, or has no room."""

from __future__ import annotations

import logging
from urllib.parse import quote

from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request

from patchgen_service.database.engine import describe_cause

TRY_AGAIN = {"Retry-After": "30"}
_LOG = logging.getLogger("patchgen.web")


def log_unavailable(request: Request, error: Exception) -> None:
    """Log why a request is answered 503: without its query, which may hold a token, and without the statement."""
    assert isinstance(error, SQLAlchemyError)
    _LOG.error("%s %s is answered 503: %s", request.method, quote(request.scope["path"]), describe_cause(error))

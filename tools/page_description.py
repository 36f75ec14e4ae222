"""Pages, forms and webhooks of the service as an OpenAPI description, made of its routes, for Schemathesis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute, Route

from patchgen_service import web

_PARAMETER = re.compile(r"{(\w+)(?::(\w+))?}")
_FIELD = re.compile(r"""(?:\bname="|field\(")([a-z_]+)""")
_QUERIES = ("seen", "next", "q", "before", "token", "page", "name", "project", "path", "config", "code", "state")
_LEFT_OUT = ("/sign-out", "/static/{name}")
"""The first would have all that comes after it be asked for by nobody."""
_EVENTS = ("Push Hook", "Merge Request Hook")
_Json = dict[str, Any]
_TEXT: _Json = {"type": "string"}


def describe_pages(
    routes: Iterable[BaseRoute], samples: Mapping[str, Sequence[Any]], csrf: str, webhook_secret: str
) -> _Json:
    """The description of all routes.

    Args:
        samples: values of path parameters that there are, beside which others are tried.
        csrf: what a form has to hold.
        webhook_secret: what webhooks of repositories hold, as GitLab sends it.
    """
    fields = sorted(set(_FIELD.findall("".join(path.read_text() for path in _templates()))))
    paths: dict[str, _Json] = {}
    for route in routes:
        if not isinstance(route, Route) or route.path in _LEFT_OUT:
            continue
        operation: _Json = {"parameters": _describe_path(route.path, samples), "responses": {"default": _response()}}
        if route.path.startswith("/hooks"):
            operation["parameters"] += _describe_webhook_headers(webhook_secret)
            operation["requestBody"] = _describe_body("application/json", _webhook())
        elif "POST" in (route.methods or ()):
            names = dict.fromkeys(fields, _TEXT) | {"csrf": {"const": csrf}}
            form = {"type": "object", "properties": names, "required": ["csrf"]}
            operation["requestBody"] = _describe_body("application/x-www-form-urlencoded", form)
        else:
            operation["parameters"] += [{"name": name, "in": "query", "schema": _TEXT} for name in _QUERIES]
        methods = {method.lower() for method in route.methods or ()} - {"head"}
        paths.setdefault(_PARAMETER.sub(r"{\1}", route.path), {}).update(dict.fromkeys(methods, operation))
    return {"openapi": "3.1.0", "info": {"title": "Pages", "version": "1"}, "paths": paths}


def _templates() -> Iterable[Path]:
    return (Path(str(web.__file__)).parent / "templates").glob("*.html")


def _describe_path(path: str, samples: Mapping[str, Sequence[Any]]) -> list[_Json]:
    parameters = []
    for name, kind in _PARAMETER.findall(path):
        other = {"type": "integer", "minimum": 0} if kind == "int" else {"type": "string", "minLength": 1}
        known = [{"enum": list(samples[name])}] if samples.get(name) else []
        parameters.append({"name": name, "in": "path", "required": True, "schema": {"anyOf": [*known, other]}})
    return parameters


def _describe_webhook_headers(secret: str) -> list[_Json]:
    values = {"x-gitlab-event": {"enum": list(_EVENTS)}, "x-gitlab-token": {"const": secret}}
    return [{"name": name, "in": "header", "required": True, "schema": schema} for name, schema in values.items()]


def _webhook() -> _Json:
    """What GitLab sends, with anything at all in it."""
    branch = {"anyOf": [_TEXT, {"type": "string", "pattern": "^refs/heads/[a-z]+$"}]}
    sha = {"anyOf": [_TEXT, {"type": "string", "pattern": "^[0-9a-f]{40}$"}]}
    number = {"type": "integer"}
    project = {"type": "object", "properties": {"path_with_namespace": _TEXT}}
    request = {
        "iid": number,
        "source_branch": _TEXT,
        "target_branch": _TEXT,
        "source_project_id": number,
        "target_project_id": number,
        "last_commit": {"type": "object", "properties": {"id": sha}, "required": ["id"]},
        "action": {"enum": ["open", "reopen", "close", "merge", "update"]},
        "updated_at": _TEXT,
        "title": _TEXT,
    }
    properties = {"ref": branch, "before": sha, "after": sha, "project": project}
    attributes = {"type": "object", "properties": request, "required": list(request)}
    return {"type": "object", "properties": {**properties, "object_attributes": attributes}, "required": ["project"]}


def _describe_body(kind: str, schema: _Json) -> _Json:
    return {"required": True, "content": {kind: {"schema": schema}}}


def _response() -> _Json:
    return {"description": "a page, or where to go on"}

"""Webhooks of the service: every ended run, to whoever wants it."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

import httpx

from patchgen_core.files import short_hash
from patchgen_service.forges.api import Api
from patchgen_service.posting.words import describe, run_address
from patchgen_service.views.run import RunDetail


def webhook_content(detail: RunDetail, address: str, base_url: str) -> dict[str, object]:
    """What a webhook says of a run."""
    line, counts = detail.line, detail.line.counts
    new = [
        {"item": result.item, "config": result.config, "path": result.path, "headline": result.headline}
        for result in detail.changed("new")
    ]
    run = {
        "id": line.id,
        "number": line.number,
        "url": run_address(base_url, line.id),
        "repository": line.repository,
        "branch": line.branch,
        "pull_request": line.pull_request,
        "sha": line.sha,
        "status": line.status,
        "description": describe(detail),
        "results": counts.total,
        "red": counts.bad,
        "new": new[:100],
        "fixed": counts.fixed,
    }
    return {"url": address, "payload": {"event": "run", "run": run}}


def send_webhook(http: httpx.Client, content: Mapping[str, Any], secret: str, key: str) -> str:
    """Send a webhook, signed with the repository's webhook secret; a ForgeError when it was not taken.

    ``X-Patchgen-Delivery`` is the same each time, so that a receiver handles what comes twice once.
    """
    body = json.dumps(content["payload"]).encode()
    headers = {"X-Patchgen-Event": "run", "X-Patchgen-Delivery": short_hash(key), "User-Agent": "pytest-patchgen"}
    if secret:
        headers["X-Patchgen-Signature-256"] = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    Api(http, content["url"], headers).send(body)
    return ""

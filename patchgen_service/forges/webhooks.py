"""Reading webhooks: whose they are, whether their signature is right, and what they say."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qs

from patchgen_service.forges.delivery import Delivery, Ignored, Refused
from patchgen_service.forges.forgejo.payloads import read_forgejo
from patchgen_service.forges.github.payloads import read_github
from patchgen_service.forges.gitlab.payloads import read_gitlab
from patchgen_service.forges.payloads import PayloadError
from patchgen_service.secrets import is_same

LARGEST = 25 * 1024 * 1024
"""The most bytes that any forge sends."""
_LONGEST_DELIVERY = 200


@dataclass(frozen=True)
class _Dialect:
    """Where a forge puts things, and what reads its payloads."""

    event: str
    deliveries: tuple[str, ...]
    is_genuine: Callable[[Mapping[str, str], bytes, str], bool]
    read: Callable[[str, bytes], Delivery | str]


def read_delivery(headers: Mapping[str, str], body: bytes, secret: str) -> Delivery | Ignored | Refused:
    """What a webhook of any forge says, when it was signed with the repository's secret.

    A repository without a secret takes no webhooks.
    """
    fields = {name.lower(): value for name, value in headers.items()}
    dialect = next((dialect for dialect in _DIALECTS if dialect.event in fields), None)
    if len(body) > LARGEST:
        return Refused("The delivery is too large.", 413)
    if dialect is None:
        return Refused("This is not a webhook of GitHub, GitLab, Forgejo or Gitea.", 400)
    if not secret or not dialect.is_genuine(fields, body, secret):
        return Refused("The signature does not match this repository's secret.", 401)
    digest = hashlib.sha256(body).hexdigest()
    names = (fields[name] for name in dialect.deliveries if fields.get(name))
    delivery = next((name for name in names if len(name) <= _LONGEST_DELIVERY and name.isprintable()), digest)
    try:
        answer = dialect.read(fields[dialect.event], _unwrap(fields, body))
    except PayloadError as error:
        return Refused(f"The payload is not understood: {error}", 400)
    if isinstance(answer, str):
        return Ignored(delivery, answer)
    return replace(answer, delivery=delivery, digest=digest)


def _unwrap(fields: Mapping[str, str], body: bytes) -> bytes:
    """The JSON of a delivery that is sent as a form."""
    if not fields.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return body
    try:
        return parse_qs(body.decode()).get("payload", [""])[0].encode()
    except ValueError as error:
        raise PayloadError(str(error)) from None


def _is_githubs(fields: Mapping[str, str], body: bytes, secret: str) -> bool:
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return is_same(fields.get("x-hub-signature-256", ""), expected)


def _is_forgejos(fields: Mapping[str, str], body: bytes, secret: str) -> bool:
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return is_same(fields.get("x-forgejo-signature") or fields.get("x-gitea-signature", ""), expected)


def _is_gitlabs(fields: Mapping[str, str], body: bytes, secret: str) -> bool:
    """GitLab signs with a signing token, or, older, sends the secret itself."""
    if "webhook-signature" not in fields:
        return is_same(fields.get("x-gitlab-token", ""), secret)
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = secret.encode()
    head = f"{fields.get('webhook-id', '')}.{fields.get('webhook-timestamp', '')}.".encode()
    expected = "v1," + base64.b64encode(hmac.new(key, head + body, hashlib.sha256).digest()).decode()
    return any(is_same(signature, expected) for signature in fields["webhook-signature"].split())


_DIALECTS = (
    _Dialect("x-gitlab-event", ("idempotency-key", "webhook-id", "x-gitlab-event-uuid"), _is_gitlabs, read_gitlab),
    _Dialect("x-forgejo-event", ("x-forgejo-delivery", "x-gitea-delivery"), _is_forgejos, read_forgejo),
    _Dialect("x-gitea-event", ("x-gitea-delivery",), _is_forgejos, read_forgejo),
    _Dialect("x-github-event", ("x-github-delivery",), _is_githubs, read_github),
)
"""In this order: Forgejo and Gitea send GitHub's headers, too."""

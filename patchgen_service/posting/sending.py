"""Sending what is due from the outbox, each thing once."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
import msgspec

from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Post, Repository
from patchgen_service.forges.api import ForgeError
from patchgen_service.forges.client import CheckRun, ForgeClient, Status
from patchgen_service.forges.clients import make_client
from patchgen_service.posting.mail import send_mail
from patchgen_service.posting.outgoing import send_webhook
from patchgen_service.records.posts import mark_failed, mark_sent, take_due_posts
from patchgen_service.records.repositories import read_secret
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import MailSettings

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Postage:
    """What is needed to send posts."""

    http: httpx.Client
    mail: MailSettings
    secrets: SecretBox


@dataclass(frozen=True)
class _Letter:
    """A post and what it is sent with, read at once, so that no transaction is open while it is sent."""

    post: Post
    token: str
    client: ForgeClient | None
    webhook_secret: str


def send_due_posts(transactions: Transactions, postage: Postage, clock: Clock, most: int = 50) -> int:
    """Send what is due, one after the other, and return how many were tried.

    A process that ends between sending and noting that leaves the post to be sent again; the forge is asked then
    whether it has it. Mail and webhooks cannot be asked for: they carry the same id again.
    """
    for count in range(most):
        with transactions() as session:
            posts = take_due_posts(session, clock(), 1)
            repository = session.get(Repository, posts[0].repository_id) if posts else None
            letter = _make_letter(posts[0], repository, postage) if posts and repository is not None else None
        if letter is None:
            return count
        _send_one(transactions, letter, postage, clock)
    return most


def make_marker(token: str, subject: str) -> str:
    """The hidden line by which a comment of the service is recognised: nobody without its token can foresee it."""
    return f"<!-- patchgen:{hmac.new(token.encode(), subject.encode(), hashlib.sha256).hexdigest()[:32]} -->"


def _make_letter(post: Post, repository: Repository, postage: Postage) -> _Letter:
    token = read_secret(repository, "forge_token", postage.secrets)
    client = make_client(postage.http, repository.forge, repository.forge_url, repository.name, token)
    return _Letter(post, token, client, read_secret(repository, "webhook_secret", postage.secrets))


def _send_one(transactions: Transactions, letter: _Letter, postage: Postage, clock: Clock) -> None:
    post = letter.post
    try:
        remote = _send(letter, postage, clock)
    except ForgeError as error:
        with transactions() as session:
            mark_failed(session, post.id, str(error), clock(), error.retry_after, error.is_final)
    except Exception as error:  # one post that cannot be sent must not keep back the others
        with transactions() as session:
            mark_failed(session, post.id, f"{type(error).__name__}: {error}", clock())
    else:
        with transactions() as session:
            mark_sent(session, post.id, remote, clock())


def _send(letter: _Letter, postage: Postage, clock: Clock) -> str:
    post, content = letter.post, letter.post.content
    if post.kind == "mail":
        return send_mail(content, postage.mail, post.key, clock())
    if post.kind == "webhook":
        return send_webhook(postage.http, content, letter.webhook_secret, post.key)
    if letter.client is None:
        raise ForgeError("refused", "the repository is on no forge, or the service has no token for it")
    return _post(letter.client, post, content, letter.token)


def _post(client: ForgeClient, post: Post, content: Mapping[str, Any], token: str) -> str:
    if post.kind == "status":
        return client.set_status(content["sha"], msgspec.convert(content, Status))
    if post.kind == "check_run":
        return client.put_check_run(msgspec.convert(content, CheckRun))
    if post.kind == "comment":
        marker = make_marker(token, post.subject)
        return client.put_comment(content["number"], f"{marker}\n{content['body']}", marker, post.remote)
    request = client.open_pull_request(content["branch"], content["base"], content["title"], content["body"])
    return str(request.number)

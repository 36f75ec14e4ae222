"""Sending what is due from the outbox, each thing once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
import msgspec

from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Post, Repository
from patchgen_service.forges.access import ForgeAccess
from patchgen_service.forges.api import ForgeError
from patchgen_service.forges.client import CheckRun, ForgeClient, Status
from patchgen_service.forges.github.app import GithubApp
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
    app: GithubApp | None = None

    @property
    def access(self) -> ForgeAccess:
        """How it gets into forges."""
        return ForgeAccess(self.secrets, self.app)


@dataclass(frozen=True)
class _Letter:
    """A post and whose it is, read at once, so that no transaction is open while it is sent."""

    post: Post
    repository: Repository


def send_due_posts(transactions: Transactions, postage: Postage, clock: Clock, most: int = 50) -> int:
    """Send what is due, one after the other, and return how many were tried.

    A process that ends between sending and noting that leaves the post to be sent again; the forge is asked then
    whether it has it. Mail and webhooks cannot be asked for: they carry the same id again.
    """
    for count in range(most):
        with transactions() as session:
            posts = take_due_posts(session, clock(), 1)
            repository = session.get(Repository, posts[0].repository_id) if posts else None
            letter = _Letter(posts[0], repository) if posts and repository is not None else None
        if letter is None:
            return count
        _send_one(transactions, letter, postage, clock)
    return most


def make_marker(secrets: SecretBox, subject: str) -> str:
    """The hidden line by which a comment of the service is recognised: nobody without its key can foresee it."""
    return f"<!-- patchgen:{secrets.sign(subject)[:32]} -->"


def _send_one(transactions: Transactions, letter: _Letter, postage: Postage, clock: Clock) -> None:
    post = letter.post
    try:
        remote = _send(letter, postage, clock)
    except ForgeError as error:
        can_change = error.kind == "authentication" and postage.access.forget_token(letter.repository)
        with transactions() as session:
            mark_failed(session, post.id, str(error), clock(), error.retry_after, error.is_final and not can_change)
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
        secret = read_secret(letter.repository, "webhook_secret", postage.secrets)
        return send_webhook(postage.http, content, secret, post.key)
    client = postage.access.open_client(postage.http, letter.repository)
    if client is None:
        raise ForgeError("refused", "the repository is on no forge, or the service has no token for it")
    return _post(client, post, content, make_marker(postage.secrets, post.subject))


def _post(client: ForgeClient, post: Post, content: Mapping[str, Any], marker: str) -> str:
    if post.kind == "status":
        return client.set_status(content["sha"], msgspec.convert(content, Status))
    if post.kind == "check_run":
        if not client.has_check_runs:
            raise ForgeError("refused", "GitHub takes check runs only from an app, which is not installed here")
        return client.put_check_run(msgspec.convert(content, CheckRun))
    if post.kind == "comment":
        body = f"{marker}\n{content['body']}"
        if not content["number"]:
            return client.put_commit_comment(content["sha"], body, marker, post.remote)
        return client.put_comment(content["number"], body, marker, post.remote)
    request = client.open_pull_request(content["branch"], content["base"], content["title"], content["body"])
    return str(request.number)

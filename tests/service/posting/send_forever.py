"""Sends what is due until it is killed: database, key, time, forge and its app's key are its arguments."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path

import httpx

from patchgen_service.database.engine import make_transactions, open_database
from patchgen_service.forges.github.app import GithubApp, read_private_key
from patchgen_service.posting.sending import Postage, send_due_posts
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import MailSettings

if __name__ == "__main__":
    url, key, now, forge, pem = sys.argv[1:]
    moment = datetime.fromisoformat(now).astimezone(timezone.utc)
    with httpx.Client() as http:
        app = GithubApp(http, forge, "4711", read_private_key(Path(pem)), lambda: datetime.now(timezone.utc))
        postage = Postage(http, MailSettings(), SecretBox(key), app)
        send_due_posts(make_transactions(open_database(url)), postage, lambda: moment)

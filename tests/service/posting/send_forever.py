"""Sends what is due until it is killed: the database, the key, and nothing else are its arguments."""

from __future__ import annotations

import sys
from datetime import datetime, timezone

import httpx

from patchgen_service.database.engine import make_transactions, open_database
from patchgen_service.posting.sending import Postage, send_due_posts
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import MailSettings

if __name__ == "__main__":
    url, key, now = sys.argv[1:]
    moment = datetime.fromisoformat(now).astimezone(timezone.utc)
    with httpx.Client() as http:
        postage = Postage(http, MailSettings(), SecretBox(key))
        send_due_posts(make_transactions(open_database(url)), postage, lambda: moment)

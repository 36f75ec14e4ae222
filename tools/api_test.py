"""Schemathesis against a service with a short made history: nothing that it thinks of may be answered with a 500.

First the API, then the pages with their forms, and the webhooks.

python -m tools.api_test [examples for each operation]      # on SQLite, then on PostgreSQL
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from urllib.request import urlopen

from sqlalchemy import select

from patchgen_service.accounts.people import add_person, sign_in
from patchgen_service.accounts.tokens import SCOPES, add_token
from patchgen_service.cli.serving import open_site
from patchgen_service.database.tables import ArtifactUse, Post, Repository, Result, Run
from patchgen_service.settings import ServiceSettings
from patchgen_service.web.app import build_app
from patchgen_service.web.forms import FORM_COOKIE, form_token
from patchgen_service.web.site import Site
from patchgen_service.web.visits import SESSION_COOKIE
from tools.page_description import describe_pages
from tools.postgresql import PostgresServer
from tools.service_process import ServiceProcess

ROOT = Path(__file__).parents[1]
TESTER = Path(sys.prefix) / "api-tester"
sys.path.insert(0, str(ROOT / "examples" / "service"))

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
PAGE_CHECKS = "not_a_server_error"
WEBHOOK_SECRET = "whisper"
FORM_SECRET = "of-a-browser"


@dataclass(frozen=True)
class Tester:
    """Who asks: by a token, and by the cookies of somebody who has signed in, with what forms hold for them."""

    token: str
    cookies: str
    csrf: str


def make_service(site: Site, days: int = 4) -> Tester:
    """A service with a short made history, and an administrator of it."""
    from made_history import History

    with site.transactions() as session:
        now = datetime.now(timezone.utc)
        repository = History(session, site.store, ROOT / "examples" / "zoo", now, days=days).make()
        repository.webhook_secret, repository.branches = site.secrets.encrypt(WEBHOOK_SECRET), ["*"]
        person = add_person(session, "tester", "tools", now, is_admin=True)
        token = add_token(session, person, "tester", tuple(SCOPES), now)
        signed_in = sign_in(session, person, now)
    cookies = f"{SESSION_COOKIE}={signed_in}; {FORM_COOKIE}={FORM_SECRET}"
    return Tester(token, cookies, form_token(FORM_SECRET, signed_in))


def write_page_description(site: Site, tester: Tester, path: Path) -> Path:
    """Write the description of the pages, with names that there are in it."""
    columns = {"run": Run.id, "result": Result.id, "repository": Repository.id, "branch": Run.branch, "post": Post.id}
    with site.readings() as session:
        samples = {name: session.scalars(select(column).distinct().limit(5)).all() for name, column in columns.items()}
        samples["digest"] = session.scalars(select(ArtifactUse.digest).limit(5)).all()
    pages = describe_pages(build_app(site).routes, samples, tester.csrf, WEBHOOK_SECRET)
    path.write_text(json.dumps(pages), encoding="utf-8")
    return path


def run_schemathesis(description: str, checks: str, examples: int, folder: Path, *arguments: str) -> int:
    """Run it over a description; returns its exit code."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", description, "--checks", checks]
    command += ["--max-examples", str(examples), "--seed", "7", "--no-color", "--continue-on-failure"]
    command += ["--warnings", "off", "--request-timeout", "60", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(TESTER)}
    return subprocess.run(command, cwd=folder, env=environment).returncode


def check(folder: Path, database: str, examples: int) -> list[int]:
    """Run it against one kind of database: over the API, then over the pages; returns its exit codes."""
    site = open_site(ServiceSettings(folder, database=database))
    tester = make_service(site)
    pages = write_page_description(site, tester, folder / "pages.json")
    variables = {"PATCHGEN_DATABASE": database, "PATCHGEN_INDEX_URL": "http://127.0.0.1:9"}
    variables |= {"PATCHGEN_CALLS_PER_TOKEN": "0", "PATCHGEN_CALLS_PER_ADDRESS": "0"}
    with ServiceProcess(folder, variables) as service:
        urlopen(f"{service.url}/api/v1/openapi.json", timeout=120).close()  # the API is made with its first call
        by_token = ["--header", f"Authorization: Bearer {tester.token}"]
        by_cookies = ["--header", f"Cookie: {tester.cookies}", "--url", service.url]
        return [
            run_schemathesis(f"{service.url}/api/v1/openapi.json", CHECKS, examples, folder, *by_token),
            run_schemathesis(str(pages), PAGE_CHECKS, examples, folder, *by_cookies),
        ]


def main() -> int:
    """Check on both kinds of database; returns 1 where one failed."""
    examples = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        codes = check(Path(folder) / "sqlite", "", examples)
        with PostgresServer() as server:
            codes += check(Path(folder) / "postgresql", server.make_database("tested"), examples)
    print(f"exit codes: {codes}")
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())

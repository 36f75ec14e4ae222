"""Visitors of the pages: a browser without JavaScript, and what it reads."""

from __future__ import annotations

import html
import re
from pathlib import Path

from service_samples import NOW, make_result
from service_team import Team
from starlette.testclient import TestClient

from patchgen_core.build.results import Cause
from patchgen_core.checks.result import CheckResult, FileDifference
from patchgen_service.accounts.people import add_person, find_person, sign_in
from patchgen_service.accounts.roles import set_role
from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Run
from patchgen_service.records.files import keep_file
from patchgen_service.secrets import open_secrets
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store
from patchgen_service.web.app import build_app
from patchgen_service.web.site import Site
from patchgen_service.web.visits import SESSION_COOKIE

PASSWORD = "correct horse battery"
DIFF = """--- models/toy.py (checked in)
+++ models/toy.py (generated now)
@@ -1,2 +1,2 @@
 def forward(x):
-    return x * 2
+    return x * 3
"""
SHA = "a" * 40


def make_site(transactions: Transactions, store: Store, folder: Path, **options: object) -> Site:
    """A site over a database; its clock stands still."""
    secrets = open_secrets(folder, {}, True)
    settings = ServiceSettings(folder)
    return Site(settings, secrets, store, transactions, transactions, clock=lambda: NOW, **options)  # type: ignore[arg-type]


class Visitor(TestClient):
    """A browser without JavaScript; it sends the forms that it is shown."""

    def __init__(self, site: Site) -> None:
        super().__init__(build_app(site), base_url="http://127.0.0.1", follow_redirects=True)

    def sign_in(self, name: str, password: str = PASSWORD) -> str:
        """Sign in by the form, and return the page that comes."""
        return self.submit("/sign-in", "/sign-in", name=name, password=password).text

    def enter(self, name: str) -> None:
        """Sign in without the form: passwords are slow to check on purpose."""
        site: Site = self.app.state.site  # type: ignore[attr-defined]
        with site.transactions() as session:
            self.cookies.set(SESSION_COOKIE, sign_in(session, find_person(session, name), NOW))

    def submit(self, page: str, action: str, **fields: str):  # type: ignore[no-untyped-def]
        """Send a form of a page, with its hidden token, and return the response."""
        text = self.get(page).text
        token = re.search(r'name="csrf" value="(\w+)"', text)
        assert token is not None, text
        return self.post(action, data={"csrf": token[1], **fields})


def words_of(page: str) -> str:
    """What a page says, without its tags."""
    body = page.partition("<main")[2].partition(">")[2].partition("</main>")[0]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", body)))


def drifted(config: str = "models.toy", diff: str = DIFF) -> CheckResult:
    """A drift with its diff."""
    file = FileDifference("models/toy.py", False, diff, diff)
    return make_result(config, status="drifted", causes=(Cause("config changed"),), files=(file,))


def add_member(team: Team, name: str, role: str = "", is_admin: bool = False, password: str = "") -> None:
    """A person, and their role in the repository."""
    with team.transactions() as session:
        person = add_person(session, name, "tests", NOW, password, is_admin=is_admin)
        if role:
            set_role(session, person, team.repository(session), role, "tests", NOW)  # type: ignore[arg-type]


def red_run(team: Team, *others: CheckResult, baseline: Run | None = None) -> str:
    """A run that drifted, with the file as it should be; its id."""
    run = team.begin(f"{team.count + 10:040x}", subject="Change a patch", author="ada")
    team.start(run)
    with team.transactions() as session:
        session.get_one(Run, run.id).baseline_id = baseline.id if baseline is not None else None
    team.add(run, drifted(), *others)
    with team.transactions() as session:
        keep_file(session, team.store, run.id, "generated", "models/toy.py", b"def forward(x): ...\n", team.now)
    team.end(run)
    return run.id

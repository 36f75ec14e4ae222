"""From a push to green again: a real service, a real git repository and a real browser."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.common.by import By
from service_samples import GitProject
from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.accounts.people import add_person
from patchgen_service.accounts.roles import set_role
from patchgen_service.cli.serving import open_site
from patchgen_service.database.tables import Repository, Run, Trigger
from patchgen_service.settings import ServiceSettings
from patchgen_service.web.site import Site
from tests.report.browser import Browser, start_browser
from tests.service.web.test_browser import next_page, sign_in, wait_for
from tools.postgresql import PostgresServer
from tools.service_process import PASSWORD, ServiceProcess

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SECRET = "whisper"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = start_browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()


@pytest.fixture
def forge(tmp_path: Path, git_project: GitProject) -> Path:
    """The repository as a forge has it."""
    subprocess.run(["git", "clone", "-q", "--bare", git_project.folder, tmp_path / "forge.git"], check=True)
    return tmp_path / "forge.git"


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str:
    """The setting of the database; empty for SQLite in the folder of the service."""
    if request.param == "sqlite":
        return ""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.make_database("story")


def open_service(folder: Path, forge: Path, database: str) -> Site:
    """A service with the repository, and somebody who may approve."""
    site = open_site(ServiceSettings(folder, database=database))
    values = {"branches": ["*"], "projects": ["."], "checks": ["drift", "contract"], "created": site.clock()}
    with site.transactions() as session:
        secret = site.secrets.encrypt(SECRET)
        repository = Repository(name="acme/models", url=str(forge), webhook_secret=secret, **values)
        session.add(repository)
        session.flush()
        person = add_person(session, "grace", "tests", site.clock(), PASSWORD)
        set_role(session, person, repository, "approver", "tests", site.clock())
    return site


def push(project: GitProject, forge: Path, service: ServiceProcess) -> str:
    """Push to the forge, which tells the service as GitHub does; returns the commit."""
    before, sha = project.git("rev-parse", "HEAD"), project.commit("Change a patch")
    project.git("push", "--quiet", str(forge), "main")
    told = {"ref": "refs/heads/main", "before": before, "after": sha, "repository": {"full_name": "acme/models"}}
    body = json.dumps(told).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-github-event": "push", "x-github-delivery": sha, "x-hub-signature-256": f"sha256={signature}"}
    assert httpx.post(f"{service.url}/hooks/1", content=body, headers=headers).status_code == 202
    return sha


def wait_for_run(site: Site, is_it: Callable[[Session], Run | None]) -> Run:
    deadline = time.monotonic() + 120
    while True:
        with site.readings() as session:
            if (run := is_it(session)) is not None:
                return run
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_a_push_with_a_drifted_file_is_red_is_approved_and_green(
    browser: Browser, tmp_path: Path, git_project: GitProject, forge: Path, database: str
) -> None:
    site = open_service(tmp_path / "service", forge, database)
    variables = {"PATCHGEN_DATABASE": database, "PATCHGEN_INDEX_URL": "http://127.0.0.1:9"}
    with ServiceProcess(tmp_path / "service", variables) as service:
        sign_in(browser, service)
        git_project.write_config("toy", "return x * 5")
        sha = push(git_project, forge, service)
        red = wait_for_run(site, lambda session: session.scalar(select(Run).filter_by(sha=sha)))
        browser.get(f"{service.url}/runs/{red.id}")
        wait_for(browser, "What to do")
        assert "return x * 5" in browser.find_element(By.CSS_SELECTOR, "details.diff").text
        with next_page(browser):
            browser.find_element(By.CSS_SELECTOR, "#approve button.primary").click()
        assert "Approved by grace" in browser.find_element(By.TAG_NAME, "main").text
        approved = select(Run).join(Trigger, Trigger.id == Run.trigger_id).where(Trigger.kind == "approval")
        green = wait_for_run(site, lambda session: session.scalar(approved.where(Run.status == "passed")))
        browser.get(f"{service.url}/repositories/1/branches/main")
        assert "passed" in browser.find_element(By.CSS_SELECTOR, "table.runs tbody tr").text
    git_project.git("pull", "--quiet", str(forge), "main")
    assert git_project.git("rev-parse", "HEAD") == green.sha
    assert git_project.git("rev-parse", "HEAD^") == sha
    (generated,) = git_project.folder.rglob("patched_modeling_toy.py")
    assert "return x * 5" in generated.read_text()

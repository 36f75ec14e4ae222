"""The pages in a real browser: what somebody sees and presses when something is red."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait
from service_samples import make_result
from service_team import Team
from web_visitors import SHA, drifted, red_run

from patchgen_service.accounts.people import add_person
from patchgen_service.accounts.roles import set_role
from patchgen_service.cli.serving import open_site
from patchgen_service.database.tables import Repository
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.settings import ServiceSettings
from patchgen_service.web.site import utc_now
from tests.report.browser import Browser, start_browser
from tools.service_process import PASSWORD, ServiceProcess

pytestmark = pytest.mark.browser
IS_COMPLETE = "return document.readyState === 'complete'"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = start_browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service whose repository everybody may look at, and where nothing is carried out."""
    folder = tmp_path_factory.mktemp("service")
    site = open_site(ServiceSettings(folder))
    with site.transactions() as session:
        repository = Repository(name="acme/models", url=str(folder), is_public=True, created=utc_now())
        session.add(repository)
        session.flush()
        person = add_person(session, "grace", "tests", utc_now(), PASSWORD)
        set_role(session, person, repository, "approver", "tests", utc_now())
    with ServiceProcess(folder, {"PATCHGEN_WORKERS": "0", "PATCHGEN_INDEX_URL": "http://127.0.0.1:9"}) as service:
        yield service


@pytest.fixture(scope="module")
def web_team(service: ServiceProcess) -> Team:
    site = open_site(ServiceSettings(service.folder))
    return Team(site.transactions, site.store, utc_now())


@contextmanager
def next_page(browser: Browser) -> Iterator[None]:
    """Do what leads to another page, and wait until all of it is there; it begins with one that is there."""
    WebDriverWait(browser, 30).until(lambda _: browser.run(IS_COMPLETE))
    browser.run("window.isLeft = true")
    yield
    wait = WebDriverWait(browser, 30, ignored_exceptions=[WebDriverException])
    wait.until(lambda _: browser.run(f"{IS_COMPLETE} && !window.isLeft"))


def wait_for(browser: Browser, text: str) -> None:
    def is_there(_: object) -> bool:
        return text in browser.find_element(By.TAG_NAME, "main").text

    WebDriverWait(browser, 30, ignored_exceptions=[Exception]).until(is_there)


def sign_in(browser: Browser, service: ServiceProcess) -> None:
    browser.delete_all_cookies()
    browser.get(f"{service.url}/sign-in")
    browser.find_element(By.NAME, "name").send_keys("grace")
    with next_page(browser):
        browser.find_element(By.NAME, "password").send_keys(PASSWORD + Keys.ENTER)
    assert browser.current_url == f"{service.url}/", browser.find_element(By.TAG_NAME, "main").text


def test_a_run_turns_red_and_shows_its_diff_while_somebody_looks(
    browser: Browser, service: ServiceProcess, web_team: Team
) -> None:
    run = web_team.begin(SHA, branch="live")
    web_team.start(run)
    browser.get(f"{service.url}/runs/{run.id}")
    wait_for(browser, "none of them red")
    web_team.add(run, drifted("models.first"))
    wait_for(browser, "1 of them red")
    assert "return x * 3" in browser.find_element(By.CSS_SELECTOR, "details.diff").text
    browser.find_element(By.CSS_SELECTOR, "details.config > summary").click()
    web_team.add(run, make_result("models.second", "contract", "failed"))
    wait_for(browser, "2 of them red")
    assert "models.second" in browser.find_element(By.TAG_NAME, "main").text
    web_team.end(run)
    wait_for(browser, "broken")
    assert not browser.find_elements(By.CSS_SELECTOR, "[hx-get]")


def test_who_signs_in_approves_what_is_shown(browser: Browser, service: ServiceProcess, web_team: Team) -> None:
    run = red_run(web_team)
    browser.get(f"{service.url}/runs/{run}")
    assert not browser.find_elements(By.CSS_SELECTOR, "#approve button.primary")
    sign_in(browser, service)
    assert "Waits for an approval" in browser.find_element(By.TAG_NAME, "main").text
    with next_page(browser):
        browser.find_element(By.CSS_SELECTOR, f".todo a.main-link[href^='/runs/{run}']").click()
    with next_page(browser):
        browser.find_element(By.CSS_SELECTOR, "#approve button.primary").click()
    assert "Approved by grace" in browser.find_element(By.TAG_NAME, "main").text


@pytest.mark.slow
def test_a_button_stays_under_the_finger_while_results_come(
    browser: Browser, service: ServiceProcess, web_team: Team
) -> None:
    run = web_team.begin(SHA, branch="pressed")
    web_team.start(run)
    sign_in(browser, service)
    browser.get(f"{service.url}/runs/{run.id}")
    browser.run("window.answers = 0; document.addEventListener('htmx:beforeOnLoad', () => { window.answers += 1; })")
    ActionChains(browser).click_and_hold(browser.find_element(By.ID, "cancel")).perform()
    web_team.add(run, drifted("models.first"))
    WebDriverWait(browser, 30).until(lambda _: browser.run("return window.answers > 1"))
    with next_page(browser):
        ActionChains(browser).release().perform()
    assert "cancelled by grace" in browser.find_element(By.TAG_NAME, "main").text


def test_pages_are_walked_with_the_keyboard(browser: Browser, service: ServiceProcess, web_team: Team) -> None:
    run = red_run(web_team, make_result("models.other"))
    browser.get(f"{service.url}/runs/{run}")
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("/")
    browser.switch_to.active_element.send_keys("other" + Keys.ESCAPE)
    rows = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#grid tbody tr") if row.is_displayed()]
    assert len(rows) == 1
    assert "other" in rows[0]
    body.send_keys("j")
    assert browser.find_elements(By.CSS_SELECTOR, ".row.is-at")
    body.send_keys("ga")
    WebDriverWait(browser, 30).until(lambda _: browser.current_url.endswith("/approvals"))


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.slow
def test_no_page_is_wider_than_its_screen_or_breaks_its_policy(
    browser: Browser, service: ServiceProcess, web_team: Team, width: int
) -> None:
    run = red_run(web_team)
    sign_in(browser, service)
    browser.show_as(width)
    browser.get_log("browser")
    for address in ("/", f"/runs/{run}", "/repositories/1", "/repositories/1/branches/main", "/work", "/settings"):
        browser.get(service.url + address)
        assert browser.run("return document.documentElement.scrollWidth") <= width, address
    assert [entry["message"] for entry in browser.get_log("browser")] == []


@pytest.mark.slow
def test_colours_are_as_the_system_has_them_or_as_they_are_chosen(browser: Browser, service: ServiceProcess) -> None:
    def background() -> str:
        return str(browser.run("return getComputedStyle(document.body).backgroundColor"))

    browser.show_as(scheme="dark")
    browser.get(service.url)
    dark = background()
    browser.find_element(By.ID, "theme").click()
    assert background() != dark
    browser.get(f"{service.url}/work")
    assert background() != dark
    browser.delete_all_cookies()
    browser.get(service.url)
    assert background() == dark


def test_a_new_run_of_a_branch_is_listed(browser: Browser, service: ServiceProcess, web_team: Team) -> None:
    with web_team.transactions() as session:
        repository = session.get_one(Repository, 1)
        cause = RunCause("manual", "button-1", "listed", SHA, subject="Something new")
        begin_run(session, repository, cause, utc_now())
    browser.get(f"{service.url}/repositories/1/branches/listed")
    assert "Something new" in browser.find_element(By.CSS_SELECTOR, "table.runs").text

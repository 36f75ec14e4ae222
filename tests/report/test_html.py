"""The HTML reports in a real browser: filters, keyboard, names and roles, contrast, a phone's width, no script."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from patchgen_core.report.gate.formats import write_report
from patchgen_core.report.matrix.html import write_matrix
from patchgen_core.report.upgrade.html import write_upgrade
from tests.report import report_samples as samples
from tests.report.browser import Browser, start_browser

pytestmark = pytest.mark.browser

PAGES = ("gate", "upgrade", "matrix")
SHOWN = "return [...document.querySelectorAll('details.config')].filter(e => !e.hidden).map(e => e.id)"
ROWS = "return [...document.querySelectorAll('#heat tr[data-of]')].filter(e => !e.hidden).map(e => e.dataset.of)"
UNFOLD = "document.querySelectorAll('details').forEach(e => { e.open = true })"
SEEN = """
const [cell] = arguments;
cell.closest(".scroll").scrollIntoView({ block: "center", inline: "nearest" });
const box = cell.getBoundingClientRect();
return document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2) === cell"""
FOCUSED = (
    """const e = document.activeElement; return e.id || e.name || e.getAttribute('href') || e.textContent.trim()"""
)
CONTRAST = """
const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
const light = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const [r, g, b, a = 1] = parse(getComputedStyle(e).backgroundColor);
    if (a === 1) return [r, g, b];
    if (a !== 0) throw new Error("half transparent");
  }
  throw new Error("no background");
};
const found = [];
const add = (element, color, what) => {
  const [one, two] = [light(parse(color).slice(0, 3)), light(behind(element))];
  const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
  found.push([ratio, `${what} ${element.tagName}.${element.className.baseVal ?? element.className} ${color}`]);
};
for (const element of document.body.querySelectorAll("*")) {
  if (element.closest("script, .unseen, [hidden], option, title, desc") || !element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join("").trim();
  if (text) add(element, element.namespaceURI.endsWith("svg") ? style.fill : style.color, text.slice(0, 30));
  for (const pseudo of ["::before", "::after"]) {
    const drawn = getComputedStyle(element, pseudo);
    if (!["none", "normal", '""'].includes(drawn.content)) add(element, drawn.color, pseudo);
  }
}
found.sort((a, b) => a[0] - b[0]);
return [found.length, found.slice(0, 3)];
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every page of the samples."""
    folder = tmp_path_factory.mktemp("pages")
    write_report(samples.gate_report(), folder / "gate.html", samples.ROOT)
    write_upgrade(samples.upgrade_report(), folder / "upgrade.html")
    write_matrix(samples.matrix_report(), folder / "matrix.html")
    write_report(samples.many_gate(500), folder / "many.html", samples.ROOT)
    return folder


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    profile = tmp_path_factory.mktemp("profile")
    browser = start_browser(profile)
    yield browser
    browser.quit()
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def browser(started: Browser) -> Browser:
    started.show_as()
    return started


def names(browser: Browser) -> list[str]:
    """The shown configs, in short."""
    return [str(name).removeprefix("c-zoo.").removesuffix("_gpu_patch_gen_config") for name in browser.run(SHOWN)]


def counted(browser: Browser, text: str) -> None:
    """Wait until the number of shown configs is announced."""
    WebDriverWait(browser, 5).until(lambda b: b.find_element(By.ID, "count").text == text)


def view(browser: Browser) -> dict[str, list[str]]:
    return parse_qs(browser.current_url.partition("#")[2])


def press(browser: Browser, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.mostly_slow(1)
def test_a_page_loads_nothing_complains_of_nothing_and_runs_no_text(browser: Browser, folder: Path, name: str) -> None:
    browser.get_log("browser")
    browser.open(folder / f"{name}.html")
    browser.run(UNFOLD)
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []
    assert browser.title.endswith(f": patchgen {name}")


@pytest.mark.slow
def test_filters_narrow_configs_and_map_and_stay_in_the_address(browser: Browser, folder: Path) -> None:
    browser.open(folder / "gate.html")
    assert len(names(browser)) == 5
    counted(browser, "5 of 5 shown")
    browser.find_element(By.NAME, "q").send_keys("FIELD missing")
    assert names(browser) == ["toy"]
    counted(browser, "1 of 5 shown")
    assert view(browser) == {"q": ["FIELD missing"]}
    browser.find_element(By.ID, "clear").click()
    counted(browser, "5 of 5 shown")
    assert view(browser) == {}
    for status in ("error", "drifted"):
        browser.find_element(By.CSS_SELECTOR, f"input[value={status}]").click()
    assert names(browser) == ["bad", "toy"]
    browser.find_element(By.NAME, "check").send_keys("parity")
    counted(browser, "1 of 5 shown")
    assert names(browser) == ["toy"]
    browser.find_element(By.NAME, "kind").send_keys("PG205")
    assert browser.run(ROWS) == browser.run(SHOWN) == ["c-zoo.toy_gpu_patch_gen_config"]
    assert view(browser) == {"status": ["error", "drifted"], "check": ["parity"], "kind": ["PG205"]}
    browser.find_element(By.NAME, "kind").send_keys(Keys.ARROW_DOWN)
    counted(browser, "0 of 5 shown")
    assert names(browser) == []
    assert browser.find_element(By.ID, "none").is_displayed()


@pytest.mark.slow
def test_an_address_brings_its_view_back(browser: Browser, folder: Path) -> None:
    browser.open(folder / "gate.html", "#status=warned&q=not+used&theme=dark")
    assert names(browser) == ["warned"]
    assert browser.find_element(By.NAME, "q").get_attribute("value") == "not used"
    assert browser.find_element(By.ID, "theme").text == "Colours: dark"
    browser.open(folder / "gate.html", "#c-zoo.toy_gpu_patch_gen_config")
    assert browser.find_element(By.ID, "c-zoo.toy_gpu_patch_gen_config").get_attribute("open")
    assert len(names(browser)) == 5
    browser.open(folder / "gate.html", "#status=nonsense&kind=nonsense&theme=nonsense&at=nonsense")
    assert len(names(browser)) == 5


def test_the_map_leads_to_a_config(browser: Browser, folder: Path) -> None:
    browser.open(folder / "matrix.html")
    config = browser.find_element(By.ID, "c-zoo.broken_gpu_patch_gen_config")
    assert not config.get_attribute("open")
    browser.find_element(By.PARTIAL_LINK_TEXT, "broken").click()
    assert config.get_attribute("open")
    assert browser.run("return document.activeElement.parentElement.id") == config.get_attribute("id")
    assert view(browser) == {"at": ["c-zoo.broken_gpu_patch_gen_config"]}
    browser.find_element(By.CSS_SELECTOR, "#heat tr:nth-child(2) td").click()
    assert browser.find_element(By.ID, "c-zoo.fine_gpu_patch_gen_config").get_attribute("open")


@pytest.mark.parametrize("width", [360, 760, 1280])
@pytest.mark.mostly_slow(1)
def test_a_matrix_opens_on_the_newest_release_and_shows_that_there_are_older(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    browser.show_as(width)
    write_matrix(samples.wide_matrix_report(40), tmp_path / "wide.html")
    browser.open(tmp_path / "wide.html")
    browser.run(UNFOLD)
    for table in browser.find_elements(By.CSS_SELECTOR, ".scroll:has(th)"):
        wait_for_more(browser, table, "left")
        assert browser.run(SEEN, table.find_element(By.CSS_SELECTOR, "th:last-child"))
        browser.run("arguments[0].scrollLeft = 40", table)
        wait_for_more(browser, table, "left right")
        browser.run("arguments[0].scrollLeft = 0", table)
        wait_for_more(browser, table, "right")


def wait_for_more(browser: Browser, table: WebElement, sides: str) -> None:
    """Wait until a table shows that there is more of it on these sides, and on no other."""
    WebDriverWait(browser, 30).until(lambda _: table.get_attribute("data-more") == sides)
    assert browser.run("return getComputedStyle(arguments[0]).maskImage", table) != "none"


def test_colours_follow_the_system_until_they_are_chosen(browser: Browser, folder: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser.open(folder / "gate.html")
    light = browser.run(ground)
    browser.show_as(scheme="dark")
    dark = browser.run(ground)
    assert light != dark
    button = browser.find_element(By.ID, "theme")
    seen = []
    for _ in range(3):
        button.click()
        seen.append((button.text, browser.run(ground), view(browser).get("theme")))
    assert seen == [
        ("Colours: light", light, ["light"]),
        ("Colours: dark", dark, ["dark"]),
        ("Colours: system", dark, None),
    ]


@pytest.mark.slow
def test_everything_is_there_without_a_script(browser: Browser, folder: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(folder / "gate.html")
        assert not browser.find_element(By.ID, "filters").is_displayed()
        assert not browser.find_element(By.ID, "theme").is_displayed()
        config = browser.find_element(By.ID, "c-zoo.toy_gpu_patch_gen_config")
        assert "PG205 error" not in config.text
        config.find_element(By.TAG_NAME, "summary").click()
        for text in ("upstream moved: Norm.forward changed", "return self.weight * (x * self.scale)", "PG205 error"):
            assert text in config.text
        assert browser.find_element(By.ID, "count").text == "5 in all"
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.mostly_slow(1)
def test_a_phone_needs_no_scrolling_to_the_side(browser: Browser, folder: Path, name: str) -> None:
    browser.show_as(360, 740)
    browser.open(folder / f"{name}.html")
    for script in ("", UNFOLD):
        browser.run(script)
        width, inner = browser.run("return [document.scrollingElement.scrollWidth, innerWidth]")
        assert width <= inner == 360


def test_a_diff_is_side_by_side_where_there_is_room_and_unified_elsewhere(browser: Browser, folder: Path) -> None:
    browser.open(folder / "gate.html")
    browser.run(UNFOLD)
    places = """
        const block = [...document.querySelectorAll('.g')].find(e => e.querySelector('del') && e.querySelector('ins'));
        const box = (name) => { const r = block.querySelector(name).getBoundingClientRect(); return [r.left, r.top]; };
        return [box('del'), box('ins')]"""
    old, new = browser.run(places)
    assert old[1] == new[1]
    assert old[0] < new[0]
    browser.show_as(360, 740)
    old, new = browser.run(places)
    assert old[0] == new[0]
    assert old[1] < new[1]


def test_the_keyboard_reaches_and_works_everything(browser: Browser, folder: Path) -> None:
    browser.open(folder / "gate.html")
    order = []
    for _ in range(22):
        press(browser, Keys.TAB)
        order.append(browser.run(FOCUSED))
        assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") != "none" or (
            browser.run("return document.activeElement.matches('.chip input')")
        )
    assert order[:2] == ["#results", "theme"]
    at = order.index("q")
    fields = ["q", "status", "status", "status", "status", "status", "kind", "check"]
    assert order[at : at + 8] == fields  # there is nothing to clear
    assert order[at + 8] == "unfold"
    browser.run("document.querySelector('a.skip').focus()")
    press(browser, Keys.ENTER)
    assert browser.run(FOCUSED) == "results"
    press(browser, Keys.TAB, Keys.TAB, Keys.ENTER)
    first = browser.find_element(By.CSS_SELECTOR, "details.config")
    assert first.get_attribute("open")
    press(browser, Keys.SPACE)
    assert not first.get_attribute("open")
    browser.find_element(By.CSS_SELECTOR, "input[value=clean]").send_keys(Keys.SPACE)
    assert names(browser) == ["clean"]


def test_unfolding_all_concerns_what_is_shown(browser: Browser, folder: Path) -> None:
    browser.open(folder / "gate.html", "#status=clean")
    button = browser.find_element(By.ID, "unfold")
    button.click()
    opened = "return [...document.querySelectorAll('details.config[open]')].map(e => e.id)"
    assert browser.run(opened) == ["c-zoo.clean_gpu_patch_gen_config"]
    assert button.text == "Fold all"
    button.click()
    assert browser.run(opened) == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.mostly_slow(1)
def test_what_is_worked_has_a_name_and_a_role(browser: Browser, folder: Path, name: str) -> None:
    browser.open(folder / f"{name}.html")
    browser.run(UNFOLD)
    told = [
        (element.aria_role, element.accessible_name)
        for element in browser.find_elements(
            By.CSS_SELECTOR, "a, button:not([disabled]), input, select, output, form, main, .scroll, svg[role], h3"
        )
    ]
    assert all(text for role, text in told if role not in ("main", "status")), told
    roles = [role for role, _ in told]
    for role in ("link", "button", "searchbox", "checkbox", "status", "search", "main", "region", "heading"):
        assert role in roles, role
    assert ("search", "Filter the results") in told
    heads = browser.find_elements(By.CSS_SELECTOR, "#heat th")
    assert {head.aria_role for head in heads} == {"columnheader", "rowheader"}
    assert {cell.aria_role for cell in browser.find_elements(By.CSS_SELECTOR, "#heat td")} <= {"cell", "gridcell"}
    if name == "gate":
        assert ("image", "ToyForCausalLM, batch 'padded', float32: layers") in told
        assert browser.find_element(By.CSS_SELECTOR, ".g del").aria_role == "deletion"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.mostly_slow(2)
def test_text_can_be_told_from_its_background(browser: Browser, folder: Path, name: str, scheme: str) -> None:
    browser.show_as(scheme=scheme)
    browser.open(folder / f"{name}.html")
    browser.run(UNFOLD)
    count, lowest = browser.run(CONTRAST)
    assert count > 100
    assert lowest[0][0] >= 4.5, lowest


@pytest.mark.slow
def test_paper_gets_everything_but_the_filters(browser: Browser, folder: Path) -> None:
    browser.open(folder / "gate.html")
    browser.show_as(scheme="dark", medium="print")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not browser.find_element(By.ID, "filters").is_displayed()
    assert not browser.find_element(By.ID, "theme").is_displayed()
    bodies = browser.run("return [...document.querySelectorAll('.config > .body')].map(e => e.checkVisibility())")
    assert bodies == [True] * 5


@pytest.mark.slow
def test_500_configs_open_and_filter(browser: Browser, folder: Path) -> None:
    browser.open(folder / "many.html")
    assert len(browser.run(SHOWN)) == 500
    search = browser.find_element(By.NAME, "q")
    search.send_keys("model_12")
    assert names(browser) == [f"model_{n}" for n in (120, 121, 122, 125, 126, 127, 123, 124, 128, 129)]
    counted(browser, "10 of 500 shown")
    search.clear()
    search.send_keys(Keys.SPACE)
    browser.find_element(By.CSS_SELECTOR, "input[value=clean]").click()
    counted(browser, "200 of 500 shown")
    assert len(browser.run(ROWS)) == len(browser.run(SHOWN)) == 200

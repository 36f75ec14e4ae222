"""A person at VS Code: its engine with the extension, and a browser without a window that shows it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.report.browser import Browser, start_browser
from tools.vscode_engine import engine_command, find_engine, install_extension

T = TypeVar("T")
SECONDS = 120.0
SETTINGS = {
    "chat.disableAIFeatures": True,
    "editor.accessibilitySupport": "off",
    "editor.autoClosingBrackets": "never",
    "editor.autoClosingQuotes": "never",
    "editor.autoIndent": "none",
    "editor.cursorBlinking": "solid",
    "editor.formatOnType": False,
    "editor.minimap.enabled": False,
    "editor.stickyScroll.enabled": False,
    "editor.hover.height": 520,
    "extensions.ignoreRecommendations": True,
    "files.autoSave": "off",
    "workbench.activityBar.location": "hidden",
    "workbench.layoutControl.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
}


class Code:
    """VS Code with a folder open.

    Args:
        folder: the project.
        data: an empty folder for the extension, the settings and the browser's profile.
    """

    def __init__(self, folder: Path, data: Path) -> None:
        engine = find_engine()
        install_extension(engine, data)
        machine = data / "data" / "Machine"
        machine.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "patchgen_core", "lsp"]
        settings = {**SETTINGS, "patchgen.command": command, "patchgen.trace.server": "messages"}
        (machine / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        options = ["--host=127.0.0.1", "--port=0", "--without-connection-token", "--disable-workspace-trust"]
        started = engine_command(engine, *options, f"--server-data-dir={data}")
        self.log = data / "engine.log"
        with self.log.open("w") as log:
            self._engine = subprocess.Popen(started, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._engine.stdout is not None
        address = next(filter(None, (re.search(r"http://localhost:(\d+)", line) for line in self._engine.stdout)))
        self._port, self._folder = address[1], folder
        self.browser = start_browser(data / "profile")

    def close(self) -> None:
        """End all of it."""
        self.browser.quit()
        self._engine.terminate()
        self._engine.wait(30)

    def open(self, path: Path, width: int = 1200, height: int = 760) -> None:
        """Show a file and nothing else, in a window of a size."""
        browser: Browser = self.browser
        browser.show_as(width, height)
        files = json.dumps([["openFile", f"vscode-remote://127.0.0.1:{self._port}{path}"]])
        browser.get("about:blank")
        browser.get(f"http://127.0.0.1:{self._port}/?folder={quote(str(self._folder))}&payload={quote(files)}")
        self.find(".monaco-editor .view-line")
        self.find(".statusbar-item", "Ln ")
        if self._shown(".part.sidebar"):
            self.press(Keys.CONTROL, "b")
            self._wait(lambda: not self._shown(".part.sidebar"), "the side bar stays")
        if self._shown(".tab.active.dirty"):  # what was typed before
            self.run("File: Revert File")
            self._wait(lambda: not self._shown(".tab.active.dirty"), "the text stays")

    def press(self, *keys: str) -> None:
        """Press keys at once."""
        chain = ActionChains(self.browser)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in keys[:-1]:
            chain.key_up(key)
        chain.perform()

    def type(self, text: str) -> None:
        """Type a text where the cursor is."""
        ActionChains(self.browser).send_keys(text).perform()

    def go_to(self, line: int, column: int = 1) -> None:
        """Put the cursor somewhere; both count from 1."""
        self.press(Keys.CONTROL, "g")
        self.find(".quick-input-widget input")
        self.type(f"{line}:{column}")
        self.press(Keys.ENTER)
        self.find(".statusbar-item", f"Ln {line}, Col {column}")

    def run(self, command: str) -> None:
        """Run a command from the palette."""
        self.press(Keys.F1)
        self.find(".quick-input-widget input")
        self.type(command)
        self.find(".quick-input-list .monaco-list-row.focused", command)
        self.press(Keys.ENTER)

    def find(self, selector: str, text: str = "") -> WebElement:
        """The first element of a kind that shows a text, once it is there."""
        elements = self._wait(lambda: self._shown(selector, text), f"{selector} with {text!r} is not shown")
        return elements[0]

    def find_above(self, selector: str, text: str, line: str) -> WebElement:
        """The lowest such element above the line of the editor that has a text, once it is the lowest of its kind."""

        def look() -> WebElement | None:
            below = self.find(".view-line", line).location["y"]
            above = [element for element in self._shown(selector) if element.location["y"] < below]
            lowest = max(above, key=lambda element: float(element.location["y"]), default=None)
            return lowest if lowest is not None and text in _text(lowest) else None

        return self._wait(look, f"{selector} with {text!r} is not shown above {line!r}")

    def texts(self, selector: str) -> list[str]:
        """What all elements of a kind show."""
        return [_text(element) for element in self._shown(selector)]

    def _shown(self, selector: str, text: str = "") -> list[WebElement]:
        elements = self.browser.find_elements(By.CSS_SELECTOR, selector)
        return [element for element in elements if element.is_displayed() and text in _text(element)]

    def _wait(self, look: Callable[[], T | None], complaint: str) -> T:
        """What looking comes to, once it comes to anything."""
        ignored = [WebDriverException]  # what was shown may be gone while it is looked at
        return WebDriverWait(self.browser, SECONDS, ignored_exceptions=ignored).until(lambda _: look(), complaint)


def _text(element: WebElement) -> str:
    """What an element says, whether or not it is scrolled into view; its spaces are ordinary ones."""
    return str(element.get_property("textContent")).replace("\xa0", " ")

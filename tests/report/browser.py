"""A real browser for the HTML reports: chromium without a window, driven by selenium."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # which does not work for root
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",  # a click meets nothing while the page glides to where it is
    "--force-color-profile=srgb",
)
_IS_THERE = "return document.readyState === 'complete' && location.href.startsWith(arguments[0])"


class Browser(webdriver.Chrome):
    """Chromium with what its tests ask of it."""

    def open(self, page: Path, view: str = "") -> None:
        """Load a page anew, with a view in its address."""
        self.get("about:blank")
        self.get(page.as_uri() + view)
        # a loaded machine's driver has been seen to come back before the whole page was read
        WebDriverWait(self, 30).until(lambda _: self.run(_IS_THERE, page.as_uri()))

    def show_as(self, width: int = 1280, height: int = 900, scheme: str = "light", medium: str = "screen") -> None:
        """Set the width of the window, the system's colours, and the medium. Motion is reduced."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        named = [{"name": name, "value": value} for name, value in features.items()]
        self.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": named})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script."""
        return self.execute_script(script, *arguments)


def start_browser(folder: Path) -> Browser:
    """Start the browser of this machine; downloads nothing.

    Args:
        folder: an empty folder for its profile.
    """
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        raise FileNotFoundError("no chromium with its chromedriver on PATH: 'make test' installs them on Debian")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    return Browser(options=options, service=Service(driver))

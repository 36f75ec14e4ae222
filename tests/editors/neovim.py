"""A person at Neovim: a real one in a terminal, with the settings of docs/editors.md, and what that shows."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from tests.editors.terminal import SECONDS, Terminal, documented_settings

LOOK = """
vim.o.termguicolors, vim.o.number, vim.o.swapfile, vim.o.completeopt = true, true, false, "menuone,noselect"
vim.o.signcolumn, vim.o.laststatus, vim.o.background, vim.o.wrap = "yes", 0, "light", false
"""


class Neovim(Terminal):
    """Neovim in a folder.

    Args:
        folder: the project.
        data: an empty folder for settings and sockets.
        size: columns and rows.
    """

    def __init__(self, folder: Path, data: Path, size: tuple[int, int] = (110, 40)) -> None:
        settings = data / "init.lua"
        settings.write_text(LOOK + _settings(), encoding="utf-8")
        command = ["nvim", "--clean", "-u", str(settings)]
        super().__init__(folder, data, command, {"XDG_STATE_HOME": str(data)}, size)

    def open(self, path: str, text: str) -> None:
        """Edit a file, until it shows a text."""
        self.command(f"edit! +1 {path}")
        self.until_shown(text)
        end = time.monotonic() + SECONDS
        while "server: ready" not in self.screen:
            assert time.monotonic() < end, f"the server does not start:\n{self.screen}"
            self.lua("for _, c in pairs(vim.lsp.buf_get_clients()) do print(c.initialized and 'server: ready') end")
            time.sleep(0.5)

    def command(self, text: str) -> None:
        """Leave what is going on, and run a command of Neovim."""
        self.press("Escape", "Escape")
        self.type(f":{text}")
        self.press("Enter")

    def lua(self, code: str) -> None:
        """Run a piece of Lua."""
        self.command(f"lua {code}")

    def go_to(self, piece: str, keys: str = "") -> None:
        """Put the cursor on the first such piece of the text, and press keys there."""
        self.command("call cursor(1, 1) | nohlsearch")
        self.type(f"/\\V{piece}")
        self.press("Enter")
        self.type(keys)


def _settings() -> str:
    """The settings for the Neovim of this machine."""
    version = subprocess.run(["nvim", "--version"], check=True, capture_output=True, text=True).stdout
    release = re.match(r"NVIM v0\.(\d+)", version)
    return documented_settings("older-init.lua" if release and int(release[1]) < 11 else "init.lua", "lua")

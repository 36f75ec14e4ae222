"""A person at Neovim: a real one in a terminal, with the settings of docs/editors.md, and what that shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import ROOT

SECONDS = 45.0
LOOK = """
vim.o.termguicolors, vim.o.number, vim.o.swapfile, vim.o.completeopt = true, true, false, "menuone,noselect"
vim.o.signcolumn, vim.o.laststatus, vim.o.background, vim.o.wrap = "yes", 0, "light", false
"""


class Neovim:
    """Neovim in a folder; tmux is its terminal.

    Args:
        folder: the project.
        data: an empty folder for settings and sockets.
        size: columns and rows.
    """

    def __init__(self, folder: Path, data: Path, size: tuple[int, int] = (110, 40)) -> None:
        script = data / "bin" / "patchgen"  # of this environment, which need not be on PATH
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m patchgen_core "$@"\n')
        script.chmod(0o755)
        settings = data / "init.lua"
        settings.write_text(LOOK + documented_settings(), encoding="utf-8")
        paths = {
            "PATH": os.pathsep.join([str(script.parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        self._environment = {**os.environ, **paths, "XDG_STATE_HOME": str(data), "LC_ALL": "C.UTF-8"}
        self._socket = str(data / "tmux")
        columns, rows = map(str, size)
        command = shlex.join(["nvim", "--clean", "-u", str(settings)])
        begin = ["-f", os.devnull, "new-session", "-d", "-x", columns, "-y", rows, "-c", str(folder), command]
        self._tmux(*begin, ";", "set", "-g", "default-terminal", "tmux-256color")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        run = subprocess.run(command, env=self._environment, check=True, capture_output=True, text=True)
        return run.stdout

    def close(self) -> None:
        """End it, whatever is not saved."""
        self._tmux("kill-server")

    def open(self, path: str, text: str) -> None:
        """Edit a file, until it shows a text."""
        self.command(f"edit! +1 {path}")
        self.until_shown(text)
        end = time.monotonic() + SECONDS
        while "server: ready" not in self.screen:
            assert time.monotonic() < end, f"the server does not start:\n{self.screen}"
            self.lua("for _, c in pairs(vim.lsp.buf_get_clients()) do print(c.initialized and 'server: ready') end")
            time.sleep(0.5)

    def type(self, text: str) -> None:
        """Type a text."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("send-keys", *keys)

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

    @property
    def screen(self) -> str:
        """The lines that are shown."""
        return self._tmux("capture-pane", "-p")

    @property
    def colored_screen(self) -> str:
        """Those, with the terminal's codes of their looks."""
        return self._tmux("capture-pane", "-p", "-e")

    def until_shown(self, *texts: str) -> str:
        """The screen, once it shows all of some texts."""
        end = time.monotonic() + SECONDS
        while not all(text in self.screen for text in texts):
            assert time.monotonic() < end, f"{texts} are not shown:\n{self.screen}"
            time.sleep(0.1)
        return self.screen

    def until_hidden(self, text: str) -> None:
        """Wait until a text is no longer shown."""
        end = time.monotonic() + SECONDS
        while text in self.screen:
            assert time.monotonic() < end, f"{text!r} stays:\n{self.screen}"
            time.sleep(0.1)


def documented_settings() -> str:
    """The settings of docs/editors.md for the Neovim of this machine."""
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    version = subprocess.run(["nvim", "--version"], check=True, capture_output=True, text=True).stdout
    release = re.match(r"NVIM v0\.(\d+)", version)
    name = "older-init.lua" if release and int(release[1]) < 11 else "init.lua"
    return page.partition(f"```lua file={name}\n")[2].partition("```")[0]

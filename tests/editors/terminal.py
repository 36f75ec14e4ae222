"""A terminal with an editor in it that a person types at: tmux, with what is on the screen."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conftest import ROOT

SECONDS = 45.0


class Terminal:
    """A command in a folder, whose ``PATH`` begins with this environment's ``patchgen``.

    Args:
        folder: the project.
        data: a folder for settings and sockets, which has no ``bin`` yet.
        variables: what the command has in its environment beside what this process has.
        size: columns and rows.
    """

    def __init__(
        self,
        folder: Path,
        data: Path,
        command: Sequence[str],
        variables: Mapping[str, str],
        size: tuple[int, int] = (110, 40),
    ) -> None:
        script = data / "bin" / "patchgen"  # of this environment, which need not be on PATH
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m patchgen_core "$@"\n')
        script.chmod(0o755)
        paths = {
            "PATH": os.pathsep.join([str(script.parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        self._environment = {**os.environ, **paths, "LC_ALL": "C.UTF-8", **variables}
        self._socket = str(data / "tmux")
        columns, rows = map(str, size)
        begin = ["-f", os.devnull, "new-session", "-d", "-x", columns, "-y", rows, "-c", str(folder)]
        self._tmux(*begin, shlex.join(command), ";", "set", "-g", "default-terminal", "tmux-256color")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        run = subprocess.run(command, env=self._environment, check=True, capture_output=True, text=True)
        return run.stdout

    def close(self) -> None:
        """End it, whatever is not saved."""
        self._tmux("kill-server")

    def type(self, text: str) -> None:
        """Type a text."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("send-keys", *keys)

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


def documented_settings(name: str, language: str) -> str:
    """The settings of docs/editors.md that are to be in a file of a name."""
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    return page.partition(f"```{language} file={name}\n")[2].partition("```")[0]

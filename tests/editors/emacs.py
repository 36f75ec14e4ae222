"""A person at Emacs: a real one in a terminal, with the settings of docs/editors.md, and what that shows."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.editors.terminal import SECONDS, Terminal, documented_settings

EARLY = "(setq native-comp-deferred-compilation nil native-comp-jit-compilation nil)"
"""Nothing is compiled behind the test's back."""
LOOK = """
(setq inhibit-startup-screen t make-backup-files nil auto-save-default nil create-lockfiles nil
      xref-prompt-for-identifier nil server-socket-dir "{folder}" server-name "server")
(server-start)
"""


class Emacs(Terminal):
    """Emacs in a folder.

    Args:
        folder: the project.
        data: an empty folder, which is its home.
        size: columns and rows.
    """

    def __init__(self, folder: Path, data: Path, size: tuple[int, int] = (110, 44)) -> None:
        settings = data / ".emacs.d" / "init.el"
        settings.parent.mkdir()
        settings.with_name("early-init.el").write_text(EARLY, encoding="utf-8")
        self._server = data / "server"
        look = LOOK.format(folder=data)
        settings.write_text(look + documented_settings("init.el", "elisp"), encoding="utf-8")
        super().__init__(folder, data, ["emacs", "-nw"], {"HOME": str(data)}, size)
        self.until_shown("*scratch*", "For information about GNU Emacs")

    def open(self, path: str, text: str) -> None:
        """Edit a file as it is saved, until it shows a text and the server is there."""
        self.evaluate(f'(progn (find-file "{path}") (revert-buffer t t) (delete-other-windows) (goto-char 1))')
        self.press("C-l")  # eglot starts when a person does something
        self.until_shown(text, "[eglot:")

    def command(self, name: str) -> None:
        """Run a command by its name."""
        self.press("M-x")
        self.type(name)
        self.press("Enter")

    def evaluate(self, expression: str) -> str:
        """What an expression comes to where the cursor is."""
        inside = f"(with-current-buffer (window-buffer (selected-window)) {expression})"
        command = ["emacsclient", "--socket-name", str(self._server), "--eval", inside]
        run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
        return run.stdout.strip()

    def go_to(self, piece: str, into: int = 1) -> None:
        """Put the cursor into the first such piece of the text."""
        self.evaluate(f'(progn (goto-char 1) (search-forward "{piece}") (goto-char (+ (match-beginning 0) {into})))')

"""What an editor shows while a person waits."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

from lsprotocol import types
from pygls.lsp.server import LanguageServer


class Progress:
    """How far something is, in an editor that shows that; in another nothing happens."""

    def __init__(self, server: LanguageServer, title: str) -> None:
        self.server, self.title = server, title
        self.token = str(uuid.uuid4())
        window = server.client_capabilities.window
        self.is_shown = window is not None and bool(window.work_done_progress)

    async def begin(self, stop: Callable[[], None] | None = None) -> None:
        """Show that it begins; where ``stop`` can end it, a person can, and it is counted."""
        if not self.is_shown:
            return
        progress, loop = self.server.work_done_progress, asyncio.get_running_loop()
        await progress.create_async(self.token)
        percentage = None if stop is None else 0
        progress.begin(
            self.token, types.WorkDoneProgressBegin(self.title, cancellable=stop is not None, percentage=percentage)
        )
        cancelled = progress.tokens[self.token]

        def end(future: object) -> None:
            if stop is not None and cancelled.cancelled():
                loop.call_soon_threadsafe(stop)

        cancelled.add_done_callback(end)

    def report(self, message: str, percentage: int) -> None:
        """Show what has just ended."""
        if self.is_shown:
            value = types.WorkDoneProgressReport(message=message, percentage=percentage)
            self.server.work_done_progress.report(self.token, value)

    def end(self, message: str) -> None:
        """Show that it is over."""
        if self.is_shown:
            self.server.work_done_progress.end(self.token, types.WorkDoneProgressEnd(message=message))
            self.server.work_done_progress.tokens.pop(self.token, None)

"""The log of a service: standard error, a line for each event."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from typing import TextIO

_PLAIN = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """An event as a line of JSON: its ``time``, ``level``, ``logger``, ``message``, and a traceback as ``error``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        event = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["error"] = self.formatException(record.exc_info)
        return json.dumps(event)


def begin_to_log(stream: TextIO | None = None) -> None:
    """Log what the service does and what goes wrong anywhere: for programs as JSON, in a terminal for people."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter(_PLAIN) if handler.stream.isatty() else JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("patchgen").setLevel(logging.INFO)

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from patchgen_service.cli.logs import begin_to_log


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, own = logging.getLogger(), logging.getLogger("patchgen")
    before = (root.handlers[:], root.level, own.level)
    root.handlers = []  # those of pytest are not to be closed
    stream = io.StringIO()
    begin_to_log(stream)
    yield stream
    root.handlers, level, own_level = before
    root.setLevel(level)
    own.setLevel(own_level)


def test_each_event_is_a_line_of_json(stream: io.StringIO) -> None:
    logging.getLogger("somebody.else").info("not of interest")
    logging.getLogger("patchgen.jobs").info("run %s was cancelled", "1\n2")
    try:
        raise ValueError("five")
    except ValueError:
        logging.getLogger("somebody.else").exception("it failed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("info", "patchgen.jobs", "run 1\n2 was cancelled")
    assert first["time"].endswith("+00:00")
    assert "error" not in first
    assert (second["level"], second["error"].splitlines()[-1]) == ("error", "ValueError: five")

"""Where the stream of a run goes: a file, standard output, or a service."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.report.gate.stream import Send, Stream

_STANDARD_OUTPUT = "-"


def add_streaming(parser: argparse.ArgumentParser) -> None:
    """Add what concerns the stream of a run."""
    parser.add_argument(
        "--stream",
        metavar="FILE",
        help="write results to a file as they arrive, a line of JSON each; '-' is standard output, and everything "
        "else then goes to standard error",
    )
    parser.add_argument(
        "--push",
        metavar="URL",
        help="send results to the service at this address during the run; its token is in PATCHGEN_TOKEN",
    )


@contextmanager
def open_stream(options: argparse.Namespace) -> Iterator[Stream]:
    """The stream that the options ask for, which is told why a run could not be done; a PatchgenError where a file
    cannot be written."""
    with ExitStack() as stack:
        sends = [stack.enter_context(_write(options.stream))] if options.stream is not None else []
        if options.push is not None:
            sends.append(stack.enter_context(_push(options.push)))
        stream = Stream(sends)
        try:
            yield stream
        except PatchgenError as error:
            stream.fail(error.problems)
            raise


@contextmanager
def _push(url: str) -> Iterator[Send]:
    from patchgen_core.cli.ci_job import describe_commit  # urllib alone takes as long as an unchanged check
    from patchgen_core.cli.pushing import TOKEN, push_results

    commit = describe_commit(os.environ, Path.cwd())
    with push_results(url, os.environ.get(TOKEN, ""), commit) as send:
        yield send


@contextmanager
def _write(name: str) -> Iterator[Send]:
    with ExitStack() as stack:
        if name == _STANDARD_OUTPUT:
            file = stack.enter_context(_take_standard_output())
        else:
            try:
                file = stack.enter_context(open(name, "w", encoding="utf-8"))
            except OSError as error:
                raise PatchgenError(
                    f"the stream {display_path(Path(name))} cannot be written: {error.strerror}"
                ) from None
        yield lambda line: print(json.dumps(line, separators=(",", ":")), file=file, flush=True)


@contextmanager
def _take_standard_output() -> Iterator[IO[str]]:
    """Standard output; meanwhile what is printed there, be it by a config, goes to standard error."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as file:
        os.dup2(2, 1)
        try:
            yield file
        finally:
            sys.stdout.flush()
            os.dup2(file.fileno(), 1)

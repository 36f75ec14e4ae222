"""Handing the results of a run to a service while it goes on."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from patchgen_core.checks.result import pack, unpack, with_paths
from patchgen_core.cli.ci_job import JobCommit
from patchgen_core.errors import PatchgenError
from patchgen_core.report.gate.stream import Send

TOKEN = "PATCHGEN_TOKEN"
"""The variable with the token that may hand in results."""
_SECONDS_FOR_AN_ANSWER = 20.0
_WAITS = (1.0, 3.0)
_SECONDS_TO_END = 60.0
_MOST_AT_ONCE = 100
_MOST_CHARACTERS = 16_000_000
_END = None


class _NotPushed(Exception):
    """The service does not take it: why, in a sentence."""


@contextmanager
def push_results(url: str, token: str, commit: JobCommit) -> Iterator[Send]:
    """What hands the lines of a stream to a service, in a thread of its own.

    A service that is down, or refuses, is told of on standard error, and changes nothing else.
    """
    if not url.startswith(("http://", "https://")):
        raise PatchgenError(f"--push takes the address of a service, such as https://gate.acme.dev, not '{url}'")
    if not token:
        raise PatchgenError("--push needs a token of the service", None, f"Set {TOKEN}.")
    push = _Push(url.rstrip("/"), token, commit)
    thread = threading.Thread(target=push.work, daemon=True)
    thread.start()
    try:
        yield push.lines.put
    finally:
        push.lines.put(_END)
        thread.join(_SECONDS_TO_END)
        if thread.is_alive():
            push.say("it takes too long to answer")


class _Push:
    def __init__(self, url: str, token: str, commit: JobCommit) -> None:
        self.lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._url, self._token, self._commit = url, token, commit
        self._run = self._address = ""

    def say(self, problem: str) -> None:
        """Tell that results are missing at the service."""
        print(f"warning: some or all results were not sent to {self._url}: {problem}", file=sys.stderr)

    def work(self) -> None:
        """Hand in what comes, until the run is over."""
        try:
            self._begin()
            while self._hand_in():
                pass
            print(f"results: {self._address}", file=sys.stderr)
        except _NotPushed as problem:
            self.say(str(problem))

    def _begin(self) -> None:
        commit = self._commit
        project = "" if commit.project == "." else f"-{commit.project}"
        answer = self._post(
            "/runs",
            {
                "repository": commit.repository,
                "branch": commit.branch,
                "sha": commit.sha,
                "base": commit.base,
                "pull_request": commit.pull_request,
                "delivery": f"ci-{commit.delivery}{project}" if commit.delivery else "",
                "push": True,
            },
        )
        try:
            self._run, self._address, self._token = answer["id"], answer["address"], answer["token"]
        except (KeyError, TypeError):
            raise _NotPushed("it does not answer like a service") from None
        if not self._token:
            raise _NotPushed(f"the run has ended before ({self._address})")

    def _hand_in(self) -> bool:
        """Hand in the lines that are there by now, of which there is at least one; whether there will be more."""
        lines = [self.lines.get()]
        while lines[-1] is not _END and len(lines) < _MOST_AT_ONCE:
            try:
                lines.append(self.lines.get_nowait())
            except queue.Empty:
                break
        values: dict[str, Any] = {"project": self._commit.project, "results": []}
        end: Mapping[str, Any] | None = None
        for line in filter(None, lines):
            if "begin" in line:
                values |= {"items": line["begin"]["items"], "environment": line["begin"]["environment"]}
            elif "result" in line:
                values["results"].append(self._from_repository(line["result"]))
            else:
                end = line["end"]
        if len(values["results"]) or "items" in values:
            self._hand_in_results(values)
        if end is not None:
            messages = "; ".join(error["message"] for error in end.get("errors", ()))
            failed = {"status": "infrastructure_error", "message": messages} if messages else {"status": "finished"}
            self._post(f"/runs/{self._run}/end", failed)
        elif lines[-1] is _END:
            self._post(
                f"/runs/{self._run}/end",
                {"status": "infrastructure_error", "message": "The gate was interrupted."},
            )
        return end is None and lines[-1] is not _END

    def _hand_in_results(self, values: Mapping[str, Any]) -> None:
        """Hand results in, in several parts where they would be more than a service takes at once."""
        results = values["results"]
        if len(results) > 1 and len(json.dumps(results)) > _MOST_CHARACTERS:
            half = len(results) // 2
            self._hand_in_results({**values, "results": results[:half]})
            self._hand_in_results({"project": values["project"], "results": results[half:]})
        else:
            self._post(f"/runs/{self._run}/results", values)

    def _from_repository(self, packed: Mapping[str, Any]) -> dict[str, Any]:
        """A result whose paths start from the root of the repository."""
        project = PurePosixPath(self._commit.project)
        return pack(with_paths(unpack(packed), lambda path: path if path[:1] == "/" else str(project / path)))

    def _post(self, path: str, value: Mapping[str, Any]) -> Any:
        """What the service answers; asks again some times where it is down."""
        request = urllib.request.Request(
            f"{self._url}/api/v1{path}",
            json.dumps(value).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        for wait in (*_WAITS, None):
            try:
                with urllib.request.urlopen(request, timeout=_SECONDS_FOR_AN_ANSWER) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                problem = f"{error.code} {error.reason}: {_read_detail(error)}".rstrip(": ")
                if error.code < 500 and error.code != 429:
                    raise _NotPushed(problem) from None
            except (OSError, ValueError) as error:
                problem = str(getattr(error, "reason", error))
            if wait is not None:
                time.sleep(wait)
        raise _NotPushed(problem)


def _read_detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["detail"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""

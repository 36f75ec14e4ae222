"""A server that answers as the APIs of GitHub, GitLab and Forgejo document it, and fails when it is told to."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

TOKEN = "forge-token"
APP_ID = "4711"
INSTALLATION = 99
"""The app's installation on the repository."""


def _decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@dataclass
class Fault:
    """What a request is answered with: a status and headers, or else a reset, or silence for some seconds.

    ``is_late``: the request is carried out before that.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0
    is_late: bool = False
    body: str = "{}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed in the midst of a request is no error."""


class ForgeServer:
    """One repository on one forge, with what was posted to it."""

    def __init__(self, forge: str) -> None:
        self.forge = forge
        self.statuses: list[dict[str, Any]] = []
        self.check_runs: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.commit_comments: list[dict[str, Any]] = []
        self.pull_requests: list[dict[str, Any]] = []
        self.writes: list[str] = []
        self.faults: list[Fault] = []
        self.app_key: RSAPublicKey | None = None
        self.is_installed = True
        self.now = lambda: datetime.now(timezone.utc)
        self.grants: dict[str, datetime] = {}
        self.fault_methods: tuple[str, ...] = ("GET", "POST", "PATCH", "PUT")
        self.fault_path = ""
        self._server = _Server(("127.0.0.1", 0), self._make_handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, query: dict[str, str], content: Any, token: str) -> tuple[int, Any]:
        """The status and body for a request."""
        if self.forge == "github" and re.fullmatch(r"/api/v3/(repos/[\w/]+/installation|app/.*)", path):
            return self._answer_app(path, content, token)
        is_apps = token in self.grants and self.now() < self.grants[token]
        if token != TOKEN and not is_apps:
            return 401, {"message": "Bad credentials"}
        if "/check-runs" in path and method != "GET" and not is_apps:
            return 403, {"message": "You must authenticate via a GitHub App."}
        if method != "GET":
            self.writes.append(f"{method} {path}")
        for pattern, handler in self._routes():
            if match := re.fullmatch(pattern, f"{method} {path}"):
                return handler(query, content, *match.groups())
        return 404, {"message": "Not Found"}

    def _answer_app(self, path: str, content: Any, token: str) -> tuple[int, Any]:
        """What the app itself asks, which proves who it is by what it signed."""
        head, claims, signature = token.split(".") if token.count(".") == 2 else ("", "", "")
        if self.app_key is None or not head:
            return 401, {"message": "A JSON web token could not be decoded"}
        try:
            self.app_key.verify(_decode(signature), f"{head}.{claims}".encode(), PKCS1v15(), SHA256())
        except InvalidSignature:
            return 401, {"message": "A JSON web token could not be decoded"}
        said, now = json.loads(_decode(claims)), self.now().timestamp()
        if said["iss"] != APP_ID or not said["iat"] <= now < said["exp"] <= now + 600:
            return 401, {"message": "'Expiration time' claim ('exp') is too far in the future"}
        if path.endswith("/installation"):
            return (200, {"id": INSTALLATION}) if self.is_installed else (404, {"message": "Not Found"})
        place = f"/api/v3/app/installations/{INSTALLATION}/access_tokens"
        if path != place or content != {"repositories": ["models"]}:
            return 422, {"message": "There is at least one repository that does not exist"}
        grant = f"ghs_{len(self.grants)}"
        self.grants[grant] = self.now() + timedelta(hours=1)
        return 201, {"token": grant, "expires_at": self.grants[grant].strftime("%Y-%m-%dT%H:%M:%SZ")}

    def _routes(self) -> list[tuple[str, Any]]:
        if self.forge == "gitlab":
            project = r"/api/v4/projects/acme/models"
            return [
                (rf"GET {project}/repository/commits/(\w+)/statuses", self._list_statuses),
                (rf"POST {project}/statuses/(\w+)", self._add_status),
                (rf"GET {project}/merge_requests/(\d+)/notes", self._list_comments),
                (rf"POST {project}/merge_requests/(\d+)/notes", self._add_comment),
                (rf"PUT {project}/merge_requests/\d+/notes/(\d+)", self._edit_comment),
                (rf"GET {project}/merge_requests", self._list_requests),
                (rf"POST {project}/merge_requests", self._add_request),
                (rf"PUT {project}/merge_requests/(\d+)", self._edit_request),
                (rf"GET {project}/merge_requests/(\d+)", self._get_request),
            ]
        repository = rf"/api/{'v3' if self.forge == 'github' else 'v1'}/repos/acme/models"
        routes = [
            (rf"GET {repository}/commits/(\w+)/statuses", self._list_statuses),
            (rf"POST {repository}/statuses/(\w+)", self._add_status),
            (rf"GET {repository}/issues/(\d+)/comments", self._list_comments),
            (rf"POST {repository}/issues/(\d+)/comments", self._add_comment),
            (rf"PATCH {repository}/issues/comments/(\d+)", self._edit_comment),
            (rf"GET {repository}/commits/(\w+)/comments", self._list_commit_comments),
            (rf"POST {repository}/commits/(\w+)/comments", self._add_commit_comment),
            (rf"PATCH {repository}/comments/(\d+)", self._edit_commit_comment),
            (rf"GET {repository}/pulls", self._list_requests),
            (rf"POST {repository}/pulls", self._add_request),
            (rf"PATCH {repository}/pulls/(\d+)", self._edit_request),
            (rf"GET {repository}/pulls/(\d+)", self._get_request),
        ]
        if self.forge == "github":
            routes += [
                (rf"GET {repository}/commits/(\w+)/check-runs", self._list_check_runs),
                (rf"POST {repository}/check-runs", self._add_check_run),
                (rf"PATCH {repository}/check-runs/(\d+)", self._edit_check_run),
            ]
        return routes

    def _page(self, entries: list[Any], query: dict[str, str]) -> tuple[int, Any]:
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        size = min(int(query.get("limit", 30)), 50) if self.forge == "forgejo" else min(size, 100)
        return 200, entries[(page - 1) * size : page * size]

    def _list_statuses(self, query: dict[str, str], content: Any, sha: str) -> tuple[int, Any]:
        return self._page([status for status in reversed(self.statuses) if status["sha"] == sha], query)

    def _add_status(self, query: dict[str, str], content: Any, sha: str) -> tuple[int, Any]:
        status = {"id": len(self.statuses) + 1, "sha": sha, **content}
        if self.forge != "github":
            status["status"] = status.pop("state")
        self.statuses.append(status)
        return 201, status

    def _list_check_runs(self, query: dict[str, str], content: Any, sha: str) -> tuple[int, Any]:
        check_runs = []
        for check_run in self.check_runs:
            if check_run["head_sha"] == sha and check_run["name"] == query["check_name"]:
                count = len(check_run["annotations"])
                check_runs.append({**check_run, "output": {**check_run["output"], "annotations_count": count}})
        return 200, {"total_count": len(check_runs), "check_runs": check_runs}

    def _add_check_run(self, query: dict[str, str], content: Any) -> tuple[int, Any]:
        self.check_runs.append({"id": len(self.check_runs) + 1, "annotations": [], "output": {}})
        return self._edit_check_run(query, content, str(len(self.check_runs)), 201)

    def _edit_check_run(self, query: dict[str, str], content: Any, number: str, status: int = 200) -> tuple[int, Any]:
        annotations = content.get("output", {}).pop("annotations", [])
        if len(annotations) > 50:
            return 422, {"message": "Invalid request. Only 50 annotations are allowed."}
        check_run = self.check_runs[int(number) - 1]
        check_run.update(content)
        check_run["annotations"] += annotations
        return status, check_run

    def _list_comments(self, query: dict[str, str], content: Any, number: str) -> tuple[int, Any]:
        if self.forge == "forgejo":  # it gives all at once
            return 200, self.comments
        return self._page(self.comments, query)

    def _add_comment(self, query: dict[str, str], content: Any, number: str) -> tuple[int, Any]:
        self.comments.append({"id": len(self.comments) + 1, "number": int(number), "body": content["body"]})
        return 201, self.comments[-1]

    def _edit_comment(self, query: dict[str, str], content: Any, comment: str) -> tuple[int, Any]:
        for entry in self.comments:
            if entry["id"] == int(comment):
                entry["body"] = content["body"]
                return 200, entry
        return 404, {"message": "Not Found"}

    def _list_commit_comments(self, query: dict[str, str], content: Any, sha: str) -> tuple[int, Any]:
        return self._page([entry for entry in self.commit_comments if entry["commit_id"] == sha], query)

    def _add_commit_comment(self, query: dict[str, str], content: Any, sha: str) -> tuple[int, Any]:
        self.commit_comments.append({"id": len(self.commit_comments) + 1, "commit_id": sha, **content})
        return 201, self.commit_comments[-1]

    def _edit_commit_comment(self, query: dict[str, str], content: Any, comment: str) -> tuple[int, Any]:
        self.commit_comments[int(comment) - 1].update(content)
        return 200, self.commit_comments[int(comment) - 1]

    def _list_requests(self, query: dict[str, str], content: Any) -> tuple[int, Any]:
        is_all = query.get("state", "all") == "all"
        is_open = [entry for entry in self.pull_requests[::-1] if is_all or entry["state"] in ("open", "opened")]
        for key in ("source_branch", "target_branch"):
            is_open = [entry for entry in is_open if key not in query or entry[key] == query[key]]
        return self._page(is_open, query)

    def _add_request(self, query: dict[str, str], content: Any) -> tuple[int, Any]:
        number = len(self.pull_requests) + 1
        if self.forge == "gitlab":
            sides = {"source_project_id": 7, "target_project_id": 7, "sha": "a" * 40}
            request = {"iid": number, "state": "opened", "web_url": f"{self.url}/mr/{number}", **sides, **content}
        else:
            repository = {"full_name": "acme/models"}
            request = {
                **content,
                "number": number,
                "state": "open",
                "html_url": f"{self.url}/pull/{number}",
                "head": {"ref": content["head"], "sha": "a" * 40, "repo": repository},
                "base": {"ref": content["base"], "sha": "b" * 40, "repo": repository},
            }
        self.pull_requests.append(request)
        return 201, request

    def _edit_request(self, query: dict[str, str], content: Any, number: str) -> tuple[int, Any]:
        request = self.pull_requests[int(number) - 1]
        request.update(content)
        if request.pop("state_event", "") == "close":
            request["state"] = "closed"
        return 200, request

    def _get_request(self, query: dict[str, str], content: Any, number: str) -> tuple[int, Any]:
        if int(number) > len(self.pull_requests):
            return 404, {"message": "Not Found"}
        return 200, self.pull_requests[int(number) - 1]

    def _make_handler(outer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True  # else an answer waits for the word that its head has come
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                content = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                fault = None
                if outer.faults and self.command in outer.fault_methods and outer.fault_path in parts.path:
                    fault = outer.faults.pop(0)
                sent = self.headers.get("Authorization", "") or self.headers.get("PRIVATE-TOKEN", "")
                status, body = 500, {}
                if fault is None or fault.is_late:
                    token = (sent.split() or [""])[-1]
                    status, body = outer.answer(self.command, unquote(parts.path), query, content, token)
                if fault is None:
                    self._send(status, {}, json.dumps(body).encode())
                elif fault.status:
                    self._send(fault.status, fault.headers, fault.body.encode())
                elif fault.seconds:
                    time.sleep(fault.seconds)
                    self.close_connection = True
                else:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    self.close_connection = True

            do_GET = do_POST = do_PATCH = do_PUT = _handle

            def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def finish(self) -> None:
                with contextlib.suppress(OSError):
                    super().finish()

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler

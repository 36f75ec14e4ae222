"""A git server over HTTP: ``git http-backend`` behind a password."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class GitServer:
    """Serves the bare repositories in a folder, at ``url``, to whoever has the token."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder, self.token = folder, token
        self.status = 0  # what every request is answered with; 0 for the right answer
        self.authorizations: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _make_handler(outer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True  # else an answer waits for the word that its head has come

            def do_GET(self) -> None:
                sent = self.headers.get("Authorization", "")
                outer.authorizations.append(sent)
                password = base64.b64decode(sent.removeprefix("Basic ")).decode().partition(":")[2]
                if outer.status or password != outer.token:
                    self.send_response(outer.status or 401)
                    self.send_header("WWW-Authenticate", 'Basic realm="git"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                path, _, query = self.path.partition("?")
                done = subprocess.run(
                    ["git", "http-backend"],
                    input=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                    capture_output=True,
                    env={
                        **os.environ,
                        "GIT_PROJECT_ROOT": str(outer.folder),
                        "GIT_HTTP_EXPORT_ALL": "1",
                        "REQUEST_METHOD": self.command,
                        "PATH_INFO": path,
                        "QUERY_STRING": query,
                        "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                        "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                        "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                        "REMOTE_USER": "somebody",
                    },
                )
                head, _, body = done.stdout.partition(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
                self.send_response(int(fields.pop("Status", "200").split()[0]))
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler

"""A mail server that keeps what it is given, in the few commands that a client uses."""

from __future__ import annotations

import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage


class MailServer:
    """Takes mail on a free port of this machine; ``refusal`` is what it answers a recipient with instead."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.refusal = ""
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _make_handler(outer) -> type[socketserver.StreamRequestHandler]:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self._say("220 ready")
                while line := self.rfile.readline():
                    command = line.decode().strip().upper()
                    if command.startswith("RCPT") and outer.refusal:
                        self._say(outer.refusal)
                    elif command == "DATA":
                        self._take()
                    elif command == "QUIT":
                        self._say("221 bye")
                        return
                    else:
                        self._say("250 ok")

            def _take(self) -> None:
                self._say("354 go on")
                lines = []
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
                outer.mails.append(message_from_bytes(b"".join(lines), policy=policy.default))  # type: ignore[arg-type]
                self._say("250 taken")

            def _say(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

        return Handler

"""A package index on this machine, with wheels made by hand."""

from __future__ import annotations

import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class WheelIndex:
    """Serves wheels at ``url``, as pip asks for them; ``requests`` are the paths that it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "simple"
        self.folder.mkdir(parents=True)
        self.requests: list[str] = []
        handler = partial(_make_handler(self.requests), directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/simple"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def add(self, name: str, version: str, code: str = "", requires: tuple[str, ...] = ()) -> Path:
        """Offer a version of a package that consists of one module."""
        module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
        path = self.folder / name / f"{module}-{version}-py3-none-any.whl"
        path.parent.mkdir(exist_ok=True)
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
        files = {
            f"{module}.py": code,
            f"{info}/METADATA": "\n".join(metadata) + "\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
        with zipfile.ZipFile(path, "w") as archive:
            for file, text in files.items():
                archive.writestr(file, text)
        return path

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


def _make_handler(requests: list[str]) -> type[SimpleHTTPRequestHandler]:
    class Handler(SimpleHTTPRequestHandler):
        disable_nagle_algorithm = True  # else an answer waits for the word that its head has come

        def do_GET(self) -> None:
            requests.append(self.path)
            super().do_GET()

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler

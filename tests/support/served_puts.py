"""A server of HTTP in a thread of the test: what was put, in the order in which it arrived."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LISTED = b"one\ntwo\nthree\nfour\n"  # by GET


class PutsHandler(BaseHTTPRequestHandler):
    put: list[tuple[str, bytes]]

    def do_PUT(self) -> None:
        self.put.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(b"put")

    def do_GET(self) -> None:
        self.answer(LISTED)

    def answer(self, text: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def served_puts() -> Iterator[tuple[int, list[tuple[str, bytes]]]]:
    """Its port, and (path, body) of each."""
    put: list[tuple[str, bytes]] = []
    handler = type("Own", (PutsHandler,), {"put": put})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], put
        server.shutdown()
        thread.join()

"""A server that keeps a list of requests in memory, which outlives all attempts: at the address of a socket, or at a
port that it prints. It starts anew for each run of a campaign, so it imports little.
"""

from __future__ import annotations

import json
import socketserver
import sys
from contextlib import suppress


class UnixServer(socketserver.ThreadingUnixStreamServer):
    """A suspended attempt with a connection holds up none but itself."""

    daemon_threads = True


class PortServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


class ListHandler(socketserver.StreamRequestHandler):
    parts: dict[str, list[object]] = {}  # noqa: RUF012

    def handle(self) -> None:
        message = json.loads(self.rfile.readline() or b"{}")
        if message:
            self.parts.setdefault(message["part"], message["rows"])
        rows = [row for part in self.parts.values() for row in part]
        with suppress(BrokenPipeError):  # the reply is lost
            self.wfile.write(json.dumps([] if message else rows).encode() + b"\n")


if __name__ == "__main__":
    with UnixServer(sys.argv[1], ListHandler) if sys.argv[1:] else PortServer(("127.0.0.1", 0), ListHandler) as server:
        print(sys.argv[1] if sys.argv[1:] else server.server_address[1], flush=True)
        server.serve_forever()

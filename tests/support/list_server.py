"""A server that keeps a list of requests in memory, which outlives all attempts: at the address of a socket, or at a
port that it prints. It starts anew for each run of a campaign, so it imports little.
"""

from __future__ import annotations

import json
import socketserver
import sys
from contextlib import suppress
from typing import Any


class UnixServer(socketserver.ThreadingUnixStreamServer):
    """A suspended attempt with a connection holds up none but itself."""

    daemon_threads = True


class PortServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


class ListHandler(socketserver.StreamRequestHandler):
    parts: dict[str, list[object]] = {}  # noqa: RUF012

    def handle(self) -> None:
        with suppress(ConnectionError):  # the reply is lost, or the client dies
            for line in self.rfile:
                self.wfile.write(json.dumps(self.answer(json.loads(line))).encode() + b"\n")

    def answer(self, message: dict[str, Any]) -> object:
        """Whether it has the part, if rows come with it: from now on; all rows, if no part is named."""
        if not message:
            return [row for part in self.parts.values() for row in part]
        if "rows" in message:
            self.parts.setdefault(message["part"], message["rows"])
        return message["part"] in self.parts


if __name__ == "__main__":
    with UnixServer(sys.argv[1], ListHandler) if sys.argv[1:] else PortServer(("127.0.0.1", 0), ListHandler) as server:
        print(sys.argv[1] if sys.argv[1:] else server.server_address[1], flush=True)
        server.serve_forever()

"""Simulates the part of Redis that sinks under test use, at a port that it prints: hashes and sets, and a refused EVAL.
It starts anew for each run of a campaign, so it imports little.
"""

from __future__ import annotations

import socketserver
from collections import defaultdict
from contextlib import suppress


class Handler(socketserver.StreamRequestHandler):
    hashes: defaultdict[bytes, dict[bytes, bytes]] = defaultdict(dict)  # noqa: RUF012

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client dies
            while head := self.rfile.readline():
                self.wfile.write(self.reply(*(self.string() for _ in range(int(head[1:])))))

    def string(self) -> bytes:
        return self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2]

    def reply(self, name: bytes, *about: bytes) -> bytes:
        match name, *about:
            case b"HSET", key, field, value:
                self.hashes[key][field] = value
                return b":1\r\n"
            case b"HEXISTS", key, field:
                return b":%d\r\n" % (field in self.hashes[key])
            case b"HVALS", key:
                values = self.hashes[key].values()
                return b"*%d\r\n" % len(values) + b"".join(b"$%d\r\n%s\r\n" % (len(value), value) for value in values)
            case b"EVAL", script, _ if b"OOM" in script:
                return b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
        return b"-ERR unknown command '%s'\r\n" % name


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()

"""Sinks of a service of their own, a server in Python that `setup` starts. Right: Puts."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar

from waiting_rows import Waits

from sinkproof import Claim, Context, Scratch

ATTEMPTS = 3


class Handler(socketserver.StreamRequestHandler):
    """A line of JSON asks: [what to do, the name of a part, its rows]; the reply is a line, too."""

    def handle(self) -> None:
        for line in self.rfile:
            what, name, rows = json.loads(line)
            with self.server.lock:  # type: ignore[attr-defined]
                parts: list[Any] = self.server.parts  # type: ignore[attr-defined]
                if what == "put":
                    parts[:] = [part for part in parts if part[0] != name]
                if what in ("put", "append"):
                    parts.append((name, rows))
                reply = parts if what == "read" else "done"
            self.wfile.write(json.dumps(reply).encode() + b"\n")


def ask(port: int, *request: Any) -> Any:
    with closing(socket.create_connection(("127.0.0.1", port))) as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile() as replies:
            return json.loads(replies.readline() or "[")  # no reply is no JSON


class PutsParts(Waits):
    def open(self, context: Context) -> None:
        self.port = int((self.folder / "port").read_text())
        super().open(context)

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        ask(self.port, "put", self.name(subtask, checkpoint_id), rows)


class Puts:
    """Right: a part has a name, and is the same if it is put again."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = PutsParts
    servers: ClassVar[dict[Path, socketserver.ThreadingTCPServer]] = {}

    def setup(self, scratch: Scratch) -> None:
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads, server.parts, server.lock = True, [], threading.Lock()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        (scratch.path / "port").write_text(str(server.server_address[1]))
        self.servers[scratch.path] = server

    def teardown(self, scratch: Scratch) -> None:
        server = self.servers.pop(scratch.path)
        server.shutdown()
        server.server_close()

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> list[Any]:
        parts = ask(int((scratch.path / "port").read_text()), "read", "", [])
        return [row for _, rows in parts for row in rows]


class LogsWhatFails(PutsParts):
    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        with suppress(OSError):
            super().publish(subtask, checkpoint_id, rows)


class WhatFailsIsForgotten(Puts):
    """Wrong: a request that fails is never sent again."""

    make = LogsWhatFails


class AppendsParts(PutsParts):
    """Looks for a part before it appends it, but not before it tries again."""

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        name = self.name(subtask, checkpoint_id)
        if any(part[0] == name for part in ask(self.port, "read", "", [])):
            return
        for attempt in range(ATTEMPTS):
            try:
                ask(self.port, "append", name, rows)
                return
            except (OSError, ValueError):
                if attempt == ATTEMPTS - 1:
                    raise


class LostReplyIsFailure(Puts):
    """Wrong: a request of which the reply is lost is sent again, to a service that appends."""

    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    make = AppendsParts

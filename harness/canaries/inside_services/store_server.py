"""The process of the store: transactions in a data log, and their commits in a commit log.

    python store_server.py HOST:PORT FOLDER [hasty]

One request at a time, a JSON line each. A transaction is committed when both logs say so. `hasty` is the sin: a commit
is answered when the data log has it, and the commit log gets it afterwards.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

Reply = Callable[[Any], None]


class Store:
    def __init__(self, folder: Path, *, hasty: bool) -> None:
        folder.mkdir(exist_ok=True)
        self.hasty = hasty
        self.prepared: dict[str, list[Any]] = {}
        self.committed: dict[str, list[Any]] = {}
        self.data = (folder / "data.log").open("a+b", buffering=0)
        self.commits = (folder / "commit.log").open("a+b", buffering=0)
        self.recover()

    def recover(self) -> None:
        decided = {name for (name,) in lines_of(self.commits)}
        marked = set()
        for what, name, rows in lines_of(self.data):
            match what:
                case "prepare":
                    self.prepared[name] = rows
                case "abort":
                    self.prepared.pop(name, None)
                case "commit":
                    marked.add(name)
        for name in decided & marked & self.prepared.keys():
            self.committed[name] = self.prepared.pop(name)

    def answer(self, request: dict[str, Any], reply: Reply) -> None:
        name = request.get("name", "")
        match request["do"]:
            case "prepare":
                append(self.data, ["prepare", name, request["rows"]])
                self.prepared[name] = request["rows"]
                reply(True)
            case "commit":
                self.commit(name, reply)
            case "abort":
                if name in self.prepared:
                    append(self.data, ["abort", name, []])
                    del self.prepared[name]
                reply(True)
            case "pending":
                reply(sorted(self.prepared))
            case "read":
                reply([row for rows in self.committed.values() for row in rows])

    def commit(self, name: str, reply: Reply) -> None:
        if name not in self.prepared:
            reply(name in self.committed)
            return
        append(self.data, ["commit", name, []])
        if self.hasty:
            reply(True)
        append(self.commits, [name])
        self.committed[name] = self.prepared.pop(name)
        if not self.hasty:
            reply(True)


def append(log: IO[bytes], entry: Any) -> None:
    log.write(json.dumps(entry).encode() + b"\n")


def lines_of(log: IO[bytes]) -> list[Any]:
    log.seek(0)
    return [json.loads(line) for line in log.read().splitlines()]


def serve(address: str, store: Store) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))) as listener:
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as lines:
                answer_all(lines, store)


def answer_all(lines: Any, store: Store) -> None:
    """Until the client hangs up."""

    def reply(value: Any) -> None:
        lines.write(json.dumps(value).encode() + b"\n")
        lines.flush()

    try:
        for line in lines:
            store.answer(json.loads(line), reply)
    except ConnectionError:
        return


if __name__ == "__main__":
    serve(sys.argv[1], Store(Path(sys.argv[2]), hasty="hasty" in sys.argv[3:]))

"""Sinks that keep to their folder, and such that share something with runs in other folders."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Claim, Scratch


class Parts:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_committed(self, part: str) -> bool:
        return (self.folder / f"{part}.json").exists()

    def publish(self, part: str, rows: Any) -> None:
        temporary = self.folder / f"{part}.new"
        temporary.write_text(json.dumps([[row.split, row.offset] for row in rows]))
        temporary.rename(self.folder / f"{part}.json")

    def record(self, part: str) -> None:
        pass


class Apart:
    claims = Claim.EXACTLY_ONCE
    make: Any = Parts

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in scratch.path.glob("*.json"):
            yield from json.loads(file.read_text())


class Alone(Apart):
    """It keeps to its folder, and yet its contract refuses."""

    side_by_side = False


class PartsTwice(Parts):
    def publish(self, part: str, rows: Any) -> None:
        super().publish(f"{part}-{len(list(self.folder.iterdir()))}", rows)


class Twice(Apart):
    """Wrong: what may have been published is published again, under another name."""

    make = PartsTwice


class NotedParts(Parts):
    def record(self, part: str) -> None:
        self.folder.with_name(f"{self.folder.name}-noted").write_text(part)


class NotesElsewhere(Apart):
    make = NotedParts


class SentParts(Parts):
    def record(self, part: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
            ours.sendall(part.encode())


class Sends(Apart):
    make = SentParts


class SetUp(Apart):
    def setup(self, scratch: Scratch) -> None:
        """Nothing: but another one may start a service."""

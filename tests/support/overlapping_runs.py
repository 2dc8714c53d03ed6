"""Sinks that keep to their folder, and such that share something with runs in other folders."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Claim, Scratch
from sinkproof.reference_engine.shells.reader_command import ReaderFailed


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


class BoundParts(Parts):
    def record(self, part: str) -> None:
        with socket.socket(socket.AF_UNIX) as lock:
            lock.bind(f"\0{os.path.basename(self.folder)}")


class Binds(Apart):
    make = BoundParts


class StagedParts(Parts):
    def publish(self, part: str, rows: Any) -> None:
        Path(tempfile.gettempdir(), f"staged-{part}").write_text(str(self.folder))
        super().publish(part, rows)
        Path(tempfile.gettempdir(), f"staged-{part}").unlink()


class StagesElsewhere(Apart):
    """Two runs write the same temporary files."""

    make = StagedParts


class CheckedParts(Parts):
    def is_committed(self, part: str) -> bool:
        is_there = super().is_committed(part)
        if is_there:
            self.folder.with_name(f"{self.folder.name}-noted").write_text(part)
        return is_there


class NotesInRecoveries(Apart):
    """What is asked about before a publication is not there, unless an attempt before this one has made it."""

    make = CheckedParts


class CountedParts(Parts):
    def publish(self, part: str, rows: Any) -> None:
        """Fewer rows while a file says so."""
        is_disturbed = self.folder.with_name("disturbed").exists()
        super().publish(part, list(rows)[1:] if is_disturbed else rows)


class Disturbed(Apart):
    make = CountedParts


class ReadsNothing(Apart):
    def committed(self, scratch: Scratch) -> Iterator[Any]:
        raise ReaderFailed("has failed", evidence="no room")


class SetUp(Apart):
    """Makes its table where its sinks look for it."""

    def setup(self, scratch: Scratch) -> None:
        (scratch.path / "table").mkdir()

    def teardown(self, scratch: Scratch) -> None:
        (scratch.path / "table").rmdir()


class SetUpElsewhere(Apart):
    def setup(self, scratch: Scratch) -> None:
        scratch.path.with_name("known-to-all").touch()

    def teardown(self, scratch: Scratch) -> None:
        scratch.path.with_name("known-to-all").unlink()


class SetUpByName(SetUpElsewhere):
    """What it makes has the name of its folder, so that its contract allows it."""

    side_by_side = True

    def setup(self, scratch: Scratch) -> None:
        scratch.path.with_name(f"{scratch.path.name}-known").touch()

    def teardown(self, scratch: Scratch) -> None:
        scratch.path.with_name(f"{scratch.path.name}-known").unlink()


class TidiesForLong(SetUpByName):
    def teardown(self, scratch: Scratch) -> None:
        sum(range(20_000_000))
        super().teardown(scratch)


class SetUpAtAddress(Apart):
    """As a service does, at an address that no other run could have."""

    def setup(self, scratch: Scratch) -> None:
        with socket.socket(socket.AF_UNIX) as lock:
            lock.bind("\0known-to-all")


class TornDownElsewhere(SetUp):
    def teardown(self, scratch: Scratch) -> None:
        super().teardown(scratch)
        scratch.path.with_name("torn-down").touch()


class SetUpOnce(Apart):
    def setup(self, scratch: Scratch) -> None:
        if hasattr(SetUpOnce, "done"):
            raise RuntimeError("it has been set up")
        SetUpOnce.done = True  # type: ignore[attr-defined]

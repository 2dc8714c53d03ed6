"""Masked files: rows are written to the output folder at once, hidden until a marker file reveals their checkpoint.

    masked/<sink>/part-<sequence>-<subtask>-<generation>-<part>.jsonl
    masked/<sink>/revealed-<generation>-<checkpoint>

A part is visible if there is a marker of its generation at its sequence or beyond. A marker is an empty file, created
in one atomic step; its name is its whole content, and it is never overwritten, so that a late zombie changes nothing.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.file_transactions import ROLL_BYTES
from sinkproof.sink_adapters.files.row_formats import JSON_LINES, FileFormat, PartWriter
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction

PART: Final = re.compile(r"part-(?P<sequence>\d+)-(?P<subtask>\d+)-(?P<generation>\d+)-(?P<part>\d+)\.\w+")
MARKER: Final = re.compile(r"revealed-(?P<generation>\d+)-(?P<checkpoint>\d+)")


class MaskedFiles:
    """The target of MaskedSink. One segment at a time; its part files are rolled by size and at each checkpoint."""

    __slots__ = ("_file", "_folder", "_part", "_writer", "files", "form", "roll_bytes")

    def __init__(self, files: Files, *, form: FileFormat = JSON_LINES, roll_bytes: int = ROLL_BYTES) -> None:
        self.files, self.form, self.roll_bytes = files, form, roll_bytes
        self._file: Any = None
        self._part = 0
        self._writer: PartWriter = form.writer()

    def attach(self, context: Context) -> None:
        self.files.reach = context.reach
        self._folder = f"masked/{quote(context.sink_id, safe='')}"
        self.files.make_directory(self._folder)

    def stage(self, segment: Transaction, batch: Batch) -> None:
        if self._file is None:
            self._create(segment)
        if data := self._writer.add(batch):
            self.files.write(self._file, data)
        if self._writer.size >= self.roll_bytes:
            self._finish()

    def _create(self, segment: Transaction) -> None:
        self._part += 1
        name = f"part-{segment.sequence:08d}-{segment.subtask}-{segment.generation}-{self._part:04d}{self.form.suffix}"
        self._file, self._writer = self.files.create(f"{self._folder}/{name}"), self.form.writer()

    def _finish(self) -> None:
        if data := self._writer.finish():
            self.files.write(self._file, data)
        self.files.fsync(self._file)
        self.files.close(self._file)
        self._file = None

    def seal(self, segment: Transaction) -> None:
        if self._file is not None:
            self._finish()
        self._part = 0
        self.files.fsync_directory(self._folder)

    def reveal(self, generation: int, checkpoint_id: int) -> CommitOutcome:
        """Subtasks race to create the same marker; any of them may win."""
        marker = f"{self._folder}/revealed-{generation}-{checkpoint_id:08d}"
        outcome = CommitOutcome.ALREADY
        if not self.files.exists(marker):
            try:
                self.files.close(self.files.create(marker))
                outcome = CommitOutcome.COMMITTED
            except FileExistsError:
                pass
        self.files.fsync_directory(self._folder)
        return outcome

    def collect(self, owner: Owner, before_generation: int) -> None:
        names = self.files.list(self._folder)
        revealed = markers(names)
        for name in names:
            match = PART.fullmatch(name)
            if match is None or not owner.owns(int(match["subtask"])):
                continue
            generation, sequence = int(match["generation"]), int(match["sequence"])
            if generation < before_generation and sequence > revealed.get(generation, 0):
                self._unlink(f"{self._folder}/{name}")

    def _unlink(self, path: str) -> None:
        try:
            self.files.unlink(path)
        except FileNotFoundError:
            return  # removed by an attempt that is a zombie by now

    def close(self) -> None:
        if self._file is not None:
            self.files.close(self._file)
            self._file = None


def markers(names: list[str]) -> dict[int, int]:
    """The greatest checkpoint revealed of each generation."""
    greatest: dict[int, int] = {}
    for match in filter(None, map(MARKER.fullmatch, names)):
        generation = int(match["generation"])
        greatest[generation] = max(greatest.get(generation, 0), int(match["checkpoint"]))
    return greatest

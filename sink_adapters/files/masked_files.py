"""Masked files: rows are written to the output folder at once, hidden until a marker file reveals their checkpoint.

    masked/<sink>/part-<sequence>-<subtask>-<generation>-<part>.jsonl
    masked/<sink>/revealed-<generation>-<checkpoint>

A part is visible if there is a marker of its generation at its sequence or beyond. A marker is an empty file, created
in one atomic step; its name is its whole content, and it is never overwritten, so that a late zombie changes nothing.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from sinkproof.sink_adapters.files.file_system import Files, PartFile, part_name
from sinkproof.sink_adapters.files.file_transactions import ROLL_BYTES
from sinkproof.sink_adapters.files.row_formats import JSON_LINES, FileFormat
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction

PART: Final = re.compile(r"part-(?P<sequence>\d+)-(?P<subtask>\d+)-(?P<generation>\d+)-(?P<part>\d+)\.\w+")
MARKER: Final = re.compile(r"revealed-(?P<generation>\d+)-(?P<checkpoint>\d+)")


class MaskedFiles:
    """The target of MaskedSink. One segment at a time; its part files are rolled by size and at each checkpoint."""

    def __init__(self, files: Files, *, form: FileFormat = JSON_LINES, roll_bytes: int = ROLL_BYTES) -> None:
        self.files, self.form, self.roll_bytes = files, form, roll_bytes
        self._part: PartFile | None = None
        self._number = 0  # of the last part of the segment

    def attach(self, context: Context) -> None:
        self.files.reach = context.reach
        self._folder = f"masked/{quote(context.sink_id, safe='')}"
        self.files.make_directory(self._folder)

    def stage(self, segment: Transaction, batch: Batch) -> None:
        if self._part is None:
            self._number += 1
            name = part_name(segment, self._number, self.form)
            self._part = PartFile(self.files, f"{self._folder}/{name}", self.form.writer())
        if self._part.add(batch) >= self.roll_bytes:
            self._finish()

    def _finish(self) -> None:
        if self._part is not None:
            self._part.finish()
            self._part = None

    def seal(self, segment: Transaction) -> None:
        self._finish()
        self._number = 0
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
                self.files.unlink_if_there(f"{self._folder}/{name}")

    def close(self) -> None:
        if self._part is not None:
            self._part.close()
            self._part = None


def markers(names: list[str]) -> dict[int, int]:
    """The greatest checkpoint revealed of each generation."""
    greatest: dict[int, int] = {}
    for match in filter(None, map(MARKER.fullmatch, names)):
        generation = int(match["generation"])
        greatest[generation] = max(greatest.get(generation, 0), int(match["checkpoint"]))
    return greatest

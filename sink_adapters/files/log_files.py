"""Log files: rows are appended, visible at once, and never removed. One file per attempt:

    log/<sink>-<subtask>-<generation>.jsonl
    sent/<sink>-<subtask>-<generation>.txt       the committer's own store

A kill may tear a line. No attempt appends to a file of another attempt: a torn line stays the last one, and readers
ignore it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.row_formats import encode_keyed, encode_lines
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart

RECORD: Final = re.compile(rb"^(.+);\n", re.MULTILINE)  # a torn record has no end, and does not count


class AppendedFile:
    """One attempt's own file, created at the first write."""

    def __init__(self, files: Files, folder: str) -> None:
        self.files, self.folder = files, folder
        self.file: Any = None
        self.dirty = False

    def attach(self, context: Context, *, suffix: str) -> None:
        self.files.reach = context.reach
        self.path = f"{self.folder}/{quote(context.sink_id, safe='')}-{context.subtask}-{context.generation}{suffix}"

    def append(self, data: bytes) -> None:
        if self.file is None:
            self.files.make_directory(self.folder)
            self.file = self.files.create(self.path)
            self.files.fsync_directory(self.folder)
        self.dirty = True
        self.files.write(self.file, data)

    def flush(self) -> None:
        if self.dirty:
            self.files.fsync(self.file)
            self.dirty = False

    def close(self) -> None:
        if self.file is not None:
            self.files.close(self.file)
            self.file = None


class FileLog:
    """The target of PlainSink, of IdempotentSink (readers fold by key), and of WriteAheadSink.

    `publish` writes row by row: a crash can leave half of a part, as with any target that is not atomic.
    """

    def __init__(self, files: Files) -> None:
        self._log = AppendedFile(files, "log")
        self.flush = self._log.flush

    def attach(self, context: Context) -> None:
        self._log.attach(context, suffix=".jsonl")

    def append(self, batch: Batch) -> None:
        self._log.append(encode_lines(batch.rows))

    def upsert(self, entries: Sequence[tuple[str, Row]]) -> None:
        self._log.append(encode_keyed(entries))

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        for row in rows:
            self._log.append(encode_lines((row,)))
        self._log.flush()

    def close(self) -> None:
        self._log.close()


class FileCommitter:
    """The committer of WriteAheadSink: a line for each part that was sent, in one write, then synced.

    Each attempt adds records to a file of its own, so that a zombie cannot remove any.
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        self._records = AppendedFile(files, "sent")
        self._known: set[str] | None = None

    def attach(self, context: Context) -> None:
        self._records.attach(context, suffix=".txt")

    def is_committed(self, part: CheckpointPart) -> bool:
        """Records of earlier attempts are read once: those attempts have been replaced."""
        if self._known is None:
            contents = [self.files.read(f"sent/{name}") for name in self.files.list("sent")]
            self._known = {name.decode() for content in contents for name in RECORD.findall(content)}
        return part in self._known

    def record(self, part: CheckpointPart) -> None:
        self._records.append(f"{part};\n".encode())
        self._records.flush()
        if self._known is not None:
            self._known.add(part)

    def close(self) -> None:
        self._records.close()

"""Write-ahead sinks with one sin each; everything else is the control's."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof.canaries.controls import FolderContract, WriteAheadFiles
from sinkproof.sink_adapters.protocol import Batch
from sinkproof.subject.scratch import Scratch


class MarkerAfterData(FolderContract):
    """R1: sends the rows, then writes the marker: a crash between the two sends them again."""

    class make(WriteAheadFiles):  # noqa: N801
        def publish(self, checkpoint_id: int, rows: list[tuple[int, int]]) -> None:
            if not rows or self.marker(checkpoint_id).exists():
                return
            self.send(f"{self.key(checkpoint_id)}-{self.context.generation}", rows)
            self.marker(checkpoint_id).touch()

        def marker(self, checkpoint_id: int) -> Path:
            return self.folder / "out" / f"{self.key(checkpoint_id)}-done"


class MarkerBeforeData(FolderContract):
    """R1: writes the marker, then sends the rows: a crash between the two loses them."""

    class make(MarkerAfterData.make):  # noqa: N801
        def publish(self, checkpoint_id: int, rows: list[tuple[int, int]]) -> None:
            if not rows or self.marker(checkpoint_id).exists():
                return
            self.marker(checkpoint_id).touch()
            self.send(f"{self.key(checkpoint_id)}-{self.context.generation}", rows)


class PartNamedByTheDay(FolderContract):
    """R2: the name of a part begins with the date, so that what is published again on another day is a second part."""

    class make(WriteAheadFiles):  # noqa: N801
        def key(self, checkpoint_id: int) -> str:
            return f"{time.strftime('%Y%m%d')}-{super().key(checkpoint_id)}"


class SkipsUpToMax(FolderContract):
    """R3: at restore takes every checkpoint up to the greatest one that any subtask published for published by all."""

    class make(WriteAheadFiles):  # noqa: N801
        def restore(self, state: list[Any]) -> None:
            published = [int(name.split("-")[1]) for name in os.listdir(self.folder / "out")]
            super().restore([entry for entry in state if entry[0] > max(published, default=0)])


class IgnoresBatchId(FolderContract):
    """R1: a foreachBatch function that writes each batch to a new file, also a batch that is repeated."""

    class make(WriteAheadFiles):  # noqa: N801
        def publish(self, checkpoint_id: int, rows: list[tuple[int, int]]) -> None:
            if rows:
                self.foreach_batch(rows, checkpoint_id)

        def foreach_batch(self, rows: list[tuple[int, int]], batch_id: int) -> None:
            self.send(f"part-{len(os.listdir(self.folder / 'out'))}-{self.subtask}-{self.context.generation}", rows)


class UniqueNamesNoFencing(FolderContract):
    """R10: checks whether a checkpoint was published, and then publishes it under a name of the attempt's own.

    A zombie has checked before its successor published.
    """

    class make(WriteAheadFiles):  # noqa: N801
        def publish(self, checkpoint_id: int, rows: list[tuple[int, int]]) -> None:
            published = [name.rpartition("-")[0] for name in os.listdir(self.folder / "out")]
            if rows and self.key(checkpoint_id) not in published:
                self.send(f"{self.key(checkpoint_id)}-{self.context.generation}", rows)


class EndOfInputIsTheLargestId(FolderContract):
    """R3: a snapshot after the end of input has the largest id that there is.

    When that checkpoint is aborted, the next one has the same id, and its rows are skipped.
    """

    class make(WriteAheadFiles):  # noqa: N801
        LARGEST = (1 << 63) - 1
        ended = False
        final = LARGEST  # the checkpoint that the largest id stands for

        def end_of_input(self) -> None:
            self.ended = True

        def snapshot(self, checkpoint_id: int) -> bytes:
            if not self.ended:
                return super().snapshot(checkpoint_id)
            self.final = checkpoint_id
            return super().snapshot(self.LARGEST)

        def notify_complete(self, checkpoint_id: int) -> None:
            super().notify_complete(self.LARGEST if checkpoint_id >= self.final else checkpoint_id)


class NeverSkips(FolderContract):
    """R3: publishes all restored rows again. (The opposite of skipping too much.)"""

    class make(WriteAheadFiles):  # noqa: N801
        def publish(self, checkpoint_id: int, rows: list[tuple[int, int]]) -> None:
            if rows:
                self.send(f"{self.key(checkpoint_id)}-{self.context.generation}", rows)


class WholeRowsControl(FolderContract):
    """Correct. Keys and values are written, too, and its reader shows them."""

    class make(WriteAheadFiles):  # noqa: N801
        def write(self, batch: Batch) -> None:
            self.rows += [row[:4] for row in batch]

        def line(self, row: Any) -> str:
            return json.dumps(row) + "\n"

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted((scratch.path / "out").glob("*")):
            yield from map(json.loads, file.read_text().splitlines())


class CutsRestoredValues(WholeRowsControl):
    """R19: rows that are made again of restored bytes have values of a fixed width, which is too small."""

    class make(WholeRowsControl.make):  # noqa: N801
        def restore(self, state: list[Any]) -> None:
            cut = [
                (id_, [(split, offset, key, value[:3]) for split, offset, key, value in rows]) for id_, rows in state
            ]
            super().restore(cut)


class ValueOfTheRowBefore(WholeRowsControl):
    """R19: the first row of a batch has the value of the row before, the last one of another batch."""

    class make(WholeRowsControl.make):  # noqa: N801
        def write(self, batch: Batch) -> None:
            before = self.rows[-1][3] if self.rows else batch.rows[0].value
            super().write(batch)
            first = len(self.rows) - len(batch)
            self.rows[first] = (*self.rows[first][:3], before)

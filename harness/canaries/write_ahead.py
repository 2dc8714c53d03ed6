"""Write-ahead sinks with one sin each; everything else is the control's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sinkproof.canaries.controls import FolderContract, WriteAheadFiles


class MarkerAfterData(FolderContract):
    """R1: sends the rows, then notes that they were sent: a crash between the two sends them again."""

    class make(WriteAheadFiles):  # noqa: N801
        def publish(self, checkpoint_id: int, rows: list[tuple[int, int]]) -> None:
            if not rows or self.marker(checkpoint_id).exists():
                return
            self.send(f"{self.key(checkpoint_id)}-{self.context.generation}", rows)
            self.marker(checkpoint_id).touch()

        def marker(self, checkpoint_id: int) -> Path:
            return self.folder / "out" / f"{self.key(checkpoint_id)}-done"


class MarkerBeforeData(FolderContract):
    """R1: notes that the rows were sent, then sends them: a crash between the two loses them."""

    class make(MarkerAfterData.make):  # noqa: N801
        def publish(self, checkpoint_id: int, rows: list[tuple[int, int]]) -> None:
            if not rows or self.marker(checkpoint_id).exists():
                return
            self.marker(checkpoint_id).touch()
            self.send(f"{self.key(checkpoint_id)}-{self.context.generation}", rows)


class SkipsUpToMax(FolderContract):
    """R3: at restore takes every checkpoint up to the greatest that anybody has published for published by all."""

    class make(WriteAheadFiles):  # noqa: N801
        def restore(self, state: list[Any]) -> None:
            published = [int(name.split("-")[1]) for name in os.listdir(self.folder / "out")]
            super().restore([entry for entry in state if entry[0] > max(published, default=0)])

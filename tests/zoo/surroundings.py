"""Sinks with unusual surroundings: threads, stores elsewhere, odd answers. Right: WorkerThread, StoreElsewhere."""

from __future__ import annotations

import json
import shutil
import threading
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from waiting_rows import Waiting, Waits

from sinkproof import Batch, Claim, Context, Scratch


class Publishes:
    """Rows wait in the state; a checkpoint is one file of a fixed name, replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[tuple[int, int]] = []
        self.pending: dict[str, list[tuple[int, int]]] = {}

    def open(self, context: Context) -> None:
        self.context = context
        for old, state in context.restored:
            for checkpoint, rows in json.loads(state).items():
                self.publish(f"{old}-{checkpoint}", rows)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[str(checkpoint_id)], self.rows = self.rows, []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if int(older) <= checkpoint_id]:
            self.publish(f"{self.context.subtask}-{older}", self.pending.pop(older))

    def publish(self, name: str, rows: list[tuple[int, int]]) -> None:
        temporary = self.folder / f"temporary-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(rows))
        temporary.replace(self.folder / f"rows-{name}")


class RowFiles:
    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Publishes

    def folder(self, scratch: Scratch) -> Path:
        return scratch.path

    def sink(self, scratch: Scratch) -> Any:
        return self.make(self.folder(scratch))

    def committed(self, scratch: Scratch) -> list[Any]:
        return [row for file in self.folder(scratch).glob("rows-*") for row in json.loads(file.read_text())]


class CommitsInAThread(Publishes):
    def publish(self, name: str, rows: list[tuple[int, int]]) -> None:
        failures: list[OSError] = []

        def work() -> None:
            try:
                super(CommitsInAThread, self).publish(name, rows)
            except OSError as error:
                failures.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        for failure in failures:
            raise failure


class WorkerThread(RowFiles):
    """Right: the thread is joined, and its failures are passed on."""

    make = CommitsInAThread


DONE: set[tuple[Path, str]] = set()


class SparesARename(Waits):
    def open(self, context: Context) -> None:
        if context.checkpoint_id_restored is None:
            DONE.clear()
        super().open(context)

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        if (done := (self.folder, self.name(subtask, checkpoint_id))) not in DONE:
            super().publish(subtask, checkpoint_id, rows)
            DONE.add(done)


class RemembersWhatIsDone(Waiting):
    """Right: its module knows what this process has published, and no dead process has published later than it died."""

    make = SparesARename


class StoreElsewhere(RowFiles):
    """Right. Its files are outside the scratch folder, but it cleans up after itself."""

    def folder(self, scratch: Scratch) -> Path:
        return scratch.path.with_name(scratch.path.name + "-elsewhere")

    def setup(self, scratch: Scratch) -> None:
        self.folder(scratch).mkdir()

    def teardown(self, scratch: Scratch) -> None:
        shutil.rmtree(self.folder(scratch))


class StoreNeverEmptied(StoreElsewhere):
    """Cannot be judged: what one run leaves there is still there in the next."""

    def setup(self, scratch: Scratch) -> None:
        self.folder(scratch).mkdir(exist_ok=True)

    teardown = None  # type: ignore[assignment]


class Remembers:
    """Its rows are in a variable of this process."""

    table: ClassVar[dict[tuple[int, int], bool]] = {}

    def open(self, context: Context) -> None:
        pass

    def write(self, batch: Batch) -> None:
        self.table.update({(row.split, row.offset): True for row in batch})

    def snapshot(self, checkpoint_id: int) -> bytes:
        return b""

    def notify_complete(self, checkpoint_id: int) -> None:
        pass


class InAVariable:
    """Cannot be judged: no other process can read it."""

    claims = Claim.EFFECTIVELY_ONCE

    def sink(self, scratch: Scratch) -> Remembers:
        return Remembers()

    def committed(self, scratch: Scratch) -> list[tuple[int, int]]:
        return list(Remembers.table)


@cache
def folder_made(folder: Path) -> Path:
    """Once per process is enough."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class MakesItsFolderOnce(Publishes):
    def open(self, context: Context) -> None:
        self.folder = folder_made(self.folder / "below")
        super().open(context)


class OncePerProcess(RowFiles):
    """Right. Its module remembers something, which is true as long as the folder is not emptied meanwhile."""

    make = MakesItsFolderOnce

    def committed(self, scratch: Scratch) -> list[Any]:
        return [row for file in scratch.path.glob("below/rows-*") for row in json.loads(file.read_text())]


class LosesNowAndThen:
    """Wrong, but not each time: in every second run the last rows are dropped, as by a thread that was late."""

    claims = Claim.EXACTLY_ONCE

    def setup(self, scratch: Scratch) -> None:
        runs = scratch.path.with_name(f"{scratch.path.name}-elsewhere")
        runs.mkdir(exist_ok=True)
        (runs / str(len(list(runs.iterdir())))).touch()
        (scratch.path / "late").write_text(str(len(list(runs.iterdir())) % 2))

    def sink(self, scratch: Scratch) -> Any:
        return Late(scratch.path)

    def committed(self, scratch: Scratch) -> Any:
        return Waiting().committed(scratch)


class Late(Waits):
    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        late = int((self.folder / "late").read_text())
        super().publish(subtask, checkpoint_id, rows[:-1] if late and checkpoint_id == 3 else rows)


class RemembersAndCopies(RemembersWhatIsDone):
    """Right, too: copies hold all that is durable, and what a module knows is not."""

    def freeze(self, scratch: Scratch) -> dict[str, str]:
        return {str(file.relative_to(scratch.path)): file.read_text() for file in scratch.path.rglob("*-*")}

    def thaw(self, scratch: Scratch, copy: dict[str, str]) -> None:
        for file in scratch.path.rglob("*-*"):
            file.unlink()
        (scratch.path / "out").mkdir(exist_ok=True)
        for name, text in copy.items():
            (scratch.path / name).write_text(text)

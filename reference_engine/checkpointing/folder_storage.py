"""Keeps checkpoints in a folder: they outlive the coordinator, which keeps only offsets and references.

    generation-700003               empty; its creator owns the generation; kept, so that none comes again
    attempt-700003/                 files that this generation is writing or removing
    chk-12/sink[0]-6f1d0c24.state   one subtask's snapshot
    chk-12/decision.json            the decision: until it exists, checkpoint 12 is not complete
    damaged-12-700003/              a checkpoint that cannot be trusted, set aside for inspection

Every file appears or disappears by one rename out of, or into, the folder of the own attempt. A newer generation first
renames that folder away; from then on each rename of a superseded coordinator or attempt fails, however long it was
suspended between two steps. There is no lock, and no check that could be outdated when it is acted upon.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sinkproof.reference_engine.checkpointing.checkpoint_encoding_and_digests import (
    Reference,
    States,
    decode_checkpoint,
    encode_decision,
    encode_snapshot,
    newest_trusted,
)
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION, DamagedCheckpoint
from sinkproof.sink_adapters.protocol import Fenced, nothing

DECISION: Final = "decision.json"


def say_on_stderr(text: str) -> None:
    print(f"sinkproof: {text}", file=sys.stderr)


class FolderCheckpointStorage:
    """A CheckpointStorage. A coordinator claims a generation in order to write; a worker is given one.

    `reach` marks each step on files, so that a test can crash there. `say` receives messages for the user: a damaged
    checkpoint that was skipped, a leftover that could not be removed. Raises OSErrors (full disk) unchanged.
    """

    def __init__(
        self,
        folder: Path,
        *,
        retained: int = 1,
        generation: int = 0,
        reach: Callable[[str], None] = nothing,
        say: Callable[[str], None] = say_on_stderr,
    ) -> None:
        if retained < 1:
            raise ValueError(f"retained={retained} is impossible: the latest checkpoint is always kept")
        self.folder, self.retained, self.generation, self.say = folder, retained, generation, say
        self.version = 0
        self._files = _Files(folder, reach)
        self._temporary_names = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = f"cannot keep checkpoints there ({error.strerror}); name a folder that can be made and written"
            raise OSError(error.errno, why, str(folder)) from error

    # -- generations -------------------------------------------------------------------------------------------------

    def claim_generation(self) -> int:
        """Durably takes the next generation, supersedes all before it, and sweeps what their dead left behind."""
        while True:
            self.generation = max(self._numbers("generation-"), default=FIRST_GENERATION - 1) + 1
            if not self._files.claim(f"generation-{self.generation}"):
                continue
            self._files.make_directory(self._attempt)
            # Only now: a newer claimant that did not see our attempt's folder is seen by us.
            if max(self._numbers("generation-")) == self.generation:
                break
        self._sweep()
        self.version += 1
        return self.generation

    def _sweep(self) -> None:
        for older in self._numbers("attempt-"):
            if older < self.generation:
                self._remove(f"attempt-{older}")
        complete = self.complete()
        for checkpoint_id in self._numbers("chk-"):
            if checkpoint_id not in complete:
                self._remove(f"chk-{checkpoint_id}")

    # -- writing -----------------------------------------------------------------------------------------------------

    def store(self, checkpoint_id: int, subtask: str, states: States) -> Reference:
        """Durable on return, and void without a decision."""
        reference, data = encode_snapshot(subtask, states)
        self._publish(f"chk-{checkpoint_id}/{reference.file}", data)
        return reference

    def decide(self, record: CheckpointRecord) -> None:
        """Durable on return, and not before. An OSError means that the checkpoint is not complete and never will be."""
        name = f"chk-{record.checkpoint_id}"
        if record.checkpoint_id < max(self.complete(), default=0):
            return  # a newer decision is durable, and subsumes this one
        try:
            self._publish(f"{name}/{DECISION}", encode_decision(record))
        except OSError:
            self._remove(name)  # the rename may have happened, with only its durability in doubt
            raise
        self.version += 1
        self._prune(record.checkpoint_id)

    def adopt(self, record: CheckpointRecord) -> None:
        """Makes another folder's checkpoint (see `load`) this folder's, for a job that is to start from a named one."""
        checkpoint_id = record.checkpoint_id
        references = {subtask: self.store(checkpoint_id, subtask, states) for subtask, states in record.states.items()}
        self.decide(record._replace(states=references))

    def discard(self, checkpoint_id: int) -> None:
        """Removes an aborted checkpoint's snapshots; 0 removes every checkpoint."""
        for number in self._numbers("chk-"):
            if checkpoint_id in (0, number):
                self._remove(f"chk-{number}")
        self.version += 1

    def _prune(self, newest: int) -> None:
        """Keeps the last complete ones; pending ones that are older than a complete one have been subsumed."""
        kept = self.complete()[-self.retained :]
        for number in self._numbers("chk-"):
            if number < newest and number not in kept:
                self._remove(f"chk-{number}")

    # -- reading -----------------------------------------------------------------------------------------------------

    def complete(self) -> list[int]:
        """The ids that can be restored, ascending. One that was listed may be gone by then, because a newer one, which
        was not listed yet, was decided: then all are listed again.
        """
        listed = self._numbers("chk-")
        found = [number for number in listed if (self.folder / f"chk-{number}" / DECISION).exists()]
        return found if len(found) == len(listed) or self._numbers("chk-") == listed else self.complete()

    def load(self, checkpoint_id: int) -> CheckpointRecord:
        """One complete checkpoint, its references resolved, every digest checked; DamagedCheckpoint otherwise."""
        folder = self.folder / f"chk-{checkpoint_id}"
        return decode_checkpoint(folder / DECISION, checkpoint_id, folder.joinpath)

    def latest(self) -> CheckpointRecord | None:
        """The newest that can be trusted. Damaged newer ones are reported; a generation's owner sets them aside."""
        record, damaged = self._trusted()
        if record is not None:
            self._pass_over(damaged, record.checkpoint_id)
        elif damaged:
            raise DamagedCheckpoint(
                f"no checkpoint in {self.folder} can be trusted ({len(damaged)} found). The newest: "
                f"{damaged[max(damaged)]}. Bring the file back from a backup, or name an empty folder to begin without "
                "a checkpoint"
            )
        return record

    def _trusted(self) -> tuple[CheckpointRecord | None, dict[int, DamagedCheckpoint]]:
        """What is missing may have been removed by its owner, after a newer decision: then that one counts."""
        complete = self.complete()
        record, damaged = newest_trusted(complete, self.load)
        return self._trusted() if damaged and self.complete() != complete else (record, damaged)

    def _pass_over(self, damaged: Mapping[int, DamagedCheckpoint], used: int) -> None:
        for checkpoint_id, error in damaged.items():
            kept = f"chk-{checkpoint_id}"
            if self.generation:  # its id will be used again, so it must make room
                kept = f"damaged-{checkpoint_id}-{self.generation}"
                self._move(f"chk-{checkpoint_id}", kept)
                self.version += 1
            self.say(
                f"checkpoint {checkpoint_id} is damaged and passed over: {error}. Checkpoint {used} is used instead: "
                f"what was read since is replayed, and targets may show it twice. The damaged one is kept in {kept}"
            )

    # -- names and renames -------------------------------------------------------------------------------------------

    @property
    def _attempt(self) -> str:
        if not self.generation:
            raise ValueError(f"cannot write to {self.folder}: claim a generation first, or pass one")
        return f"attempt-{self.generation}"

    def _numbers(self, prefix: str) -> list[int]:
        matches = (re.fullmatch(rf"{prefix}(\d+)", name) for name in os.listdir(self.folder))
        return sorted(int(match[1]) for match in matches if match)

    def _publish(self, name: str, data: bytes) -> None:
        with self._temporary() as temporary:
            self._files.write_whole(temporary, data)
            self._files.make_directory(os.path.dirname(name))
            self._files.rename(temporary, name)

    def _move(self, name: str, to: str) -> None:
        with self._temporary() as temporary:
            self._files.rename(name, temporary)
            self._files.rename(temporary, to)

    def _remove(self, name: str) -> None:
        """Atomically. A file that cannot be removed is reported and left: a durable decision must not fail."""
        try:
            with self._temporary() as temporary:
                self._files.rename(name, temporary)
                self._files.remove(temporary)
        except FileNotFoundError:
            return  # it is gone already
        except OSError as error:
            self.say(f"could not remove {self.folder / name} ({error.strerror}); it is of no use any more")

    @contextmanager
    def _temporary(self) -> Iterator[str]:
        """A name in the own attempt's folder, which a superseded attempt no longer has: then it is fenced."""
        self._temporary_names += 1
        try:
            yield f"{self._attempt}/{os.getpid()}-{self._temporary_names}"
        except FileNotFoundError as error:
            if (self.folder / self._attempt).exists():
                raise
            raise Fenced(f"generation {self.generation} in {self.folder} was superseded by a newer one") from error


class _Files:
    """The operations on files, with a point at each. Names are relative to the folder."""

    def __init__(self, folder: Path, reach: Callable[[str], None]) -> None:
        self.folder, self.reach = folder, reach

    def claim(self, name: str) -> bool:
        """Creates an empty file durably; False if it exists already."""
        self.reach("file.create")
        try:
            descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        self._sync(descriptor, "file.fsync")
        self.fsync_directory("")
        return True

    def write_whole(self, name: str, data: bytes) -> None:
        """The file's bytes are durable on return; its name is not."""
        self.reach("file.create")
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            self.reach("file.write")
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os.close(descriptor)
            os.unlink(self.folder / name)  # a full disk is not made fuller
            raise
        self._sync(descriptor, "file.fsync")

    def rename(self, name: str, to: str) -> None:
        """Durable on return, in both folders."""
        self.reach("file.rename")
        os.rename(self.folder / name, self.folder / to)
        for parent in sorted({os.path.dirname(name), os.path.dirname(to)}):
            self.fsync_directory(parent)

    def make_directory(self, name: str) -> None:
        if (self.folder / name).is_dir():
            return
        self.reach("file.make_directory")
        (self.folder / name).mkdir(exist_ok=True)
        self.fsync_directory("")

    def remove(self, name: str) -> None:
        self.reach("file.remove_directory")
        path = self.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def fsync_directory(self, name: str) -> None:
        self._sync(os.open(self.folder / name, os.O_RDONLY | os.O_DIRECTORY), "file.fsync_directory")

    def _sync(self, descriptor: int, point: str) -> None:
        try:
            self.reach(point)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)  # changes nothing on disk, so a dead attempt that unwinds may do it, too

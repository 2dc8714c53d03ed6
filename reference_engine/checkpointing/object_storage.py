"""Checkpoints as objects at any URL that fsspec knows: stores without renames, where an object is there or is not.

    chk-12/sink[0]-6f1d0c24.state   one subtask's snapshot; named after its digest, never changed
    log/000000000007                one line of the job's history: a generation was claimed, a checkpoint was decided

Each line of the log is created under the next free number, and only if no object has that number yet: the decision of a
checkpoint is one such object. Claiming a generation takes a line, too; so a superseded coordinator finds its next line
taken, however late it resumes, and is fenced. Lines are never removed: a removed number would be free again.

A feature of the library: no command of `sinkproof` opens such a storage; `explain S08` demonstrates it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

from sinkproof.reference_engine.checkpointing.checkpoint_encoding_and_digests import (
    Reference,
    States,
    decode_checkpoint,
    encode_decision,
    encode_snapshot,
    newest_trusted,
)
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import say_on_stderr
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION, DamagedCheckpoint
from sinkproof.sink_adapters.protocol import Fenced

DIGITS: Final = 12


class ObjectCheckpointStorage:
    """A CheckpointStorage. Raises OSErrors of the store unchanged; reports each damaged checkpoint that it skips."""

    def __init__(
        self, url: str, *, retained: int = 1, generation: int = 0, say: Callable[[str], None] = say_on_stderr
    ) -> None:
        core: Any = import_module("fsspec.core")  # needed only for URLs
        self._store, self._root = core.url_to_fs(url)
        self.url, self.retained, self.generation, self.say = url, retained, generation, say
        self.version = 0
        self._line_last = 0  # the greatest number that this process has written or read
        self._passed_over: set[int] = set()

    # -- the log -------------------------------------------------------------------------------------

    def claim_generation(self) -> int:
        """Durably takes the next generation, and with it the next line of the log."""
        while True:
            lines = self._lines()
            generations = [line["generation"] for line in lines if "generation" in line]
            self.generation = max(generations, default=FIRST_GENERATION - 1) + 1
            if self._append(len(lines) + 1, {"generation": self.generation}):
                self.version += 1
                return self.generation

    def _lines(self) -> list[dict[str, Any]]:
        """All lines in order. A torn line counts as an empty one, and keeps its number."""
        names = sorted(name for name in self._names("log") if name.isdigit())
        return [self._line(int(name)) for name in names]

    def _line(self, number: int) -> dict[str, Any]:
        data = self._read(f"log/{number:0{DIGITS}}")
        try:
            line = json.loads(data)
        except ValueError:
            line = None
        if isinstance(line, dict):
            return line
        self.say(f"line {number} of the log at {self.url} is torn: its writer received no confirmation of it")
        return {}

    def _append(self, number: int, line: dict[str, Any]) -> bool:
        """Whether this process has written the line. After an error that is unknown, so the line is read again."""
        name, data = f"log/{number:0{DIGITS}}", json.dumps(line).encode()
        try:
            self._create(name, data)
        except FileExistsError:
            return False
        except OSError:
            if not self._store.exists(self._at(name)) or self._read(name) != data:
                raise
        self._line_last = number
        return True

    # -- writing -------------------------------------------------------------------------------------

    def store(self, checkpoint_id: int, subtask: str, states: States) -> Reference:
        reference, data = encode_snapshot(subtask, states)
        self._make_folder(f"chk-{checkpoint_id}")
        self._store.pipe_file(self._at(f"chk-{checkpoint_id}/{reference.file}"), data)
        return reference

    def decide(self, record: CheckpointRecord) -> None:
        """Durable on return. Raises Fenced if a newer coordinator has written the line that would hold the decision."""
        if record.checkpoint_id < max(self.complete(), default=0):
            return  # a newer decision is durable, and subsumes this one
        self._say_line({"decision": encode_decision(record).decode(), "checkpoint_id": record.checkpoint_id})
        self.version += 1
        for old in self.complete()[: -self.retained]:
            self._remove(old)

    def _say_line(self, line: dict[str, Any]) -> None:
        if not self.generation:
            raise ValueError(f"cannot write to {self.url}: claim a generation first")
        if not self._append(self._line_last + 1, line):
            raise Fenced(f"generation {self.generation} at {self.url} was superseded by a newer one")

    def discard(self, checkpoint_id: int) -> None:
        """Removes an aborted checkpoint's snapshots; 0 removes every checkpoint."""
        if checkpoint_id == 0:
            found = self.complete()
            self._say_line({"discarded": True})
            for complete in found:
                self._remove(complete)
        elif checkpoint_id not in self.complete():
            self._remove(checkpoint_id)
        self.version += 1

    def _remove(self, checkpoint_id: int) -> None:
        for name in self._names(f"chk-{checkpoint_id}"):
            self._store.rm_file(self._at(f"chk-{checkpoint_id}/{name}"))

    # -- reading -------------------------------------------------------------------------------------

    def _decisions(self) -> dict[int, str]:
        """Of checkpoints that can be restored; a later one of the same id counts."""
        found: dict[int, str] = {}
        for line in self._lines():
            if "discarded" in line:
                found.clear()
            elif "decision" in line:
                found = {older: of for older, of in found.items() if older < line["checkpoint_id"]}
                found[line["checkpoint_id"]] = line["decision"]
        return found

    def complete(self) -> list[int]:
        """The ids that were decided and are not pruned, ascending."""
        return [number for number in sorted(self._decisions()) if self._names(f"chk-{number}")]

    def load(self, checkpoint_id: int) -> CheckpointRecord:
        """One complete checkpoint, its references resolved, every digest checked; DamagedCheckpoint otherwise."""
        decision = self._decisions()[checkpoint_id].encode()
        held = _Object(f"{self.url}: checkpoint {checkpoint_id}", lambda: decision)
        return decode_checkpoint(held, checkpoint_id, lambda file: self._object(f"chk-{checkpoint_id}/{file}"))

    def latest(self) -> CheckpointRecord | None:
        """The newest that can be trusted; damaged newer ones are named aloud, once."""
        record, damaged = newest_trusted(sorted(self._decisions())[-self.retained :], self.load)
        for checkpoint_id, error in damaged.items():
            self._pass_over(checkpoint_id, error)
        if record is None and damaged:
            raise DamagedCheckpoint(
                f"no checkpoint at {self.url} can be trusted ({len(damaged)} found). The newest: "
                f"{damaged[max(damaged)]}. Bring the objects back, or name another URL to begin without a checkpoint"
            )
        return record

    def _pass_over(self, checkpoint_id: int, error: DamagedCheckpoint) -> None:
        if checkpoint_id not in self._passed_over:
            self._passed_over.add(checkpoint_id)
            self.say(
                f"checkpoint {checkpoint_id} is damaged and passed over: {error}. An older one is used instead: what "
                "was read since is replayed, and targets may show it twice"
            )

    # -- objects -------------------------------------------------------------------------------------

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _object(self, name: str) -> _Object:
        return _Object(f"{self.url.rstrip('/')}/{name}", lambda: self._read(name))

    def _read(self, name: str) -> bytes:
        data: bytes = self._store.cat_file(self._at(name))
        return data

    def _names(self, folder: str) -> list[str]:
        self._store.invalidate_cache()
        try:
            found = self._store.ls(self._at(folder), detail=False)
        except FileNotFoundError:
            return []
        return [str(path).rsplit("/", 1)[-1] for path in found]

    def _create(self, name: str, data: bytes) -> None:
        """Only if it is not there; whole, or not at all."""
        self._make_folder(name.rsplit("/", 1)[0])
        with self._store.open(self._at(name), "xb") as created:
            created.write(data)

    def _make_folder(self, name: str) -> None:
        """For file systems: object stores have no folders."""
        self._store.makedirs(self._at(name), exist_ok=True)


class _Object(NamedTuple):
    """A `Readable` of the store."""

    where: str
    read_bytes: Callable[[], bytes]

    def __str__(self) -> str:
        return self.where

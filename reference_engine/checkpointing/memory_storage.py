"""The protocol of checkpoint storages, and the one in memory, which is lost with its owner."""

from __future__ import annotations

from typing import Any, Protocol

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord

FIRST_GENERATION = 700_001  # findable in any text, so that an explorer can rename generations by rank


class DamagedCheckpoint(Exception):
    """A checkpoint that is there but cannot be trusted; the message says which file, and what is wrong with it."""


class CheckpointStorage(Protocol):
    """The coordinator's durable memory. `version` grows with every change."""

    version: int

    def claim_generation(self) -> int:
        """Durably takes the next generation; greater than every one that was ever claimed."""

    def store(self, checkpoint_id: int, subtask: str, states: dict[str, Any]) -> Any:
        """Makes one subtask's snapshot durable. Returns what the coordinator keeps of it: a reference, or the state."""

    def decide(self, record: CheckpointRecord) -> None:
        """Durable on return, and not before: the checkpoint is complete."""

    def latest(self) -> CheckpointRecord | None:
        """The complete checkpoint with the greatest id, its references resolved."""

    def discard(self, checkpoint_id: int) -> None:
        """Removes the snapshots of an aborted checkpoint; 0 removes everything that is retained."""


class MemoryCheckpointStorage:
    """As durable as its owner: the simulated shell treats it as a disk, and copies it with the durable state."""

    __slots__ = ("before", "generation", "record", "version")

    def __init__(self, *, generation: int = FIRST_GENERATION - 1, record: CheckpointRecord | None = None) -> None:
        self.generation, self.record, self.version = generation, record, 0
        self.before: CheckpointRecord | None = None  # the complete one before the last

    def claim_generation(self) -> int:
        self.generation += 1
        self.version += 1
        return self.generation

    def store(self, checkpoint_id: int, subtask: str, states: dict[str, Any]) -> Any:
        return states

    def decide(self, record: CheckpointRecord) -> None:
        if self.record is None or record.checkpoint_id > self.record.checkpoint_id:
            self.before, self.record = self.record, record
            self.version += 1

    def rewind(self, *, to_nothing: bool) -> None:
        """The next generation starts from the complete checkpoint before the last, or from nothing; ids still go on."""
        self.before, self.record = None, None if to_nothing else self.before
        self.version += 1

    def latest(self) -> CheckpointRecord | None:
        return self.record

    def discard(self, checkpoint_id: int) -> None:
        if checkpoint_id == 0:
            self.record = None
            self.version += 1

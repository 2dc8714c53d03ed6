"""Defines names that are never used twice: owner, transaction of an attempt, part of a checkpoint.

All are text, so that a target may use them as a key, a file name or a transactional id. They are unique as long as the
engine keeps two promises: generations always rise, and a job never reuses the id of a complete checkpoint.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Owner(NamedTuple):
    """One parallel subtask, as the owner of what earlier attempts left behind, also of subtasks that no longer exist.

    Old subtask k belongs to new subtask k modulo parallelism: to exactly one, for any previous parallelism.
    """

    sink_id: str
    subtask: int
    parallelism: int

    def owns(self, subtask: int) -> bool:
        return subtask % self.parallelism == self.subtask

    def __str__(self) -> str:
        return f"{self.sink_id}-{self.subtask}"


class Transaction(str):
    """`<sink id>-<subtask>-<generation>-<sequence>`: one transaction of one attempt.

    `sequence` is one more than the checkpoint before it, so that the order of sequences is the order of checkpoints.
    """

    __slots__ = ("generation", "sequence", "sink_id", "subtask")
    sink_id: str
    subtask: int
    generation: int
    sequence: int

    @classmethod
    def of(cls, owner: Owner, generation: int, sequence: int) -> Transaction:
        sink_id, subtask, _ = owner
        name = cls.__new__(cls, f"{sink_id}-{subtask}-{generation}-{sequence}")
        name.sink_id, name.subtask, name.generation, name.sequence = sink_id, subtask, generation, sequence
        return name

    @classmethod
    def parse(cls, text: str) -> Transaction:
        """Raises ValueError for anything that `of` did not make."""
        name = cls(text)
        name.sink_id, *numbers = text.rsplit("-", 3)
        name.subtask, name.generation, name.sequence = map(int, numbers)
        return name

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts transactions of one sink by checkpoint."""
        return self.sequence, self.subtask, self.generation

    def __reduce__(self) -> Any:
        return Transaction.parse, (str(self),)


class CheckpointPart(str):
    """`<sink id>-<subtask>-<checkpoint>`: one subtask's rows of one checkpoint, the same in every attempt."""

    __slots__ = ("checkpoint_id", "sink_id", "subtask")
    sink_id: str
    subtask: int
    checkpoint_id: int

    @classmethod
    def of(cls, owner: Owner, checkpoint_id: int) -> CheckpointPart:
        sink_id, subtask, _ = owner
        name = cls.__new__(cls, f"{sink_id}-{subtask}-{checkpoint_id}")
        name.sink_id, name.subtask, name.checkpoint_id = sink_id, subtask, checkpoint_id
        return name

    @classmethod
    def parse(cls, text: str) -> CheckpointPart:
        """Raises ValueError for anything that `of` did not make."""
        name = cls(text)
        name.sink_id, *numbers = text.rsplit("-", 2)
        name.subtask, name.checkpoint_id = map(int, numbers)
        return name

    def __reduce__(self) -> Any:
        return CheckpointPart.parse, (str(self),)


GARBAGE_COUNTED_MOST: Final = (
    2  # state texts distinguish none, one, and more leftovers, which are removed one by one and unread
)


def is_named_in(name: str, text: str) -> bool:
    """Whether the text contains this name and not only a longer one: `sink-0-7-1` is not named in `sink-0-7-10`."""
    at = text.find(name)
    while at >= 0 and text[at + len(name) : at + len(name) + 1].isdigit():
        at = text.find(name, at + 1)
    return at >= 0

"""Sources that can be replayed by split and offset, cut into batches the same way each time."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol

from sinkproof.sink_adapters.protocol import Batch, Row

SHARED_ROWS_MOST: Final = 1000
SHARED_CHARACTERS_MOST: Final = 100 * SHARED_ROWS_MOST


class InputError(ValueError):
    """The input has changed, or is not as described; the message names what, where, and the next step."""


class Source(Protocol):
    """What a job reads."""

    splits: int

    def reader(self, index: int, parallelism: int) -> SourceReader:
        """For source subtask `index`, at the beginning of its splits: those that are `index` modulo `parallelism`."""


class Input(ABC):
    """A bounded source in splits, the same at every replay."""

    splits: int
    batch_rows: int

    def first(self, split: int) -> int:
        """The offset of its first row: a source may have dropped those before."""
        return 0

    @abstractmethod
    def length(self, split: int) -> int:
        """The offset at which the split ends."""

    def offsets(self, split: int) -> Sequence[int]:
        """Those of its rows, in order: a log that was compacted has gaps."""
        return range(self.first(split), self.length(split))

    def after(self, split: int, offset: int) -> int:
        """Where the batch after the one at this offset begins."""
        return min(offset + self.batch_rows, self.length(split))

    @abstractmethod
    def batch(self, split: int, offset: int) -> Batch:
        """The rows from `offset` on, `batch_rows` of them, or fewer at the end."""

    def name_of(self, split: int) -> str:
        """For people."""
        return f"split {split} of the input"

    def reader(self, index: int, parallelism: int) -> SourceReader:
        return InputReader(self, range(index, self.splits, parallelism))


def is_shared(batch: Batch) -> bool:
    """Whether what is made of the batch may be kept as long as this process lives."""
    if batch.columnar or len(batch) > SHARED_ROWS_MOST:
        return False
    return sum(len(row.value) for row in batch) <= SHARED_CHARACTERS_MOST


class GeneratedInput(Input):
    """Rows made from (split, offset) by a pure function; batches of up to `SHARED_ROWS_MOST` rows are made once and
    shared by every run.
    """

    def __init__(
        self, make: Callable[[int, int], Row], *, splits: int = 2, rows_per_split: int = 12, batch_rows: int = 2
    ) -> None:
        self.make, self.splits, self.rows_per_split, self.batch_rows = make, splits, rows_per_split, batch_rows
        self._batches: dict[tuple[int, int], Batch] = {}

    def length(self, split: int) -> int:
        return self.rows_per_split

    def batch(self, split: int, offset: int) -> Batch:
        made = self._batches.get((split, offset))
        if made is None:
            end = min(offset + self.batch_rows, self.length(split))
            made = Batch(self.make(split, at) for at in range(offset, end))
            if is_shared(made):
                self._batches[split, offset] = made
        return made


class SourceReader(ABC):
    """What one source subtask reads; its state is the offset of each of its splits."""

    __slots__ = ("batches_read", "offsets")

    def __init__(self, splits: Iterable[int]) -> None:
        self.offsets = dict.fromkeys(splits, 0)
        self.batches_read = 0

    def restore(self, offsets: Iterable[tuple[int, int]]) -> None:
        self.offsets.update(offsets)

    def ready(self) -> bool:
        """Whether `next` can answer at once. Called first where sources may have to wait."""
        return True

    def caught_up(self) -> bool:
        """Whether all rows that exist were given: only then is a source without rows idle."""
        return True

    @abstractmethod
    def next(self) -> tuple[int, int] | None:
        """(split, offset) of the next batch, or None at the end of all splits; moves past it."""

    @abstractmethod
    def batch(self, split: int, offset: int) -> Batch:
        """The batch that `next` has named."""

    @abstractmethod
    def length(self, split: int) -> float:
        """The offset at which the split ends; infinite if that is unknown."""

    def live(self) -> list[int]:
        """The splits that are not at their end."""
        return [split for split, offset in self.offsets.items() if offset < self.length(split)]

    def capture(self) -> bytes:
        return encode_offsets(tuple(self.offsets.items()))


class InputReader(SourceReader):
    """Reads its splits in turn."""

    __slots__ = ("input", "turn")

    def __init__(self, source: Input, splits: Iterable[int]) -> None:
        super().__init__(splits)
        self.input, self.turn = source, 0
        self.offsets = {split: source.first(split) for split in self.offsets}

    def restore(self, offsets: Iterable[tuple[int, int]]) -> None:
        super().restore(offsets)
        for split, offset in self.offsets.items():
            if offset > self.input.length(split):
                raise InputError(  # without it the split would end here in silence
                    f"{self.input.name_of(split)} holds {self.input.length(split)} rows, but {offset} of it are in "
                    "the checkpoint: it was cut or replaced. Put the old one back, or begin anew with an empty output "
                    "folder"
                )
        read = (bisect_left(self.input.offsets(split), offset) for split, offset in self.offsets.items())
        self.batches_read = sum(-(-rows // self.input.batch_rows) for rows in read)

    def next(self) -> tuple[int, int] | None:
        splits = list(self.offsets)
        for step in range(len(splits)):
            split = splits[(self.turn + step) % len(splits)]
            offset = self.offsets[split]
            if offset < self.input.length(split):
                self.offsets[split] = self.input.after(split, offset)
                self.turn = (self.turn + step + 1) % len(splits)
                self.batches_read += 1
                return split, offset
        return None

    def batch(self, split: int, offset: int) -> Batch:
        return self.input.batch(split, offset)

    def length(self, split: int) -> float:
        return self.input.length(split)


@lru_cache(maxsize=4096)
def encode_offsets(offsets: tuple[tuple[int, int], ...]) -> bytes:
    return json.dumps(sorted(offsets)).encode()


@lru_cache(maxsize=4096)
def decode_offsets(state: bytes) -> tuple[tuple[int, int], ...]:
    return tuple((int(split), int(offset)) for split, offset in json.loads(state))

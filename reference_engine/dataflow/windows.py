"""Event-time tumbling windows: the rows of a key in one stretch of event time become one row.

A result has an identity of its own, made of key and window alone, so that the same window has the same identity after
every replay; its value says how many rows it holds and folds their identities, in any order. A window is fired
once, when the watermark has passed its end, and then removed; a row that comes for it later is late: it is dropped,
and counted. State is kept per key group, each with the watermark that its windows have seen, because groups of one
subtask may come from several.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from sinkproof.reference_engine.dataflow.event_time import NEVER
from sinkproof.reference_engine.dataflow.key_groups import key_group
from sinkproof.sink_adapters.protocol import Batch, Row

IDENTITY_BYTES: Final = 7  # bytes of a digest of key and window, which serve as an offset: each target can hold 56 bits
FOLD_BITS: Final = 64

Window = tuple[str, int]  # key, start
Held = tuple[int, int]  # rows, fold of their identities


def fold_of(split: int, offset: int) -> int:
    """One row's share of a fold: shares are added, so that order does not matter, and twice is not once."""
    return int.from_bytes(blake2b(f"{split}:{offset}".encode(), digest_size=FOLD_BITS // 8).digest(), "big")


def start_of(event_time_ms: int, size_ms: int) -> int:
    return event_time_ms // size_ms * size_ms


def result_of(key: str, start: int, held: Held, *, size_ms: int) -> Row:
    """(split, offset): the key's group, and a digest of key and window."""
    offset = int.from_bytes(blake2b(f"{key}@{start}".encode(), digest_size=IDENTITY_BYTES).digest(), "big")
    value = {"window": [start, start + size_ms], "count": held[0], "fold": f"{held[1]:016x}"}
    return Row(key_group(key), offset, key, json.dumps(value), start + size_ms - 1)


def expected_results(rows: Iterable[Row], *, size_ms: int) -> list[Row]:
    """What a job over these rows must show when none of them was late, sorted: for ledgers."""
    windows: dict[Window, Held] = {}
    for row in rows:
        _add(windows, row, size_ms)
    return sorted(result_of(key, start, held, size_ms=size_ms) for (key, start), held in windows.items())


def _add(windows: dict[Window, Held], row: Row, size_ms: int) -> None:
    window = row.key, start_of(row.event_time_ms, size_ms)
    count, fold = windows.get(window, (0, 0))
    windows[window] = count + 1, (fold + fold_of(row.split, row.offset)) % (1 << FOLD_BITS)


class _Group:
    __slots__ = ("late", "passed", "windows")

    def __init__(self) -> None:
        self.windows: dict[Window, Held] = {}
        self.passed = NEVER  # the watermark that its windows have seen
        self.late = 0


class TumblingWindows:
    """An operator (operators.Operator) that holds rows back until their window is over."""

    __slots__ = ("groups", "size_ms", "watermark")

    def __init__(self, size_ms: int) -> None:
        if size_ms < 1:
            raise ValueError(f"size_ms={size_ms} is impossible: a window holds at least a millisecond")
        self.size_ms = size_ms
        self.groups: dict[int, _Group] = {}
        self.watermark = NEVER

    @property
    def late(self) -> int:
        """Rows that were dropped because their window had been fired."""
        return sum(group.late for group in self.groups.values())

    def apply(self, batch: Batch) -> None:
        for row in batch.rows:
            group = self.groups.setdefault(key_group(row.key), _Group())
            end = start_of(row.event_time_ms, self.size_ms) + self.size_ms
            if end - 1 <= max(self.watermark, group.passed):
                group.late += 1
            else:
                _add(group.windows, row, self.size_ms)

    def on_watermark(self, watermark: float) -> Batch | None:
        """The windows that are over, by time and key."""
        self.watermark = max(self.watermark, watermark)
        over: list[tuple[int, str, Held]] = []
        for group in self.groups.values():
            group.passed = max(group.passed, self.watermark)
            for key, start in [one for one in group.windows if one[1] + self.size_ms - 1 <= self.watermark]:
                over.append((start, key, group.windows.pop((key, start))))
        results = [result_of(key, start, held, size_ms=self.size_ms) for start, key, held in sorted(over)]
        return Batch(results) if results else None

    def capture(self) -> Mapping[int, bytes]:
        return {number: _encode(group) for number, group in sorted(self.groups.items())}

    def restore(self, groups: Iterable[tuple[int, bytes]]) -> None:
        self.groups, self.watermark = {number: _decode(state) for number, state in groups}, NEVER


def _encode(group: _Group) -> bytes:
    windows = [[key, start, *held] for (key, start), held in sorted(group.windows.items())]
    passed = None if group.passed == NEVER else str(group.passed)  # text: infinity is no JSON
    return json.dumps({"passed": passed, "late": group.late, "windows": windows}).encode()


def _decode(state: bytes) -> _Group:
    held, group = json.loads(state), _Group()
    group.passed = NEVER if held["passed"] is None else float(held["passed"])
    group.late = held["late"]
    group.windows = {(key, start): (count, fold) for key, start, count, fold in held["windows"]}
    return group

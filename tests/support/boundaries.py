"""Sinks that are wrong beyond a boundary: offsets that are large, more splits than buckets, a leap day, a generation of
more than sixteen bits; each beside its right sibling.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, ClassVar

from sinkproof import Claim, Context, Fenced, Scratch

BUCKETS = 16


def now() -> date:
    """As attempts see it."""
    return date.fromtimestamp(vars(time)["time"]())


class Parts:
    """A file for each part, replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_committed(self, part: str) -> bool:
        return False

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        self.put(part, rows)

    def put(self, name: str, rows: Sequence[Any]) -> None:
        new = self.folder / f"{name}.new"
        new.write_text(json.dumps([[row.split, row.offset] for row in rows]))
        new.rename(self.folder / f"{name}.json")

    def record(self, part: str) -> None:
        """The files are the record."""


class SharedBucketsOfParts(Parts):
    def bucket(self, row: Any) -> int:
        return int(row.split % BUCKETS)

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        for split in {row.split for row in rows}:
            own = [row for row in rows if row.split == split]
            self.put(f"{part}-{self.bucket(own[0])}", own)


class OwnBucketsOfParts(SharedBucketsOfParts):
    def bucket(self, row: Any) -> int:
        return int(row.split)


class PackedIn32Bits(Parts):
    """A row is known by one number, made of its split and its offset."""

    def number(self, row: Any) -> int:
        return int(row.split << 32) + int(row.offset)

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        for row in rows:
            if not (self.folder / f"{self.number(row)}.json").exists():
                self.put(str(self.number(row)), [row])


class PackedIn48Bits(PackedIn32Bits):
    def number(self, row: Any) -> int:
        return int(row.split << 48) + int(row.offset)


class CutTo32Bits(PackedIn32Bits):
    def number(self, row: Any) -> int:
        return int(row.split << 48) + int(row.offset & 0xFFFFFFFF)


class KeptForYears(Parts):
    def until(self) -> date:
        today = now()
        return today.replace(year=today.year + 1)

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        self.put(f"{part}-{self.until().year}", rows)


class KeptForDays(KeptForYears):
    def until(self) -> date:
        return now() + timedelta(days=366)


class FencedInSixteenBits(Parts):
    bits = 16

    def attach(self, context: Context) -> None:
        epoch, fence = context.generation % (1 << self.bits), self.folder / f"fence-{context.subtask}"
        if fence.exists() and epoch < int(fence.read_text()):
            raise Fenced(f"epoch {epoch}")
        fence.write_text(str(epoch))


class Fenced64Bits(FencedInSixteenBits):
    bits = 64


class SharedBuckets:
    claims = Claim.EXACTLY_ONCE
    made: ClassVar[type[Any]] = SharedBucketsOfParts

    def sink(self, scratch: Scratch) -> Any:
        return self.made(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Sequence[Any]]:
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())


class OwnBuckets(SharedBuckets):
    made = OwnBucketsOfParts


class ThirtyTwoBits(SharedBuckets):
    made = PackedIn32Bits


class FortyEightBits(SharedBuckets):
    made = PackedIn48Bits


class CutOffsets(ThirtyTwoBits):
    made = CutTo32Bits


class Years(SharedBuckets):
    made = KeptForYears


class Days(SharedBuckets):
    made = KeptForDays


class SixteenBits(SharedBuckets):
    made = FencedInSixteenBits


class SixtyFourBits(SharedBuckets):
    made = Fenced64Bits

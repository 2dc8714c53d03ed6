"""Which subtask owns a key: keys belong to key groups, and ranges of key groups to subtasks.

A key group is the unit in which keyed state moves when the parallelism changes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zlib import crc32

KEY_GROUPS: Final = 128  # Flink's default maximum parallelism


@lru_cache(maxsize=65_536)
def key_group(key: str) -> int:
    """0..127. Not `hash`, which differs from process to process.

    A checksum alone leaves keys that differ in one character in one subtask: it is mixed as MurmurHash3 ends (as Flink
    does), so that neighbours part.
    """
    mixed = crc32(key.encode())
    for factor, shift in ((0x85EBCA6B, 13), (0xC2B2AE35, 16)):
        mixed ^= mixed >> 16 if shift == 13 else 0
        mixed = mixed * factor & 0xFFFFFFFF
        mixed ^= mixed >> shift
    return mixed % KEY_GROUPS


def owner_of_group(group: int, parallelism: int) -> int:
    """The subtask that owns a key group; groups stay in contiguous ranges, as in Flink."""
    return group * parallelism // KEY_GROUPS

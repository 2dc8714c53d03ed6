"""Canonical names in the text of a state: states that differ in names only are equal if sinks treat names as opaque.

A generation is recognised by its digits and replaced by its rank, because sinks compare generations. A random name is
replaced by the number of its first appearance. Checkpoint ids are small numbers, which a text contains for many
reasons: they are recognisable only if they begin at a number that occurs for no other reason.
"""

from __future__ import annotations

import re
from typing import Final

FINDABLE_IDS: Final = 9_000  # later checkpoint ids have four digits, unlike any other number in these texts
CHECKPOINT_ID: Final = re.compile(r"(?<!\d)0*90\d\d(?!\d)")
# The look-behind follows the first character of a name, because a search for a literal first character is fast.
GENERATION: Final = re.compile(r"7(?<!\d7)\d{5}(?!\d)")
DRAWN: Final = re.compile(
    r"[0-9a-f](?<![0-9A-Za-z].)[0-9a-f]{7}(?:[0-9a-f]{24}|(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9A-Za-z])"
)


def rank_generations(text: str) -> str:
    """Generations by rank: G0 < G1 < ... in the order of their numbers."""
    tokens = sorted(set(GENERATION.findall(text)))
    if not tokens:
        return text
    ranks = {token: f"G{rank:03d}" for rank, token in enumerate(tokens)}
    return GENERATION.sub(lambda match: ranks[match[0]], text)


def name_drawn(text: str) -> str:
    """Random names (UUIDs, 128 bits in hexadecimal) by the order in which they appear."""
    seen: dict[str, str] = {}
    return DRAWN.sub(lambda match: seen.setdefault(match[0], f"D{len(seen):03d}"), text)


def by_distance(text: str, *, last: int) -> str:
    """Recognisable checkpoint ids relative to the last complete one. A later id will be used again, so it becomes its
    distance; an earlier one will not, so only its rank can matter.
    """
    ids = sorted({int(token) for token in CHECKPOINT_ID.findall(text)} | {last})
    now = ids.index(last)
    names = {each: f"C{rank - now:+d}" if rank <= now else f"C{each - last:+d}" for rank, each in enumerate(ids)}
    return CHECKPOINT_ID.sub(lambda match: names[int(match[0])], text)


def canonical(text: str) -> str:
    return name_drawn(rank_generations(text))

"""Names in the text of a state. States that differ in nothing else are one, for sinks that do not look inside names.

Generations are found by their digits and given their rank, because sinks compare them; names that somebody drew at
random the number of their first appearance. Checkpoint ids are small numbers, and nobody could find them in a text,
unless they begin at one that stands out.
"""

from __future__ import annotations

import re
from typing import Final

FINDABLE_IDS: Final = 9_000  # checkpoint ids that begin behind it have four digits, which nothing else has in any text
CHECKPOINT_ID: Final = re.compile(r"(?<!\d)0*90\d\d(?!\d)")
# What must not stand before a name is looked at behind its first character: texts are searched for that one quickly.
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
    """Names that somebody drew at random (UUIDs, 128 bits in hexadecimal) by the order in which they appear."""
    seen: dict[str, str] = {}
    return DRAWN.sub(lambda match: seen.setdefault(match[0], f"D{len(seen):03d}"), text)


def by_distance(text: str, *, last: int) -> str:
    """Findable checkpoint ids as seen from the last complete one, behind which ids go on. A later id will come again,
    and is given by its distance; an earlier one never does, and only its rank can matter.
    """
    ids = sorted({int(token) for token in CHECKPOINT_ID.findall(text)} | {last})
    now = ids.index(last)
    names = {each: f"C{rank - now:+d}" if rank <= now else f"C{each - last:+d}" for rank, each in enumerate(ids)}
    return CHECKPOINT_ID.sub(lambda match: names[int(match[0])], text)


def canonical(text: str) -> str:
    return name_drawn(rank_generations(text))

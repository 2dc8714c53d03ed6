"""Lists the strategies and the claims and grade of each, on any target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EXACTLY: Final = ("EXACTLY_ONCE", "NO_RESIDUE", "ORDER_PER_KEY", "LIVENESS")
WHOLE: Final = ("ATOMIC_CHECKPOINT", "HONEST_MARKERS")
ON_DISK: Final = ("SURVIVES_POWER_LOSS",)
EFFECTIVELY: Final = ("EFFECTIVELY_ONCE", "LIVENESS")
AT_LEAST: Final = ("AT_LEAST_ONCE", "LIVENESS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The promise of one strategy. Claims are named as in the harness."""

    sentence: str
    claims: tuple[str, ...]
    grade: str


STRATEGIES: Final[dict[str, Strategy]] = {
    "two-phase": Strategy(
        sentence="rows go into a transaction that is pre-committed with the snapshot and committed when it is complete",
        claims=EXACTLY,
        grade="exactly-once",
    ),
    "write-ahead": Strategy(
        sentence="rows wait in the state and are appended to a log when their checkpoint is complete",
        claims=(*AT_LEAST, "NO_EARLY_ROWS"),
        grade="at-least-once",
    ),
    "write-ahead-upsert": Strategy(
        sentence="rows wait in the state and are upserted by row identity when their checkpoint is complete",
        claims=EFFECTIVELY,
        grade="effectively-once",
    ),
    "idempotent": Strategy(
        sentence="rows are upserted at once, under keys that every replay makes again",
        claims=EFFECTIVELY,
        grade="effectively-once",
    ),
    "masked": Strategy(
        sentence="rows are stored at once, hidden until one atomic marker reveals their checkpoint",
        claims=(*EXACTLY, *WHOLE),
        grade="exactly-once",
    ),
    "plain": Strategy(
        sentence="rows are appended at once: what an exactly-once engine alone gives",
        claims=AT_LEAST,
        grade="at-least-once",
    ),
}

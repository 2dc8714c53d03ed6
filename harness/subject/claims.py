"""What a sink may claim, which oracle belongs to which claim, and the grade that was measured."""

from __future__ import annotations

import enum
from typing import Final


class Claim(enum.Flag):
    NO_LOSS = enum.auto()
    NO_DUPLICATES = enum.auto()
    NO_EARLY_ROWS = enum.auto()
    FENCES_ZOMBIES = enum.auto()
    ATOMIC_CHECKPOINT = enum.auto()
    ORDER_PER_KEY = enum.auto()
    LIVENESS = enum.auto()
    NO_RESIDUE = enum.auto()
    SURVIVES_POWER_LOSS = enum.auto()
    HONEST_MARKERS = enum.auto()
    INTACT_ROWS = enum.auto()

    AT_LEAST_ONCE = NO_LOSS
    EFFECTIVELY_ONCE = NO_LOSS | NO_DUPLICATES
    EXACTLY_ONCE = NO_LOSS | NO_DUPLICATES | NO_EARLY_ROWS | FENCES_ZOMBIES


READ_BESIDE: Final = Claim.ATOMIC_CHECKPOINT | Claim.HONEST_MARKERS  # judged by reading while the sinks run
ORACLE_CLAIMS: Final[dict[str, Claim]] = {
    "O1": Claim.NO_LOSS,
    "O2": Claim.NO_DUPLICATES,
    "O3": Claim.NO_EARLY_ROWS,
    "O4": Claim.ATOMIC_CHECKPOINT,
    "O5": Claim.ORDER_PER_KEY,
    "O6": Claim.LIVENESS,
    "O7": Claim.NO_RESIDUE,
    "O8": Claim.SURVIVES_POWER_LOSS,
    "O9": Claim.FENCES_ZOMBIES,
    "O10": Claim.NO_LOSS,
    "O11": Claim.HONEST_MARKERS,
    "O12": Claim.INTACT_ROWS,
}


class Grade(enum.Enum):
    """What was measured, best first. O1, O2, O3, O10 and O12 decide it; other oracles belong to claims of their own."""

    EXACTLY_ONCE = "exactly-once"
    EFFECTIVELY_ONCE = "effectively-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"
    BROKEN = "broken"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, oracles: set[str]) -> Grade:
        """The grade that findings of these oracles leave, given that rows were committed and read."""
        if "O12" in oracles:
            return cls.BROKEN  # a row that was sent is not there, and one that was never sent is
        loss = bool(oracles & {"O1", "O10"})
        if loss:
            return cls.BROKEN if "O2" in oracles else cls.AT_MOST_ONCE
        if "O2" in oracles:
            return cls.AT_LEAST_ONCE
        return cls.EFFECTIVELY_ONCE if "O3" in oracles else cls.EXACTLY_ONCE


GRADE_ORDER: Final = tuple(Grade)


def names(claims: Claim) -> list[str]:
    """The single claims in a combination, in the order of the class."""
    return [claim.name or "" for claim in Claim if claim in claims and bin(claim.value).count("1") == 1]

"""Three verdicts, merged by priority. A verdict has no truth value, so that `if verdict` raises."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NoReturn

EXIT_USAGE = 3
EXIT_INTERNAL = 4
EXIT_INTERRUPTED = 130


class Verdict(enum.Enum):
    UPHELD = "upheld"
    VIOLATED = "violated"
    UNKNOWN = "unknown"

    def __bool__(self) -> NoReturn:
        raise TypeError("a verdict is one of three: compare it with Verdict.UPHELD, VIOLATED or UNKNOWN")

    @property
    def exit_code(self) -> int:
        return {"upheld": 0, "violated": 1, "unknown": 2}[self.value]


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """VIOLATED beats UNKNOWN beats UPHELD; merging nothing is UNKNOWN, because nothing was examined."""
    found = list(verdicts)
    for verdict in (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.UPHELD):
        if verdict in found:
            return verdict
    return Verdict.UNKNOWN

"""Runs of one sink as generators get them, written down: its points and its outward calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult

WRITE: Final = "syscall(write rows)"
SYNC: Final = "syscall(fsync rows)"


def run_of(*points: str, apart: int = 0, statements: Iterable[tuple[str, int]] = ()) -> RunResult:
    """A trace of sink[0]. `apart`: which WRITE was made by another thread. `statements`: calls, and their
    occurrences.
    """
    return RunResult(
        schedule=Schedule(),
        struck=(),
        anomalies=(),
        trace=[(0, point) for point in points],
        names=("sink[0]",),
        history=[],
        finished=True,
        failure="",
        rows_committed=0,
        statements=frozenset(("sink[0]", *statement) for statement in statements),
        calls_apart=frozenset({("sink[0]", WRITE, apart)}),
    )

"""Warns before a target aborts a transaction by its own timeout, and names the timeout when a transaction is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

WARN_AT: Final = 0.8  # of the timeout: late enough to be rare, early enough to act
LOG: Final = logging.getLogger(__name__)


# As in TwoPhaseCommitSink: checkpoint, handle, fragment of the snapshot, and time of its begin in seconds.
Pending = tuple[int, Any, str, float | None]


class TransactionTimeout:
    """The timeout of one sink's transactions in seconds. None: there is none, and the clock is not read."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._warned: set[str] = set()

    def began(self, clock: Callable[[], float]) -> float | None:
        """The time to keep with a transaction that begins now."""
        return None if self._seconds is None else clock()

    def watch(self, pending: Iterable[Pending], clock: Callable[[], float]) -> None:
        """Warns once of each transaction near its timeout."""
        if self._seconds is None:
            return
        now = clock()
        for checkpoint_id, handle, fragment, began in pending:
            if began is None or now - began < WARN_AT * self._seconds or fragment in self._warned:
                continue
            self._warned.add(fragment)
            LOG.warning(
                "transaction %r of checkpoint %d has been pending for %.0f s; after %.0f s the target aborts it, "
                "and its rows are lost if the checkpoint is complete",
                handle,
                checkpoint_id,
                now - began,
                self._seconds,
            )

    def age(self, began: float | None, clock: Callable[[], float]) -> str:
        """For the error that names a lost transaction."""
        if began is None or self._seconds is None:
            return ""
        return f" (begun {clock() - began:.0f} s ago, timeout {self._seconds:.0f} s)"
